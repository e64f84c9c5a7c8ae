//! Joins whose hash builds do not fit the device's memory: how they are done, and why. [`crate::execute`] decides.

use serde::Serialize;
use warpmill_plan::{SinkId, Unsupported};

/// How joins are done whose hash builds do not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinStrategy {
    /// As is predicted to be the fastest.
    #[default]
    Auto,
    /// Builds are made in parts, for each of which the data passes through once more.
    Partitioned,
    /// Keys, and what finds them, are in device memory, what probes read of their rows in page-locked memory of the host.
    Hybrid,
    /// The CPU back end runs the program.
    Cpu,
}

impl JoinStrategy {
    /// What settings and profiles call it.
    pub fn name(self) -> &'static str {
        match self {
            JoinStrategy::Auto => "auto",
            JoinStrategy::Partitioned => "partitioned",
            JoinStrategy::Hybrid => "hybrid",
            JoinStrategy::Cpu => "cpu",
        }
    }
}

/// Seconds that a program is predicted to take; `None`: it cannot be run so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct JoinTimes {
    /// With builds in parts.
    pub partitioned: Option<f64>,
    /// With rows of builds on the host.
    pub hybrid: Option<f64>,
    /// On the CPU; none where it may not go there.
    pub cpu: Option<f64>,
}

impl std::fmt::Display for JoinTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let times = [("partitioned", self.partitioned), ("hybrid", self.hybrid), ("cpu", self.cpu)];
        let text = times.map(|(name, seconds)| match seconds {
            Some(seconds) => format!("{name} {:.3} ms", seconds * 1e3),
            None => format!("{name} not possible"),
        });
        f.write_str(&text.join(", "))
    }
}

/// How the joins of a program are done of which hash builds do not fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JoinPlan {
    /// Not `Auto`.
    pub strategy: JoinStrategy,
    /// `forced` (by a setting), `only` (nothing else is possible) or `predicted`.
    pub reason: &'static str,
    /// The hash builds that do not fit: of `Hybrid`, those whose rows are on the host. None: all (for tests).
    pub builds: Vec<SinkId>,
    /// Bytes of page-locked memory that `Hybrid` is expected to take.
    pub mapped_bytes: u64,
    /// What was predicted.
    pub predicted: JoinTimes,
}

impl JoinPlan {
    /// All hash builds hybrid, whether they fit or not.
    pub fn all_hybrid() -> Self {
        let (builds, predicted) = Default::default();
        Self { strategy: JoinStrategy::Hybrid, reason: "forced", builds, mapped_bytes: 0, predicted }
    }

    /// Why the device does not run the program, where the CPU is to.
    pub fn refusal(&self) -> Unsupported {
        Unsupported::new("joins larger than device memory", self.to_string())
    }

    /// Whether what probes read of the rows of build `id` is on the host.
    pub fn is_on_host(&self, id: SinkId) -> bool {
        self.strategy == JoinStrategy::Hybrid && (self.builds.is_empty() || self.builds.contains(&id))
    }
}

impl std::fmt::Display for JoinPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let builds: Vec<String> = self.builds.iter().map(|id| format!("#{id}")).collect();
        write!(f, "joins {}", self.strategy.name())?;
        if !builds.is_empty() {
            write!(f, " for hash build {}", builds.join(", "))?;
        }
        if self.strategy == JoinStrategy::Hybrid {
            write!(f, ", {} bytes of rows in page-locked memory", self.mapped_bytes)?;
        }
        write!(f, " ({}: {})", self.reason, self.predicted)
    }
}
