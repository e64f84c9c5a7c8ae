//! Restricts aggregations to the keys of the joins above them.
//!
//! `orders JOIN (SELECT k, sum(v) FROM items GROUP BY k) ON orders.k = k` needs only the groups of the orders' keys. A program with both sides passes
//! the keys on, but keys do not cross exchanges. Therefore the rows to aggregate are joined with the keys of the other side, which is planned a
//! second time: `GROUP BY k` over `items SEMI JOIN (SELECT k FROM orders)`. The semi join keeps or drops whole groups, and the dropped ones have no
//! partner in the join above.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
#[allow(deprecated, reason = "plans may hold it still")]
use datafusion::physical_plan::coalesce_batches::CoalesceBatchesExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use warpmill_translate::scan_exec::WarpmillScanExec;

use super::join::equal_columns;
use super::{estimate, may_shuffle};

/// Smallest ratio of groups, and of rows to aggregate, to rows of the other side for which a second plan of its keys pays. Filters without statistics
/// are assumed to keep a fifth.
const LEAST_RATIO: f64 = 5.0;
/// The cost of reading a row to find keys, relative to a key.
const READING: f64 = 0.1;

/// Pairs of key columns of a join: on the side with the aggregation, and on the other side.
type Pairs = Vec<(usize, usize)>;

/// Adds joins with keys below aggregations in `plan`, where the keys are few.
///
/// # Errors
/// Errors of DataFusion in making plan nodes.
pub(super) fn restricted(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let restrict = |node: Arc<dyn ExecutionPlan>| match node.downcast_ref::<HashJoinExec>() {
        Some(join) => below(&node, join),
        None => Ok(Transformed::no(node)),
    };
    Ok(Arc::clone(plan).transform_up(restrict)?.data)
}

/// `plan`, the join `join`, over restricted sides.
fn below(plan: &Arc<dyn ExecutionPlan>, join: &HashJoinExec) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(Transformed::no(Arc::clone(plan)));
    }
    let (left, right) = (join.left(), join.right());
    let pairs: Pairs = equal_columns(join).collect();
    let swapped: Pairs = pairs.iter().map(|&(a, b)| (b, a)).collect();
    let new_left = if needs_partners(*join.join_type(), true) { side(left, right, pairs)? } else { None };
    let new_right = if needs_partners(*join.join_type(), false) { side(right, left, swapped)? } else { None };
    if new_left.is_none() && new_right.is_none() {
        return Ok(Transformed::no(Arc::clone(plan)));
    }
    let sides = vec![new_left.unwrap_or_else(|| Arc::clone(left)), new_right.unwrap_or_else(|| Arc::clone(right))];
    replaced(plan, sides).map(Transformed::yes)
}

/// Whether a join of this type returns the same rows without rows of one side that have no equal keys on the other.
pub(super) fn needs_partners(ty: JoinType, left: bool) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    match ty {
        Inner | LeftSemi | RightSemi => true,
        Right | RightAnti | RightMark => left,
        Left | LeftAnti | LeftMark => !left,
        JoinType::Full => false,
    }
}

/// Restricts the aggregation in `plan` to the keys of `other`; `None` if there is no aggregation, or it does not pay.
fn side(
    plan: &Arc<dyn ExecutionPlan>,
    other: &Arc<dyn ExecutionPlan>,
    pairs: Pairs,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if pairs.is_empty() {
        return Ok(None);
    }
    if let Some(node) = plan.downcast_ref::<AggregateExec>() {
        return aggregate(plan, node, other, &pairs);
    }
    let Some(ByRow { input, from }) = by_row(plan) else { return Ok(None) };
    let pairs = pairs.into_iter().filter_map(|(key, of)| Some(((from[key])?, of))).collect();
    let Some(input) = side(input, other, pairs)? else { return Ok(None) };
    replaced(plan, vec![input]).map(Some)
}

/// A node that returns each row of its input once or not at all.
pub(super) struct ByRow<'a> {
    pub input: &'a Arc<dyn ExecutionPlan>,
    /// The column of the input that each of the node's columns is, if any.
    pub from: Vec<Option<usize>>,
}

/// The input of `plan`, if it is such a node.
pub(super) fn by_row(plan: &Arc<dyn ExecutionPlan>) -> Option<ByRow<'_>> {
    // A limit depends on the rows before it.
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(node) = plan.downcast_ref::<ProjectionExec>() {
        let from = node.expr().iter().map(|column| column.expr.downcast_ref::<Column>().map(Column::index));
        return Some(ByRow { input: node.input(), from: from.collect() });
    }
    let all = || (0..plan.schema().fields().len()).map(Some).collect();
    if gives_its_input(plan) {
        return Some(ByRow { input: plan.children()[0], from: all() });
    }
    let node = plan.downcast_ref::<FilterExec>()?;
    let from = match node.projection() {
        Some(columns) => columns.iter().copied().map(Some).collect(),
        None => all(),
    };
    Some(ByRow { input: node.input(), from })
}

/// Whether a node returns all rows of its only input unchanged.
fn gives_its_input(plan: &Arc<dyn ExecutionPlan>) -> bool {
    #[allow(deprecated, reason = "plans may hold it still")]
    let batches = plan.is::<CoalesceBatchesExec>();
    batches || plan.is::<CooperativeExec>()
}

