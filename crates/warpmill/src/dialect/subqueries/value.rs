//! The value of a subquery in its expression: a column, or an expression of columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, Spans, not_impl_err};
use datafusion::functions_aggregate::expr_fn::{count, first_value, max, min};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, Volatility, binary_expr,
    is_null, lit, not, when,
};

use super::checked::only_row;
use super::dependent::{Dependent, Domain, same_keys};
use super::forms::outer_columns;
use super::{Rewriter, Rows};

impl Rewriter {
    /// The value of subquery `expr` for the rows of `input`, to which its columns are added.
    pub(super) fn value(&self, expr: Expr, input: &mut Rows) -> Result<Expr> {
        match expr {
            Expr::ScalarSubquery(subquery) => self.scalar(Arc::unwrap_or_clone(subquery.subquery), input),
            Expr::Exists(Exists { subquery, negated }) => {
                let found = self.exists(Arc::unwrap_or_clone(subquery.subquery), input)?;
                Ok(if negated { not(found) } else { found })
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let found = self.is_any(*expr, Operator::Eq, Arc::unwrap_or_clone(subquery.subquery), input)?;
                Ok(if negated { not(found) } else { found })
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let plan = Arc::unwrap_or_clone(subquery.subquery);
                match quantifier {
                    SetQuantifier::Any => self.is_any(*expr, op, plan, input),
                    SetQuantifier::All => match op.negate() {
                        Some(opposite) => Ok(not(self.is_any(*expr, opposite, plan, input)?)),
                        None => not_impl_err!("{op} ALL"),
                    },
                }
            }
            expr => Ok(expr),
        }
    }

