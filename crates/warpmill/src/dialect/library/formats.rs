//! `format` and `printf`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Own, Typed, text_like};
use crate::dialect::text::of_float;
use crate::dialect::types::{HUGEINT, is_decimal, is_float, is_whole};

pub(super) fn functions() -> Vec<Own> {
    vec![Own::new("format", types, |call| each(call, braces)), Own::new("printf", types, |call| each(call, percents))]
}

/// Integers, floating-point numbers, booleans and texts are kept; the dialect converts others to texts before.
fn types(types: &[DataType]) -> Option<Typed> {
    let (pattern, args) = types.split_first()?;
    let arg = |ty: &DataType| match ty {
        ty if is_whole(ty) => HUGEINT,
        ty if is_float(ty) || is_decimal(ty) => DataType::Float64,
        DataType::Boolean => DataType::Boolean,
        _ => DataType::Utf8,
    };
    text_like(pattern).then(|| (std::iter::once(DataType::Utf8).chain(args.iter().map(arg)).collect(), DataType::Utf8))
}

/// An argument.
#[derive(Debug, Clone, Copy)]
enum Arg<'a> {
    Whole(i128),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

fn each(call: &Call, f: fn(&str, &[Arg<'_>]) -> Result<String>) -> Result<ArrayRef> {
    let rows = (0..call.rows).map(|row| {
        let Some(pattern) = call.text(0, row).filter(|_| call.all(row)) else { return Ok(None) };
        let arg = |array: &'_ ArrayRef| -> Option<Arg<'_>> {
            Some(match array.data_type() {
                DataType::Float64 => Arg::Float(array.as_primitive::<Float64Type>().value(row)),
                DataType::Boolean => Arg::Bool(array.as_boolean().value(row)),
                DataType::Utf8 => return None,
                _ => Arg::Whole(array.as_primitive::<Decimal128Type>().value(row)),
            })
        };
        let args: Vec<Arg<'_>> = (1..call.args.len())
            .map(|i| arg(&call.args[i]).unwrap_or_else(|| Arg::Text(call.text(i, row).unwrap_or_default())))
            .collect();
        f(pattern, &args).map(Some)
    });
    Ok(Arc::new(rows.collect::<Result<StringArray>>()?))
}

/// A format specification.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zeros: bool,
    width: usize,
    separator: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

/// The widest field.
const WIDEST: usize = 1 << 16;

/// Formats with `{}` placeholders.
fn braces(pattern: &str, args: &[Arg<'_>]) -> Result<String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.peek() == Some(&'{') => out.extend(chars.next()),
            '}' if chars.peek() == Some(&'}') => out.extend(chars.next()),
            '}' => return exec_err!("Invalid Input Error: unmatched '}}' in format string"),
            '{' => {
                let mut field = String::new();
                loop {
                    match chars.next() {
                        Some('}') => break,
                        Some(c) => field.push(c),
                        None => return exec_err!("Invalid Input Error: unmatched '{{' in format string"),
                    }
                }
                let (at, spec) = field.split_once(':').unwrap_or((&field, ""));
                let at = match at {
                    "" => (next, next += 1).0,
                    at => match at.parse::<usize>() {
                        Ok(at) => at,
                        Err(_) => return exec_err!("Argument with name \"{at}\" not found, did you mean {{}}?"),
                    },
                };
                let Some(arg) = args.get(at) else {
                    return exec_err!("Argument index \"{at}\" out of range in format string");
                };
                out.push_str(&written(*arg, &parsed(spec)?)?);
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Parses `[[fill]align][sign][#][0][width][,][.precision][type]`.
fn parsed(text: &str) -> Result<Spec> {
    let mut spec = Spec::default();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '^'));
    if is_align(chars.get(1)) {
        (spec.fill, spec.align, at) = (Some(chars[0]), Some(chars[1]), 2);
    } else if is_align(chars.first()) {
        (spec.align, at) = (Some(chars[0]), 1);
    }
    if let Some('+' | '-' | ' ') = chars.get(at) {
        (spec.sign, at) = (Some(chars[at]), at + 1);
    }
    if chars.get(at) == Some(&'#') {
        (spec.alternate, at) = (true, at + 1);
    }
    if chars.get(at) == Some(&'0') {
        (spec.zeros, at) = (true, at + 1);
    }
    let number = |at: &mut usize| {
        let start = *at;
        while chars.get(*at).is_some_and(char::is_ascii_digit) {
            *at += 1;
        }
        chars[start..*at].iter().collect::<String>().parse::<usize>().ok()
    };
    spec.width = number(&mut at).unwrap_or(0);
    match chars.get(at) {
        Some(',') => (spec.separator, at) = (Some(','), at + 1),
        Some('t') if chars.len() > at + 1 => (spec.separator, at) = (Some(chars[at + 1]), at + 2),
        _ => {}
    }
    if chars.get(at) == Some(&'.') {
        at += 1;
        spec.precision = number(&mut at);
        if spec.precision.is_none() {
            return exec_err!("missing precision specifier in format string");
        }
    }
    spec.kind = chars.get(at).copied();
    if spec.width > WIDEST || spec.precision.is_some_and(|digits| digits > WIDEST) || chars.len() > at + 1 {
        return exec_err!("invalid format specifier \"{text}\"");
    }
    Ok(spec)
}

/// Formats with `%d` and similar placeholders.
fn percents(pattern: &str, args: &[Arg<'_>]) -> Result<String> {
    let mut out = String::new();
    let chars: Vec<char> = pattern.chars().collect();
    let (mut at, mut next) = (0, 0);
    while at < chars.len() {
        if chars[at] != '%' {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        at += 1;
        if chars.get(at) == Some(&'%') {
            out.push('%');
            at += 1;
            continue;
        }
        let mut spec = Spec { align: Some('>'), ..Spec::default() };
        while let Some(flag @ ('-' | '+' | ' ' | '#' | '0' | ',')) = chars.get(at) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' | ' ' => spec.sign = Some(*flag),
                '#' => spec.alternate = true,
                ',' => spec.separator = Some(','),
                _ => spec.zeros = true,
            }
            at += 1;
        }
        let number = |at: &mut usize| {
            let start = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            chars[start..*at].iter().collect::<String>().parse::<usize>().ok()
        };
        spec.width = number(&mut at).unwrap_or(0);
        if chars.get(at) == Some(&'.') {
            at += 1;
            spec.precision = Some(number(&mut at).unwrap_or(0));
        }
        while let Some('l' | 'h' | 'z' | 'j' | 't' | 'L') = chars.get(at) {
            at += 1;
        }
        let Some(&kind) = chars.get(at) else { return exec_err!("invalid format string: it ends within a field") };
        at += 1;
        if spec.width > WIDEST || spec.precision.is_some_and(|digits| digits > WIDEST) {
            return exec_err!("number is too big in a format string");
        }
        let Some(arg) = args.get(next) else {
            return exec_err!("Argument index \"{next}\" out of range in format string");
        };
        next += 1;
        spec.kind = Some(match kind {
            'i' | 'u' => 'd',
            kind => kind,
        });
        // Texts are not zero-padded, and the precision truncates them.
        let zeros = spec.zeros && spec.align == Some('>');
        spec.zeros = false;
        if zeros && !matches!(arg, Arg::Text(_)) {
            spec.align = None;
            spec.zeros = true;
        }
        let arg = match (arg, kind) {
            (Arg::Whole(code), 'c') => {
                let letter = u32::try_from(*code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
                let mut text = [0; 4];
                out.push_str(&written(Arg::Text(letter.encode_utf8(&mut text)), &Spec { kind: None, ..spec })?);
                continue;
            }
            (Arg::Bool(_), 's') => {
                spec.kind = None;
                *arg
            }
            // The 64 bits of a negative number.
            (Arg::Whole(value @ i128::MIN..0), 'x' | 'X' | 'o') if i64::try_from(*value).is_ok() => {
                Arg::Whole((*value as i64 as u64).into())
            }
            (Arg::Bool(value), _) => Arg::Whole((*value).into()),
            (arg, _) => *arg,
        };
        out.push_str(&written(arg, &spec)?);
    }
    Ok(out)
}

/// A value as a specification says.
fn written(arg: Arg<'_>, spec: &Spec) -> Result<String> {
    let wrong =
        || exec_err!("Invalid type specifier \"{}\" for formatting a value of this type", spec.kind.unwrap_or(' '));
    let (sign, body, is_number) = match arg {
        Arg::Text(text) => {
            if !matches!(spec.kind, None | Some('s')) {
                return wrong();
            }
            let cut = spec.precision.unwrap_or(usize::MAX);
            ("".to_string(), text.chars().take(cut).collect(), false)
        }
        Arg::Bool(value) if spec.kind.is_none() => (String::new(), value.to_string(), false),
        Arg::Bool(value) => return written(Arg::Whole(value.into()), spec),
        Arg::Whole(value) => {
            let digits = value.unsigned_abs();
            let body = match spec.kind {
                None | Some('d' | 'n') => separated(&digits.to_string(), spec.separator),
                Some('x') => format!("{}{digits:x}", if spec.alternate { "0x" } else { "" }),
                Some('X') => format!("{}{digits:X}", if spec.alternate { "0X" } else { "" }),
                Some('o') => format!("{}{digits:o}", if spec.alternate { "0" } else { "" }),
                Some('b' | 'B') => format!("{}{digits:b}", if spec.alternate { "0b" } else { "" }),
                Some('f' | 'F' | 'e' | 'E' | 'g' | 'G' | _) => return wrong(),
            };
            (sign(value < 0, spec), body, true)
        }
        Arg::Float(value) => {
            let Some(body) = float(value.abs(), spec) else { return wrong() };
            (sign(value.is_sign_negative() && !value.is_nan(), spec), body, true)
        }
    };
    let length = sign.chars().count() + body.chars().count();
    let missing = spec.width.saturating_sub(length);
    if spec.zeros && is_number && spec.align.is_none() {
        return Ok(format!("{sign}{}{body}", "0".repeat(missing)));
    }
    let finite = !matches!(arg, Arg::Float(value) if !value.is_finite());
    let align = spec.align.unwrap_or(if is_number && finite { '>' } else { '<' });
    let before = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let fill = |count: usize| std::iter::repeat_n(spec.fill.unwrap_or(' '), count).collect::<String>();
    Ok(format!("{}{sign}{body}{}", fill(before), fill(missing - before)))
}

fn sign(negative: bool, spec: &Spec) -> String {
    match (negative, spec.sign) {
        (true, _) => "-".into(),
        (false, Some('+')) => "+".into(),
        (false, Some(' ')) => " ".into(),
        _ => String::new(),
    }
}

fn separated(digits: &str, separator: Option<char>) -> String {
    let Some(separator) = separator else { return digits.to_string() };
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(digit);
    }
    out
}

/// Formats a non-negative floating-point number; `None` if the specification is invalid for it.
fn float(value: f64, spec: &Spec) -> Option<String> {
    if value.is_nan() || value.is_infinite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        let upper = matches!(spec.kind, Some('F' | 'E' | 'G'));
        return Some(if upper { text.to_uppercase() } else { text.to_string() });
    }
    let text = match spec.kind {
        None if spec.precision.is_none() => of_float(value),
        Some('f' | 'F') => format!("{value:.*}", spec.precision.unwrap_or(6)),
        Some('e' | 'E') => exponent(value, spec.precision.unwrap_or(6)),
        None | Some('g' | 'G' | 'n') => general(value, spec.precision.unwrap_or(6)),
        Some('%') => format!("{:.*}%", spec.precision.unwrap_or(6), value * 100.0),
        Some(_) => return None,
    };
    let text = if matches!(spec.kind, Some('E' | 'G')) { text.to_uppercase() } else { text };
    Some(match (spec.separator, text.find('.')) {
        (None, _) => text,
        (separator, point) => {
            let (whole, rest) = text.split_at(point.unwrap_or(text.len()));
            separated(whole, separator) + rest
        }
    })
}

fn exponent(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
    format!("{mantissa}e{sign}{power:0>2}")
}

/// A number with `digits` significant digits, without trailing zeros.
fn general(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let text = format!("{value:.*e}", digits - 1);
    let power: i32 = text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trimmed = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    };
    if power < -4 || power >= digits as i32 {
        let text = exponent(value, digits - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{exponent}", trimmed(mantissa.to_string()));
    }
    trimmed(format!("{value:.*}", (digits as i32 - 1 - power).max(0) as usize))
}
