//! Files of this machine as tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result as DataFusionResult, ScalarValue};
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::execution::SessionState;

use super::{hive, reading};
use crate::{Error, Result};

/// The extensions of names that are files'.
const EXTENSIONS: [&str; 8] = ["parquet", "csv", "tsv", "json", "ndjson", "jsonl", "arrow", "avro"];
/// The extensions of compressed files that are not read.
const COMPRESSIONS: [&str; 2] = ["bz2", "xz"];

/// The table for `name` as a path, a folder or a pattern; `None` if it looks like a table's name, and there is no such file.
///
/// # Errors
/// A path without files; files that cannot be read.
pub(crate) async fn named(state: &SessionState, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
    let packed = extension(name);
    let unpacked = reading::Compression::called(&packed).map(|_| extension(&name[..name.len() - packed.len() - 1]));
    let extension = unpacked.clone().unwrap_or(packed);
    let compressed = COMPRESSIONS.contains(&extension.as_str());
    let known = EXTENSIONS.contains(&extension.as_str()) || compressed && name.contains(['/', '*', '?']);
    let is_path = known || name.contains(['/', '*', '?']);
    let there = !matching(name).is_empty();
    if !is_path && !there {
        return Ok(None);
    }
    if !there {
        return Err(Error::Io(format!("no such file: {name}")).into());
    }
    if compressed {
        return Err(Error::NotImplemented(format!(
            "{name}: Parquet files in compressed files are not read, because Parquet compresses its pages itself"
        ))
        .into());
    }
    if unpacked.is_some() && matches!(extension.as_str(), "json" | "ndjson" | "jsonl") {
        let function = if extension == "json" { "read_json" } else { "read_ndjson" };
        let call = reading::Call { function: function.to_string(), paths: vec![name.to_string()], options: vec![] };
        return Ok(Some(call.table(state.clone()).await?));
    }
    if unpacked.is_some() && !matches!(extension.as_str(), "csv" | "tsv") {
        return Err(Error::NotImplemented(format!("{name}: a compressed file that is neither CSV nor JSON")).into());
    }
    let tabs = extension == "tsv";
    if extension == "csv" || tabs || is_csv_folder(name) {
        return Ok(Some(csv(state, name, None).await?));
    }
    let table = listed(state, name).await;
    match table {
        Ok(table) => Ok(Some(table)),
        Err(error) if is_path => Err(error),
        // A folder that happens to have the name of a table.
        Err(_) => Ok(None),
    }
}

