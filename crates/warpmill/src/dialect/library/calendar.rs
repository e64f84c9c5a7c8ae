//! `strftime` and `strptime`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, not_impl_err};
use warpmill_ir::scalar::civil::days_from_civil;

use super::own::{Call, Is, Own, Typed, moment_like, text_like, typed};
use super::parts::{Civil, DAY};
use crate::dialect::types::TIMESTAMP;

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("strftime", strftime_types, strftime),
        Own::new("strptime", strptime_types, |call| strptime(call, false)),
        Own::new("try_strptime", strptime_types, |call| strptime(call, true)),
    ]
}

pub(super) const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A moment and a format, in either order.
fn strftime_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [moment, format]
            if moment_like(moment) && !matches!(moment, DataType::Timestamp(_, Some(_))) && text_like(format) =>
        {
            Some((vec![TIMESTAMP, DataType::Utf8], DataType::Utf8))
        }
        [format, moment]
            if text_like(format) && moment_like(moment) && !matches!(moment, DataType::Timestamp(_, Some(_))) =>
        {
            Some((vec![DataType::Utf8, TIMESTAMP], DataType::Utf8))
        }
        _ => None,
    }
}

fn strftime(call: &Call) -> Result<ArrayRef> {
    let moment = usize::from(call.args[0].data_type() == &DataType::Utf8);
    call.texts(|row| match Option::zip(call.moment(moment, row), call.text(1 - moment, row)) {
        None => Ok(None),
        // The text of casts of infinite timestamps.
        Some((i64::MAX, _)) => Ok(Some("infinity".into())),
        Some((micros, _)) if micros == -i64::MAX => Ok(Some("-infinity".into())),
        Some((micros, format)) => written(micros, format).map(Some),
    })
}

/// A moment as a format says.
pub(super) fn written(micros: i64, format: &str) -> Result<String> {
    let at = Civil::of(micros);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (bare, letter) = match chars.next() {
            Some('-') => (true, chars.next()),
            letter => (false, letter),
        };
        let number = |value: i64, width: usize| if bare { value.to_string() } else { format!("{value:0width$}") };
        let weekday = at.weekday() as usize;
        let first_of_week = |monday: bool| {
            let weekday = if monday { (at.weekday() + 6) % 7 } else { at.weekday() };
            (i64::from(at.day_of_year()) + 6 - weekday) / 7
        };
        let hour12 = if at.hour % 12 == 0 { 12 } else { at.hour % 12 };
        match (letter, bare) {
            (Some('a'), false) => out.push_str(&DAYS[weekday][..3]),
            (Some('A'), false) => out.push_str(DAYS[weekday]),
            (Some('w'), false) => out.push_str(&weekday.to_string()),
            (Some('u'), false) => out.push_str(&(if weekday == 0 { 7 } else { weekday }).to_string()),
            (Some('d'), _) => out.push_str(&number(at.day.into(), 2)),
            (Some('b' | 'h'), false) => out.push_str(&MONTHS[at.month as usize - 1][..3]),
            (Some('B'), false) => out.push_str(MONTHS[at.month as usize - 1]),
            (Some('m'), _) => out.push_str(&number(at.month.into(), 2)),
            (Some('y'), _) => out.push_str(&number(at.year.rem_euclid(100), 2)),
            (Some('Y'), false) => out.push_str(&year(at.year)),
            (Some('G'), false) => out.push_str(&year(at.iso_year())),
            (Some('V'), false) => out.push_str(&format!("{:02}", at.iso_week())),
            (Some('H'), _) => out.push_str(&number(at.hour, 2)),
            (Some('I'), _) => out.push_str(&number(hour12, 2)),
            (Some('p'), false) => out.push_str(if at.hour < 12 { "AM" } else { "PM" }),
            (Some('M'), _) => out.push_str(&number(at.minute, 2)),
            (Some('S'), _) => out.push_str(&number(at.second, 2)),
            (Some('f'), false) => out.push_str(&format!("{:06}", at.micros)),
            (Some('g'), false) => out.push_str(&format!("{:03}", at.micros / 1000)),
            (Some('n'), false) => out.push_str(&format!("{:09}", at.micros * 1000)),
            (Some('z'), false) => out.push_str("+00"),
            (Some('Z'), false) => {}
            (Some('j'), _) => out.push_str(&number(at.day_of_year().into(), 3)),
            (Some('U'), _) => out.push_str(&number(first_of_week(false), 2)),
            (Some('W'), _) => out.push_str(&number(first_of_week(true), 2)),
            (Some('x'), false) => out.push_str(&written(micros, "%Y-%m-%d")?),
            (Some('X'), false) => out.push_str(&written(micros, "%H:%M:%S")?),
            (Some('c'), false) => out.push_str(&written(micros, "%Y-%m-%d %H:%M:%S")?),
            (Some('%'), false) => out.push('%'),
            (Some(other), _) => {
                return exec_err!("Unrecognized format for strftime/strptime: %{}{other}", if bare { "-" } else { "" });
            }
            (None, _) => return exec_err!("Trailing format character %"),
        }
    }
    Ok(out)
}

