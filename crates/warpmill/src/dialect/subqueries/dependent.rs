//! A subquery's rows for every value of the outer columns that it names.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result, not_impl_err};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprFunctionExt, ExprSchemable, FetchType, Join, JoinType, Limit,
    LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Union, Window, is_null, lit, when,
};

use super::Rewriter;
use super::forms::outer_columns;
use crate::planning::limits::check_copied;
use crate::recursion::Recursion;

/// The outer columns that a subquery names, and the plan that they come from.
pub(super) struct Domain<'o> {
    pub(super) outer: &'o LogicalPlan,
    pub(super) columns: Vec<Column>,
}

/// A plan with one or more rows for each value of a domain, and the columns of the value.
pub(super) struct Dependent {
    pub(super) plan: LogicalPlan,
    pub(super) keys: Vec<Column>,
}

impl Rewriter {
    /// The distinct values of `domain`.
    fn values(&self, domain: &Domain<'_>) -> Result<Dependent> {
        let name = self.name("outer");
        let names: Vec<_> = (0..domain.columns.len()).map(|at| format!("{name}_{at}")).collect();
        let columns = domain.columns.iter().zip(&names);
        let columns = columns.map(|(column, name)| Expr::Column(column.clone()).alias(name));
        self.count_copy(domain.outer)?;
        let plan = LogicalPlanBuilder::from(domain.outer.clone()).project(columns)?.distinct()?.build()?;
        Ok(Dependent { plan, keys: names.into_iter().map(Column::new_unqualified).collect() })
    }

