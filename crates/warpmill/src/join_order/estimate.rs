//! Row and distinct-value estimates of logical plans.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Filter, Join, Limit, LogicalPlan, Operator, TableScan,
};

use super::examples::constant;
use super::members;
use super::selectivity::{ColumnEstimate, conjunction_selectivity, distinct, intervals, position, selectivity, strip};
use super::statistics::{ColumnStats, TableStatistics};

/// Rows of a table that nothing is known about.
const UNKNOWN_ROWS: f64 = 1000.0;
/// An anti join keeps at least this fraction: that every row finds a partner is rarely certain.
const ANTI_FLOOR: f64 = 0.1;

/// The facts about the result of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Estimate {
    /// Rows, at least 1.
    pub rows: f64,
    /// Rows before filters: bounds the distinct combinations of several columns.
    pub base_rows: f64,
    /// One per field of the plan's schema.
    pub columns: Vec<ColumnEstimate>,
}

impl Estimate {
    fn unknown(rows: f64, columns: usize) -> Self {
        let rows = rows.max(1.0);
        Self { rows, base_rows: rows, columns: vec![unknown_column(rows); columns] }
    }

    /// The same result with `rows` rows at most drawn from it: distinct values shrink as Cardenas' formula says.
    fn shrink(mut self, rows: f64) -> Self {
        let (before, after) = (self.rows, rows.clamp(1.0, self.rows));
        for column in &mut self.columns {
            let per_value = before / column.distinct;
            let kept = column.distinct * (1.0 - (1.0 - after / before).powf(per_value));
            column.distinct = kept.clamp(1.0, after);
        }
        self.rows = after;
        self
    }

    fn grow(mut self, rows: f64) -> Self {
        self.rows = rows.max(1.0);
        self.base_rows = self.base_rows.max(self.rows);
        self
    }
}

fn unknown_column(rows: f64) -> ColumnEstimate {
    ColumnEstimate { distinct: rows.powf(0.7).max(1.0), range: None, nulls: 0.0, texts: None }
}

/// Estimates `plan`.
pub(super) fn estimate(plan: &LogicalPlan, tables: &dyn TableStatistics) -> Estimate {
    let width = plan.schema().fields().len();
    match plan {
        LogicalPlan::TableScan(scan) => scan_estimate(scan, tables),
        LogicalPlan::Filter(filter) => {
            let input = estimate(&filter.input, tables);
            filtered(input, filter.input.schema(), &conjuncts(&filter.predicate, &filter.input))
        }
        LogicalPlan::Projection(projection) => {
            let input = estimate(&projection.input, tables);
            let columns = projection.expr.iter().map(|e| expr_estimate(e, &input, projection.input.schema()));
            Estimate { columns: columns.collect(), ..input }
        }
        LogicalPlan::SubqueryAlias(alias) => estimate(&alias.input, tables),
        LogicalPlan::Subquery(subquery) => estimate(&subquery.subquery, tables),
        LogicalPlan::Repartition(repartition) => estimate(&repartition.input, tables),
        LogicalPlan::Sort(sort) => {
            let input = estimate(&sort.input, tables);
            let rows = sort.fetch.map_or(input.rows, |n| n as f64);
            input.shrink(rows)
        }
        LogicalPlan::Limit(limit) => limited(limit, tables),
        LogicalPlan::Window(window) => {
            let mut input = estimate(&window.input, tables);
            input.columns.resize(width, unknown_column(input.rows));
            input
        }
        LogicalPlan::Aggregate(aggregate) => aggregated(aggregate, tables),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let input = estimate(input, tables);
            let groups = input.columns.iter().map(|c| c.distinct).product();
            input.shrink(groups)
        }
        LogicalPlan::Distinct(Distinct::On(on)) => Estimate::unknown(estimate(&on.input, tables).rows, width),
        LogicalPlan::Join(join) => joined(join, tables),
        LogicalPlan::Union(union) => {
            Estimate::unknown(union.inputs.iter().map(|i| estimate(i, tables).rows).sum(), width)
        }
        LogicalPlan::Values(values) => Estimate::unknown(values.values.len() as f64, width),
        LogicalPlan::EmptyRelation(_) => Estimate::unknown(1.0, width),
        other => {
            let rows = other.inputs().into_iter().map(|i| estimate(i, tables).rows).reduce(f64::max);
            Estimate::unknown(rows.unwrap_or(UNKNOWN_ROWS), width)
        }
    }
}

