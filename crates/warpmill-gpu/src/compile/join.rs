//! Joins whose hash builds do not fit the device's memory: how they are done, and why. `joins` decides.

use serde::Serialize;
use warpmill_ir::{SinkId, Unsupported};

/// The way joins are done whose hash builds do not fit.
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
    /// The device runs what is below these joins, on both sides; its rows go to the CPU back end, which makes the builds and goes on.
    Fallback,
    /// As `Fallback`, but the CPU back end runs all that the builds are made of.
    Naive,
    /// The CPU back end runs the program.
    Cpu,
}

impl JoinStrategy {
    /// Its name in settings and profiles.
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

/// The runner of a pipeline of a program that is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The device, as often as something else on the device needs it.
    Device,
    /// The device up to so many of its operators, the CPU from there.
    Split(usize),
    /// The CPU.
    Cpu,
}

/// Seconds that a program is predicted to take; `None`: it cannot be run so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct JoinTimes {
    /// With builds in parts.
    pub partitioned: Option<f64>,
    /// With rows of builds on the host.
    pub hybrid: Option<f64>,
    /// With the joins, and what is above them, on the CPU.
    pub fallback: Option<f64>,
    /// With what the builds are made of there, too.
    pub naive: Option<f64>,
    /// On the CPU; none where it may not go there.
    pub cpu: Option<f64>,
}

impl JoinTimes {
    /// By strategy.
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

/// The way the joins of a program are done of which hash builds do not fit.
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
    /// Of `Fallback` and `Naive`: who runs each pipeline of the program.
    pub sides: Vec<Side>,
    /// The predicted times.
    pub predicted: JoinTimes,
}

impl JoinPlan {
    /// All hash builds hybrid, whether they fit or not.
    pub fn all_hybrid() -> Self {
        Self::forced(JoinStrategy::Hybrid, vec![])
    }

    /// The strategy that the user asked for, of these hash builds.
    pub fn forced(strategy: JoinStrategy, builds: Vec<SinkId>) -> Self {
        let (sides, predicted) = Default::default();
        Self { strategy, reason: "forced", builds, mapped_bytes: 0, sides, predicted }
    }

    /// The reason why the device does not run the program, where the CPU is to.
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
