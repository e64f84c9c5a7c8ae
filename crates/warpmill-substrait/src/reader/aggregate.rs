//! Aggregations.

use datafusion::common::{Column, ScalarValue, TableReference};
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::expr::AggregateFunction as AggregateExpr;
use datafusion::logical_expr::{Aggregate, Case, Expr, GroupingSet, LogicalPlanBuilder, lit};
use datafusion_substrait::substrait::proto::aggregate_function::AggregationInvocation;
use datafusion_substrait::substrait::proto::aggregate_rel::{Grouping, Measure};
use datafusion_substrait::substrait::proto::{AggregateRel, AggregationPhase};

use super::cast::{cast, conformed};
use super::types::data_type;
use super::{Reader, Rows, Scope, Slot};
use crate::error::{Result, invalid, required, unsupported};
use crate::functions::Finish;

impl Reader<'_> {
    pub(super) fn aggregate(&mut self, relation: &AggregateRel) -> Result<Rows> {
        let rows = self.input(relation.input.as_deref(), "aggregate")?;
        let scope = rows.scope();
        let shared = relation.grouping_expressions.iter().map(|expression| self.expression(expression, &scope));
        let shared = shared.collect::<Result<Vec<_>>>()?;
        let sets = relation.groupings.iter().map(|grouping| self.grouping(grouping, &shared, &scope));
        let sets = sets.collect::<Result<Vec<_>>>()?;
        let measures = relation.measures.iter().map(|measure| self.measure(measure, &scope));
        let measures = measures.collect::<Result<Vec<_>>>()?;
        let keys = distinct(sets.iter().flatten());
        let calls = distinct(measures.iter().map(|measure| &measure.call));
        if keys.is_empty() && calls.is_empty() {
            return invalid("an aggregation without keys and measures");
        }
        let grouped: Vec<Expr> = match sets.as_slice() {
            [] | [_] => keys.clone(),
            sets => vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets.to_vec()))],
        };
        let plan = LogicalPlanBuilder::from(rows.plan).aggregate(grouped, calls.clone())?.build()?;
        let aggregated = Rows::of(plan);
        let column = |at: usize| Expr::Column(aggregated.slots[at].column.clone());
        let id = (sets.len() > 1).then_some(keys.len());
        let first_call = keys.len() + usize::from(id.is_some());

        let mut outputs: Vec<Expr> = (0..keys.len()).map(column).collect();
        if let Some(id) = id.filter(|_| self.of_datafusion) {
            outputs.push(column(id));
        }
        let schema = aggregated.plan.schema();
        for measure in &measures {
            let at = required(calls.iter().position(|call| *call == measure.call), "a measure")?;
            let value = match measure.finish {
                Finish::Nothing => column(first_call + at),
                Finish::ZeroForNull => zero_for_null(column(first_call + at)),
            };
            outputs.push(conformed(value, measure.output.as_ref(), schema)?);
        }
        if let Some(id) = id.filter(|_| !self.of_datafusion) {
            outputs.push(set_ordinal(&column(id), &sets, &keys));
        }
        self.renamed(aggregated, outputs, &scope, &keys)
    }

    /// `outputs` over `aggregated` with unique names: DataFusion names aggregates after their expression, which another aggregation may contain, too.
    /// Keys that are columns keep their names.
    fn renamed(&mut self, aggregated: Rows, outputs: Vec<Expr>, below: &Scope, keys: &[Expr]) -> Result<Rows> {
        let mut projected = Vec::with_capacity(outputs.len());
        let mut slots = Vec::with_capacity(outputs.len());
        for (at, output) in outputs.into_iter().enumerate() {
            let slot = match (keys.get(at), &output) {
                (Some(Expr::Column(key)), Expr::Column(column)) => {
                    let chars = below.slots.iter().find(|slot| slot.column == *key).and_then(|slot| slot.chars);
                    Slot { column: column.clone(), chars }
                }
                _ => Slot { column: Column::new_unqualified(self.column_name()), chars: None },
            };
            projected.push(match output {
                Expr::Column(column) if column == slot.column => Expr::Column(column),
                output => output.alias_qualified(None::<TableReference>, &slot.column.name),
            });
            slots.push(slot);
        }
        Ok(Rows { plan: project(aggregated.plan, projected)?, slots })
    }

    fn grouping(&mut self, grouping: &Grouping, shared: &[Expr], scope: &Scope) -> Result<Vec<Expr>> {
        if !grouping.expression_references.is_empty() {
            let referred = grouping.expression_references.iter().map(|&reference| {
                let key = usize::try_from(reference).ok().and_then(|reference| shared.get(reference)).cloned();
                required(key, "a grouping expression that is referred to")
            });
            return Ok(distinct(referred.collect::<Result<Vec<_>>>()?.iter()));
        }
        #[allow(deprecated, reason = "plans of earlier versions hold the expressions themselves")]
        let expressions = &grouping.grouping_expressions;
        let keys = expressions.iter().map(|expression| self.expression(expression, scope));
        Ok(distinct(keys.collect::<Result<Vec<_>>>()?.iter()))
    }

    fn measure(&mut self, measure: &Measure, scope: &Scope) -> Result<MeasureCall> {
        let filter = match &measure.filter {
            Some(filter) => Some(Box::new(self.expression(filter, scope)?)),
            None => None,
        };
        let function = required(measure.measure.as_ref(), "the function of a measure")?;
        match AggregationPhase::try_from(function.phase) {
            Ok(AggregationPhase::Unspecified | AggregationPhase::InitialToResult) => {}
            Ok(phase) => return unsupported(format!("aggregation phase '{}'", phase.as_str_name())),
            Err(_) => return invalid(format!("aggregation phase {}", function.phase)),
        }
        let is_distinct =
            matches!(AggregationInvocation::try_from(function.invocation), Ok(AggregationInvocation::Distinct));
        #[allow(deprecated, reason = "plans of earlier versions hold arguments that are all expressions")]
        let arguments = self.arguments(&function.arguments, &function.args, scope)?;
        let found = self.aggregate_function(function.function_reference, arguments, &function.options, "aggregate")?;
        let order_by = self.sort_keys(&function.sorts, scope)?;
        let call = AggregateExpr::new_udf(found.function, found.arguments, is_distinct, filter, order_by, None);
        let output = function.output_type.as_ref().map(|ty| data_type(ty, self.declarations)).transpose()?;
        Ok(MeasureCall { call: Expr::AggregateFunction(call), finish: found.finish, output })
    }
}

