//! Subqueries: dependent joins and mark joins of the binder become subquery expressions again.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Spans};
use datafusion::functions_aggregate::expr_fn as aggregates;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, lit};

use super::expr::failure;
use super::{Allowed, Translator};
use crate::Refused;
use crate::encoding::{self, Binding, Node};

impl<'a> Translator<'a> {
    /// The rows of `left`. The value that each of them gets from `right` is stored as a subquery expression.
    pub(super) fn dependent(
        &mut self,
        mark: Option<u64>,
        value: Option<Binding>,
        cond: Option<&'a encoding::Expr>,
        left: &'a Node,
        right: &'a Node,
    ) -> Result<LogicalPlan, Refused> {
        let left = self.node(left)?;
        let right = self.inner(right, left.schema())?;
        let (binding, result) = match (mark, value, cond) {
            (Some(mark), _, None) => ((mark, 0), Expr::Exists(Exists::new(subquery(right), false))),
            (Some(mark), _, Some(cond)) => ((mark, 0), self.is_member(cond, left.schema(), right)?),
            (None, Some(value), None) => {
                let column = Expr::Column(self.column(value));
                let right = LogicalPlanBuilder::from(right).project([column])?.build()?;
                (value, Expr::ScalarSubquery(subquery(right)))
            }
            _ => return Err(Refused::new("a LATERAL join")),
        };
        self.results.insert(binding, result);
        Ok(left)
    }

    /// `x IN (SELECT ...)` without correlation.
    pub(super) fn membership(
        &mut self,
        mark: u64,
        conds: &'a [encoding::Expr],
        left: &'a Node,
        right: &'a Node,
    ) -> Result<LogicalPlan, Refused> {
        let [cond] = conds else { return Err(Refused::new("IN with several columns")) };
        let left = self.node(left)?;
        let right = self.inner(right, left.schema())?;
        let result = self.is_member(cond, left.schema(), right)?;
        self.results.insert((mark, 0), result);
        Ok(left)
    }

    fn is_member(&mut self, cond: &'a encoding::Expr, left: &DFSchemaRef, right: LogicalPlan) -> Result<Expr, Refused> {
        let encoding::Expr::Cmp { f, a } = cond else { return Err(Refused::new("IN with this condition")) };
        if f != "=" {
            return Err(Refused::new(format!("ANY or ALL with {f}")));
        }
        let member = self.expr(&a.0, left)?;
        let element = self.expr(&a.1, right.schema())?;
        let mut right = LogicalPlanBuilder::from(right).project([element])?.build()?;
        if right.all_out_ref_exprs().is_empty() {
            // In a mark join, DataFusion mistakes an unqualified column for its own one of the same name.
            right = LogicalPlanBuilder::from(right).alias("members")?.build()?;
        }
        Ok(Expr::InSubquery(InSubquery::new(Box::new(member), subquery(right), false)))
    }

    /// A subquery expression of the binder that has not become a join.
    pub(super) fn subquery(
        &mut self,
        kind: &str,
        cmp: Option<&str>,
        args: &'a [encoding::Expr],
        child: &'a Node,
        schema: &DFSchemaRef,
    ) -> Result<Expr, Refused> {
        let plan = self.inner(child, schema)?;
        let first = plan.schema().columns().into_iter().next().map(Expr::Column);
        let first = first.ok_or_else(|| Refused::new("a subquery without columns"))?;
        match (kind, cmp, args) {
            ("scalar", _, _) => {
                let plan = LogicalPlanBuilder::from(plan).project([first])?.build()?;
                Ok(Expr::ScalarSubquery(subquery(plan)))
            }
            ("exists", _, _) => Ok(Expr::Exists(Exists::new(subquery(plan), false))),
            ("not exists", _, _) => Ok(Expr::Exists(Exists::new(subquery(plan), true))),
            ("any", Some("="), [member]) => {
                let member = self.expr(member, schema)?;
                let plan = LogicalPlanBuilder::from(plan).project([first])?.build()?;
                Ok(Expr::InSubquery(InSubquery::new(Box::new(member), subquery(plan), false)))
            }
            _ => Err(Refused::new(format!("a subquery of the kind {kind}"))),
        }
    }

    /// A scalar subquery with the binder's guard against a second row, and the column in which the binder puts its value.
    pub(super) fn scalar(&mut self, node: &'a Node) -> Result<Option<(Binding, Expr)>, Refused> {
        let Some((table, value, child)) = guarded(node) else { return Ok(None) };
        let (plan, value) = self.guarded_value(value, child)?;
        let plan = match gives_one_row(child) {
            true => LogicalPlanBuilder::from(plan).project([value])?.build()?,
            false => only_row(plan, value)?,
        };
        Ok(Some(((table, 0), Expr::ScalarSubquery(subquery(plan)))))
    }