/// The filters directly above tables, in the order of the plan.
pub(crate) fn filters_of_tables(plan: &LogicalPlan) -> Result<Vec<Filter>> {
    let mut filters = vec![];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node
            && is_table(&filter.input)
        {
            filters.push(filter.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(filters)
}

/// The rows that each filter directly above a table keeps, in the order of the plan.
pub(crate) fn kept_rows(plan: &LogicalPlan, tables: &dyn TableStatistics) -> Result<Vec<f64>> {
    let kept = |filter: Filter| {
        let (predicate, filter) = (filter.predicate.clone(), TableFilter::of(filter, tables));
        filter.rows(&predicate)
    };
    Ok(filters_of_tables(plan)?.into_iter().map(kept).collect())
}

/// A filter directly above a table, with the facts about the table.
#[derive(Debug)]
pub(crate) struct TableFilter {
    pub filter: Filter,
    input: Estimate,
}

impl TableFilter {
    pub fn of(filter: Filter, tables: &dyn TableStatistics) -> Self {
        let input = estimate(&filter.input, tables);
        Self { filter, input }
    }

    /// The rows that the filter keeps with another predicate, at least 1.
    pub fn rows(&self, predicate: &Expr) -> f64 {
        let conjuncts = conjuncts(predicate, &self.filter.input);
        if conjuncts.is_empty() {
            return self.input.rows;
        }
        let rows = self.input.rows * kept_of(&self.input, self.filter.input.schema(), &conjuncts);
        rows.clamp(1.0, self.input.rows)
    }
}

/// The conjuncts of a filter's predicate that its input does not have: a scan with inexact pushdown repeats its filters above itself.
fn conjuncts<'p>(predicate: &'p Expr, input: &LogicalPlan) -> Vec<&'p Expr> {
    let below: &[Expr] = match input {
        LogicalPlan::TableScan(scan) => &scan.filters,
        _ => &[],
    };
    split_conjunction(predicate).into_iter().filter(|e| !below.contains(e)).collect()
}

/// The fraction of the rows of `input` that conjuncts keep; `schema` is the input's.
fn kept_of(input: &Estimate, schema: &DFSchema, conjuncts: &[&Expr]) -> f64 {
    let index = |column: &Column| schema.maybe_index_of_column(column);
    conjunction_selectivity(conjuncts, &|column| input.columns.get(index(column)?).cloned())
}

fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        LogicalPlan::Projection(projection) => is_table(&projection.input),
        _ => false,
    }
}

fn scan_estimate(scan: &TableScan, tables: &dyn TableStatistics) -> Estimate {
    let width = scan.projected_schema.fields().len();
    let Some(stats) = tables.table(&scan.table_name, scan.source.as_ref()) else {
        return filtered_scan(Estimate::unknown(UNKNOWN_ROWS, width), scan, None);
    };
    let rows = stats.rows.max(1.0);
    let column = |i: usize| stats.columns.get(i).map_or_else(|| unknown_column(rows), |c| base_column(c, rows));
    let columns = match &scan.projection {
        Some(projection) => projection.iter().map(|i| column(*i)).collect(),
        None => (0..width).map(column).collect(),
    };
    // Filters inside a scan may name columns that it does not return.
    let all: Vec<ColumnEstimate> = (0..scan.source.schema().fields().len()).map(column).collect();
    filtered_scan(Estimate { rows, base_rows: rows, columns }, scan, Some(&all))
}

fn filtered_scan(input: Estimate, scan: &TableScan, all: Option<&[ColumnEstimate]>) -> Estimate {
    let conjuncts: Vec<&Expr> = scan.filters.iter().flat_map(split_conjunction).collect();
    let schema = scan.source.schema();
    let resolve = |column: &Column| all.and_then(|all| all.get(schema.index_of(&column.name).ok()?).cloned());
    let kept = conjunction_selectivity(&conjuncts, &resolve);
    let mut output = filtered(input.clone(), &scan.projected_schema, &conjuncts);
    if kept < 1.0 {
        output.rows = (input.rows * kept).max(1.0);
        output.columns.iter_mut().for_each(|c| c.distinct = c.distinct.min(output.rows));
    }
    let rows = scan.fetch.map_or(output.rows, |n| n as f64);
    output.shrink(rows)
}

