//! `<<` and `>>`: errors where bits or signs would be lost, which DataFusion lets go.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};

use super::operators::strict_cast;

/// One expression whose parts are bound: shifts as calls, of BIGINT.
pub(super) fn expression(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = e else { return Ok(e) };
    let to_left = match op {
        Operator::BitwiseShiftLeft => true,
        Operator::BitwiseShiftRight => false,
        op => return Ok(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    };
    for operand in [&left, &right] {
        let ty = operand.get_type(schema)?;
        if !ty.is_integer() && !ty.is_null() {
            return plan_err!("{op} is for whole numbers, not for {ty}");
        }
    }
    let signature = Signature::any(2, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::from(Shift { to_left, signature }));
    let operands = [*left, *right].map(|e| cast(e, DataType::Int64));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, operands.into())))
}

/// A shift as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    to_left: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Shift {
    fn name(&self) -> &str {
        if self.to_left { "shift_left" } else { "shift_right" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let operands = ColumnarValue::values_to_arrays(&args.args)?;
        let operands = operands.iter().map(|array| strict_cast(array, &DataType::Int64)).collect::<Result<Vec<_>>>()?;
        let [values, places] = [0, 1].map(|at: usize| operands[at].as_primitive::<Int64Type>());
        let rows = values.iter().zip(places).map(|(value, places)| match (value, places) {
            (Some(value), Some(places)) if self.to_left => left(value, places).map(Some),
            // All bits are gone, and the sign with them.
            (Some(value), Some(places)) => {
                Ok(Some(u32::try_from(places).ok().map_or(0, |by| value.checked_shr(by).unwrap_or(0))))
            }
            _ => Ok(None),
        });
        let result: ArrayRef = Arc::new(rows.collect::<Result<Int64Array>>()?);
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

fn left(value: i64, places: i64) -> Result<i64> {
    if value < 0 || places < 0 {
        return exec_err!("cannot shift {value} to the left by {places}: negative");
    }
    let shifted = u32::try_from(places).ok().filter(|by| *by < i64::BITS).map(|by| i128::from(value) << by);
    match shifted.and_then(|shifted| i64::try_from(shifted).ok()) {
        Some(shifted) => Ok(shifted),
        None if value == 0 => Ok(0),
        None => exec_err!("overflow in the left shift of {value} by {places}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_not_lost() {
        assert_eq!(left(1, 62).unwrap(), 1 << 62);
        assert_eq!((left(0, 64).unwrap(), left(5, 0).unwrap()), (0, 5));
        for (value, places) in [(1, 63), (1, 64), (3, 62), (-1, 1), (1, -1), (1, i64::MAX)] {
            assert!(left(value, places).is_err(), "{value} << {places}");
        }
    }
}
