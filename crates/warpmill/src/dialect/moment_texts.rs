//! Dates, times of the day and moments in texts, as DuckDB reads and writes them.
//!
//! Years are those of the Gregorian calendar before it was made, too, and the year before 1 is 1 BC.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{Result, ScalarValue, not_impl_err};

use super::interval_texts;
use super::operators::strict_cast;

const NANOS_OF_SECOND: i64 = 1_000_000_000;
const NANOS_OF_DAY: i64 = 86_400 * NANOS_OF_SECOND;

/// The years of which all functions of dates know the days.
const YEARS: std::ops::RangeInclusive<i64> = -262_142..=262_141;

/// Whether [`read`] is about texts that are to be of this type.
pub(super) fn is_read(to: &DataType) -> bool {
    matches!(to, DataType::Date32 | DataType::Time64(_) | DataType::Interval(IntervalUnit::MonthDayNano))
        || matches!(to, DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, _))
}

/// The date, time, moment or interval that DuckDB reads in `text`; `None` where that is none.
///
/// # Errors
/// Values that DuckDB has, and that are none here: infinite ones, years that are far away, the end of a day as a time.
pub(super) fn read(text: &str, to: &DataType) -> Result<Option<ScalarValue>> {
    if matches!(to, DataType::Interval(_)) {
        let interval = interval_texts::read(text)?;
        return Ok(interval.map(|interval| ScalarValue::IntervalMonthDayNano(Some(interval))));
    }
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if let "infinity" | "-infinity" | "inf" | "-inf" = trimmed.to_ascii_lowercase().as_str()
        && !matches!(to, DataType::Time64(_))
    {
        return not_impl_err!("the infinite moment {trimmed:?}");
    }
    let epoch = trimmed.eq_ignore_ascii_case("epoch");
    let moment = if epoch { Some(Moment::default()) } else { Reader::new(text).moment() };
    if let Some(days) = moment.as_ref().map(|moment| moment.days)
        && !matches!(to, DataType::Time64(_))
        && !YEARS.contains(&civil(days).0)
    {
        return not_impl_err!("the date in {text:?}: years are between {} and {}", YEARS.start(), YEARS.end());
    }
    Ok(match to {
        DataType::Date32 => moment.and_then(|moment| {
            let days = moment.days + moment.nanos / NANOS_OF_DAY;
            Some(ScalarValue::Date32(Some(days.try_into().ok()?)))
        }),
        DataType::Time64(unit) => {
            let nanos = Reader::new(text).time_of_day().or(moment.map(|moment| moment.nanos % NANOS_OF_DAY));
            if nanos == Some(NANOS_OF_DAY) {
                return not_impl_err!("the time 24:00:00");
            }
            nanos.map(|nanos| match unit {
                TimeUnit::Nanosecond => ScalarValue::Time64Nanosecond(Some(nanos)),
                _ => ScalarValue::Time64Microsecond(Some(nanos / 1_000)),
            })
        }
        to => moment.and_then(|moment| moment.of_type(to)),
    })
}

/// Whether Arrow's parsers read a text as [`read`] does: a date, or a date and a time to the second, in full; a number of one unit.
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

/// A moment that a text writes.
#[derive(Default)]
struct Moment<'t> {
    /// Days since 1970.
    days: i64,
    /// Nanoseconds of the day; of a whole day at its end.
    nanos: i64,
    zone: Zone<'t>,
}

/// The time zone that a text names.
#[derive(Default)]
enum Zone<'t> {
    #[default]
    None,
    /// Seconds east of UTC.
    Offset(i64),
    Name(&'t str),
}

