//! The types that CREATE TYPE has made, in DuckDB's words: `duckdb_types()`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use warpmill_format::enums;

use super::described::{shown_schema, table};
use super::{CATALOG, Catalog, Defined};
use crate::Result;
use crate::dialect::{type_name, type_of};

/// The name of the table of types in `information_schema`.
pub(super) const NAME: &str = "duckdb_types";

struct Type {
    schema: String,
    name: String,
    data_type: DataType,
}

/// The types of all schemas.
fn all(catalog: &Catalog) -> Result<Vec<Type>> {
    let mut all = vec![];
    for of in catalog.all_schemas()? {
        let Some(schema) = catalog.find_schema(&of)? else { continue };
        for name in schema.defined_names(Defined::Type)? {
            if let Some(text) = schema.definition(Defined::Type, &name)? {
                all.push(Type { schema: shown_schema(&of), name, data_type: type_of(&text)? });
            }
        }
    }
    Ok(all)
}

pub(super) fn duckdb_types(catalog: &Catalog) -> Result<Arc<dyn TableProvider>> {
    let all = all(catalog)?;
    let texts =
        |of: &dyn Fn(&Type) -> Option<String>| -> ArrayRef { Arc::new(all.iter().map(of).collect::<StringArray>()) };
    let mut labels = ListBuilder::new(StringBuilder::new());
    for one in &all {
        labels.append_option(enums::members(&one.data_type).map(|members| members.into_iter().map(Some)));
    }
    // The name of a type without its parameters.
    let logical = |one: &Type| match &one.data_type {
        ty if enums::is_enum(ty) => "ENUM".to_string(),
        DataType::List(_) => "LIST".to_string(),
        DataType::FixedSizeList(..) => "ARRAY".to_string(),
        ty => type_name(ty).split('(').next().unwrap_or_default().to_string(),
    };
    table(vec![
        ("database_name", texts(&|_| Some(CATALOG.to_string()))),
        ("schema_name", texts(&|one| Some(one.schema.clone()))),
        ("type_name", texts(&|one| Some(one.name.clone()))),
        ("logical_type", texts(&|one| Some(logical(one)))),
        ("comment", texts(&|_| None)),
        ("internal", Arc::new(all.iter().map(|_| Some(false)).collect::<BooleanArray>()) as ArrayRef),
        ("labels", Arc::new(labels.finish())),
    ])
}
