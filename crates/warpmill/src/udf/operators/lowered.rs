//! Operators as expressions that programs run.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::expr_fn;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator as Infix, lit};

use super::super::Misfit;
use super::{Op, Operator, Type};
use crate::dialect::{Arithmetic, arithmetic, cast};

/// Nodes of an operand that may be repeated, at most.
const MOST_REPEATED: usize = 400;

/// Nodes of an operand that is cheap to repeat: a column, or little more.
const PLAIN: usize = 5;

/// An expression and its type.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) expr: Expr,
    pub(super) ty: Type,
}

/// The SQL expression of `op` for operands of these types.
pub(super) fn lower(op: Op, args: Vec<Typed>, schema: &DFSchema) -> Result<Typed> {
    let types: Vec<Type> = args.iter().map(|arg| arg.ty.clone()).collect();
    let ty = op.result(&types)?;
    let mut args = args.into_iter();
    let mut next = || args.next().ok_or_else(|| Misfit::error("an operator without its operands"));
    let to = |arg: Typed, ty: &Type| converted(arg, ty, schema);
    let float = |arg: Typed| converted(arg, &Type::Float, schema);
    let expr = match op {
        Op::Number => {
            let number = to(next()?, &ty)?;
            if ty == Type::Float { present(number)? } else { number }
        }
        Op::Value => match ty {
            Type::Float => present(float(next()?)?)?,
            _ => to(next()?, &ty)?,
        },
        Op::Total => next()?.expr,
        Op::Add | Op::Sub | Op::Mul => {
            let (left, right) = (to(next()?, &ty)?, to(next()?, &ty)?);
            arithmetic_of(op, left, right, schema)?
        }
        Op::Div => infix(float(next()?)?, Infix::Divide, float(next()?)?),
        Op::FloorDiv | Op::Mod => {
            let (left, right) = (to(next()?, &ty)?, to(next()?, &ty)?);
            match divided_by_literal(op, &left, &right, schema)? {
                Some(expr) => expr,
                None => Operator::call(op, vec![left, right]).ok_or_else(|| Misfit::error("no such operator"))?,
            }
        }
        Op::Pow => {
            let (base, exponent) = (next()?, next()?);
            power(base, exponent, &ty, schema)?
        }
        Op::Neg if ty == Type::Float => Expr::Negative(Box::new(float(next()?)?)),
        Op::Neg => arithmetic_of(Op::Sub, lit(0i64), to(next()?, &ty)?, schema)?,
        Op::Abs => expr_fn::abs(to(next()?, &ty)?),
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => compared(op, next()?, next()?, schema)?,
        Op::Not => branch(next()?.expr, lit(false), lit(true)),
        // The second operand is looked at where the first does not decide.
        Op::And => branch(next()?.expr, next()?.expr, lit(false)),
        Op::Or => branch(next()?.expr, lit(true), next()?.expr),
        Op::Truth => {
            let value = next()?;
            let ty = value.ty.clone();
            truth(to(value, &ty)?, &ty)
        }
        Op::If => {
            let (condition, one, other) = (next()?.expr, next()?, next()?);
            branch(condition, to(one, &ty)?, to(other, &ty)?)
        }
        Op::IsMissing => {
            let value = next()?;
            match value.ty {
                Type::Float => branch(present(float(value)?)?.is_null(), lit(true), lit(false)),
                _ => branch(value.expr.is_null(), lit(true), lit(false)),
            }
        }
        Op::Float => match next()? {
            Typed { expr: Expr::Literal(ScalarValue::Utf8(Some(text)), _), ty: Type::Text } => {
                let value: f64 = text.parse().map_err(|_| Misfit::error(format!("'{text}' is no number")))?;
                lit(value)
            }
            Typed { ty: Type::Text, .. } => return Err(Misfit::error("float() of a text is no expression")),
            value => float(value)?,
        },
        Op::Int => match next()? {
            value if value.ty == Type::Float => {
                cast(expr_fn::trunc(vec![present(float(value)?)?]), &DataType::Int64, schema)?
            }
            value => to(value, &Type::Int)?,
        },
        Op::Sqrt => {
            let value = small(float(next()?)?)?;
            when(value.clone().gt_eq(lit(0f64)), expr_fn::sqrt(value))
        }
        Op::Log | Op::Log10 => {
            let value = small(float(next()?)?)?;
            let logarithm = if op == Op::Log { expr_fn::ln(value.clone()) } else { expr_fn::log10(value.clone()) };
            let of_zero = when(value.clone().eq(lit(0f64)), lit(f64::NEG_INFINITY));
            branch(value.gt(lit(0f64)), logarithm, of_zero)
        }
        Op::Exp => expr_fn::exp(float(next()?)?),
        Op::Floor => expr_fn::floor(float(next()?)?),
        Op::Ceil => expr_fn::ceil(float(next()?)?),
        Op::Trunc => expr_fn::trunc(vec![float(next()?)?]),
        Op::First => next()?.expr,
        // NaN becomes NULL.
        Op::ReturnDouble => {
            let value = next()?;
            let may_be_nan = value.ty == Type::Float;
            let value = float(value)?;
            if may_be_nan { present(value)? } else { value }
        }
        Op::ReturnInteger => cast(to(next()?, &Type::Int)?, &DataType::Int32, schema)?,
        Op::ReturnBigint | Op::ReturnBoolean | Op::ReturnVarchar | Op::ReturnDate | Op::ReturnTimestamp => {
            to(next()?, &ty)?
        }
    };
    Ok(Typed { expr, ty })
}

