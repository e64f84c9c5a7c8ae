//! The predicates of a scan, and their evaluation: on encoded values, on decoded vectors, on statistics.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use warpmill_format::{Bitmap, ColumnStats, Segment, StrView, SymbolAutomaton};
use warpmill_ir::Expr;

use crate::context::Result;
use crate::expr::{PreparedExpr, TextTest};
use crate::join::{KeyFilter, count_rows};

/// One conjunct of a scan's WHERE clause.
#[derive(Debug)]
pub struct ScanFilter {
    /// The predicate over the scan's columns.
    pub expr: PreparedExpr,
    /// Text in EXPLAIN.
    pub text: String,
    /// Indices of the scan's columns that it reads.
    pub columns: Vec<usize>,
}

impl ScanFilter {
    /// Prepares `expr`.
    pub fn new(expr: &Expr) -> Result<Self> {
        let mut columns = vec![];
        expr.visit_columns(&mut |column| columns.push(column));
        Ok(Self { expr: PreparedExpr::new(expr)?, text: expr.to_string(), columns })
    }

    /// The equivalent filter on encoded values, if there is one. `symbols`: whether a column's strings are encoded as symbols.
    fn encoded(&self, symbols: impl Fn(usize) -> bool) -> Option<EncodedFilter> {
        if let Some(test) = self.expr.as_text_test().filter(|test| symbols(test.column)) {
            let column = test.column;
            let test = Test::Text(TextFilter { test: test.clone(), automata: Mutex::default() });
            return Some(EncodedFilter { column, test, nulls: true });
        }
        if let Some((column, lo, hi)) = self.expr.as_int_range() {
            return Some(EncodedFilter { column, test: Test::Range(lo, hi), nulls: true });
        }
        let (column, set) = self.expr.as_code_set()?;
        let mut codes = (0..set.len()).filter(|&code| set.get(code));
        let (first, count) = (codes.next(), set.count_ones());
        let test = match first {
            None => Test::Range(1, 0),
            // A set of consecutive codes is a range, which compares packed values.
            Some(first) if (first..first + count).all(|code| code < set.len() && set.get(code)) => {
                Test::Range(first as i128, (first + count) as i128 - 1)
            }
            Some(_) => Test::Codes(set.clone()),
        };
        Some(EncodedFilter { column, test, nulls: true })
    }
}

/// A test of one column on encoded values.
#[derive(Debug)]
pub struct EncodedFilter {
    /// Index of the scan's column.
    pub column: usize,
    test: Test,
    /// Whether NULL rows have to be dropped (not for a join's key bounds: the probe does it).
    nulls: bool,
}

#[derive(Debug)]
enum Test {
    /// Unscaled integers or codes within bounds.
    Range(i128, i128),
    /// Codes in a set.
    Codes(Bitmap),
    /// Texts.
    Text(TextFilter),
}

/// A test of texts, with its automata over the symbols of row segments.
#[derive(Debug)]
struct TextFilter {
    test: Arc<TextTest>,
    automata: Mutex<HashMap<usize, Arc<SymbolAutomaton>>>,
}

impl TextFilter {
    /// Clears in `mask` the rows that fail; see [`EncodedFilter::apply`].
    fn apply(&self, (number, segment): (usize, &Segment), start: usize, len: usize, mask: &mut [u64]) {
        /// Largest number of cached automata of up to 256 KiB each: more than the number of row segments being read.
        const KEPT: usize = 64;
        let known = self.automata.lock().get(&number).cloned();
        let made = || {
            let made = segment.text_automaton(&self.test.automaton).map(Arc::new)?;
            let mut automata = self.automata.lock();
            while automata.len() >= KEPT
                && let Some(&first) = automata.keys().min()
            {
                automata.remove(&first);
            }
            Some(automata.entry(number).or_insert(made).clone())
        };
        if let Some(automaton) = known.or_else(made) {
            return segment.and_text(start, len, &automaton, self.test.wanted, mask);
        }
        let (mut text, mut views) = (Vec::new(), vec![StrView::default(); len]);
        segment.decode_str(start, &mut text, &mut views);
        for (word, views) in mask.iter_mut().zip(views.chunks(64)) {
            let bits = (0..).zip(views).filter(|(bit, view)| *word >> bit & 1 != 0 && self.test.passes(view));
            *word = bits.fold(0, |bits, (bit, _)| bits | 1 << bit);
        }
    }
}

/// Splits a scan's filters into tests on encoded values, merged by column and sorted by selectivity (most selective first), and the rest. `symbols`
/// tells which columns have symbol-encoded strings. Bounds of join keys become tests, too, where they cut off at least half of the column's range.
/// Sorts `prune` by selectivity.
pub fn split(
    filters: Vec<ScanFilter>,
    prune: &mut [KeyPrune],
    stats: impl Fn(usize) -> ColumnStats,
    symbols: impl Fn(usize) -> bool,
) -> (Vec<EncodedFilter>, Vec<ScanFilter>) {
    let (mut encoded, mut rest): (Vec<EncodedFilter>, Vec<ScanFilter>) = (vec![], vec![]);
    for filter in filters {
        match filter.encoded(&symbols) {
            Some(test) => merge(&mut encoded, test),
            None => rest.push(filter),
        }
    }
    for key in &*prune {
        if let (Some((lo, hi)), Some((min, max))) = (key.range, stats(key.column).int_range()) {
            let (lo, hi) = (lo.max(min), hi.min(max));
            if lo > hi || (hi - lo) < (max - min) / 2 {
                merge(&mut encoded, EncodedFilter { column: key.column, test: Test::Range(lo, hi), nulls: false });
            }
        }
    }
    encoded.sort_by(|a, b| a.fraction(&stats).total_cmp(&b.fraction(&stats)));
    prune.sort_by(|a, b| a.fraction(&stats).total_cmp(&b.fraction(&stats)));
    (encoded, rest)
}

