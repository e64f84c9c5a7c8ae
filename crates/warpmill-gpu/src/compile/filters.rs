//! Filters of scans: which of them are decided on packed values, and their estimated selectivity.

use std::collections::BTreeMap;

use warpmill_eval::expr::{PreparedExpr, code_set, int_range};
use warpmill_format::Bitmap;
use warpmill_ir::pruning::CodeSet;
use warpmill_ir::{Expr, ExprKind, Phys, Program, Scan, Source, Unsupported};

use super::estimate::{UNKNOWN, packed_fraction};
use super::scan_shape::{PackedTest, ScanShape, TestShape, coarse};
use crate::data::shape::ColumnShape;

/// A test of a scan's column.
#[derive(Debug, Clone)]
pub struct ColumnTest {
    /// The scan's column.
    pub column: usize,
    /// The test.
    pub test: PackedTest,
    /// Estimated selectivity.
    pub fraction: f64,
}

/// The predicates of a scan: tests of packed values, and all others.
#[derive(Debug, Default)]
pub struct ScanFilters {
    /// The matching codes of each predicate that is over one dictionary.
    sets: Vec<Option<CodeSet>>,
    /// Tests of packed values, which need no decoding.
    pub packed: Vec<ColumnTest>,
    /// Positions of the other predicates, which are evaluated per row.
    pub rest: Vec<usize>,
}

/// The predicates of a program's scans, by pipeline.
pub type Filters = BTreeMap<usize, ScanFilters>;

impl ScanFilters {
    /// Splits the filters of `scan`.
    ///
    /// # Errors
    /// Filters that cannot be evaluated.
    pub fn of(scan: &Scan) -> Result<Self, Unsupported> {
        let mut filters = Self::default();
        for (position, expr) in scan.filters.iter().enumerate() {
            let range = int_range(expr);
            let set = if range.is_none() { code_set(expr) } else { None };
            let test = match (range, &set) {
                (Some((column, least, greatest)), _) => Some((column, test_of_range(least, greatest))),
                (None, Some(set)) if !set.null => Some((set.column, test_of_set(&set.codes, expr))),
                // Refuse expressions that the CPU cannot evaluate.
                (None, None) => PreparedExpr::new(expr).map(|_| None).map_err(|error| Unsupported::new(expr, error))?,
                _ => None,
            };
            // Bounds of tests have 64 bits.
            let narrow = |(column, _): &(usize, PackedTest)| scan.fields[*column].ty.phys != Phys::I128;
            match test.filter(narrow) {
                Some((column, test)) => {
                    let fraction = packed_fraction(scan, column, &test);
                    filters.packed.push(ColumnTest { column, test, fraction });
                }
                None => filters.rest.push(position),
            }
            filters.sets.push(set);
        }
        Ok(filters)
    }

    /// Splits the filters of all scans of `program`.
    ///
    /// # Errors
    /// Filters that cannot be evaluated.
    pub fn of_program(program: &Program) -> Result<Filters, Unsupported> {
        let scans = program.pipelines.iter().enumerate().filter_map(|(index, pipeline)| match &pipeline.source {
            Source::Scan(scan) => Some(Self::of(scan).map(|filters| (index, filters))),
            _ => None,
        });
        scans.collect()
    }

    /// The combined selectivity, assuming independence.
    pub fn selectivity(&self) -> f64 {
        self.packed.iter().map(|test| test.fraction).product::<f64>() * UNKNOWN.powi(self.rest.len() as i32)
    }

    /// The shape of a scan with these filters and the column shapes `kernels`: everything that its kernels depend on.
    pub fn shape(&self, kernels: Vec<Vec<ColumnShape>>) -> ScanShape {
        let test = |(number, test): (usize, &ColumnTest)| TestShape {
            number,
            column: test.column,
            is_set: matches!(test.test, PackedTest::Codes(_)),
            fraction: coarse(test.fraction),
        };
        ScanShape { tests: self.packed.iter().enumerate().map(test).collect(), kernels }
    }
}

fn test_of_range(least: i128, greatest: i128) -> PackedTest {
    let clamp = |x: i128| x.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    match least > i64::MAX.into() || greatest < i64::MIN.into() || least > greatest {
        true => PackedTest::Range(1, 0),
        false => PackedTest::Range(clamp(least), clamp(greatest)),
    }
}

/// The test for the codes in `set`, for which `expr` is true.
fn test_of_set(set: &Bitmap, expr: &Expr) -> PackedTest {
    // Kernel texts must not depend on whether the codes of an IN list are consecutive.
    let is_list = matches!(expr.kind, ExprKind::InList { .. });
    let mut codes = (0..set.len()).filter(|&code| set.get(code));
    let (first, count) = (codes.next(), set.count_ones());
    match first {
        None => PackedTest::Range(1, 0),
        // Consecutive codes are a range.
        Some(first) if !is_list && (first..first + count).all(|code| code < set.len() && set.get(code)) => {
            PackedTest::Range(first as i64, (first + count) as i64 - 1)
        }
        Some(_) => PackedTest::Codes(set.clone()),
    }
}

/// The codes for which `expr` is true, if it is a predicate over one dictionary. Reuses the sets in `filters` of `program`.
pub fn codes_of(expr: &Expr, program: &Program, filters: &Filters) -> Option<CodeSet> {
    let known = filters.iter().find_map(|(&index, filters)| {
        let Source::Scan(scan) = &program.pipelines[index].source else { return None };
        let position = scan.filters.iter().position(|filter| std::ptr::eq(filter, expr) || filter == expr)?;
        Some(&filters.sets[position])
    });
    known.cloned().unwrap_or_else(|| code_set(expr))
}

/// The selectivity of each pipeline's scan filters; 1 for other sources.
pub fn selectivities(program: &Program, filters: &Filters) -> Vec<f64> {
    (0..program.pipelines.len()).map(|index| filters.get(&index).map_or(1.0, ScanFilters::selectivity)).collect()
}