/// Converts a sum to a 64-bit integer or a floating-point number; NULL, the sum of no rows, becomes 0.
pub(super) fn total(sum: Expr, schema: &DFSchema) -> Result<Expr> {
    let ty = sum.get_type(schema)?;
    let is_whole = ty.is_integer() || matches!(ty, DataType::Decimal128(38, 0));
    let (to, zero) = if is_whole { (DataType::Int64, lit(0i64)) } else { (DataType::Float64, lit(0f64)) };
    let sum = if ty == to { sum } else { cast(sum, &to, schema)? };
    Ok(expr_fn::coalesce(vec![sum, zero]))
}

/// A value converted to type `ty`, which holds it.
fn converted(value: Typed, ty: &Type, schema: &DFSchema) -> Result<Expr> {
    let to = ty.data_type();
    match value.expr {
        Expr::Literal(literal, _) if literal.is_null() => Ok(lit(ScalarValue::try_from(&to)?)),
        Expr::Literal(ScalarValue::Int64(Some(whole)), _) if *ty == Type::Float => Ok(lit(whole as f64)),
        expr if value.ty == Type::Bool && ty.is_number() => {
            expr.cast_to(&DataType::Int64, schema)?.cast_to(&to, schema)
        }
        expr if expr.get_type(schema)? == to => Ok(expr),
        expr => cast(expr, &to, schema),
    }
}

fn infix(left: Expr, op: Infix, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn branch(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(then))], Some(Box::new(otherwise))))
}

fn when(condition: Expr, then: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(then))], None))
}

fn nodes(e: &Expr) -> Result<usize> {
    let mut nodes = 0;
    e.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(nodes)
}

/// An operand that may be repeated.
fn small(e: Expr) -> Result<Expr> {
    match nodes(&e)? > MOST_REPEATED {
        true => Err(Misfit::error("an operand that is needed more than once is too large")),
        false => Ok(e),
    }
}

/// A floating-point number, or NULL where it is NaN: NaN compares as greater or less than all numbers, by its sign, or as unordered.
fn present(value: Expr) -> Result<Expr> {
    match &value {
        Expr::Literal(ScalarValue::Float64(Some(number)), _) if number.is_nan() => Ok(lit(ScalarValue::Float64(None))),
        Expr::Literal(..) => Ok(value),
        _ if nodes(&value)? <= PLAIN => Ok(when(expr_fn::abs(value.clone()).lt_eq(lit(f64::INFINITY)), value)),
        // Uses the operand once. Computed NaNs have one of these two bit patterns.
        _ => Ok(expr_fn::nullif(expr_fn::nullif(value, lit(f64::NAN)), lit(-f64::NAN))),
    }
}

fn arithmetic_of(op: Op, left: Expr, right: Expr, schema: &DFSchema) -> Result<Expr> {
    let of = match op {
        Op::Add => Arithmetic::Add,
        Op::Sub => Arithmetic::Subtract,
        Op::FloorDiv => Arithmetic::IntegerDivide,
        Op::Mod => Arithmetic::Modulo,
        _ => Arithmetic::Multiply,
    };
    arithmetic(of, left, right, schema)?.ok_or_else(|| Misfit::error("arithmetic of other values than numbers"))
}

