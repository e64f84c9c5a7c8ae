//! The tables and files that a plan names, looked up in the session.

use std::sync::Arc;

use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::prelude::ParquetReadOptions;
use datafusion_substrait::substrait::proto::read_rel::LocalFiles;
use datafusion_substrait::substrait::proto::read_rel::local_files::FileOrFiles;
use datafusion_substrait::substrait::proto::read_rel::local_files::file_or_files::{FileFormat, PathType};
use warpmill::Session;

use crate::error::{Result, SubstraitError, invalid, required, unsupported};

/// Something to scan.
pub(super) struct Source {
    /// Name in plans.
    pub(super) name: String,
    pub(super) table: Arc<dyn TableSource>,
}

/// Finds the table `names` (a table, with its schema, with its catalog). Without an exact match, takes a name that differs in case only: Calcite's
/// names are in upper case.
pub(super) fn named_table(session: &Session, names: &[String]) -> Result<Source> {
    let state = session.context().state();
    let defaults = &state.config_options().catalog;
    let (catalog, schema, table) = match names {
        [table] => (&defaults.default_catalog, &defaults.default_schema, table),
        [schema, table] => (&defaults.default_catalog, schema, table),
        [catalog, schema, table] => (catalog, schema, table),
        _ => return invalid(format!("a named table of {} names: 1, 2 or 3 are understood", names.len())),
    };
    let missing = || SubstraitError::Table(format!("table '{}' not found", names.join(".")));
    let catalogs = state.catalog_list();
    let catalog = spelled(catalog, catalogs.catalog_names())?.and_then(|name| catalogs.catalog(&name));
    let catalog = catalog.ok_or_else(missing)?;
    let schema = spelled(schema, catalog.schema_names())?.and_then(|name| catalog.schema(&name)).ok_or_else(missing)?;
    let provider = match table_of(session, &schema, table)? {
        Some(provider) => provider,
        None => {
            let found = spelled(table, schema.table_names())?.ok_or_else(missing)?;
            table_of(session, &schema, &found)?.ok_or_else(missing)?
        }
    };
    Ok(Source { name: table.to_lowercase(), table: provider_as_source(provider) })
}

fn table_of(session: &Session, schema: &Arc<dyn SchemaProvider>, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    Ok(session.block_on(schema.table(name))?)
}

/// The element of `names` that equals `name`, or that differs in case only.
pub(super) fn spelled(name: &str, names: Vec<String>) -> Result<Option<String>> {
    if names.iter().any(|other| other == name) {
        return Ok(Some(name.to_string()));
    }
    let mut alike = names.into_iter().filter(|other| other.eq_ignore_ascii_case(name));
    match (alike.next(), alike.next()) {
        (Some(first), Some(second)) => {
            Err(SubstraitError::Table(format!("the name '{name}' may be '{first}' or '{second}'")))
        }
        (first, _) => Ok(first),
    }
}

/// The rows of Parquet files.
pub(super) fn local_files(session: &Session, files: &LocalFiles) -> Result<Source> {
    let paths = files.items.iter().map(parquet_path).collect::<Result<Vec<_>>>()?;
    let Some(first) = paths.first() else { return invalid("a read relation of local files names none") };
    let stem = first.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let stem = stem.split('.').next().unwrap_or_default();
    let name = if stem.is_empty() || stem.contains(['*', '?', '[']) { "files" } else { stem }.to_lowercase();
    let folder = paths.iter().any(|path| path.ends_with('/'));
    let options = ParquetReadOptions { file_extension: if folder { ".parquet" } else { "" }, ..Default::default() };
    session.open_stores(paths.iter().map(String::as_str))?;
    let frame = session.block_on(session.context().read_parquet(paths, options))?;
    match frame.into_unoptimized_plan() {
        LogicalPlan::TableScan(scan) => Ok(Source { name, table: scan.source }),
        other => invalid(format!("files are read by {}", other.display())),
    }
}

fn parquet_path(file: &FileOrFiles) -> Result<String> {
    if file.start != 0 || file.length != 0 {
        return unsupported("read relation of a part of a file");
    }
    match &file.file_format {
        Some(FileFormat::Parquet(_)) | None => {}
        Some(FileFormat::Arrow(_)) => return unsupported("file format 'arrow'"),
        Some(FileFormat::Orc(_)) => return unsupported("file format 'orc'"),
        Some(FileFormat::Dwrf(_)) => return unsupported("file format 'dwrf'"),
        Some(FileFormat::Text(_)) => return unsupported("file format 'text'"),
        Some(FileFormat::Extension(any)) => return unsupported(format!("file format '{}'", any.type_url)),
    }
    Ok(match required(file.path_type.as_ref(), "the path of a file")? {
        PathType::UriFile(uri) | PathType::UriPath(uri) | PathType::UriPathGlob(uri) => path_of(uri),
        PathType::UriFolder(uri) => format!("{}/", path_of(uri).trim_end_matches('/')),
    })
}

/// The path in a `file:` URI; any other text unchanged.
fn path_of(uri: &str) -> String {
    let Some(rest) = uri.strip_prefix("file:") else { return uri.to_string() };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.as_bytes();
    while let [byte, rest @ ..] = left {
        let code = (*byte == b'%').then(|| rest.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*byte));
        left = if code.is_some() { &rest[2..] } else { rest };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_string())
}

#[cfg(test)]
mod tests {
    use super::{path_of, spelled};

    #[test]
    fn uris_become_paths() {
        let cases = [
            ("file:///tmp/a%20b.parquet", "/tmp/a b.parquet"),
            ("file:/tmp/x", "/tmp/x"),
            ("/tmp/%41", "/tmp/%41"),
            ("file:///100%", "/100%"),
            ("file:///%zz", "/%zz"),
        ];
        for (uri, path) in cases {
            assert_eq!(path_of(uri), path);
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        let names = || ["Orders", "lineitem", "a", "A"].map(String::from).to_vec();
        assert_eq!(spelled("LINEITEM", names()).unwrap().as_deref(), Some("lineitem"));
        assert_eq!(spelled("A", names()).unwrap().as_deref(), Some("A"));
        assert_eq!(spelled("b", names()).unwrap(), None);
        let ambiguous = ["T1", "t1"].map(String::from).to_vec();
        assert!(spelled("t1", ambiguous).unwrap().is_some());
        let ambiguous = ["Tt", "tT"].map(String::from).to_vec();
        assert!(spelled("tt", ambiguous).unwrap_err().to_string().contains("'Tt' or 'tT'"));
    }
}
