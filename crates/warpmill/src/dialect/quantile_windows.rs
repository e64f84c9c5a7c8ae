//! Medians and quantiles of groups without lists: a window ranks the rows of each group, and the aggregation keeps the one or two values at the ranks
//! of the quantile. Programs support windows and aggregations, but no lists of all values.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, Result, ScalarValue};
use datafusion::functions::math::expr_fn::{ceil, floor};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction, Cast, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, WindowFunctionDefinition, cast, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use super::outer;
use super::windows::window_in;

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct QuantileWindows;

impl AnalyzerRule for QuantileWindows {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_lists(&plan)? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Projection(projection) => rewritten(projection),
            node => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "quantile_windows"
    }
}

/// Whether a plan aggregates a list of values per group.
fn has_lists(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node {
            found |= aggregate.aggr_expr.iter().any(|call| value_of(call).is_some());
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// A quantile that is read from a list of values.
struct Quantile {
    /// The output of the aggregation that is the list.
    list: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Median,
    /// Between two elements.
    Between(f64),
    /// One of the elements.
    Element(f64),
}

/// Rewrites a projection over an aggregation, with HAVING between them or not.
fn rewritten(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let (having, aggregate) = match projection.input.as_ref() {
        LogicalPlan::Aggregate(aggregate) => (None, aggregate),
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::Aggregate(aggregate) => (Some(&filter.predicate), aggregate),
            _ => return Ok(Transformed::no(LogicalPlan::Projection(projection))),
        },
        _ => return Ok(Transformed::no(LogicalPlan::Projection(projection))),
    };
    let Some(ranked) = Ranked::of(aggregate, projection.expr.iter().chain(having))? else {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    };
    let predicate = having.map(|having| ranked.replaced(having.clone(), aggregate)).transpose()?;
    let mut plan = ranked.plan.clone();
    if let Some(predicate) = predicate {
        plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?);
    }
    let names = NamePreserver::new(&LogicalPlan::Projection(projection.clone()));
    let selected = projection.expr.iter().map(|e| {
        let name = names.save(e);
        Ok(name.restore(ranked.replaced(e.clone(), aggregate)?))
    });
    let selected = selected.collect::<Result<Vec<_>>>()?;
    let plan = Projection::try_new_with_schema(selected, Arc::new(plan), projection.schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}

/// An aggregation whose lists are replaced by ranked elements.
struct Ranked {
    plan: LogicalPlan,
    /// For each replaced output of the aggregation, the columns of its values.
    lists: Vec<(usize, Values)>,
}

/// The columns that the quantiles of some values are made of.
struct Values {
    value: Expr,
    /// The row's rank in its group, from 1, and the group's number of values: columns of the input.
    rank: Expr,
    group: Expr,
    /// The number of values: a column of the aggregation, as are those in `elements`.
    count: Column,
    /// For each quantile, its first and its second element.
    elements: Vec<(Kind, Column, Column)>,
}

impl Ranked {
    /// The rewritten aggregation for the expressions `selected`; `None` where no list is used for quantiles only.
    fn of<'e>(aggregate: &Aggregate, selected: impl Iterator<Item = &'e Expr>) -> Result<Option<Self>> {
        let mut quantiles: Vec<Quantile> = vec![];
        let mut others: Vec<usize> = vec![];
        for e in selected {
            e.apply(|part| {
                if let Some(quantile) = quantile_of(part, aggregate) {
                    quantiles.push(quantile);
                    return Ok(TreeNodeRecursion::Jump);
                }
                if let Expr::Column(column) = part {
                    others.extend(aggregate.schema.maybe_index_of_column(column));
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        quantiles.retain(|quantile| !others.contains(&quantile.list));
        let is_plain = |e: &Expr| !matches!(e, Expr::GroupingSet(_)) && !e.is_volatile();
        // Rows of outer columns become groups later, when the rows have their ranks.
        if quantiles.is_empty()
            || !aggregate.group_expr.iter().all(is_plain)
            || outer::is_named(aggregate.input.as_ref())?
        {
            return Ok(None);
        }
        let mut parts = Parts::of(aggregate);
        let mut lists: Vec<(usize, Values)> = vec![];
        for Quantile { list, kind } in quantiles {
            let at = match lists.iter().position(|(known, _)| *known == list) {
                Some(at) => at,
                None => {
                    lists.push((list, parts.values(list)?));
                    lists.len() - 1
                }
            };
            let values = &mut lists[at].1;
            if values.elements.iter().all(|(known, ..)| *known != kind) {
                let element = parts.elements(values, kind)?;
                values.elements.push(element);
            }
        }
        let plan = parts.aggregation(&lists)?;
        Ok(Some(Self { plan, lists }))
    }

    /// An expression with its quantiles computed from the ranked elements.
    fn replaced(&self, e: Expr, aggregate: &Aggregate) -> Result<Expr> {
        e.transform_down(|part| {
            let Some(Quantile { list, kind }) = quantile_of(&part, aggregate) else { return Ok(Transformed::no(part)) };
            let Some((_, values)) = self.lists.iter().find(|(known, _)| *known == list) else {
                return Ok(Transformed::no(part));
            };
            let found = values.elements.iter().find(|(of, ..)| *of == kind);
            let (_, low, high) = found.expect("all quantiles of a list are known");
            let value = kind.value(low, high, &values.count)?;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })
        .data()
    }
}

/// The parts of the new aggregation.
struct Parts<'a> {
    aggregate: &'a Aggregate,
    /// Its input, with the ranks.
    rows: LogicalPlanBuilder,
    /// The aggregates that quantiles are made of.
    calls: Vec<Expr>,
}

impl<'a> Parts<'a> {
    fn of(aggregate: &'a Aggregate) -> Self {
        Self { aggregate, rows: LogicalPlanBuilder::from(aggregate.input.as_ref().clone()), calls: vec![] }
    }

    /// Adds ranks for the values of a list.
    fn values(&mut self, list: usize) -> Result<Values> {
        let groups = &self.aggregate.group_expr;
        let value = value_of(&self.aggregate.aggr_expr[list - groups.len()]).expect("a list of values");
        let row = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let row = window_in(row, vec![], groups.clone(), vec![value.clone().sort(true, false)])?;
        let group = WindowFunctionDefinition::AggregateUDF(count_udaf());
        let group = window_in(group, vec![value.clone()], groups.clone(), vec![])?;
        let marked = [format!("\u{1}rank {list}"), format!("\u{1}group {list}")];
        let made = [&row, &group].into_iter().zip(&marked).map(|(e, name)| {
            cast(Expr::Column(Column::from_name(e.schema_name().to_string())), DataType::Int64).alias(name)
        });
        let columns = self.rows.schema().columns().into_iter().map(Expr::Column).chain(made).collect::<Vec<_>>();
        self.rows = self.rows.clone().window([row, group])?.project(columns)?;
        let [rank, group] = marked.map(|name| Expr::Column(Column::from_name(name)));
        let count = self.call(max(group.clone()));
        Ok(Values { value, rank, group, count, elements: vec![] })
    }

    /// Adds the elements of a quantile of some values.
    fn elements(&mut self, values: &Values, kind: Kind) -> Result<(Kind, Column, Column)> {
        let mut element = |rank: Expr| -> Result<Column> {
            Ok(self.call(max(when(values.rank.clone().eq(rank), values.value.clone()).end()?)))
        };
        let (low, high) = kind.ranks(&values.group);
        let low = element(low)?;
        let high = high.map(element).transpose()?.unwrap_or_else(|| low.clone());
        Ok((kind, low, high))
    }

    /// Adds an aggregate, and returns its column.
    fn call(&mut self, call: Expr) -> Column {
        let name = format!("\u{1}quantile {}", self.calls.len());
        self.calls.push(call.alias(&name));
        Column::from_name(name)
    }

    /// The aggregation without some lists.
    fn aggregation(self, lists: &[(usize, Values)]) -> Result<LogicalPlan> {
        let Aggregate { group_expr, aggr_expr, .. } = self.aggregate;
        let is_kept = |at: usize| lists.iter().all(|(list, _)| *list != at + group_expr.len());
        let kept = aggr_expr.iter().enumerate().filter(|(at, _)| is_kept(*at)).map(|(_, e)| e.clone());
        let calls = kept.chain(self.calls).collect();
        Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(self.rows.build()?), group_expr.clone(), calls)?))
    }
}

