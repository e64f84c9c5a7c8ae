//! Compaction: copying small chunks together.
//!
//! Filters and joins leave few rows in a chunk, and every later operator pays its fixed cost per chunk for them. A [`CompactionOperator`] behind such
//! an operator copies small chunks into full ones; the strategy decides which chunks are small enough for the copy to pay (chunk compaction paper,
//! sections 3 and 4). [`Compaction::Logical`] makes joins emit full chunks in the first place and copies nothing (section 5; see
//! [`crate::join::ProbeOperator`]).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use warpmill_ir::{Field, Phys};

use crate::chunk::Chunk;
use crate::context::{QueryContext, Result};
use crate::operator::{Emit, LocalOperator, Operator};

mod buffer;
mod learner;
#[cfg(test)]
mod tests;

use buffer::Buffer;
use learner::Learner;
pub use learner::THRESHOLDS;

/// The compaction strategy of a query (chunk compaction paper, sections 3.4, 4 and 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compaction {
    /// No compaction.
    None,
    /// Copies every chunk that is not full.
    Full,
    /// Copies chunks below a fixed threshold of 128 rows.
    Binary,
    /// Joins accumulate the matches of one probe chunk; nothing is copied.
    Logical,
    /// Thresholds learned per operator while the query runs.
    Learning,
    /// `Logical` and `Learning` together.
    #[default]
    Smart,
}

impl Compaction {
    /// All strategies, in the paper's order.
    pub const ALL: [Compaction; 6] = [
        Compaction::None,
        Compaction::Full,
        Compaction::Binary,
        Compaction::Learning,
        Compaction::Logical,
        Compaction::Smart,
    ];
}

/// The fixed threshold of [`Compaction::Binary`].
const BINARY_THRESHOLD: usize = 128;

/// The operator that copies small chunks together.
pub struct CompactionOperator {
    spec: Arc<Spec>,
}

struct Spec {
    policy: Policy,
    types: Vec<Phys>,
    ordered: bool,
    counters: Counters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Full,
    Binary,
    Learning,
}

#[derive(Debug, Default)]
struct Counters {
    chunks_in: AtomicU64,
    chunks_out: AtomicU64,
    rows_in: AtomicU64,
    rows_copied: AtomicU64,
    chosen: [AtomicU64; THRESHOLDS.len()],
    resets: AtomicU64,
}

/// Statistics of a compaction operator, over all workers that have finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionStats {
    /// Number of input chunks.
    pub chunks_in: u64,
    /// Number of output chunks.
    pub chunks_out: u64,
    /// Number of input rows, which all are emitted.
    pub rows_in: u64,
    /// Rows that were copied.
    pub rows_copied: u64,
    /// Number of times that each of [`THRESHOLDS`] was chosen (learning only).
    pub chosen: [u64; THRESHOLDS.len()],
    /// Number of times that learning started over because an estimate had moved (learning only).
    pub resets: u64,
}

impl CompactionOperator {
    /// The compaction operator behind an operator that reduces chunks and emits columns `fields`; `None` where `strategy` copies nothing. With
    /// `ordered`, only chunks of equal sequence are copied together, and none overtakes another.
    pub fn for_strategy(strategy: Compaction, fields: &[Field], ordered: bool) -> Option<Self> {
        let policy = match strategy {
            Compaction::None | Compaction::Logical => return None,
            Compaction::Full => Policy::Full,
            Compaction::Binary => Policy::Binary,
            Compaction::Learning | Compaction::Smart => Policy::Learning,
        };
        let types = fields.iter().map(|field| field.ty.phys).collect();
        Some(Self { spec: Arc::new(Spec { policy, types, ordered, counters: Counters::default() }) })
    }

    /// Statistics so far.
    pub fn stats(&self) -> CompactionStats {
        let Counters { chunks_in, chunks_out, rows_in, rows_copied, chosen, resets } = &self.spec.counters;
        CompactionStats {
            chunks_in: chunks_in.load(Relaxed),
            chunks_out: chunks_out.load(Relaxed),
            rows_in: rows_in.load(Relaxed),
            rows_copied: rows_copied.load(Relaxed),
            chosen: std::array::from_fn(|arm| chosen[arm].load(Relaxed)),
            resets: resets.load(Relaxed),
        }
    }
}

