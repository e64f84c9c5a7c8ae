//! Types of other systems: conversion of Arrow types to types of the dialect, and of UUIDs and ENUMs to types that Arrow readers know.
//!
//! In the dialect, 16 bytes of fixed size are a UUID. In Arrow schemas, an extension type marks UUIDs; other fixed-size binary columns are BLOBs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, make_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::enums;
use super::uuids::{self, UUID};

/// The keys of a field's metadata that name its extension type.
const EXTENSION: [&str; 2] = ["ARROW:extension:name", "ARROW:extension:metadata"];

/// The name of the extension type of UUIDs.
const UUID_EXTENSION: &str = "arrow.uuid";

/// The representation of UUIDs and ENUM values for readers outside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Both as text; ENUMs in dictionaries.
    Texts,
    /// UUIDs of Arrow's extension type, and texts in dictionaries.
    Extension,
    /// UUIDs unchanged, and texts in dictionaries.
    Values,
    /// UUIDs of Arrow's extension type, ENUMs unchanged: [`received_schema`] restores the same schema.
    Exact,
}

/// The dialect's schema for rows from outside with `schema`.
pub fn received_schema(schema: &SchemaRef) -> SchemaRef {
    with_leaves(schema, &|field| match field.data_type() {
        DataType::FixedSizeBinary(_) if is_uuid(field) => Some(field.clone().with_metadata(without_extension(field))),
        DataType::FixedSizeBinary(_) => Some(field.clone().with_data_type(DataType::Binary)),
        _ => None,
    })
}

/// The schema of rows of `schema` for readers outside.
pub fn given_schema(schema: &SchemaRef, form: Form) -> SchemaRef {
    with_leaves(schema, &|field| match (field.data_type(), form) {
        (ty, Form::Texts | Form::Extension | Form::Values) if enums::is_enum(ty) => {
            let ordered = form == Form::Extension;
            Some(field.clone().with_data_type(enums::dictionary_type(ty)).with_dict_is_ordered(ordered))
        }
        (ty, Form::Texts) if *ty == UUID => Some(field.clone().with_data_type(DataType::Utf8)),
        (ty, Form::Extension | Form::Exact) if *ty == UUID => {
            let mut metadata = without_extension(field);
            metadata.insert(EXTENSION[0].into(), UUID_EXTENSION.into());
            Some(field.clone().with_metadata(metadata))
        }
        _ => None,
    })
}

/// A type with ENUMs replaced by text.
pub(super) fn without_enums(ty: &DataType) -> DataType {
    let field = Arc::new(Field::new("", ty.clone(), true));
    let text = |field: &Field| enums::is_enum(field.data_type()).then(|| field.clone().with_data_type(DataType::Utf8));
    field_with_leaves(&field, &text).data_type().clone()
}

