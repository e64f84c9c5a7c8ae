//! Pruning of pages of Parquet files by the filters of a scan.

use std::collections::BTreeSet;

use warpmill_format::FormatError;
use warpmill_format::parquet_file::{FilterTest, FilterValue, PageBounds, PageTest, refine};
use warpmill_format::pruning::{Found, float_rank};

use super::PruningMode;
use super::predicate::{Predicate, Values};
use super::select::{by_bounds, test};
use crate::{CompareOp, Expr, ExprKind, Phys, Scalar, Scan};

/// Removes from a scan's table of Parquet files the rows that page indexes and Bloom filters rule out, before any value is read. Reads the indexes of
/// columns in filters only.
///
/// # Errors
/// Files that cannot be read, or have changed.
pub fn leave_out_pages(scan: &mut Scan) -> Result<(), FormatError> {
    if !scan.table.is_parquet() || scan.pruning == PruningMode::None || scan.filters.is_empty() {
        return Ok(());
    }
    let filters = Predicate::of_filters(&scan.filters, &|_| None);
    let mut positions = BTreeSet::new();
    columns(&filters, &mut positions);
    if positions.is_empty() {
        return Ok(());
    }
    let positions: Vec<usize> = positions.into_iter().collect();
    let tested: Vec<usize> = positions.iter().map(|&position| scan.columns[position]).collect();
    let skip = |segment: usize| {
        let find = |values: &Values| {
            let column = scan.columns[values.column];
            by_bounds(values, scan.table.segment_stats(segment, column), &scan.table, column)
        };
        test(&filters, &find) != Found::Perhaps
    };
    let excludes = |known: &[Option<PageBounds>]| {
        let find = |values: &Values| match positions.binary_search(&values.column) {
            Ok(at) => known[at].map_or(Found::Perhaps, |page| by_page(values, &page)),
            Err(_) => Found::Perhaps,
        };
        test(&filters, &find) != Found::Perhaps
    };
    let points = match scan.pruning {
        PruningMode::All => points(scan, &filters),
        PruningMode::MinMax | PruningMode::None => vec![],
    };
    let read = &scan.columns;
    let wanted = PageTest { read, tested: &tested, skip: &skip, excludes: &excludes, filters: &points };
    if let Some(refined) = refine(&scan.table, &wanted)? {
        scan.table = refined;
    }
    Ok(())
}

/// The columns that a predicate restricts.
fn columns(predicate: &Predicate, out: &mut BTreeSet<usize>) {
    match predicate {
        Predicate::Never | Predicate::Unknown => {}
        Predicate::All(list) | Predicate::Any(list) => list.iter().for_each(|inner| columns(inner, out)),
        Predicate::Values(values) => drop(out.insert(values.column)),
    }
}

/// Whether rows of a page can be among `values`.
fn by_page(values: &Values, page: &PageBounds) -> Found {
    let nan = || page.nan && values.ranges.contains(float_rank(f64::NAN));
    match page.ranks {
        _ if values.nulls && page.nulls => Found::Perhaps,
        None => Found::OutOfBounds,
        Some(ranks) if values.ranges.within(ranks).is_empty() && !nan() => Found::OutOfBounds,
        Some(_) => Found::Perhaps,
    }
}

/// Largest number of values tested against a Bloom filter.
const MOST_POINTS: usize = 64;

/// The values to test against Bloom filters.
fn points(scan: &Scan, filters: &Predicate) -> Vec<FilterTest> {
    let alone = std::slice::from_ref(filters);
    let conjuncts = if let Predicate::All(list) = filters { list } else { alone };
    let integers = conjuncts.iter().filter_map(|conjunct| {
        let (column, values) = integers(conjunct)?;
        let is_integer = scan.fields[column].ty.phys.is_int();
        (is_integer && values.len() <= MOST_POINTS).then(|| FilterTest { column: scan.columns[column], values })
    });
    let strings = scan.filters.iter().filter_map(|filter| {
        let (column, values) = strings(filter)?;
        Some(FilterTest { column: scan.columns[column], values })
    });
    integers.chain(strings).collect()
}

/// The column and the values if `predicate` restricts a column to few integers.
fn integers(predicate: &Predicate) -> Option<(usize, Vec<FilterValue>)> {
    match predicate {
        Predicate::Values(Values { column, ranges, nulls: false, .. }) => {
            let mut values = vec![];
            for &(least, greatest) in ranges.as_slice() {
                if greatest.checked_sub(least)? >= (MOST_POINTS - values.len()) as i128 {
                    return None;
                }
                values.extend((least..=greatest).map(FilterValue::Int));
            }
            Some((*column, values))
        }
        Predicate::Any(list) => one_of(list.iter().map(integers)),
        _ => None,
    }
}

/// All values, if they belong to one column.
fn one_of(list: impl Iterator<Item = Option<(usize, Vec<FilterValue>)>>) -> Option<(usize, Vec<FilterValue>)> {
    let mut all: Option<(usize, Vec<FilterValue>)> = None;
    for part in list {
        let (column, values) = part?;
        match &mut all {
            None => all = Some((column, values)),
            Some((same, known)) if *same == column => known.extend(values),
            Some(_) => return None,
        }
    }
    all
}

/// The column and the values if `filter` restricts a column to some strings.
fn strings(filter: &Expr) -> Option<(usize, Vec<FilterValue>)> {
    let column = |expr: &Expr| match expr.kind {
        ExprKind::Column(column) if expr.ty.phys == Phys::Str => Some(column),
        _ => None,
    };
    let text = |value: &Scalar| match value {
        Scalar::Str(text) => Some(FilterValue::Text(text.to_string())),
        _ => None,
    };
    let literal = |expr: &Expr| if let ExprKind::Literal(value) = &expr.kind { text(value) } else { None };
    match &filter.kind {
        ExprKind::Compare { op: CompareOp::Eq, left, right } => {
            let (column, value) = column(left).zip(literal(right)).or_else(|| column(right).zip(literal(left)))?;
            Some((column, vec![value]))
        }
        ExprKind::InList { input, list, negated: false, .. } if list.len() <= MOST_POINTS => {
            Some((column(input)?, list.iter().map(text).collect::<Option<Vec<_>>>()?))
        }
        ExprKind::Or(list) => one_of(list.iter().map(strings)),
        _ => None,
    }
}
