//! Casts of types that Arrow does not have, also within lists, structs and maps: UUIDs and ENUMs.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, Schema};
use datafusion::common::{Result, not_impl_err};

use super::operators::strict_cast;
use super::types::{is_text, type_name};
use super::uuids::{self, BYTES, UUID};
use super::{enums, written};

/// Whether a type is a UUID or an ENUM, or contains one.
pub(super) fn is_within(ty: &DataType) -> bool {
    any(ty, &|ty| *ty == UUID || enums::is_enum(ty))
}

/// Whether a type is an ENUM, or contains one.
pub(super) fn has_enums(ty: &DataType) -> bool {
    any(ty, &enums::is_enum)
}

/// Whether types contain an ENUM together with another ENUM or with text.
pub(super) fn are_mixed(types: &[DataType]) -> bool {
    let found: Vec<DataType> = types.iter().flat_map(enums_in).collect();
    let has_texts = || types.iter().any(|ty| any(ty, &is_text));
    !found.is_empty() && (found.iter().any(|ty| *ty != found[0]) || has_texts())
}

/// The ENUMs that a type is or contains.
pub(super) fn enums_in(ty: &DataType) -> Vec<DataType> {
    let found = RefCell::new(vec![]);
    any(ty, &|ty| {
        if enums::is_enum(ty) {
            found.borrow_mut().push(ty.clone());
        }
        false
    });
    found.into_inner()
}

/// Whether `holds` for a type, or for a type nested in it.
fn any(ty: &DataType, holds: &dyn Fn(&DataType) -> bool) -> bool {
    if holds(ty) {
        return true;
    }
    match ty {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => any(field.data_type(), holds),
        DataType::Struct(fields) => fields.iter().any(|field| any(field.data_type(), holds)),
        DataType::Dictionary(_, value) => any(value, holds),
        _ => false,
    }
}

/// `batch` with texts converted to the ENUMs and UUIDs of `schema`; columns are matched by position.
///
/// # Errors
/// A text that is not a member, or not a UUID.
pub(crate) fn as_members(batch: &RecordBatch, schema: &Schema) -> Result<RecordBatch> {
    let (mut fields, mut columns) = (vec![], vec![]);
    for (at, (field, column)) in batch.schema_ref().fields().iter().zip(batch.columns()).enumerate() {
        let to = schema.fields().get(at).map(|field| field.data_type()).filter(|ty| is_within(ty));
        let column = to.map_or_else(|| Ok(Arc::clone(column)), |to| cast(column, to, false))?;
        fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
        columns.push(column);
    }
    let schema = Schema::new_with_metadata(fields, batch.schema_ref().metadata().clone());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}

/// Casts `array` to type `to`, where one of the types is or contains a UUID or an ENUM.
///
/// # Errors
/// Values that the type does not have, unless `try_cast` makes them NULL; types without a cast between them.
pub(super) fn cast(array: &ArrayRef, to: &DataType, try_cast: bool) -> Result<ArrayRef> {
    use DataType::{FixedSizeBinary, FixedSizeList, List, Map, Null, Struct};
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    match (from, to) {
        (Null, to) => Ok(new_null_array(to, array.len())),
        (DataType::Dictionary(_, values), to) => cast(&strict_cast(array, values)?, to, try_cast),
        (from, to) if enums::is_enum(from) => {
            let texts: ArrayRef = Arc::new(enums::texts(array)?);
            cast(&texts, to, try_cast)
        }
        (from, to) if enums::is_enum(to) && is_text(from) => enums::of_texts(array, to, try_cast),
        (from, FixedSizeBinary(BYTES)) if is_text(from) => uuids::of_texts(array, try_cast),
        (from, FixedSizeBinary(BYTES)) if from.is_binary() => uuids::of_bytes(array, try_cast),
        (FixedSizeBinary(BYTES), to) if is_text(to) => {
            strict_cast(&(Arc::new(uuids::texts(array.as_fixed_size_binary())) as ArrayRef), to)
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
        // The kind of list is converted first, then its elements.
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

/// A struct with the fields `to`, matched by name; missing fields are NULL.
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, StringArray};

    const PLAIN: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

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

    #[test]
    fn members_are_cast() {
        let of =
            |members: &[&str]| enums::data_type(&members.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        let (one, other) = (of(&["a", "b"]), of(&["b", "c", "a"]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a")]));
        let values = cast(&texts, &one, false).unwrap();
        let moved = cast(&values, &other, false).unwrap();
        assert_eq!(enums::positions(&moved).unwrap().iter().collect::<Vec<_>>(), [Some(0), None, Some(2)]);
        assert_eq!(&cast(&moved, &DataType::Utf8, false).unwrap(), &texts);
        assert!(cast(&values, &of(&["a"]), false).is_err());
        assert_eq!(cast(&values, &of(&["a"]), true).unwrap().null_count(), 2);
    }
}