    /// A scalar subquery with the binder's guard as a plan of exactly one row.
    pub(super) fn single_row(&mut self, node: &'a Node) -> Result<Option<LogicalPlan>, Refused> {
        let Some((table, value, child)) = guarded(node) else { return Ok(None) };
        let (plan, value) = self.guarded_value(value, child)?;
        let plan = match is_total(child) {
            true => LogicalPlanBuilder::from(plan).project([value])?.build()?,
            false => only_row(plan, value)?,
        };
        Ok(Some(self.renamed(plan, table)?))
    }

    fn guarded_value(&mut self, value: &'a encoding::Expr, child: &'a Node) -> Result<(LogicalPlan, Expr), Refused> {
        let top = std::mem::replace(&mut self.top, false);
        let plan = self.node(child);
        self.top = top;
        let plan = plan?;
        let value = self.expr(value, plan.schema())?;
        Ok((plan, value))
    }

    /// The plan of a subquery in a query with the columns `outer`.
    fn inner(&mut self, node: &'a Node, outer: &DFSchemaRef) -> Result<LogicalPlan, Refused> {
        let allowed = std::mem::replace(&mut self.allowed, Allowed::Nothing);
        let top = std::mem::replace(&mut self.top, false);
        self.outer.push(Arc::clone(outer));
        let plan = self.node(node);
        self.outer.pop();
        self.allowed = allowed;
        self.top = top;
        plan
    }
}

/// The parts of a projection CASE WHEN count(*) > 1 THEN error ELSE first(value) END: its table, the value, and the node of the rows.
fn guarded(node: &Node) -> Option<(u64, &encoding::Expr, &Node)> {
    let Node::Project { table, exprs, child } = node else { return None };
    let (encoding::Expr::Case { a, .. }, Node::Aggregate { groups, aggs, child, .. }) = (exprs.first()?, &**child)
    else {
        return None;
    };
    let guarded = matches!(&a[..], [_, encoding::Expr::Fn { f, .. }, encoding::Expr::Col { .. }] if f == "error");
    let [encoding::Expr::Agg { f, a: value, .. }, encoding::Expr::Agg { f: count, .. }] = &aggs[..] else {
        return None;
    };
    let first = matches!(f.as_str(), "first" | "any_value") && count == "count_star";
    if guarded && first && groups.is_empty() { Some((*table, value.first()?, child)) } else { None }
}

/// Whether a node aggregates all its rows to one row.
fn is_total(node: &Node) -> bool {
    match node {
        Node::Project { child, .. } => is_total(child),
        Node::Aggregate { groups, sets, .. } => groups.is_empty() && sets.len() <= 1,
        _ => false,
    }
}

/// Whether a node returns at most one row, and DataFusion can tell.
fn gives_one_row(node: &Node) -> bool {
    match node {
        Node::Project { child, .. } | Node::Filter { child, .. } => gives_one_row(child),
        Node::Limit { limit, .. } => *limit == Some(1),
        node => is_total(node),
    }
}

/// `value` of the only row of `plan`: NULL without rows, an error for several rows.
fn only_row(plan: LogicalPlan, value: Expr) -> Result<LogicalPlan, Refused> {
    let ty = value.get_type(plan.schema())?;
    let parts = [aggregates::count(lit(1i64)).alias("rows"), aggregates::min(value).alias("value")];
    let plan = LogicalPlanBuilder::from(plan).aggregate(Vec::<Expr>::new(), parts)?.build()?;
    let rows = Expr::Column(Column::new_unqualified("rows"));
    let several = (Box::new(rows.clone().gt(lit(1i64))), Box::new(failure(rows, &ty)));
    let value = Expr::Column(Column::new_unqualified("value"));
    let only = Expr::Case(Case::new(None, vec![several], Some(Box::new(value))));
    Ok(LogicalPlanBuilder::from(plan).project([only.alias("only")])?.build()?)
}

fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// Refuses memberships in expressions that distinguish false from unknown: DataFusion has only two truth values for them.
pub(super) fn check_memberships(predicate: &Expr) -> Result<(), Refused> {
    match predicate {
        Expr::InSubquery(member) if member.negated && !member.subquery.outer_ref_columns.is_empty() => {
            Err(Refused::new("a correlated NOT IN"))
        }
        Expr::InSubquery(_) => Ok(()),
        _ => positive(predicate),
    }
}

fn positive(predicate: &Expr) -> Result<(), Refused> {
    use datafusion::logical_expr::{BinaryExpr, Operator};
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            positive(left)?;
            positive(right)
        }
        Expr::InSubquery(member) if !member.negated => Ok(()),
        _ => {
            let mut found = false;
            predicate.apply(|e| {
                found |= matches!(e, Expr::InSubquery(_));
                Ok(TreeNodeRecursion::Continue)
            })?;
            if found { Err(Refused::new("IN (SELECT ...) inside of another expression")) } else { Ok(()) }
        }
    }
}
