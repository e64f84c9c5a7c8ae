//! Computes a column's statistics from its segments'.

use crate::ColumnStats;

/// Bounds, NULLs and sizes of all segments together; the distinct count is estimated (see [`distinct`]) unless the column has a dictionary, of
/// `entries` strings.
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

/// Estimates the distinct values of a column. Segments with disjoint ranges (keys in insertion order) are summed. Otherwise each segment is
/// considered a uniform sample of one domain of N values: a sample of n rows is expected to contain N (1 - exp(-n / N)) of them, which yields N from
/// the fullest segment, and then the number of values among all rows.
fn distinct<'a>(segments: impl Iterator<Item = &'a ColumnStats>, total: &ColumnStats) -> Option<u64> {
    let mut filled: Vec<&ColumnStats> = segments.filter(|s| s.rows > s.nulls).collect();
    if filled.is_empty() {
        return Some(0);
    }
    let sum = filled.iter().map(|s| s.distinct).sum::<Option<u64>>()?;
    let fullest = *filled.iter().max_by_key(|s| s.distinct)?;
    let least = fullest.distinct?;
    let width =
        total.int_range().map_or(u64::MAX, |(lo, hi)| u64::try_from((hi - lo).saturating_add(1)).unwrap_or(u64::MAX));
    let most = sum.min(total.rows - total.nulls).min(width).max(least);
    filled.sort_by(|a, b| a.min.partial_cmp(&b.min).unwrap_or(std::cmp::Ordering::Equal));
    let apart = filled.windows(2).all(|pair| matches!((&pair[0].max, &pair[1].min), (Some(a), Some(b)) if a <= b));
    if apart || most == least {
        return Some(most);
    }
    let rows = (fullest.rows - fullest.nulls) as f64;
    let expected = |domain: f64, rows: f64| domain * (1.0 - (-rows / domain).exp());
    let (mut low, mut high) = (least as f64, (width as f64).clamp(least as f64, 1e15));
    if expected(high, rows) > least as f64 {
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if expected(middle, rows) < least as f64 { low = middle } else { high = middle }
        }
    }
    let estimate = expected(high, (total.rows - total.nulls) as f64).round() as u64;
    Some(estimate.clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StatValue;

    fn segment(rows: u64, distinct: u64, lo: i128, hi: i128) -> ColumnStats {
        let (min, max) = (Some(StatValue::Int(lo)), Some(StatValue::Int(hi)));
        ColumnStats { rows, distinct: Some(distinct), min, max, ..Default::default() }
    }

    fn distinct_of(segments: &[ColumnStats]) -> u64 {
        column_stats(segments.iter(), None).distinct.unwrap()
    }

    #[test]
    fn distinct_counts_of_keys_samples_and_categories() {
        let keys: Vec<_> = (0..8).map(|i| segment(1000, 1000, i * 1000, i * 1000 + 999)).collect();
        assert_eq!(distinct_of(&keys), 8000);
        // Few values, all of which occur in every segment.
        assert_eq!(distinct_of(&vec![segment(1000, 7, 1, 7); 8]), 7);
        // 8 samples of 1000 rows from 10000 values: 952 values expected in each, 5507 in all.
        let samples = distinct_of(&vec![segment(1000, 952, 0, 9_999); 8]);
        assert!((5200..5800).contains(&samples), "{samples}");
        // The width of the range bounds it.
        assert_eq!(distinct_of(&vec![segment(1000, 900, 0, 899); 8]), 900);
        assert_eq!(column_stats([].iter(), None).distinct, Some(0));
        assert_eq!(column_stats([segment(10, 9, 0, 100)].iter(), Some(4)).distinct, Some(4));
    }
}
