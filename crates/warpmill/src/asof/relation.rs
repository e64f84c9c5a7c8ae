//! ASOF joins of FROM clauses as plans.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, Result, internal_err, not_impl_err, plan_err};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Extension, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, WindowFunctionDefinition, when,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins, Value,
};
use warpmill_ir::Nearest;

use super::AsofJoin;
use crate::dialect::window;
use crate::once::{Once, is_marked};
use crate::recursion;

/// The MATCH_CONDITION, a string, of an ASOF join whose names are bound and whose conditions all are in its ON clause, or which is written in
/// DuckDB's syntax: rows of the left side without a partner are dropped.
pub(crate) const INNER: &str = "asof inner";
/// As [`INNER`], but rows of the left side without a partner are kept.
pub(crate) const LEFT: &str = "asof left";

/// The MATCH_CONDITION of a POSITIONAL join, which is no ASOF join: it pairs rows of equal position, and ends the shorter side with NULLs.
pub(crate) const POSITIONAL: &str = "asof positional";

/// Plans parenthesised FROM items whose last join is an ASOF or a POSITIONAL join, items that run once, and recursive queries.
#[derive(Debug)]
pub(crate) struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Derived { lateral, subquery, alias, sample } = relation {
            if recursion::is_marked(alias.as_ref())
                && let Some(alias) = alias
            {
                let plan = recursion::relation(*subquery, alias, context)?;
                return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))));
            }
            let is_once = is_marked(alias.as_ref());
            let alias = alias.filter(|_| !is_once);
            let relation = TableFactor::Derived { lateral, subquery, alias, sample };
            if !is_once {
                return Ok(RelationPlanning::Original(Box::new(relation)));
            }
            let plan = Once::plan(context.plan(relation)?);
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))));
        }
        let TableFactor::NestedJoin { mut table_with_joins, alias } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let is_asof = |join: &Join| matches!(join.join_operator, JoinOperator::AsOf { .. });
        let Some(join) = table_with_joins.joins.pop_if(|join| is_asof(join)) else {
            return Ok(RelationPlanning::Original(Box::new(TableFactor::NestedJoin { table_with_joins, alias })));
        };
        let TableWithJoins { relation, joins } = *table_with_joins;
        let left = match joins.is_empty() {
            true => relation,
            false => {
                let table_with_joins = Box::new(TableWithJoins { relation, joins });
                TableFactor::NestedJoin { table_with_joins, alias: None }
            }
        };
        let plan = planned(left, join, context)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

fn planned(left: TableFactor, join: Join, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    if matches!(join.relation, TableFactor::Derived { lateral: true, .. }) {
        return not_impl_err!("an ASOF join with a subquery that names columns of its left side");
    }
    let JoinOperator::AsOf { match_condition, constraint: JoinConstraint::On(condition) } = join.join_operator else {
        return internal_err!("an ASOF join whose conditions are not bound");
    };
    let join_type = match marker(&match_condition) {
        Some(POSITIONAL) => return paired(context.plan(left)?, context.plan(join.relation)?),
        Some(INNER) => JoinType::Inner,
        Some(LEFT) => JoinType::Left,
        _ => return internal_err!("an ASOF join of no kind"),
    };
    let left = context.plan(left)?;
    let right = context.plan(join.relation)?;
    let schema = left.schema().join(right.schema())?;
    let condition = context.sql_to_expr(condition, &schema)?;
    if condition.contains_outer() {
        return not_impl_err!("an ASOF join whose conditions name columns of an outer query");
    }
    if condition.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))))? {
        return not_impl_err!("subqueries in the conditions of an ASOF join");
    }
    joined(left, right, condition, join_type)
}

