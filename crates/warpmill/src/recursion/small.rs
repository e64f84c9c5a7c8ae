//! Steps of a recursion that read few rows. A program takes about a millisecond to begin and to end, because of threads and queues. With few
//! rows, DataFusion's operators are faster: they are plain calls.

use std::fmt;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::{CooperativeExec, cooperative};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream};
use futures::TryStreamExt;
use warpmill_translate::scan_exec::WarpmillScanExec;

use super::exec::RecursionExec;
use super::tables::{StepTableExec, Steps};
use crate::bounded::with_bounded_concat;
use crate::settings::WarpmillOptions;

/// Largest number of rows of a step, and of a table, that count as few.
const FEW_ROWS: usize = 1 << 12;

/// The plan of steps that read few rows.
#[derive(Debug)]
pub(super) struct SmallSteps {
    plan: Arc<dyn ExecutionPlan>,
    same: usize,
}

impl SmallSteps {
    /// The plan.
    pub(super) fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    /// The number of parts with the same rows in all steps.
    pub(super) fn same(&self) -> usize {
        self.same
    }

    /// Whether the plan is used after a step with `rows` rows.
    pub(super) fn holds(&self, rows: usize) -> bool {
        rows <= FEW_ROWS
    }
}

/// `placed`, which is the recursion `plan` with its parts placed on devices, extended by a plan of DataFusion's operators for few rows.
pub(crate) fn with_small_steps(
    plan: &Arc<dyn ExecutionPlan>,
    placed: Arc<dyn ExecutionPlan>,
    options: &WarpmillOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let (Some(recursion), Some(into)) = (plan.downcast_ref::<RecursionExec>(), placed.downcast_ref::<RecursionExec>())
    else {
        return Ok(placed);
    };
    let step = recursion.step();
    if !is_small(step) || Arc::ptr_eq(step, into.step()) {
        return Ok(placed);
    }
    let number = recursion.number();
    let mut same = 0;
    let plan = Arc::clone(step).transform_up(|node| {
        if node.is::<WarpmillScanExec>() {
            let leaf = SameExec { number, place: same, properties: Arc::clone(node.properties()), input: node };
            same += 1;
            return Ok(Transformed::yes(Arc::new(leaf) as Arc<dyn ExecutionPlan>));
        }
        with_bounded_concat(node, options).map(Transformed::yes)
    })?;
    Ok(Arc::new(into.with_small(SmallSteps { plan: plan.data, same })))
}

/// Whether a plan consists of simple operators over rows of the recursion and small tables.
fn is_small(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if children.is_empty() {
        let is_table = |scan: &WarpmillScanExec| scan.part().is_none() && scan.table().num_rows() as usize <= FEW_ROWS;
        return plan.is::<StepTableExec>()
            || plan.is::<PlaceholderRowExec>()
            || plan.is::<EmptyExec>()
            || plan.downcast_ref::<WarpmillScanExec>().is_some_and(is_table);
    }
    let is_plain = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<UnionExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>();
    is_plain && children.into_iter().all(is_small)
}

/// Reads rows that are the same in all steps: the first step executes `input`, and later ones use its rows.
#[derive(Debug)]
struct SameExec {
    input: Arc<dyn ExecutionPlan>,
    number: u64,
    place: usize,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for SameExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SameExec: number={}, place={}", self.number, self.place)
    }
}

impl ExecutionPlan for SameExec {
    fn name(&self) -> &str {
        "SameExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("SameExec has one child");
        };
        let properties = Arc::clone(input.properties());
        Ok(Arc::new(Self { input, number: self.number, place: self.place, properties }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(steps) = Steps::of(&context, self.number) else {
            return internal_err!("a part of recursion {} outside of it", self.number);
        };
        let (input, place, schema) = (Arc::clone(&self.input), self.place, self.schema());
        if let Some(rows) = steps.same(place).and_then(|cell| cell.get()) {
            return Ok(Box::pin(cooperative(MemoryStream::try_new(rows.clone(), schema, None)?)));
        }
        let rows = async move {
            let Some(cell) = steps.same(place) else { return internal_err!("no rows are kept for all steps") };
            let read = async || execute_stream(input, context)?.try_collect().await;
            let rows: &Vec<RecordBatch> = cell.get_or_try_init(read).await?;
            Ok(futures::stream::iter(rows.clone().into_iter().map(Ok)))
        };
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
