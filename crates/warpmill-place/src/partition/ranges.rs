//! Ranges of row segments and of keys, one per device.

use std::ops::Range;

use arrow::datatypes::DataType;
use warpmill_format::TableSnapshot;
use warpmill_ir::{ColType, CompareOp, Expr, ExprKind, Phys, Scalar, Scan, Unsupported};

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
    let ty = &scan.fields[column].ty;
    let stats = scan.table.column_stats(scan.columns[column]);
    matches!(ty.phys, Phys::I32 | Phys::I64) && ty.dictionary.is_none() && stats.nulls == 0
}

/// Whether output column `column` of a scan can be a key and the table is approximately sorted by it.
pub(super) fn is_clustered(scan: &Scan, column: usize, cuts: &[Range<usize>]) -> bool {
    if !is_key(scan, column) {
        return false;
    }
    let Ok(bounds) = bounds(scan, column, cuts) else { return false };
    bounds.iter().zip(cuts).all(|(&range, cut)| {
        let read = between(&scan.table, scan.columns[column], range);
        !read.is_empty() && read.len() <= cut.len() + cut.len() / 8 + 2
    })
}

/// Whether each device reads about its share of a scan that is split by the key ranges of another scan.
pub(super) fn is_clustered_within(scan: &Scan, column: usize, bounds: &[(i128, i128)], devices: usize) -> bool {
    let read = bounds.iter().map(|&range| between(&scan.table, scan.columns[column], range).len());
    let segments = scan.table.num_segments();
    read.max().unwrap_or(0) <= segments.div_ceil(devices) + segments / 8 + 2
}

/// The key range of each device: adjacent ranges that together contain all numbers.
pub(super) fn bounds(scan: &Scan, column: usize, cuts: &[Range<usize>]) -> Result<Vec<(i128, i128)>, Unsupported> {
    let unknown = || refusal("a key without known bounds");
    let table_column = scan.columns[column];
    // Other scans may have keys outside of this one's type.
    let (mut least, greatest) = (i128::MIN, i128::MAX);
    let mut ranges = vec![];
    for cut in &cuts[..cuts.len() - 1] {
        let stats = scan.table.segment_stats(cut.end - 1, table_column);
        let (_, last) = stats.int_range().ok_or_else(unknown)?;
        // With repeated keys a range may be empty.
        let last = last.max(least.saturating_sub(1));
        ranges.push((least, last));
        least = last + 1;
    }
    ranges.push((least, greatest));
    Ok(ranges)
}

/// The range of row segments that may have values within a key range.
pub(super) fn between(table: &TableSnapshot, column: usize, (least, greatest): (i128, i128)) -> Range<usize> {
    let meets = |&segment: &usize| {
        let range = table.segment_stats(segment, column).int_range();
        range.is_none_or(|(low, high)| low <= greatest && high >= least)
    };
    let first = (0..table.num_segments()).find(meets).unwrap_or(0);
    let end = (first..table.num_segments()).rev().find(meets).map_or(first, |last| last + 1);
    first..end
}

/// Conditions for output column `column` of a scan to be within a range: the same number for all ranges, so that all devices have the same kernels.
pub(super) fn within(scan: &Scan, column: usize, (least, greatest): (i128, i128)) -> Vec<Expr> {
    let ty = scan.fields[column].ty.clone();
    let (low, high) = match ty.phys {
        Phys::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let is_empty = least > greatest || least > high || greatest < low;
    // Contradictory bounds: no number satisfies both.
    let (least, greatest) = if is_empty { (high, low) } else { (least.max(low), greatest.min(high)) };
    let compare = |op, bound: i128| {
        let bound = Expr::literal(Scalar::Int(bound), ColType { range: Some((bound, bound)), ..ty.clone() });
        let (left, right) = (Box::new(Expr::column(column, ty.clone())), Box::new(bound));
        let truth =
            ColType { logical: DataType::Boolean, phys: Phys::Bool, nullable: false, range: None, dictionary: None };
        Expr { kind: ExprKind::Compare { op, left, right }, ty: truth }
    };
    vec![compare(CompareOp::Ge, least), compare(CompareOp::Le, greatest)]
}