fn base_column(stats: &ColumnStats, rows: f64) -> ColumnEstimate {
    let place = |v: &Option<ScalarValue>| v.as_ref().and_then(position);
    let range = place(&stats.min).zip(place(&stats.max));
    let step = match &stats.min {
        Some(ScalarValue::Date32(_) | ScalarValue::Date64(_)) => Some(86_400.0),
        Some(v) if v.data_type().is_integer() => Some(1.0),
        _ => None,
    };
    // Without a count, discrete values are taken to fill their range.
    let domain = || range.zip(step).map(|((low, high), step)| (high - low) / step + 1.0);
    let nulls = (stats.nulls.unwrap_or(0.0) / rows).clamp(0.0, 1.0);
    let distinct = stats.distinct.or_else(domain).unwrap_or_else(|| unknown_column(rows).distinct);
    ColumnEstimate { distinct: distinct.clamp(1.0, rows), range, nulls, texts: stats.texts.clone() }
}

/// `input` after the conjuncts of a filter; `schema` is the input's.
pub(super) fn filtered(input: Estimate, schema: &DFSchema, conjuncts: &[&Expr]) -> Estimate {
    if conjuncts.is_empty() {
        return input;
    }
    let index = |column: &Column| schema.maybe_index_of_column(column);
    let rows = input.rows * kept_of(&input, schema, conjuncts);
    let before = input.columns.clone();
    let mut output = input.shrink(rows);
    let (ranges, others) = intervals(conjuncts);
    for range in ranges {
        let Some(i) = index(&range.column) else { continue };
        let column = &mut output.columns[i];
        if let Some((min, max)) = before[i].range.filter(|(min, max)| max > min) {
            let (low, high) = (range.low.max(min), range.high.min(max).max(range.low.max(min)));
            column.range = Some((low, high));
            column.distinct = (before[i].distinct * (high - low) / (max - min)).clamp(1.0, output.rows);
        }
    }
    for (column, values) in others.into_iter().filter_map(point_values) {
        let Some(i) = index(column) else { continue };
        output.columns[i].distinct = values.min(before[i].distinct).clamp(1.0, output.rows);
    }
    output
}

/// `column = constant` and `column IN (constants)`, with the number of constants.
fn point_values(expr: &Expr) -> Option<(&Column, f64)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (strip(left), strip(right)) {
            (Expr::Column(c), other) | (other, Expr::Column(c)) if constant(other).is_some() => Some((c, 1.0)),
            _ => None,
        },
        Expr::InList(list) if !list.negated => match strip(&list.expr) {
            Expr::Column(c) => Some((c, list.list.len() as f64)),
            _ => None,
        },
        call => match members::parts(call).map(|(expr, list, negated)| (strip(expr), list.len(), negated)) {
            Some((Expr::Column(c), count, false)) => Some((c, count as f64)),
            _ => None,
        },
    }
}

fn expr_estimate(expr: &Expr, input: &Estimate, schema: &DFSchema) -> ColumnEstimate {
    let resolve = |column: &Column| input.columns.get(schema.maybe_index_of_column(column)?).cloned();
    match strip(expr) {
        Expr::Column(column) => resolve(column).unwrap_or_else(|| unknown_column(input.rows)),
        other if constant(other).is_some() => ColumnEstimate { distinct: 1.0, range: None, nulls: 0.0, texts: None },
        other => {
            let values = distinct(other, &resolve).unwrap_or_else(|| unknown_column(input.rows).distinct);
            ColumnEstimate { distinct: values, range: None, nulls: 0.0, texts: None }
        }
    }
}

fn limited(limit: &Limit, tables: &dyn TableStatistics) -> Estimate {
    let input = estimate(&limit.input, tables);
    let rows = match limit.fetch.as_deref() {
        Some(Expr::Literal(value, _)) => position(value).unwrap_or(input.rows),
        _ => input.rows,
    };
    input.shrink(rows)
}

fn aggregated(aggregate: &Aggregate, tables: &dyn TableStatistics) -> Estimate {
    let input = estimate(&aggregate.input, tables);
    let keys: Vec<ColumnEstimate> =
        aggregate.group_expr.iter().map(|e| expr_estimate(e, &input, aggregate.input.schema())).collect();
    let groups = keys.iter().map(|k| k.distinct).product::<f64>().clamp(1.0, input.rows);
    let mut columns = keys;
    columns.resize(aggregate.schema.fields().len(), unknown_column(groups));
    columns.iter_mut().for_each(|c| c.distinct = c.distinct.min(groups));
    if let [_] = aggregate.group_expr.as_slice() {
        columns[0].distinct = groups;
    }
    Estimate { rows: groups, base_rows: groups, columns }
}

