//! Replaces constants of a bound plan by parameters, and back. A constant is any expression that reads no rows, such as `DATE '2020-01-01' + 7`.
//!
//! A parameter is a placeholder of the constant's type. Optimizer rules know of it only its type and that it is not NULL, so that the optimized plan
//! is correct for all values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::simplify_expressions::{ExprSimplifier, SimplifyExpressions};

use warpmill_translate::parameters as literals;

use crate::dialect::is_part_of_constants;
use crate::join_order::{example_metadata, members};

/// The beginning of the identifiers of parameters, which no name in a statement has.
const PREFIX: &str = "$ constant ";

/// A plan with parameters, and their values.
#[derive(Debug)]
pub(super) struct Parametrized {
    pub plan: LogicalPlan,
    pub values: Vec<ScalarValue>,
    /// The expressions that each value is of: literals may have numbers in them.
    pub constants: Vec<Vec<Expr>>,
}

/// The constants of a plan found so far.
#[derive(Default)]
struct Constants {
    values: Vec<ScalarValue>,
    exprs: Vec<Vec<Expr>>,
    /// The comparisons of the present condition, with the numbers of their parameters.
    compared: HashMap<Comparison, usize>,
}

/// A comparison of an expression with a constant.
#[derive(PartialEq, Eq, Hash)]
struct Comparison {
    of: Expr,
    op: Operator,
    value: ScalarValue,
}

impl Constants {
    fn count(&self) -> usize {
        self.exprs.iter().map(Vec::len).sum()
    }

    /// Replaces `expr` by a parameter, if it is a constant. `compared`: the other side of its comparison, and the operator between the two.
    ///
    /// Equal texts share one parameter, and so do the constants of equal comparisons in one condition: rules that take common conditions out of OR
    /// compare expressions. A number gets the type of the expression that it is compared with, if that is lossless: otherwise the other side is cast,
    /// and rules can only undo that for literals.
    fn take(&mut self, expr: &mut Expr, compared: Option<(&Expr, Operator)>, schema: &DFSchema) {
        let Some(value) = constant(expr) else { return };
        let ty = compared.and_then(|(of, _)| of.get_type(schema).ok());
        let value = ty.and_then(|ty| of_type(value.clone(), &ty)).unwrap_or(value);
        let is_text = value.data_type().is_string();
        let comparison = compared.map(|(of, op)| Comparison { of: of.clone(), op, value: value.clone() });
        let known = match &comparison {
            _ if is_text => self.values.iter().position(|known| *known == value),
            Some(comparison) => self.compared.get(comparison).copied(),
            None => None,
        };
        let number = known.unwrap_or(self.values.len());
        let parameter = parameter(number, &value, false);
        if known.is_none() {
            self.values.push(value);
            self.exprs.push(vec![]);
        }
        comparison.map(|comparison| self.compared.insert(comparison, number));
        self.exprs[number].push(std::mem::replace(expr, parameter));
    }
}

impl Parametrized {
    /// `plan` with the constants that columns are compared with in WHERE, HAVING and ON replaced by parameters. IN lists of them become calls: rules
    /// decide by the members of IN lists.
    pub fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut constants = Constants::default();
        let plan = plan.clone().transform_down_with_subqueries(|node| match node {
            LogicalPlan::Filter(mut filter) => {
                let schema = Arc::clone(filter.input.schema());
                let predicate = taken(filter.predicate, &schema, &mut constants)?;
                filter.predicate = predicate.data;
                Ok(Transformed::new(LogicalPlan::Filter(filter), predicate.transformed, TreeNodeRecursion::Continue))
            }
            LogicalPlan::Join(mut join) if join.filter.is_some() => {
                let schema = join.left.schema().join(join.right.schema())?;
                let condition = join.filter.take();
                let condition = condition.map(|condition| taken(condition, &schema, &mut constants)).transpose()?;
                let changed = condition.as_ref().is_some_and(|condition| condition.transformed);
                join.filter = condition.map(|condition| condition.data);
                Ok(Transformed::new(LogicalPlan::Join(join), changed, TreeNodeRecursion::Continue))
            }
            node => Ok(Transformed::no(node)),
        })?;
        Ok(Self { plan: plan.data, values: constants.values, constants: constants.exprs })
    }

    /// The plan with an example value for each parameter, by which rules estimate rows.
    pub fn with_examples(&self) -> Result<LogicalPlan> {
        let example = |expr: Expr| match number(&expr) {
            Some(number) => Ok(Transformed::yes(parameter(number, &self.values[number], true))),
            None => Ok(Transformed::no(expr)),
        };
        let plan = self.plan.clone().transform_down_with_subqueries(|node| {
            node.map_expressions(|expr| {
                if has_parameter(&expr)? { expr.transform(example) } else { Ok(Transformed::no(expr)) }
            })
        })?;
        Ok(plan.data)
    }
}

