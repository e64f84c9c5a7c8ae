//! Fixed-size byte arrays in Parquet files: UUIDs if the file declares them so, otherwise binary values.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet::basic::LogicalType;
use parquet::file::metadata::ParquetMetaData;

use crate::segment::UUID_BYTES;

/// The schema of the rows of files with these footers, for which Arrow's reader returns `schema`: fixed-size byte arrays become `Binary`, except
/// UUIDs. No field has an extension type.
pub fn with_uuids(schema: &SchemaRef, footers: &[impl AsRef<ParquetMetaData>]) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let mut leaves = leaves_of(field.name(), footers).into_iter();
        typed(field, &mut leaves)
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone()))
}

/// Whether columns of a schema contain fixed-size byte arrays.
pub fn has_fixed_bytes(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| has_fixed(field.data_type()))
}

fn has_fixed(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(_) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_fixed(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_fixed(field.data_type())),
        _ => false,
    }
}

/// Whether each leaf of the column `name` is of UUIDs in all files.
fn leaves_of(name: &str, footers: &[impl AsRef<ParquetMetaData>]) -> Vec<bool> {
    let of = |footer: &ParquetMetaData| -> Vec<bool> {
        let leaves = footer.file_metadata().schema_descr().columns().iter();
        let own = leaves.filter(|leaf| leaf.path().parts().first().is_some_and(|first| first == name));
        own.map(|leaf| matches!(leaf.logical_type_ref(), Some(LogicalType::Uuid))).collect()
    };
    let mut files = footers.iter().map(|footer| of(footer.as_ref())).filter(|leaves| !leaves.is_empty());
    let mut all = files.next().unwrap_or_default();
    for leaves in files {
        let same = leaves.len() == all.len();
        all.iter_mut().enumerate().for_each(|(at, is_uuid)| *is_uuid &= same && leaves[at]);
    }
    all
}

/// `field` with its leaves, in order, marked as UUIDs or not.
fn typed(field: &FieldRef, leaves: &mut impl Iterator<Item = bool>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(typed(element, leaves)),
        DataType::LargeList(element) => DataType::LargeList(typed(element, leaves)),
        DataType::FixedSizeList(element, length) => DataType::FixedSizeList(typed(element, leaves), *length),
        DataType::Map(entries, sorted) => DataType::Map(typed(entries, leaves), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| typed(field, leaves)).collect()),
        leaf => {
            let is_uuid = leaves.next() == Some(true);
            match leaf {
                DataType::FixedSizeBinary(size) if !(is_uuid && *size == UUID_BYTES) => DataType::Binary,
                leaf => leaf.clone(),
            }
        }
    };
    Arc::new(plain(field, data_type))
}

/// `field` with another type, and without its extension type.
fn plain(field: &Field, data_type: DataType) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("ARROW:extension:"));
    field.clone().with_data_type(data_type).with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    /// The footer of a file with this schema and without rows.
    fn footer(message: &str) -> Arc<ParquetMetaData> {
        let mut file = vec![];
        let schema = Arc::new(parse_message_type(message).unwrap());
        Arc::new(SerializedFileWriter::new(&mut file, schema, Arc::default()).unwrap().close().unwrap())
    }

    #[test]
    fn files_say_what_their_bytes_are() {
        let one = footer(
            "message m { optional fixed_len_byte_array(16) u (UUID); optional fixed_len_byte_array(16) b; \
             optional group s { optional int32 i; optional fixed_len_byte_array(16) u (UUID); } }",
        );
        let other = footer("message m { optional fixed_len_byte_array(16) u; }");
        let fixed = || DataType::FixedSizeBinary(16);
        let inner = vec![Field::new("i", DataType::Int32, true), Field::new("u", fixed(), true)];
        let schema = Arc::new(Schema::new(vec![
            Field::new("u", fixed(), true),
            Field::new("b", fixed(), true),
            Field::new("s", DataType::Struct(inner.clone().into()), true),
        ]));
        let types =
            |schema: SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
        let wanted = [fixed(), DataType::Binary, DataType::Struct(inner.into())];
        assert_eq!(types(with_uuids(&schema, &[Arc::clone(&one)])), wanted);
        assert_eq!(types(with_uuids(&schema, &[one, other]))[0], DataType::Binary);
    }
}
