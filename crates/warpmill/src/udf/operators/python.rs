//! Python operators without an SQL equivalent, computed here: floor division and remainder.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::Op;

/// The results of a call whose arguments are both 64-bit integers, or both 64-bit floats.
pub(super) fn computed(op: Op, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { args.number_rows };
    let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
    let [left, right] = columns.as_slice() else { return internal_err!("'{}' has two arguments", op.name()) };
    let results: ArrayRef = match (op, left.data_type(), right.data_type()) {
        (Op::FloorDiv | Op::Mod, DataType::Int64, DataType::Int64) => {
            let (left, right) = (left.as_primitive::<Int64Type>(), right.as_primitive::<Int64Type>());
            let pairs = left.iter().zip(right.iter());
            let results = pairs.map(|pair| match pair {
                (Some(a), Some(b)) => whole(op, a, b),
                _ => Ok(None),
            });
            Arc::new(results.collect::<Result<Int64Array>>()?)
        }
        (Op::FloorDiv | Op::Mod, DataType::Float64, DataType::Float64) => {
            let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
            let pairs = left.iter().zip(right.iter());
            Arc::new(pairs.map(|(a, b)| Some(float(op, a?, b?))).collect::<Float64Array>())
        }
        _ => return internal_err!("'{}' is an operator of expressions of functions only", op.name()),
    };
    Ok(if constant {
        ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?)
    } else {
        ColumnarValue::Array(results)
    })
}

/// The result for integers; missing for division by zero.
fn whole(op: Op, a: i64, b: i64) -> Result<Option<i64>> {
    if b == 0 {
        return Ok(None);
    }
    let rest = a.wrapping_rem(b);
    let down = rest != 0 && (rest < 0) != (b < 0);
    if op == Op::Mod {
        return Ok(Some(if down { rest + b } else { rest }));
    }
    match a.checked_div(b) {
        Some(quotient) => Ok(Some(quotient - i64::from(down))),
        None => exec_err!("overflow: {a} // {b} is no whole number of 64 bits"),
    }
}

/// The result for floats, as in numpy: for division by zero, quotients are infinite or NaN and remainders NaN.
fn float(op: Op, a: f64, b: f64) -> f64 {
    let mut rest = a % b;
    if b == 0.0 {
        return if op == Op::Mod { rest } else { a / b };
    }
    let mut quotient = (a - rest) / b;
    if rest != 0.0 {
        if (b < 0.0) != (rest < 0.0) {
            rest += b;
            quotient -= 1.0;
        }
    } else {
        rest = 0f64.copysign(b);
    }
    if op == Op::Mod {
        return rest;
    }
    if quotient == 0.0 {
        return 0f64.copysign(a / b);
    }
    let down = quotient.floor();
    if quotient - down > 0.5 { down + 1.0 } else { down }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_go_down() {
        let quotients = |a, b| (whole(Op::FloorDiv, a, b).unwrap(), whole(Op::Mod, a, b).unwrap());
        assert_eq!(quotients(7, 2), (Some(3), Some(1)));
        assert_eq!(quotients(-7, 2), (Some(-4), Some(1)));
        assert_eq!(quotients(7, -2), (Some(-4), Some(-1)));
        assert_eq!(quotients(-7, -2), (Some(3), Some(-1)));
        assert_eq!(quotients(7, 0), (None, None));
        assert_eq!(quotients(i64::MIN, 3), (Some(-3_074_457_345_618_258_603), Some(1)));
        assert_eq!(whole(Op::Mod, i64::MIN, -1).unwrap(), Some(0));
        assert!(whole(Op::FloorDiv, i64::MIN, -1).is_err());
        assert_eq!((float(Op::FloorDiv, 1.0, 0.1), float(Op::FloorDiv, -7.5, 2.0)), (9.0, -4.0));
        assert_eq!((float(Op::Mod, -7.5, 2.0), float(Op::Mod, 7.5, -2.0)), (0.5, -0.5));
        assert_eq!(float(Op::FloorDiv, 1.0, 0.0), f64::INFINITY);
        assert!(float(Op::Mod, 1.0, 0.0).is_nan());
    }
}
