//! Statistics of a whole column from those of its segments.

use crate::ColumnStats;

/// Bounds, nulls and sizes of all segments together; the distinct count is estimated (see [`distinct`]) unless the
/// column's dictionary, of `entries` strings, tells.
pub(crate) fn column_stats<'a>(
    segments: impl Iterator<Item = &'a ColumnStats> + Clone,
    entries: Option<usize>,
) -> ColumnStats {
    let mut total = ColumnStats::default();
    segments.clone().for_each(|stats| total.merge(stats));
    total.distinct = match entries {
        Some(entries) => Some(entries as u64),
        None => distinct(segments, &total),
    };
    total
}

/// Estimates the distinct values of a column. Segments whose ranges do not overlap (keys in insertion order) add up.
/// Otherwise each segment is taken for a uniform sample of one domain of N values: a sample of n rows is expected to hold
/// N (1 - exp(-n / N)) of them, which gives N from the fullest segment, and then the values among all rows.
fn distinct<'a>(segments: impl Iterator<Item = &'a ColumnStats>, total: &ColumnStats) -> Option<u64> {
    let mut filled: Vec<&ColumnStats> = segments.filter(|s| s.rows > s.nulls).collect();
    if filled.is_empty() {
        return Some(0);
    }
    let sum = filled.iter().map(|s| s.distinct).sum::<Option<u64>>()?;
    let fullest = *filled.iter().max_by_key(|s| s.distinct)?;
    let least = fullest.distinct?;
    let width = total.int_range().map_or(u64::MAX, |(lo, hi)| u64::try_from((hi - lo).saturating_add(1)).unwrap_or(u64::MAX));
    let most = sum.min(total.rows - total.nulls).min(width).max(least);
    filled.sort_by(|a, b| a.min.partial_cmp(&b.min).unwrap_or(std::cmp::Ordering::Equal));
    let apart = filled.windows(2).all(|pair| matches!((&pair[0].max, &pair[1].min), (Some(a), Some(b)) if a <= b));
    if apart || most == least {
        return Some(most);
    }
    let rows = (fullest.rows - fullest.nulls) as f64;
    let expected = |domain: f64, rows: f64| domain * (1.0 - (-rows / domain).exp());
    let (mut low, mut high) = (least as f64, most as f64);
    if expected(high, rows) > least as f64 {
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if expected(middle, rows) < least as f64 { low = middle } else { high = middle }
        }
    }
    let estimate = expected(high, (total.rows - total.nulls) as f64).round() as u64;
    Some(estimate.clamp(least, most))
}
