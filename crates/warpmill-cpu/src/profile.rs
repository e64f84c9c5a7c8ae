//! Measurements of a query: rows, chunks, time and bytes per operator.

use serde::Serialize;

/// Measurements of one source, operator or sink of a pipeline.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OperatorProfile {
    /// Name in EXPLAIN.
    pub name: String,
    /// Number of output rows (of input rows for sinks).
    pub rows: u64,
    /// Number of output chunks (of input chunks for sinks).
    pub chunks: u64,
    /// Time in this operator alone, summed over workers, in nanoseconds.
    pub nanos: u64,
    /// Further counters: name and value.
    pub counters: Vec<(String, u64)>,
}

/// Measurements of one pipeline.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PipelineProfile {
    /// Operators: source first, sink last.
    pub operators: Vec<OperatorProfile>,
    /// Number of workers that took part.
    pub workers: usize,
    /// Time from the first morsel to the last chunk consumed, in nanoseconds.
    pub wall_nanos: u64,
    /// Time to finish the sink, in nanoseconds; 0 unless this pipeline was the last to feed it.
    pub finish_nanos: u64,
}

impl PipelineProfile {
    /// Sum of a counter over all operators.
    pub fn counter(&self, name: &str) -> u64 {
        self.operators.iter().flat_map(|op| &op.counters).filter(|(key, _)| key == name).map(|(_, value)| value).sum()
    }
}
