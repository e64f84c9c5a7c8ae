//! Compaction keeps all rows, and their order where required.

use proptest::prelude::*;
use warpmill_ir::ColType;

use super::*;
use crate::context::{CancelToken, Settings};
use crate::vector::{Data, Vector};
use arrow::datatypes::DataType;

fn fields() -> Vec<Field> {
    let field = |ty: DataType| Field { name: "c".into(), ty: ColType::of(&ty, true).unwrap() };
    vec![field(DataType::Int64), field(DataType::Int32)]
}

/// Chunks of the given lengths: column 0 counts rows, column 1 is NULL in every third row. Every other chunk has a selection.
fn chunks(lengths: &[(usize, u64)]) -> Vec<Chunk> {
    let mut next = 0i64;
    let make = |(i, &(len, sequence)): (usize, &(usize, u64))| {
        let ids: Vec<i64> = (next..next + len as i64).collect();
        next += len as i64;
        let others = ids.iter().map(|&id| id as i32).collect();
        let validity = (i % 3 > 0).then(|| warpmill_format::Bitmap::from_fn(len, |row| ids[row] % 3 > 0));
        let vectors = vec![Vector::new(Data::I64(ids)), Vector::with_validity(Data::I32(others), validity)];
        let mut chunk = Chunk::from_vectors(vectors.into_iter().map(Arc::new).collect());
        if i % 2 == 1 {
            chunk.select(&(0..len as u32).collect::<Vec<_>>());
        }
        chunk.sequence = sequence;
        chunk
    };
    lengths.iter().enumerate().map(make).collect()
}

type Row = (u64, i64, Option<i32>);

fn rows(chunks: &[Chunk]) -> Vec<Row> {
    let row = |chunk: &Chunk, row: usize| {
        let (Data::I64(ids), Data::I32(others)) = (&chunk.dense(0).data, &chunk.dense(1).data) else { panic!() };
        (chunk.sequence, ids[row], chunk.dense(1).is_valid(row).then(|| others[row]))
    };
    chunks.iter().flat_map(|chunk| (0..chunk.len()).map(move |i| row(chunk, i))).collect()
}

fn run(strategy: Compaction, ordered: bool, chunk_rows: usize, input: &[Chunk]) -> (Vec<Chunk>, CompactionStats) {
    let query = Arc::new(QueryContext::new(Settings { chunk_rows, ..Settings::default() }, CancelToken::default()));
    let operator = CompactionOperator::for_strategy(strategy, &fields(), ordered).unwrap();
    let mut local = operator.local(&query);
    let mut out = vec![];
    let mut emit = |chunk: Chunk| {
        out.push(chunk);
        Ok(())
    };
    input.iter().for_each(|chunk| local.process(chunk.clone(), &mut emit).unwrap());
    local.finish(&mut emit).unwrap();
    (out, operator.stats())
}

proptest! {
    #[test]
    fn keeps_rows(
        mut lengths in prop::collection::vec((1usize..100, 0u64..4), 0..60),
        log in 1u32..9,
        ordered: bool,
    ) {
        let chunk_rows = 1 << log;
        lengths.iter_mut().for_each(|(len, _)| *len = (*len).min(chunk_rows));
        if ordered {
            lengths.sort_by_key(|(_, sequence)| *sequence);
        }
        let input = chunks(&lengths);
        for strategy in [Compaction::Full, Compaction::Binary, Compaction::Learning, Compaction::Smart] {
            let (out, stats) = run(strategy, ordered, chunk_rows, &input);
            prop_assert!(out.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= chunk_rows));
            prop_assert_eq!((stats.chunks_in, stats.chunks_out), (input.len() as u64, out.len() as u64));
            let (mut got, mut expected) = (rows(&out), rows(&input));
            if !ordered {
                got.iter_mut().chain(&mut expected).for_each(|row| row.0 = 0);
                got.sort();
                expected.sort();
            }
            prop_assert_eq!(got, expected);
        }
    }
}

#[test]
fn copies_nothing() {
    assert!(CompactionOperator::for_strategy(Compaction::None, &fields(), false).is_none());
    assert!(CompactionOperator::for_strategy(Compaction::Logical, &fields(), false).is_none());
}

#[test]
fn fills_chunks() {
    let input = chunks(&[(100, 0); 100]);
    let (out, stats) = run(Compaction::Full, false, 2048, &input);
    assert_eq!(out.iter().map(Chunk::len).collect::<Vec<_>>(), [2048, 2048, 2048, 2048, 1808]);
    assert_eq!((stats.rows_in, stats.rows_copied), (10_000, 10_000));
    let (out, _) = run(Compaction::Binary, false, 2048, &input);
    assert_eq!(out.iter().map(Chunk::len).collect::<Vec<_>>(), [2000; 5]);
    let (out, stats) = run(Compaction::Binary, false, 2048, &chunks(&[(129, 0); 3]));
    assert_eq!((out.len(), stats.rows_copied), (3, 0));
}

#[test]
fn counts_rows_without_columns() {
    let query = Arc::new(QueryContext::new(Settings::default(), CancelToken::default()));
    let operator = CompactionOperator::for_strategy(Compaction::Full, &[], false).unwrap();
    let mut local = operator.local(&query);
    let mut total = 0;
    let mut emit = |chunk: Chunk| {
        total += chunk.len();
        Ok(())
    };
    (0..3).for_each(|_| local.process(Chunk::without_columns(7), &mut emit).unwrap());
    local.finish(&mut emit).unwrap();
    assert_eq!(total, 21);
}