/// A table of files, in the format of their extension.
async fn listed(state: &SessionState, path: &str) -> DataFusionResult<Arc<dyn TableProvider>> {
    // One value per line, the meaning of DataFusion's json extension here.
    if matches!(extension(path).as_str(), "ndjson" | "jsonl")
        && let Some(lines) = state.get_file_format_factory("json")
    {
        let format = lines.create(state, &std::collections::HashMap::new())?;
        let options = ListingOptions::new(format).with_file_extension("");
        let config = ListingTableConfig::new_with_multi_paths(urls(path)?).with_listing_options(options);
        return Ok(Arc::new(ListingTable::try_new(config.infer_schema(state).await?)?));
    }
    if extension(path) == "json"
        && let Some(first) = matching(path).iter().find(|file| file.is_file())
        && reading::is_array(&first.to_string_lossy())?
    {
        let config = ListingTableConfig::new_with_multi_paths(urls(path)?);
        let config = config.with_listing_options(reading::json_options(state, true)).infer_schema(state).await?;
        return Ok(Arc::new(ListingTable::try_new(config)?));
    }
    let config = ListingTableConfig::new_with_multi_paths(urls(path)?).infer_options(state).await.map_err(|error| {
        let text = format!("{path}: not Parquet, CSV or JSON ({})", error.strip_backtrace());
        DataFusionError::from(Error::Io(text))
    })?;
    if let Some(options) = &config.options
        && let Some(table) = hive::table(state, &below(path, &options.file_extension), options).await?
    {
        return Ok(table);
    }
    let config = config.infer_partitions_from_path(state).await?.infer_schema(state).await?;
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// A table of CSV files; unspecified options are detected.
///
/// # Errors
/// No files; files that are not CSV, or whose columns differ from the first one's.
pub(crate) async fn csv(state: &SessionState, path: &str, delimiter: Option<u8>) -> Result<Arc<dyn TableProvider>> {
    let files = files_of(path);
    if files.is_empty() {
        return Err(Error::Io(format!("no such file: {path}")));
    }
    let files = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
    reading::csv_table(state, files, reading::CsvGiven::delimited(delimiter, path)).await
}

/// A column name that is a value of its column's type, if that is so for all non-text columns: the first row is not a header then.
pub(super) fn looks_like_data(schema: &Schema) -> Option<&str> {
    let is_value = |field: &FieldRef| {
        let text = ScalarValue::Utf8(Some(field.name().clone()));
        text.cast_to(field.data_type()).is_ok_and(|value| !value.is_null())
    };
    let mut others = schema.fields().iter().filter(|field| field.data_type() != &DataType::Utf8).peekable();
    let first = others.peek()?.name().as_str();
    others.all(is_value).then_some(first)
}

/// The location of `path`; for a pattern of folders, its files.
pub(super) fn urls(path: &str) -> DataFusionResult<Vec<ListingTableUrl>> {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    if !path.contains("**") && !folders.contains(['*', '?', '[']) {
        return Ok(vec![ListingTableUrl::parse(path)?]);
    }
    let files = matching(path).into_iter().filter(|file| file.is_file());
    files.map(|file| ListingTableUrl::parse(glob::Pattern::escape(&file.to_string_lossy()))).collect()
}

fn extension(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
}

/// The files of `path`, in order: itself, a folder's files, or those matching a pattern in the last part.
fn files_of(path: &str) -> Vec<PathBuf> {
    let found = matching(path);
    match &found[..] {
        [folder] if folder.is_dir() => {
            let inside = matching(&format!("{}/**/*", glob::Pattern::escape(&folder.to_string_lossy())));
            let is_csv = |path: &PathBuf| extension(&path.to_string_lossy()) == "csv";
            inside.into_iter().filter(|path| path.is_file() && is_csv(path)).collect()
        }
        _ => found.into_iter().filter(|path| path.is_file()).collect(),
    }
}

/// The files of `path`, in order: itself, those matching a pattern, or a folder's files with an extension.
fn below(path: &str, extension: &str) -> Vec<PathBuf> {
    let found = matching(path);
    match &found[..] {
        [folder] if folder.is_dir() => {
            let inside =
                matching(&format!("{}/**/*", glob::Pattern::escape(folder.to_string_lossy().trim_end_matches('/'))));
            inside.into_iter().filter(|file| file.is_file() && file.to_string_lossy().ends_with(extension)).collect()
        }
        _ => found.into_iter().filter(|file| file.is_file()).collect(),
    }
}

/// Whether `path` is a folder with CSV files, and without files in other supported formats.
fn is_csv_folder(path: &str) -> bool {
    if !Path::new(path).is_dir() {
        return false;
    }
    let inside = matching(&format!("{}/**/*", glob::Pattern::escape(path.trim_end_matches('/'))));
    let mut extensions = inside.iter().map(|file| extension(&file.to_string_lossy()));
    !files_of(path).is_empty() && extensions.all(|other| other == "csv" || !EXTENSIONS.contains(&other.as_str()))
}

/// The files under a path, or matching a pattern.
pub(super) fn matching(path: &str) -> Vec<PathBuf> {
    let plain = path.strip_prefix("file://").unwrap_or(path);
    if Path::new(plain).exists() {
        return vec![PathBuf::from(plain)];
    }
    if !plain.contains(['*', '?', '[']) {
        return vec![];
    }
    let mut found: Vec<PathBuf> = glob::glob(plain).into_iter().flatten().flatten().collect();
    found.sort();
    found
}
