//! Functions of texts and bytes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::{Result, exec_err};
use icu_normalizer::{ComposingNormalizer, DecomposingNormalizer};
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;
use sha1::{Digest, Sha1};

use super::numbers::in_base;
use super::own::{Call, Is, Own, Typed, is_blob, text_like, typed, whole_like};
use crate::dialect::operators::strict_cast;
use crate::dialect::types::HUGEINT;

/// A text without its marks: letters are taken apart from their accents, which are left out.
fn without_accents(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let is_mark = |letter: char| {
        use GeneralCategory::{EnclosingMark, NonspacingMark, SpacingMark};
        matches!(CodePointMapData::<GeneralCategory>::new().get(letter), EnclosingMark | NonspacingMark | SpacingMark)
    };
    let apart = DecomposingNormalizer::new_nfd().normalize(text);
    let letters: String = apart.chars().filter(|&letter| !is_mark(letter)).collect();
    ComposingNormalizer::new_nfc().normalize(&letters).into_owned()
}

pub(super) fn functions() -> Vec<Own> {
    use DataType::{Binary, Int64, Utf8};
    vec![
        Own::new(
            "string_split",
            |t| typed(t, &[Is::Text; 2], DataType::new_list(Utf8, true)),
            |call| {
                // Nothing separates at NULL.
                let parts = |row, text| call.text(1, row).map_or_else(|| vec![text], |by| split(text, by));
                lists(call, |row| call.text(0, row).map(|text| parts(row, text)))
            },
        ),
        Own::new(
            "split_part",
            |t| typed(t, &[Is::Text, Is::Text, Is::Whole], Utf8),
            |call| {
                call.texts(|row| {
                    let (Some((text, by)), Some(at)) =
                        (Option::zip(call.text(0, row), call.text(1, row)), call.integer(2, row))
                    else {
                        return Ok(None);
                    };
                    let parts = split(text, by);
                    let at = if at > 0 {
                        usize::try_from(at - 1).ok()
                    } else {
                        parts.len().checked_sub(at.unsigned_abs() as usize)
                    };
                    Ok(Some(
                        at.filter(|_| call.integer(2, row) != Some(0))
                            .and_then(|at| parts.get(at))
                            .unwrap_or(&"")
                            .to_string(),
                    ))
                })
            },
        ),
        Own::new(
            "sha1",
            |t| typed(t, &[Is::Text], Utf8).or_else(|| typed(t, &[Is::Bytes], Utf8)),
            |call| {
                let is_blob = is_blob(call.args[0].data_type());
                let bytes = |row| if is_blob { call.bytes(0, row) } else { call.text(0, row).map(str::as_bytes) };
                let hex = |bytes| Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                call.texts(|row| Ok(bytes(row).map(hex)))
            },
        ),
        Own::new(
            "nfc_normalize",
            |t| typed(t, &[Is::Text], Utf8),
            |call| {
                let composer = ComposingNormalizer::new_nfc();
                call.texts(|row| Ok(call.text(0, row).map(|text| composer.normalize(text).into_owned())))
            },
        ),
        Own::new(
            "strip_accents",
            |t| typed(t, &[Is::Text], Utf8),
            |call| call.texts(|row| Ok(call.text(0, row).map(without_accents))),
        ),
        Own::new("unicode", |t| typed(t, &[Is::Text], DataType::Int32), code),
        Own::new("ord", |t| typed(t, &[Is::Text], DataType::Int32), code),
        Own::new("substring_duckdb", substring_types, substring),
        Own::new("bin", bin_types, |call| digits(call, 2)),
        Own::new("hex", hex_types, |call| digits(call, 16)),
        Own::new(
            "unhex",
            |t| typed(t, &[Is::Text], Binary),
            |call| {
                blobs(call, |row| match call.text(0, row) {
                    None => Ok(None),
                    Some(text) => match read_digits(text, 4, 16) {
                        Some(bytes) => Ok(Some(bytes)),
                        None => exec_err!("Invalid input for hex digit: {text}"),
                    },
                })
            },
        ),
        Own::new(
            "unbin",
            |t| typed(t, &[Is::Text], Binary),
            |call| {
                blobs(call, |row| match call.text(0, row) {
                    None => Ok(None),
                    Some(text) => match read_digits(text, 1, 2) {
                        Some(bytes) => Ok(Some(bytes)),
                        None => exec_err!("Invalid input for binary digit: {text}"),
                    },
                })
            },
        ),
        Own::new(
            "base64",
            |t| typed(t, &[Is::Bytes], Utf8),
            |call| call.texts(|row| Ok(call.bytes(0, row).map(to_base64))),
        ),
        Own::new(
            "from_base64",
            |t| typed(t, &[Is::Text], Binary),
            |call| {
                blobs(call, |row| match call.text(0, row) {
                    None => Ok(None),
                    Some(text) => match read_base64(text) {
                        Some(bytes) => Ok(Some(bytes)),
                        None => exec_err!("Could not decode string \"{text}\" as base64"),
                    },
                })
            },
        ),
        Own::new(
            "encode",
            |t| typed(t, &[Is::Text], Binary),
            |call| blobs(call, |row| Ok(call.text(0, row).map(|text| text.as_bytes().to_vec()))),
        ),
        Own::new(
            "decode",
            |t| typed(t, &[Is::Bytes], Utf8),
            |call| {
                call.texts(|row| match call.bytes(0, row).map(|bytes| String::from_utf8(bytes.to_vec())) {
                    None => Ok(None),
                    Some(Ok(text)) => Ok(Some(text)),
                    Some(Err(_)) => exec_err!("Failure in decode: could not convert blob to UTF8 string"),
                })
            },
        ),
        Own::new(
            "octet_length",
            |t| typed(t, &[Is::Bytes], Int64).or_else(|| typed(t, &[Is::Text], Int64)),
            |call| {
                if call.args[0].data_type() == &Utf8 {
                    return call.integers(|row| Ok(call.text(0, row).map(|text| text.len() as i64)));
                }
                call.integers(|row| Ok(call.bytes(0, row).map(|bytes| bytes.len() as i64)))
            },
        ),
        Own::new(
            "strlen",
            |t| typed(t, &[Is::Text], Int64),
            |call| call.integers(|row| Ok(call.text(0, row).map(|text| text.len() as i64))),
        ),
        Own::new(
            "url_encode",
            |t| typed(t, &[Is::Text], Utf8),
            |call| call.texts(|row| Ok(call.text(0, row).map(url_encoded))),
        ),
        Own::new(
            "url_decode",
            |t| typed(t, &[Is::Text], Utf8),
            |call| {
                call.texts(|row| match call.text(0, row).map(url_decoded) {
                    None => Ok(None),
                    Some(Some(text)) => Ok(Some(text)),
                    Some(None) => exec_err!(
                        "Failed to decode string \"{}\" using URL decoding",
                        call.text(0, row).unwrap_or_default()
                    ),
                })
            },
        ),
        Own::new("bar", bar_types, bar),
        Own::new(
            "format_bytes",
            |t| typed(t, &[Is::Whole], Utf8),
            |call| call.texts(|row| Ok(call.integer(0, row).map(|bytes| readable(bytes, 1024, "iB")))),
        ),
        Own::new(
            "formatreadabledecimalsize",
            |t| typed(t, &[Is::Whole], Utf8),
            |call| call.texts(|row| Ok(call.integer(0, row).map(|bytes| readable(bytes, 1000, "B")))),
        ),
        Own::new("parse_path", path_types_list, |call| {
            lists(call, |row| {
                call.text(0, row).map(|path| {
                    path.split(['/', '\\'])
                        .enumerate()
                        .filter(|(i, part)| *i == 0 && path.starts_with('/') || !part.is_empty())
                        .map(|(i, part)| if i == 0 && part.is_empty() { "/" } else { part })
                        .collect()
                })
            })
        }),
        Own::new("parse_filename", path_types, parse_filename),
        Own::new("parse_dirname", path_types, |call| {
            call.texts(|row| {
                Ok(call.text(0, row).map(|path| match path.split(['/', '\\']).next() {
                    _ if path.starts_with('/') => "/".to_string(),
                    Some(first) if path.contains(['/', '\\']) => first.to_string(),
                    _ => String::new(),
                }))
            })
        }),
    ]
}