impl Operator for CompactionOperator {
    fn into_kept(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn name(&self) -> String {
        format!("Compaction {:?}", self.spec.policy)
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalOperator> {
        Box::new(LocalCompaction {
            spec: self.spec.clone(),
            full: query.settings.chunk_rows,
            buffer: Buffer::new(&self.spec.types, query.settings.chunk_rows),
            learner: Learner::new(self.spec.types.iter().map(|&phys| bytes(phys)).sum()),
            episode: Episode::default(),
            stats: CompactionStats::default(),
        })
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let stats = self.stats();
        let mut counters = vec![
            ("chunks in".into(), stats.chunks_in),
            ("chunks out".into(), stats.chunks_out),
            ("rows copied".into(), stats.rows_copied),
        ];
        let chosen = THRESHOLDS.into_iter().zip(stats.chosen).filter(|(_, chosen)| *chosen > 0);
        counters.extend(chosen.map(|(threshold, chosen)| (format!("threshold {threshold}"), chosen)));
        counters
    }
}

struct LocalCompaction {
    spec: Arc<Spec>,
    /// Rows of a full chunk.
    full: usize,
    buffer: Buffer,
    learner: Learner,
    episode: Episode,
    stats: CompactionStats,
}

/// An episode: one learned threshold is used until a chunk's worth of rows has been emitted.
#[derive(Debug, Default)]
struct Episode {
    arm: Option<usize>,
    rows: usize,
    nanos: u64,
    chunks: u64,
    /// Nanoseconds after which it ends in any case.
    limit: f64,
}

impl LocalOperator for LocalCompaction {
    fn process(&mut self, chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        self.stats.chunks_in += 1;
        self.stats.rows_in += chunk.len() as u64;
        match self.spec.policy {
            Policy::Full => self.compact(chunk, self.full - 1, self.full, emit).map(drop),
            Policy::Binary => self.compact_below(chunk, BINARY_THRESHOLD, emit).map(drop),
            Policy::Learning => self.learn(chunk, emit),
        }
    }

    fn finish(&mut self, emit: Emit<'_>) -> Result<()> {
        self.flush(emit)?;
        self.stats.resets = self.learner.resets();
        self.spec.counters.add(&self.stats);
        self.stats = CompactionStats::default();
        Ok(())
    }
}

impl LocalCompaction {
    /// Chooses a threshold for this episode; its reward is the number of rows emitted per nanosecond spent on copying them and in all later
    /// operators.
    fn learn(&mut self, chunk: Chunk, emit: Emit<'_>) -> Result<()> {
        self.learner.see(chunk.len(), self.full);
        let arm = match self.episode.arm {
            Some(arm) => arm,
            None => {
                let arm = self.learner.select();
                self.episode = Episode { arm: Some(arm), limit: self.learner.limit(arm), ..Episode::default() };
                arm
            }
        };
        let start = Instant::now();
        self.episode.rows += self.compact_below(chunk, THRESHOLDS[arm], emit)?;
        self.episode.chunks += 1;
        let mut nanos = self.episode.nanos + start.elapsed().as_nanos() as u64;
        let ends = self.episode.rows >= self.full || nanos as f64 > self.episode.limit;
        if ends && self.learner.is_new(arm) {
            // The few samples of a new arm are exact only if all copied rows have been emitted.
            self.episode.rows += self.flush(emit)?;
            nanos = self.episode.nanos + start.elapsed().as_nanos() as u64;
        }
        let episode = &mut self.episode;
        episode.nanos = nanos;
        if ends {
            self.stats.chosen[arm] += 1;
            self.learner.update(arm, episode.rows, episode.nanos, episode.chunks);
            *episode = Episode::default();
        }
        Ok(())
    }

    fn compact_below(&mut self, chunk: Chunk, threshold: usize, emit: Emit<'_>) -> Result<usize> {
        let threshold = threshold.min(self.full / 2);
        self.compact(chunk, threshold, self.full - threshold, emit)
    }

    /// Buffers a chunk of at most `threshold` rows, and emits the buffer once it holds `near_full` rows. Returns the number of rows emitted.
    fn compact(&mut self, chunk: Chunk, threshold: usize, near_full: usize, emit: Emit<'_>) -> Result<usize> {
        let mut passed = 0;
        let overtakes = chunk.len() > threshold || chunk.sequence != self.buffer.sequence;
        if self.spec.ordered && overtakes {
            passed += self.flush(emit)?;
        }
        if chunk.len() > threshold {
            self.stats.chunks_out += 1;
            passed += chunk.len();
            emit(chunk)?;
            return Ok(passed);
        }
        self.stats.rows_copied += chunk.len() as u64;
        let mut from = 0;
        while from < chunk.len() {
            let to = chunk.len().min(from + self.full - self.buffer.len());
            self.buffer.append(&chunk, from, to);
            if self.buffer.len() >= near_full {
                passed += self.flush(emit)?;
            }
            from = to;
        }
        Ok(passed)
    }

    fn flush(&mut self, emit: Emit<'_>) -> Result<usize> {
        let Some(chunk) = self.buffer.take() else { return Ok(0) };
        self.stats.chunks_out += 1;
        let rows = chunk.len();
        emit(chunk)?;
        Ok(rows)
    }
}

/// Bytes copied per value.
fn bytes(phys: Phys) -> usize {
    match phys {
        Phys::Bool => 1,
        Phys::I32 | Phys::F32 | Phys::Code => 4,
        Phys::I64 | Phys::F64 => 8,
        Phys::I128 | Phys::Str => 16,
    }
}

impl Counters {
    fn add(&self, stats: &CompactionStats) {
        self.chunks_in.fetch_add(stats.chunks_in, Relaxed);
        self.chunks_out.fetch_add(stats.chunks_out, Relaxed);
        self.rows_in.fetch_add(stats.rows_in, Relaxed);
        self.rows_copied.fetch_add(stats.rows_copied, Relaxed);
        self.chosen.iter().zip(stats.chosen).for_each(|(sum, chosen)| {
            sum.fetch_add(chosen, Relaxed);
        });
        self.resets.fetch_add(stats.resets, Relaxed);
    }
}
