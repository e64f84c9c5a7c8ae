//! Literals as scalar values.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::ScalarValue;
use datafusion_substrait::substrait::proto::expression::Literal;
use datafusion_substrait::substrait::proto::expression::literal::interval_day_to_second::PrecisionMode;
use datafusion_substrait::substrait::proto::expression::literal::{
    IntervalDayToSecond, IntervalYearToMonth, LiteralType,
};

use super::types::{data_type, decimal_digits, unit};
use crate::declarations::Declarations;
use crate::error::{Result, invalid, required, unsupported};

/// The value of a literal.
pub(crate) fn literal(literal: &Literal, declarations: &Declarations) -> Result<ScalarValue> {
    let unsigned = match literal.type_variation_reference {
        0 => false,
        1 => true,
        // DataFusion's plans mark strings and bytes with variations for Arrow's representation.
        2 if matches!(literal.literal_type, Some(LiteralType::String(_) | LiteralType::Binary(_))) => false,
        other => return unsupported(format!("type variation {other} of a literal")),
    };
    let value = required(literal.literal_type.as_ref(), "the value of a literal")?;
    #[allow(deprecated, reason = "plans of earlier versions hold these literals")]
    Ok(match value {
        LiteralType::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        LiteralType::I8(value) if unsigned => ScalarValue::UInt8(Some(in_range(*value, "u8")?)),
        LiteralType::I8(value) => ScalarValue::Int8(Some(in_range(*value, "i8")?)),
        LiteralType::I16(value) if unsigned => ScalarValue::UInt16(Some(in_range(*value, "u16")?)),
        LiteralType::I16(value) => ScalarValue::Int16(Some(in_range(*value, "i16")?)),
        // The sign bit is the highest bit of the number.
        LiteralType::I32(value) if unsigned => ScalarValue::UInt32(Some(*value as u32)),
        LiteralType::I32(value) => ScalarValue::Int32(Some(*value)),
        LiteralType::I64(value) if unsigned => ScalarValue::UInt64(Some(*value as u64)),
        LiteralType::I64(value) => ScalarValue::Int64(Some(*value)),
        LiteralType::Fp32(value) => ScalarValue::Float32(Some(*value)),
        LiteralType::Fp64(value) => ScalarValue::Float64(Some(*value)),
        LiteralType::String(text) | LiteralType::FixedChar(text) => ScalarValue::Utf8(Some(text.clone())),
        LiteralType::VarChar(text) => ScalarValue::Utf8(Some(text.value.clone())),
        LiteralType::Binary(bytes) => ScalarValue::Binary(Some(bytes.clone())),
        LiteralType::FixedBinary(bytes) => fixed_binary(bytes)?,
        LiteralType::Uuid(bytes) if bytes.len() == 16 => fixed_binary(bytes)?,
        LiteralType::Uuid(bytes) => return invalid(format!("a UUID of {} bytes", bytes.len())),
        LiteralType::Date(days) => ScalarValue::Date32(Some(*days)),
        LiteralType::Timestamp(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
        LiteralType::TimestampTz(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), Some("UTC".into())),
        LiteralType::PrecisionTimestamp(time) => timestamp(time.precision, time.value, None)?,
        LiteralType::PrecisionTimestampTz(time) => timestamp(time.precision, time.value, Some("UTC"))?,
        LiteralType::Time(micros) => ScalarValue::Time64Microsecond(Some(*micros)),
        LiteralType::PrecisionTime(time) => time_of_day(time.precision, time.value)?,
        LiteralType::IntervalYearToMonth(interval) => months(interval).and_then(|months| interval_of(months, 0, 0))?,
        LiteralType::IntervalDayToSecond(interval) => days(interval).and_then(|(d, n)| interval_of(0, d, n))?,
        LiteralType::IntervalCompound(interval) => {
            let months = interval.interval_year_to_month.as_ref().map_or(Ok(0), months)?;
            let (days, nanos) = interval.interval_day_to_second.as_ref().map_or(Ok((0, 0)), days)?;
            interval_of(months, days, nanos)?
        }
        LiteralType::Decimal(value) => {
            let Ok(bytes) = <[u8; 16]>::try_from(value.value.as_slice()) else {
                return invalid(format!("a decimal literal of {} bytes, not 16", value.value.len()));
            };
            decimal_value(i128::from_le_bytes(bytes), value.precision, value.scale)?
        }
        LiteralType::Null(ty) => ScalarValue::try_from(&data_type(ty, declarations)?)?,
        LiteralType::Struct(_) => return unsupported("struct literal"),
        LiteralType::Map(_) | LiteralType::EmptyMap(_) => return unsupported("map literal"),
        LiteralType::List(_) | LiteralType::EmptyList(_) => return unsupported("list literal"),
        LiteralType::UserDefined(_) => return unsupported("user-defined literal"),
    })
}

fn decimal_value(value: i128, precision: i32, scale: i32) -> Result<ScalarValue> {
    let (digits, scale) = decimal_digits(precision, scale)?;
    match value.unsigned_abs() < 10_u128.pow(u32::from(digits)) {
        true => Ok(ScalarValue::Decimal128(Some(value), digits, scale)),
        false => invalid(format!("a decimal literal has more than its {precision} digits")),
    }
}

