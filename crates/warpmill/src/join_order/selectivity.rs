//! The fraction of rows that a predicate keeps, from column estimates.
//!
//! Uniform values, and independent predicates damped by exponential backoff: correlated filters are common and
//! a product of many selectivities underestimates (as in SQL Server's estimator since 2014).

use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, Operator};

use super::examples::constant;
use super::members;
use super::statistics::TextColumn;

/// An equality with an expression that nothing is known about.
const EQUALITY: f64 = 0.2;
/// An inequality, or any predicate that nothing is known about.
const INEQUALITY: f64 = 0.33;
/// BETWEEN on unknown bounds.
const BETWEEN: f64 = 0.2;
/// `LIKE 'prefix%'`.
const LIKE_PREFIX: f64 = 0.05;
/// Every other LIKE.
const LIKE_INFIX: f64 = 0.1;
/// No filter is trusted to keep less than this.
const LEAST: f64 = 1e-9;

/// The facts about a column of an intermediate result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnEstimate {
    /// Distinct values, at least 1.
    pub distinct: f64,
    /// Smallest and largest value on the axis of [`position`].
    pub range: Option<(f64, f64)>,
    /// Fraction of rows that are NULL.
    pub nulls: f64,
    /// The stored column of texts that it is.
    pub texts: Option<TextColumn>,
}

/// Finds the estimate of a column.
pub(super) type Resolve<'a> = &'a dyn Fn(&Column) -> Option<ColumnEstimate>;

/// An interval of one column: the values that comparisons with constants keep.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interval {
    pub column: Column,
    pub low: f64,
    pub high: f64,
}

/// A value's place on one axis per type, for interpolation; `None` for NULL and for types without one.
pub(super) fn position(value: &ScalarValue) -> Option<f64> {
    use ScalarValue as V;
    let place = match value {
        V::Boolean(v) => f64::from(u8::from((*v)?)),
        V::Int8(v) => f64::from((*v)?),
        V::Int16(v) => f64::from((*v)?),
        V::Int32(v) => f64::from((*v)?),
        V::Int64(v) => (*v)? as f64,
        V::UInt8(v) => f64::from((*v)?),
        V::UInt16(v) => f64::from((*v)?),
        V::UInt32(v) => f64::from((*v)?),
        V::UInt64(v) => (*v)? as f64,
        V::Float32(v) => f64::from((*v)?),
        V::Float64(v) => (*v)?,
        V::Decimal128(v, _, scale) => (*v)? as f64 / 10f64.powi(i32::from(*scale)),
        V::Date32(v) => f64::from((*v)?) * 86_400.0,
        V::Date64(v) => (*v)? as f64 / 1e3,
        V::TimestampSecond(v, _) => (*v)? as f64,
        V::TimestampMillisecond(v, _) => (*v)? as f64 / 1e3,
        V::TimestampMicrosecond(v, _) => (*v)? as f64 / 1e6,
        V::TimestampNanosecond(v, _) => (*v)? as f64 / 1e9,
        V::Utf8(v) | V::LargeUtf8(v) | V::Utf8View(v) => string_position(v.as_deref()?),
        V::Dictionary(_, v) => return position(v),
        _ => return None,
    };
    place.is_finite().then_some(place)
}

/// The first six bytes as a number, which a float holds exactly.
fn string_position(text: &str) -> f64 {
    (0..6).fold(0.0, |sum, i| sum * 256.0 + f64::from(text.as_bytes().get(i).copied().unwrap_or(0)))
}

/// The expression below casts and aliases, which keep order and distinctness well enough for an estimate.
pub(super) fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast(cast) => strip(&cast.expr),
        Expr::TryCast(cast) => strip(&cast.expr),
        Expr::Alias(alias) => strip(&alias.expr),
        other => other,
    }
}

/// Distinct values of an expression: those of its most varied column.
pub(super) fn distinct(expr: &Expr, resolve: Resolve) -> Option<f64> {
    expr.column_refs().into_iter().filter_map(resolve).map(|c| c.distinct).reduce(f64::max)
}

/// The fraction of rows for which `predicate` is true.
pub(super) fn selectivity(predicate: &Expr, resolve: Resolve) -> f64 {
    conjunction_selectivity(&split_conjunction(predicate), resolve)
}

/// The fraction of rows for which all of `conjuncts` are true: intervals of one column are intersected first.
pub(super) fn conjunction_selectivity(conjuncts: &[&Expr], resolve: Resolve) -> f64 {
    let (intervals, others) = intervals(conjuncts);
    let mut factors: Vec<f64> = intervals.iter().map(|i| interval_selectivity(i, resolve)).collect();
    factors.extend(others.into_iter().map(|expr| single(expr, resolve)));
    factors.sort_by(f64::total_cmp);
    let (mut product, mut exponent) = (1.0, 1.0);
    for factor in factors {
        product *= factor.powf(exponent);
        exponent /= 2.0;
    }
    f64::clamp(product, LEAST, 1.0)
}

/// Splits `conjuncts` into intervals, one per column, and the rest.
pub(super) fn intervals<'a>(conjuncts: &[&'a Expr]) -> (Vec<Interval>, Vec<&'a Expr>) {
    let (mut found, mut others): (Vec<Interval>, _) = (vec![], vec![]);
    for expr in conjuncts {
        let Some(next) = interval(expr) else {
            others.push(*expr);
            continue;
        };
        match found.iter_mut().find(|i| i.column == next.column) {
            Some(known) => (known.low, known.high) = (known.low.max(next.low), known.high.min(next.high)),
            None => found.push(next),
        }
    }
    (found, others)
}

