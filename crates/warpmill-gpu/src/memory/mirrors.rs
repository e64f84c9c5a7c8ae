//! Host originals of strings in device memory.

use warpmill_format::StrView;

use super::regions::Owner;
use crate::device::DevicePtr;

/// Ranges of device memory with their host originals, which results point to instead of strings in device memory.
#[derive(Default)]
pub struct Mirrors {
    ranges: Vec<(DevicePtr, u64, *const u8)>,
    /// Keep the host memory alive.
    pub owners: Vec<Owner>,
}

// SAFETY: the pointers are to immutable memory that `owners`, which are themselves `Send + Sync`, keep.
unsafe impl Send for Mirrors {}

// SAFETY: as above.
unsafe impl Sync for Mirrors {}

impl Mirrors {
    /// Records that device memory at `at` is a copy of `bytes`, kept by `owner`.
    pub fn add(&mut self, at: DevicePtr, bytes: &[u8], owner: Owner) {
        self.ranges.push((at, bytes.len() as u64, bytes.as_ptr()));
        self.owners.push(owner);
    }

    /// Whether there is no range.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes of the host memory.
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.1 as usize).sum()
    }

    /// Sorts the ranges, which lookups require.
    pub fn sort(&mut self) {
        self.ranges.sort_unstable_by_key(|range| range.0);
    }

    pub(crate) fn view(&self, at: DevicePtr, len: u32) -> Option<StrView> {
        if len == 0 {
            return Some(StrView::default());
        }
        let index = self.ranges.partition_point(|range| range.0 <= at).checked_sub(1)?;
        let (base, size, host) = self.ranges[index];
        let offset = at - base;
        if offset + u64::from(len) > size {
            return None;
        }
        // SAFETY: inside the mirrored range, which its owner keeps.
        let bytes = unsafe { std::slice::from_raw_parts(host.add(offset as usize), len as usize) };
        std::str::from_utf8(bytes).ok().map(StrView::new)
    }
}