/// Splits a text at `by`; into characters if that is empty.
fn split<'a>(text: &'a str, by: &str) -> Vec<&'a str> {
    if !by.is_empty() {
        return text.split(by).collect();
    }
    let mut rest = text;
    let mut parts = vec![];
    while let Some(c) = rest.chars().next() {
        let (first, after) = rest.split_at(c.len_utf8());
        parts.push(first);
        rest = after;
    }
    if parts.is_empty() { vec![""] } else { parts }
}

/// A column of lists of texts.
pub(super) fn lists<'a>(call: &'a Call, f: impl Fn(usize) -> Option<Vec<&'a str>>) -> Result<ArrayRef> {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in 0..call.rows {
        let parts = f(row);
        let valid = parts.is_some();
        parts.into_iter().flatten().for_each(|part| builder.values().append_value(part));
        builder.append(valid);
    }
    Ok(Arc::new(builder.finish()))
}

/// A column of bytes.
pub(super) fn blobs(call: &Call, f: impl Fn(usize) -> Result<Option<Vec<u8>>>) -> Result<ArrayRef> {
    let mut builder = BinaryBuilder::new();
    for row in 0..call.rows {
        builder.append_option(f(row)?);
    }
    Ok(Arc::new(builder.finish()))
}

fn code(call: &Call) -> Result<ArrayRef> {
    let code = |text: &str| text.chars().next().map_or(-1, |c| c as i32);
    let rows = (0..call.rows).map(|row| call.text(0, row).map(code));
    Ok(Arc::new(rows.collect::<arrow::array::Int32Array>()))
}