fn joined(join: &Join, tables: &dyn TableStatistics) -> Estimate {
    let (left, right) = (estimate(&join.left, tables), estimate(&join.right, tables));
    let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
    let pairs: Vec<(f64, f64)> = join
        .on
        .iter()
        .map(|(l, r)| (expr_estimate(l, &left, left_schema).distinct, expr_estimate(r, &right, right_schema).distinct))
        .collect();
    let resolve = |column: &Column| match left_schema.maybe_index_of_column(column) {
        Some(i) => left.columns.get(i).cloned(),
        None => right.columns.get(right_schema.maybe_index_of_column(column)?).cloned(),
    };
    let filter = join.filter.as_ref().map_or(1.0, |f| selectivity(f, &resolve));
    let inner = left.rows * right.rows * filter / key_domain(&pairs, left.base_rows, right.base_rows);
    let matched = |own: usize| {
        let fraction = |(l, r): &(f64, f64)| if own == 0 { (r / l).min(1.0) } else { (l / r).min(1.0) };
        pairs.iter().map(fraction).fold(1.0, f64::min) * filter
    };
    let both = |rows: f64| {
        let mut columns = left.columns.clone();
        columns.extend(right.columns.iter().cloned());
        columns.iter_mut().for_each(|c| c.distinct = c.distinct.min(rows.max(1.0)));
        Estimate { rows: rows.max(1.0), base_rows: rows.max(1.0), columns }
    };
    let marked = |side: &Estimate| {
        let mut side = side.clone();
        side.columns.push(ColumnEstimate { distinct: 2.0, range: None, nulls: 0.0, texts: None });
        side
    };
    let anti = |side: &Estimate, own| side.clone().shrink(side.rows * (1.0 - matched(own)).max(ANTI_FLOOR));
    // The output with columns `missing` NULL for rows of side `kept`, of `rows` rows, that have found no partner.
    let outer = |output: Estimate, missing: std::ops::Range<usize>, kept: usize, rows: f64| {
        let alone = rows * (1.0 - matched(kept).min(inner / rows)).max(ANTI_FLOOR);
        let found = 1.0 - (alone / output.rows.max(rows)).min(1.0);
        let mut output = output;
        output.columns[missing].iter_mut().for_each(|column| column.nulls = 1.0 - (1.0 - column.nulls) * found);
        output
    };
    let (lefts, all) = (left.columns.len(), left.columns.len() + right.columns.len());
    match join.join_type {
        JoinType::Inner => both(inner),
        JoinType::Left => outer(both(inner.max(left.rows)), lefts..all, 0, left.rows),
        JoinType::Right => outer(both(inner.max(right.rows)), 0..lefts, 1, right.rows),
        JoinType::Full => {
            let full = both(inner).grow(inner.max(left.rows).max(right.rows));
            outer(outer(full, lefts..all, 0, left.rows), 0..lefts, 1, right.rows)
        }
        JoinType::LeftSemi => left.clone().shrink(left.rows * matched(0)),
        JoinType::RightSemi => right.clone().shrink(right.rows * matched(1)),
        JoinType::LeftAnti => anti(&left, 0),
        JoinType::RightAnti => anti(&right, 1),
        JoinType::LeftMark => marked(&left),
        JoinType::RightMark => marked(&right),
    }
}

/// One over the selectivity of an equi join, from the distinct values of each key pair. Several keys are rarely
/// independent: their combinations are no more than the rows of the side with fewer of them, which is then taken
/// to be the referenced side of a composite key.
pub(super) fn key_domain(pairs: &[(f64, f64)], left_rows: f64, right_rows: f64) -> f64 {
    let independent: f64 = pairs.iter().map(|(l, r)| l.max(*r)).product();
    if pairs.len() < 2 {
        return independent;
    }
    let left = pairs.iter().map(|p| p.0).product::<f64>().min(left_rows);
    let right = pairs.iter().map(|p| p.1).product::<f64>().min(right_rows);
    let largest = pairs.iter().map(|(l, r)| l.max(*r)).fold(1.0, f64::max);
    left.min(right).clamp(largest, independent.max(largest))
}
