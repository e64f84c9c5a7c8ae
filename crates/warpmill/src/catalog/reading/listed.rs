//! Files whose format says their columns: Parquet and JSON, several at once.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SessionState;

use super::{Call, Given};
use crate::catalog::hive;
use crate::{Error, Result};

/// JSON: values in lines, or one array.
pub(super) async fn json(call: &Call, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let lines = call.function.starts_with("read_ndjson");
    let mut array = if lines { Some(false) } else { None };
    for (option, given) in &call.options {
        match (option.as_str(), given) {
            ("format", Given::One(format)) => match format.to_ascii_lowercase().as_str() {
                "auto" => {}
                "array" => array = Some(true),
                "newline_delimited" | "nd" => array = Some(false),
                other => return Err(call.refused(format!("the format {other}"))),
            },
            ("records", Given::One(records)) if ["auto", "true"].contains(&records.to_ascii_lowercase().as_str()) => {}
            ("auto_detect", given) if call.truth(option, given)? => {}
            ("ignore_errors" | "union_by_name" | "filename" | "hive_partitioning", given)
                if !call.truth(option, given)? => {}
            ("maximum_object_size" | "sample_size" | "maximum_depth", _) => {}
            _ => return Err(call.unknown(option)),
        }
    }
    let files = call.files()?;
    let array = match (array, files.first()) {
        (Some(array), _) => array,
        (None, Some(first)) => is_array(first)?,
        (None, None) => false,
    };
    listing(files, json_options(state, array), state).await
}

/// JSON files as values in lines, or as arrays.
pub(in crate::catalog) fn json_options(state: &SessionState, array: bool) -> ListingOptions {
    let format = JsonFormat::default().with_options(state.default_table_options().json);
    ListingOptions::new(Arc::new(format.with_newline_delimited(!array))).with_file_extension("")
}

/// Whether a file of JSON is one array.
pub(in crate::catalog) fn is_array(path: &str) -> Result<bool> {
    let failed = |error: std::io::Error| Error::Io(format!("{path}: {error}"));
    let file = std::fs::File::open(path).map_err(failed)?;
    for byte in std::io::BufReader::new(file).bytes() {
        match byte.map_err(failed)? {
            byte if byte.is_ascii_whitespace() => {}
            byte => return Ok(byte == b'['),
        }
    }
    Ok(false)
}

/// Parquet.
pub(super) async fn parquet(call: &Call, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let mut partitioned = true;
    for (option, given) in &call.options {
        match option.as_str() {
            "hive_partitioning" => partitioned = call.truth(option, given)?,
            "union_by_name" | "filename" | "file_row_number" | "binary_as_string" if !call.truth(option, given)? => {}
            _ => return Err(call.unknown(option)),
        }
    }
    let format = state.get_file_format_factory("parquet");
    let format = format.ok_or_else(|| call.refused("Parquet is not read here"))?;
    let format = format.create(state, &std::collections::HashMap::new())?;
    let (files, options) = (call.files()?, ListingOptions::new(format).with_file_extension(""));
    if partitioned {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        if let Some(table) = hive::table(state, &files, &options).await? {
            return Ok(table);
        }
    }
    listing(files, options, state).await
}

async fn listing(files: Vec<String>, options: ListingOptions, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let urls = files.iter().map(|file| ListingTableUrl::parse(glob::Pattern::escape(file)));
    let config = ListingTableConfig::new_with_multi_paths(urls.collect::<Result<Vec<_>, _>>()?);
    let config = config.with_listing_options(options).infer_schema(state).await?;
    Ok(Arc::new(ListingTable::try_new(config)?))
}