    /// Counts the operators of a plan that is copied: a chain of LATERAL queries doubles them with each.
    fn count_copy(&self, plan: &LogicalPlan) -> Result<()> {
        let mut count = self.copied.get();
        plan.apply(|_| {
            count += 1;
            Ok(if check_copied(count).is_ok() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        self.copied.set(count);
        Ok(check_copied(count)?)
    }

    /// The rows of `plan` for each value of `domain`. Columns keep their names.
    pub(super) fn dependent(&self, plan: LogicalPlan, domain: &Domain<'_>) -> Result<Dependent> {
        if !self.depends(&plan, domain)? {
            if domain.columns.is_empty() {
                return Ok(Dependent { plan, keys: vec![] });
            }
            let Dependent { plan: values, keys } = self.values(domain)?;
            let plan = LogicalPlanBuilder::from(values).cross_join(plan)?.build()?;
            return Ok(Dependent { plan, keys });
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(filter.input), domain)?;
                let condition = bound(filter.predicate, domain, &keys)?;
                Ok(Dependent { plan: LogicalPlanBuilder::from(plan).filter(condition)?.build()?, keys })
            }
            LogicalPlan::Projection(projection) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(projection.input), domain)?;
                let mut exprs = all_bound(projection.expr, domain, &keys)?;
                exprs.extend(keys.iter().cloned().map(Expr::Column));
                Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(exprs)?.build()?, keys })
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(alias.input), domain)?;
                let plan = LogicalPlanBuilder::from(plan).alias(alias.alias.clone())?.build()?;
                let keys = keys.into_iter().map(|key| Column::new(Some(alias.alias.clone()), key.name)).collect();
                Ok(Dependent { plan, keys })
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
                Ok(Dependent { plan: LogicalPlanBuilder::from(plan).distinct()?.build()?, keys })
            }
            LogicalPlan::Sort(sort) => {
                let fetch = sort.fetch;
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(sort.input), domain)?;
                let order = bound_sort(sort.expr, domain, &keys)?;
                match fetch {
                    None => Ok(Dependent { plan: LogicalPlanBuilder::from(plan).sort(order)?.build()?, keys }),
                    Some(fetch) => self.first_rows(Dependent { plan, keys }, order, 0, Some(fetch)),
                }
            }
            LogicalPlan::Limit(limit) => self.dependent_limit(limit, domain),
            LogicalPlan::Aggregate(aggregate) => self.dependent_aggregate(aggregate, domain),
            LogicalPlan::Window(window) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(window.input), domain)?;
                let parts = all_bound(window.window_expr, domain, &keys)?.into_iter().map(|expr| {
                    let name = NamePreserver::new_for_projection().save(&expr);
                    let expr = expr.transform_up(|expr| match expr {
                        Expr::WindowFunction(mut function) => {
                            function.params.partition_by.extend(keys.iter().cloned().map(Expr::Column));
                            Ok(Transformed::yes(Expr::WindowFunction(function)))
                        }
                        expr => Ok(Transformed::no(expr)),
                    });
                    Ok(name.restore(expr?.data))
                });
                let parts = parts.collect::<Result<Vec<_>>>()?;
                let plan = LogicalPlan::Window(Window::try_new(parts, Arc::new(plan))?);
                Ok(Dependent { plan, keys })
            }
            // LATERAL, or a function in FROM with outer columns.
            LogicalPlan::Subquery(subquery) => self.dependent(Arc::unwrap_or_clone(subquery.subquery), domain),
            LogicalPlan::Unnest(unnest) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(unnest.input), domain)?;
                let plan = LogicalPlanBuilder::from(plan);
                let plan = plan.unnest_columns_with_options(unnest.exec_columns, unnest.options)?.build()?;
                Ok(Dependent { plan, keys })
            }
            LogicalPlan::Join(join) => self.dependent_join(join, domain),
            LogicalPlan::Union(union) => self.dependent_union(union, domain),
            other => {
                if let LogicalPlan::TableScan(scan) = &other
                    && let Some(scan) = self.dependent_scan(scan)?
                {
                    return Ok(scan);
                }
                match Recursion::of(&other) {
                    Some(recursion) => self.dependent_recursion(recursion, domain),
                    None => not_impl_err!("a subquery that names outer columns in {}", other.display()),
                }
            }
        }
    }

    /// Whether `plan` names a column of `domain`, or reads a recursion over its values.
    fn depends(&self, plan: &LogicalPlan, domain: &Domain<'_>) -> Result<bool> {
        Ok(names_any(plan, domain)? || self.reads_values(plan)?)
    }

    /// LIMIT and OFFSET per value of the domain.
    fn dependent_limit(&self, limit: Limit, domain: &Domain<'_>) -> Result<Dependent> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_impl_err!("LIMIT and OFFSET that are no numbers, in a subquery that names outer columns");
        };
        let Limit { skip: skipped, fetch: fetched, input } = limit;
        match Arc::unwrap_or_clone(input) {
            // A projection does not change which rows are first; it may drop the columns that order them.
            LogicalPlan::Projection(projection) => {
                let rows = Limit { skip: skipped, fetch: fetched, input: projection.input };
                let Dependent { plan, keys } = self.dependent(LogicalPlan::Limit(rows), domain)?;
                let mut exprs = all_bound(projection.expr, domain, &keys)?;
                exprs.extend(keys.iter().cloned().map(Expr::Column));
                Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(exprs)?.build()?, keys })
            }
            LogicalPlan::Sort(sort) => {
                let rows = self.dependent(Arc::unwrap_or_clone(sort.input), domain)?;
                let order = bound_sort(sort.expr, domain, &rows.keys)?;
                let fetch = [fetch, sort.fetch].into_iter().flatten().min();
                self.first_rows(rows, order, skip, fetch)
            }
            input => {
                let rows = self.dependent(input, domain)?;
                self.first_rows(rows, vec![], skip, fetch)
            }
        }
    }

    /// Selects rows of each value by their row numbers in an order.
    fn first_rows(
        &self,
        rows: Dependent,
        order: Vec<SortExpr>,
        skip: usize,
        fetch: Option<usize>,
    ) -> Result<Dependent> {
        let Dependent { plan, keys } = rows;
        let columns = plan.schema().columns();
        let name = self.name("row");
        let number =
            row_number().partition_by(keys.iter().cloned().map(Expr::Column).collect()).order_by(order).build()?;
        let numbered = LogicalPlan::Window(Window::try_new(vec![number.alias(&name)], Arc::new(plan))?);
        let number = || Expr::Column(Column::new_unqualified(name.clone()));
        let mut condition = number().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            condition = condition.and(number().lt_eq(lit((skip + fetch) as u64)));
        }
        let plan = LogicalPlanBuilder::from(numbered).filter(condition)?;
        Ok(Dependent { plan: plan.project(columns.into_iter().map(Expr::Column))?.build()?, keys })
    }

    /// An aggregation of each value's rows; one of all rows has a row for values without rows too.
    fn dependent_aggregate(&self, aggregate: Aggregate, domain: &Domain<'_>) -> Result<Dependent> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return not_impl_err!("GROUPING SETS in a subquery that names outer columns");
        }
        let whole = aggregate.group_expr.is_empty();
        let names: Vec<_> = aggregate.schema.columns();
        let defaults = aggregate.aggr_expr.iter().map(|expr| {
            let inner = expr.clone().unalias();
            match &inner {
                Expr::AggregateFunction(function) => {
                    function.func.default_value(&inner.get_type(aggregate.input.schema())?)
                }
                _ => not_impl_err!("{inner} in a subquery that names outer columns"),
            }
        });
        let defaults = defaults.collect::<Result<Vec<_>>>()?;
        let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(aggregate.input), domain)?;
        let mut groups: Vec<_> = keys.iter().cloned().map(Expr::Column).collect();
        groups.extend(all_bound(aggregate.group_expr, domain, &keys)?);
        let aggregates = all_bound(aggregate.aggr_expr, domain, &keys)?;
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, aggregates)?);
        if !whole || keys.is_empty() {
            return Ok(Dependent { plan: grouped, keys });
        }
        let found = self.name("found");
        let mut columns: Vec<_> = grouped.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(&found));
        let grouped = LogicalPlanBuilder::from(grouped).project(columns)?.build()?;
        let values = self.values(domain)?;
        let joined = same_keys(values.plan, JoinType::Left, grouped, &values.keys, &keys, None)?;
        let missing = || is_null(Expr::Column(Column::new_unqualified(found.clone())));
        let exprs = names.into_iter().zip(defaults).map(|(name, default)| {
            let value = Expr::Column(name.clone());
            match default.is_null() {
                true => Ok(value),
                false => Ok(when(missing(), lit(default)).otherwise(value)?.alias_qualified(name.relation, name.name)),
            }
        });
        let mut exprs = exprs.collect::<Result<Vec<_>>>()?;
        exprs.extend(values.keys.iter().cloned().map(Expr::Column));
        let plan = LogicalPlanBuilder::from(joined).project(exprs)?.build()?;
        Ok(Dependent { plan, keys: values.keys })
    }

    fn dependent_join(&self, join: Join, domain: &Domain<'_>) -> Result<Dependent> {
        use JoinType::*;
        let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
        let (in_left, in_right) = (self.depends(&left, domain)?, self.depends(&right, domain)?);
        let on_domain = join.filter.iter().any(Expr::contains_outer)
            || join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer());
        // The side whose rows are all preserved or returned carries the values.
        let (left_has, right_has) = match join.join_type {
            Inner => (in_left || !in_right, in_right),
            Left | LeftSemi | LeftAnti | LeftMark => (true, in_right),
            Right | RightSemi | RightAnti | RightMark => (in_left, true),
            Full => return not_impl_err!("FULL JOIN in a subquery that names outer columns"),
        };
        let side = |plan: LogicalPlan, has: bool| match has {
            true => self.dependent(plan, domain),
            false => Ok(Dependent { plan, keys: vec![] }),
        };
        let (left, right) = (side(left, left_has)?, side(right, right_has)?);
        let keys = match join.join_type {
            Inner if !left_has => right.keys.clone(),
            Right | RightSemi | RightAnti | RightMark => right.keys.clone(),
            _ => left.keys.clone(),
        };
        let mut filter = join.filter.map(|filter| bound(filter, domain, &keys)).transpose()?;
        if left_has && right_has {
            for (one, other) in left.keys.iter().zip(&right.keys) {
                let equal = Expr::BinaryExpr(BinaryExpr::new(
                    Box::new(Expr::Column(one.clone())),
                    Operator::IsNotDistinctFrom,
                    Box::new(Expr::Column(other.clone())),
                ));
                filter = Some(match filter {
                    Some(filter) => filter.and(equal),
                    None => equal,
                });
            }
        }
        if on_domain && join.null_aware {
            return not_impl_err!("NOT IN that names outer columns in its conditions, in a subquery");
        }
        let on = join.on.into_iter().map(|(one, other)| Ok((bound(one, domain, &keys)?, bound(other, domain, &keys)?)));
        let joined = Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            on.collect::<Result<Vec<_>>>()?,
            filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Dependent { plan: LogicalPlan::Join(joined), keys })
    }

    fn dependent_union(&self, union: Union, domain: &Domain<'_>) -> Result<Dependent> {
        let name = self.name("outer");
        let names: Vec<_> = (0..domain.columns.len()).map(|at| format!("{name}_{at}")).collect();
        let inputs = union.inputs.into_iter().map(|input| {
            let columns = input.schema().columns();
            let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
            let mut exprs: Vec<_> = columns.into_iter().map(Expr::Column).collect();
            exprs.extend(keys.into_iter().zip(&names).map(|(key, name)| Expr::Column(key).alias(name)));
            Ok(Arc::new(LogicalPlanBuilder::from(plan).project(exprs)?.build()?))
        });
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs.collect::<Result<Vec<_>>>()?)?);
        Ok(Dependent { plan, keys: names.into_iter().map(Column::new_unqualified).collect() })
    }
}

