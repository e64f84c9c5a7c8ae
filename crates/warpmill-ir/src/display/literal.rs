//! Constants in SQL notation: `DATE '1995-01-04'` and `10.00`, not their unscaled integers.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Date64Array, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::{ColType, Phys, Scalar};

/// Writes `value`, a constant of type `ty` or an element of a list compared with values of that type.
pub(super) fn literal(f: &mut Formatter<'_>, value: &Scalar, ty: &ColType) -> fmt::Result {
    match value {
        Scalar::Null => f.write_str("NULL"),
        Scalar::Bool(value) => write!(f, "{value}"),
        Scalar::Int(value) => f.write_str(&integer(*value, ty)),
        Scalar::Float(value) => write!(f, "{value:?}"),
        Scalar::Str(value) => f.write_str(&quoted(value)),
    }
}

/// A string in quotes.
pub(super) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

fn integer(value: i128, ty: &ColType) -> String {
    if ty.phys == Phys::Code {
        let code = u32::try_from(value).ok();
        let dictionary =
            ty.dictionary.as_ref().filter(|entries| code.is_some_and(|code| (code as usize) < entries.len()));
        return dictionary.zip(code).map_or_else(|| value.to_string(), |(entries, code)| quoted(entries.get(code)));
    }
    match &ty.logical {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            decimal(value, *scale)
        }
        logical => moment(value, logical).unwrap_or_else(|| value.to_string()),
    }
}

/// The unscaled `value` with its decimal point.
fn decimal(value: i128, scale: i8) -> String {
    let Ok(scale @ 1..) = usize::try_from(scale) else {
        return format!("{value}{}", "0".repeat((-scale).max(0) as usize));
    };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" })
}

/// A date, a time or a timestamp; `None` for other types, and for values outside of the calendar.
fn moment(value: i128, logical: &DataType) -> Option<String> {
    let (long, short) = (i64::try_from(value).ok()?, i32::try_from(value).ok());
    let zoned = |zone: &Option<Arc<str>>| if zone.is_some() { "TIMESTAMPTZ" } else { "TIMESTAMP" };
    let (name, array): (_, ArrayRef) = match logical {
        DataType::Date32 => ("DATE", Arc::new(Date32Array::from(vec![short?]))),
        DataType::Date64 => ("DATE", Arc::new(Date64Array::from(vec![long]))),
        DataType::Time32(TimeUnit::Second) => ("TIME", Arc::new(Time32SecondArray::from(vec![short?]))),
        DataType::Time32(_) => ("TIME", Arc::new(Time32MillisecondArray::from(vec![short?]))),
        DataType::Time64(TimeUnit::Microsecond) => ("TIME", Arc::new(Time64MicrosecondArray::from(vec![long]))),
        DataType::Time64(_) => ("TIME", Arc::new(Time64NanosecondArray::from(vec![long]))),
        DataType::Timestamp(unit, zone) => {
            let array: ArrayRef = match unit {
                TimeUnit::Second => Arc::new(TimestampSecondArray::from(vec![long])),
                TimeUnit::Millisecond => Arc::new(TimestampMillisecondArray::from(vec![long])),
                TimeUnit::Microsecond => Arc::new(TimestampMicrosecondArray::from(vec![long])),
                TimeUnit::Nanosecond => Arc::new(TimestampNanosecondArray::from(vec![long])),
            };
            (zoned(zone), array)
        }
        _ => return None,
    };
    let options = FormatOptions::default();
    let text = ArrayFormatter::try_new(array.as_ref(), &options).ok()?.value(0).try_to_string().ok()?;
    // Arrow writes ISO 8601; SQL has a blank between date and time.
    let text = text.replace('T', " ");
    let utc = if name == "TIMESTAMPTZ" { "+00" } else { "" };
    Some(format!("{name} '{text}{utc}'"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, TimeUnit};
    use warpmill_format::Dictionary;

    use super::integer;
    use crate::{ColType, Phys};

    fn shown(value: i128, logical: DataType) -> String {
        integer(value, &ColType::of(&logical, false).unwrap())
    }

    #[test]
    fn integers_are_what_they_mean() {
        assert_eq!(shown(-7, DataType::Int64), "-7");
        assert_eq!(shown(1000, DataType::Decimal128(15, 2)), "10.00");
        assert_eq!(shown(-5, DataType::Decimal128(15, 2)), "-0.05");
        assert_eq!(shown(12, DataType::Decimal128(15, 0)), "12");
        assert_eq!(shown(12, DataType::Decimal128(15, -2)), "1200");
        assert_eq!(shown(i128::MIN, DataType::Decimal128(38, 38)), "-1.70141183460469231731687303715884105728");
        assert_eq!(shown(9134, DataType::Date32), "DATE '1995-01-04'");
        assert_eq!(shown(i128::from(i32::MIN), DataType::Date32), i32::MIN.to_string());
        assert_eq!(shown(3_723_000_000, DataType::Time64(TimeUnit::Microsecond)), "TIME '01:02:03'");
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(shown(1_500_000, micros), "TIMESTAMP '1970-01-01 00:00:01.500'");
        let zoned = DataType::Timestamp(TimeUnit::Second, Some("Europe/Rome".into()));
        assert_eq!(shown(0, zoned), "TIMESTAMPTZ '1970-01-01 00:00:00+00'");
        assert_eq!(shown(i128::from(i64::MAX), DataType::Timestamp(TimeUnit::Second, None)), i64::MAX.to_string());
    }

    #[test]
    fn codes_are_the_strings_of_their_dictionary() {
        let dictionary = Arc::new(Dictionary::from_sorted(["it's", "so"]));
        let ty =
            ColType { phys: Phys::Code, dictionary: Some(dictionary), ..ColType::of(&DataType::Utf8, false).unwrap() };
        assert_eq!((integer(0, &ty), integer(1, &ty), integer(2, &ty)), ("'it''s'".into(), "'so'".into(), "2".into()));
    }
}