fn year(year: i64) -> String {
    if (0..10_000).contains(&year) { format!("{year:04}") } else { year.to_string() }
}

fn strptime_types(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Text; 2], TIMESTAMP).or_else(|| typed(types, &[Is::Text, Is::Texts], TIMESTAMP))
}

fn strptime(call: &Call, try_only: bool) -> Result<ArrayRef> {
    let rows = (0..call.rows).map(|row| {
        let Some(text) = call.text(0, row) else { return Ok(None) };
        let formats: Vec<String> = match call.args[1].data_type() {
            DataType::Utf8 => match call.text(1, row) {
                Some(format) => vec![format.to_string()],
                None => return Ok(None),
            },
            _ if call.args[1].is_null(row) => return Ok(None),
            _ => {
                let list = call.args[1].as_list::<i32>().value(row);
                list.as_string::<i32>().iter().flatten().map(ToString::to_string).collect()
            }
        };
        for format in &formats {
            if let Some(micros) = read(text, format)? {
                return Ok(Some(micros));
            }
        }
        match try_only {
            true => Ok(None),
            false => exec_err!(
                "Could not parse string \"{text}\" according to format specifier \"{}\"",
                formats.join("\", \"")
            ),
        }
    });
    Ok(Arc::new(rows.collect::<Result<TimestampMicrosecondArray>>()?))
}

/// The parts that a format has read so far.
#[derive(Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    twelve: bool,
    offset_minutes: i64,
}

/// Parses `text` by a format; `None` if it does not match.
///
/// # Errors
/// An invalid format.
pub(in crate::dialect) fn read(text: &str, format: &str) -> Result<Option<i64>> {
    let mut found = Found::default();
    let Some(rest) = read_all(text.trim(), format, &mut found)? else { return Ok(None) };
    Ok(if rest.trim().is_empty() { moment(&found) } else { None })
}

