//! Parsing and formatting of dates, times of day and timestamps in DuckDB's text format.
//!
//! Years are in the proleptic Gregorian calendar; the year before 1 is 1 BC.

use std::fmt;

use super::civil::{civil_wide, days_from_civil, days_of_month};

/// Nanoseconds of a second.
pub const NANOS_OF_SECOND: i64 = 1_000_000_000;
/// Nanoseconds of a day.
pub const NANOS_OF_DAY: i64 = 86_400 * NANOS_OF_SECOND;
const MICROS_OF_DAY: i64 = NANOS_OF_DAY / 1_000;

/// The years that all date functions support.
const YEARS: std::ops::RangeInclusive<i64> = -262_142..=262_141;

/// A valid DuckDB timestamp that cannot be represented here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrepresentable {
    /// Positive or negative infinity.
    Infinite(String),
    /// A year that date functions do not support.
    Year(String),
}

impl fmt::Display for Unrepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infinite(text) => write!(f, "the infinite moment {text:?}"),
            Self::Year(text) => {
                write!(f, "the date in {text:?}: years are between {} and {}", YEARS.start(), YEARS.end())
            }
        }
    }
}

/// A moment that a text writes.
#[derive(Debug, Default)]
pub struct Moment<'t> {
    /// Days since 1970.
    pub days: i64,
    /// Nanoseconds since midnight; a whole day for 24:00.
    pub nanos: i64,
    /// The time zone that the text names.
    pub zone: Zone<'t>,
}

/// A time zone, given by offset or name.
#[derive(Debug, Default)]
pub enum Zone<'t> {
    /// No time zone.
    #[default]
    None,
    /// Seconds east of UTC.
    Offset(i64),
    /// A zone with a name.
    Name(&'t str),
}

impl<'t> Moment<'t> {
    /// Parses `text`; `None` if it is not a timestamp.
    ///
    /// # Errors
    /// Infinite timestamps, unsupported years.
    pub fn read(text: &'t str) -> Result<Option<Self>, Unrepresentable> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
        if is_infinite(trimmed) {
            return Err(Unrepresentable::Infinite(trimmed.into()));
        }
        let moment = if is_epoch(trimmed) { Some(Moment::default()) } else { Reader::new(text).moment() };
        match moment {
            Some(moment) if !YEARS.contains(&civil_wide(moment.days).0) => Err(Unrepresentable::Year(text.into())),
            moment => Ok(moment),
        }
    }

    /// The date, in days since 1970.
    pub fn date(&self) -> Option<i32> {
        (self.days + self.nanos / NANOS_OF_DAY).try_into().ok()
    }

    /// Units since 1970 (`per_second` units each second) in the text's local time; `None` if it does not fit 64 bits.
    pub fn units(&self, per_second: i64) -> Option<i64> {
        let of_day = self.nanos / (NANOS_OF_SECOND / per_second);
        // The last one is infinite in DuckDB.
        self.days.checked_mul(86_400 * per_second)?.checked_add(of_day).filter(|units| *units < i64::MAX)
    }
}

fn is_infinite(text: &str) -> bool {
    let size = text.strip_prefix('-').unwrap_or(text);
    size.eq_ignore_ascii_case("infinity") || size.eq_ignore_ascii_case("inf")
}

fn is_epoch(text: &str) -> bool {
    text.eq_ignore_ascii_case("epoch")
}

/// Parses a time of day in `text`, or that of a timestamp, in nanoseconds; a whole day for 24:00.
pub fn time_of_day(text: &str) -> Option<i64> {
    if is_epoch(text.trim_matches(|c: char| c.is_ascii_whitespace())) {
        return Some(0);
    }
    Reader::new(text).time_of_day().or_else(|| Some(Reader::new(text).moment()?.nanos % NANOS_OF_DAY))
}

