//! Measurements of the stages of a run's data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpmill_format::Codec;

use super::model::{ByCodec, Stages};

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

/// The chunks that the host's threads decompressed.
#[derive(Debug, Default)]
pub struct Decoding(ByCodec<(AtomicU64, AtomicU64)>);

impl Decoding {
    /// A thread took `time` for `bytes` bytes of `codec`.
    pub fn add(&self, codec: Codec, bytes: u64, time: Duration) {
        let (all, nanos) = &self.0[codec as usize];
        all.fetch_add(bytes, Ordering::Relaxed);
        nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Bytes of all codecs.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(bytes, _)| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Time of all threads together.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.0.iter().map(|(_, nanos)| nanos.load(Ordering::Relaxed)).sum())
    }

    pub(super) fn of(&self, codec: usize) -> (u64, f64) {
        let (bytes, nanos) = &self.0[codec];
        (bytes.load(Ordering::Relaxed), nanos.load(Ordering::Relaxed) as f64 / 1e9)
    }
}
