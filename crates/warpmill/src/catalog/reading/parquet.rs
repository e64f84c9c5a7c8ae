//! `read_parquet` with options.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::datasource::listing::ListingOptions;
use datafusion::execution::SessionState;

use super::Call;
use super::by_name::{ByName, listing};
use super::own_columns::OwnColumns;
use crate::Result;
use crate::catalog::hive;

const KNOWN: [&str; 5] = ["filename", "union_by_name", "hive_partitioning", "file_row_number", "binary_as_string"];

/// The table for a call.
pub(super) async fn table(call: &Call, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let (mut partitioned, mut filename, mut by_name) = (None, None, false);
    for (option, given) in &call.options {
        match option.as_str() {
            "hive_partitioning" => partitioned = Some(call.truth(option, given)?),
            "union_by_name" => by_name = call.truth(option, given)?,
            "filename" => filename = call.name_of_column(option, given)?,
            "file_row_number" | "binary_as_string" if !call.truth(option, given)? => {}
            _ => return Err(call.unknown(option, &KNOWN)),
        }
    }
    let format = state.get_file_format_factory("parquet");
    let format = format.ok_or_else(|| call.refused("Parquet is not read here"))?;
    let format = format.create(state, &std::collections::HashMap::new())?;
    let (files, options) = (call.files()?, ListingOptions::new(format).with_file_extension(""));
    if filename.is_some() || by_name {
        let own = OwnColumns::of(&call.function, &files, filename.as_deref(), partitioned)?;
        own.check_count("Parquet", files.len())?;
        let mut tables = vec![];
        for file in &files {
            tables.push(listing(vec![file.clone()], options.clone(), state).await?);
        }
        return ByName { tables, own, declared: None, ignore_errors: false }.table();
    }
    if partitioned != Some(false) {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        if let Some(table) = hive::table(state, &files, &options).await? {
            return Ok(table);
        }
    }
    listing(files, options, state).await
}