    fn domain<'o>(&self, subquery: &LogicalPlan, outer: &'o LogicalPlan) -> Result<Domain<'o>> {
        let columns = outer_columns(subquery)?.into_iter().filter(|column| outer.schema().has_column(column));
        let columns: Vec<_> = columns.collect();
        if !columns.is_empty() && is_volatile(outer)? {
            return not_impl_err!(
                "a subquery that names columns of rows that change with every look (random(), uuid())"
            );
        }
        Ok(Domain { outer, columns })
    }

    fn scalar(&self, plan: LogicalPlan, input: &mut Rows) -> Result<Expr> {
        let domain = self.domain(&plan, &input.given)?;
        if domain.columns.is_empty() && outer_columns(&plan)?.is_empty() {
            // DataFusion runs the subquery but takes its value for never NULL; the result of this function is nullable.
            let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns: vec![], spans: Spans::new() };
            return Ok(only_row().call(vec![Expr::ScalarSubquery(subquery), lit(1i64)]));
        }
        let single = has_one_row(&plan);
        let value = Column::from(plan.schema().qualified_field(0));
        let Dependent { plan, keys } = self.dependent(plan, &domain)?;
        let (name, rows) = (self.name("value"), self.name("rows"));
        let keys_of = |keys: &[Column]| keys.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let builder = LogicalPlanBuilder::from(plan);
        let found = match single {
            true => {
                let mut columns = keys_of(&keys);
                columns.push(Expr::Column(value).alias(&name));
                builder.project(columns)?
            }
            false => builder.aggregate(
                keys_of(&keys),
                [first_value(Expr::Column(value), vec![]).alias(&name), count(lit(1i64)).alias(&rows)],
            )?,
        };
        let joined = same_keys(input.plan.clone(), JoinType::Left, found.build()?, &domain.columns, &keys, None)?;
        input.plan = joined;
        let value = unqualified(name);
        Ok(match single {
            true => value,
            false => only_row().call(vec![value, unqualified(rows)]),
        })
    }

    fn exists(&self, plan: LogicalPlan, input: &mut Rows) -> Result<Expr> {
        let domain = self.domain(&plan, &input.given)?;
        let Dependent { plan, keys } = self.dependent(plan, &domain)?;
        let name = self.name("exists");
        let mark = lit(true).alias(&name);
        let builder = LogicalPlanBuilder::from(plan);
        let found = match keys.is_empty() {
            true => builder.limit(0, Some(1))?.project([mark])?,
            false => builder.project(keys.iter().cloned().map(Expr::Column).chain([mark]))?.distinct()?,
        };
        let joined = same_keys(input.plan.clone(), JoinType::Left, found.build()?, &domain.columns, &keys, None)?;
        input.plan = joined;
        Ok(unqualified(name).is_not_null())
    }

    /// Whether `compared op value` is true for any row: otherwise NULL if it is NULL for some row.
    fn is_any(&self, compared: Expr, op: Operator, plan: LogicalPlan, input: &mut Rows) -> Result<Expr> {
        // The compared value is a column of the input: the rows are joined by it.
        let left = self.name("compared");
        let mut columns: Vec<_> = input.plan.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(compared.alias(&left));
        let outer = LogicalPlanBuilder::from(input.plan.clone()).project(columns)?.build()?;
        let domain = self.domain(&plan, &input.given)?;
        let value = Column::from(plan.schema().qualified_field(0));
        let Dependent { plan: rows, keys } = self.dependent(plan, &domain)?;
        let rows = {
            let name = self.name("value");
            let mut columns: Vec<_> = keys.iter().cloned().map(Expr::Column).collect();
            columns.push(Expr::Column(value).alias(&name));
            (LogicalPlanBuilder::from(rows).project(columns)?.build()?, name)
        };
        let (rows, value) = rows;
        let left = || unqualified(left.clone());
        let right = || unqualified(value.clone());
        let groups: Vec<_> = keys.iter().cloned().map(Expr::Column).collect();
        let never_null = !left().nullable(outer.schema())? && !right().nullable(rows.schema())?;

        let mut joined = outer.clone();
        let found = match op {
            Operator::Eq => {
                let name = self.name("found");
                let matches = LogicalPlanBuilder::from(rows.clone())
                    .filter(right().is_not_null())?
                    .distinct()?
                    .project(groups.iter().cloned().chain([right(), lit(true).alias(&name)]))?
                    .build()?;
                let with_value = |keys: &[Column], column: Expr| {
                    let column = column.try_as_col().cloned();
                    keys.iter().cloned().chain(column).collect::<Vec<_>>()
                };
                let (left_keys, right_keys) = (with_value(&domain.columns, left()), with_value(&keys, right()));
                joined = same_keys(joined, JoinType::Left, matches, &left_keys, &right_keys, None)?;
                unqualified(name).is_not_null()
            }
            _ => lit(false),
        };
        if op == Operator::Eq && never_null {
            input.plan = joined;
            return Ok(found);
        }
        let names = ["least", "greatest", "all", "known"].map(|what| self.name(what));
        let counts = LogicalPlanBuilder::from(rows)
            .aggregate(
                groups,
                [
                    min(right()).alias(&names[0]),
                    max(right()).alias(&names[1]),
                    count(lit(1i64)).alias(&names[2]),
                    count(right()).alias(&names[3]),
                ],
            )?
            .build()?;
        // Without new names, keys of the same name would come from both sides of the join.
        let own: Vec<_> = keys.iter().map(|_| self.name("key")).collect();
        let renamed = keys.iter().zip(&own).map(|(key, own)| Expr::Column(key.clone()).alias(own));
        let counts = LogicalPlanBuilder::from(counts)
            .project(renamed.chain(names.iter().map(|name| unqualified(name.clone()))))?
            .build()?;
        let own: Vec<_> = own.into_iter().map(Column::new_unqualified).collect();
        joined = same_keys(joined, JoinType::Left, counts, &domain.columns, &own, None)?;
        let [least, greatest, all, known] = names.map(unqualified);
        let found = match op {
            Operator::Eq => found,
            Operator::Gt | Operator::GtEq => binary_expr(left(), op, least),
            Operator::Lt | Operator::LtEq => binary_expr(left(), op, greatest),
            Operator::NotEq => left().not_eq(least).or(left().not_eq(greatest)),
            op => return not_impl_err!("{op} ANY and {op} ALL"),
        };
        input.plan = joined;
        when(found, lit(true))
            .when(is_null(all.clone()).or(all.clone().eq(lit(0i64))), lit(false))
            .when(is_null(left()).or(known.lt(all)), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
    }

    /// `left JOIN LATERAL query`.
    pub(super) fn lateral_join(&self, join: Join) -> Result<LogicalPlan> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return not_impl_err!("{} JOIN LATERAL", join.join_type);
        }
        let columns = join.schema.columns();
        let left = Arc::unwrap_or_clone(join.left);
        let query = Arc::unwrap_or_clone(join.right).transform_down(|node| {
            Ok(match node {
                LogicalPlan::Subquery(subquery) => {
                    Transformed::new(Arc::unwrap_or_clone(subquery.subquery), true, TreeNodeRecursion::Stop)
                }
                node => Transformed::no(node),
            })
        });
        let query = query.data()?;
        let domain = self.domain(&query, &left)?;
        let Dependent { plan, keys } = self.dependent(query, &domain)?;
        let mut filter = join.filter;
        for (one, other) in join.on {
            let equal = one.eq(other);
            filter = Some(match filter {
                Some(filter) => filter.and(equal),
                None => equal,
            });
        }
        let joined = same_keys(left.clone(), join.join_type, plan, &domain.columns, &keys, filter)?;
        LogicalPlanBuilder::from(joined).project(columns.into_iter().map(Expr::Column))?.build()
    }
}

fn unqualified(name: String) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Whether a subquery has at most one row for each value of its outer columns.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        plan => plan.max_rows().is_some_and(|rows| rows <= 1),
    }
}

/// Whether a plan may have other rows when it is run again.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let mut volatile = false;
        node.apply_expressions(|expr| {
            volatile |= expr.exists(|expr| {
                Ok(matches!(expr, Expr::ScalarFunction(call) if call.func.signature().volatility == Volatility::Volatile))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(volatile)
    })
}