/// `batch` with `schema`, which [`received_schema`] or [`given_schema`] has made of the batch's schema.
///
/// # Errors
/// Values beyond what an array of another type holds.
pub fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let fields = schema.fields().iter();
    let columns = batch.columns().iter().zip(fields).map(|(column, field)| converted(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
}

/// `array` with UUIDs replaced by text.
///
/// # Errors
/// Texts beyond what one array holds.
pub fn with_texts(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let field = Arc::new(Schema::new(vec![Field::new("", array.data_type().clone(), true)]));
    converted(array, given_schema(&field, Form::Texts).field(0).data_type())
}

/// Whether a field from outside holds UUIDs.
fn is_uuid(field: &Field) -> bool {
    *field.data_type() == UUID && field.metadata().get(EXTENSION[0]).is_some_and(|name| name == UUID_EXTENSION)
}

fn without_extension(field: &Field) -> std::collections::HashMap<String, String> {
    let mut metadata = field.metadata().clone();
    EXTENSION.iter().for_each(|key| drop(metadata.remove(*key)));
    metadata
}

/// `schema` with each field, nested ones included, replaced by the result of `leaf`, if any; shared if nothing changes.
fn with_leaves(schema: &SchemaRef, leaf: &dyn Fn(&Field) -> Option<Field>) -> SchemaRef {
    let fields = fields_with_leaves(schema.fields(), leaf);
    if fields == *schema.fields() {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn fields_with_leaves(fields: &Fields, leaf: &dyn Fn(&Field) -> Option<Field>) -> Fields {
    fields.iter().map(|field| field_with_leaves(field, leaf)).collect()
}

fn field_with_leaves(field: &FieldRef, leaf: &dyn Fn(&Field) -> Option<Field>) -> FieldRef {
    if let Some(made) = leaf(field) {
        return Arc::new(made);
    }
    let within = |field: &FieldRef| field_with_leaves(field, leaf);
    let ty = match field.data_type() {
        DataType::List(element) => DataType::List(within(element)),
        DataType::LargeList(element) => DataType::LargeList(within(element)),
        DataType::ListView(element) => DataType::ListView(within(element)),
        DataType::LargeListView(element) => DataType::LargeListView(within(element)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(within(element), *length),
        DataType::Map(entries, sorted) => DataType::Map(within(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields_with_leaves(fields, leaf)),
        DataType::Dictionary(key, value) => {
            let value = within(&Arc::new(field.as_ref().clone().with_data_type(value.as_ref().clone())));
            DataType::Dictionary(key.clone(), Box::new(value.data_type().clone()))
        }
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(ty))
}

/// Converts `array` to type `to`, which differs in the representation of fixed-size binary values and in field metadata.
fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let types: Vec<&DataType> = match (array.data_type(), to) {
        (from, to) if from == to => return Ok(Arc::clone(array)),
        (DataType::FixedSizeBinary(_), DataType::Utf8) => {
            return Ok(Arc::new(uuids::texts(array.as_fixed_size_binary())));
        }
        (from, DataType::Dictionary(..)) if enums::is_enum(from) => {
            return enums::dictionary(array).map_err(|error| ArrowError::ExternalError(Box::new(error)));
        }
        (DataType::FixedSizeBinary(_), to) => return arrow::compute::cast(array, to),
        (_, DataType::Struct(fields)) => fields.iter().map(|field| field.data_type()).collect(),
        (_, DataType::Dictionary(_, value)) => vec![value],
        (
            _,
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::ListView(element)
            | DataType::LargeListView(element)
            | DataType::FixedSizeList(element, _)
            | DataType::Map(element, _),
        ) => vec![element.data_type()],
        (from, to) => return Err(ArrowError::CastError(format!("{from} as {to}"))),
    };
    let data = array.to_data();
    let children = data.child_data().iter().zip(types);
    let children = children.map(|(child, to)| Ok(converted(&make_array(child.clone()), to)?.to_data()));
    let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(make_array(data.into_builder().data_type(to.clone()).child_data(children).build()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{FixedSizeBinaryArray, ListArray};
    use arrow::buffer::OffsetBuffer;

    fn batch(field: Field, array: ArrayRef) -> RecordBatch {
        RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
    }

    fn bytes(value: u8) -> ArrayRef {
        Arc::new(FixedSizeBinaryArray::try_from_iter([[value; 16], [0; 16]].into_iter()).unwrap())
    }

    #[test]
    fn extensions_tell_uuids_from_bytes() {
        let plain = batch(Field::new("b", UUID, true), bytes(255));
        let received = received_schema(&plain.schema());
        assert_eq!(*received.field(0).data_type(), DataType::Binary);
        let made = with_schema(plain.clone(), &received).unwrap();
        assert_eq!(made.column(0).as_binary::<i32>().value(0), [255; 16]);
        // UUIDs of the dialect, exported and imported again.
        let given = given_schema(&plain.schema(), Form::Extension);
        assert_eq!(given.field(0).metadata()["ARROW:extension:name"], "arrow.uuid");
        let there = with_schema(plain.clone(), &given).unwrap();
        assert_eq!(with_schema(there, &received_schema(&given)).unwrap(), plain);
        let others = Arc::new(Schema::new(vec![Field::new("x", DataType::Int32, true)]));
        assert!(Arc::ptr_eq(&received_schema(&others), &others));
    }

    #[test]
    fn parts_are_given_as_texts() {
        let element = Arc::new(Field::new_list_field(UUID, true));
        let lists = ListArray::try_new(Arc::clone(&element), OffsetBuffer::from_lengths([0, 2]), bytes(1), None);
        let lists = batch(Field::new("l", DataType::List(element), true), Arc::new(lists.unwrap())).slice(1, 1);
        let texts = with_schema(lists.clone(), &given_schema(&lists.schema(), Form::Texts)).unwrap();
        let row = texts.column(0).as_list::<i32>().value(0);
        assert_eq!(row.as_string::<i32>().value(0), "01010101-0101-0101-0101-010101010101");
        assert_eq!(&with_texts(lists.column(0)).unwrap(), texts.column(0));
    }
}
