//! Conversion of numbers, timestamps and bytes to text, and back.

use std::fmt::LowerExp;

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::ScalarValue;

use super::types::{HUGEINT, digits, is_float};
use warpmill_ir::scalar::moments::of_time;

/// The number of type `to` that DuckDB reads in `text`; `None` where the text is not a number, or the number does not fit.
pub(super) fn number(text: &str, to: &DataType) -> Option<ScalarValue> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if is_float(to) {
        return float(text).and_then(|value| ScalarValue::Float64(Some(value)).cast_to(to).ok());
    }
    let (width, scale) = digits(to)?;
    let value = exact(text, i64::from(scale))?;
    if to.is_integer() {
        return ScalarValue::Decimal128(Some(value), 38, 0).cast_to(to).ok();
    }
    let fits = value.unsigned_abs() < 10u128.pow(width.into());
    fits.then_some(ScalarValue::Decimal128(Some(value), width, scale))
}

/// Whether a text is a HUGEINT in DuckDB with 39 digits, one more than is supported here.
pub(super) fn is_too_wide(text: &str, to: &DataType) -> bool {
    const LARGEST: &str = "170141183460469231731687303715884105728";
    let digits = text.trim().trim_start_matches(['-', '+']);
    *to == HUGEINT
        && digits.len() == LARGEST.len()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits <= LARGEST
}

fn float(text: &str) -> Option<f64> {
    let plain = without_underscores(text)?;
    let name = plain.trim_start_matches(['+', '-']).to_ascii_lowercase();
    let named = matches!(name.as_str(), "inf" | "infinity" | "nan");
    if !named && !name.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    plain.parse().ok()
}

/// The digits without the underscores between them.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    let between = |i: usize| digit(i.wrapping_sub(1)) && digit(i + 1);
    let all = bytes.iter().enumerate().all(|(i, &byte)| byte != b'_' || between(i));
    all.then(|| text.replace('_', ""))
}

/// The number in `text` times `10^scale`, rounded half away from zero.
fn exact(text: &str, scale: i64) -> Option<i128> {
    let plain = without_underscores(text)?;
    let (negative, rest) = match plain.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    if let Some(hexadecimal) = rest.strip_prefix("0x").or(rest.strip_prefix("0X")).filter(|_| scale == 0) {
        let value = i128::from_str_radix(hexadecimal, 16).ok().filter(|_| !hexadecimal.starts_with(['+', '-']))?;
        return Some(if negative { -value } else { value });
    }
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok().filter(|e| e.unsigned_abs() < 1_000)?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // The number of digits before the rounded position.
    let kept = whole.len() as i64 + exponent + scale;
    let mut value: i128 = 0;
    for place in 0..kept.max(0) {
        let digit = digits.as_bytes().get(place as usize).map_or(0, |byte| byte - b'0');
        value = value.checked_mul(10)?.checked_add(digit.into())?;
    }
    let next = usize::try_from(kept).ok().and_then(|kept| digits.as_bytes().get(kept));
    value = value.checked_add(next.is_some_and(|byte| *byte >= b'5').into())?;
    Some(if negative { -value } else { value })
}

