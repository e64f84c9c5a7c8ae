//! Conditions by which scans leave out rows without reading them.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::datatypes::{DataType, TimeUnit};
use warpmill_format::pruning::{float_rank, string_rank};
use warpmill_format::{ColumnStats, StatValue, TableSnapshot};

use super::Failed;

/// A condition on a column that every row of the query's result fulfils. Row segments without such a row are not read.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The position of the column in the table.
    pub column: usize,
    /// The comparison of the column with the value.
    pub comparison: Comparison,
}

/// A comparison with a value, or with NULL.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "SQL's names")]
pub enum Comparison {
    Equal(StatValue),
    Less(StatValue),
    LessOrEqual(StatValue),
    Greater(StatValue),
    GreaterOrEqual(StatValue),
    IsNull,
    IsNotNull,
}

/// The rows of each row segment that may fulfil all of `bounds`, in ascending order, by statistics and by zone maps.
///
/// # Errors
/// Damaged zone maps.
pub fn kept_rows(table: &TableSnapshot, bounds: &[Bound]) -> Result<Vec<Vec<Range<usize>>>, Failed> {
    let bounds: Vec<&Bound> = bounds.iter().filter(|bound| has_bounds(table, bound.column)).collect();
    let may_have = |segment: usize| {
        bounds.iter().all(|bound| bound.comparison.may_hold(table.segment_stats(segment, bound.column)))
    };
    let all = |segment: usize| std::iter::once(0..table.segment_rows(segment)).collect();
    let mut kept: Vec<Vec<Range<usize>>> =
        (0..table.num_segments()).map(|segment| if may_have(segment) { all(segment) } else { vec![] }).collect();
    for map in table.zone_maps() {
        // Zone maps are not read when all of their row segments are left out already.
        if map.segments().all(|segment| kept[segment].is_empty()) {
            continue;
        }
        let mut out: Vec<bool> = vec![];
        for bound in &bounds {
            let Some(ranges) = bound.ranks(table) else { continue };
            let Some(zones) = map.column(table, bound.column)? else { continue };
            let ruled_out = zones.zones.out_of_bounds(&ranges, bound.comparison == Comparison::IsNull);
            match out.is_empty() {
                true => out = ruled_out,
                false => out.iter_mut().zip(ruled_out).for_each(|(out, other)| *out |= other),
            }
        }
        if out.is_empty() {
            continue;
        }
        let starts = map.starts(table);
        for (segment, zones) in map.segments().zip(starts.windows(2)) {
            if !kept[segment].is_empty() {
                let zones = &out[zones[0].0..zones[1].0];
                kept[segment] = ranges_of(zones, map.zone_rows(), table.segment_rows(segment));
            }
        }
    }
    Ok(kept)
}

/// The rows of zones that are not ruled `out`.
fn ranges_of(out: &[bool], zone_rows: usize, rows: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = vec![];
    for (zone, _) in out.iter().enumerate().filter(|(_, out)| !**out) {
        let (start, end) = (zone * zone_rows, ((zone + 1) * zone_rows).min(rows));
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    ranges
}

impl Bound {
    /// The ranks of the values that fulfil the condition; `None` if they are not known. Zones of strings with a dictionary are about codes,
    /// which have no ranks.
    fn ranks(&self, table: &TableSnapshot) -> Option<Vec<(i128, i128)>> {
        let rank = |value: &StatValue| match value {
            StatValue::Int(value) => Some(*value),
            StatValue::Float(value) => Some(float_rank(*value)),
            StatValue::Str(_) if table.dictionary(self.column).is_some() => None,
            StatValue::Str(value) => Some(string_rank(value.as_bytes())),
        };
        // Different strings may have the same rank: each range includes the rank of the value itself.
        Some(match &self.comparison {
            Comparison::IsNull => vec![],
            Comparison::IsNotNull => vec![(i128::MIN, i128::MAX)],
            Comparison::Equal(value) => vec![(rank(value)?, rank(value)?)],
            Comparison::Less(value) | Comparison::LessOrEqual(value) => vec![(i128::MIN, rank(value)?)],
            Comparison::Greater(value) | Comparison::GreaterOrEqual(value) => vec![(rank(value)?, i128::MAX)],
        })
    }
}

/// Whether bounds of a column can be compared with DuckDB's values: timestamps with a time zone have to be in microseconds, as in DuckDB.
fn has_bounds(table: &TableSnapshot, column: usize) -> bool {
    let field = table.schema().fields().get(column);
    field.is_some_and(|field| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => *unit == TimeUnit::Microsecond,
        ty => !ty.is_nested(),
    })
}

impl Comparison {
    /// Whether a row segment with these statistics may have a row that fulfils the comparison.
    pub fn may_hold(&self, stats: &ColumnStats) -> bool {
        use Ordering::{Equal, Greater, Less};
        let least = |value: &StatValue| compare(stats.min.as_ref(), value);
        let most = |value: &StatValue| compare(stats.max.as_ref(), value);
        match self {
            Self::IsNull => return stats.nulls > 0,
            _ if stats.nulls == stats.rows => return false,
            _ => {}
        }
        match self {
            Self::IsNull | Self::IsNotNull => true,
            Self::Equal(value) => least(value) != Some(Greater) && most(value) != Some(Less),
            Self::Less(value) => !matches!(least(value), Some(Greater | Equal)),
            Self::LessOrEqual(value) => least(value) != Some(Greater),
            Self::Greater(value) => !matches!(most(value), Some(Less | Equal)),
            Self::GreaterOrEqual(value) => most(value) != Some(Less),
        }
    }
}

/// The order of a bound and a value; `None` if it is not known.
fn compare(bound: Option<&StatValue>, value: &StatValue) -> Option<Ordering> {
    match (bound?, value) {
        (StatValue::Int(a), StatValue::Int(b)) => Some(a.cmp(b)),
        (StatValue::Float(a), StatValue::Float(b)) => a.partial_cmp(b),
        (StatValue::Str(a), StatValue::Str(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
