//! The rows of a recursion with a key: for each key one row, aggregated from all rows that were added.
//!
//! The aggregation's plan is divided into three parts: the plan of its input, which runs for the rows that a step has added; the aggregates,
//! whose state is kept from step to step; and the plan that makes rows of the result from their values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, make_comparator, new_empty_array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result, ScalarValue, internal_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Accumulator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, aggregate_expressions};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions, reset_plan_states};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;

use super::distinct::{Keys, comparable};
use super::tables::{Part, StepTableExec, Steps};
use super::values::Values;

/// The aggregate that keeps the last value.
const LAST: &str = "last_value";

/// The parts of the plan of the aggregation.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// The plan of the rows to aggregate, over the rows that a step has added.
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    aggregates: Vec<Aggregate>,
    /// The columns of groups: the keys, and the values of the aggregates.
    groups: SchemaRef,
    /// The plan of the result's rows, over groups.
    output: Arc<dyn ExecutionPlan>,
}

#[derive(Debug)]
struct Aggregate {
    function: Arc<AggregateFunctionExpr>,
    /// The arguments of the function, and the expressions that order its input.
    args: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

impl Aggregate {
    /// Whether the aggregate is the last value of an expression.
    fn is_last(&self) -> bool {
        let function = &self.function;
        let plain = !function.is_distinct() && !function.ignore_nulls() && !function.is_reversed();
        plain && function.fun().name() == LAST && self.args.len() == 1 && self.filter.is_none()
    }
}

impl Dictionary {
    /// The parts of `plan`, an aggregation of the rows that a step of the recursion `number` has added.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, number: u64) -> Result<Self> {
        let Some((whole, above)) = aggregation(plan) else {
            return not_impl_err!("USING KEY with aggregates that are no single aggregation");
        };
        let groups = whole.schema();
        let mut partial = Arc::clone(&whole);
        while let Some(aggregate) = partial.downcast_ref::<AggregateExec>()
            && matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
        {
            partial = match aggregation(aggregate.input()) {
                Some((partial, _)) => partial,
                None => return internal_err!("an aggregation without its first part"),
            };
        }
        let Some(aggregate) = partial.downcast_ref::<AggregateExec>() else {
            return internal_err!("a key without an aggregation");
        };
        if aggregation(aggregate.input()).is_some() || !aggregate.group_expr().is_single() {
            return not_impl_err!("DISTINCT aggregates in USING KEY");
        }
        let args = aggregate_expressions(aggregate.aggr_expr(), &AggregateMode::Partial, 0)?;
        let aggregates = aggregate.aggr_expr().iter().zip(args).zip(aggregate.filter_expr());
        let aggregates = aggregates.map(|((function, args), filter)| Aggregate {
            function: Arc::clone(function),
            args,
            filter: filter.clone(),
        });
        let leaf = StepTableExec::try_new(number, Part::Groups, &groups, None)?;
        Ok(Self {
            input: Arc::clone(aggregate.input()),
            keys: aggregate.group_expr().input_exprs(),
            aggregates: aggregates.collect(),
            groups,
            output: over(Arc::new(leaf), &above)?,
        })
    }
}

type Plans = Vec<Arc<dyn ExecutionPlan>>;

/// The uppermost aggregation of `plan`, and the nodes above it, which have one input each.
fn aggregation(plan: &Arc<dyn ExecutionPlan>) -> Option<(Arc<dyn ExecutionPlan>, Plans)> {
    let mut above = vec![];
    let mut node = plan;
    while !node.is::<AggregateExec>() {
        let [input] = node.children()[..] else { return None };
        above.push(Arc::clone(node));
        node = input;
    }
    Some((Arc::clone(node), above))
}

