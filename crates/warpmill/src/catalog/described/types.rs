//! Types with DuckDB's names: `duckdb_types()`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use warpmill_format::enums;

use super::{shown_schema, table};
use crate::Result;
use crate::catalog::{CATALOG, Catalog, DUCKDB_MAIN, Defined};
use crate::dialect::{type_name, type_of};

/// The built-in types: each name in DuckDB, and the name of the logical type that DuckDB shows for it.
const BUILT_IN: [(&str, &str); 64] = [
    ("array", "ARRAY"),
    ("bigint", "BIGINT"),
    ("binary", "BLOB"),
    ("blob", "BLOB"),
    ("bool", "BOOLEAN"),
    ("boolean", "BOOLEAN"),
    ("bpchar", "VARCHAR"),
    ("bytea", "BLOB"),
    ("char", "VARCHAR"),
    ("date", "DATE"),
    ("datetime", "TIMESTAMP"),
    ("dec", "DECIMAL"),
    ("decimal", "DECIMAL"),
    ("double", "DOUBLE"),
    ("enum", "ENUM"),
    ("float", "FLOAT"),
    ("float4", "FLOAT"),
    ("float8", "DOUBLE"),
    ("guid", "UUID"),
    ("hugeint", "HUGEINT"),
    ("int", "INTEGER"),
    ("int1", "TINYINT"),
    ("int128", "HUGEINT"),
    ("int16", "SMALLINT"),
    ("int2", "SMALLINT"),
    ("int32", "INTEGER"),
    ("int4", "INTEGER"),
    ("int64", "BIGINT"),
    ("int8", "BIGINT"),
    ("integer", "INTEGER"),
    ("interval", "INTERVAL"),
    ("list", "LIST"),
    ("logical", "BOOLEAN"),
    ("long", "BIGINT"),
    ("map", "MAP"),
    ("numeric", "DECIMAL"),
    ("nvarchar", "VARCHAR"),
    ("real", "FLOAT"),
    ("short", "SMALLINT"),
    ("signed", "INTEGER"),
    ("smallint", "SMALLINT"),
    ("string", "VARCHAR"),
    ("struct", "STRUCT"),
    ("text", "VARCHAR"),
    ("time", "TIME"),
    ("timestamp", "TIMESTAMP"),
    ("timestamp with time zone", "TIMESTAMP WITH TIME ZONE"),
    ("timestamp_ms", "TIMESTAMP_MS"),
    ("timestamp_ns", "TIMESTAMP_NS"),
    ("timestamp_s", "TIMESTAMP_S"),
    ("timestamp_us", "TIMESTAMP"),
    ("timestamptz", "TIMESTAMP WITH TIME ZONE"),
    ("tinyint", "TINYINT"),
    ("ubigint", "UBIGINT"),
    ("uint16", "USMALLINT"),
    ("uint32", "UINTEGER"),
    ("uint64", "UBIGINT"),
    ("uint8", "UTINYINT"),
    ("uinteger", "UINTEGER"),
    ("usmallint", "USMALLINT"),
    ("utinyint", "UTINYINT"),
    ("uuid", "UUID"),
    ("varbinary", "BLOB"),
    ("varchar", "VARCHAR"),
];

struct Type {
    schema: String,
    name: String,
    /// The name of the logical type, without parameters.
    logical: String,
    labels: Option<Vec<String>>,
    /// Whether it is a built-in type.
    internal: bool,
}

/// The built-in types, and the types of all schemas.
fn all(catalog: &Catalog) -> Result<Vec<Type>> {
    let built_in = |(name, logical): &(&str, &str)| Type {
        schema: DUCKDB_MAIN.to_string(),
        name: name.to_string(),
        logical: logical.to_string(),
        labels: None,
        internal: true,
    };
    let mut all: Vec<Type> = BUILT_IN.iter().map(built_in).collect();
    for of in catalog.all_schemas()? {
        let Some(schema) = catalog.find_schema(&of)? else { continue };
        for name in schema.defined_names(Defined::Type)? {
            if let Some(text) = schema.definition(Defined::Type, &name)? {
                let data_type = type_of(&text)?;
                let labels = enums::members(&data_type);
                let (schema, logical) = (shown_schema(&of), logical(&data_type));
                all.push(Type { schema, name, logical, labels, internal: false });
            }
        }
    }
    Ok(all)
}

/// The name of the logical type, without parameters.
fn logical(data_type: &DataType) -> String {
    match data_type {
        ty if enums::is_enum(ty) => "ENUM".to_string(),
        DataType::List(_) => "LIST".to_string(),
        DataType::FixedSizeList(..) => "ARRAY".to_string(),
        ty => type_name(ty).split('(').next().unwrap_or_default().to_string(),
    }
}

/// `duckdb_types()`.
pub(super) fn duckdb_types(catalog: &Catalog) -> Result<Arc<dyn TableProvider>> {
    let all = all(catalog)?;
    let texts =
        |of: &dyn Fn(&Type) -> Option<String>| -> ArrayRef { Arc::new(all.iter().map(of).collect::<StringArray>()) };
    let mut labels = ListBuilder::new(StringBuilder::new());
    for one in &all {
        labels.append_option(one.labels.as_ref().map(|labels| labels.iter().map(Some)));
    }
    table(vec![
        ("database_name", texts(&|one| Some(if one.internal { "system" } else { CATALOG }.to_string()))),
        ("schema_name", texts(&|one| Some(one.schema.clone()))),
        ("type_name", texts(&|one| Some(one.name.clone()))),
        ("logical_type", texts(&|one| Some(one.logical.clone()))),
        ("comment", texts(&|_| None)),
        ("internal", Arc::new(all.iter().map(|one| Some(one.internal)).collect::<BooleanArray>()) as ArrayRef),
        ("labels", Arc::new(labels.finish())),
    ])
}