/// Whether `expr` compares one column with constants by `<`, `<=`, `>`, `>=` or BETWEEN.
fn interval(expr: &Expr) -> Option<Interval> {
    let place = |e: &Expr| constant(e).as_deref().and_then(position);
    match expr {
        Expr::Between(between) if !between.negated => {
            let Expr::Column(column) = strip(&between.expr) else { return None };
            Some(Interval { column: column.clone(), low: place(&between.low)?, high: place(&between.high)? })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, bound) = match (strip(left), strip(right)) {
                (Expr::Column(column), _) => (column, *op, place(right)?),
                (_, Expr::Column(column)) => (column, op.swap()?, place(left)?),
                _ => return None,
            };
            let (low, high) = match op {
                Operator::Lt | Operator::LtEq => (f64::NEG_INFINITY, bound),
                Operator::Gt | Operator::GtEq => (bound, f64::INFINITY),
                _ => return None,
            };
            Some(Interval { column: column.clone(), low, high })
        }
        _ => None,
    }
}

fn interval_selectivity(interval: &Interval, resolve: Resolve) -> f64 {
    let column = resolve(&interval.column);
    let kept = match column.as_ref().and_then(|c| c.range) {
        Some((min, max)) if max > min => {
            let covered = (interval.high.min(max) - interval.low.max(min)) / (max - min);
            // An interval always keeps about one value: a point inside the range is not empty.
            covered.clamp(0.0, 1.0).max(1.0 / column.as_ref().map_or(1.0, |c| c.distinct))
        }
        _ if interval.low.is_finite() && interval.high.is_finite() => BETWEEN,
        _ => INEQUALITY,
    };
    kept * (1.0 - column.map_or(0.0, |c| c.nulls))
}

/// One predicate that is no conjunction.
fn single(expr: &Expr, resolve: Resolve) -> f64 {
    let value = match expr {
        Expr::Literal(ScalarValue::Boolean(value), _) => f64::from(u8::from(value.unwrap_or(false))),
        Expr::Alias(alias) => single(&alias.expr, resolve),
        Expr::Not(inner) | Expr::IsFalse(inner) => 1.0 - selectivity(inner, resolve),
        Expr::IsTrue(inner) => selectivity(inner, resolve),
        Expr::IsNull(inner) => nulls(inner, resolve),
        Expr::IsNotNull(inner) => 1.0 - nulls(inner, resolve),
        call if let Some(list) = members::list(call) => single(&Expr::InList(list), resolve),
        Expr::InList(list) => negate((equality(&list.expr, resolve) * list.list.len() as f64).min(1.0), list.negated),
        Expr::Between(between) => negate(BETWEEN, between.negated),
        Expr::Like(like) => {
            let pattern = constant(&like.pattern);
            let kept = pattern.map_or(LIKE_INFIX, |pattern| like_selectivity(like, &pattern, resolve));
            negate(kept, like.negated)
        }
        Expr::BinaryExpr(binary) => binary_selectivity(binary, resolve),
        Expr::Column(_) => 0.5,
        _ => INEQUALITY,
    };
    value.clamp(LEAST, 1.0)
}

fn negate(kept: f64, negated: bool) -> f64 {
    if negated { 1.0 - kept } else { kept }
}

fn binary_selectivity(binary: &BinaryExpr, resolve: Resolve) -> f64 {
    let BinaryExpr { left, op, right } = binary;
    match op {
        Operator::And => selectivity(left, resolve).min(selectivity(right, resolve)),
        Operator::Or => 1.0 - (1.0 - selectivity(left, resolve)) * (1.0 - selectivity(right, resolve)),
        Operator::Eq | Operator::IsNotDistinctFrom => equal(left, right, resolve),
        Operator::NotEq | Operator::IsDistinctFrom => 1.0 - equal(left, right, resolve),
        Operator::LikeMatch | Operator::ILikeMatch => LIKE_INFIX,
        _ => INEQUALITY,
    }
}

/// `left = right`: one in the distinct values of the more varied side.
fn equal(left: &Expr, right: &Expr, resolve: Resolve) -> f64 {
    match (constant(left), constant(right)) {
        (Some(_), _) => equality(right, resolve),
        (_, Some(_)) => equality(left, resolve),
        _ => equality(left, resolve).min(equality(right, resolve)),
    }
}

/// `expr = constant`.
fn equality(expr: &Expr, resolve: Resolve) -> f64 {
    match strip(expr) {
        Expr::Column(column) => resolve(column).map_or(EQUALITY, |c| (1.0 - c.nulls) / c.distinct.max(1.0)),
        _ => EQUALITY,
    }
}

fn nulls(expr: &Expr, resolve: Resolve) -> f64 {
    match strip(expr) {
        Expr::Column(column) => resolve(column).map_or(LIKE_INFIX, |c| c.nulls),
        _ => LIKE_INFIX,
    }
}

/// `like`, whose pattern is `pattern`: what a sample of a stored column says, or a constant by the pattern's form.
fn like_selectivity(like: &Like, pattern: &ScalarValue, resolve: Resolve) -> f64 {
    let (ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text))) =
        pattern
    else {
        return LIKE_INFIX;
    };
    let sampled = || match strip(&like.expr) {
        Expr::Column(column) if like.escape_char.is_none() => resolve(column)?.texts?.like(text, like.case_insensitive),
        _ => None,
    };
    match text.find(['%', '_']) {
        None => equality(&like.expr, resolve),
        Some(first) => sampled().unwrap_or(if first == 0 { LIKE_INFIX } else { LIKE_PREFIX }),
    }
}
