//! DataFusion physical plans into programs.
//!
//! A plan node becomes a `stream::Stream`: pipelines without a sink. Operators are appended to all of its pipelines; breakers end them in a sink and
//! begin a new one. Unused columns are removed at the end ([`warpmill_ir::needed_columns`]).
//!
//! DataFusion's nodes that only move rows between partitions (repartitioning, coalescing) are ignored: a program has no partitions.

mod aggregate;
pub mod any_rows;
pub mod asof_exec;
pub mod codec;
pub mod excluded;
mod expr;
pub mod functions;
pub mod group_functions;
mod grouping;
mod join;
pub mod kept;
pub mod parameters;
mod phases;
mod range;
mod scan;
pub mod scan_exec;
mod scan_rows;
mod stream;
mod subquery;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
#[allow(deprecated, reason = "plans of other engines may hold it still")]
use datafusion::physical_plan::coalesce_batches::CoalesceBatchesExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use warpmill_ir::equal_keys::read_keys_of_probes;
use warpmill_ir::equal_sinks::merge_equal_sinks;
use warpmill_ir::needed_columns::keep_needed_columns;
use warpmill_ir::pruning::{self, PruningMode};
use warpmill_ir::{
    ColType, Expr, Field, JoinKind, Operator, Pipeline, Program, Scalar, Sink, SinkId, SortKey, Source, Unsupported,
};

use crate::asof_exec::AsofJoinExec;
use crate::scan_exec::WarpmillScanExec;
use expr::{Limit, Scope, SubqueryKey, convert, reads_subquery};
use group_functions::GroupFunctions;
use stream::{Branch, Rows, Stream};
use window::Windows;

/// Options of a translation.
pub struct Options<'a> {
    /// Whether a subtree stays in DataFusion in any case: its rows become an input of the program. Leaves other than [`WarpmillScanExec`] and
    /// constant rows always stay.
    pub stays: &'a dyn Fn(&Arc<dyn ExecutionPlan>) -> bool,
    /// Whether subtrees (not the root) that cannot be translated become inputs; otherwise they fail the translation.
    pub fallback: bool,
    /// Whether to sum in 128 bits wherever the row count is not proven (see [`warpmill_ir::AggregateExpr::safe_rows`]).
    pub wide_sums: bool,
    /// The metadata by which scans skip rows.
    pub pruning: PruningMode,
    /// Replacements for leaves of other sources: plans with the same rows over [`WarpmillScanExec`]s.
    pub scans: &'a InPlaceOf<'a>,
    /// Whether windows are translated. Their sinks cannot spill.
    pub windows: bool,
    /// The functions of groups of the host's language that are translated: devices only run them.
    pub group_functions: &'a GroupFunctions<'a>,
    /// The values of the plan's parameters ([`parameters`]); `None`: the literals in the plan.
    pub values: Option<&'a [ScalarValue]>,
}

/// Returns the replacement of a plan; `None` if there is none.
pub type InPlaceOf<'a> = dyn Fn(&Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> + 'a;

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            stays: &|_| false,
            fallback: false,
            wide_sums: false,
            pruning: PruningMode::default(),
            scans: &|_| None,
            windows: true,
            group_functions: &|_, _| None,
            values: None,
        }
    }
}

/// A translated plan.
#[derive(Debug)]
pub struct Translated {
    /// The program.
    pub program: Program,
    /// The plans that feed the program's inputs ([`Source::Input`]), with all partitions of each.
    pub inputs: Vec<Arc<dyn ExecutionPlan>>,
    /// The reasons why inputs are not part of the program: one per subtree left to DataFusion ([`Options::fallback`]).
    pub fallbacks: Vec<Unsupported>,
}

/// Translates `plan`, including its root.
pub fn translate(plan: &Arc<dyn ExecutionPlan>, options: &Options<'_>) -> Result<Translated, Unsupported> {
    if is_input(plan, options) {
        return Err(Unsupported::new(plan.name(), "there is nothing to run but the rows of another source"));
    }
    if plan.is::<PlaceholderRowExec>() && plan.schema().fields().iter().any(|field| !field.is_nullable()) {
        return Err(Unsupported::new(plan.name(), "there is nothing to run but a row whose values are not read"));
    }
    let mut translator = Translator {
        options,
        pipelines: vec![],
        sinks: vec![],
        inputs: vec![],
        fallbacks: vec![],
        subqueries: vec![],
        single_rows: vec![],
    };
    let stream = translator.operator(plan)?;
    let stream = translator.ordered(stream, plan)?;
    translator.result(stream);
    let mut program = Program::new(translator.pipelines, translator.sinks, plan.schema());
    merge_equal_sinks(&mut program);
    read_keys_of_probes(&mut program);
    keep_needed_columns(&mut program);
    if options.pruning != PruningMode::None {
        pruning::attach(&mut program);
    }
    Ok(Translated { program, inputs: translator.inputs, fallbacks: translator.fallbacks })
}

