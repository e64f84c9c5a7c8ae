//! Uncorrelated scalar subqueries: one-row hash builds without keys, probed where their value is read.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::expr::{SubqueryKey, only_row, visit_subqueries};
use super::stream::{Rows, Stream};
use super::{Translator, moved};
use warpmill_ir::{
    AggregateExpr, AggregateFunction, ColType, Expr, Field, JoinKind, Operator, Probe, Sink, SinkId, Source,
    Unsupported,
};

/// A scalar subquery that has been translated.
#[derive(Debug, Clone)]
pub(super) struct Subquery {
    key: SubqueryKey,
    build: SinkId,
    /// Its only column.
    field: Field,
    /// Whether it always returns a row.
    exactly_one: bool,
}

impl Translator<'_> {
    pub(super) fn scalar_subqueries(&mut self, node: &ScalarSubqueryExec) -> Result<Stream, Unsupported> {
        let unsupported = |reason: &str| Unsupported::new("ScalarSubqueryExec", reason);
        let known = self.subqueries.len();
        for link in node.subqueries() {
            let mut stream = self.stream(&link.plan)?;
            stream.normalize();
            let [field] = stream.fields.as_slice() else {
                return Err(unsupported("a subquery of several columns"));
            };
            let rows = match row_count(&link.plan) {
                Some(rows) => rows,
                None => {
                    let field = field.clone();
                    stream = self.only_row(stream, field)?;
                    RowCount::One
                }
            };
            let fields = stream.fields.clone();
            let field = fields[0].clone();
            let sink = Sink::HashBuild {
                keys: vec![],
                payload: vec![0],
                fields,
                null_equals_null: false,
                track_matches: false,
                order: None,
            };
            let build = self.finish(stream, sink);
            self.single_rows.push(build);
            let key = SubqueryKey::new(node.results(), link.index.as_usize());
            self.subqueries.push(Subquery { key, build, field, exactly_one: rows == RowCount::One });
        }
        let inputs = self.inputs.len();
        let stream = self.stream(node.input());
        self.subqueries.truncate(known);
        let stream = stream?;
        // DataFusion would run them without the node that computes the subqueries that they read.
        if self.inputs[inputs..].iter().any(|input| reads_subqueries_of(input, node)) {
            return Err(unsupported("a subquery's value is read by an operator that stays in DataFusion"));
        }
        Ok(stream)
    }

    /// Reduces `stream` to one row with its only value, column `field`: NULL without rows, an error for several.
    fn only_row(&mut self, stream: Stream, field: Field) -> Result<Stream, Unsupported> {
        let counted = ColType::of(&DataType::Int64, false);
        let counted = counted.ok_or_else(|| Unsupported::new("ScalarSubqueryExec", "no type of counts"))?;
        let aggregate = |function, argument: Option<Expr>, ty| AggregateExpr {
            function,
            argument,
            second: None,
            filter: None,
            distinct: false,
            ty,
        };
        let value = Expr::column(0, field.ty.clone());
        let value = aggregate(AggregateFunction::AnyValue, Some(value), field.ty.with_nullable(true));
        let rows = aggregate(AggregateFunction::CountStar, None, counted);
        let fields = vec![
            Field { name: field.name.clone(), ty: value.ty.clone() },
            Field { name: "rows".into(), ty: rows.ty.clone() },
        ];
        let sink = Sink::Aggregate { groups: vec![], aggregates: vec![value, rows], fields: fields.clone() };
        let sink = self.finish(stream, sink);
        let [value, rows] = [0, 1].map(|column| Expr::column(column, fields[column].ty.clone()));
        let value = only_row(value, rows);
        let mut counted = Stream::of_source(Source::Rows { sink, fields }, Rows::at_most(1));
        counted.project(vec![(Field { ty: value.ty.clone(), ..field }, value)]);
        Ok(counted)
    }

    /// Makes the value of every subquery that `exprs` read a column of `stream`.
    pub(super) fn attach_subqueries<'a>(
        &self,
        stream: &mut Stream,
        exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    ) -> Result<(), Unsupported> {
        let mut wanted = Vec::new();
        exprs.into_iter().for_each(|expr| visit_subqueries(expr, &mut |key| wanted.push(key)));
        for key in wanted {
            if stream.subqueries.iter().any(|(known, _)| *known == key) {
                continue;
            }
            let found = self.subqueries.iter().find(|subquery| subquery.key == key);
            let subquery = found.ok_or_else(|| {
                Unsupported::new("ScalarSubqueryExpr", "the subquery is planned outside of this part")
            })?;
            attach(stream, subquery);
        }
        Ok(())
    }
}

/// Appends the value of `subquery` to the columns of `stream`.
fn attach(stream: &mut Stream, subquery: &Subquery) {
    let kind = if subquery.exactly_one { JoinKind::Inner } else { JoinKind::ProbeOuter };
    let mut field = subquery.field.clone();
    field.ty.nullable |= !subquery.exactly_one;
    stream.fields.push(field);
    stream.distinct.push(Some(1));
    let probe = Probe {
        build: subquery.build,
        kind,
        keys: Vec::<Expr>::new(),
        residual: None,
        asof: None,
        range: None,
        null_aware: false,
        output: (0..stream.fields.len()).collect(),
        fields: stream.fields.clone(),
    };
    for branch in &mut stream.branches {
        branch.origin.push(vec![]);
        branch.operators.push(Operator::Probe(probe.clone()));
    }
    stream.subqueries.push((subquery.key.clone(), stream.fields.len() - 1));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowCount {
    One,
    AtMostOne,
}

/// The number of rows of `plan`, if it is provably one or none.
fn row_count(plan: &Arc<dyn ExecutionPlan>) -> Option<RowCount> {
    if let Some(node) = plan.downcast_ref::<AggregateExec>() {
        let whole = !matches!(node.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        return (whole && node.group_expr().is_empty()).then_some(RowCount::One);
    }
    if plan.is::<PlaceholderRowExec>() && plan.properties().partitioning.partition_count() == 1 {
        return Some(RowCount::One);
    }
    if let Some(node) = plan.downcast_ref::<ProjectionExec>() {
        return row_count(node.input());
    }
    if let Some(node) = plan.downcast_ref::<FilterExec>() {
        return row_count(node.input()).map(|_| RowCount::AtMostOne);
    }
    if let Some(node) = plan.downcast_ref::<SortExec>() {
        return row_count(node.input()).or(at_most_one(plan));
    }
    if let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() {
        return row_count(node.input());
    }
    at_most_one(plan).or_else(|| row_count(moved(plan)?))
}

fn at_most_one(plan: &Arc<dyn ExecutionPlan>) -> Option<RowCount> {
    let one_partition = plan.properties().partitioning.partition_count() == 1;
    (one_partition && plan.fetch() == Some(1)).then_some(RowCount::AtMostOne)
}

/// Whether an expression in `plan` reads a subquery that `node` computes.
fn reads_subqueries_of(plan: &Arc<dyn ExecutionPlan>, node: &ScalarSubqueryExec) -> bool {
    let mut reads = false;
    let visited = plan.apply_expressions(&mut |expr| {
        visit_subqueries(expr, &mut |key| reads |= key.fills(node.results()));
        Ok(TreeNodeRecursion::Continue)
    });
    reads || visited.is_err() || plan.children().into_iter().any(|child| reads_subqueries_of(child, node))
}