fn substring_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Text, Is::Whole, Is::Whole];
    matches!(types.len(), 2 | 3).then(|| typed(types, &kinds[..types.len()], DataType::Utf8))?
}

/// `substring(text, from, count)`: positions before the first count from the end, and a negative count goes backwards.
fn substring(call: &Call) -> Result<ArrayRef> {
    call.texts(|row| {
        if !call.all(row) {
            return Ok(None);
        }
        let (Some(text), Some(from)) = (call.text(0, row), call.integer(1, row)) else { return Ok(None) };
        Ok(Some(sub(text, from, if call.args.len() == 3 { call.integer(2, row) } else { None }).to_string()))
    })
}

fn sub(text: &str, from: i64, count: Option<i64>) -> &str {
    let length = text.chars().count() as i64;
    let count = count.unwrap_or(i64::from(u32::MAX));
    let (mut start, mut end);
    if from < 0 {
        start = (length.saturating_add(from)).max(0);
        end = (length.saturating_add(from)).saturating_add(count).max(start.min(0));
    } else {
        start = from - 1;
        end = start.saturating_add(count);
    }
    if count < 0 {
        std::mem::swap(&mut start, &mut end);
    }
    let (start, end) = (start.clamp(0, length), end.clamp(0, length));
    between(text, start as usize, end.max(start) as usize)
}

/// The characters from one position to before another.
pub(super) fn between(text: &str, start: usize, end: usize) -> &str {
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    if start >= end { "" } else { &text[at(start)..at(end)] }
}

fn bin_types(types: &[DataType]) -> Option<Typed> {
    hex_types(types)
}

fn hex_types(types: &[DataType]) -> Option<Typed> {
    let of = match types {
        [ty] if whole_like(ty) => HUGEINT,
        [ty] if text_like(ty) => DataType::Utf8,
        [ty] if is_blob(ty) => DataType::Binary,
        _ => return None,
    };
    Some((vec![of], DataType::Utf8))
}

/// The digits of an integer or of bytes.
fn digits(call: &Call, base: u64) -> Result<ArrayRef> {
    let width = if base == 16 { 2 } else { 8 };
    let of_bytes = |bytes: &[u8]| bytes.iter().map(|byte| in_base((*byte).into(), base, width)).collect::<String>();
    match call.args[0].data_type() {
        DataType::Utf8 => call.texts(|row| Ok(call.text(0, row).map(|text| of_bytes(text.as_bytes())))),
        DataType::Binary => call.texts(|row| Ok(call.bytes(0, row).map(of_bytes))),
        _ => {
            let values = strict_cast(&call.args[0], &HUGEINT)?;
            let values = values.as_primitive::<Decimal128Type>();
            call.texts(|row| {
                if values.is_null(row) {
                    return Ok(None);
                }
                match i64::try_from(values.value(row)).map(|value| value as u64).or(u64::try_from(values.value(row))) {
                    Ok(value) => Ok(Some(in_base(value, base, 0)))
                        .map(|text| text.map(|text| if text.is_empty() { "0".into() } else { text })),
                    Err(_) => exec_err!("{}: a number beyond BIGINT", call.name),
                }
            })
        }
    }
}

