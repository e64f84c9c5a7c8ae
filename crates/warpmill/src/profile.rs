//! The profile of a statement, from text to rows.

use serde::Serialize;

/// The profile of a statement.
#[derive(Debug, Clone, Default, Serialize)]
pub struct QueryProfile {
    /// One per program, in the order in which they ended.
    pub programs: Vec<warpmill_engine::QueryProfile>,
    /// Operators that DataFusion ran, with the reason.
    pub fallbacks: Vec<String>,
    /// Programs that were abandoned and run again with wider sums, because more rows than estimated reached their sums.
    pub widened: u64,
    /// Encoded bytes that scans of Warpmill's tables read.
    pub bytes_read: u64,
    /// From text to physical plan, in nanoseconds.
    pub planning_nanos: u64,
    /// From physical plan to batches, in nanoseconds.
    pub execution_nanos: u64,
    /// Whether the plan came from the plan cache.
    pub plan_cached: bool,
    /// Whether the optimized plan was that of a statement with other constants.
    pub plan_from_template: bool,
    /// Whether that statement was found by the text: this one was neither parsed nor bound.
    pub plan_from_text: bool,
}

impl std::fmt::Display for QueryProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let source = match (self.plan_cached, self.plan_from_template) {
            (true, _) => " (cached)",
            (false, true) => " (from a template)",
            (false, false) => "",
        };
        let (planning, execution) = (ms(self.planning_nanos), ms(self.execution_nanos));
        writeln!(f, "planning {planning:.3} ms{source}, execution {execution:.3} ms, {} bytes read", self.bytes_read)?;
        if self.widened > 0 {
            writeln!(f, "{} program(s) run again with wider sums", self.widened)?;
        }
        for (i, program) in self.programs.iter().enumerate() {
            write!(f, "program {i}: {program}")?;
        }
        Ok(())
    }
}
