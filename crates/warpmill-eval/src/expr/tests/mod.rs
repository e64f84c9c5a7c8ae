//! Expressions against straightforward oracles: rows as options, Arrow's kernels for casts, dates and LIKE.

use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_format::Bitmap;
use warpmill_ir::{ArithOp, ColType, CompareOp, Expr, ExprKind, Function, Scalar};

use super::PreparedExpr;
use super::value::Native;
use crate::chunk::Chunk;
use crate::error::ExecError;
use crate::memory::{QueryMemory, Worker};
use crate::vector::{Data, Vector};

mod conversions;
mod dictionaries;
mod logic;
mod numbers;
mod recoding;
mod strings;

pub fn worker() -> Worker {
    Worker::new(&Arc::new(QueryMemory::default()))
}

pub fn ty(logical: DataType) -> ColType {
    ColType::of(&logical, true).unwrap()
}

/// A vector of optional values.
pub fn vector<T: Native>(rows: &[Option<T>]) -> Arc<Vector> {
    let data = T::wrap(rows.iter().map(|row| row.unwrap_or_default()).collect());
    Arc::new(Vector::with_validity(data, Some(Bitmap::from_fn(rows.len(), |i| rows[i].is_some()))))
}

/// The rows of a vector.
pub fn rows<T: Native>(vector: &Vector) -> Vec<Option<T>> {
    T::values(&vector.data).iter().enumerate().map(|(i, &value)| vector.is_valid(i).then_some(value)).collect()
}

/// The strings of a vector, leaked.
pub fn strings(vector: &Vector) -> Vec<Option<&'static str>> {
    rows::<warpmill_format::StrView>(vector)
        .into_iter()
        .map(|row| row.map(|view| &*view.as_str().to_owned().leak()))
        .collect()
}

pub fn texts(rows: &[Option<&str>]) -> Arc<Vector> {
    vector(&rows.iter().map(|row| row.map(warpmill_format::StrView::new)).collect::<Vec<_>>())
}

pub fn expr(kind: ExprKind, logical: DataType) -> Expr {
    Expr { kind, ty: ty(logical) }
}

pub fn col(index: usize, logical: DataType) -> Expr {
    Expr::column(index, ty(logical))
}

pub fn int(value: i128, logical: DataType) -> Expr {
    Expr::literal(Scalar::Int(value), ty(logical))
}

pub fn text(value: &str) -> Expr {
    Expr::literal(Scalar::Str(value.into()), ty(DataType::Utf8))
}

pub fn arith(op: ArithOp, left: Expr, right: Expr, checked: bool) -> Expr {
    let ty = left.ty.clone();
    Expr { kind: ExprKind::Arith { op, left: left.into(), right: right.into(), checked }, ty }
}

pub fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Compare { op, left: left.into(), right: right.into() }, DataType::Boolean)
}

pub fn call(function: Function, args: Vec<Expr>, logical: DataType) -> Expr {
    expr(ExprKind::Call { function, args }, logical)
}

pub fn eval(expr: &Expr, columns: &[Arc<Vector>]) -> Result<Arc<Vector>, ExecError> {
    let prepared = Box::leak(Box::new(PreparedExpr::new(expr)?));
    let worker = Box::leak(Box::new(worker()));
    prepared.eval(&Chunk::from_vectors(columns.to_vec()), worker)
}

/// The selected rows, as a list.
pub fn select(expr: &Expr, columns: &[Arc<Vector>]) -> Vec<u32> {
    let chunk = Chunk::from_vectors(columns.to_vec());
    let rows = PreparedExpr::new(expr).unwrap().select(&chunk, &mut worker()).unwrap();
    rows.unwrap_or_else(|| (0..chunk.len() as u32).collect())
}

#[test]
fn bits_pack_and_unpack() {
    use super::value::{pack, rows_of, unpack};
    for len in [0, 1, 63, 64, 65, 200, 2048] {
        let values: Vec<bool> = (0..len).map(|i| i % 3 == 0 || i % 7 == 2 || (64..128).contains(&i)).collect();
        let bits = pack(&values);
        assert_eq!(unpack(&bits), values);
        let set = (0..len as u32).filter(|&i| values[i as usize]).collect::<Vec<_>>();
        assert_eq!(rows_of(&bits), set);
    }
}

#[test]
fn empty_chunks_and_constants() {
    let sum = arith(ArithOp::Add, int(2, DataType::Int64), int(3, DataType::Int64), true);
    let prepared = PreparedExpr::new(&sum).unwrap();
    assert_eq!(rows::<i64>(&prepared.eval(&Chunk::without_columns(3), &mut worker()).unwrap()), [Some(5); 3]);
    assert_eq!(prepared.eval(&Chunk::without_columns(0), &mut worker()).unwrap().len(), 0);
    let empty: Arc<Vector> = Arc::new(Vector::new(Data::I64(vec![])));
    let less = compare(CompareOp::Lt, col(0, DataType::Int64), int(3, DataType::Int64));
    assert_eq!(select(&less, std::slice::from_ref(&empty)), [] as [u32; 0]);
    assert_eq!(eval(&less, &[empty]).unwrap().len(), 0);
}