/// A POSITIONAL join, in the order of its rows.
fn paired(left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
    const POSITIONS: [&str; 2] = ["\u{1}left position", "\u{1}right position"];
    let columns: Vec<Expr> =
        [&left, &right].into_iter().flat_map(|side| side.schema().columns()).map(Expr::Column).collect();
    let [left_key, right_key] = POSITIONS.map(Column::from_name);
    let joined = LogicalPlanBuilder::from(numbered(left, POSITIONS[0])?).join(
        numbered(right, POSITIONS[1])?,
        JoinType::Full,
        (vec![left_key.clone()], vec![right_key.clone()]),
        None,
    )?;
    let order = [left_key, right_key].map(|key| Expr::Column(key).sort(true, false));
    joined.sort(order)?.project(columns)?.build()
}

/// A plan with the positions of its rows as a last column.
fn numbered(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let position = window(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![], vec![])?;
    let column = Expr::Column(Column::from_name(position.schema_name().to_string())).alias(name);
    let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).chain([column]).collect();
    LogicalPlanBuilder::from(plan).window(vec![position])?.project(columns)?.build()
}

/// The marker string in a MATCH_CONDITION.
pub(crate) fn marker(match_condition: &SqlExpr) -> Option<&str> {
    let SqlExpr::Value(value) = match_condition else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    Some(text)
}

fn joined(left: LogicalPlan, right: LogicalPlan, condition: Expr, join_type: JoinType) -> Result<LogicalPlan> {
    let mut keys = vec![];
    let mut inequality: Option<(Expr, Expr, Nearest)> = None;
    let (mut of_left, mut of_right) = (vec![], vec![]);
    for condition in split_conjunction_owned(condition) {
        let (is_left, is_right) = (names_only(&condition, left.schema()), names_only(&condition, right.schema()));
        if is_left {
            of_left.push(condition);
            continue;
        }
        if is_right {
            of_right.push(condition);
            continue;
        }
        match compared(&condition, left.schema(), right.schema()) {
            Some((one, Operator::Eq, other)) => keys.push((one, other)),
            Some((one, op, other)) => {
                let nearest = match op {
                    Operator::GtEq => Nearest::AtMost,
                    Operator::Gt => Nearest::Below,
                    Operator::LtEq => Nearest::AtLeast,
                    _ => Nearest::Above,
                };
                if inequality.replace((one, other, nearest)).is_some() {
                    return plan_err!("Multiple ASOF JOIN inequalities: {condition} is the second");
                }
            }
            None => {
                return not_impl_err!(
                    "a condition of an ASOF join that names both sides and is neither an equality nor an inequality of one side's \
                     value with the other's: {condition}"
                );
            }
        }
    }
    let Some((value, order, nearest)) = inequality else {
        return plan_err!("Missing ASOF JOIN inequality: one of >=, >, <=, < between the two sides");
    };
    let right = filtered(right, of_right)?;
    let (left, value) = match (join_type, conjunction(of_left)) {
        (_, None) => (left, value),
        (JoinType::Left, Some(condition)) => {
            // NULL has no partner.
            let value = when(condition, value).otherwise(Expr::Literal(ScalarValue::Null, None))?;
            (left, value)
        }
        (_, Some(condition)) => (filtered(left, vec![condition])?, value),
    };
    keys.push((value, order));
    let node = AsofJoin::try_new(Arc::new(left), Arc::new(right), keys, nearest, join_type)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

fn filtered(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
        None => Ok(plan),
    }
}

/// Whether all columns of an expression belong to this side. True for expressions without columns.
fn names_only(expr: &Expr, side: &DFSchema) -> bool {
    expr.column_refs().into_iter().all(|column| side.has_column(column))
}

/// A comparison of a value of the left side with one of the right side.
fn compared(condition: &Expr, left: &DFSchema, right: &DFSchema) -> Option<(Expr, Operator, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left: one, op, right: other }) = condition else { return None };
    if !matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
        return None;
    }
    if names_only(one, left) && names_only(other, right) {
        return Some((one.as_ref().clone(), *op, other.as_ref().clone()));
    }
    let turned = op.swap()?;
    (names_only(one, right) && names_only(other, left)).then(|| (other.as_ref().clone(), turned, one.as_ref().clone()))
}
