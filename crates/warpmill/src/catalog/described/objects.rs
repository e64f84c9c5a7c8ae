//! Databases, schemas and sequences.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::catalog::TableProvider;

use super::{integers, shown_schema, table, texts, truths};
use crate::Result;
use crate::catalog::{CATALOG, Catalog, is_main};

/// The folder of the database, if there is one. A session without access to files does not reveal it.
fn path(catalog: &Catalog) -> Option<String> {
    let path = catalog.database.as_ref().filter(|_| catalog.shared.remote.allowed())?;
    Some(std::path::absolute(path).as_ref().unwrap_or(path).to_string_lossy().into_owned())
}

fn one(text: Option<String>) -> ArrayRef {
    texts(std::iter::once(text))
}

/// `duckdb_databases()`, with one row for the only database.
pub(super) fn databases(catalog: &Catalog) -> Result<Arc<dyn TableProvider>> {
    table(vec![
        ("database_name", one(Some(CATALOG.to_string()))),
        ("path", one(path(catalog))),
        ("comment", one(None)),
        ("internal", truths(std::iter::once(false))),
        ("type", one(Some("warpmill".to_string()))),
        ("readonly", truths(std::iter::once(false))),
    ])
}

/// `pragma_database_list`.
pub(super) fn database_list(catalog: &Catalog) -> Result<Arc<dyn TableProvider>> {
    table(vec![
        ("seq", integers(std::iter::once(Some(0)))),
        ("name", one(Some(CATALOG.to_string()))),
        ("file", one(path(catalog))),
    ])
}

/// `duckdb_schemas()`.
pub(super) fn schemas(catalog: &Catalog) -> Result<Arc<dyn TableProvider>> {
    let names = catalog.all_schemas()?;
    table(vec![
        ("database_name", texts(names.iter().map(|_| Some(CATALOG.to_string())))),
        ("schema_name", texts(names.iter().map(|name| Some(shown_schema(name))))),
        ("comment", texts(names.iter().map(|_| None))),
        ("internal", truths(names.iter().map(|name| is_main(name)))),
        ("sql", texts(names.iter().map(|_| None))),
    ])
}

/// `duckdb_sequences()`.
pub(super) fn sequences(catalog: &Catalog) -> Result<Arc<dyn TableProvider>> {
    let mut all = vec![];
    for of in catalog.all_schemas()? {
        let Some(schema) = catalog.find_schema(&of)? else { continue };
        for (name, sequence, temporary) in schema.all_sequences()? {
            all.push((of.clone(), name, sequence, temporary));
        }
    }
    table(vec![
        ("database_name", texts(all.iter().map(|_| Some(CATALOG.to_string())))),
        ("schema_name", texts(all.iter().map(|(schema, ..)| Some(shown_schema(schema))))),
        ("sequence_name", texts(all.iter().map(|(_, name, ..)| Some(name.clone())))),
        ("comment", texts(all.iter().map(|_| None))),
        ("temporary", truths(all.iter().map(|(.., temporary)| *temporary))),
        ("start_value", integers(all.iter().map(|(_, _, sequence, _)| Some(sequence.start())))),
        ("min_value", integers(all.iter().map(|(_, _, sequence, _)| Some(sequence.min())))),
        ("max_value", integers(all.iter().map(|(_, _, sequence, _)| Some(sequence.max())))),
        ("increment_by", integers(all.iter().map(|(_, _, sequence, _)| Some(sequence.increment())))),
        ("cycle", truths(all.iter().map(|(_, _, sequence, _)| sequence.cycles()))),
        ("last_value", integers(all.iter().map(|(_, _, sequence, _)| sequence.last()))),
        ("sql", texts(all.iter().map(|(schema, name, sequence, _)| Some(sequence.creating(schema, name))))),
    ])
}
