//! Subqueries in expressions.

use std::sync::Arc;

use datafusion::common::Spans;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison as Comparison, SetQuantifier};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Subquery as Nested};
use datafusion_substrait::substrait::proto::Rel;
use datafusion_substrait::substrait::proto::expression::Subquery;
use datafusion_substrait::substrait::proto::expression::subquery::set_comparison::{ComparisonOp, ReductionOp};
use datafusion_substrait::substrait::proto::expression::subquery::set_predicate::PredicateOp;
use datafusion_substrait::substrait::proto::expression::subquery::{
    InPredicate, SetComparison, SetPredicate, SubqueryType,
};

use super::{Reader, Rows, Scope};
use crate::error::{Result, invalid, required, unsupported};

impl Reader<'_> {
    pub(super) fn subquery(&mut self, subquery: &Subquery, scope: &Scope) -> Result<Expr> {
        match required(subquery.subquery_type.as_ref(), "the kind of a subquery")? {
            SubqueryType::Scalar(scalar) => {
                let rows = self.inner(scalar.input.as_deref(), scope)?;
                Ok(Expr::ScalarSubquery(nested(one_column(rows)?)))
            }
            SubqueryType::InPredicate(predicate) => self.in_predicate(predicate, scope),
            SubqueryType::SetPredicate(predicate) => self.set_predicate(predicate, scope),
            SubqueryType::SetComparison(comparison) => self.set_comparison(comparison, scope),
        }
    }

    /// The rows of a subquery, which may refer to outer columns.
    fn inner(&mut self, input: Option<&Rel>, scope: &Scope) -> Result<Rows> {
        self.outer.push(scope.clone());
        let rows = self.input(input, "subquery");
        self.outer.pop();
        rows
    }

    fn in_predicate(&mut self, predicate: &InPredicate, scope: &Scope) -> Result<Expr> {
        let needle = match predicate.needles.as_slice() {
            [needle] => self.expression(needle, scope)?,
            [] => return invalid("an IN predicate without a value"),
            _ => return unsupported("IN predicate of several columns"),
        };
        let rows = self.inner(predicate.haystack.as_deref(), scope)?;
        Ok(Expr::InSubquery(InSubquery::new(Box::new(needle), nested(one_column(rows)?), false)))
    }

    fn set_predicate(&mut self, predicate: &SetPredicate, scope: &Scope) -> Result<Expr> {
        match PredicateOp::try_from(predicate.predicate_op) {
            Ok(PredicateOp::Exists) => {
                let rows = self.inner(predicate.tuples.as_deref(), scope)?;
                Ok(Expr::Exists(Exists::new(nested(rows.plan), false)))
            }
            Ok(PredicateOp::Unique) => unsupported("set predicate 'unique'"),
            Ok(PredicateOp::Unspecified) | Err(_) => invalid("a set predicate of no kind"),
        }
    }

    fn set_comparison(&mut self, comparison: &SetComparison, scope: &Scope) -> Result<Expr> {
        let op = match ComparisonOp::try_from(comparison.comparison_op) {
            Ok(ComparisonOp::Eq) => Operator::Eq,
            Ok(ComparisonOp::Ne) => Operator::NotEq,
            Ok(ComparisonOp::Lt) => Operator::Lt,
            Ok(ComparisonOp::Gt) => Operator::Gt,
            Ok(ComparisonOp::Le) => Operator::LtEq,
            Ok(ComparisonOp::Ge) => Operator::GtEq,
            Ok(ComparisonOp::Unspecified) | Err(_) => return invalid("a set comparison of no kind"),
        };
        let quantifier = match ReductionOp::try_from(comparison.reduction_op) {
            Ok(ReductionOp::Any) => SetQuantifier::Any,
            Ok(ReductionOp::All) => SetQuantifier::All,
            Ok(ReductionOp::Unspecified) | Err(_) => return invalid("a set comparison with neither ANY nor ALL"),
        };
        let left =
            self.expression(required(comparison.left.as_deref(), "the left side of a set comparison")?, scope)?;
        let rows = nested(one_column(self.inner(comparison.right.as_deref(), scope)?)?);
        if (op, &quantifier) == (Operator::Eq, &SetQuantifier::Any) {
            return Ok(Expr::InSubquery(InSubquery::new(Box::new(left), rows, false)));
        }
        Ok(Expr::SetComparison(Comparison::new(Box::new(left), rows, op, quantifier)))
    }
}

fn one_column(rows: Rows) -> Result<LogicalPlan> {
    match rows.slots.len() {
        1 => rows.exactly(),
        columns => invalid(format!("a subquery of {columns} columns where one is needed")),
    }
}

fn nested(plan: LogicalPlan) -> Nested {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Nested { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}
