//! UUIDs: 16 bytes, in whose order they are, and the texts that they are read from and written as.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, FixedSizeListArray, ListArray,
    MapArray, StringArray, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{DFSchema, Result, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::Expr;

use super::casts;
use super::operators::strict_cast;
use super::types::{is_text, type_name};
use super::written;

/// Bytes of a UUID.
pub(super) const BYTES: i32 = 16;

/// The type of UUIDs: nothing else has it, for bytes of a fixed number that come from elsewhere are BLOBs ([`super::outside`]).
pub(super) const UUID: DataType = DataType::FixedSizeBinary(BYTES);

/// Whether a type has UUIDs in it, as the type itself or as that of a part.
pub(super) fn is_within(ty: &DataType) -> bool {
    match ty {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => is_within(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_within(field.data_type())),
        DataType::Dictionary(_, value) => is_within(value),
        ty => *ty == UUID,
    }
}

/// The bytes of the UUID that a text writes: 32 hexadecimal digits, in braces or not, with hyphens anywhere; `None` for other texts.
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

/// The text of a UUID: digits in lower case, with hyphens.
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

/// The type to compare two values in, of which one is a UUID and the other a text or bytes; `None`: they are others.
///
/// # Errors
/// Comparisons by order with what is no constant text.
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

/// The type of a column of a set operation, of which branches have UUIDs, and texts or bytes.
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

/// A constant text as a UUID; other expressions stay what they are.
///
/// # Errors
/// A text that is no UUID.
pub(super) fn constant(e: Expr) -> Result<Expr> {
    if is_constant_text(&e) { casts::bind(e, &UUID, false, &DFSchema::empty()) } else { Ok(e) }
}

/// `array` as values of type `to`, where one of the types has UUIDs in it.
///
/// # Errors
/// Values that are no UUIDs, unless `try_cast` makes them NULL; types of which none is made of the other.
pub(super) fn cast(array: &ArrayRef, to: &DataType, try_cast: bool) -> Result<ArrayRef> {
    use DataType::{FixedSizeBinary, FixedSizeList, List, Map, Null, Struct};
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    match (from, to) {
        (Null, to) => Ok(new_null_array(to, array.len())),
        (DataType::Dictionary(_, values), to) => cast(&strict_cast(array, values)?, to, try_cast),
        (from, FixedSizeBinary(BYTES)) if is_text(from) => of_texts(array, try_cast),
        (from, FixedSizeBinary(BYTES)) if from.is_binary() => of_bytes(array, try_cast),
        (FixedSizeBinary(BYTES), to) if is_text(to) => {
            strict_cast(&(Arc::new(texts(array.as_fixed_size_binary())) as ArrayRef), to)
        }
        (FixedSizeBinary(BYTES), to) if to.is_binary() => strict_cast(array, to),
        (from, DataType::Utf8) if written::has_parts(from) => written::column(array),
        (List(_), List(to)) => {
            let lists = array.as_list::<i32>();
            let values = cast(lists.values(), to.data_type(), try_cast)?;
            let nulls = lists.nulls().cloned();
            Ok(Arc::new(ListArray::try_new(Arc::clone(to), lists.offsets().clone(), values, nulls)?))
        }
        (FixedSizeList(_, length), FixedSizeList(to, other)) if length == other => {
            let lists = array.as_fixed_size_list();
            let values = cast(lists.values(), to.data_type(), try_cast)?;
            let nulls = lists.nulls().cloned();
            let made = FixedSizeListArray::try_new_with_length(Arc::clone(to), *length, values, nulls, lists.len());
            Ok(Arc::new(made?))
        }
        // Of another kind of list first, and then of other elements.
        (FixedSizeList(own, _), List(_)) => cast(&strict_cast(array, &List(Arc::clone(own)))?, to, try_cast),
        (List(own), FixedSizeList(_, length)) => {
            cast(&strict_cast(array, &FixedSizeList(Arc::clone(own), *length))?, to, try_cast)
        }
        (Struct(_), Struct(to)) => Ok(Arc::new(of_fields(array.as_struct(), to, try_cast)?)),
        (Map(..), Map(entries, sorted)) => {
            let (maps, Struct(to)) = (array.as_map(), entries.data_type()) else {
                return not_impl_err!("a cast to {}", type_name(to));
            };
            let parts = maps.entries().columns().iter().zip(to);
            let parts = parts.map(|(part, to)| cast(part, to.data_type(), try_cast)).collect::<Result<Vec<_>>>()?;
            let made = StructArray::try_new_with_length(to.clone(), parts, None, maps.entries().len())?;
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, made, nulls, *sorted)?))
        }
        (from, to) if is_within(from) || is_within(to) => {
            not_impl_err!("a cast from {} to {}", type_name(from), type_name(to))
        }
        (_, to) => Ok(cast_with_options(array, to, &CastOptions { safe: try_cast, ..CastOptions::default() })?),
    }
}

/// A struct with the fields `to`, which are found by their names: those that are not there are NULL.
fn of_fields(from: &StructArray, to: &Fields, try_cast: bool) -> Result<StructArray> {
    let column = |field: &FieldRef| {
        let own = from.fields().iter().position(|own| own.name().eq_ignore_ascii_case(field.name()));
        match own {
            Some(at) => cast(from.column(at), field.data_type(), try_cast),
            None => Ok(new_null_array(field.data_type(), from.len())),
        }
    };
    let columns = to.iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new_with_length(to.clone(), columns, from.nulls().cloned(), from.len())?)
}

fn of_texts(array: &ArrayRef, try_cast: bool) -> Result<ArrayRef> {
    let texts = strict_cast(array, &DataType::Utf8)?;
    let texts: &StringArray = texts.as_string();
    column(texts.iter().map(|text| match text.map(|text| (text, read(text))) {
        Some((text, None)) if !try_cast => exec_err!("Could not convert string '{text}' to UUID"),
        found => Ok(found.and_then(|(_, bytes)| bytes)),
    }))
}

fn of_bytes(array: &ArrayRef, try_cast: bool) -> Result<ArrayRef> {
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

    #[test]
    fn parts_are_cast() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(PLAIN), None, Some("x")]));
        assert!(cast(&texts, &UUID, false).is_err());
        let tried = cast(&texts, &UUID, true).unwrap();
        assert_eq!((tried.null_count(), tried.as_fixed_size_binary().value(0)[0]), (2, 0xa0));
        let back = cast(&tried, &DataType::Utf8, false).unwrap();
        assert_eq!(back.as_string::<i32>().iter().collect::<Vec<_>>(), [Some(PLAIN), None, None]);
        let bytes = cast(&tried, &DataType::Binary, false).unwrap();
        assert_eq!(&cast(&bytes, &UUID, false).unwrap(), &tried);
        let short: ArrayRef = Arc::new(BinaryArray::from(vec![&b"abc"[..]]));
        assert!(cast(&short, &UUID, false).is_err() && cast(&short, &UUID, true).unwrap().is_null(0));
        let DataType::List(element) = DataType::new_list(DataType::Utf8, true) else { panic!("no list") };
        let offsets = arrow::buffer::OffsetBuffer::from_lengths([1, 2]);
        let lists: ArrayRef = Arc::new(ListArray::try_new(element, offsets, back, None).unwrap());
        let made = cast(&lists, &DataType::new_list(UUID, true), false).unwrap();
        assert_eq!(made.as_list::<i32>().value(0).as_fixed_size_binary().value(0)[15], 0x11);
        assert_eq!(&cast(&made, lists.data_type(), false).unwrap(), &lists);
    }
}