/// `predicate` with constants in comparisons as parameters, which are added to `constants`.
fn taken(predicate: Expr, schema: &DFSchema, constants: &mut Constants) -> Result<Transformed<Expr>> {
    constants.compared.clear();
    predicate.transform_down(|expr| {
        let before = constants.count();
        let expr = match expr {
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right })
                if is_comparison(op) && (reads_rows(&left) || reads_rows(&right)) =>
            {
                if let Some(swapped) = op.swap() {
                    constants.take(&mut left, Some((&right, swapped)), schema);
                }
                constants.take(&mut right, Some((&left, op)), schema);
                Expr::BinaryExpr(BinaryExpr { left, op, right })
            }
            Expr::Between(mut between) if reads_rows(&between.expr) => {
                constants.take(&mut between.low, Some((&between.expr, Operator::GtEq)), schema);
                constants.take(&mut between.high, Some((&between.expr, Operator::LtEq)), schema);
                Expr::Between(between)
            }
            Expr::Like(mut like) if reads_rows(&like.expr) => {
                constants.take(&mut like.pattern, None, schema);
                Expr::Like(like)
            }
            Expr::InList(mut list) if has_plain_members(&list, schema) => {
                list.list.iter_mut().for_each(|member| constants.take(member, None, schema));
                members::call(list)
            }
            expr => expr,
        };
        Ok(Transformed::new(expr, constants.count() > before, TreeNodeRecursion::Continue))
    })
}

pub(super) fn is_comparison(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Whether the members of a list are constants of the type that they are compared with.
fn has_plain_members(list: &InList, schema: &DFSchema) -> bool {
    let Ok(ty) = list.expr.get_type(schema) else { return false };
    let plain = |member: &Expr| match member {
        Expr::Literal(value, None) => is_comparable(value) && value.data_type() == ty,
        member => numbered(member).is_some() && member.as_literal().is_some_and(|value| value.data_type() == ty),
    };
    reads_rows(&list.expr) && !list.list.is_empty() && list.list.iter().all(plain)
}

/// Whether the value of `expr` depends on rows, of this or an outer query, or on subqueries.
pub(super) fn reads_rows(expr: &Expr) -> bool {
    let reads = |expr: &Expr| {
        matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        )
    };
    expr.exists(|expr| Ok(reads(expr))).unwrap_or(true)
}

/// `value`, which is not NULL, if it has type `ty`, or converted to it, where both are types of exact numbers and that is lossless.
pub(super) fn of_type(value: ScalarValue, ty: &DataType) -> Option<ScalarValue> {
    let given = value.data_type();
    if given == *ty {
        return (!value.is_null()).then_some(value);
    }
    if is_exact(&given) && is_exact(ty) { narrowed(&value, ty) } else { None }
}

/// Whether values of type `ty` are exact numbers.
fn is_exact(ty: &DataType) -> bool {
    ty.is_integer() || ty.is_decimal()
}

/// `value` converted to type `ty`, if that is lossless.
pub(super) fn narrowed(value: &ScalarValue, ty: &DataType) -> Option<ScalarValue> {
    let narrow = value.cast_to(ty).ok().filter(|narrow| !narrow.is_null())?;
    (narrow.cast_to(&value.data_type()).ok()? == *value).then_some(narrow)
}

/// The value of `expr`, if it is a constant that becomes a parameter.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    if reads_rows(expr) {
        return None;
    }
    let value = match expr {
        Expr::Literal(value, None) => Some(value.clone()),
        expr if numbered(expr).is_some() => expr.as_literal().cloned(),
        Expr::Literal(..) => None,
        expr => evaluated(expr),
    };
    value.filter(is_comparable)
}

/// The value of a constant expression; `None` where it has none, or evaluation fails: the statement reports the error. Functions are computed only
/// where they are part of constants' syntax: others need argument conversions and size limits, which rules add.
pub(super) fn evaluated(expr: &Expr) -> Option<ScalarValue> {
    let varies = |expr: &Expr| {
        matches!(expr, Expr::ScalarVariable(..) | Expr::Placeholder(_) | Expr::HigherOrderFunction(_))
            || matches!(expr, Expr::ScalarFunction(call) if !is_part_of_constants(call))
    };
    if expr.exists(|expr| Ok(varies(expr))).unwrap_or(true) {
        return None;
    }
    let plain = expr.clone().transform(|expr| Ok(without_number(expr))).ok()?.data;
    match ExprSimplifier::new(SimplifyContext::builder().build()).simplify(plain) {
        Ok(Expr::Literal(value, None)) => Some(value),
        _ => None,
    }
}

