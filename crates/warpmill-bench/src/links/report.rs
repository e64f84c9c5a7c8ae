//! The report: prints each figure at once, and rewrites a complete file after every step.

use std::path::PathBuf;

/// The result of a step: a figure, or the reason why there is none.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Figure {
    /// `copy`, `random reads`, `all to all`, `all reduce`; `prepare` if the buffers did not fit.
    pub what: &'static str,
    /// The method.
    pub by: &'static str,
    /// Source and destination, or all participants, by number.
    pub devices: Vec<usize>,
    /// Bytes of one direction; for an exchange, bytes per device.
    pub bytes: u64,
    /// 2 if both devices send to each other at the same time.
    pub directions: u32,
    /// `events` of the working device, or the `host` clock from idle devices until all are idle again.
    pub clock: &'static str,
    /// Timed runs, after two that are not.
    pub runs: usize,
    /// Median time.
    pub median_us: f64,
    /// Smallest time.
    pub min_us: f64,
    /// GB/s of one direction; for an exchange, of the device that sends or receives most.
    pub gb_per_s: f64,
    /// Millions of reads per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub million_per_s: Option<f64>,
    /// Whether the data received are right.
    pub verified: Option<bool>,
    /// The reason why there is no figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An ordered pair of devices.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LinkFound {
    /// The device whose memory is read.
    pub source: usize,
    /// The device that reads.
    pub destination: usize,
    /// The link, in the words of the probe.
    pub link: String,
    /// Whether the destination reads the source's memory.
    pub direct: bool,
}

/// All figures of a run.
#[derive(Debug, Default, serde::Serialize)]
pub struct LinkReport {
    /// The devices' properties.
    pub devices: Vec<serde_json::Value>,
    /// Whether they are logical devices on one GPU.
    pub logical: bool,
    /// The links.
    pub links: Vec<LinkFound>,
    /// The version of NCCL, or the reason why there is none.
    pub nccl: String,
    /// In the order of the steps.
    pub figures: Vec<Figure>,
    /// Whether all steps were executed.
    pub complete: bool,
    #[serde(skip)]
    pub(super) out: Option<PathBuf>,
}

impl LinkReport {
    /// Adds a figure, prints it, and writes the file.
    pub(super) fn add(&mut self, figure: Figure) {
        println!("{figure}");
        self.figures.push(figure);
        self.write();
    }

    /// Writes the file. A failure is printed and otherwise ignored.
    pub(super) fn write(&self) {
        let Some(path) = &self.out else { return };
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string());
        if let Err(error) = text.and_then(|text| std::fs::write(path, text).map_err(|error| error.to_string())) {
            eprintln!("{}: {error}", path.display());
        }
    }

    /// Whether nothing that arrived is wrong.
    pub fn all_verified(&self) -> bool {
        self.figures.iter().all(|figure| figure.verified != Some(false))
    }

    /// Steps that have no figure.
    pub fn failures(&self) -> usize {
        self.figures.iter().filter(|figure| figure.error.is_some()).count()
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let devices: Vec<String> = self.devices.iter().map(ToString::to_string).collect();
        let ways = if self.directions == 2 { "both" } else { "one" };
        write!(f, "{:12} {:22} {:10} {ways:4} {:9.3} MiB ", self.what, self.by, devices.join(","), mib(self.bytes))?;
        if let Some(error) = &self.error {
            return write!(f, "no figure: {error}");
        }
        write!(f, "{:11.1} us {:8.1} GB/s", self.median_us, self.gb_per_s)?;
        if let Some(reads) = self.million_per_s {
            write!(f, " {reads:9.1} M/s")?;
        }
        f.write_str(if self.verified == Some(false) { " WRONG" } else { "" })
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