/// A floating-point number with the fewest digits that identify it, as DuckDB writes it.
pub(super) fn of_float<F: LowerExp + Copy + Into<f64>>(value: F) -> String {
    let wide: f64 = value.into();
    if wide.is_nan() {
        return "nan".into();
    }
    if wide.is_infinite() {
        return if wide > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let shortest = format!("{value:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.replace('.', "");
    if !(-4..16).contains(&exponent) {
        let fraction = if digits.len() > 1 { format!(".{}", &digits[1..]) } else { String::new() };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}{fraction}e{mark}{:02}", &digits[..1], exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

/// An interval, truncated to microseconds.
pub(super) fn of_interval(interval: IntervalMonthDayNano) -> String {
    let (years, months) = (interval.months / 12, interval.months % 12);
    let units = [(years, "year"), (months, "month"), (interval.days, "day")];
    let mut parts: Vec<String> = units
        .into_iter()
        .filter(|(count, _)| *count != 0)
        .map(|(count, unit)| format!("{count} {unit}{}", if count.abs() == 1 { "" } else { "s" }))
        .collect();
    let micros = interval.nanoseconds / 1_000;
    if micros != 0 || parts.is_empty() {
        parts.push(format!("{}{}", if micros < 0 { "-" } else { "" }, of_time(micros.abs())));
    }
    parts.join(" ")
}

/// Bytes as text; all but printable ASCII without quotes and backslash is written as `\xFF`.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'\'' | b'"');
    let written = |&byte: &u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02X}") };
    bytes.iter().map(written).collect()
}

/// The bytes of a text; `None` where it has non-ASCII characters, or a backslash without `xFF`.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&byte, after)) = rest.split_first() {
        (out, rest) = match (byte, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                out.push((digit(*high)? * 16 + digit(*low)?) as u8);
                (out, after)
            }
            (b'\\', _) | (128.., _) => return None,
            (byte, after) => {
                out.push(byte);
                (out, after)
            }
        };
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_duckdb_reads_them() {
        let whole = |text| number(text, &DataType::Int32);
        for (text, value) in [
            ("12", 12),
            ("3.7", 4),
            (" 12 ", 12),
            ("1e3", 1000),
            ("1_000", 1000),
            ("2.5", 3),
            ("-2.5", -3),
            ("0x1F", 31),
        ] {
            assert_eq!(whole(text), Some(ScalarValue::Int32(Some(value))), "{text}");
        }
        for text in ["", "abc", "1_", "_1", "3000000000", "1e400", "1e-9223372036854775808", "-", ".", "0x", "1 2"] {
            assert_eq!(whole(text), None, "{text}");
        }
        let decimal = |text| number(text, &DataType::Decimal128(5, 2));
        assert_eq!(decimal("1.005"), Some(ScalarValue::Decimal128(Some(101), 5, 2)));
        assert_eq!(decimal("1e2"), Some(ScalarValue::Decimal128(Some(10_000), 5, 2)));
        assert_eq!(decimal("1234.5"), None);
        assert_eq!(number("-inf", &DataType::Float64), Some(ScalarValue::Float64(Some(f64::NEG_INFINITY))));
        assert_eq!(number("x", &DataType::Float64), None);
    }

    #[test]
    fn floats_are_written_as_duckdb_writes_them() {
        for (value, text) in [
            (1.0, "1.0"),
            (1e20, "1e+20"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (-1.5, "-1.5"),
            (0.0, "0.0"),
            (1.25e-7, "1.25e-07"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
            (123.456, "123.456"),
        ] {
            assert_eq!(of_float(value), text);
        }
        assert_eq!(of_float(0.1f32), "0.1");
        assert_eq!(of_float(123_456_789f32), "123456790.0");
    }

    #[test]
    fn intervals_and_times_are_written_as_duckdb_writes_them() {
        let interval = |months, days, nanos| of_interval(IntervalMonthDayNano::new(months, days, nanos));
        let hour = 3_600_000_000_000;
        assert_eq!(interval(14, -3, 25 * hour), "1 year 2 months -3 days 25:00:00");
        assert_eq!(interval(-1, 1, 0), "-1 month 1 day");
        assert_eq!((interval(0, 0, 0), interval(0, 0, -1_500_000_000)), ("00:00:00".into(), "-00:00:01.5".into()));
        assert_eq!(of_time(45_296_500_000), "12:34:56.5");
    }

    #[test]
    fn bytes_are_written_and_read_as_duckdb_does() {
        assert_eq!(of_bytes(b"\x00\xff\\'A"), r"\x00\xFF\x5C\x27A");
        assert_eq!(bytes(r"\x00\xFf\x5CA"), Some(b"\x00\xff\\A".to_vec()));
        for text in ["\u{e9}", r"\xGG", r"a\\b", r"\x1"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
