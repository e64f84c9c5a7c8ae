//! Late materialization of columns that programs do not support (lists, structs, maps, bytes, intervals): below filters, limits and top-n sorts, row
//! numbers replace them, so that programs can run these operators; the values of the remaining rows are fetched afterwards. Fields of structs and
//! lengths are columns of their own.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use warpmill_format::TableSnapshot;
use warpmill_ir::ColType;
use warpmill_translate::scan_exec::WarpmillScanExec;

use super::fetch::{FetchExec, Origin};
use crate::catalog::ROW;

/// Functions that return the length of a list, a map or bytes.
const LENGTHS: [&str; 5] = ["length", "array_length", "list_length", "cardinality", "octet_length"];

/// The most rows of a top-n sort that are fetched: they lie anywhere in the table.
const MOST_SORTED: usize = 1 << 16;

/// `plan`, with unsupported columns fetched last, where fewer rows remain.
pub(super) fn fetched_last(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if !plan.exists(|node| Ok(node.downcast_ref::<WarpmillScanExec>().is_some_and(has_unheld)))? {
        return Ok(plan);
    }
    let fetched = plan.transform_down(|node| match lift(&node)? {
        Some(lifted) if lifted.is_worth_it() => {
            Ok(Transformed::new(lifted.fetched(&node)?, true, TreeNodeRecursion::Jump))
        }
        _ => Ok(Transformed::no(node)),
    });
    Ok(fetched?.data)
}

/// Whether a scan has columns that programs do not support.
fn has_unheld(scan: &WarpmillScanExec) -> bool {
    scan.projection().iter().any(|&column| !is_held(scan.table(), column))
}

fn is_held(table: &TableSnapshot, column: usize) -> bool {
    ColType::of(table.schema().field(column).data_type(), true).is_some()
}

/// A plan with row numbers in place of columns that programs do not support.
struct Lifted {
    plan: Arc<dyn ExecutionPlan>,
    /// The origin of each column of the replaced plan.
    outputs: Vec<Origin>,
    /// The column of row numbers.
    numbers: usize,
    /// The columns for parts of nested values.
    parts: Vec<Part>,
    table: Arc<TableSnapshot>,
    name: String,
    /// Whether it may have fewer rows than the table.
    fewer: bool,
}

/// A part of nested values that is a column of a plan: a field of a struct, or the length of a list.
#[derive(Clone)]
struct Part {
    /// As in [`TableSnapshot::with_parts`].
    path: Vec<usize>,
    /// The column of the plan.
    column: usize,
}

impl Lifted {
    /// Whether the plan has fewer rows than the table, or no columns to fetch.
    fn is_worth_it(&self) -> bool {
        self.fewer || self.outputs.iter().all(|origin| matches!(origin, Origin::Input(_)))
    }

