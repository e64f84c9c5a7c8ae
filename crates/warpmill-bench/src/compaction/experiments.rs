//! The micro-benchmarks of the chunk compaction paper.

use std::time::{Duration, Instant};

use serde::Serialize;
use warpmill_cpu::CHUNK_ROWS;
use warpmill_cpu::compaction::{Compaction, THRESHOLDS};
use warpmill_eval::{ExecError, Result};

use super::run::{Outcome, run};
use super::workload::{Shape, Workload};

/// A part of the paper's section 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// 6.1: two to four joins, chunk-reducing factors 2 to 32.
    ReducingFactor,
    /// 6.2: four joins, factor 8, tuples of 32 to 1000 bytes.
    TupleLength,
    /// 6.3: the thresholds that three joins learn, with S_2 of 16 and of 1000 bytes.
    LearnedThresholds,
    /// 6.6: chunks of 64 to 2048 rows.
    ChunkRows,
    /// 6.7: a filter of varying selectivity before three joins.
    FilterAndJoins,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Experiment; 5] = [
        Experiment::ReducingFactor,
        Experiment::TupleLength,
        Experiment::LearnedThresholds,
        Experiment::ChunkRows,
        Experiment::FilterAndJoins,
    ];
}

/// The measurements to make.
#[derive(Debug, Clone)]
pub struct CompactionOptions {
    /// Rows of R (each S_i has a tenth). The paper's are 20 million.
    pub rows: usize,
    /// Number of timed runs, of which the median counts. Fewer if runs take longer than two seconds together.
    pub runs: usize,
    /// The experiments.
    pub experiments: Vec<Experiment>,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self { rows: 1_000_000, runs: 3, experiments: Experiment::ALL.to_vec() }
    }
}

impl CompactionOptions {
    /// The paper's sizes.
    pub fn full() -> Self {
        Self { rows: 20_000_000, ..Self::default() }
    }
}

/// One strategy on one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactionRow {
    /// The experiment.
    pub experiment: Experiment,
    /// The strategy's name.
    pub strategy: String,
    /// Number of joins.
    pub joins: usize,
    /// Chunk size before a join over that after it.
    pub reducing_factor: usize,
    /// Bytes of a tuple of R.
    pub probe_bytes: usize,
    /// Bytes of a tuple of each S_i.
    pub build_bytes: Vec<usize>,
    /// Rows of a full chunk.
    pub chunk_rows: usize,
    /// Fraction of R that the filter keeps; `None`: no filter.
    pub selectivity: Option<f64>,
    /// Rows of R.
    pub rows: usize,
    /// Median time of a run on one thread, without hash builds.
    pub seconds: f64,
    /// Number of output rows.
    pub output_rows: u64,
    /// Number of output chunks.
    pub output_chunks: u64,
    /// A hash of the result in any order, equal for all strategies (checked).
    pub checksum: u64,
    /// How often each compactor chose each threshold (learning strategies only).
    pub thresholds: Vec<ThresholdShare>,
}

/// The number of times that a compactor chose a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThresholdShare {
    /// Position of the compactor in the pipeline, from 0.
    pub compactor: usize,
    /// The threshold, in rows.
    pub threshold: usize,
    /// Its share of all choices.
    pub share: f64,
}

/// One workload and how to run it.
struct Setup {
    experiment: Experiment,
    shape: Shape,
    chunk_rows: usize,
    selectivity: Option<f64>,
    strategies: Vec<Compaction>,
}

/// Runs the micro-benchmarks. Fails if two strategies disagree on a result.
pub fn compaction(options: &CompactionOptions) -> Result<Vec<CompactionRow>> {
    let mut rows = vec![];
    for &experiment in &options.experiments {
        for setup in setups(experiment, options.rows) {
            measure(&setup, options.runs, &mut rows)?;
        }
    }
    Ok(rows)
}

