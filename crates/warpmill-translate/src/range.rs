//! Range conditions of joins: comparisons of a build value, by which the build is sorted, with values of the probe side.

use datafusion::common::JoinSide;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_plan::joins::utils::JoinFilter;
use std::sync::Arc;
use warpmill_ir::{ArithOp, Bound, CompareOp, Expr, ExprKind, Phys, Range};

use super::expr::connective;
use super::stream::Stream;

/// Smallest number of rows per key, or of a whole build without keys, for which sorting them pays.
pub(crate) const MANY: f64 = 64.0;

/// A condition as a range of the build's order.
pub(crate) struct Found {
    /// The order, over the build's columns.
    pub order: Expr,
    pub range: Range,
}

impl Found {
    /// Whether the range rules out enough: rows per key are few, and a single bound leaves half of them.
    pub fn pays(&self, keys: &[Expr]) -> bool {
        keys.is_empty() || self.range.lower.is_some() && self.range.upper.is_some()
    }
}

/// A comparison of the build's `base` with a value of the probe side.
struct Comparison {
    /// The build's value without a widening cast.
    base: Expr,
    phys: Phys,
    value: Expr,
    /// Whether the build's value is greater than the other.
    is_lower: bool,
    inclusive: bool,
    at: usize,
}

/// The range for `condition`, over `inputs` columns of the probe side followed by the build's.
pub(crate) fn of(condition: &Expr, inputs: usize) -> Option<Found> {
    let conjuncts = match &condition.kind {
        ExprKind::And(list) => list.as_slice(),
        _ => std::slice::from_ref(condition),
    };
    let comparisons: Vec<Comparison> =
        conjuncts.iter().enumerate().filter_map(|(at, conjunct)| comparison(conjunct, inputs, at)).collect();
    let opposite = |one: &Comparison| {
        let alike = |other: &&Comparison| {
            let phys = one.phys == other.phys || one.phys.is_int() && other.phys.is_int();
            one.is_lower != other.is_lower && phys && one.base == other.base
        };
        comparisons.iter().find(alike)
    };
    let (first, second) = match comparisons.iter().find_map(|one| Some((one, opposite(one)?))) {
        Some((one, other)) => (one, Some(other)),
        None => (comparisons.first()?, None),
    };
    let used = [Some(first.at), second.map(|second| second.at)];
    let rest = conjuncts.iter().enumerate().filter(|(at, _)| !used.contains(&Some(*at)));
    let rest = rest.map(|(_, conjunct)| conjunct.clone()).reduce(|one, other| connective(true, one, other));
    let phys = second.map_or(first.phys, |second| second.phys.max(first.phys));
    let mut range = Range { lower: None, upper: None, rest };
    for comparison in std::iter::once(first).chain(second) {
        let bound = Bound { value: widened(&comparison.value, phys), inclusive: comparison.inclusive };
        *(if comparison.is_lower { &mut range.lower } else { &mut range.upper }) = Some(bound);
    }
    let mut order = widened(&first.base, phys);
    order.remap_columns(&|column| column - inputs);
    Some(Found { order, range })
}

fn widened(expr: &Expr, phys: Phys) -> Expr {
    if expr.ty.phys == phys { expr.clone() } else { expr.clone().widen(phys) }
}

fn comparison(conjunct: &Expr, inputs: usize, at: usize) -> Option<Comparison> {
    let ExprKind::Compare { op, left, right } = &conjunct.kind else { return None };
    let (of_build, value, op) = match (side(left, inputs)?, side(right, inputs)?) {
        (Side::Build, Side::Probe) => (left, right, *op),
        (Side::Probe, Side::Build) => (right, left, op.mirrored()),
        _ => return None,
    };
    let (is_lower, inclusive) = match op {
        CompareOp::Ge => (true, true),
        CompareOp::Gt => (true, false),
        CompareOp::Le => (false, true),
        CompareOp::Lt => (false, false),
        _ => return None,
    };
    // The order is evaluated for all build rows, a bound for all probe rows, even those that other conditions exclude.
    if !is_total_but_for_overflow(of_build) || !is_total_but_for_overflow(value) {
        return None;
    }
    let base = match &of_build.kind {
        ExprKind::Widen(inner) if inner.ty.phys.is_int() => inner.as_ref().clone(),
        _ => of_build.as_ref().clone(),
    };
    Some(Comparison { base, phys: of_build.ty.phys, value: value.as_ref().clone(), is_lower, inclusive, at })
}

/// Whether an expression can fail by overflow only.
fn is_total_but_for_overflow(expr: &Expr) -> bool {
    let adds = matches!(
        &expr.kind,
        ExprKind::Arith { op: ArithOp::Add | ArithOp::Sub | ArithOp::Mul, .. }
            | ExprKind::AddInterval { .. }
            | ExprKind::Negate { .. }
    );
    match adds {
        true => expr.children().into_iter().all(is_total_but_for_overflow),
        false => expr.is_total(),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Probe,
    Build,
}

/// The side whose columns an expression reads; `None` if it reads both or none.
fn side(expr: &Expr, inputs: usize) -> Option<Side> {
    let (mut probe, mut build) = (false, false);
    expr.visit_columns(&mut |column| if column < inputs { probe = true } else { build = true });
    match (probe, build) {
        (true, false) => Some(Side::Probe),
        (false, true) => Some(Side::Build),
        _ => None,
    }
}

/// Whether keys of a build have many rows each.
pub(crate) fn many_of_a_key(build: &Stream, keys: &[Expr]) -> bool {
    let distinct = keys.iter().map(|key| build.distinct_of(key).map(|n| n as f64));
    match distinct.collect::<Option<Vec<f64>>>() {
        Some(distinct) => build.rows.likely / distinct.into_iter().product::<f64>().max(1.0) >= MANY,
        None => false,
    }
}

/// Whether a join whose only condition is `filter` should build its left side: true if a left value must be between two right values. `None` if
/// neither or both sides qualify.
pub(crate) fn builds_left(filter: Option<&JoinFilter>) -> Option<bool> {
    let filter = filter?;
    let mut bounds: Vec<(JoinSide, String, bool)> = vec![];
    for conjunct in split_conjunction(filter.expression()) {
        let Some(binary) = conjunct.downcast_ref::<BinaryExpr>() else { continue };
        let is_lower = match binary.op() {
            Operator::Gt | Operator::GtEq => true,
            Operator::Lt | Operator::LtEq => false,
            _ => continue,
        };
        let sides = (side_of(binary.left(), filter), side_of(binary.right(), filter));
        let (Some(left), Some(right)) = sides else { continue };
        if left != right {
            bounds.push((left, binary.left().to_string(), is_lower));
            bounds.push((right, binary.right().to_string(), !is_lower));
        }
    }
    let between = |side: JoinSide| {
        let mut of_side = bounds.iter().filter(|(other, ..)| *other == side);
        of_side.any(|(_, text, is_lower)| {
            bounds.iter().any(|(other, same, lower)| *other == side && same == text && lower != is_lower)
        })
    };
    match (between(JoinSide::Left), between(JoinSide::Right)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// The side whose columns a filter's expression reads; `None` if it reads both or none.
fn side_of(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<JoinSide> {
    let side = |column: &Column| filter.column_indices().get(column.index()).map(|index| index.side);
    let mut sides = collect_columns(expr).iter().map(side).collect::<Option<Vec<_>>>()?;
    let first = sides.pop()?;
    sides.iter().all(|side| *side == first).then_some(first)
}
