//! Measurements of the stages of a run's data.

use std::time::Duration;

use super::model::Stages;
use crate::data::decoding::{ByCodec, Decoding};

/// The measurements of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// From the first batch to the last kernel.
    pub total: Duration,
    /// Bytes and time of reading files in batches in which that, not the host's decompressing, took most of the time.
    pub disk: (u64, Duration),
    /// Bytes per second that files can be read with at least: what they were in other batches.
    pub disk_least: f64,
    /// The same of copying to page-locked memory.
    pub staging: (u64, Duration),
    /// Bytes of copies to the device, and their time.
    pub copies: (u64, Duration),
    /// Bytes per second of the fastest copy that was not short: what the link gives where nobody else uses it.
    pub link: f64,
    /// The time that the host waited for files, or for slower drives.
    pub read: Duration,
    /// The other time of the host.
    pub host: Duration,
    /// Bytes that the device decompressed to, and the time of that.
    pub on_device: (ByCodec<u64>, Duration),
    /// Bytes that the host decompressed to, and the time of all threads.
    pub on_host: Decoding,
    /// The query's kernels.
    pub kernels: Duration,
    /// Whether things were made that later runs find: their time says nothing.
    pub first: bool,
    /// Whether the device decompressed something for the first time: the time of that says nothing.
    pub cold: bool,
}

/// Bytes of a copy that is mostly that, not its beginning.
const LONG_COPY: u64 = 1 << 20;

impl Measured {
    /// A copy to the device of `bytes` bytes took `time`.
    pub fn copied(&mut self, bytes: u64, time: Duration) {
        self.copies = (self.copies.0 + bytes, self.copies.1 + time);
        if bytes >= LONG_COPY && !time.is_zero() {
            self.link = self.link.max(bytes as f64 / time.as_secs_f64());
        }
    }

    /// As stages.
    pub fn stages(&self) -> Stages {
        let seconds = |duration: Duration| duration.as_secs_f64();
        Stages {
            read: seconds(self.read),
            host: seconds(self.host),
            copy: seconds(self.copies.1),
            decompress: seconds(self.on_device.1),
            kernels: seconds(self.kernels),
            total: seconds(self.total),
        }
    }
}