/// Whether `plan`'s rows come into the program from outside.
fn is_input(plan: &Arc<dyn ExecutionPlan>, options: &Options<'_>) -> bool {
    let own_leaf = plan.is::<WarpmillScanExec>() || plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>();
    let foreign = plan.children().is_empty() && !own_leaf && (options.scans)(plan).is_none();
    foreign || (options.stays)(plan)
}

struct Translator<'a> {
    options: &'a Options<'a>,
    pipelines: Vec<Pipeline>,
    sinks: Vec<Sink>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    fallbacks: Vec<Unsupported>,
    /// Scalar subqueries whose values may be read in the current subtree.
    subqueries: Vec<subquery::Subquery>,
    /// Hash builds of at most one row.
    single_rows: Vec<SinkId>,
}

impl Translator<'_> {
    /// Translates `plan`, or makes it an input.
    fn stream(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Stream, Unsupported> {
        if is_input(plan, self.options) {
            return self.input(plan);
        }
        let before = (self.pipelines.len(), self.sinks.len(), self.inputs.len(), self.fallbacks.len());
        let subqueries = self.subqueries.len();
        match self.operator(plan) {
            Err(reason) if self.options.fallback => {
                self.pipelines.truncate(before.0);
                self.sinks.truncate(before.1);
                self.single_rows.retain(|&sink| sink < before.1);
                self.inputs.truncate(before.2);
                self.fallbacks.truncate(before.3);
                self.subqueries.truncate(subqueries);
                self.fallbacks.push(reason);
                self.input(plan)
            }
            result => result,
        }
    }

    /// The rows of `plan` as they come from outside.
    fn input(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Stream, Unsupported> {
        let fields = fields_of(&plan.schema(), plan.name())?;
        self.inputs.push(Arc::clone(plan));
        Ok(Stream::of_source(Source::Input { input: self.inputs.len() - 1, fields }, Rows::unknown()))
    }

    /// The rows of `plan`, which is not an input.
    fn operator(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Stream, Unsupported> {
        if let Some(scan) = plan.downcast_ref::<WarpmillScanExec>() {
            return self.scan(scan);
        }
        if let Some(scan) = (self.options.scans)(plan) {
            return self.operator(&scan);
        }
        if plan.is::<EmptyExec>() {
            return self.values(plan, vec![]);
        }
        if plan.is::<PlaceholderRowExec>() {
            return self.values(plan, vec![vec![Scalar::Null; plan.schema().fields().len()]]);
        }
        if let Some(node) = plan.downcast_ref::<FilterExec>() {
            let stream = self.filter(node)?;
            return Ok(self.fetch(stream, node.fetch()));
        }
        if let Some(node) = plan.downcast_ref::<ProjectionExec>() {
            return self.projection(node);
        }
        if let Some(node) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(node);
        }
        if let Some(node) = plan.downcast_ref::<HashJoinExec>() {
            let stream = self.hash_join(node)?;
            return Ok(self.fetch(stream, plan.fetch()));
        }
        if let Some(node) = plan.downcast_ref::<SortMergeJoinExec>() {
            return self.sort_merge_join(node);
        }
        if let Some(node) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return self.nested_loop_join(node);
        }
        if let Some(node) = plan.downcast_ref::<AsofJoinExec>() {
            return self.asof_join(node);
        }
        if let Some(node) = plan.downcast_ref::<CrossJoinExec>() {
            return self.cross_join(node);
        }
        if let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() {
            return self.scalar_subqueries(node);
        }
        if let Some(windows) = Windows::of(plan) {
            if !self.options.windows {
                return Err(Unsupported::new(plan.name(), "windows put no rows aside, and memory_limit asks for that"));
            }
            return self.windows(&windows);
        }
        if let Some(inputs) = union_inputs(plan) {
            return self.union(plan, inputs);
        }
        self.ordering(plan)
    }

    /// Translates sorts, limits, and nodes that only move rows.
    fn ordering(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Stream, Unsupported> {
        if let Some(node) = plan.downcast_ref::<SortExec>() {
            return self.sort(node.input(), node.expr(), node.fetch());
        }
        if let Some(node) = plan.downcast_ref::<PartialSortExec>() {
            return self.sort(node.input(), node.expr(), node.fetch());
        }
        if let Some(node) = plan.downcast_ref::<GlobalLimitExec>() {
            let stream = self.stream(node.input())?;
            let stream = self.ordered(stream, node.input())?;
            return Ok(self.limit(stream, node.skip() as u64, node.fetch().map(|n| n as u64)));
        }
        if let Some(node) = plan.downcast_ref::<LocalLimitExec>() {
            let stream = self.stream(node.input())?;
            return Ok(self.fetch(stream, Some(node.fetch())));
        }
        if let Some(node) = plan.downcast_ref::<SortPreservingMergeExec>() {
            let stream = self.stream(node.input())?;
            if !self.is_sorted(&stream) {
                // The input is sorted within each partition only, and a program has no partitions.
                return self.sort_stream(stream, &node.schema(), node.expr(), node.fetch());
            }
            return Ok(self.limit(stream, 0, node.fetch().map(|n| n as u64)));
        }
        if let Some(input) = moved(plan) {
            let stream = self.stream(input)?;
            return Ok(self.fetch(stream, plan.fetch()));
        }
        Err(Unsupported::new(plan.name(), "this operator"))
    }

    fn values(&mut self, plan: &Arc<dyn ExecutionPlan>, rows: Vec<Vec<Scalar>>) -> Result<Stream, Unsupported> {
        let mut fields = fields_of(&plan.schema(), plan.name())?;
        fields.iter_mut().for_each(|field| field.ty.nullable = true);
        let count = Rows::at_most(rows.len() as u64);
        Ok(Stream::of_source(Source::Values { rows, fields }, count))
    }

    fn filter(&mut self, node: &FilterExec) -> Result<Stream, Unsupported> {
        let mut stream = self.stream(node.input())?;
        let schema = node.input().schema();
        // Conditions without subqueries come first: they may reach the scan.
        let predicate = self.condition(node.predicate())?;
        let (later, first): (Vec<_>, Vec<_>) =
            split_conjunction(&predicate).into_iter().partition(|conjunct| reads_subquery(conjunct));
        for conjuncts in [first, later] {
            self.attach_subqueries(&mut stream, conjuncts.iter().copied())?;
            let scope = scope(&stream, &schema);
            let translated = conjuncts.into_iter().map(|conjunct| scope.conjuncts(conjunct));
            let translated = translated.collect::<Result<Vec<_>, _>>()?.concat();
            if !translated.is_empty() {
                stream.filter(translated);
            }
        }
        if let Some(projection) = node.projection() {
            stream.columns = projection.iter().map(|&i| stream.columns[i]).collect();
        }
        Ok(stream)
    }

    /// A condition with the values of its parameters.
    fn condition(&self, condition: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>, Unsupported> {
        parameters::with_values(condition, self.options.values)
            .map_err(|error| Unsupported::new(condition, error.to_string()))
    }

    fn projection(&mut self, node: &ProjectionExec) -> Result<Stream, Unsupported> {
        let mut stream = self.stream(node.input())?;
        self.attach_subqueries(&mut stream, node.expr().iter().map(|e| &e.expr))?;
        let schema = node.input().schema();
        let scope = scope(&stream, &schema);
        let limit = Limit::of_columns(stream.rows.likely);
        let translated = node.expr().iter().map(|e| {
            let expr = limit.encode(scope.expr(&e.expr)?);
            Ok((Field { name: e.alias.clone(), ty: expr.ty.clone() }, expr))
        });
        let list = translated.collect::<Result<Vec<_>, _>>()?;
        let columns: Option<Vec<usize>> = list.iter().map(|(_, expr)| column_of(expr)).collect();
        match columns {
            Some(columns) => stream.columns = columns,
            None => stream.project(list),
        }
        Ok(stream)
    }

    fn union(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        inputs: &[Arc<dyn ExecutionPlan>],
    ) -> Result<Stream, Unsupported> {
        let schema = plan.schema();
        let streams = inputs.iter().map(|input| self.stream(input)).collect::<Result<Vec<_>, _>>()?;
        let mut fields = Vec::with_capacity(schema.fields().len());
        for (i, field) in schema.fields().iter().enumerate() {
            let types = streams.iter().map(|stream| {
                let column = Expr::column(0, stream.ty(i).clone());
                Ok(convert(column, field.data_type(), false)?.ty)
            });
            let types = types.collect::<Result<Vec<_>, Unsupported>>()?;
            let ty = expr::common_type(types.iter()).ok_or_else(|| Unsupported::new(plan.name(), "no inputs"))?;
            fields.push(Field { name: field.name().clone(), ty });
        }
        let rows = streams.iter().map(|stream| stream.rows).reduce(Rows::plus).unwrap_or(Rows::at_most(0));
        let mut branches: Vec<Branch> = Vec::new();
        for mut stream in streams {
            let list = fields.iter().enumerate().map(|(i, field)| {
                let column = Expr::column(stream.columns[i], stream.ty(i).clone());
                Ok((field.clone(), convert(column, &field.ty.logical, false)?.widen(field.ty.phys)))
            });
            let list = list.collect::<Result<Vec<_>, Unsupported>>()?;
            stream.project(list);
            branches.extend(stream.branches);
        }
        let columns = (0..fields.len()).collect();
        Ok(Stream { branches, distinct: vec![None; fields.len()], fields, columns, rows, subqueries: vec![] })
    }

    fn sort(
        &mut self,
        input: &Arc<dyn ExecutionPlan>,
        order: &LexOrdering,
        fetch: Option<usize>,
    ) -> Result<Stream, Unsupported> {
        let stream = self.stream(input)?;
        self.sort_stream(stream, &input.schema(), order, fetch)
    }

    fn sort_stream(
        &mut self,
        mut stream: Stream,
        schema: &SchemaRef,
        order: &LexOrdering,
        fetch: Option<usize>,
    ) -> Result<Stream, Unsupported> {
        stream.normalize();
        let keys = order.iter().map(|key| {
            let expr = Limit::of_keys(stream.rows.likely).encode(scope(&stream, schema).expr(&key.expr)?);
            Ok(SortKey { expr, descending: key.options.descending, nulls_first: key.options.nulls_first })
        });
        let keys = keys.collect::<Result<Vec<_>, Unsupported>>()?;
        let (fetch, fields) = (fetch.map(|n| n as u64), stream.fields.clone());
        let (distinct, mut rows) = (stream.distinct.clone(), stream.rows);
        let sink = self.finish(stream, Sink::Sort { keys, skip: 0, fetch, fields: fields.clone() });
        if let Some(fetch) = fetch {
            rows = Rows {
                bound: Some(rows.bound.unwrap_or(u128::MAX).min(fetch.into())),
                likely: rows.likely.min(fetch as f64),
            };
        }
        let stream = Stream::of_source(Source::Rows { sink, fields }, rows);
        Ok(Stream { distinct, ..stream })
    }

    /// Sorts `stream` into the order that `plan` promises, if necessary: not every operator here keeps the order that DataFusion's keeps (sort-merge
    /// joins, aggregations of sorted rows, sorted files).
    fn ordered(&mut self, stream: Stream, plan: &Arc<dyn ExecutionPlan>) -> Result<Stream, Unsupported> {
        match plan.output_ordering() {
            Some(order) if !self.is_sorted(&stream) => self.sort_stream(stream, &plan.schema(), order, None),
            _ => Ok(stream),
        }
    }

    /// The sort whose rows `stream` returns unchanged.
    fn sort_sink(&self, stream: &Stream) -> Option<SinkId> {
        match stream.branches.as_slice() {
            [Branch { source: Source::Rows { sink, .. }, operators, .. }] if operators.is_empty() => {
                matches!(self.sinks[*sink], Sink::Sort { .. }).then_some(*sink)
            }
            _ => None,
        }
    }

    /// Whether `stream` has the order of a sort. A probe with several matches per row does not keep it: it emits all first matches of a chunk, then
    /// all second ones.
    fn is_sorted(&self, stream: &Stream) -> bool {
        let [Branch { source: Source::Rows { sink, .. }, operators, .. }] = stream.branches.as_slice() else {
            return false;
        };
        let keeps = |operator: &Operator| match operator {
            Operator::Filter(_) | Operator::Project(_) | Operator::Limit { .. } => true,
            Operator::Probe(probe) => {
                matches!(probe.kind, JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark)
                    || self.single_rows.contains(&probe.build)
            }
        };
        matches!(self.sinks[*sink], Sink::Sort { .. }) && operators.iter().all(keeps)
    }

    /// The first `fetch` rows of all of `stream` after `skip`.
    fn limit(&mut self, mut stream: Stream, skip: u64, limit: Option<u64>) -> Stream {
        if skip == 0 && limit.is_none() {
            return stream;
        }
        if let Some(sort) = self.sort_sink(&stream)
            && let Sink::Sort { skip: skipped, fetch, .. } = &mut self.sinks[sort]
        {
            let left = fetch.map(|fetch| fetch.saturating_sub(skip));
            *skipped += skip;
            *fetch = left.into_iter().chain(limit).min();
            return stream;
        }
        if stream.branches.len() > 1 {
            // Probes that set match flags must see all rows; other branches need not return more than the limit.
            let flags = stream.branches.iter().any(|branch| matches!(branch.source, Source::Build { .. }));
            if let Some(limit) = limit.filter(|_| !flags) {
                stream.limit(0, Some(limit.saturating_add(skip)));
            }
            stream = self.collect(stream);
        }
        stream.limit(skip, limit);
        stream
    }

    /// The limit of a node whose partitions each stop after `fetch` rows. All together never need more: such limits are derived from one above.
    fn fetch(&mut self, stream: Stream, fetch: Option<usize>) -> Stream {
        self.limit(stream, 0, fetch.map(|fetch| fetch as u64))
    }

    /// Ends the pipelines of `stream` in a collection and begins a new pipeline.
    fn collect(&mut self, mut stream: Stream) -> Stream {
        stream.normalize();
        let (fields, distinct, rows) = (stream.fields.clone(), stream.distinct.clone(), stream.rows);
        let sink = self.finish(stream, Sink::Collect { fields: fields.clone() });
        Stream { distinct, ..Stream::of_source(Source::Rows { sink, fields }, rows) }
    }

    /// Ends the pipelines of `stream` in `sink`.
    fn finish(&mut self, stream: Stream, sink: Sink) -> SinkId {
        self.sinks.push(sink);
        let sink = self.sinks.len() - 1;
        let ended = stream.branches.into_iter();
        self.pipelines.extend(ended.map(|b| Pipeline { source: b.source, operators: b.operators, sink }));
        sink
    }

    /// Makes `stream` the result.
    fn result(&mut self, stream: Stream) {
        let whole = stream.columns.iter().copied().eq(0..stream.fields.len());
        if whole && self.sort_sink(&stream) == Some(self.sinks.len().wrapping_sub(1)) {
            return;
        }
        let mut stream = stream;
        stream.normalize();
        let fields = stream.fields.clone();
        self.finish(stream, Sink::Collect { fields });
    }
}

/// The scope of expressions over the plan node of `stream`, whose schema is `schema`.
fn scope<'a>(stream: &'a Stream, schema: &'a Schema) -> Scope<'a> {
    let columns = stream.columns.iter().map(|&i| (i, &stream.fields[i].ty)).collect();
    Scope { columns, schema, subqueries: subquery_scope(stream) }
}

fn subquery_scope(stream: &Stream) -> Vec<(SubqueryKey, usize, &ColType)> {
    stream.subqueries.iter().map(|(key, i)| (key.clone(), *i, &stream.fields[*i].ty)).collect()
}

fn column_of(expr: &Expr) -> Option<usize> {
    match expr.kind {
        warpmill_ir::ExprKind::Column(index) => Some(index),
        _ => None,
    }
}

/// The columns of `schema`, without proven properties.
fn fields_of(schema: &Schema, operator: &str) -> Result<Vec<Field>, Unsupported> {
    let field = |field: &Arc<arrow::datatypes::Field>| {
        let ty = ColType::of(field.data_type(), field.is_nullable());
        let ty = ty.ok_or_else(|| unsupported_column(operator, field))?;
        Ok(Field { name: field.name().clone(), ty })
    };
    schema.fields().iter().map(field).collect()
}

fn unsupported_column(operator: &str, field: &arrow::datatypes::Field) -> Unsupported {
    Unsupported::new(operator, format!("column {:?} of type {}", field.name(), field.data_type()))
}

fn union_inputs(plan: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn ExecutionPlan>]> {
    let union = plan.downcast_ref::<UnionExec>().map(|node| node.inputs().as_slice());
    union.or_else(|| plan.downcast_ref::<InterleaveExec>().map(|node| node.inputs().as_slice()))
}

/// The input of a node that only moves rows between partitions or batches, or hides their properties.
fn moved(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if let Some(node) = plan.downcast_ref::<any_rows::AnyRowsExec>() {
        return Some(node.input());
    }
    #[allow(deprecated, reason = "plans of other engines may hold it still")]
    let moves = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CoalesceBatchesExec>()
        || plan.is::<CooperativeExec>();
    if moves { plan.children().first().copied() } else { None }
}
