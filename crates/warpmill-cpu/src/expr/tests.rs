use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_plan::{ArithOp, ColType, CompareOp, Expr, ExprKind, Scalar};

use super::PreparedExpr;
use crate::chunk::Chunk;
use crate::context::{QueryContext, Worker};
use crate::vector::{Data, Vector};

fn worker() -> Worker {
    Worker::new(&Arc::new(QueryContext::default()))
}

fn ty(logical: DataType) -> ColType {
    ColType::of(&logical, true).unwrap()
}

#[test]
fn first_light() {
    let int = ty(DataType::Int32);
    let column = Expr::column(0, int.clone());
    let lit = |v| Expr::literal(Scalar::Int(v), int.clone());
    let sum = Expr {
        kind: ExprKind::Arith { op: ArithOp::Add, left: column.clone().into(), right: lit(3).into(), checked: true },
        ty: int.clone(),
    };
    let less = Expr {
        kind: ExprKind::Compare { op: CompareOp::Lt, left: sum.clone().into(), right: lit(50).into() },
        ty: ty(DataType::Boolean),
    };
    let chunk = Chunk::from_vectors(vec![Arc::new(Vector::new(Data::I32((0..100).collect())))]);
    let rows = PreparedExpr::new(&less).unwrap().select(&chunk, &mut worker()).unwrap().unwrap();
    assert_eq!(rows, (0..47).collect::<Vec<u32>>());
    let Data::I32(values) = PreparedExpr::new(&sum).unwrap().eval(&chunk, &mut worker()).unwrap().data.clone() else {
        panic!("not integers")
    };
    assert_eq!(values, (3..103).collect::<Vec<i32>>());
}
