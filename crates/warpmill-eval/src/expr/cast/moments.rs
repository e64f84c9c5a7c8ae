//! Texts of moments whose time is not as long as Arrow's parser wants it: `2020-02-29 7:05`.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};

/// `texts`, of which `read` has what Arrow made of them, with the time of day of those that were none in full. Devices leave these to
/// the host (`parse_timestamp` in `kernels/parse.cuh`): other forms of days would be NULL there.
pub(super) fn completed(texts: &ArrayRef, read: &dyn Array) -> ArrayRef {
    let rows = texts.as_string::<i32>().iter().enumerate().map(|(row, text)| match text {
        Some(text) if read.is_null(row) => Some(in_full(text).map_or(Cow::Borrowed(text), Cow::Owned)),
        text => text.map(Cow::Borrowed),
    });
    Arc::new(rows.collect::<StringArray>())
}

/// A moment of a day in full, with a time of hours, minutes and perhaps seconds.
fn in_full(text: &str) -> Option<String> {
    let (day, time) = (text.get(..10)?, text.get(11..)?);
    let is_day = day.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    if !is_day || !matches!(text.as_bytes()[10], b' ' | b'T' | b't') {
        return None;
    }
    let time = time.trim();
    if !time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.')) {
        return None;
    }
    let (clock, fraction) = time.split_once('.').map_or((time, None), |(clock, fraction)| (clock, Some(fraction)));
    let parts: Vec<&str> = clock.split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, None),
        [hour, minute, second] => (hour, minute, Some(second)),
        _ => return None,
    };
    let is_short = |part: &&str| matches!(part.len(), 1 | 2);
    if !parts.iter().all(is_short) || fraction.is_some_and(|digits| second.is_none() || digits.is_empty()) {
        return None;
    }
    let point = if fraction.is_some() { "." } else { "" };
    let (second, fraction) = (second.unwrap_or("00"), fraction.unwrap_or_default());
    Some(format!("{day}T{hour:0>2}:{minute:0>2}:{second:0>2}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::in_full;

    #[test]
    fn times_get_what_they_lack() {
        for (text, full) in [
            ("2020-02-29 10:00", "2020-02-29T10:00:00"),
            ("2020-02-29T7:05", "2020-02-29T07:05:00"),
            ("2020-02-29 1:2:3", "2020-02-29T01:02:03"),
            ("2020-02-29 1:2:3.5", "2020-02-29T01:02:03.5"),
            ("2020-02-29  10:00 ", "2020-02-29T10:00:00"),
        ] {
            assert_eq!(in_full(text).as_deref(), Some(full), "{text}");
        }
        for text in [
            "",
            "2020-02-29",
            "2020-02-29 ",
            "2020-02-29 10",
            "2020-02-29 10:",
            "2020-02-29 10:00:",
            "2020-02-29 10:00.5",
            "2020-02-29 10:00:00.",
            "2020-02-29 100:00",
            "2020-02-29 1:2:3:4",
            "2020-02-29 10:00+02",
            "2020-2-9 10:00",
            "2020/02/29 10:00",
            "2020-02-29x10:00",
            "2020-02-2é 10:00",
        ] {
            assert_eq!(in_full(text), None, "{text}");
        }
    }
}
