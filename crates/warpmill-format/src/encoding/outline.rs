//! Facts gathered in one pass over values: bounds of every vector, and differences of neighbours. The choice of an encoding is based on these and on
//! samples.

use super::word::Value;
use crate::VECTOR_ROWS;

/// The outline of values.
#[derive(Debug, Clone)]
pub(crate) struct Outline<V> {
    /// The least and the greatest value of each vector.
    pub bounds: Vec<(V, V)>,
    /// Runs of equal values, cut at the ends of vectors.
    pub runs: usize,
    /// Values that differ from the one before them.
    pub changes: usize,
    /// Values that are less than the one before them.
    pub descents: usize,
}

impl<V: Value> Outline<V> {
    /// The outline of `values`.
    pub fn of(values: &[V]) -> Self {
        let vectors = values.len().div_ceil(VECTOR_ROWS);
        let mut outline = Self { bounds: Vec::with_capacity(vectors), runs: vectors, changes: 0, descents: 0 };
        let mut last = values.first().copied().unwrap_or_default();
        for vector in values.chunks(VECTOR_ROWS) {
            // Separate loops, which are vectorized.
            let first = (vector[0], vector[0]);
            outline.bounds.push(vector.iter().fold(first, |(lo, hi), &x| (lo.min(x), hi.max(x))));
            let pairs = || vector.iter().zip(&vector[1..]);
            let changes: u64 = pairs().map(|(a, b)| u64::from(a != b)).sum();
            let descents: u64 = pairs().map(|(a, b)| u64::from(a > b)).sum();
            outline.runs += changes as usize;
            outline.changes += changes as usize + usize::from(vector[0] != last);
            outline.descents += descents as usize + usize::from(vector[0] < last);
            last = vector[vector.len() - 1];
        }
        outline
    }

    /// The least and the greatest of all values.
    pub fn range(&self) -> Option<(V, V)> {
        self.bounds.iter().copied().reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlines_are_those_of_the_values() {
        let patterns: [fn(i64) -> i64; 4] = [|i| i, |i| i / 3, |i| i * 7919 % 1009, |_| -5];
        for (n, f) in [0, 1, 1023, 1024, 1025, 5000].into_iter().flat_map(|n| patterns.map(|f| (n, f))) {
            let values: Vec<i64> = (0..n).map(f).collect();
            let outline = Outline::of(&values);
            let pairs = || values.windows(2);
            assert_eq!(outline.changes, pairs().filter(|p| p[0] != p[1]).count());
            assert_eq!(outline.descents, pairs().filter(|p| p[0] > p[1]).count());
            let runs = values.chunks(VECTOR_ROWS).map(|v| 1 + v.windows(2).filter(|p| p[0] != p[1]).count());
            assert_eq!(outline.runs, runs.sum::<usize>());
            let bounds = values.chunks(VECTOR_ROWS).map(|v| (*v.iter().min().unwrap(), *v.iter().max().unwrap()));
            assert_eq!(outline.bounds, bounds.collect::<Vec<_>>());
            assert_eq!(outline.range(), values.iter().min().copied().zip(values.iter().max().copied()));
        }
    }
}
