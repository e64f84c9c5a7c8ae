//! Subqueries that DataFusion does not plan, or plans incorrectly.
//!
//! DataFusion makes joins of the common forms: EXISTS and IN as conditions, and scalar aggregates compared by equal columns. All other forms become
//! joins here: the distinct values of the outer columns that a subquery names, its *domain*, are joined into the subquery ([`dependent`]), so that it
//! computes the rows for all values at once; these are then joined to the outer rows ([`value`]). NULL and FALSE are distinguished wherever the query
//! can tell them apart.

mod checked;
mod dependent;
mod forms;
mod pairs;
mod recursive;
mod value;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Sort, Subquery};
use datafusion::optimizer::AnalyzerRule;

pub(crate) use checked::{only_row, with_single_rows};
use forms::Place;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_subqueries(&plan)? {
            return Ok(plan);
        }
        let plan = Rewriter::default().plan(plan)?;
        match forms::is_bound(&plan)? {
            true => Ok(plan),
            false => not_impl_err!("a subquery that names outer columns, in this place"),
        }
    }

    fn name(&self) -> &str {
        "subqueries"
    }
}

fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let mut found = matches!(node, LogicalPlan::Subquery(_));
        node.apply_expressions(|expr| {
            found |= contains_subquery(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

fn contains_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(subquery_of(expr).is_some()))
}

/// The query in `expr` itself.
fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Refuses aggregates over outer columns only: SQL assigns them to the outer query, which then has one group.
fn refuse_outer_aggregates(plan: &LogicalPlan) -> Result<()> {
    plan.apply(|node| {
        let LogicalPlan::Aggregate(aggregate) = node else { return Ok(TreeNodeRecursion::Continue) };
        for expr in &aggregate.aggr_expr {
            let (mut outer, mut own) = (false, false);
            expr.apply(|part| {
                outer |= matches!(part, Expr::OuterReferenceColumn(..));
                own |= matches!(part, Expr::Column(_));
                Ok(TreeNodeRecursion::Continue)
            })?;
            if outer && !own {
                return not_impl_err!("{expr} in a subquery, over columns of the query around it");
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Rewrites one plan.
#[derive(Default)]
struct Rewriter {
    /// Names that were made up.
    names: Cell<usize>,
    /// Recursions over outer columns that are being rewritten.
    recursions: RefCell<recursive::Recursions>,
    /// Number of operators of plans that were copied.
    copied: Cell<u64>,
}

/// Rows to which the values of subqueries are added as columns.
struct Rows {
    /// The rows before: these have all columns that subqueries name.
    given: LogicalPlan,
    /// The rows with the columns that have been added.
    plan: LogicalPlan,
}

impl Rows {
    fn of(plan: LogicalPlan) -> Self {
        Self { given: plan.clone(), plan }
    }
}

impl Rewriter {
    /// A name that no other column has.
    fn name(&self, what: &str) -> String {
        self.names.set(self.names.get() + 1);
        format!("__{what}_{}", self.names.get())
    }

    /// `plan` without subqueries that DataFusion does not plan rightly, innermost first.
    fn plan(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.map_children(|child| self.plan(child).map(Transformed::yes))?.data;
        let plan = plan.map_expressions(|expr| {
            expr.transform_up(|expr| match subquery_of(&expr) {
                Some(_) => self.with_inner_plan(expr).map(Transformed::yes),
                None => Ok(Transformed::no(expr)),
            })
        })?;
        self.node(plan.data)
    }

    fn with_inner_plan(&self, expr: Expr) -> Result<Expr> {
        let inner = |subquery: Subquery| -> Result<Subquery> {
            refuse_outer_aggregates(&subquery.subquery)?;
            let plan = self.plan(Arc::unwrap_or_clone(subquery.subquery))?;
            Ok(Subquery { subquery: Arc::new(plan), ..subquery })
        };
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(inner(subquery)?),
            Expr::Exists(exists) => Expr::Exists(Exists { subquery: inner(exists.subquery)?, ..exists }),
            Expr::InSubquery(list) => Expr::InSubquery(InSubquery { subquery: inner(list.subquery)?, ..list }),
            Expr::SetComparison(set) => Expr::SetComparison(SetComparison { subquery: inner(set.subquery)?, ..set }),
            expr => expr,
        })
    }

    fn node(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Join(join) => match is_lateral(&join.right) {
                true => self.lateral_join(join),
                false => self.join(join),
            },
            plan => self.expressions(plan),
        }
    }

    fn filter(&self, filter: Filter) -> Result<LogicalPlan> {
        if !contains_subquery(&filter.predicate)? {
            return Ok(LogicalPlan::Filter(filter));
        }
        let columns = filter.input.schema().columns();
        let mut input = Rows::of(Arc::unwrap_or_clone(filter.input));
        let mut conditions = Vec::new();
        for condition in split_conjunction_owned(filter.predicate) {
            let place = Place::condition(&condition);
            conditions.push(self.replaced(condition, &mut input, place)?);
        }
        let grown = input.plan.schema().fields().len() > columns.len();
        let mut plan = LogicalPlanBuilder::from(input.plan);
        if let Some(condition) = conjunction(conditions) {
            plan = plan.filter(condition)?;
        }
        if grown {
            plan = plan.project(columns.into_iter().map(Expr::Column))?;
        }
        plan.build()
    }

    /// An order by subqueries, which may name columns that are not selected.
    fn sort(&self, mut sort: Sort) -> Result<LogicalPlan> {
        let columns = sort.input.schema().columns();
        let mut wanted = Vec::new();
        for key in &sort.expr {
            key.expr.apply(|expr| {
                if let Some(subquery) = subquery_of(expr) {
                    wanted.extend(forms::outer_columns(&subquery.subquery)?);
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        if let LogicalPlan::Projection(projection) = &*sort.input {
            let has = |plan: &LogicalPlan, column: &Column| plan.schema().has_column(column);
            wanted.retain(|column| !has(&sort.input, column) && has(&projection.input, column));
            if !wanted.is_empty() {
                let exprs = projection.expr.iter().cloned().chain(wanted.into_iter().map(Expr::Column));
                let input = LogicalPlanBuilder::from(projection.input.as_ref().clone()).project(exprs)?.build()?;
                sort.input = Arc::new(input);
            }
        }
        let sorted = self.expressions(LogicalPlan::Sort(sort))?;
        if sorted.schema().fields().len() == columns.len() {
            return Ok(sorted);
        }
        LogicalPlanBuilder::from(sorted).project(columns.into_iter().map(Expr::Column))?.build()
    }

    /// Any node that evaluates its expressions over the rows of its only input.
    fn expressions(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_expressions(|expr| {
            found |= contains_subquery(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        let inputs = plan.inputs();
        let [input] = inputs.as_slice() else { return Ok(plan) };
        if !found {
            return Ok(plan);
        }
        let mut input = Rows::of((*input).clone());
        let place = match plan {
            LogicalPlan::Projection(_) => Place::Projection,
            _ => Place::Elsewhere,
        };
        let columns = plan.schema().columns();
        let names = NamePreserver::new(&plan);
        let exprs = plan.expressions().into_iter().map(|expr| {
            let name = names.save(&expr);
            Ok(name.restore(self.replaced(expr, &mut input, place)?))
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let plan = plan.with_new_exprs(exprs, vec![input.plan])?;
        if plan.schema().fields().len() == columns.len() {
            return Ok(plan);
        }
        LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()
    }

    /// A join whose condition has subqueries: they are evaluated on the side whose columns they name, or above an inner join.
    fn join(&self, join: Join) -> Result<LogicalPlan> {
        let Some(filter) = join.filter.clone() else { return Ok(LogicalPlan::Join(join)) };
        if !contains_subquery(&filter)? {
            return Ok(LogicalPlan::Join(join));
        }
        let (with, without): (Vec<_>, Vec<_>) =
            split_conjunction_owned(filter).into_iter().partition(|expr| contains_subquery(expr).unwrap_or(true));
        if join.join_type == JoinType::Inner {
            let joined = LogicalPlan::Join(Join { filter: conjunction(without), ..join });
            let condition = conjunction(with).expect("there are some");
            return self.filter(Filter::try_new(condition, Arc::new(joined))?);
        }
        let is_about_both = |condition: &Expr| {
            Ok(!forms::is_about(condition, &join.left)? && !forms::is_about(condition, &join.right)?)
        };
        if with.iter().map(is_about_both).collect::<Result<Vec<_>>>()?.contains(&true) {
            return self.by_pairs(join, with, without);
        }
        let columns = join.schema.columns();
        let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
        let (mut left, mut right) = (Rows::of(left), Rows::of(right));
        let mut conditions = without;
        for condition in with {
            let side = match (forms::is_about(&condition, &left.plan)?, forms::is_about(&condition, &right.plan)?) {
                (true, _) => &mut left,
                _ => &mut right,
            };
            conditions.push(self.replaced(condition, side, Place::Elsewhere)?);
        }
        let joined = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            join.on,
            conjunction(conditions),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let plan = LogicalPlanBuilder::from(LogicalPlan::Join(joined));
        plan.project(columns.into_iter().map(Expr::Column))?.build()
    }

    /// `expr` with its subqueries replaced by columns that are added to `input`.
    fn replaced(&self, expr: Expr, input: &mut Rows, place: Place) -> Result<Expr> {
        let replaced = expr.transform_down(|expr| {
            if subquery_of(&expr).is_none() || forms::is_datafusions(&expr, &input.plan, place)? {
                return Ok(Transformed::no(expr));
            }
            // The compared value may have subqueries itself.
            let expr = match expr {
                Expr::InSubquery(list) => Expr::InSubquery(InSubquery {
                    expr: Box::new(self.replaced(*list.expr, input, Place::Elsewhere)?),
                    ..list
                }),
                Expr::SetComparison(set) => {
                    let compared = self.replaced(*set.expr, input, Place::Elsewhere)?;
                    Expr::SetComparison(SetComparison { expr: Box::new(compared), ..set })
                }
                expr => expr,
            };
            let value = self.value(expr, input)?;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })?;
        Ok(replaced.data)
    }
}

/// Whether `plan` is a LATERAL query, under its alias or without one.
pub(super) fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        _ => false,
    }
}
