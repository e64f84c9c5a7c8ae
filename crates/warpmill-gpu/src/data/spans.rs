//! Spans: the parts of row segments that kernels read, runs of vectors in which pruning left rows. The vectors between them are in device memory, but
//! no kernel reads them.

use warpmill_format::VECTOR_ROWS;
use warpmill_ir::pruning::Selected;

/// A run of vectors that a kernel treats as a row segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first vector.
    pub first: u32,
    /// Number of rows from there.
    pub rows: u32,
}

impl Span {
    /// Number of vectors.
    pub fn vectors(self) -> u64 {
        u64::from(self.rows).div_ceil(VECTOR_ROWS as u64)
    }
}

/// The spans of a scan.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Spans {
    /// A span has at most 2^`bits` vectors, and takes 2^`bits` tasks of a kernel.
    pub bits: u32,
    /// Spans of all row segments with rows left, in order.
    spans: Vec<Span>,
    /// The end of each row segment's spans in `spans`.
    ends: Vec<usize>,
}

/// Binary logarithm of the vectors of the largest row segment.
const MOST_BITS: u32 = 10;

/// Cost of a span's descriptors, in tasks without rows.
const SPAN_COST: u64 = 8;

impl Spans {
    /// The spans of `selected`, cut to balance empty tasks against descriptors. `rows_of` returns the rows of a row segment.
    pub fn of(selected: &Selected, rows_of: impl Fn(usize) -> usize) -> Self {
        // Uncut spans, each with its row segment.
        let mut whole: Vec<(usize, Span)> = Vec::with_capacity(selected.rows.len());
        for &(segment, start, rows) in &selected.rows {
            // Round to whole vectors.
            let (first, end) =
                (start / VECTOR_ROWS, (start + rows).next_multiple_of(VECTOR_ROWS).min(rows_of(segment)));
            let span = |from: u32| Span { first: from, rows: (end - from as usize * VECTOR_ROWS) as u32 };
            match whole.last_mut() {
                Some((last, before))
                    if *last == segment && u64::from(before.first) + before.vectors() >= first as u64 =>
                {
                    *before = span(before.first);
                }
                _ => whole.push((segment, span(first as u32))),
            }
        }
        let cost = |bits: u32| {
            let spans = whole.iter().map(|(_, span)| span.vectors().div_ceil(1 << bits));
            spans.sum::<u64>() * (SPAN_COST + (1 << bits))
        };
        let bits = (0..=MOST_BITS).rev().min_by_key(|&bits| cost(bits)).unwrap_or(MOST_BITS);
        let cut = |span: Span| {
            let most = (VECTOR_ROWS as u32) << bits;
            (0..span.rows.div_ceil(most)).map(move |number| Span {
                first: span.first + (number << bits),
                rows: most.min(span.rows - number * most),
            })
        };
        let (mut spans, mut ends) = (Vec::with_capacity(whole.len()), vec![]);
        for of_segment in whole.chunk_by(|a, b| a.0 == b.0) {
            spans.extend(of_segment.iter().flat_map(|(_, span)| cut(*span)));
            ends.push(spans.len());
        }
        Self { bits, spans, ends }
    }

    /// The spans of the row segment at index `position` among those with rows left.
    pub fn of_segment(&self, position: usize) -> &[Span] {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.spans[start..self.ends[position]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: usize = 1 << 20;

    fn spans(rows: &[(usize, usize, usize)], last: usize) -> Spans {
        let selected = Selected { rows: rows.to_vec(), ..Selected::default() };
        Spans::of(&selected, |segment| if segment == 9 { last } else { SEGMENT })
    }

    fn by_segment(spans: &Spans) -> Vec<Vec<Span>> {
        (0..spans.ends.len()).map(|position| spans.of_segment(position).to_vec()).collect()
    }

    #[test]
    fn whole_row_segments_stay_whole() {
        let made = spans(&[(0, 0, SEGMENT), (1, 0, SEGMENT), (3, 0, SEGMENT)], 0);
        assert_eq!(made.bits, MOST_BITS);
        assert_eq!(by_segment(&made), vec![vec![Span { first: 0, rows: SEGMENT as u32 }]; 3]);
    }

    #[test]
    fn a_small_table_takes_few_tasks() {
        let made = spans(&[(9, 0, 2556)], 2556);
        assert_eq!(by_segment(&made), [[Span { first: 0, rows: 2556 }]]);
        assert_eq!(made.bits, 2);
    }

    #[test]
    fn nothing_left_is_nothing() {
        assert_eq!(by_segment(&spans(&[], 0)), Vec::<Vec<Span>>::new());
    }

    #[test]
    fn spans_cover_what_is_left_and_little_else() {
        let random = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (*seed >> 33) as usize
        };
        let mut seed = 7;
        for case in 0..200 {
            // Zones of 2^11 to 2^16 rows, some of them left; in every third case with bounds inside vectors.
            let zone = 2048 << (case % 6);
            let last = 1 + random(&mut seed) % SEGMENT;
            let mut rows = vec![];
            for segment in [0, 4, 9] {
                let all = if segment == 9 { last } else { SEGMENT };
                let mut from = if case % 3 == 0 { random(&mut seed) % 5000 } else { 0 };
                while from < all {
                    let len = (zone * (1 + random(&mut seed) % 4)).min(all - from);
                    if random(&mut seed) % 3 == 0 {
                        rows.push((segment, from, len));
                    }
                    from += len + zone;
                }
            }
            let made = spans(&rows, last);
            let mut segments: Vec<usize> = rows.iter().map(|row| row.0).collect();
            segments.dedup();
            assert_eq!(made.ends.len(), segments.len());
            for (segment, spans) in segments.iter().zip(by_segment(&made)) {
                let all = if *segment == 9 { last } else { SEGMENT };
                let mut expected = vec![false; all.div_ceil(VECTOR_ROWS)];
                for (_, start, len) in rows.iter().filter(|row| row.0 == *segment) {
                    expected[start / VECTOR_ROWS..(start + len).div_ceil(VECTOR_ROWS)].fill(true);
                }
                let mut found = vec![false; expected.len()];
                for span in spans {
                    assert!(span.rows > 0 && span.vectors() <= 1 << made.bits);
                    let (first, end) = (span.first as usize, span.first as usize + span.vectors() as usize);
                    // Rows end where a vector or the row segment does.
                    assert_eq!(first * VECTOR_ROWS + span.rows as usize, (end * VECTOR_ROWS).min(all));
                    assert!(!found[first..end].contains(&true), "no vector twice");
                    found[first..end].fill(true);
                }
                assert_eq!(found, expected, "case {case}, row segment {segment}");
            }
        }
    }
}
