//! UUIDs: 16 bytes, ordered bytewise, and their text form.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, exec_err, plan_err};
use datafusion::logical_expr::Expr;

use super::casts;
use super::operators::strict_cast;
use super::types::{is_text, type_name};

/// Bytes of a UUID.
pub(super) const BYTES: i32 = 16;

/// The type of UUIDs, which no other values have: fixed-size binary values from outside are BLOBs ([`super::outside`]).
pub(super) const UUID: DataType = DataType::FixedSizeBinary(BYTES);

/// The bytes of a UUID in text form: 32 hexadecimal digits, in braces or not, with hyphens anywhere; `None` for other texts.
pub(super) fn read(text: &str) -> Option<[u8; 16]> {
    let digits = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut digits = digits.chars().filter(|&c| c != '-').map(|c| c.to_digit(16));
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = (digits.next()?? * 16 + digits.next()??) as u8;
    }
    digits.next().is_none().then_some(bytes)
}

/// The text of a UUID: lower-case digits with hyphens.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0')));
    }
    text
}

/// The texts of UUIDs.
pub(super) fn texts(array: &FixedSizeBinaryArray) -> StringArray {
    array.iter().map(|bytes| bytes.map(text)).collect()
}

/// UUIDs as a column.
pub(super) fn column(values: impl ExactSizeIterator<Item = Result<Option<[u8; 16]>>>) -> Result<ArrayRef> {
    let mut column = FixedSizeBinaryBuilder::with_capacity(values.len(), BYTES);
    for value in values {
        match value? {
            Some(bytes) => column.append_value(bytes)?,
            None => column.append_null(),
        }
    }
    Ok(Arc::new(column.finish()))
}

/// The type to compare a UUID and a text or bytes in; `None`: other operands.
///
/// # Errors
/// Ordered comparisons with text that is not constant.
pub(super) fn compared(
    left: (&Expr, &DataType),
    right: (&Expr, &DataType),
    equality: bool,
) -> Result<Option<DataType>> {
    for ((_, ty), (other, other_ty)) in [(left, right), (right, left)] {
        if *ty != UUID || *other_ty == UUID || !(is_text(other_ty) || other_ty.is_binary()) {
            continue;
        }
        if !equality && !is_constant_text(other) {
            return plan_err!(
                "Cannot compare values of type UUID and type {} - an explicit cast is required",
                type_name(other_ty)
            );
        }
        return Ok(Some(UUID));
    }
    Ok(None)
}

/// The type of a column of a set operation with UUIDs in some branches and texts or bytes in others.
pub(super) fn stacked(left: &DataType, right: &DataType) -> Option<DataType> {
    let other = match (*left == UUID, *right == UUID) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    (is_text(other) || other.is_binary()).then_some(UUID)
}

/// Whether an expression is a constant text.
pub(super) fn is_constant_text(e: &Expr) -> bool {
    matches!(e, Expr::Literal(value, _) if is_text(&value.data_type()))
}

/// A constant text as a UUID; other expressions are unchanged.
///
/// # Errors
/// A text that is no UUID.
pub(super) fn constant(e: Expr) -> Result<Expr> {
    if is_constant_text(&e) { casts::bind(e, &UUID, false, &DFSchema::empty()) } else { Ok(e) }
}

/// Texts as UUIDs.
///
/// # Errors
/// A text that is not a UUID, unless `try_cast` makes it NULL.
pub(super) fn of_texts(array: &ArrayRef, try_cast: bool) -> Result<ArrayRef> {
    let texts = strict_cast(array, &DataType::Utf8)?;
    let texts: &StringArray = texts.as_string();
    column(texts.iter().map(|text| match text.map(|text| (text, read(text))) {
        Some((text, None)) if !try_cast => exec_err!("Could not convert string '{text}' to UUID"),
        found => Ok(found.and_then(|(_, bytes)| bytes)),
    }))
}

/// Bytes as UUIDs.
///
/// # Errors
/// Values that are not 16 bytes long, unless `try_cast` makes them NULL.
pub(super) fn of_bytes(array: &ArrayRef, try_cast: bool) -> Result<ArrayRef> {
    let values = strict_cast(array, &DataType::Binary)?;
    let values: &BinaryArray = values.as_binary();
    column(values.iter().map(|bytes| match bytes.map(<[u8; 16]>::try_from) {
        Some(Err(_)) if !try_cast => {
            exec_err!("Could not convert a BLOB of {} bytes to UUID: it takes {BYTES}", bytes.map_or(0, <[u8]>::len))
        }
        found => Ok(found.and_then(Result::ok)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

    #[test]
    fn texts_are_read_as_duckdb_reads_them() {
        let bytes = read(PLAIN).unwrap();
        assert_eq!((bytes[0], bytes[15], text(&bytes).as_str()), (0xa0, 0x11, PLAIN));
        for same in [
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "--a0eebc99--9c0b4ef8bb6d6bb9bd380a1-1-",
        ] {
            assert_eq!(read(same), Some(bytes), "{same}");
        }
        for none in ["", "x", "{}", "{", " a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a1"] {
            assert_eq!(read(none), None, "{none}");
        }
        for none in [
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a111",
            "+0eebc999c0b4ef8bb6d6bb9bd380a11",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