fn merge(list: &mut Vec<EncodedFilter>, new: EncodedFilter) {
    for old in list.iter_mut().filter(|old| old.column == new.column) {
        if let (Test::Range(a, b), Test::Range(lo, hi)) = (&mut old.test, &new.test) {
            (*a, *b) = ((*a).max(*lo), (*b).min(*hi));
            old.nulls |= new.nulls;
            return;
        }
    }
    list.push(new);
}

impl EncodedFilter {
    /// Whether it tests texts, which takes longer than testing integers.
    pub fn is_of_text(&self) -> bool {
        matches!(self.test, Test::Text(_))
    }

    /// The fraction of rows that pass if values are spread evenly.
    fn fraction(&self, stats: impl Fn(usize) -> ColumnStats) -> f64 {
        let stats = stats(self.column);
        match &self.test {
            Test::Range(lo, hi) => {
                let (min, max) = stats.int_range().unwrap_or((0, stats.distinct.unwrap_or(1000) as i128));
                let passed = (*hi.min(&max) - *lo.max(&min) + 1).max(0);
                passed as f64 / (max - min + 1) as f64
            }
            Test::Codes(set) => set.count_ones() as f64 / set.len().max(1) as f64,
            // The last one, since it takes more work than the others for any result.
            Test::Text(_) => f64::INFINITY,
        }
    }

    /// Clears in `mask` the rows of `start .. start + len` of `segment` that fail. `number` is the index of the row segment.
    pub fn apply(&self, (number, segment): (usize, &Segment), start: usize, len: usize, mask: &mut [u64]) {
        match &self.test {
            Test::Text(test) => test.apply((number, segment), start, len, mask),
            Test::Range(lo, hi) => segment.and_range(start, len, *lo, *hi, mask),
            Test::Codes(set) => segment.and_codes(start, len, set, mask),
        }
        if self.nulls
            && let Some(validity) = segment.validity(start, len)
        {
            mask.iter_mut().zip(validity.words()).for_each(|(word, valid)| *word &= valid);
        }
    }
}

/// A join's keys as a filter on a scan column (the scan feeds an inner or semi join).
#[derive(Debug)]
pub struct KeyPrune {
    /// Index of the scan's column.
    pub column: usize,
    /// Bounds of the build's keys; `None` for types without bounds. An empty build has `(1, 0)`.
    pub range: Option<(i128, i128)>,
    /// Filter for the keys within the bounds.
    pub filter: Option<Arc<KeyFilter>>,
    tested: AtomicU64,
    passed: AtomicU64,
}

impl KeyPrune {
    /// A prune of `column`.
    pub fn new(column: usize, range: Option<(i128, i128)>, filter: Option<Arc<KeyFilter>>) -> Self {
        Self { column, range, filter, tested: AtomicU64::new(0), passed: AtomicU64::new(0) }
    }

    /// Whether testing rows has paid so far: a filter that passes nearly all rows only costs.
    pub fn pays(&self) -> bool {
        let tested = self.tested.load(Ordering::Relaxed);
        tested < 32 * 1024 || self.passed.load(Ordering::Relaxed) * 4 < tested * 3
    }

    /// Clears in `mask` the rows of `rows` of `segment` that are NULL or not among the build's keys; see [`KeyFilter::apply`]. Returns the number of
    /// decoded values.
    pub fn apply(&self, filter: &KeyFilter, segment: &Segment, rows: Range<usize>, mask: &mut [u64]) -> usize {
        let tested = count_rows(mask);
        let decoded = filter.apply(segment, rows.clone(), mask);
        if let Some(validity) = segment.validity(rows.start, rows.len()) {
            mask.iter_mut().zip(validity.words()).for_each(|(word, valid)| *word &= valid);
        }
        self.tested.fetch_add(tested as u64, Ordering::Relaxed);
        self.passed.fetch_add(count_rows(mask) as u64, Ordering::Relaxed);
        decoded
    }

    /// The fraction of rows that pass if values are spread evenly.
    fn fraction(&self, stats: impl Fn(usize) -> ColumnStats) -> f64 {
        let Some(filter) = &self.filter else { return 1.0 };
        let stats = stats(self.column);
        let spread = stats.int_range().map(|(min, max)| (max - min + 1) as u64);
        filter.keys() as f64 / stats.distinct.or(spread).unwrap_or(u64::MAX).max(1) as f64
    }

    /// Number of rows that the filter dropped.
    pub fn dropped(&self) -> u64 {
        self.tested.load(Ordering::Relaxed) - self.passed.load(Ordering::Relaxed)
    }
}
