//! Strategies for joins whose hash builds do not fit the device's memory; `joins` chooses.

use serde::Serialize;
use warpmill_ir::{SinkId, Unsupported};

/// A strategy for joins whose hash builds do not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinStrategy {
    /// The strategy that is predicted to be fastest.
    #[default]
    Auto,
    /// Builds are built in parts; the data is streamed once more for each.
    Partitioned,
    /// Keys and lookup structures are in device memory; the columns that probes read are in page-locked host memory.
    Hybrid,
    /// The device runs everything below these joins, on both sides; the CPU back end builds from its rows and continues.
    Fallback,
    /// Like `Fallback`, but the CPU back end also runs everything that feeds the builds.
    Naive,
    /// The CPU back end runs the whole program.
    Cpu,
}

impl JoinStrategy {
    /// The name in settings and profiles.
    pub fn name(self) -> &'static str {
        match self {
            JoinStrategy::Auto => "auto",
            JoinStrategy::Partitioned => "partitioned",
            JoinStrategy::Hybrid => "hybrid",
            JoinStrategy::Fallback => "fallback",
            JoinStrategy::Naive => "naive",
            JoinStrategy::Cpu => "cpu",
        }
    }

    /// Whether the device runs a part of the program, and the CPU back end the rest.
    pub fn splits(self) -> bool {
        matches!(self, JoinStrategy::Fallback | JoinStrategy::Naive)
    }
}

/// The processor that runs a pipeline of a split program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The device, as often as its other pipelines need the result.
    Device,
    /// The device up to this operator, the CPU from there.
    Split(usize),
    /// The CPU.
    Cpu,
}

/// Predicted seconds of a program by strategy; `None`: not possible.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct JoinTimes {
    /// With builds in parts.
    pub partitioned: Option<f64>,
    /// With rows of builds on the host.
    pub hybrid: Option<f64>,
    /// With the joins, and everything above them, on the CPU.
    pub fallback: Option<f64>,
    /// With everything that feeds the builds on the CPU, too.
    pub naive: Option<f64>,
    /// With the whole program on the CPU; `None` if it may not run there.
    pub cpu: Option<f64>,
}

impl JoinTimes {
    /// The times with their strategies.
    pub fn all(&self) -> [(JoinStrategy, Option<f64>); 5] {
        [
            (JoinStrategy::Partitioned, self.partitioned),
            (JoinStrategy::Hybrid, self.hybrid),
            (JoinStrategy::Fallback, self.fallback),
            (JoinStrategy::Naive, self.naive),
            (JoinStrategy::Cpu, self.cpu),
        ]
    }
}

impl std::fmt::Display for JoinTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.all().map(|(strategy, seconds)| match seconds {
            Some(seconds) => format!("{} {:.3} ms", strategy.name(), seconds * 1e3),
            None => format!("{} not possible", strategy.name()),
        });
        f.write_str(&text.join(", "))
    }
}

/// The chosen strategy for a program's joins whose hash builds do not fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JoinPlan {
    /// The strategy, never `Auto`.
    pub strategy: JoinStrategy,
    /// `forced` (by a setting), `only` (no alternative) or `predicted`.
    pub reason: &'static str,
    /// The hash builds that do not fit; for `Hybrid`, those with rows on the host. Empty: all, for tests.
    pub builds: Vec<SinkId>,
    /// Estimated bytes of page-locked memory for `Hybrid`.
    pub mapped_bytes: u64,
    /// For `Fallback` and `Naive`: the processor of each pipeline.
    pub sides: Vec<Side>,
    /// The predicted times.
    pub predicted: JoinTimes,
}

impl JoinPlan {
    /// A plan in which all hash builds are hybrid, whether they fit or not.
    pub fn all_hybrid() -> Self {
        Self::forced(JoinStrategy::Hybrid, vec![])
    }

    /// A plan with the requested strategy for these hash builds.
    pub fn forced(strategy: JoinStrategy, builds: Vec<SinkId>) -> Self {
        let (sides, predicted) = Default::default();
        Self { strategy, reason: "forced", builds, mapped_bytes: 0, sides, predicted }
    }

    /// The reason why the device refuses the program, if the strategy is `Cpu`.
    pub fn refusal(&self) -> Unsupported {
        Unsupported::new("joins larger than device memory", self.to_string())
    }

    /// Whether the payload of build `id` is in host memory.
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
        let place = |side: &Side| match side {
            Side::Device => "on the device",
            Side::Split(_) => "on the device up to rows for the cpu",
            Side::Cpu => "on the cpu",
        };
        for wanted in [Side::Device, Side::Split(0), Side::Cpu].iter().map(place) {
            let pipelines = self.sides.iter().enumerate().filter(|(_, side)| place(side) == wanted);
            let pipelines: Vec<String> = pipelines.map(|(pipeline, _)| pipeline.to_string()).collect();
            if !pipelines.is_empty() {
                write!(f, ", pipeline {} {wanted}", pipelines.join(", "))?;
            }
        }
        if self.strategy == JoinStrategy::Hybrid {
            write!(f, ", {} bytes of rows in page-locked memory", self.mapped_bytes)?;
        }
        write!(f, " ({}: {})", self.reason, self.predicted)
    }
}