/// The plan of `nodes` over `leaf`.
fn over(leaf: Arc<dyn ExecutionPlan>, nodes: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    nodes.iter().rev().try_fold(leaf, |below, node| {
        Arc::clone(node).replace_children(vec![below], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    })
}

/// The state of a dictionary during a run.
pub(super) struct Entries {
    plan: Arc<Dictionary>,
    numbers: Keys,
    keys: Vec<Values>,
    columns: Vec<Column>,
}

/// The values of an aggregate for each key.
enum Column {
    Last(Values),
    Folded {
        accumulators: Vec<Box<dyn Accumulator>>,
        /// An estimate of the size of the accumulators.
        bytes: usize,
    },
}

/// The changes of a step.
pub(super) struct Changes {
    /// The rows of the result with a new key, or with other values than before.
    pub(super) rows: Vec<RecordBatch>,
}

impl Entries {
    pub(super) fn new(plan: Arc<Dictionary>) -> Result<Self> {
        let keys = plan.groups.fields()[..plan.keys.len()].iter();
        let types: Vec<DataType> = keys.clone().map(|field| field.data_type().clone()).collect();
        let schema = Arc::new(arrow::datatypes::Schema::new(keys.cloned().collect::<Vec<_>>()));
        let column = |(at, aggregate): (usize, &Aggregate)| match aggregate.is_last() {
            true => Column::Last(Values::new(plan.groups.field(types.len() + at).data_type().clone())),
            false => Column::Folded { accumulators: vec![], bytes: 0 },
        };
        let columns = plan.aggregates.iter().enumerate().map(column).collect();
        let keys = types.into_iter().map(Values::new).collect();
        Ok(Self { numbers: Keys::new(schema)?, keys, columns, plan })
    }

    /// The size of keys and values in bytes.
    pub(super) fn size(&self) -> usize {
        let column = |column: &Column| match column {
            Column::Last(values) => values.size(),
            Column::Folded { bytes, .. } => *bytes,
        };
        let keys = self.keys.iter().map(Values::size).sum::<usize>();
        self.numbers.size() + keys + self.columns.iter().map(column).sum::<usize>()
    }

    /// Adds the rows of a step; returns the changed rows of the result if `tells`.
    pub(super) async fn add(
        &mut self,
        rows: Vec<RecordBatch>,
        tells: bool,
        within: &Within,
    ) -> Result<Option<Changes>> {
        within.steps.set(Part::Candidates, rows);
        let batches = within.rows(&self.plan.input).await?;
        within.steps.set(Part::Candidates, vec![]);
        let before = self.numbers.len();
        let mut numbered = vec![];
        for batch in &batches {
            let keys = evaluated(&self.plan.keys, batch)?;
            let numbers = self.numbers.numbers(&keys)?.to_vec();
            for (values, key) in self.keys.iter_mut().zip(&keys) {
                values.put(key, &numbers, false)?;
            }
            numbered.push(numbers);
        }
        let after = self.numbers.len();
        let touched = if tells { touched(&numbered, before) } else { vec![] };
        let old = if touched.is_empty() { vec![] } else { self.results(&touched, within).await? };
        for (batch, numbers) in batches.iter().zip(&numbered) {
            self.fold(batch, numbers)?;
        }
        if !tells {
            return Ok(None);
        }
        let mut changed = match touched.is_empty() {
            true => vec![],
            false => {
                let new = self.results(&touched, within).await?;
                differing(&old, &new)?.into_iter().map(|at| touched[at]).collect()
            }
        };
        changed.extend(before..after);
        let rows = if changed.is_empty() { vec![] } else { self.results(&changed, within).await? };
        Ok(Some(Changes { rows }))
    }

    /// All rows of the result.
    pub(super) async fn all(&mut self, within: &Within) -> Result<Vec<RecordBatch>> {
        let all: Vec<usize> = (0..self.numbers.len()).collect();
        self.results(&all, within).await
    }

    /// The rows of the result for `keys`, in this order.
    async fn results(&mut self, keys: &[usize], within: &Within) -> Result<Vec<RecordBatch>> {
        let mut columns = self.keys.iter().map(|values| values.get(keys)).collect::<Result<Vec<_>>>()?;
        for (at, column) in self.columns.iter_mut().enumerate() {
            let ty = self.plan.groups.field(self.plan.keys.len() + at).data_type();
            columns.push(match column {
                Column::Last(values) => values.get(keys)?,
                Column::Folded { accumulators, .. } => {
                    let values = keys.iter().map(|&key| accumulators[key].evaluate());
                    let values = values.collect::<Result<Vec<_>>>()?;
                    match values.is_empty() {
                        true => new_empty_array(ty),
                        false => ScalarValue::iter_to_array(values)?,
                    }
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(keys.len()));
        let of = groups_schema(&self.plan.groups, &columns);
        within.steps.set(Part::Groups, vec![RecordBatch::try_new_with_options(of, columns, &options)?]);
        let rows = within.rows(&self.plan.output).await?;
        within.steps.set(Part::Groups, vec![]);
        Ok(rows)
    }

    /// Adds rows to the aggregates; `numbers` are the numbers of their keys.
    fn fold(&mut self, batch: &RecordBatch, numbers: &[usize]) -> Result<()> {
        let mut order: Vec<u32> = (0..numbers.len() as u32).collect();
        order.sort_by_key(|&row| numbers[row as usize]);
        for (aggregate, column) in self.plan.aggregates.iter().zip(&mut self.columns) {
            let args = evaluated(&aggregate.args, batch)?;
            match column {
                Column::Last(values) => {
                    let [arg] = args.as_slice() else { return internal_err!("{LAST} has one argument") };
                    values.put(arg, numbers, true)?;
                }
                Column::Folded { accumulators, bytes } => {
                    while accumulators.len() < self.numbers.len() {
                        let accumulator = aggregate.function.create_accumulator()?;
                        *bytes += accumulator.size();
                        accumulators.push(accumulator);
                    }
                    *bytes += args.iter().map(|arg| arg.get_array_memory_size()).sum::<usize>();
                    let rows = chosen(&order, aggregate.filter.as_ref(), batch)?;
                    let indices = UInt32Array::from(rows.clone());
                    let args = args.iter().map(|arg| take(arg, &indices, None)).collect::<Result<Vec<_>, _>>()?;
                    let mut start = 0;
                    for group in rows.chunk_by(|&one, &other| numbers[one as usize] == numbers[other as usize]) {
                        let args: Vec<ArrayRef> = args.iter().map(|arg| arg.slice(start, group.len())).collect();
                        accumulators[numbers[group[0] as usize]].update_batch(&args)?;
                        start += group.len();
                    }
                }
            }
        }
        Ok(())
    }
}

/// The rows of `order` that pass the filter, in the same order.
fn chosen(order: &[u32], filter: Option<&Arc<dyn PhysicalExpr>>, batch: &RecordBatch) -> Result<Vec<u32>> {
    let Some(filter) = filter else { return Ok(order.to_vec()) };
    let kept = filter.evaluate(batch)?.into_array(batch.num_rows())?;
    let kept = kept.as_boolean();
    Ok(order.iter().copied().filter(|&row| kept.is_valid(row as usize) && kept.value(row as usize)).collect())
}

/// The distinct numbers below `before`, in the order of their first occurrence.
fn touched(numbered: &[Vec<usize>], before: usize) -> Vec<usize> {
    let mut seen = hashbrown::HashSet::new();
    numbered.iter().flatten().copied().filter(|&number| number < before && seen.insert(number)).collect()
}

fn evaluated(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

/// The columns of groups, with the data types of `columns`: fields of lists and structs may be others than in `groups`.
fn groups_schema(groups: &SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    let fields = groups.fields().iter().zip(columns);
    let fields = fields
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true));
    Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()))
}

/// The positions of the rows that differ in two results for the same keys.
fn differing(old: &[RecordBatch], new: &[RecordBatch]) -> Result<Vec<usize>> {
    let (Some(first), Some(_)) = (old.first(), new.first()) else { return internal_err!("keys without rows") };
    let schema = first.schema();
    let whole = |batches: &[RecordBatch]| arrow::compute::concat_batches(&batches[0].schema(), batches);
    let (old, new) = (whole(old)?, whole(new)?);
    let mut differ = vec![false; old.num_rows()];
    for at in 0..schema.fields().len() {
        let (one, other) = (comparable(old.column(at)), comparable(new.column(at)));
        let compared = make_comparator(&one, &other, SortOptions::default());
        for (row, differs) in differ.iter_mut().enumerate().filter(|(_, differs)| !**differs) {
            *differs = match &compared {
                Ok(compare) => compare(row, row).is_ne(),
                Err(_) => ScalarValue::try_from_array(&one, row)? != ScalarValue::try_from_array(&other, row)?,
            };
        }
    }
    Ok(differ.iter().enumerate().filter(|(_, differs)| **differs).map(|(row, _)| row).collect())
}

/// The context in which the plans of a dictionary run.
pub(super) struct Within {
    pub(super) steps: Arc<Steps>,
    pub(super) context: Arc<TaskContext>,
}

impl Within {
    async fn rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>> {
        let plan = reset_plan_states(Arc::clone(plan))?;
        let mut rows: Vec<RecordBatch> = execute_stream(plan, Arc::clone(&self.context))?.try_collect().await?;
        rows.retain(|batch| batch.num_rows() > 0);
        Ok(rows)
    }
}
