//! The measurements of a query: rows, chunks, time and bytes per operator.

use serde::Serialize;

/// One source, operator or sink of a pipeline.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OperatorProfile {
    /// As EXPLAIN shows it.
    pub name: String,
    /// Rows that left it (for sinks: rows taken in).
    pub rows: u64,
    /// Chunks that left it (for sinks: chunks taken in).
    pub chunks: u64,
    /// Time in it alone, summed over workers, in nanoseconds.
    pub nanos: u64,
    /// Further counters: name and count.
    pub counters: Vec<(String, u64)>,
}

/// One pipeline.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PipelineProfile {
    /// Source first, sink last.
    pub operators: Vec<OperatorProfile>,
    /// Workers that took part.
    pub workers: usize,
    /// From the first morsel to the last chunk consumed, in nanoseconds.
    pub wall_nanos: u64,
    /// Time to finish the sink, if this pipeline was the last to feed it, in nanoseconds.
    pub finish_nanos: u64,
}

impl PipelineProfile {
    /// The sum of a counter over all operators.
    pub fn counter(&self, name: &str) -> u64 {
        self.operators.iter().flat_map(|op| &op.counters).filter(|(key, _)| key == name).map(|(_, value)| value).sum()
    }
}