fn setups(experiment: Experiment, rows: usize) -> Vec<Setup> {
    let setup = |factor, probe_bytes, build_bytes: &[usize]| Setup {
        experiment,
        shape: Shape { probe_rows: rows, factor, probe_bytes, build_bytes: build_bytes.to_vec() },
        chunk_rows: CHUNK_ROWS,
        selectivity: None,
        strategies: Compaction::ALL.to_vec(),
    };
    match experiment {
        Experiment::ReducingFactor => (2..=4)
            .flat_map(|joins| [2, 4, 8, 16, 32].map(|factor| (joins, factor)))
            .map(|(joins, factor)| setup(factor, 100, &vec![16; joins]))
            .collect(),
        Experiment::TupleLength => [32, 100, 200, 400, 600, 800, 1000].map(|bytes| setup(8, bytes, &[16; 4])).into(),
        Experiment::LearnedThresholds => [16, 1000]
            .map(|bytes| Setup {
                strategies: vec![Compaction::Binary, Compaction::Learning],
                ..setup(8, 32, &[16, bytes, 16])
            })
            .into(),
        Experiment::ChunkRows => [64, 128, 256, 512, 1024, 2048]
            .map(|chunk_rows| Setup {
                chunk_rows,
                strategies: vec![Compaction::None, Compaction::Full, Compaction::Logical],
                ..setup(8, 32, &[16; 3])
            })
            .into(),
        Experiment::FilterAndJoins => [0.01, 0.05, 0.1, 0.2, 0.5, 1.0]
            .map(|selectivity| Setup { selectivity: Some(selectivity), ..setup(5, 32, &[2000, 16, 16]) })
            .into(),
    }
}

fn measure(setup: &Setup, runs: usize, rows: &mut Vec<CompactionRow>) -> Result<()> {
    let workload = Workload::new(&setup.shape)?;
    // Ids are uniform over all 64-bit integers.
    let below = setup.selectivity.map(|part| (part * 2f64.powi(64) - 2f64.powi(63)) as i64);
    let first = rows.len();
    for &strategy in &setup.strategies {
        let once = |verify| run(&workload, strategy, setup.chunk_rows, below, verify);
        let checked = once(true)?;
        if let Some(other) = rows[first..].first()
            && (other.checksum, other.output_rows) != (checked.checksum, checked.rows)
        {
            let message = format!("{strategy:?} and {} compaction give different results", other.strategy);
            return Err(ExecError::Value(message));
        }
        let start = Instant::now();
        let mut timed = vec![once(false)?];
        while timed.len() < runs && start.elapsed() < Duration::from_secs(2) {
            timed.push(once(false)?);
        }
        timed.sort_by_key(|outcome| outcome.time);
        let median = timed.swap_remove(timed.len() / 2);
        rows.push(row(setup, strategy, &checked, &median));
    }
    Ok(())
}

fn row(setup: &Setup, strategy: Compaction, checked: &Outcome, median: &Outcome) -> CompactionRow {
    let shape = &setup.shape;
    CompactionRow {
        experiment: setup.experiment,
        strategy: format!("{strategy:?}").to_lowercase(),
        joins: shape.build_bytes.len(),
        reducing_factor: shape.factor,
        probe_bytes: shape.probe_bytes,
        build_bytes: shape.build_bytes.clone(),
        chunk_rows: setup.chunk_rows,
        selectivity: setup.selectivity,
        rows: shape.probe_rows,
        seconds: median.time.as_secs_f64(),
        output_rows: median.rows,
        output_chunks: median.chunks,
        checksum: checked.checksum,
        thresholds: shares(median),
    }
}

fn shares(outcome: &Outcome) -> Vec<ThresholdShare> {
    let mut shares = vec![];
    for (compactor, stats) in outcome.compaction.iter().enumerate() {
        let all = stats.chosen.iter().sum::<u64>();
        for (threshold, chosen) in THRESHOLDS.into_iter().zip(stats.chosen).filter(|(_, chosen)| *chosen > 0) {
            shares.push(ThresholdShare { compactor, threshold, share: chosen as f64 / all as f64 });
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_agree() {
        let experiments = Experiment::ALL[1..].to_vec();
        let rows = compaction(&CompactionOptions { rows: 20_000, runs: 1, experiments }).unwrap();
        for row in rows.iter().filter(|row| row.selectivity.is_none()) {
            // Each join returns as many rows as it reads, except for rounding.
            assert!((15_000..25_000).contains(&row.output_rows), "{row:?}");
        }
    }

    #[test]
    fn reducing_factor_is_what_it_says() {
        let shape = Shape { probe_rows: 200_000, factor: 8, probe_bytes: 32, build_bytes: vec![16] };
        let workload = Workload::new(&shape).unwrap();
        let steps = run(&workload, Compaction::None, 2048, None, true).unwrap();
        let mean = steps.rows as f64 / steps.chunks as f64;
        assert!((200.0..312.0).contains(&mean), "chunks of {mean} rows, 2048 / 8 expected");
        let logical = run(&workload, Compaction::Logical, 2048, None, true).unwrap();
        assert!(logical.chunks * 4 < steps.chunks);
        assert_eq!((logical.rows, logical.checksum), (steps.rows, steps.checksum));
    }
}