/// Whether a constant becomes a parameter: numbers, texts, dates and timestamps do.
fn is_comparable(value: &ScalarValue) -> bool {
    let ty = value.data_type();
    !value.is_null()
        && (ty.is_numeric() || ty.is_string() || ty.is_temporal())
        && !matches!(ty, DataType::Interval(_) | DataType::Duration(_))
}

/// Parameter `number`, with `value` as its example if `example`.
fn parameter(number: usize, value: &ScalarValue, example: bool) -> Expr {
    let metadata = if example { example_metadata(value) } else { HashMap::new() };
    let field = Field::new("", value.data_type(), false).with_metadata(metadata);
    Expr::Placeholder(Placeholder::new_with_field(format!("{PREFIX}{number}"), Some(Arc::new(field))))
}

/// The number of the literal that `expr` is.
pub(crate) fn numbered(expr: &Expr) -> Option<usize> {
    let Expr::Literal(_, Some(metadata)) = expr else { return None };
    literals::number(metadata)
}

/// `expr`, if it is a numbered literal, without its number.
pub(crate) fn without_number(expr: Expr) -> Transformed<Expr> {
    match (numbered(&expr), expr) {
        (Some(_), Expr::Literal(value, _)) => Transformed::yes(Expr::Literal(value, None)),
        (_, expr) => Transformed::no(expr),
    }
}

/// `expr` with `values` for its numbered literals.
pub(super) fn with_numbered(expr: Expr, values: &[ScalarValue]) -> Result<Transformed<Expr>> {
    expr.transform(|expr| match numbered(&expr).and_then(|number| values.get(number)) {
        Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
        None => Ok(Transformed::no(expr)),
    })
}

/// `expr` with `values` for its parameters, and calls that stand for lists replaced by the lists.
pub(super) fn with_parameters(expr: Expr, values: &[ScalarValue]) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match number(&expr).and_then(|number| values.get(number)) {
        Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
        None => {
            Ok(members::list(&expr).map_or_else(|| Transformed::no(expr), |list| Transformed::yes(Expr::InList(list))))
        }
    })
}

/// The number of the parameter that `expr` is.
pub(super) fn number(expr: &Expr) -> Option<usize> {
    let Expr::Placeholder(placeholder) = expr else { return None };
    placeholder.id.strip_prefix(PREFIX)?.parse().ok()
}

fn has_parameter(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| Ok(number(expr).is_some()))
}

/// Whether an expression of `node` itself has parameters.
fn holds_parameters(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || has_parameter(expr)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether parameters of an optimized plan occur in conditions only: elsewhere column names depend on constants.
pub(super) fn has_parameters_in_conditions_only(plan: &LogicalPlan) -> Result<bool> {
    let mut only = true;
    plan.apply_with_subqueries(|node| {
        only &= match node {
            LogicalPlan::Filter(_) => true,
            LogicalPlan::Join(join) => {
                let mut keys = join.on.iter().flat_map(|(left, right)| [left, right]);
                !keys.try_fold(false, |any, key| Ok::<_, DataFusionError>(any || has_parameter(key)?))?
            }
            node => !holds_parameters(node)?,
        };
        Ok(if only { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(only)
}

/// The optimized plan `plan` with `values` for its parameters, and the affected conditions simplified. `None` where a condition has become constant,
/// or fails: such a statement is planned as usual.
pub(super) fn with_values(plan: &LogicalPlan, values: &[ScalarValue], state: &SessionState) -> Option<LogicalPlan> {
    let rule = SimplifyExpressions::new();
    let mut constant = false;
    let plan = plan.clone().transform_up_with_subqueries(|node| {
        if !holds_parameters(&node)? {
            return Ok(Transformed::no(node));
        }
        let node = node.map_expressions(|expr| with_parameters(expr, values))?.data;
        let node = rule.rewrite(node, state)?.data;
        constant |= match &node {
            LogicalPlan::Filter(filter) => matches!(filter.predicate, Expr::Literal(..)),
            LogicalPlan::Join(join) => matches!(join.filter, Some(Expr::Literal(..))),
            _ => false,
        };
        Ok(Transformed::yes(node))
    });
    plan.ok().filter(|_| !constant).map(|plan| plan.data)
}
