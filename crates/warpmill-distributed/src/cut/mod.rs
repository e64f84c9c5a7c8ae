//! Inserts exchanges into a plan.
//!
//! The input plan has no partitions. Every node becomes a [`Part`], from the leaves up: its rows are either *here*, in one place, or *spread*, each
//! in exactly one of `tasks` tasks. A node with spread inputs runs in every task if the results together are correct; otherwise an exchange below it
//! moves rows:
//! - **gather**: moves all rows to one place, in their order;
//! - **shuffle**: moves rows of equal keys to one task;
//! - **broadcast**: moves all rows to every task.
//!
//! A part that is here and not fed by an exchange can be computed by every task separately (*copied*): all processes see the same tables. Nodes of
//! all other kinds run in one place.
//!
//! Tables that lie in the order of a key that they are joined on can be spread by ranges of that key (`key_ranges`): their joins, and groups and
//! windows by the key, then need no exchange. A plan is cut in both ways, and the one that sends fewer bytes is taken.

mod aggregate;
mod join;
mod key_ranges;
mod keys;
mod leaf;
mod order;
mod spread_key;

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
#[allow(deprecated, reason = "plans may hold it still")]
use datafusion::physical_plan::coalesce_batches::CoalesceBatchesExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{BroadcastExec, NetworkBroadcastExec, NetworkCoalesceExec, NetworkShuffleExec};

use key_ranges::KeySplits;
use spread_key::SpreadKey;

/// The place of a part's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// All in one place.
    Here,
    /// Each in one of the tasks.
    Spread,
}

/// A part of a plan with its exchanges. It has a single partition in each task.
struct Part {
    plan: Arc<dyn ExecutionPlan>,
    rows: Rows,
    /// Whether an exchange feeds it.
    exchanged: bool,
    /// Estimated bytes of all rows.
    bytes: f64,
    /// Estimated bytes that the exchanges in it send.
    sent: f64,
    /// The key by which the rows are spread, if there is one.
    key: Option<SpreadKey>,
}

/// Estimated rows and bytes of a plan.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    rows: f64,
    bytes: f64,
}

/// Assumed bytes of a value without statistics.
const VALUE_BYTES: f64 = 12.0;
/// Assumed rows of a plan without statistics.
const UNKNOWN_ROWS: f64 = 1e7;

fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Estimate {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok();
    let rows = statistics.as_ref().and_then(|statistics| statistics.num_rows.get_value().copied());
    let rows = rows.map_or(UNKNOWN_ROWS, |rows| rows as f64);
    Estimate { rows, bytes: rows * VALUE_BYTES * plan.schema().fields().len().max(1) as f64 }
}

/// Puts exchanges into `plan` for `tasks` tasks; `None` where no rows are spread.
///
/// # Errors
/// Errors of DataFusion in making plan nodes.
pub(crate) fn cut(plan: &Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let plan = keys::restricted(plan)?;
    let splits = KeySplits::of(&plan, tasks);
    let by_key = (!splits.is_empty()).then(|| Cutter { tasks, splits }.all(&plan)).transpose()?;
    let by_rows = Cutter { tasks, splits: KeySplits::default() }.all(&plan)?;
    let part = by_key.filter(|by_key| by_key.sent < by_rows.sent).unwrap_or(by_rows);
    Ok(part.exchanged.then_some(part.plan))
}

struct Cutter {
    tasks: usize,
    /// The scans that are spread by ranges of a key.
    splits: KeySplits,
}

impl Cutter {
    /// The whole plan, with its rows in one place.
    fn all(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        self.gathered(self.part(plan)?)
    }

    fn part(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        if plan.children().is_empty() {
            return self.leaf(plan);
        }
        let part = self.operator(plan)?;
        // Limits that rules have pushed into a node are of all its rows.
        match plan.fetch().filter(|_| part.rows == Rows::Spread) {
            Some(fetch) => {
                let gathered = self.gathered(part)?;
                let limited = Arc::new(GlobalLimitExec::new(gathered.plan, 0, Some(fetch)));
                Ok(Part { plan: limited, ..gathered })
            }
            None => Ok(part),
        }
    }

