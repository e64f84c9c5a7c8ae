//! Scans that are spread by ranges of a key: rows with equal keys are in one task.
//!
//! A table that lies in the order of a column is split between values of that column instead of between row segments, and so are the tables that are
//! joined on it, as on several devices of one process (`warpmill_place::Partition`).

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::ColumnIndex;
use warpmill_format::TableSnapshot;
use warpmill_ir::ColType;
use warpmill_ir::key_range::KeyRange;
use warpmill_ir::origin::{Classes, ScanColumn};
use warpmill_translate::scan_exec::{KeysOfPart, RowsOfPart, WarpmillScanExec};

use super::aggregate::grouped;
use super::join::{equal_columns, output_columns};
use super::keys::by_row;
use super::leaf::shares;
use super::order::partition_keys;
use super::spread_key::SpreadKey;

/// The split of a scan.
#[derive(Debug, Clone)]
pub(super) struct KeySplit {
    number: usize,
    /// Output column of the scan.
    column: usize,
    /// The range of each task.
    ranges: Arc<[KeyRange]>,
}

impl KeySplit {
    pub fn key(&self) -> SpreadKey {
        SpreadKey::of_ranges(self.number, self.column)
    }

    /// The rows that each task reads.
    pub fn parts(&self, scan: &WarpmillScanExec) -> impl Iterator<Item = RowsOfPart> {
        let (table, column) = (Arc::clone(scan.table()), scan.projection()[self.column]);
        self.ranges.iter().map(move |&range| RowsOfPart {
            segments: range.segments(&table, column),
            keys: Some(KeysOfPart { column: self.column, range }),
        })
    }
}

/// The scans of a plan that are split by keys.
#[derive(Debug, Default)]
pub(super) struct KeySplits {
    /// By the address of the scan, which [`super::cut`] holds.
    of: HashMap<usize, KeySplit>,
}

impl KeySplits {
    /// Splits for `tasks` tasks. The largest tables in the order of a column that is joined with another large table, or grouped by, define the ranges.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Self {
        let mut found = Columns::default();
        found.origins(plan);
        let mut anchors: Vec<usize> = (0..found.scans.len()).collect();
        anchors.sort_by_key(|&scan| Reverse(found.scans[scan].table().num_rows()));
        let mut splits: HashMap<usize, KeySplit> = HashMap::new();
        for anchor in anchors {
            let scan = found.scans[anchor];
            let column = |&column: &usize| !splits.contains_key(&anchor) && found.is_used((anchor, column));
            let ranges = |column| Some((column, anchor_ranges(scan, column, tasks)?));
            let Some((column, ranges)) = (0..scan.projection().len()).filter(column).find_map(ranges) else { continue };
            let ranges: Arc<[KeyRange]> = ranges.into();
            for (member, column) in found.classes.members((anchor, column)) {
                if member == anchor || follows(found.scans[member], column, &ranges) {
                    let split = KeySplit { number: anchor, column, ranges: Arc::clone(&ranges) };
                    splits.entry(member).or_insert(split);
                }
            }
        }
        let address = |(scan, split)| (address(found.scans[scan]), split);
        Self { of: splits.into_iter().map(address).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The split of the scan `plan`.
    pub fn split(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<&KeySplit> {
        self.of.get(&address(plan.downcast_ref()?))
    }
}

fn address(scan: &WarpmillScanExec) -> usize {
    std::ptr::from_ref(scan).addr()
}

/// The table and the table's column of output column `column` of a scan, if it can be a key: integers without NULLs.
fn key_column(scan: &WarpmillScanExec, column: usize) -> Option<(&Arc<TableSnapshot>, usize)> {
    let (table, column) = (scan.table(), scan.projection()[column]);
    let ty = ColType::of(table.schema().field(column).data_type(), false)?;
    (KeyRange::can_hold(&ty) && table.column_stats(column).nulls == 0).then_some((table, column))
}

/// The key range of each task, if the table lies in the order of this column: each task reads its share of the row segments, and perhaps one more.
fn anchor_ranges(scan: &WarpmillScanExec, column: usize, tasks: usize) -> Option<Vec<KeyRange>> {
    let (table, column) = key_column(scan, column)?;
    if table.path().is_none() || table.num_segments() < 2 {
        return None;
    }
    let bounds = (0..table.num_segments()).map(|segment| table.segment_stats(segment, column).int_range());
    let bounds = bounds.collect::<Option<Vec<_>>>()?;
    let ordered = bounds.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    ordered.then(|| KeyRange::of_segments(table, column, &shares(table, tasks)))?
}

/// Whether a scan that is split by the ranges of another lies in their order too: the tasks read no row segments twice but where ranges meet.
fn follows(scan: &WarpmillScanExec, column: usize, ranges: &[KeyRange]) -> bool {
    let Some((table, column)) = key_column(scan, column) else { return false };
    let read: usize = ranges.iter().map(|range| range.segments(table, column).len()).sum();
    read < table.num_segments() + ranges.len()
}

/// The scans of a plan, and the columns of them that it compares and groups by.
#[derive(Default)]
struct Columns<'a> {
    scans: Vec<&'a WarpmillScanExec>,
    classes: Classes,
    grouped: BTreeSet<ScanColumn>,
}

impl<'a> Columns<'a> {
    /// Whether a split by this column could spare an exchange: the rows are grouped by it, or joined with those of another table of several row
    /// segments.
    fn is_used(&self, column: ScanColumn) -> bool {
        let class = self.classes.find(column);
        let is_grouped = self.grouped.iter().any(|&grouped| self.classes.find(grouped) == class);
        let is_large = |scan: &&usize| self.scans[**scan].table().num_segments() > 1;
        is_grouped || self.classes.members(column).keys().filter(is_large).count() > 1
    }

