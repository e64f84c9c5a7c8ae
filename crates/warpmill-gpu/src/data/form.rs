//! The place that data comes from, and the form in which.

use serde::Serialize;
use warpmill_ir::{Program, Source};

/// The way a column of a scan gets to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As it is encoded; where it is only stored through a codec, the host undoes that on the way.
    Light,
    /// Through its codec, which the device undoes where it can (LZ4, Snappy; others by a library, if there is one),
    /// otherwise the host on the way.
    Heavy,
    /// Read through its codec, which the host undoes on the way.
    #[serde(rename = "heavy_host")]
    HeavyOnHost,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Light, Form::Heavy, Form::HeavyOnHost];

    /// As the setting calls it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Light => "light",
            Form::Heavy => "heavy",
            Form::HeavyOnHost => "heavy_host",
        }
    }
}

/// The representation that is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Representation {
    /// The forms that are predicted to be fastest.
    #[default]
    Auto,
    /// All columns [`Form::Light`].
    Light,
    /// All columns [`Form::Heavy`].
    Heavy,
    /// All columns [`Form::HeavyOnHost`].
    HeavyOnHost,
}

impl Representation {
    pub(crate) fn form(self) -> Option<Form> {
        match self {
            Representation::Auto => None,
            Representation::Light => Some(Form::Light),
            Representation::Heavy => Some(Form::Heavy),
            Representation::HeavyOnHost => Some(Form::HeavyOnHost),
        }
    }
}

/// The place where data is when a program starts. What does not stay in device memory passes through it ([`crate::run::feed`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DataSource {
    /// In the device's caching region: copied there by the first program that reads it. What a program needs and does not fit there
    /// comes from pageable host memory.
    #[default]
    Cache,
    /// In page-locked host memory, of which the caching region has copies of some segments: Mordred's data placement (thesis, section 4.1).
    /// What has none is copied for every run.
    Mirrored,
    /// In page-locked host memory; copied for every run.
    Pinned,
    /// In pageable host memory (a memory-mapped table: the page cache); copied for every run.
    Host,
    /// In the table's files; read past the page cache, and copied, for every run.
    Disk,
}

impl DataSource {
    /// Its name in profiles.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DataSource::Cache => "the cache",
            DataSource::Mirrored => "mirrored",
            DataSource::Pinned => "pinned",
            DataSource::Host => "host",
            DataSource::Disk => "disk",
        }
    }

    /// Where what passes through comes from: what does not fit the caching region comes from the host.
    pub(crate) fn passing(self) -> Self {
        match self {
            DataSource::Cache => DataSource::Host,
            DataSource::Mirrored => DataSource::Pinned,
            other => other,
        }
    }

    /// Bytes that reach kernels in a nanosecond from there, at best: what finding out which need not may take depends on it.
    pub(crate) fn bytes_per_nano(self) -> u64 {
        match self {
            // Kernels read device memory at some terabytes a second, and have to be started.
            DataSource::Cache => 1000,
            DataSource::Mirrored | DataSource::Pinned => 50,
            DataSource::Host => 10,
            DataSource::Disk => 4,
        }
    }

    /// The name of the copies in profiles.
    pub(crate) fn transfer(self) -> &'static str {
        match self {
            DataSource::Cache => "segments to the device",
            DataSource::Mirrored | DataSource::Pinned => "segments from pinned memory",
            DataSource::Host => "segments from host memory",
            DataSource::Disk => "segments from disk",
        }
    }

    /// The name of the host's work before them in profiles.
    pub(crate) fn filling(self) -> &'static str {
        match self {
            DataSource::Disk => "read into pinned memory",
            DataSource::Cache | DataSource::Mirrored | DataSource::Pinned | DataSource::Host => {
                "copied to pinned memory"
            }
        }
    }
}

/// The share of the data that passes through a device's memory which is on its way at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Pipelines {
    /// Batches that are on their way, each in a slot of its own; 0: as many as overlap.
    pub count: u32,
    /// Bytes of a batch, where row segments are no larger; 0: what overlaps best.
    pub batch_bytes: u64,
}

/// Whether `program` scans Parquet files.
pub fn is_scanned(program: &Program) -> bool {
    program.pipelines.iter().any(|pipeline| matches!(&pipeline.source, Source::Scan(scan) if scan.table.is_parquet()))
}