fn in_range<T: TryFrom<i32>>(value: i32, ty: &str) -> Result<T> {
    T::try_from(value).or_else(|_| invalid(format!("the literal {value} is not of type {ty}")))
}

fn fixed_binary(bytes: &[u8]) -> Result<ScalarValue> {
    let size = i32::try_from(bytes.len()).or_else(|_| invalid("a fixedbinary literal of more than 2 GB"))?;
    Ok(ScalarValue::FixedSizeBinary(size, Some(bytes.to_vec())))
}

fn timestamp(precision: i32, value: i64, zone: Option<&str>) -> Result<ScalarValue> {
    use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let zone = zone.map(Into::into);
    Ok(match unit(precision)? {
        Second => ScalarValue::TimestampSecond(Some(value), zone),
        Millisecond => ScalarValue::TimestampMillisecond(Some(value), zone),
        Microsecond => ScalarValue::TimestampMicrosecond(Some(value), zone),
        Nanosecond => ScalarValue::TimestampNanosecond(Some(value), zone),
    })
}

fn time_of_day(precision: i32, value: i64) -> Result<ScalarValue> {
    use arrow::datatypes::TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let short = || i32::try_from(value).or_else(|_| invalid(format!("the time literal {value} is beyond a day")));
    Ok(match unit(precision)? {
        Second => ScalarValue::Time32Second(Some(short()?)),
        Millisecond => ScalarValue::Time32Millisecond(Some(short()?)),
        Microsecond => ScalarValue::Time64Microsecond(Some(value)),
        Nanosecond => ScalarValue::Time64Nanosecond(Some(value)),
    })
}

fn interval_of(months: i32, days: i32, nanoseconds: i64) -> Result<ScalarValue> {
    Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months, days, nanoseconds })))
}

fn months(interval: &IntervalYearToMonth) -> Result<i32> {
    let months = interval.years.checked_mul(12).and_then(|months| months.checked_add(interval.months));
    required(months, "an interval that fits 32 bits of months")
}

/// Days and nanoseconds.
fn days(interval: &IntervalDayToSecond) -> Result<(i32, i64)> {
    #[allow(deprecated, reason = "plans of earlier versions hold microseconds")]
    let (digits, fraction) = match interval.precision_mode {
        Some(PrecisionMode::Precision(digits)) => (digits, interval.subseconds),
        Some(PrecisionMode::Microseconds(micros)) => (6, i64::from(micros)),
        None => (0, interval.subseconds),
    };
    let Some(shift @ 0..=9) = 9_i32.checked_sub(digits) else {
        return unsupported(format!("interval with {digits} digits after the second"));
    };
    let fraction = fraction.checked_mul(10_i64.pow(shift as u32));
    let nanos = fraction.and_then(|nanos| (i64::from(interval.seconds) * 1_000_000_000).checked_add(nanos));
    Ok((interval.days, required(nanos, "an interval that fits 64 bits of nanoseconds")?))
}

#[cfg(test)]
mod tests {
    use datafusion_substrait::substrait::proto::expression::literal::Decimal;

    use super::*;
    use crate::SubstraitError;

    fn read(value: LiteralType) -> Result<ScalarValue> {
        literal(&Literal { literal_type: Some(value), ..Literal::default() }, &Declarations::default())
    }

    fn decimal_literal(value: i128, precision: i32, scale: i32) -> LiteralType {
        LiteralType::Decimal(Decimal { value: value.to_le_bytes().to_vec(), precision, scale })
    }

    #[test]
    fn values_keep_their_types() {
        assert_eq!(read(decimal_literal(-1234, 5, 2)).unwrap(), ScalarValue::Decimal128(Some(-1234), 5, 2));
        assert_eq!(read(LiteralType::FixedChar("ab".into())).unwrap(), ScalarValue::from("ab"));
        let interval = IntervalDayToSecond {
            days: 2,
            seconds: -1,
            subseconds: 5,
            precision_mode: Some(PrecisionMode::Precision(3)),
        };
        let expected = IntervalMonthDayNano { months: 0, days: 2, nanoseconds: -995_000_000 };
        assert_eq!(
            read(LiteralType::IntervalDayToSecond(interval)).unwrap(),
            ScalarValue::IntervalMonthDayNano(Some(expected))
        );
    }

    #[test]
    fn impossible_values_are_refused() {
        let cases = [
            LiteralType::I8(200),
            LiteralType::I16(-40_000),
            decimal_literal(100, 2, 0),
            decimal_literal(1, 39, 0),
            decimal_literal(1, 2, 3),
            LiteralType::Decimal(Decimal { value: vec![1], precision: 3, scale: 1 }),
            LiteralType::Uuid(vec![0; 15]),
            LiteralType::IntervalYearToMonth(IntervalYearToMonth { years: i32::MAX, months: 0 }),
        ];
        for case in cases {
            assert!(matches!(read(case.clone()), Err(SubstraitError::Invalid(_))), "{case:?}");
        }
    }
}