impl Moment<'_> {
    /// The value of a type of moments.
    fn of_type(&self, to: &DataType) -> Option<ScalarValue> {
        let DataType::Timestamp(unit, zone) = to else { return None };
        let offset = match (zone, &self.zone) {
            (None, _) | (_, Zone::None) => 0,
            (Some(_), Zone::Offset(seconds)) => *seconds,
            (Some(_), Zone::Name(name)) => match name.to_ascii_lowercase().as_str() {
                "utc" | "z" | "gmt" | "etc/utc" => 0,
                _ => return self.in_zone(name, to),
            },
        };
        let (per_second, nanos) = match unit {
            TimeUnit::Nanosecond => (NANOS_OF_SECOND, self.nanos),
            _ => (1_000_000, self.nanos / 1_000),
        };
        let at = self.days.checked_mul(86_400 * per_second)?.checked_add(nanos)?;
        let at = at.checked_sub(offset.checked_mul(per_second)?).filter(|at| *at < i64::MAX)?;
        Some(match unit {
            TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(at), zone.clone()),
            _ => ScalarValue::TimestampMicrosecond(Some(at), zone.clone()),
        })
    }

    /// The moment at which clocks of a zone that Arrow knows by name show this one.
    fn in_zone(&self, name: &str, to: &DataType) -> Option<ScalarValue> {
        let micros = self.days.checked_mul(NANOS_OF_DAY / 1_000)?.checked_add(self.nanos / 1_000)?;
        let text: ArrayRef = Arc::new(StringArray::from(vec![format!("{} {name}", of_moment(micros))]));
        ScalarValue::try_from_array(&strict_cast(&text, to).ok()?, 0).ok()
    }
}

/// Hours, minutes and seconds that a text writes.
pub(super) struct Time {
    pub(super) hour: i64,
    /// Nanoseconds of the hour.
    pub(super) nanos: i64,
    /// Whether seconds are written.
    pub(super) seconds: bool,
}

/// Reads a text from its beginning.
pub(super) struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut reader = Reader { text, at: 0 };
        reader.spaces();
        reader
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn spaces(&mut self) -> bool {
        let start = self.at;
        while self.next().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at > start
    }

    /// A number of up to `most` digits.
    pub(super) fn number(&mut self, most: usize) -> Option<i64> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &self.text[self.at..self.at + length];
        self.at += length;
        digits.parse().ok()
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.spaces();
        self.next().is_none()
    }

    /// A date with one kind of mark between its parts, in days since 1970.
    fn date(&mut self) -> Option<i64> {
        let negative = self.eat(b'-');
        let year = self.number(9)?;
        let mark = self.next().filter(|mark| matches!(mark, b'-' | b'/' | b'\\' | b' '))?;
        self.at += 1;
        let month = self.number(2)?;
        if !self.eat(mark) {
            return None;
        }
        let day = self.number(2).filter(|_| !self.next().is_some_and(|byte| byte.is_ascii_digit()))?;
        let before = self.text.get(self.at..self.at + 5).is_some_and(|text| text.eq_ignore_ascii_case(" (bc)"));
        let year = match (before, negative) {
            (true, true) => return None,
            (true, false) if year == 0 => return None,
            (true, false) => 1 - year,
            (false, true) => -year,
            (false, false) => year,
        };
        self.at += if before { 5 } else { 0 };
        let exists = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
        exists.then(|| days(year, month, day))
    }

    /// A word of letters.
    pub(super) fn word(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    /// The digits after a point, as a number of `digits` digits.
    pub(super) fn fraction(&mut self, digits: usize) -> Option<i64> {
        let start = self.at;
        while self.next().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let zeros = std::iter::repeat('0');
        self.text[start..self.at].chars().chain(zeros).take(digits).collect::<String>().parse().ok()
    }

    /// Hours, minutes and seconds: what is missing after a colon is 0. Where there are none, nothing is read.
    pub(super) fn time(&mut self) -> Option<Time> {
        let start = self.at;
        let time = self.parts_of_time();
        if time.is_none() {
            self.at = start;
        }
        time
    }

    fn parts_of_time(&mut self) -> Option<Time> {
        let hour = self.number(10)?;
        if !self.eat(b':') {
            return None;
        }
        let part = |reader: &mut Self| match reader.next() {
            Some(byte) if byte.is_ascii_digit() => reader.number(2),
            Some(byte) if !byte.is_ascii_whitespace() => None,
            _ => Some(0),
        };
        let minute = part(self)?;
        let seconds = self.eat(b':');
        let second = if seconds { part(self)? } else { 0 };
        let fraction = if seconds && self.eat(b'.') { self.fraction(9)? } else { 0 };
        let nanos = (minute * 60 + second) * NANOS_OF_SECOND + fraction;
        (minute < 60 && second < 60).then_some(Time { hour, nanos, seconds })
    }

    /// A time of the day, in nanoseconds, and whether it has seconds.
    fn clock(&mut self) -> Option<(i64, bool)> {
        let time = self.time().filter(|time| time.hour <= 24)?;
        let nanos = time.hour * 3600 * NANOS_OF_SECOND + time.nanos;
        (nanos <= NANOS_OF_DAY).then_some((nanos, time.seconds))
    }

    /// A whole text as a time: what follows a second is not read.
    fn time_of_day(&mut self) -> Option<i64> {
        let (nanos, seconds) = self.clock()?;
        (seconds || self.is_at_end()).then_some(nanos)
    }

    /// A whole text as a moment.
    fn moment(&mut self) -> Option<Moment<'t>> {
        let days = self.date()?;
        if self.text[self.at..].bytes().all(|byte| byte.is_ascii_whitespace()) {
            return Some(Moment { days, ..Moment::default() });
        }
        if !self.eat(b'T') && !self.spaces() {
            return None;
        }
        self.spaces();
        let (nanos, _) = self.clock()?;
        let zone = self.zone()?;
        self.is_at_end().then_some(Moment { days, nanos, zone })
    }

    fn zone(&mut self) -> Option<Zone<'t>> {
        if self.eat(b'Z') {
            return Some(Zone::Offset(0));
        }
        let apart = self.spaces();
        match self.next() {
            None => Some(Zone::None),
            Some(sign @ (b'+' | b'-')) => {
                self.at += 1;
                let size = self.offset()?;
                Some(Zone::Offset(if sign == b'-' { -size } else { size }))
            }
            Some(_) if apart => {
                let rest = &self.text[self.at..];
                let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '+' | '-');
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                self.at += end;
                (end > 0).then(|| Zone::Name(&rest[..end]))
            }
            Some(_) => None,
        }
    }

    /// `HH`, `HH:MM`, `HHMM` or `HH:MM:SS` in seconds.
    fn offset(&mut self) -> Option<i64> {
        let two = |reader: &mut Self| {
            let start = reader.at;
            reader.number(2).filter(|_| reader.at == start + 2)
        };
        let mut total = two(self)? * 3600;
        for unit in [60, 1] {
            let marked = self.eat(b':');
            if !marked && !self.next().is_some_and(|byte| byte.is_ascii_digit()) {
                break;
            }
            total += two(self)? * unit;
        }
        Some(total)
    }
}