    /// The replacement of `node`, with its columns fetched. Columns that are not used any more are dropped below the fetch.
    fn fetched(self, node: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = node.schema();
        let (mut exprs, mut outputs) = (vec![], vec![]);
        for (origin, field) in self.outputs.iter().zip(schema.fields()) {
            outputs.push(match *origin {
                Origin::Input(at) => {
                    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(self.plan.schema().field(at).name(), at));
                    exprs.push(ProjectionExpr::new(column, field.name().clone()));
                    Origin::Input(exprs.len() - 1)
                }
                table => table,
            });
        }
        let fetches = outputs.len() > exprs.len();
        let numbers = exprs.len();
        if fetches {
            exprs.push(self.number());
        }
        let plan = Arc::new(ProjectionExec::try_new(exprs, self.plan)?);
        if !fetches {
            return Ok(plan);
        }
        Ok(Arc::new(FetchExec::new(plan, schema, outputs, numbers, self.table, self.name)))
    }

    /// The column of row numbers.
    fn number(&self) -> ProjectionExpr {
        ProjectionExpr::new(Arc::new(Column::new(ROW, self.numbers)), ROW.to_owned())
    }

    /// Rewrites `expr`, which reads only a part of nested values, over the part's column.
    fn over_part(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            return Some(Arc::new(IsNullExpr::new(self.length(test.arg())?)));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            return Some(Arc::new(IsNotNullExpr::new(self.length(test.arg())?)));
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
            && LENGTHS.contains(&call.fun().name())
            && let [of] = call.args()
        {
            return Some(Arc::new(CastExpr::new(self.length(of)?, call.return_type().clone(), None)));
        }
        self.part(&self.path(expr)?.0)
    }

    /// The column that the length of `expr` is, which is NULL where `expr` is.
    fn length(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let (mut path, data_type) = self.path(expr)?;
        path.push(0);
        let has_length = matches!(data_type, DataType::List(_) | DataType::Map(..) | DataType::Binary);
        has_length.then(|| self.part(&path)).flatten()
    }

    fn part(&self, path: &[usize]) -> Option<Arc<dyn PhysicalExpr>> {
        let known = self.parts.iter().find(|part| part.path == path)?;
        Some(Arc::new(Column::new(self.plan.schema().field(known.column).name(), known.column)))
    }

    /// The path of the column or field that `expr` reads, and its type.
    fn path(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<(Vec<usize>, DataType)> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            let Origin::Table(column) = self.outputs[column.index()] else { return None };
            return Some((vec![column], self.table.schema().field(column).data_type().clone()));
        }
        let call = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.fun().name() == "get_field")?;
        let (around, names) = call.args().split_first()?;
        let (mut path, mut data_type) = self.path(around)?;
        for name in names {
            let name = name.downcast_ref::<Literal>()?.value().try_as_str()??;
            let DataType::Struct(fields) = data_type else { return None };
            let (at, field) = fields.find(name)?;
            path.push(at);
            data_type = field.data_type().clone();
        }
        Some((path, data_type))
    }

    /// `expr` over this plan's columns; `None` where it reads one that is fetched.
    fn mapped(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let mut reads_fetched = false;
        let mapped = Arc::clone(expr).transform_down(|part| {
            let Some(column) = part.downcast_ref::<Column>() else {
                return Ok(match self.over_part(&part) {
                    Some(over) => Transformed::new(over, true, TreeNodeRecursion::Jump),
                    None => Transformed::no(part),
                });
            };
            match self.outputs[column.index()] {
                Origin::Input(at) => {
                    Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
                }
                Origin::Table(_) => {
                    reads_fetched = true;
                    Ok(Transformed::no(part))
                }
            }
        })?;
        Ok((!reads_fetched).then_some(mapped.data))
    }

    /// The same outputs over another plan with this one's columns.
    fn over(self, plan: Arc<dyn ExecutionPlan>, fewer: bool) -> Self {
        Self { plan, fewer: self.fewer || fewer, ..self }
    }
}

