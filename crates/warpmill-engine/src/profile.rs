//! What a query did, for EXPLAIN ANALYZE and machines.

use serde::Serialize;
use warpmill_cpu::profile::PipelineProfile;

/// The profile of one program.
#[derive(Debug, Clone, Default, Serialize)]
pub struct QueryProfile {
    /// In order of execution.
    pub pipelines: Vec<PipelineProfile>,
    /// Encoded bytes that scans read.
    pub bytes_read: u64,
    /// Largest memory account, in bytes.
    pub peak_memory: u64,
    /// From program to Arrow batches, in nanoseconds.
    pub wall_nanos: u64,
    /// Which back end ran it.
    pub device: &'static str,
}

impl std::fmt::Display for QueryProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        writeln!(f, "{}: {:.3} ms, {} bytes read", self.device, ms(self.wall_nanos), self.bytes_read)?;
        for (i, pipeline) in self.pipelines.iter().enumerate() {
            let (wall, finish) = (ms(pipeline.wall_nanos), ms(pipeline.finish_nanos));
            writeln!(
                f,
                "pipeline {i}: {wall:.3} ms on {} worker(s), sink finished in {finish:.3} ms",
                pipeline.workers
            )?;
            for operator in &pipeline.operators {
                write!(f, "  {:<60} rows {:>10}", shortened(&operator.name, 60), operator.rows)?;
                write!(f, "  chunks {:>7}  {:>9.3} ms", operator.chunks, ms(operator.nanos))?;
                for (name, value) in &operator.counters {
                    write!(f, "  {name}={value}")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    text.chars().take(width - 3).chain("...".chars()).collect()
}