    /// The scan column that each column of `plan` comes from, if any.
    fn origins(&mut self, plan: &'a Arc<dyn ExecutionPlan>) -> Vec<Option<ScanColumn>> {
        if let Some(scan) = plan.downcast_ref::<WarpmillScanExec>() {
            let known = self.scans.iter().position(|known| std::ptr::eq(*known, scan));
            let number = known.unwrap_or_else(|| {
                self.scans.push(scan);
                self.scans.len() - 1
            });
            return (0..scan.projection().len()).map(|column| Some((number, column))).collect();
        }
        let inputs: Vec<_> = plan.children().into_iter().map(|input| self.origins(input)).collect();
        if let Some(node) = by_row(plan) {
            return node.from.iter().map(|from| inputs[0][(*from)?]).collect();
        }
        if let Some(node) = plan.downcast_ref::<HashJoinExec>() {
            for (left, right) in equal_columns(node) {
                if let (Some(left), Some(right)) = (inputs[0][left], inputs[1][right]) {
                    self.classes.join(left, right);
                }
            }
            let origin = |column: &ColumnIndex| match column.side {
                JoinSide::Left => inputs[0][column.index],
                JoinSide::Right => inputs[1][column.index],
                JoinSide::None => None,
            };
            return output_columns(node).iter().map(origin).collect();
        }
        let mut origins = match (plan.downcast_ref::<AggregateExec>(), &inputs[..]) {
            (Some(node), [input]) => {
                let groups: Vec<_> = grouped(node).into_iter().map(|group| input[group?]).collect();
                self.grouped.extend(groups.iter().flatten());
                groups
            }
            // Sorts, limits and windows: their own columns come last.
            (None, [input]) if plan.schema().fields().starts_with(plan.children()[0].schema().fields()) => {
                let keys = partition_keys(plan);
                let columns = keys.iter().filter_map(|key| key.downcast_ref::<Column>());
                self.grouped.extend(columns.filter_map(|column| input[column.index()]));
                input.clone()
            }
            _ => vec![],
        };
        origins.resize(plan.schema().fields().len(), None);
        origins
    }
}
