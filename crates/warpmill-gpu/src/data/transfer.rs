//! Copies to and from the device.

use serde::Serialize;

/// Copies between host and device of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TransferProfile {
    /// The kind of data that was copied.
    pub what: &'static str,
    /// Bytes.
    pub bytes: u64,
    /// Copies.
    pub count: u64,
    /// Time, in nanoseconds, where it was measured.
    pub nanos: u64,
}

impl TransferProfile {
    /// Whether segments of tables came to the device.
    pub fn is_of_segments(&self) -> bool {
        self.what.starts_with("segments ")
    }
}
