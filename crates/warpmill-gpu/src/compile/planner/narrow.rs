//! Bounds of keys in the row segments that a program reads: a device with a part of a query has tables for the keys of its part only.

use warpmill_ir::origin::{self, ScanColumn, column};
use warpmill_ir::{Expr, Phys, Program, SinkId, Source};

/// The keys of sink `id`, each within the bounds of the scan columns that its values come from.
pub(super) fn narrowed(program: &Program, id: SinkId, keys: &[Expr]) -> Vec<Expr> {
    let narrow = |key: &Expr| {
        let mut key = key.clone();
        if let Some(range) = bounds(program, id, &key) {
            key.ty.range = Some(range);
        }
        key
    };
    keys.iter().map(narrow).collect()
}

/// The bounds of an integer key; `None`: none are known beside its type's, or there is no value.
fn bounds(program: &Program, id: SinkId, key: &Expr) -> Option<(i128, i128)> {
    let (least, greatest) = key.ty.range?;
    if !matches!(key.ty.phys, Phys::I32 | Phys::I64 | Phys::I128) || key.ty.dictionary.is_some() {
        return None;
    }
    let origins = origin::into_sink(program, id, column(key)?)?;
    let found = origins.iter().map(|&of| of_scan(program, of)).reduce(|a, b| {
        let (a, b) = (a?, b?);
        Some((a.0.min(b.0), a.1.max(b.1)))
    });
    let (low, high) = found??;
    let narrower = (least.max(low), greatest.min(high));
    (narrower.0 <= narrower.1).then_some(narrower)
}

/// The bounds of a scan's column in the row segments that it reads.
fn of_scan(program: &Program, (pipeline, output): ScanColumn) -> Option<(i128, i128)> {
    let Source::Scan(scan) = &program.pipelines[pipeline].source else { return None };
    if scan.fields[output].ty.dictionary.is_some() {
        return None;
    }
    scan.table.column_stats(scan.columns[output]).int_range()
}
