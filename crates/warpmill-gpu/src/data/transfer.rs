//! Profiles of copies to and from the device.

use serde::Serialize;

/// Copies of one kind between host and device.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TransferProfile {
    /// The kind of data.
    pub what: &'static str,
    /// Bytes copied.
    pub bytes: u64,
    /// Number of copies.
    pub count: u64,
    /// Nanoseconds, if measured.
    pub nanos: u64,
}

impl TransferProfile {
    /// Whether these are copies of table segments to the device.
    pub fn is_of_segments(&self) -> bool {
        self.what.starts_with("segments ")
    }
}
