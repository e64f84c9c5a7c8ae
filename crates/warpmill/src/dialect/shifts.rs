//! Bit operators that DataFusion lacks or computes differently: `<<` and `>>`, which are errors where bits or signs would be lost, and bit operators
//! of HUGEINT.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::operators::strict_cast;
use super::types::{HUGEINT, common_number, is_whole};

/// The largest HUGEINT.
const LARGEST: i128 = 10_i128.pow(38) - 1;

/// Rewrites one expression whose operands are bound: shifts become calls.
pub(super) fn expression(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = e else { return Ok(e) };
    let how = match op {
        Operator::BitwiseShiftLeft => How::Left,
        Operator::BitwiseShiftRight => How::Right,
        op => return Ok(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    };
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    for ty in [&lt, &rt] {
        if !is_whole(ty) && !ty.is_null() {
            return plan_err!("{op} is for whole numbers, not for {ty}");
        }
    }
    let to = common(&left, &right, [lt, rt]);
    Ok(call(how, to, [*left, *right]))
}

/// The type of a bit operation on operands of these types: a constant takes the other operand's type, if that holds it.
fn common(left: &Expr, right: &Expr, [lt, rt]: [DataType; 2]) -> DataType {
    let is_constant = |e: &Expr| matches!(e, Expr::Literal(..));
    let fits = |e: &Expr, ty: &DataType| match e {
        Expr::Literal(value, _) => value.cast_to(ty).is_ok_and(|value| !value.is_null()),
        _ => false,
    };
    match (fits(left, &rt), fits(right, &lt)) {
        _ if is_constant(left) && is_constant(right) => DataType::Int64,
        (false, true) => lt,
        (true, false) => rt,
        _ => common_number(&lt, &rt).unwrap_or(DataType::Int64),
    }
}

/// `xor(left, right)` of whole numbers of these types. DataFusion's operator is simplified to 0 for equal operands, NULLs included.
pub(super) fn xor(left: &Expr, right: &Expr, types: [DataType; 2]) -> Expr {
    let to = common(left, right, types);
    let operands = [left.clone(), right.clone()];
    match to {
        DataType::UInt64 => cast(call(How::Xor, HUGEINT, operands), to),
        to => call(How::Xor, to, operands),
    }
}

/// `left op right` where an operand is a HUGEINT; `None` for other operators or operands.
pub(super) fn of_hugeints(op: &BinaryOperator, left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    let how = match op {
        BinaryOperator::BitwiseAnd => How::And,
        BinaryOperator::BitwiseOr => How::Or,
        BinaryOperator::PGBitwiseXor => How::Xor,
        _ => return None,
    };
    let (lt, rt) = (left.get_type(schema).ok()?, right.get_type(schema).ok()?);
    let whole = |ty: &DataType| is_whole(ty) || ty.is_null();
    let concerned = (lt == HUGEINT || rt == HUGEINT) && whole(&lt) && whole(&rt);
    concerned.then(|| call(how, HUGEINT, [left.clone(), right.clone()]))
}

fn call(how: How, to: DataType, operands: [Expr; 2]) -> Expr {
    let held = if to == HUGEINT { HUGEINT } else { DataType::Int64 };
    let function = Arc::new(ScalarUDF::from(Bits::new(how, to)));
    let operands = operands.map(|e| cast(e, held.clone()));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, operands.into()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum How {
    Left,
    Right,
    And,
    Or,
    Xor,
}

impl How {
    const ALL: [Self; 5] = [Self::Left, Self::Right, Self::And, Self::Or, Self::Xor];
}

/// An operator as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Bits {
    how: How,
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Bits {
    fn name(&self) -> &str {
        match self.how {
            How::Left => "shift_left",
            How::Right => "shift_right",
            How::And => "bits_and",
            How::Or => "bits_or",
            How::Xor => "bits_xor",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let operands = ColumnarValue::values_to_arrays(&args.args)?;
        let result = if self.to == HUGEINT { self.of_wide(&operands)? } else { self.of_plain(&operands)? };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl Bits {
    fn new(how: How, to: DataType) -> Self {
        Self { how, to, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The type; it has no other parts.
    pub(super) fn parts(&self) -> (DataType, i32) {
        (self.to.clone(), 0)
    }

    /// The operator of that name.
    pub(super) fn named(name: &str, to: &DataType) -> Option<Self> {
        How::ALL.into_iter().map(|how| Self::new(how, to.clone())).find(|bits| bits.name() == name)
    }

    fn of_plain(&self, operands: &[ArrayRef]) -> Result<ArrayRef> {
        let operands = operands.iter().map(|array| strict_cast(array, &DataType::Int64)).collect::<Result<Vec<_>>>()?;
        let [values, others] = [0, 1].map(|at: usize| operands[at].as_primitive::<Int64Type>());
        let rows = values.iter().zip(others).map(|(value, other)| match (value, other) {
            (Some(value), Some(other)) => {
                let shifted = self.of(value.into(), other.into(), i64::MAX.into())?;
                Ok(Some(shifted as i64))
            }
            _ => Ok(None),
        });
        strict_cast(&(Arc::new(rows.collect::<Result<Int64Array>>()?) as ArrayRef), &self.to)
    }

    fn of_wide(&self, operands: &[ArrayRef]) -> Result<ArrayRef> {
        let operands = operands.iter().map(|array| strict_cast(array, &HUGEINT)).collect::<Result<Vec<_>>>()?;
        let [values, others] = [0, 1].map(|at: usize| operands[at].as_primitive::<Decimal128Type>());
        let rows = values.iter().zip(others).map(|(value, other)| match (value, other) {
            (Some(value), Some(other)) => match self.of(value, other, i128::MAX)? {
                wide if !(-LARGEST..=LARGEST).contains(&wide) => not_impl_err!("a number of more than 38 digits"),
                value => Ok(Some(value)),
            },
            _ => Ok(None),
        });
        let rows = rows.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(rows.with_precision_and_scale(38, 0)?))
    }

    /// The result for two numbers; results above `most` are errors.
    fn of(&self, value: i128, other: i128, most: i128) -> Result<i128> {
        Ok(match self.how {
            How::Left => return left(value, other, most),
            // A shift by the full width or more gives 0, for negative numbers, too.
            How::Right => {
                let bits = self.to.primitive_width().map_or(64, |bytes| bytes as u32 * 8);
                u32::try_from(other).ok().filter(|by| *by < bits).map_or(0, |by| value >> by)
            }
            How::And => value & other,
            How::Or => value | other,
            How::Xor => value ^ other,
        })
    }
}

fn left(value: i128, places: i128, most: i128) -> Result<i128> {
    if value < 0 || places < 0 {
        return exec_err!("cannot shift {value} to the left by {places}: negative");
    }
    let by = u32::try_from(places).ok().filter(|by| *by < i128::BITS);
    match by.filter(|by| value <= most >> by) {
        Some(by) => Ok(value << by),
        None if value == 0 => Ok(0),
        None => exec_err!("overflow in the left shift of {value} by {places}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_not_lost() {
        let most = i64::MAX.into();
        assert_eq!(left(1, 62, most).unwrap(), 1 << 62);
        assert_eq!((left(0, 64, most).unwrap(), left(5, 0, most).unwrap()), (0, 5));
        for (value, places) in [(1, 63), (1, 64), (3, 62), (-1, 1), (1, -1), (1, i128::MAX)] {
            assert!(left(value, places, most).is_err(), "{value} << {places}");
        }
        assert_eq!(left(1, 100, i128::MAX).unwrap(), 1 << 100);
        assert!(left(1, 127, i128::MAX).is_err());
    }
}
