//! Dates, times of the day, moments and intervals of texts as values of Arrow's types.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue, not_impl_err};
use warpmill_ir::scalar::moments::{self, Moment, NANOS_OF_DAY, NANOS_OF_SECOND, Zone};

use super::interval_texts;
use super::operators::strict_cast;

/// Whether [`read`] supports texts for this type.
pub(super) fn is_read(to: &DataType) -> bool {
    matches!(to, DataType::Date32 | DataType::Time64(_) | DataType::Interval(IntervalUnit::MonthDayNano))
        || matches!(to, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _))
}

/// Parses `text` to a date, time, timestamp or interval in DuckDB's syntax; `None` if it is invalid.
///
/// # Errors
/// Valid DuckDB values that cannot be represented here: infinite ones, far years, 24:00 as a time.
pub(super) fn read(text: &str, to: &DataType) -> Result<Option<ScalarValue>> {
    if matches!(to, DataType::Interval(_)) {
        let interval = interval_texts::read(text)?;
        return Ok(interval.map(|interval| ScalarValue::IntervalMonthDayNano(Some(interval))));
    }
    if let DataType::Time64(unit) = to {
        return time_of_day(text, *unit);
    }
    let moment = Moment::read(text).map_err(|error| DataFusionError::NotImplemented(error.to_string()))?;
    Ok(moment.and_then(|moment| match to {
        DataType::Date32 => Some(ScalarValue::Date32(Some(moment.date()?))),
        DataType::Timestamp(unit, zone) => timestamp(&moment, *unit, zone.as_ref()),
        _ => None,
    }))
}

fn time_of_day(text: &str, unit: TimeUnit) -> Result<Option<ScalarValue>> {
    let nanos = moments::time_of_day(text);
    if nanos == Some(NANOS_OF_DAY) {
        return not_impl_err!("the time 24:00:00");
    }
    Ok(nanos.map(|nanos| match unit {
        TimeUnit::Nanosecond => ScalarValue::Time64Nanosecond(Some(nanos)),
        _ => ScalarValue::Time64Microsecond(Some(nanos / 1_000)),
    }))
}

/// A timestamp in local time, or, for a type with a zone, in UTC.
fn timestamp(moment: &Moment<'_>, unit: TimeUnit, zone: Option<&Arc<str>>) -> Option<ScalarValue> {
    let offset = match (zone, &moment.zone) {
        (None, _) | (_, Zone::None) => 0,
        (Some(_), Zone::Offset(seconds)) => *seconds,
        (Some(_), Zone::Name(name)) => match name.to_ascii_lowercase().as_str() {
            "utc" | "z" | "gmt" | "etc/utc" => 0,
            _ => return in_zone(moment, name, &DataType::Timestamp(unit, zone.cloned())),
        },
    };
    let per_second = if unit == TimeUnit::Nanosecond { NANOS_OF_SECOND } else { 1_000_000 };
    let at = moment.units(per_second)?.checked_sub(offset.checked_mul(per_second)?).filter(|at| *at < i64::MAX)?;
    Some(match unit {
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(at), zone.cloned()),
        _ => ScalarValue::TimestampMicrosecond(Some(at), zone.cloned()),
    })
}

/// The instant of this local time in a zone that Arrow knows by name.
fn in_zone(moment: &Moment<'_>, name: &str, to: &DataType) -> Option<ScalarValue> {
    let shown = moments::of_moment(moment.units(1_000_000)?);
    let text: ArrayRef = Arc::new(StringArray::from(vec![format!("{shown} {name}")]));
    ScalarValue::try_from_array(&strict_cast(&text, to).ok()?, 0).ok()
}

/// Whether Arrow's parsers read a text as [`read`] does: a full date, or a date and a time to the second; a number of one unit.
pub(super) fn is_plain(text: &str, to: &DataType) -> bool {
    let shape = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text
                .bytes()
                .zip(shape.bytes())
                .all(|(byte, of)| if of == b'0' { byte.is_ascii_digit() } else { byte == of })
    };
    match to {
        DataType::Date32 => shape(text, "0000-00-00"),
        DataType::Timestamp(_, None) => shape(text, "0000-00-00") || shape(text, "0000-00-00 00:00:00"),
        DataType::Interval(_) => text.split_once(' ').is_some_and(|(number, unit)| {
            // Nanoseconds of more hours have no 64 bits.
            let is_small = (1..=6).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
            is_small && ["year", "month", "day", "hour", "minute", "second"].contains(&unit)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    fn moment(text: &str, to: &DataType) -> Option<String> {
        match read(text, to).unwrap() {
            Some(ScalarValue::TimestampMicrosecond(Some(micros), _)) => Some(moments::of_moment(micros)),
            _ => None,
        }
    }

    #[test]
    fn moments_have_zones_that_timestamps_do_not_read() {
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (text, plain, at) in [
            ("1990-12-21 10:20:30+02", "1990-12-21 10:20:30", "1990-12-21 08:20:30"),
            ("1990-12-21T10:20:30.5Z", "1990-12-21 10:20:30.5", "1990-12-21 10:20:30.5"),
            ("1990-12-21 10:20 -0230", "1990-12-21 10:20:00", "1990-12-21 12:50:00"),
            ("1990-12-21 24:00:00 utc", "1990-12-22 00:00:00", "1990-12-22 00:00:00"),
            ("1990-12-21 10:20 Europe/Berlin", "1990-12-21 10:20:00", "1990-12-21 09:20:00"),
        ] {
            assert_eq!(moment(text, &MOMENT).as_deref(), Some(plain), "{text:?}");
            assert_eq!(moment(text, &zoned).as_deref(), Some(at), "{text:?}");
        }
    }

    #[test]
    fn what_has_no_value_is_refused() {
        for (text, to) in [
            ("infinity", DataType::Date32),
            ("5881580-07-10", DataType::Date32),
            ("24:00:00", DataType::Time64(TimeUnit::Microsecond)),
        ] {
            assert!(matches!(read(text, &to), Err(DataFusionError::NotImplemented(_))), "{text:?}");
        }
    }
}
