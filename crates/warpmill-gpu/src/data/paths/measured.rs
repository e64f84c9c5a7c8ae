//! Measured times of the stages of streamed data.

use std::time::Duration;

use super::model::Stages;
use crate::data::decoding::{ByCodec, Decoding};

/// Measurements of one run.
#[derive(Debug, Default)]
pub struct Measured {
    /// From the first batch to the last kernel.
    pub total: Duration,
    /// Bytes and time of file reads, in batches that reading, not decompression, dominated.
    pub disk: (u64, Duration),
    /// Lower bound of the file read rate in bytes per second: the rate in the other batches.
    pub disk_least: f64,
    /// Bytes and time of copies to page-locked memory.
    pub staging: (u64, Duration),
    /// Bytes and time of copies to the device.
    pub copies: (u64, Duration),
    /// Bytes per second of the fastest long copy: the link's rate without other users.
    pub link: f64,
    /// Time that the host waited for files or emulated drives.
    pub read: Duration,
    /// Other time of the host.
    pub host: Duration,
    /// Bytes that the device decompressed to, by codec, and the time.
    pub on_device: (ByCodec<u64>, Duration),
    /// Bytes that the host decompressed to, and the time summed over threads.
    pub on_host: Decoding,
    /// Time of the query's kernels.
    pub kernels: Duration,
    /// Whether the run made objects that later runs reuse: its total time is not representative.
    pub first: bool,
    /// Whether the device decompressed a format for the first time: the time is not representative.
    pub cold: bool,
}

/// Bytes from which the start-up time of a copy is negligible.
const LONG_COPY: u64 = 1 << 20;

impl Measured {
    /// Records a copy of `bytes` bytes to the device.
    pub fn copied(&mut self, bytes: u64, time: Duration) {
        self.copies = (self.copies.0 + bytes, self.copies.1 + time);
        if bytes >= LONG_COPY && !time.is_zero() {
            self.link = self.link.max(bytes as f64 / time.as_secs_f64());
        }
    }

    /// The measured stages.
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