/// The bytes for digits of `bits` bits each; a missing first digit is 0.
fn read_digits(text: &str, bits: usize, base: u32) -> Option<Vec<u8>> {
    let digits = text.chars().map(|c| c.to_digit(base).map(|d| d as u8)).collect::<Option<Vec<_>>>()?;
    let per_byte = 8 / bits;
    let first = digits.len() % per_byte;
    let fold = |part: &[u8]| part.iter().fold(0u16, |byte, digit| byte << bits | u16::from(*digit)) as u8;
    let mut bytes = if first > 0 { vec![fold(&digits[..first])] } else { vec![] };
    bytes.extend(digits[first..].chunks(per_byte).map(fold));
    Some(bytes)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let three = (u32::from(part[0]) << 16)
            | (u32::from(*part.get(1).unwrap_or(&0)) << 8)
            | u32::from(*part.get(2).unwrap_or(&0));
        for i in 0..4 {
            let letter = ALPHABET[(three >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= part.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

fn read_base64(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return None;
    }
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    for (n, part) in bytes.chunks(4).enumerate() {
        let last = (n + 1) * 4 == bytes.len();
        let mut four = 0u32;
        for (i, byte) in part.iter().enumerate() {
            let value = match ALPHABET.iter().position(|letter| letter == byte) {
                Some(value) => value,
                None if *byte == b'=' && last && i >= 4 - padding => 0,
                None => return None,
            };
            four = four << 6 | value as u32;
        }
        let kept = if last { 3 - padding } else { 3 };
        out.extend((0..kept).map(|i| (four >> (16 - 8 * i)) as u8));
    }
    Some(out)
}

fn url_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn url_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = vec![];
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok()))
            .flatten();
        match code {
            Some(byte) => (out.push(byte), at += 3).1,
            None => (out.push(bytes[at]), at += 1).1,
        }
    }
    String::from_utf8(out).ok()
}

fn bar_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Number; 4];
    matches!(types.len(), 3 | 4).then(|| typed(types, &kinds[..types.len()], DataType::Utf8))?
}

/// A bar of blocks, in eighths.
fn bar(call: &Call) -> Result<ArrayRef> {
    const PARTS: [&str; 8] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    call.texts(|row| {
        if !call.all(row) {
            return Ok(None);
        }
        let of = |i| call.float(i, row).unwrap_or(f64::NAN);
        let (x, least, most, width) = (of(0), of(1), of(2), if call.args.len() == 4 { of(3) } else { 80.0 });
        if !width.is_finite() || !(1.0..=1000.0).contains(&width) {
            return exec_err!("bar: the width is between 1 and 1000");
        }
        let filled = if x.is_nan() || least.is_nan() || most.is_nan() || x <= least {
            0.0
        } else if x >= most {
            width
        } else {
            width * (x - least) / (most - least)
        };
        if !filled.is_finite() {
            return exec_err!("bar: the lower bound must be below the upper one");
        }
        let eighths = (filled * 8.0) as usize;
        let mut text = "█".repeat(eighths / 8);
        if !eighths.is_multiple_of(8) {
            text.push_str(PARTS[eighths % 8]);
        }
        let length = text.chars().count();
        text.push_str(&" ".repeat((width as usize).saturating_sub(length)));
        Ok(Some(text))
    })
}

/// A number of bytes as people write it.
fn readable(bytes: i64, unit: u64, suffix: &str) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    if bytes == 1 {
        return format!("{sign}1 byte");
    }
    if bytes < unit {
        return format!("{sign}{bytes} bytes");
    }
    let prefixes: &[&str] =
        if unit == 1024 { &["K", "M", "G", "T", "P", "E"] } else { &["k", "M", "G", "T", "P", "E"] };
    let mut size = u128::from(unit);
    let mut at = 0;
    while at + 1 < prefixes.len() && u128::from(bytes) >= size * u128::from(unit) {
        size *= u128::from(unit);
        at += 1;
    }
    let tenths = u128::from(bytes) * 10 / size;
    format!("{sign}{}.{} {}{suffix}", tenths / 10, tenths % 10, prefixes[at])
}

fn path_types(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Text], DataType::Utf8).or_else(|| typed(types, &[Is::Text, Is::Bool], DataType::Utf8))
}

fn path_types_list(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Text], DataType::new_list(DataType::Utf8, true))
}

fn parse_filename(call: &Call) -> Result<ArrayRef> {
    call.texts(|row| {
        Ok(call.text(0, row).map(|path| {
            let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
            match call.bool(1, row) {
                Some(true) => file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_string(),
                _ => file.to_string(),
            }
        }))
    })
}
