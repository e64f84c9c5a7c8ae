//! Ranges of row segments and of keys, one per device.

use std::ops::Range;

use warpmill_ir::key_range::KeyRange;
use warpmill_ir::{Scan, Unsupported};

use super::refusal;

/// Divides `segments` row segments into `devices` ranges of at least one each.
pub(super) fn cuts(segments: usize, devices: usize, seed: Option<u64>) -> Result<Vec<Range<usize>>, Unsupported> {
    if devices < 2 || segments < devices {
        return Err(refusal("the table has fewer row segments than there are devices"));
    }
    let mut starts: Vec<usize> = (0..devices).map(|device| device * segments / devices).collect();
    if let Some(mut state) = seed {
        // Random starts that leave every device a row segment.
        for device in 1..devices {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (least, most) = (starts[device - 1] + 1, segments - (devices - device));
            starts[device] = least + (state >> 33) as usize % (most - least + 1);
        }
    }
    let ends = starts[1..].iter().copied().chain([segments]);
    Ok(starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect())
}

/// Whether output column `column` of a scan can be a key: an integer without NULLs.
pub(super) fn is_key(scan: &Scan, column: usize) -> bool {
    KeyRange::can_hold(&scan.fields[column].ty) && scan.table.column_stats(scan.columns[column]).nulls == 0
}

/// The key range of each device, by output column `key` of a scan.
pub(super) fn key_ranges(scan: &Scan, key: usize, cuts: &[Range<usize>]) -> Result<Vec<KeyRange>, Unsupported> {
    KeyRange::of_segments(&scan.table, scan.columns[key], cuts).ok_or_else(|| refusal("a key without known bounds"))
}

/// Whether output column `column` of a scan can be a key and the table is approximately sorted by it.
pub(super) fn is_clustered(scan: &Scan, column: usize, cuts: &[Range<usize>]) -> bool {
    if !is_key(scan, column) {
        return false;
    }
    let Ok(ranges) = key_ranges(scan, column, cuts) else { return false };
    ranges.iter().zip(cuts).all(|(range, cut)| {
        let read = range.segments(&scan.table, scan.columns[column]);
        !read.is_empty() && read.len() <= cut.len() + cut.len() / 8 + 2
    })
}

/// Whether each device reads about its share of a scan that is split by the key ranges of another scan.
pub(super) fn is_clustered_within(scan: &Scan, column: usize, ranges: &[KeyRange], devices: usize) -> bool {
    let read = ranges.iter().map(|range| range.segments(&scan.table, scan.columns[column]).len());
    let segments = scan.table.num_segments();
    read.max().unwrap_or(0) <= segments.div_ceil(devices) + segments / 8 + 2
}
