//! Parser for intervals in DuckDB's syntax: `2 years 3 days`, `1d2h`, `1 day 04:05:06`, `90 min ago`.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, not_impl_err};

use warpmill_ir::scalar::moments::Reader;

const MICROS_OF_SECOND: i64 = 1_000_000;

/// Parses the interval in `text`; `None` if it is invalid.
///
/// # Errors
/// An interval with too many hours.
pub(super) fn read(text: &str) -> Result<Option<IntervalMonthDayNano>> {
    let Some(sums) = sums(text) else { return Ok(None) };
    match sums.micros.checked_mul(1_000) {
        Some(nanos) => Ok(Some(IntervalMonthDayNano::new(sums.months, sums.days, nanos))),
        None => not_impl_err!("the interval {text:?}: it has more than {} hours", i64::MAX / 3_600_000_000_000),
    }
}

#[derive(Default)]
struct Sums {
    months: i32,
    days: i32,
    micros: i64,
}

/// A number before a unit.
struct Count {
    whole: i64,
    /// In units of 1 / [`Count::ONE`], with the sign of the whole.
    fraction: i128,
}

fn sums(text: &str) -> Option<Sums> {
    let mut reader = Reader::new(text);
    reader.eat(b'@');
    let (mut sums, mut empty) = (Sums::default(), true);
    while !reader.is_at_end() {
        if !empty && reader.word().is_some_and(|word| word.eq_ignore_ascii_case("ago")) {
            let ago = Sums {
                months: sums.months.checked_neg()?,
                days: sums.days.checked_neg()?,
                micros: sums.micros.checked_neg()?,
            };
            return reader.is_at_end().then_some(ago);
        }
        let negative = reader.eat(b'-');
        let sign = if negative { -1 } else { 1 };
        if let Some(clock) = reader.time() {
            let hours = clock.hour.checked_mul(3_600 * MICROS_OF_SECOND)?;
            let micros = hours.checked_add(clock.nanos / 1_000)?;
            sums.micros = sums.micros.checked_add(sign * micros)?;
            return (clock.seconds || reader.is_at_end()).then_some(sums);
        }
        let count = count(&mut reader, sign)?;
        reader.spaces();
        match reader.word() {
            Some(unit) => sums.add(&unit.to_ascii_lowercase(), &count)?,
            // A number alone is of seconds.
            None if empty && reader.is_at_end() => sums.add("s", &count)?,
            None => return None,
        }
        empty = false;
    }
    (!empty).then_some(sums)
}

fn count(reader: &mut Reader<'_>, sign: i64) -> Option<Count> {
    let whole = reader.number(usize::MAX)?.checked_mul(sign)?;
    let fraction = if reader.eat(b'.') { reader.fraction(18)? * sign } else { 0 };
    Some(Count { whole, fraction: fraction.into() })
}

impl Sums {
    fn add(&mut self, unit: &str, count: &Count) -> Option<()> {
        match unit {
            "year" | "years" | "yr" | "yrs" | "y" => self.add_months(count, 12),
            "month" | "months" | "mon" | "mons" => {
                self.add_months(&Count { fraction: 0, ..*count }, 1)?;
                self.add("days", &count.rest(30))
            }
            "quarter" | "quarters" => {
                self.add_months(&Count { fraction: 0, ..*count }, 3)?;
                self.add("months", &count.rest(3))
            }
            "decade" | "decades" | "dec" | "decs" => self.add_months(count, 120),
            "century" | "centuries" | "cent" | "c" => self.add_months(count, 1_200),
            "millennium" | "millenniums" | "millennia" | "mil" | "mils" | "millenium" => self.add_months(count, 12_000),
            "day" | "days" | "d" | "dayofmonth" => {
                self.add_days(count.whole)?;
                self.add_micros(&Count { whole: 0, ..*count }, 86_400 * MICROS_OF_SECOND)
            }
            "week" | "weeks" | "w" | "weekofyear" => {
                self.add_days(count.whole.checked_mul(7)?)?;
                self.add("days", &count.rest(7))
            }
            "hour" | "hours" | "hr" | "hrs" | "h" => self.add_micros(count, 3_600 * MICROS_OF_SECOND),
            "minute" | "minutes" | "min" | "mins" | "m" => self.add_micros(count, 60 * MICROS_OF_SECOND),
            "second" | "seconds" | "sec" | "secs" | "s" => self.add_micros(count, MICROS_OF_SECOND),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => {
                self.add_micros(count, 1_000)
            }
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" => {
                self.add_micros(&Count { fraction: 0, ..*count }, 1)
            }
            _ => None,
        }
    }

    fn add_months(&mut self, count: &Count, each: i64) -> Option<()> {
        self.months = self.months.checked_add(count.times(each)?.try_into().ok()?)?;
        Some(())
    }

    fn add_days(&mut self, whole: i64) -> Option<()> {
        self.days = self.days.checked_add(whole.try_into().ok()?)?;
        Some(())
    }

    fn add_micros(&mut self, count: &Count, each: i64) -> Option<()> {
        self.micros = self.micros.checked_add(count.times(each)?)?;
        Some(())
    }
}

impl Count {
    const ONE: i128 = 1_000_000_000_000_000_000;

    /// The count multiplied by `each`, rounded to the nearest integer.
    fn times(&self, each: i64) -> Option<i64> {
        let part = self.fraction * i128::from(each);
        let rounded = i64::try_from((part.abs() * 2 + Self::ONE) / (2 * Self::ONE)).ok()?;
        self.whole.checked_mul(each)?.checked_add(if part < 0 { -rounded } else { rounded })
    }

    /// The fraction multiplied by `each`.
    fn rest(&self, each: i64) -> Self {
        let part = self.fraction * i128::from(each);
        Self { whole: (part / Self::ONE) as i64, fraction: part % Self::ONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::text::of_interval;

    #[test]
    fn intervals_have_many_spellings() {
        for (text, interval) in [
            ("2Y 4 days 1 MinUteS 3S 20mS 16uS ago", "-2 years -4 days -00:01:03.020016"),
            ("31.123456789", "00:00:31.123457"),
            ("-5", "-00:00:05"),
            ("1.5 month", "1 month 15 days"),
            ("1.5 quarter", "4 months 15 days"),
            ("0.05 month", "1 day 12:00:00"),
            ("0.0000000005 day", "00:00:00.000043"),
            ("1.55 years", "1 year 7 months"),
            ("1.5 week", "10 days 12:00:00"),
            ("1.05 week", "7 days 08:24:00"),
            ("1.999999999 days", "1 day 23:59:59.999914"),
            ("1day-2hours", "1 day -02:00:00"),
            ("@1 day", "1 day"),
            ("1 day -1:2:3.5", "1 day -01:02:03.5"),
            ("100:00:00", "100:00:00"),
            ("00:00:", "00:00:00"),
            ("1 month 1 month", "2 months"),
        ] {
            assert_eq!(read(text).unwrap().map(of_interval).as_deref(), Some(interval), "{text:?}");
        }
        for text in ["", " ", "+5", "ago", "1 x", "1 day 2", "1 year 2", "25:61:00", ".5", "--1 day", "1 day,2 hours"] {
            assert_eq!(read(text).unwrap(), None, "{text:?}");
        }
        assert!(read("999999999:54:32").is_err());
    }
}
