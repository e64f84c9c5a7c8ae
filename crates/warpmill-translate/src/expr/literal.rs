//! Constants.

use datafusion::common::ScalarValue;
use warpmill_ir::{ColType, Expr, Phys, Scalar};

/// A constant as an expression; `None` for types that the engine does not execute.
pub(super) fn literal(value: &ScalarValue) -> Option<Expr> {
    let logical = value.data_type();
    let ty = ColType::of(&logical, value.is_null())?;
    if value.is_null() {
        // NULL has no value, so any representation fits.
        let ty = if ty.phys.is_int() { ty.narrowed((0, 0)) } else { ty };
        return Some(Expr::literal(Scalar::Null, ty));
    }
    if let Some(string) = value.try_as_str() {
        return Some(Expr::literal(Scalar::Str(string?.into()), ty));
    }
    match value {
        ScalarValue::Boolean(Some(v)) => return Some(Expr::literal(Scalar::Bool(*v), ty)),
        ScalarValue::Float32(Some(v)) => return Some(Expr::literal(Scalar::Float(f64::from(*v)), ty)),
        ScalarValue::Float64(Some(v)) => return Some(Expr::literal(Scalar::Float(*v), ty)),
        _ => {}
    }
    let int = unscaled(value)?;
    Some(Expr::literal(Scalar::Int(int), ColType { phys: Phys::for_range((int, int)), range: Some((int, int)), ..ty }))
}

/// The unscaled integer of an integer-like value.
fn unscaled(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(Some(v)) => (*v).into(),
        ScalarValue::Int16(Some(v)) => (*v).into(),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) | ScalarValue::Decimal32(Some(v), ..) => (*v).into(),
        ScalarValue::Time32Second(Some(v)) | ScalarValue::Time32Millisecond(Some(v)) => (*v).into(),
        ScalarValue::Int64(Some(v))
        | ScalarValue::Date64(Some(v))
        | ScalarValue::Decimal64(Some(v), ..)
        | ScalarValue::Time64Microsecond(Some(v))
        | ScalarValue::Time64Nanosecond(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _)
        | ScalarValue::DurationSecond(Some(v))
        | ScalarValue::DurationMillisecond(Some(v))
        | ScalarValue::DurationMicrosecond(Some(v))
        | ScalarValue::DurationNanosecond(Some(v)) => (*v).into(),
        ScalarValue::UInt8(Some(v)) => (*v).into(),
        ScalarValue::UInt16(Some(v)) => (*v).into(),
        ScalarValue::UInt32(Some(v)) => (*v).into(),
        ScalarValue::UInt64(Some(v)) => (*v).into(),
        ScalarValue::Decimal128(Some(v), ..) => *v,
        _ => return None,
    })
}

/// Months, days and nanoseconds of a constant interval.
pub(crate) fn interval(value: &ScalarValue) -> Option<(i32, i32, i64)> {
    match value {
        ScalarValue::IntervalYearMonth(Some(months)) => Some((*months, 0, 0)),
        ScalarValue::IntervalDayTime(Some(v)) => Some((0, v.days, i64::from(v.milliseconds) * 1_000_000)),
        ScalarValue::IntervalMonthDayNano(Some(v)) => Some((v.months, v.days, v.nanoseconds)),
        _ => None,
    }
}