/// Hours, minutes and seconds that a text writes.
#[derive(Debug)]
pub struct Time {
    /// Hours; may exceed a day.
    pub hour: i64,
    /// Nanoseconds of the hour.
    pub nanos: i64,
    /// Whether seconds are written.
    pub seconds: bool,
}

/// Reads a text from its beginning.
#[derive(Debug)]
pub struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// A reader of `text` after its spaces.
    pub fn new(text: &'t str) -> Self {
        let mut reader = Reader { text, at: 0 };
        reader.spaces();
        reader
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads a byte, if it is the next one.
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads spaces. Returns whether there were any.
    pub fn spaces(&mut self) -> bool {
        let start = self.at;
        while self.next().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at > start
    }

    /// Reads a number of up to `most` digits; `None` also if it does not fit 64 bits.
    pub fn number(&mut self, most: usize) -> Option<i64> {
        let (mut number, start) = (Some(0_i64), self.at);
        while let Some(byte) = self.next().filter(|byte| byte.is_ascii_digit() && self.at - start < most) {
            number = number.and_then(|number| number.checked_mul(10)?.checked_add(i64::from(byte - b'0')));
            self.at += 1;
        }
        number.filter(|_| self.at > start)
    }

    /// Whether only spaces are left.
    pub fn is_at_end(&mut self) -> bool {
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
        let (month, day) = (month as u32, day as u32);
        let exists = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
        exists.then(|| days_from_civil(year, month, day))
    }

    /// A word of letters.
    pub fn word(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    /// Reads the digits after a point, as a number with `digits` digits.
    pub fn fraction(&mut self, digits: usize) -> Option<i64> {
        let start = self.at;
        while self.next().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let zeros = std::iter::repeat('0');
        self.text[start..self.at].chars().chain(zeros).take(digits).collect::<String>().parse().ok()
    }

    /// Reads hours, minutes and seconds; missing parts after a colon are 0. Without a time, reads nothing.
    pub fn time(&mut self) -> Option<Time> {
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

    /// Reads a time of day, in nanoseconds, and whether it has seconds.
    fn clock(&mut self) -> Option<(i64, bool)> {
        let time = self.time().filter(|time| time.hour <= 24)?;
        let nanos = time.hour * 3600 * NANOS_OF_SECOND + time.nanos;
        (nanos <= NANOS_OF_DAY).then_some((nanos, time.seconds))
    }

    /// Reads a whole text as a time; ignores everything after the seconds.
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

/// Formats a date, in days since 1970.
pub fn of_date(days: i64) -> String {
    written(days, put_date)
}

/// Formats a time of day, without trailing zeros of the seconds.
pub fn of_time(micros: i64) -> String {
    written(micros, put_time)
}

/// Formats a timestamp, in microseconds since 1970, without trailing zeros of the seconds.
pub fn of_moment(micros: i64) -> String {
    written(micros, put_moment)
}

/// [`of_moment`] of nanoseconds.
pub fn of_nanos(nanos: i64) -> String {
    written(nanos, put_nanos)
}

fn written(value: i64, put: fn(i64, &mut String)) -> String {
    let mut text = String::with_capacity(32);
    put(value, &mut text);
    text
}

/// Appends [`of_date`].
pub fn put_date(days: i64, text: &mut String) {
    let (year, month, day) = civil_wide(days);
    put_number(if year > 0 { year } else { 1 - year }, 4, text);
    text.push('-');
    put_number(month.into(), 2, text);
    text.push('-');
    put_number(day.into(), 2, text);
    if year <= 0 {
        text.push_str(" (BC)");
    }
}

/// Appends [`of_moment`].
pub fn put_moment(micros: i64, text: &mut String) {
    put_date(micros.div_euclid(MICROS_OF_DAY), text);
    text.push(' ');
    put_time(micros.rem_euclid(MICROS_OF_DAY), text);
}

/// Appends [`of_nanos`].
pub fn put_nanos(nanos: i64, text: &mut String) {
    put_date(nanos.div_euclid(NANOS_OF_DAY), text);
    text.push(' ');
    let of_day = nanos.rem_euclid(NANOS_OF_DAY);
    put_clock(of_day / NANOS_OF_SECOND, text);
    put_fraction(of_day % NANOS_OF_SECOND, 9, text);
}

fn put_time(micros: i64, text: &mut String) {
    put_clock(micros / 1_000_000, text);
    put_fraction(micros % 1_000_000, 6, text);
}

/// Appends hours, minutes and seconds.
fn put_clock(seconds: i64, text: &mut String) {
    put_number(seconds / 3600, 2, text);
    text.push(':');
    put_number(seconds / 60 % 60, 2, text);
    text.push(':');
    put_number(seconds % 60, 2, text);
}

/// Appends a point and a fraction with `digits` digits, without trailing zeros; nothing for 0.
fn put_fraction(fraction: i64, digits: usize, text: &mut String) {
    if fraction != 0 {
        text.push('.');
        put_number(fraction, digits, text);
        text.truncate(text.trim_end_matches('0').len());
    }
}

/// Appends a non-negative number with at least `digits` digits.
fn put_number(number: i64, digits: usize, text: &mut String) {
    let (mut buffer, mut at, mut rest) = ([b'0'; 20], 20, number.unsigned_abs());
    while rest > 0 || at > 20 - digits {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    buffer[at..].iter().for_each(|&digit| text.push(char::from(digit)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Option<String> {
        Moment::read(text).unwrap().map(|moment| of_date(moment.date().unwrap().into()))
    }

    fn timestamp(text: &str) -> Option<String> {
        Moment::read(text).unwrap().map(|moment| of_moment(moment.units(1_000_000).unwrap()))
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
        assert!(Moment::read("infinity").is_err() && Moment::read(" -INF ").is_err());
        assert!(Moment::read("5881580-07-10").is_err());
    }

    #[test]
    fn times_follow_dates() {
        for (text, read) in [
            ("1990-12-21T10:20:30.5Z", "1990-12-21 10:20:30.5"),
            ("1990-12-21 10:20 -0230", "1990-12-21 10:20:00"),
            ("1990-12-21 24:00:00 utc", "1990-12-22 00:00:00"),
            ("1990-12-21 10:20:30.1234567", "1990-12-21 10:20:30.123456"),
            ("1990-12-21 (BC) 1:2:3", "1990-12-21 (BC) 01:02:03"),
            ("1990-1-2", "1990-01-02 00:00:00"),
        ] {
            assert_eq!(timestamp(text).as_deref(), Some(read), "{text:?}");
        }
        for text in
            ["1990-12-21 10", "1990-12-21 25:00:00", "1990-12-21 10:60", "1990-12-21 10:20:30+2", "x", "10:20:30"]
        {
            assert_eq!(timestamp(text), None, "{text:?}");
        }
        let late = Moment::read("200000-01-01").unwrap().unwrap();
        assert!(late.units(1_000_000).is_some() && late.units(NANOS_OF_SECOND).is_none());
    }

    #[test]
    fn times_are_read_up_to_their_seconds() {
        let time = |text: &str| time_of_day(text).map(|nanos| of_time(nanos / 1_000));
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
        assert_eq!(time_of_day("24:00:00"), Some(NANOS_OF_DAY));
    }

    #[test]
    fn moments_are_written_to_their_last_digit() {
        for (micros, text) in [
            (0, "1970-01-01 00:00:00"),
            (-500_000, "1969-12-31 23:59:59.5"),
            (-62_135_596_800_000_001, "0001-12-31 (BC) 23:59:59.999999"),
        ] {
            assert_eq!(of_moment(micros), text);
        }
        assert_eq!(
            (of_nanos(1), of_nanos(1_500)),
            ("1970-01-01 00:00:00.000000001".into(), "1970-01-01 00:00:00.0000015".into())
        );
        assert_eq!(of_date(-719_528), "0001-01-01 (BC)");
    }
}