/// The number of days from 1970 to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that a leap day is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a date.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A date, in days since 1970.
pub(super) fn of_date(days: i64) -> String {
    match civil(days) {
        (year @ ..=0, month, day) => format!("{:04}-{month:02}-{day:02} (BC)", 1 - year),
        (year, month, day) => format!("{year:04}-{month:02}-{day:02}"),
    }
}

/// The time of a day, with as many digits of its second as are not 0.
pub(super) fn of_time(micros: i64) -> String {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match fraction {
        0 => text,
        fraction => format!("{text}.{}", format!("{fraction:06}").trim_end_matches('0')),
    }
}

/// A moment, with as many digits of its second as are not 0.
pub(super) fn of_moment(micros: i64) -> String {
    const DAY: i64 = NANOS_OF_DAY / 1_000;
    format!("{} {}", of_date(micros.div_euclid(DAY)), of_time(micros.rem_euclid(DAY)))
}

/// [`of_moment`] of nanoseconds.
pub(super) fn of_nanos(nanos: i64) -> String {
    if nanos % 1_000 == 0 {
        return of_moment(nanos / 1_000);
    }
    let (second, fraction) = (nanos.div_euclid(NANOS_OF_SECOND), nanos.rem_euclid(NANOS_OF_SECOND));
    format!("{}.{}", of_moment(second * 1_000_000), format!("{fraction:09}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    fn date(text: &str) -> Option<String> {
        match read(text, &DataType::Date32).unwrap() {
            Some(ScalarValue::Date32(Some(days))) => Some(of_date(days.into())),
            _ => None,
        }
    }

    fn moment(text: &str, to: &DataType) -> Option<String> {
        match read(text, to).unwrap() {
            Some(ScalarValue::TimestampMicrosecond(Some(micros), _)) => Some(of_moment(micros)),
            _ => None,
        }
    }

    #[test]
    fn dates_are_read_in_several_spellings() {
        for (text, read) in [
            ("1990/12/21", "1990-12-21"),
            (" 1990 12 21 ", "1990-12-21"),
            ("1990-1-2", "1990-01-02"),
            ("1990-12-21 10:00", "1990-12-21"),
            ("-1993-08-14", "1994-08-14 (BC)"),
            ("1994-08-14 (bc)", "1994-08-14 (BC)"),
            ("0-1-1", "0001-01-01 (BC)"),
            ("30000-01-01", "30000-01-01"),
            ("1992-02-29", "1992-02-29"),
            ("epoch", "1970-01-01"),
        ] {
            assert_eq!(date(text).as_deref(), Some(read), "{text:?}");
        }
        for text in [
            "1990-12/21",
            "1990-02-29",
            "1990-13-01",
            "1990-12",
            "19901221",
            "1990-01-001",
            "+1990-01-01",
            "",
            "1990-12-21x",
        ] {
            assert_eq!(date(text), None, "{text:?}");
        }
        assert!(read("infinity", &DataType::Date32).is_err() && read("5881580-07-10", &DataType::Date32).is_err());
    }

    #[test]
    fn moments_have_zones_that_timestamps_do_not_read() {
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (text, plain, at) in [
            ("1990-12-21 10:20:30+02", "1990-12-21 10:20:30", "1990-12-21 08:20:30"),
            ("1990-12-21T10:20:30.5Z", "1990-12-21 10:20:30.5", "1990-12-21 10:20:30.5"),
            ("1990-12-21 10:20 -0230", "1990-12-21 10:20:00", "1990-12-21 12:50:00"),
            ("1990-12-21 24:00:00 utc", "1990-12-22 00:00:00", "1990-12-22 00:00:00"),
            ("1990-12-21 10:20:30.1234567", "1990-12-21 10:20:30.123456", "1990-12-21 10:20:30.123456"),
            ("1990-12-21 (BC) 1:2:3", "1990-12-21 (BC) 01:02:03", "1990-12-21 (BC) 01:02:03"),
        ] {
            assert_eq!(moment(text, &MOMENT).as_deref(), Some(plain), "{text:?}");
            assert_eq!(moment(text, &zoned).as_deref(), Some(at), "{text:?}");
        }
        for text in
            ["1990-12-21 10", "1990-12-21 25:00:00", "1990-12-21 10:60", "1990-12-21 10:20:30+2", "x", "10:20:30"]
        {
            assert_eq!(moment(text, &MOMENT), None, "{text:?}");
        }
    }

    #[test]
    fn times_are_read_up_to_their_seconds() {
        let time = |text: &str| match read(text, &DataType::Time64(TimeUnit::Microsecond)).unwrap() {
            Some(ScalarValue::Time64Microsecond(Some(micros))) => Some(of_time(micros)),
            _ => None,
        };
        for (text, read) in [
            ("11:", "11:00:00"),
            (" 1:1 ", "01:01:00"),
            ("11:11:11.5 x", "11:11:11.5"),
            ("2020-01-01 10:20", "10:20:00"),
            ("2020-01-01", "00:00:00"),
        ] {
            assert_eq!(time(text).as_deref(), Some(read), "{text:?}");
        }
        for text in ["11", "11:60", "11:11x", "11:11 AM", "24:00:01", "-1:11", "120000"] {
            assert_eq!(time(text), None, "{text:?}");
        }
        assert!(read("24:00:00", &DataType::Time64(TimeUnit::Microsecond)).is_err());
    }

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        for day in (-100_000_000..100_000_000).step_by(9_973) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
        assert_eq!((civil(0), civil(-719_468)), ((1970, 1, 1), (0, 3, 1)));
        assert_eq!((of_moment(0), of_moment(-500_000)), ("1970-01-01 00:00:00".into(), "1969-12-31 23:59:59.5".into()));
    }
}
