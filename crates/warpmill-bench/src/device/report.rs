//! Results: a table for people, JSON for machines.

use std::fmt;

use warpmill_gpu::device::kernel::Kernel;

use super::harness::{FLOOR_BYTES_PER_SECOND, Times};

/// One kernel or algorithm, measured.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Measurement {
    /// The suite.
    pub suite: &'static str,
    /// The name of the benchmark.
    pub name: String,
    /// Rows, values, keys or probes.
    pub items: u64,
    /// Minimum number of bytes to read and write.
    pub bytes: u64,
    /// Median time.
    pub median_ms: f64,
    /// Smallest time.
    pub min_ms: f64,
    /// Billions of items per second, for the median time.
    pub giga_items_per_s: f64,
    /// GB/s of `bytes`, for the median time.
    pub gb_per_s: f64,
    /// The time that `bytes` take at the floor's bandwidth, divided by the median time.
    pub floor_fraction: f64,
    /// The target rate, in billions of items per second, GB/s or a fraction of the floor, with its unit.
    pub target: Option<String>,
    /// Whether the target was met.
    pub met: Option<bool>,
    /// Registers per thread (0 where several kernels took part).
    pub registers: u32,
    /// Bytes of local memory per thread: spills.
    pub local: u32,
    /// Whether the answer was right.
    pub verified: bool,
}

/// A target of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    GigaItems(f64),
    Floor(f64),
    GigaBytes(f64),
}

impl Measurement {
    pub(super) fn new(suite: &'static str, name: impl Into<String>, items: u64, bytes: u64, times: Times) -> Self {
        let seconds = (times.median_ms / 1e3).max(1e-12);
        Self {
            suite,
            name: name.into(),
            items,
            bytes,
            median_ms: times.median_ms,
            min_ms: times.min_ms,
            giga_items_per_s: items as f64 / seconds / 1e9,
            gb_per_s: bytes as f64 / seconds / 1e9,
            floor_fraction: bytes as f64 / FLOOR_BYTES_PER_SECOND / seconds,
            target: None,
            met: None,
            registers: 0,
            local: 0,
            verified: false,
        }
    }

    pub(super) fn verified(mut self, verified: bool) -> Self {
        self.verified = verified;
        self
    }

    pub(super) fn kernel(mut self, kernel: &Kernel) -> Self {
        (self.registers, self.local) = (kernel.registers(), kernel.local());
        self
    }

    pub(super) fn target(mut self, target: Target) -> Self {
        let (text, met) = match target {
            Target::GigaItems(x) => (format!("{x} G/s"), self.giga_items_per_s >= x),
            Target::Floor(x) => (format!("{:.0}% of floor", 100.0 * x), self.floor_fraction >= x),
            Target::GigaBytes(x) => (format!("{x} GB/s"), self.gb_per_s >= x),
        };
        (self.target, self.met) = (Some(text), Some(met));
        self
    }
}

/// All measurements of a run.
#[derive(Debug, Default, serde::Serialize)]
pub struct Report {
    /// In the order they were made.
    pub measurements: Vec<Measurement>,
}

impl Report {
    pub(super) fn add(&mut self, measurement: Measurement) {
        self.measurements.push(measurement);
    }

    /// Whether every answer was right.
    pub fn all_verified(&self) -> bool {
        self.measurements.iter().all(|m| m.verified)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:66} {:>9} {:>9} {:>8} {:>7} {:>4}  target", "what", "ms", "G/s", "GB/s", "floor", "regs")?;
        for m in &self.measurements {
            let (name, floor) = (format!("{} {}", m.suite, m.name), 100.0 * m.floor_fraction);
            write!(f, "{name:66} {:9.3} {:9.1} {:8.0} {floor:6.1}% ", m.median_ms, m.giga_items_per_s, m.gb_per_s)?;
            write!(f, "{:4}{} ", m.registers, if m.local > 0 { " SPILLS" } else { "" })?;
            if let (Some(target), Some(met)) = (&m.target, m.met) {
                write!(f, " {target}{}", if met { "" } else { " MISSED" })?;
            }
            writeln!(f, "{}", if m.verified { "" } else { " WRONG ANSWER" })?;
        }
        Ok(())
    }
}