/// A measure: an aggregate, and what is applied to its result.
struct MeasureCall {
    call: Expr,
    finish: Finish,
    output: Option<arrow::datatypes::DataType>,
}

/// Expressions in the order of their first occurrence.
fn distinct<'a>(exprs: impl Iterator<Item = &'a Expr>) -> Vec<Expr> {
    let mut found: Vec<Expr> = vec![];
    for expr in exprs {
        if !found.contains(expr) {
            found.push(expr.clone());
        }
    }
    found
}

fn zero_for_null(value: Expr) -> Expr {
    Expr::Case(Case {
        expr: None,
        when_then_expr: vec![(Box::new(value.clone().is_null()), Box::new(lit(0_i64)))],
        else_expr: Some(Box::new(value)),
    })
}

/// The index of a row's grouping set, from DataFusion's id: a bit for each key that the set lacks (the last key is the lowest bit), above them how
/// often the same set occurred before.
fn set_ordinal(id: &Expr, sets: &[Vec<Expr>], keys: &[Expr]) -> Expr {
    debug_assert_eq!(Aggregate::INTERNAL_GROUPING_ID, "__grouping_id");
    let mut seen: Vec<u64> = vec![];
    let mut whens = vec![];
    for (ordinal, set) in sets.iter().enumerate() {
        let mask = keys.iter().fold(0_u64, |mask, key| mask << 1 | u64::from(!set.contains(key)));
        let repeated = seen.iter().filter(|&&other| other == mask).count() as u64;
        seen.push(mask);
        let value = lit(ScalarValue::UInt64(Some(repeated << keys.len().min(63) | mask)));
        let when = cast(id.clone(), &arrow::datatypes::DataType::UInt64).eq(value);
        whens.push((Box::new(when), Box::new(lit(ordinal as i32))));
    }
    Expr::Case(Case { expr: None, when_then_expr: whens, else_expr: None })
}