/// Restricts the aggregation `node` to rows with keys of `other`.
fn aggregate(
    plan: &Arc<dyn ExecutionPlan>,
    node: &AggregateExec,
    other: &Arc<dyn ExecutionPlan>,
    pairs: &Pairs,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let groups = node.group_expr();
    let single = matches!(node.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
    if !single || groups.has_grouping_set() || node.limit_options().is_some() {
        return Ok(None);
    }
    let group = |&(key, of): &(usize, usize)| {
        let (group, _) = groups.expr().get(key)?;
        group.is::<Column>().then(|| (Arc::clone(group), of))
    };
    let (grouped, of): (Vec<_>, Vec<_>) = pairs.iter().filter_map(group).unzip();
    if !may_shuffle(&grouped, &node.input().schema())? {
        return Ok(None);
    }
    let keys = Keys { of: other, columns: of };
    let most = estimate(node.input()).rows.min(estimate(plan).rows);
    match keys.partners((node.input(), grouped), most)? {
        Some(kept) => replaced(plan, vec![kept]).map(Some),
        None => Ok(None),
    }
}

/// Restricts rows before they are sent, `side`, to those whose `keys` are in columns `of` of `other`, a plan that every task can run by itself. `None`
/// if it does not pay.
pub(super) fn with_partners(
    side: &Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    other: &Arc<dyn ExecutionPlan>,
    of: Vec<usize>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    Keys { of: other, columns: of }.partners((side, keys), estimate(side).rows)
}

/// Columns of a plan as keys.
struct Keys<'a> {
    of: &'a Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
}

impl Keys<'_> {
    /// The rows of a plan whose values of `own` are among the keys; `None` if reading the keys once more does not pay for so few rows as `most`.
    fn partners(
        self,
        (plan, own): (&Arc<dyn ExecutionPlan>, Vec<Arc<dyn PhysicalExpr>>),
        most: f64,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (source, columns) = cheapest(self.of, self.columns);
        if columns.is_empty() || !is_repeatable(&source) || estimate(&source).rows * LEAST_RATIO > most {
            return Ok(None);
        }
        let schema = source.schema();
        let key = |&index: &usize| {
            let name = schema.field(index).name();
            ProjectionExpr { expr: Arc::new(Column::new(name, index)), alias: name.clone() }
        };
        let keys: Arc<dyn ExecutionPlan> =
            Arc::new(ProjectionExec::try_new(columns.iter().map(key), Arc::clone(&source))?);
        let names = columns.iter().enumerate();
        let on = names
            .map(|(at, &index)| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(index).name(), at)) });
        let on = on.zip(own).collect();
        let (mode, equality) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let (plan, ty) = (Arc::clone(plan), &JoinType::RightSemi);
        let kept = HashJoinExec::try_new(keys, plan, on, None, ty, None, mode, equality, false)?;
        Ok(Some(Arc::new(kept)))
    }
}

/// The cheapest plan within `plan` that returns all of its values of `columns` (and perhaps more), with the columns.
fn cheapest(plan: &Arc<dyn ExecutionPlan>, columns: Vec<usize>) -> (Arc<dyn ExecutionPlan>, Vec<usize>) {
    let (mut best, mut least) = ((Arc::clone(plan), columns.clone()), work(plan));
    let mut next = inside(plan, &columns);
    while let Some((plan, columns)) = next {
        let work = work(&plan);
        if work <= least {
            (best, least) = ((Arc::clone(&plan), columns.clone()), work);
        }
        next = inside(&plan, &columns);
    }
    best
}

/// Whether `plan` returns the same keys a second time: true for tables and files, filters, non-volatile expressions, and joins. Limits and windows
/// may select other rows if an order has ties, and sums of floats depend on the order of rows.
fn is_repeatable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_fixed = if let Some(node) = plan.downcast_ref::<FilterExec>() {
        !is_volatile(node.predicate())
    } else if let Some(node) = plan.downcast_ref::<ProjectionExec>() {
        !node.expr().iter().any(|column| is_volatile(&column.expr))
    } else if let Some(node) = plan.downcast_ref::<HashJoinExec>() {
        !node.filter().is_some_and(|filter| is_volatile(filter.expression()))
    } else {
        let is_scan = plan.is::<WarpmillScanExec>() || plan.is::<DataSourceExec>();
        is_scan || plan.is::<CrossJoinExec>() || gives_its_input(plan)
    };
    is_fixed && plan.fetch().is_none() && plan.children().into_iter().all(is_repeatable)
}

/// The cost of finding keys: their number, and reading their inputs.
fn work(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    fn read(plan: &Arc<dyn ExecutionPlan>) -> f64 {
        let children = plan.children();
        if children.is_empty() { estimate(plan).rows } else { children.into_iter().map(read).sum() }
    }
    estimate(plan).rows + READING * read(plan)
}

/// The input of `plan` from which all of `columns` come, row by row, and its columns.
fn inside(plan: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Option<(Arc<dyn ExecutionPlan>, Vec<usize>)> {
    if let Some(ByRow { input, from }) = by_row(plan) {
        return Some((Arc::clone(input), columns.iter().map(|&column| from[column]).collect::<Option<_>>()?));
    }
    let join = plan.downcast_ref::<HashJoinExec>().filter(|_| plan.fetch().is_none())?;
    let ty = *join.join_type();
    let columns: Vec<usize> = match &join.projection {
        Some(projection) => columns.iter().map(|&column| projection[column]).collect(),
        None => columns.to_vec(),
    };
    let lefts = join.left().schema().fields().len();
    use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
    match ty {
        LeftSemi | LeftAnti => Some((Arc::clone(join.left()), columns)),
        RightSemi | RightAnti => Some((Arc::clone(join.right()), columns)),
        Inner | Left if columns.iter().all(|&column| column < lefts) => Some((Arc::clone(join.left()), columns)),
        Inner | Right if columns.iter().all(|&column| column >= lefts) => {
            Some((Arc::clone(join.right()), columns.into_iter().map(|column| column - lefts).collect()))
        }
        _ => None,
    }
}

fn replaced(plan: &Arc<dyn ExecutionPlan>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
