//! Builds large enough to run in parallel.

use std::collections::HashMap;
use std::sync::Arc;

use warpmill_format::StrView;
use warpmill_ir::{Expr, Field, JoinKind, Phys, Probe};

use super::case::column_type;
use crate::chunk::Chunk;
use crate::context::{CancelToken, ExecError, QueryContext, Settings};
use crate::expr::PreparedExpr;
use crate::join::{HashBuildSink, HashTable, ProbeOperator};
use crate::operator::{Operator, Sink, SinkOutput};
use crate::vector::{Data, Vector};

const ROWS: usize = 300_000;

fn build(keys: &Data, query: &Arc<QueryContext>) -> Result<Arc<HashTable>, ExecError> {
    let phys = keys.phys();
    let key = PreparedExpr::new(&Expr::column(0, column_type(phys))).unwrap();
    let sink = HashBuildSink::new(vec![key], vec![phys], vec![1], vec![Phys::I64], false, false);
    let mut locals: Vec<_> = (0..3).map(|_| sink.local(query)).collect();
    for (i, start) in (0..keys.len()).step_by(2048).enumerate() {
        let len = 2048.min(keys.len() - start);
        let ids = Data::I64((start as i64..(start + len) as i64).collect());
        let vectors = [keys.slice(start, len), ids].map(|data| Arc::new(Vector::new(data)));
        locals[i % 3].consume(Chunk::from_vectors(vectors.to_vec()))?;
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    match sink.finish(locals, query, &pool)? {
        SinkOutput::Hash(table) => Ok(table),
        SinkOutput::Rows(_) | SinkOutput::Spilled(_) => panic!(),
    }
}

/// Joins the keys with themselves and compares the pairs with a map's.
fn check(keys: Data, kind: &str) {
    let query = Arc::new(QueryContext::new(Settings::default(), CancelToken::default()));
    let table = build(&keys, &query).unwrap();
    assert_eq!(table.kind(), kind);
    let field = |phys: Phys| Field { name: "c".into(), ty: column_type(phys) };
    let probe = Probe {
        build: 0,
        kind: JoinKind::Inner,
        keys: vec![Expr::column(0, column_type(keys.phys()))],
        residual: None,
        asof: None,
        range: None,
        null_aware: false,
        output: vec![1, 2],
        fields: vec![field(Phys::I64), field(Phys::I64)],
    };
    let name = |row: usize| match &keys {
        Data::I64(v) => v[row].to_string(),
        Data::Str(v) => v[row].as_str().to_owned(),
        _ => panic!(),
    };
    let mut groups: HashMap<String, Vec<i64>> = HashMap::new();
    (0..keys.len()).for_each(|row| groups.entry(name(row)).or_default().push(row as i64));
    let operator = ProbeOperator::new(&probe, table).unwrap();
    let mut local = operator.local(&query);
    for start in (0..keys.len()).step_by(10 * 2048) {
        let len = 2048.min(keys.len() - start);
        let ids = Data::I64((start as i64..(start + len) as i64).collect());
        let vectors = [keys.slice(start, len), ids].map(|data| Arc::new(Vector::new(data)));
        let mut found: HashMap<i64, Vec<i64>> = HashMap::new();
        let mut emit = |chunk: Chunk| {
            let (left, right) = (chunk.dense(0).clone(), chunk.dense(1).clone());
            let (Data::I64(left), Data::I64(right)) = (&left.data, &right.data) else { panic!() };
            left.iter().zip(right).for_each(|(&left, &right)| found.entry(left).or_default().push(right));
            Ok(())
        };
        local.process(Chunk::from_vectors(vectors.to_vec()), &mut emit).unwrap();
        assert_eq!(found.len(), len);
        for (row, mut matches) in found {
            matches.sort_unstable();
            assert_eq!(matches, groups[&name(row as usize)]);
        }
    }
}

fn ints(key: impl Fn(i64) -> i64) -> Data {
    Data::I64((0..ROWS as i64).map(key).collect())
}

fn strings(key: impl Fn(usize) -> usize) -> Data {
    let view = |i: usize| StrView::new(Box::leak(format!("key number {}", key(i)).into_boxed_str()));
    Data::Str((0..ROWS).map(view).collect())
}

#[test]
fn direct_unique() {
    check(ints(|i| (i * 7919) % 300_007 - 1000), "direct, unique");
}

#[test]
fn direct_runs() {
    check(ints(|i| (i * 7919) % 100_003), "direct, runs");
}

#[test]
fn integer_hash_unique() {
    check(ints(|i| i * 2_654_435_761), "integer hash, unique");
}

#[test]
fn integer_hash_runs() {
    check(ints(|i| i % 100_003 * 2_654_435_761), "integer hash, runs");
}

#[test]
fn hash_unique() {
    check(strings(|i| i), "hash, unique");
}

#[test]
fn hash_runs() {
    check(strings(|i| i % 50_021), "hash, runs");
}

#[test]
fn memory_limit() {
    let settings = Settings { memory_limit: 1 << 20, ..Settings::default() };
    let query = Arc::new(QueryContext::new(settings, CancelToken::default()));
    let result = build(&ints(|i| i), &query);
    assert!(matches!(result, Err(ExecError::OutOfMemory { operator: "hash build", .. })));
}

#[test]
fn key_ranges() {
    let query = Arc::new(QueryContext::new(Settings::default(), CancelToken::default()));
    let table = build(&Data::I64(vec![5, -3, 9]), &query).unwrap();
    assert_eq!(table.key_range(0), Some((-3, 9)));
    assert_eq!(table.filter(0).unwrap().keys(), 3);
    let table = build(&Data::I64(vec![]), &query).unwrap();
    assert_eq!(table.key_range(0), Some((i128::MAX, i128::MIN)));
}