/// Whether `plan` names a column of `domain`.
fn names_any(plan: &LogicalPlan, domain: &Domain<'_>) -> Result<bool> {
    Ok(outer_columns(plan)?.iter().any(|column| domain.columns.contains(column)))
}

/// `expr` with the domain's columns replaced by `keys`.
fn bound(expr: Expr, domain: &Domain<'_>, keys: &[Column]) -> Result<Expr> {
    let key = |column: &Column| {
        let at = domain.columns.iter().position(|other| other == column)?;
        keys.get(at).cloned()
    };
    let bound = expr.transform(|expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => Ok(match key(column) {
            Some(key) => Transformed::yes(Expr::Column(key)),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    })?;
    Ok(bound.data)
}

/// [`bound`] for expressions, which keep their column names.
fn all_bound(exprs: Vec<Expr>, domain: &Domain<'_>, keys: &[Column]) -> Result<Vec<Expr>> {
    let names = NamePreserver::new_for_projection();
    let bound = exprs.into_iter().map(|expr| {
        let name = names.save(&expr);
        Ok(name.restore(bound(expr, domain, keys)?))
    });
    bound.collect()
}

fn bound_sort(order: Vec<SortExpr>, domain: &Domain<'_>, keys: &[Column]) -> Result<Vec<SortExpr>> {
    order.into_iter().map(|key| Ok(SortExpr { expr: bound(key.expr, domain, keys)?, ..key })).collect()
}

/// Joins rows with equal keys; NULLs are equal.
pub(super) fn same_keys(
    left: LogicalPlan,
    join_type: JoinType,
    right: LogicalPlan,
    left_keys: &[Column],
    right_keys: &[Column],
    filter: Option<Expr>,
) -> Result<LogicalPlan> {
    let builder = LogicalPlanBuilder::from(left);
    match (left_keys, &filter) {
        ([], None) => builder.join_on(right, join_type, [lit(true)])?.build(),
        ([], Some(_)) => builder.join_on(right, join_type, filter)?.build(),
        _ => {
            let keys = (left_keys.to_vec(), right_keys.to_vec());
            builder.join_detailed(right, join_type, keys, filter, NullEquality::NullEqualsNull)?.build()
        }
    }
}