/// The floor quotient or the remainder of integers by a positive constant.
fn divided_by_literal(op: Op, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::Literal(ScalarValue::Int64(Some(1..)), _) = right else { return Ok(None) };
    if small(left.clone()).is_err() {
        return Ok(None);
    }
    let rest = arithmetic_of(Op::Mod, left.clone(), right.clone(), schema)?;
    let negative = rest.clone().lt(lit(0i64));
    Ok(Some(match op {
        Op::Mod => branch(negative, arithmetic_of(Op::Add, rest.clone(), right.clone(), schema)?, rest),
        _ => {
            let quotient = arithmetic_of(Op::FloorDiv, left.clone(), right.clone(), schema)?;
            branch(negative, arithmetic_of(Op::Sub, quotient.clone(), lit(1i64), schema)?, quotient)
        }
    }))
}

/// `base ** exponent`.
fn power(base: Typed, exponent: Typed, ty: &Type, schema: &DFSchema) -> Result<Expr> {
    let constant = match &exponent.expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(*value),
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => value.checked_neg(),
            _ => None,
        },
        _ => None,
    };
    // In Python, anything to the power of zero is 1, even a missing value.
    if constant == Some(0) {
        return Err(Misfit::error("a power of zero"));
    }
    let of = converted(base, ty, schema)?;
    match (ty, constant) {
        (_, Some(1)) => Ok(of),
        (_, Some(2)) => {
            let of = small(of)?;
            arithmetic_of(Op::Mul, of.clone(), of, schema)
        }
        (Type::Int, Some(count @ 3..=8)) => {
            let of = small(of)?;
            (1..count).try_fold(of.clone(), |product, _| arithmetic_of(Op::Mul, product, of.clone(), schema))
        }
        (Type::Int, _) => Err(Misfit::error("a power of whole numbers whose exponent is no constant between 1 and 8")),
        _ => {
            let exponent = converted(exponent, &Type::Float, schema)?;
            if matches!(exponent, Expr::Literal(ScalarValue::Float64(Some(0.0)), _)) {
                return Err(Misfit::error("a power of zero"));
            }
            if constant.is_some_and(|value| value > 0)
                || matches!(exponent, Expr::Literal(ScalarValue::Float64(Some(0.0..)), _))
            {
                return Ok(expr_fn::power(of, exponent));
            }
            let (of, exponent) = (small(of)?, small(exponent)?);
            let pole = of.clone().eq(lit(0f64)).and(exponent.clone().lt(lit(0f64)));
            Ok(branch(pole, lit(f64::INFINITY), expr_fn::power(of, exponent)))
        }
    }
}

fn compared(op: Op, left: Typed, right: Typed, schema: &DFSchema) -> Result<Expr> {
    let numeric = |ty: &Type| match ty {
        Type::Bool => Type::Int,
        ty => ty.clone(),
    };
    let ty = match left.ty.both(&right.ty) {
        Some(ty) => ty,
        None => {
            numeric(&left.ty).both(&numeric(&right.ty)).ok_or_else(|| Misfit::error("values that do not compare"))?
        }
    };
    // With two floating-point operands, either may be NaN.
    let sides = [(&left.ty, &left.expr), (&right.ty, &right.expr)];
    let is_doubtful = sides.map(|(ty, expr)| *ty == Type::Float && !matches!(expr, Expr::Literal(..)));
    let (left, right) = (converted(left, &ty, schema)?, converted(right, &ty, schema)?);
    let infix_op = match op {
        Op::Lt => Infix::Lt,
        Op::Le => Infix::LtEq,
        Op::Gt => Infix::Gt,
        Op::Ge => Infix::GtEq,
        _ => Infix::Eq,
    };
    let left = if is_doubtful[0] { present(left)? } else { left };
    let right = if is_doubtful[1] { present(right)? } else { right };
    let holds = infix(left, infix_op, right);
    Ok(match op {
        Op::Ne => branch(holds, lit(false), lit(true)),
        _ => branch(holds, lit(true), lit(false)),
    })
}

/// The truth of a value: a missing value is true, as it is neither zero nor empty.
fn truth(value: Expr, ty: &Type) -> Expr {
    let falsehood = match ty {
        Type::Bool => return branch(value, lit(true), lit(false)),
        Type::Text => value.eq(lit("")),
        Type::Int => value.eq(lit(0i64)),
        _ => value.eq(lit(0f64)),
    };
    branch(falsehood, lit(false), lit(true))
}