/// The quantile that an expression over an aggregation is, if it can be one of ranks.
fn quantile_of(e: &Expr, aggregate: &Aggregate) -> Option<Quantile> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = e else { return None };
    let (list, rest) = args.split_first()?;
    let fraction = || match rest {
        [at] => constant(at).filter(|at| (-1.0..=1.0).contains(at)),
        _ => None,
    };
    let kind = match func.name() {
        "list_median" if rest.is_empty() => Kind::Median,
        "list_quantile_cont" => Kind::Between(fraction()?),
        "list_quantile_disc" => Kind::Element(fraction()?),
        _ => return None,
    };
    let is_float = |ty: &DataType| matches!(ty, DataType::List(element) if *element.data_type() == DataType::Float64);
    let (column, is_known) = match (list, kind) {
        (Expr::Column(column), Kind::Element(_)) => (column, true),
        (Expr::Column(column), _) => (column, aggregate.schema.data_type(column).is_ok_and(is_float)),
        (Expr::Cast(Cast { expr, field }), Kind::Median | Kind::Between(_)) => match expr.as_ref() {
            Expr::Column(column) => (column, is_float(field.data_type())),
            _ => return None,
        },
        _ => return None,
    };
    let list = aggregate.schema.maybe_index_of_column(column)?;
    let call = aggregate.aggr_expr.get(list.checked_sub(aggregate.group_expr.len())?)?;
    (is_known && value_of(call).is_some()).then_some(Quantile { list, kind })
}

