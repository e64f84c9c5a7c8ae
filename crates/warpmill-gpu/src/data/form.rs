//! The location that data comes from, and the form in which it is copied.

use serde::Serialize;
use warpmill_ir::{Program, Source};

/// The form in which a column of a scan is copied to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As encoded; if it is stored under a codec only, the host decompresses it before the copy.
    Light,
    /// Under its codec. The device decompresses it if it can (LZ4, Snappy; others with the vendor's library), otherwise the host before the copy.
    Heavy,
    /// Read under its codec, which the host decompresses before the copy.
    #[serde(rename = "heavy_host")]
    HeavyOnHost,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Light, Form::Heavy, Form::HeavyOnHost];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Form::Light => "light",
            Form::Heavy => "heavy",
            Form::HeavyOnHost => "heavy_host",
        }
    }
}

/// The requested form of all columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Representation {
    /// The form predicted to be fastest, by column.
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

/// The location of data when a program starts. Data that is not kept in device memory is streamed through it ([`crate::run::feed`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DataSource {
    /// The device's caching region: copied there by the first program that reads it. Data that does not fit is streamed from pageable host memory.
    #[default]
    Cache,
    /// Page-locked host memory; the caching region has copies of some segments (Mordred's data placement, thesis, section 4.1). Other segments are
    /// copied for every run.
    Mirrored,
    /// Page-locked host memory; copied for every run.
    Pinned,
    /// Pageable host memory (a memory-mapped table: the page cache); copied for every run.
    Host,
    /// The table's files: read past the page cache and copied for every run.
    Disk,
}

impl DataSource {
    /// The name in profiles.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DataSource::Cache => "the cache",
            DataSource::Mirrored => "mirrored",
            DataSource::Pinned => "pinned",
            DataSource::Host => "host",
            DataSource::Disk => "disk",
        }
    }

    /// The source of streamed data: data that does not fit the caching region comes from the host.
    pub(crate) fn passing(self) -> Self {
        match self {
            DataSource::Cache => DataSource::Host,
            DataSource::Mirrored => DataSource::Pinned,
            other => other,
        }
    }

    /// Bytes per nanosecond that reach kernels from this source at best: bounds the time that pruning may take.
    pub(crate) fn bytes_per_nano(self) -> u64 {
        match self {
            // Device memory delivers a few TB/s.
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

    /// The name of the host's work before the copies in profiles.
    pub(crate) fn filling(self) -> &'static str {
        match self {
            DataSource::Disk => "read into pinned memory",
            DataSource::Cache | DataSource::Mirrored | DataSource::Pinned | DataSource::Host => {
                "copied to pinned memory"
            }
        }
    }
}

/// The amount of streamed data in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Pipelines {
    /// Batches in flight, each in its own slot; 0: chosen by the engine.
    pub count: u32,
    /// Bytes of a batch, if row segments are no larger; 0: chosen by the engine.
    pub batch_bytes: u64,
}

/// Whether `program` scans Parquet files.
pub fn is_scanned(program: &Program) -> bool {
    program.pipelines.iter().any(|pipeline| matches!(&pipeline.source, Source::Scan(scan) if scan.table.is_parquet()))
}
