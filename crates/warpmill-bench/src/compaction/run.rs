//! Drives one pipeline on one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpmill_cpu::compaction::{Compaction, CompactionOperator, CompactionStats};
use warpmill_cpu::context::{QueryContext, Settings};
use warpmill_cpu::operator::{Emit, LocalOperator, Operator};
use warpmill_eval::Result;
use warpmill_eval::cancel::CancelToken;
use warpmill_eval::chunk::Chunk;
use warpmill_eval::vector::Data;
use warpmill_ir::Field;

use super::workload::Workload;

/// Measurements of one run of a pipeline.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub time: Duration,
    pub rows: u64,
    pub chunks: u64,
    /// Checksum of the 64-bit columns of all rows, independent of their order; zero unless requested.
    pub checksum: u64,
    /// Per compaction operator.
    pub compaction: Vec<CompactionStats>,
}

/// Keeps rows whose first column is below a bound.
struct Below(i64);

impl LocalOperator for Below {
    fn process(&mut self, mut chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        let column = chunk.dense(0).clone();
        let Data::I64(values) = &column.data else { unreachable!("id_1 is a 64-bit integer") };
        let rows: Vec<u32> = (0..values.len()).filter(|&row| values[row] < self.0).map(|row| row as u32).collect();
        if rows.is_empty() {
            return Ok(());
        }
        if rows.len() < chunk.len() {
            chunk.select(&rows);
        }
        emit(chunk)
    }
}

/// Runs R through an optional filter `id_1 < below` and all joins, each followed by a compactor.
pub fn run(
    workload: &Workload,
    strategy: Compaction,
    chunk_rows: usize,
    below: Option<i64>,
    verify: bool,
) -> Result<Outcome> {
    let settings = Settings { chunk_rows, compaction: strategy, ..Settings::default() };
    let query = Arc::new(QueryContext::new(settings, CancelToken::default()));
    let mut compactors = vec![];
    let mut operators: Vec<Box<dyn LocalOperator>> = vec![];
    let mut compact = |operators: &mut Vec<Box<dyn LocalOperator>>, fields: &[Field]| {
        if let Some(compactor) = CompactionOperator::for_strategy(strategy, fields, false) {
            operators.push(compactor.local(&query));
            compactors.push(compactor);
        }
    };
    if let Some(below) = below {
        operators.push(Box::new(Below(below)));
        compact(&mut operators, &workload.fields());
    }
    for (join, fields) in workload.joins()? {
        operators.push(join.local(&query));
        compact(&mut operators, &fields);
    }
    let mut outcome = Outcome::default();
    let mut sink = |chunk: Chunk| {
        outcome.rows += chunk.len() as u64;
        outcome.chunks += 1;
        if verify {
            outcome.checksum = outcome.checksum.wrapping_add(checksum(&chunk));
        }
        Ok(())
    };
    let start = Instant::now();
    for chunk in workload.chunks(chunk_rows) {
        push(&mut operators, chunk, &mut sink)?;
    }
    finish(&mut operators, &mut sink)?;
    outcome.time = start.elapsed();
    outcome.compaction = compactors.iter().map(CompactionOperator::stats).collect();
    Ok(outcome)
}

fn push(operators: &mut [Box<dyn LocalOperator>], chunk: Chunk, sink: Emit<'_>) -> Result<()> {
    match operators.split_first_mut() {
        None => sink(chunk),
        Some((first, rest)) => first.process(chunk, &mut |chunk| push(rest, chunk, sink)),
    }
}

fn finish(operators: &mut [Box<dyn LocalOperator>], sink: Emit<'_>) -> Result<()> {
    let Some((first, rest)) = operators.split_first_mut() else { return Ok(()) };
    first.finish(&mut |chunk| push(rest, chunk, sink))?;
    finish(rest, sink)
}

/// A sum over rows of a hash of each row's 64-bit columns.
fn checksum(chunk: &Chunk) -> u64 {
    let mut rows = vec![0u64; chunk.len()];
    for column in 0..chunk.columns().len() {
        if let Data::I64(values) = &chunk.dense(column).data {
            for (row, value) in rows.iter_mut().zip(values) {
                *row = super::workload::scatter(*row ^ *value as u64) as u64;
            }
        }
    }
    rows.into_iter().fold(0, u64::wrapping_add)
}