    fn operator(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        if let Some(node) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(plan, node);
        }
        if let Some(node) = plan.downcast_ref::<HashJoinExec>() {
            return self.hash_join(plan, node);
        }
        if let Some(node) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return self.loop_join(plan, *node.join_type());
        }
        if plan.is::<CrossJoinExec>() {
            return self.loop_join(plan, datafusion::common::JoinType::Inner);
        }
        if let Some(node) = plan.downcast_ref::<SortExec>() {
            return self.sort(plan, node);
        }
        if let Some(node) = plan.downcast_ref::<SortPreservingMergeExec>() {
            return self.merge(plan, node);
        }
        if let Some(node) = plan.downcast_ref::<GlobalLimitExec>() {
            return self.limit(plan, node.input(), (node.skip(), node.fetch()));
        }
        if let Some(node) = plan.downcast_ref::<LocalLimitExec>() {
            return self.limit(plan, node.input(), (0, Some(node.fetch())));
        }
        if plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() {
            return self.windows(plan);
        }
        if plan.is::<UnionExec>() {
            return self.union(plan);
        }
        #[allow(deprecated, reason = "plans may hold it still")]
        let by_row = plan.is::<FilterExec>()
            || plan.is::<ProjectionExec>()
            || plan.is::<CoalesceBatchesExec>()
            || plan.is::<CooperativeExec>();
        if by_row {
            let input = self.part(plan.children()[0])?;
            let key = input.key.as_ref().zip(keys::by_row(plan)).and_then(|(key, node)| key.of_columns(&node.from));
            return Ok(Part { key, ..over(plan, vec![input])? });
        }
        // Without partitions they have no effect.
        if plan.is::<CoalescePartitionsExec>() || plan.is::<RepartitionExec>() {
            return self.part(plan.children()[0]);
        }
        self.in_one_place(plan)
    }

    /// `plan` over inputs that are each in one place.
    fn in_one_place(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        let inputs = plan.children().into_iter().map(|input| self.gathered(self.part(input)?));
        over(plan, inputs.collect::<Result<_>>()?)
    }

    fn union(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Part> {
        let inputs = plan.children().into_iter().map(|input| self.part(input)).collect::<Result<Vec<_>>>()?;
        let spread = inputs.iter().all(|input| input.rows == Rows::Spread);
        let inputs = match spread {
            true => inputs,
            // Rows that are in one place would be in every task.
            false => inputs.into_iter().map(|input| self.gathered(input)).collect::<Result<_>>()?,
        };
        let mut part = over(plan, inputs)?;
        if part.plan.output_partitioning().partition_count() > 1 {
            part.plan = Arc::new(CoalescePartitionsExec::new(part.plan));
        }
        Ok(part)
    }

    /// Gathers all rows in one place, in their order.
    fn gathered(&self, part: Part) -> Result<Part> {
        if part.rows == Rows::Here {
            return Ok(part);
        }
        let order = part.plan.output_ordering().cloned();
        let (gathered, sent) = (self.streams(&part)?, part.sent + self.gathering(&part));
        let plan: Arc<dyn ExecutionPlan> = match order {
            Some(order) => Arc::new(SortPreservingMergeExec::new(order, gathered)),
            None => Arc::new(CoalescePartitionsExec::new(gathered)),
        };
        Ok(Part { plan, rows: Rows::Here, exchanged: true, sent, key: None, ..part })
    }

    /// The rows of every task as a partition.
    fn streams(&self, part: &Part) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(NetworkCoalesceExec::try_new(Arc::clone(&part.plan), self.tasks, 1)?))
    }

    /// The number of tasks that make the rows of `part`.
    fn makers(&self, part: &Part) -> usize {
        match part.rows {
            Rows::Here => 1,
            Rows::Spread => self.tasks,
        }
    }

    /// Shuffles rows by `keys`, unless they are already.
    fn shuffled(&self, part: Part, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Part> {
        if is_shuffled(&part, &keys) {
            return Ok(part);
        }
        let (makers, sent) = (self.makers(&part), part.sent + self.gathering(&part));
        let key = SpreadKey::of_hash(&keys);
        let by_key = RepartitionExec::try_new(part.plan, Partitioning::Hash(keys, 1))?;
        let plan = Arc::new(NetworkShuffleExec::try_new(Arc::new(by_key), makers)?);
        Ok(Part { plan, rows: Rows::Spread, exchanged: true, bytes: part.bytes, sent, key })
    }

    /// Broadcasts all rows to every task.
    fn copied(&self, part: Part) -> Result<Part> {
        if part.rows == Rows::Here && !part.exchanged {
            return Ok(part);
        }
        let (makers, sent) = (self.makers(&part), part.sent + self.copying(&part));
        let all = BroadcastExec::new(part.plan, 1);
        let plan = Arc::new(NetworkBroadcastExec::try_new(Arc::new(all), makers)?);
        Ok(Part { plan, rows: Rows::Spread, exchanged: true, bytes: part.bytes, sent, key: None })
    }

    /// Bytes that [`Cutter::copied`] sends.
    fn copying(&self, part: &Part) -> f64 {
        let others = self.tasks as f64 - if part.rows == Rows::Spread { 1.0 } else { 0.0 };
        if part.rows == Rows::Here && !part.exchanged { 0.0 } else { part.bytes * others }
    }

    /// Bytes that [`Cutter::shuffled`] sends.
    fn shuffling(&self, part: &Part, keys: &[Arc<dyn PhysicalExpr>]) -> f64 {
        if is_shuffled(part, keys) { 0.0 } else { self.gathering(part) }
    }

    /// Bytes that [`Cutter::gathered`] sends, from tasks to one of them.
    fn gathering(&self, part: &Part) -> f64 {
        part.bytes * (self.tasks as f64 - 1.0) / self.tasks as f64
    }
}

/// `plan` over other inputs; its rows are spread if an input's are.
fn over(plan: &Arc<dyn ExecutionPlan>, inputs: Vec<Part>) -> Result<Part> {
    let spread = inputs.iter().any(|input| input.rows == Rows::Spread);
    let exchanged = inputs.iter().any(|input| input.exchanged);
    let (bytes, sent) = (estimate(plan).bytes, inputs.iter().map(|input| input.sent).sum());
    let children = inputs.into_iter().map(|input| input.plan).collect();
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    let plan = Arc::clone(plan).replace_children(children, options)?;
    let rows = if spread { Rows::Spread } else { Rows::Here };
    Ok(Part { plan, rows, exchanged, bytes, sent, key: None })
}

/// Whether rows are spread by the hash of `keys`.
fn is_shuffled(part: &Part, keys: &[Arc<dyn PhysicalExpr>]) -> bool {
    part.key.as_ref().is_some_and(|key| key.is_hash_of(keys))
}

/// Whether all processes, and both sides of a join, map equal values of `keys` to the same task. Floats have two zeros.
fn may_shuffle(keys: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Result<bool> {
    let mut all = !keys.is_empty();
    for key in keys {
        all &= has_one_form(&key.data_type(schema)?);
    }
    Ok(all)
}

fn has_one_form(ty: &DataType) -> bool {
    ty.is_integer()
        || ty.is_decimal()
        || matches!(
            ty,
            DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(..)
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
        )
}

/// An error for a plan that no task can run.
fn stays(reason: impl Into<String>) -> DataFusionError {
    DataFusionError::NotImplemented(reason.into())
}
