//! Bytes and time of decompression on the host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpmill_format::Codec;

pub(crate) const CODECS: usize = Codec::ALL.len();

/// One value per codec.
pub(crate) type ByCodec<T> = [T; CODECS];

/// Bytes decompressed by the host's threads and nanoseconds taken, by codec.
#[derive(Debug, Default)]
pub struct Decoding(ByCodec<(AtomicU64, AtomicU64)>);

impl Decoding {
    /// Records that a thread decompressed `bytes` bytes of `codec` in `time`.
    pub fn add(&self, codec: Codec, bytes: u64, time: Duration) {
        let (all, nanos) = &self.0[codec as usize];
        all.fetch_add(bytes, Ordering::Relaxed);
        nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Decompressed bytes, all codecs.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(bytes, _)| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Time summed over threads and codecs.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.0.iter().map(|(_, nanos)| nanos.load(Ordering::Relaxed)).sum())
    }

    pub(crate) fn of(&self, codec: usize) -> (u64, f64) {
        let (bytes, nanos) = &self.0[codec];
        (bytes.load(Ordering::Relaxed), nanos.load(Ordering::Relaxed) as f64 / 1e9)
    }
}