/// Reads `text` by a format. Returns the rest.
fn read_all<'a>(text: &'a str, format: &str, found: &mut Found) -> Result<Option<&'a str>> {
    let mut rest = text;
    let mut chars = format.trim().chars();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            if !rest.starts_with(char::is_whitespace) {
                return Ok(None);
            }
            rest = rest.trim_start();
            continue;
        }
        if c != '%' {
            match rest.strip_prefix(c) {
                Some(after) => rest = after,
                None => return Ok(None),
            }
            continue;
        }
        let letter = match chars.next() {
            Some('-') => chars.next(),
            letter => letter,
        };
        let Some(letter) = letter else { return exec_err!("Trailing format character %") };
        let read = match letter {
            'd' => number(rest, 2, 1, 31).map(|(n, after)| (found.day = Some(n), after).1),
            'm' => number(rest, 2, 1, 12).map(|(n, after)| (found.month = Some(n), after).1),
            'Y' => year_of(rest).map(|(n, after)| (found.year = Some(n), after).1),
            'y' => number(rest, 2, 0, 99)
                .map(|(n, after)| (found.year = Some(if n >= 69 { 1900 + n } else { 2000 + n }), after).1),
            'H' => number(rest, 2, 0, 23).map(|(n, after)| (found.hour = n, after).1),
            'I' => number(rest, 2, 1, 12).map(|(n, after)| (found.hour = n, found.twelve = true, after).2),
            'M' => number(rest, 2, 0, 59).map(|(n, after)| (found.minute = n, after).1),
            'S' => number(rest, 2, 0, 59).map(|(n, after)| (found.second = n, after).1),
            'j' => number(rest, 3, 1, 366).map(|(n, after)| (found.day_of_year = Some(n), after).1),
            'f' => fraction(rest, 6).map(|(n, after)| (found.micros = n, after).1),
            'g' => fraction(rest, 3).map(|(n, after)| (found.micros = n * 1000, after).1),
            'p' => match rest.get(..2).map(str::to_ascii_uppercase).as_deref() {
                Some("AM") => (found.afternoon = Some(false), Some(&rest[2..])).1,
                Some("PM") => (found.afternoon = Some(true), Some(&rest[2..])).1,
                _ => None,
            },
            'b' | 'h' => named(rest, &MONTHS, 3).map(|(n, after)| (found.month = Some(n + 1), after).1),
            'B' => named(rest, &MONTHS, usize::MAX).map(|(n, after)| (found.month = Some(n + 1), after).1),
            'a' => named(rest, &DAYS, 3).map(|(_, after)| after),
            'A' => named(rest, &DAYS, usize::MAX).map(|(_, after)| after),
            'z' => offset(rest).map(|(n, after)| (found.offset_minutes = n, after).1),
            'x' => read_all(rest, "%Y-%m-%d", found)?,
            'X' => read_all(rest, "%H:%M:%S", found)?,
            'c' => read_all(rest, "%Y-%m-%d %H:%M:%S", found)?,
            '%' => rest.strip_prefix('%'),
            'n' | 'Z' | 'G' | 'V' | 'u' | 'w' | 'U' | 'W' => return not_impl_err!("strptime with %{letter}"),
            other => return exec_err!("Unrecognized format for strftime/strptime: %{other}"),
        };
        match read {
            Some(after) => rest = after,
            None => return Ok(None),
        }
    }
    Ok(Some(rest))
}

/// A number of at most `digits` digits, from `least` to `most`.
fn number(text: &str, digits: usize, least: i64, most: i64) -> Option<(i64, &str)> {
    let length = text.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    let value: i64 = text[..length].parse().ok()?;
    (least..=most).contains(&value).then(|| (value, &text[length..]))
}

fn year_of(text: &str) -> Option<(i64, &str)> {
    let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (year, after) = number(rest, 4, 0, 9999)?;
    Some((sign * year, after))
}

/// At most `digits` digits after a point.
fn fraction(text: &str, digits: usize) -> Option<(i64, &str)> {
    let length = text.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    let value: i64 = text[..length].parse().ok()?;
    Some((value * 10i64.pow((digits - length) as u32), &text[length..]))
}

fn named<'a>(text: &'a str, names: &[&str], letters: usize) -> Option<(i64, &'a str)> {
    names.iter().enumerate().find_map(|(i, name)| {
        let name = &name[..letters.min(name.len())];
        let start = text.get(..name.len())?;
        start.eq_ignore_ascii_case(name).then(|| (i as i64, &text[name.len()..]))
    })
}

/// `+HH`, `+HHMM` or `+HH:MM`, in minutes.
fn offset(text: &str) -> Option<(i64, &str)> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, rest) = number(rest, 2, 0, 23)?;
    let after = rest.strip_prefix(':').unwrap_or(rest);
    match number(after, 2, 0, 59) {
        Some((minutes, rest)) => Some((sign * (hours * 60 + minutes), rest)),
        None => Some((sign * hours * 60, rest)),
    }
}

fn moment(found: &Found) -> Option<i64> {
    let year = found.year.unwrap_or(1900);
    let (month, day) = (found.month.unwrap_or(1), found.day.unwrap_or(1));
    let days = match found.day_of_year {
        Some(day) => {
            let days = days_from_civil(year, 1, 1) + day - 1;
            (Civil::of(days * DAY).year == year).then_some(days)?
        }
        None => {
            let days = days_from_civil(year, month as u32, day as u32);
            let back = Civil::of(days * DAY);
            (i64::from(back.month) == month && i64::from(back.day) == day).then_some(days)?
        }
    };
    let hour = match (found.twelve, found.afternoon) {
        (_, None) => found.hour,
        (_, Some(true)) => found.hour % 12 + 12,
        (_, Some(false)) => found.hour % 12,
    };
    let seconds = hour * 3600 + found.minute * 60 + found.second - found.offset_minutes * 60;
    Some(days * DAY + seconds * 1_000_000 + found.micros)
}
