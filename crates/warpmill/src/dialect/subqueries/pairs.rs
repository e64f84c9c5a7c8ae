//! Outer joins whose condition has a subquery over columns of both sides.
//!
//! The rows of both sides get numbers. An inner join with the subquery in a filter finds the pairs of rows that meet the condition, and the outer
//! join matches these pairs by number. Both sides run once, see [`Once`].

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition,
};

use super::{Rewriter, forms};
use crate::dialect::tables::has_volatile;
use crate::dialect::windows::window;
use crate::once::Once;

/// Whether an expression, or a subquery in it, gives another value each time.
fn is_volatile(expr: &Expr) -> bool {
    let found = expr.exists(|part| {
        Ok(part.is_volatile_node()
            || match part {
                Expr::Exists(exists) => has_volatile(&exists.subquery.subquery),
                Expr::InSubquery(within) => has_volatile(&within.subquery.subquery),
                Expr::ScalarSubquery(subquery) => has_volatile(&subquery.subquery),
                _ => false,
            })
    });
    found.unwrap_or(true)
}

impl Rewriter {
    /// Plans a join: `conditions` have subqueries over both sides, `others` are the remaining conditions that are not equalities.
    pub(super) fn by_pairs(&self, join: Join, conditions: Vec<Expr>, others: Vec<Expr>) -> Result<LogicalPlan> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right};
        if !matches!(join.join_type, Left | Right | Full | LeftSemi | LeftAnti) {
            return not_impl_err!("a subquery about both sides in ON of this kind of join");
        }
        for side in [&join.left, &join.right] {
            if !forms::outer_columns(side)?.is_empty() {
                return not_impl_err!("a subquery about both sides in ON of an outer join of what names outer columns");
            }
        }
        if conditions.iter().any(is_volatile) {
            return not_impl_err!(
                "a volatile function in a subquery in ON of an outer join, which is of pairs of rows"
            );
        }
        let columns = join.schema.columns();
        let (left, left_row) = self.numbered(Arc::unwrap_or_clone(join.left))?;
        let (right, right_row) = self.numbered(Arc::unwrap_or_clone(join.right))?;
        let inner = Join::try_new(
            Arc::new(left.clone()),
            Arc::new(right.clone()),
            join.on,
            conjunction(others),
            Inner,
            join.join_constraint,
            join.null_equality,
            false,
        )?;
        let condition = conjunction(conditions).expect("there are some");
        let met = self.filter(Filter::try_new(condition, Arc::new(LogicalPlan::Join(inner)))?)?;
        let (of_left, of_right) = (self.name("pair"), self.name("pair"));
        let row = |name: &str| Column::from_name(name);
        let pairs = LogicalPlanBuilder::from(met)
            .project([Expr::Column(row(&left_row)).alias(&of_left), Expr::Column(row(&right_row)).alias(&of_right)])?
            .build()?;
        let by_left = |ty: JoinType| {
            let keys = (vec![row(&left_row)], vec![row(&of_left)]);
            LogicalPlanBuilder::from(left).join(pairs, ty, keys, None)
        };
        let joined = match join.join_type {
            LeftSemi | LeftAnti => by_left(join.join_type)?,
            ty => {
                let first = if ty == Right { Inner } else { Left };
                by_left(first)?.join(right, ty, (vec![row(&of_right)], vec![row(&right_row)]), None)?
            }
        };
        joined.project(columns.into_iter().map(Expr::Column))?.build()
    }

    /// A plan with its rows numbered in a new column, and the name of that.
    fn numbered(&self, plan: LogicalPlan) -> Result<(LogicalPlan, String)> {
        let name = self.name("row");
        let columns = plan.schema().columns();
        let number = window(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![], vec![])?;
        let made = Expr::Column(Column::from_name(number.schema_name().to_string())).alias(&name);
        let plan = LogicalPlanBuilder::from(plan).window([number])?;
        let plan = plan.project(columns.into_iter().map(Expr::Column).chain([made]))?.build()?;
        Ok((Once::plan(plan), name))
    }
}