/// A constant as a float.
fn constant(e: &Expr) -> Option<f64> {
    match e {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(value)) => value,
            _ => None,
        },
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => constant(expr),
        _ => None,
    }
}

/// The expression that a list collects, NULL in filtered rows; `None` for other aggregates and for ordered or distinct lists.
fn value_of(call: &Expr) -> Option<Expr> {
    let call = match call {
        Expr::Alias(alias) => alias.expr.as_ref(),
        call => call,
    };
    let Expr::AggregateFunction(AggregateFunction { func, params }) = call else { return None };
    let [value] = params.args.as_slice() else { return None };
    let is_list = func.name() == "array_agg" && !params.distinct && params.order_by.is_empty();
    if !is_list || params.null_treatment.is_some() || call.is_volatile() {
        return None;
    }
    match &params.filter {
        Some(filter) => when(filter.as_ref().clone(), value.clone()).end().ok(),
        None => Some(value.clone()),
    }
}

impl Kind {
    /// The ranks, from 1, of the quantile's elements among `count` values, computed as for lists.
    fn ranks(self, count: &Expr) -> (Expr, Option<Expr>) {
        let whole = |e: Expr| cast(e, DataType::Int64);
        let from_end = |rank: Expr, at: f64| if at < 0.0 { count.clone() + lit(1_i64) - rank } else { rank };
        match self {
            Self::Median => {
                let half = |count: Expr| count / lit(2_i64) + lit(1_i64);
                (half(count.clone() - lit(1_i64)), Some(half(count.clone())))
            }
            Self::Between(at) => {
                let place = || cast(count.clone() - lit(1_i64), DataType::Float64) * lit(at.abs());
                let rank = |place: Expr| from_end(whole(place) + lit(1_i64), at);
                (rank(floor(place())), Some(rank(ceil(place()))))
            }
            Self::Element(at) => {
                let all = || cast(count.clone(), DataType::Float64);
                let rank = whole(all() - floor(all() - lit(at.abs()) * all()));
                let rank = when(rank.clone().lt(lit(1_i64)), lit(1_i64)).otherwise(rank).expect("a branch");
                (from_end(rank, at), None)
            }
        }
    }

    /// The quantile of its two elements among `count` values.
    fn value(self, low: &Column, high: &Column, count: &Column) -> Result<Expr> {
        let count = Expr::Column(count.clone());
        let element = |column: &Column| cast(Expr::Column(column.clone()), DataType::Float64);
        let by = match self {
            Self::Element(_) => return Ok(Expr::Column(low.clone())),
            Self::Median => {
                let odd = (count % lit(2_i64)).eq(lit(1_i64));
                let middle = element(low) * lit(0.5) + element(high) * lit(0.5);
                return when(odd, element(low)).otherwise(middle);
            }
            Self::Between(at) => {
                let place = cast(count - lit(1_i64), DataType::Float64) * lit(at.abs());
                place.clone() - floor(place)
            }
        };
        let mixed = element(low) * (lit(1.0) - by.clone()) + element(high) * by.clone();
        when(by.eq(lit(0.0)), element(low)).otherwise(mixed)
    }
}