/// The replacement of `plan`; `None` where it needs the columns' values, or has no unsupported columns.
fn lift(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Lifted>> {
    if let Some(scan) = plan.downcast_ref::<WarpmillScanExec>() {
        return scanned(scan);
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    let Some(lifted) = lift(input)? else { return Ok(None) };
    if plan.is::<CooperativeExec>() {
        return Ok(Some(lifted));
    }
    if let Some(node) = plan.downcast_ref::<FilterExec>() {
        return filtered(node, lifted);
    }
    if let Some(node) = plan.downcast_ref::<ProjectionExec>() {
        return projected(node, lifted);
    }
    if let Some(node) = plan.downcast_ref::<SortExec>() {
        return first_rows(node, lifted);
    }
    let limits = plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>();
    if limits || plan.is::<CoalescePartitionsExec>() {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let over = Arc::clone(plan).replace_children(vec![Arc::clone(&lifted.plan)], recompute)?;
        return Ok(Some(lifted.over(over, limits || plan.fetch().is_some())));
    }
    Ok(None)
}

fn scanned(scan: &WarpmillScanExec) -> Result<Option<Lifted>> {
    let table = scan.table();
    if !has_unheld(scan) || scan.part().is_some() || table.schema().column_with_name(ROW).is_some() {
        return Ok(None);
    }
    let (mut projection, mut outputs) = (vec![], vec![]);
    for &column in scan.projection() {
        if is_held(table, column) {
            outputs.push(Origin::Input(projection.len()));
            projection.push(column);
        } else {
            outputs.push(Origin::Table(column));
        }
    }
    let (own, mut parts) = (table.schema().fields().len(), vec![]);
    let (source, paths) = table.with_parts().map_or((table, &[][..]), |with| (&with.table, &with.paths[..]));
    for (at, path) in paths.iter().enumerate().filter(|(_, path)| scan.projection().contains(&path[0])) {
        parts.push(Part { path: path.clone(), column: projection.len() });
        projection.push(own + at);
    }
    let numbers = projection.len();
    projection.push(source.schema().fields().len());
    let numbered = source.numbered(ROW).map_err(crate::Error::from)?;
    let plan = Arc::new(WarpmillScanExec::try_new(numbered, scan.table_name(), Some(projection))?);
    let (table, name) = (Arc::clone(table), scan.table_name().to_owned());
    Ok(Some(Lifted { plan, outputs, numbers, parts, table, name, fewer: false }))
}

fn filtered(node: &FilterExec, lifted: Lifted) -> Result<Option<Lifted>> {
    let Some(predicate) = lifted.mapped(node.predicate())? else { return Ok(None) };
    let filter = FilterExecBuilder::new(predicate, Arc::clone(&lifted.plan))
        .with_default_selectivity(node.default_selectivity())
        .with_fetch(node.fetch())
        .build()?;
    let mut lifted = lifted.over(Arc::new(filter), true);
    if let Some(projection) = node.projection() {
        lifted.outputs = projection.iter().map(|&column| lifted.outputs[column]).collect();
    }
    Ok(Some(lifted))
}

fn projected(node: &ProjectionExec, lifted: Lifted) -> Result<Option<Lifted>> {
    let (mut exprs, mut outputs) = (vec![], vec![]);
    for ProjectionExpr { expr, alias } in node.expr() {
        let origin = expr.downcast_ref::<Column>().map(|column| lifted.outputs[column.index()]);
        if let Some(table @ Origin::Table(_)) = origin {
            outputs.push(table);
            continue;
        }
        let Some(expr) = lifted.mapped(expr)? else { return Ok(None) };
        outputs.push(Origin::Input(exprs.len()));
        exprs.push(ProjectionExpr::new(expr, alias.clone()));
    }
    let numbers = exprs.len();
    exprs.push(lifted.number());
    let mut parts = vec![];
    for Part { path, column } in &lifted.parts {
        parts.push(Part { path: path.clone(), column: exprs.len() });
        let name = lifted.plan.schema().field(*column).name().clone();
        exprs.push(ProjectionExpr::new(Arc::new(Column::new(&name, *column)), name));
    }
    let plan = Arc::new(ProjectionExec::try_new(exprs, Arc::clone(&lifted.plan))?);
    Ok(Some(Lifted { outputs, numbers, parts, ..lifted.over(plan, false) }))
}

/// Lifts a top-n sort.
fn first_rows(node: &SortExec, lifted: Lifted) -> Result<Option<Lifted>> {
    if node.fetch().is_none_or(|fetch| fetch > MOST_SORTED) || node.preserve_partitioning() {
        return Ok(None);
    }
    let mut keys = vec![];
    for PhysicalSortExpr { expr, options } in node.expr() {
        let Some(expr) = lifted.mapped(expr)? else { return Ok(None) };
        keys.push(PhysicalSortExpr::new(expr, *options));
    }
    let Some(keys) = LexOrdering::new(keys) else { return Ok(None) };
    let sort = SortExec::new(keys, Arc::clone(&lifted.plan)).with_fetch(node.fetch());
    Ok(Some(lifted.over(Arc::new(sort), true)))
}
