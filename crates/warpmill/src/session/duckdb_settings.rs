//! DuckDB's settings: those with an equivalent here, and those without an effect on results.

use datafusion::config::{ConfigEntry, ConfigOptions, ExtensionOptions};

use super::{QueryResult, Session};
use crate::catalog::{DUCKDB_MAIN, is_main};
use crate::settings::WarpmillOptions;
use crate::{Error, Result};

/// DataFusion's setting for the default position of NULLs in ORDER BY.
const NULL_ORDER: &str = "datafusion.sql_parser.default_null_ordering";

/// Settings of ours under the name that DuckDB has for them.
const RENAMED: &[(&str, &str)] = &[
    ("max_memory", "memory_limit"),
    ("worker_threads", "threads"),
    ("max_temp_directory_size", "temp_directory_limit"),
];

/// Settings of DuckDB's that have a meaning here and are none of ours, with what they are about.
pub(crate) const DUCKDBS: &[(&str, &str)] = &[
    ("default_null_order", "NULLS_LAST or NULLS_FIRST: the place of NULLs where ORDER BY does not say it"),
    ("schema", "The schema of names that say none"),
    ("search_path", "The schema of names that say none"),
    ("TimeZone", "The time zone of TIMESTAMPTZ: UTC"),
    ("default_order", "The direction of ORDER BY: ascending"),
    ("default_collation", "The order of texts: that of their bytes"),
    ("integer_division", "Whether / of integers is an integer: it is not"),
    ("ieee_floating_point_ops", "Whether floating-point numbers are divided by zero as IEEE 754 says: they are"),
    ("preserve_identifier_case", "Whether names keep their spelling: they do"),
    ("scalar_subquery_error_on_multiple_rows", "Whether a scalar subquery of several rows is an error: it is"),
    ("enable_external_access", "Whether statements read and write files; a server refuses them whatever this says"),
    ("lock_configuration", "Whether settings are locked: they are not"),
];

/// Settings whose other values change answers: the one value that holds here.
const FIXED: &[(&str, &[&str])] = &[
    ("default_order", &["asc", "ascending"]),
    ("default_collation", &["", "binary"]),
    ("calendar", &["gregorian"]),
    ("integer_division", &["false", "off", "0"]),
    ("ieee_floating_point_ops", &["true", "on", "1"]),
    ("preserve_identifier_case", &["true", "on", "1"]),
    ("scalar_subquery_error_on_multiple_rows", &["true", "on", "1"]),
    ("order_by_non_integer_literal", &["false", "off", "0"]),
    ("error_on_division_by_zero", &["false", "off", "0"]),
    ("enable_external_access", &["true", "on", "1"]),
    ("lock_configuration", &["false", "off", "0"]),
];

/// Settings of DuckDB's optimizer, scheduler, storage, logs and profiles.
const WITHOUT_EFFECT: &[&str] = &[
    "allocator_background_threads",
    "allocator_bulk_deallocation_flush_threshold",
    "allocator_flush_threshold",
    "approximate_join_order_threshold",
    "arrow_large_buffer_size",
    "arrow_lossless_conversion",
    "asof_loop_join_threshold",
    "async_threads",
    "auto_checkpoint_skip_wal_threshold",
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "catalog_error_max_schemas",
    "checkpoint_on_detach",
    "checkpoint_threshold",
    "custom_user_agent",
    "default_block_size",
    "delim_join_as_cte",
    "disable_parquet_prefetching",
    "disabled_compression_methods",
    "disabled_log_types",
    "disabled_optimizers",
    "dynamic_or_filter_threshold",
    "enable_caching_operators",
    "enable_external_file_cache",
    "enable_fsst_vectors",
    "enable_http_metadata_cache",
    "enable_logging",
    "enable_object_cache",
    "enable_optimistic_write",
    "enable_optimizer",
    "enable_profiling",
    "enable_progress_bar",
    "enable_progress_bar_print",
    "enabled_log_types",
    "experimental_metadata_reuse",
    "explain_output",
    "external_file_cache_local_max_block_size",
    "external_file_cache_remote_max_block_size",
    "external_file_cache_remote_min_block_size",
    "external_file_cache_request_sizing",
    "external_file_cache_spill",
    "external_threads",
    "force_column_metadata_reuse",
    "force_compression",
    "fsync_mode",
    "http_client_pool_capacity",
    "immediate_transaction_mode",
    "index_scan_max_count",
    "index_scan_percentage",
    "initial_column_segment_size",
    "late_materialization_max_rows",
    "log_query_path",
    "logging_level",
    "logging_mode",
    "logging_storage",
    "max_streaming_buffer_size",
    "max_vacuum_tasks",
    "merge_join_threshold",
    "nested_loop_join_threshold",
    "operator_memory_limit",
    "ordered_aggregate_threshold",
    "parquet_metadata_cache",
    "parquet_prefetch_column_gap",
    "partitioned_write_flush_threshold",
    "partitioned_write_max_open_files",
    "perfect_ht_threshold",
    "pin_threads",
    "pivot_filter_threshold",
    "prefer_range_joins",
    "prefetch_all_parquet_files",
    "preserve_insertion_order",
    "profile_output",
    "profiling_coverage",
    "profiling_mode",
    "profiling_output",
    "profiling_renderer_settings",
    "progress_bar_time",
    "read_ahead_depth",
    "scheduler_process_partial",
    "storage_block_prefetch",
    "storage_compatibility_version",
    "streaming_buffer_size",
    "temp_file_encryption",
    "tracked_metrics",
    "validate_external_file_cache",
    "wal_autocheckpoint",
    "wal_autocheckpoint_entries",
    "write_buffer_row_group_count",
    "write_buffer_row_group_memory_limit",
    "zstd_min_string_length",
];

/// `PRAGMA name` statements that switch features without an equivalent.
const SWITCHES: &[&str] = &[
    "checkpoint",
    "disable_checkpoint_on_shutdown",
    "disable_logging",
    "disable_object_cache",
    "disable_optimizer",
    "disable_print_progress_bar",
    "disable_profiling",
    "disable_progress_bar",
    "disable_verification",
    "disable_verify_external",
    "disable_verify_parallelism",
    "enable_checkpoint_on_shutdown",
    "enable_print_progress_bar",
    "enable_verification",
    "force_checkpoint",
    "verify_external",
    "verify_fetch_row",
    "verify_parallelism",
    "verify_serializer",
];

impl Session {
    /// Sets DuckDB's setting `name`; `None` if DuckDB has no such setting with an equivalent here.
    ///
    /// # Errors
    /// An unsupported value that would change results.
    pub(super) fn set_as_duckdb(&self, name: &str, value: &str) -> Result<Option<QueryResult>> {
        let name = name.to_ascii_lowercase();
        let value = value.trim().trim_matches('\'').trim();
        if let Some((_, ours)) = RENAMED.iter().find(|(theirs, _)| *theirs == name) {
            self.set(ours, value)?;
            return Ok(Some(QueryResult::empty()));
        }
        if ["default_null_order", "null_order"].contains(&name.as_str()) {
            self.set(NULL_ORDER, null_order(value)?)?;
            return Ok(Some(QueryResult::empty()));
        }
        if let Some((_, values)) = FIXED.iter().find(|(theirs, _)| *theirs == name) {
            return match values.contains(&value.to_ascii_lowercase().as_str()) {
                true => Ok(Some(QueryResult::empty())),
                false => Err(Error::NotImplemented(format!(
                    "{name} = {value:?} is not supported: it is always {:?}",
                    values[0]
                ))),
            };
        }
        let no_effect = WITHOUT_EFFECT.contains(&name.as_str()) || name.starts_with("debug_");
        Ok(no_effect.then(|| without_effect(&name)))
    }

    /// Resets DuckDB's setting `name` to its default; `None` as in [`Session::set_as_duckdb`].
    pub(super) fn reset_as_duckdb(&self, name: &str) -> Result<Option<QueryResult>> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "default_null_order" | "null_order" => self.set_as_duckdb(&name, "nulls_last"),
            _ if FIXED.iter().any(|(theirs, _)| *theirs == name) => Ok(Some(QueryResult::empty())),
            _ if RENAMED.iter().any(|(theirs, _)| *theirs == name) => Ok(None),
            _ => self.set_as_duckdb(&name, ""),
        }
    }
}

/// The name of Warpmill's equivalent of DuckDB's setting `name`; `name` itself where there is none.
pub fn our_name(name: &str) -> &str {
    RENAMED.iter().find(|(theirs, _)| name.eq_ignore_ascii_case(theirs)).map_or(name, |(_, ours)| ours)
}

/// Other names of a setting.
pub(crate) fn aliases_of(name: &str) -> impl Iterator<Item = &'static str> {
    let null_order = (name == "default_null_order").then_some("null_order");
    RENAMED.iter().filter(move |(_, ours)| *ours == name).map(|(theirs, _)| *theirs).chain(null_order)
}

/// The default of a setting of ours, without its prefix.
pub(super) fn default_of_ours(name: &str) -> Option<String> {
    let entries = WarpmillOptions::default().entries();
    let key = |entry: &ConfigEntry| entry.key.strip_prefix("warpmill.").unwrap_or(&entry.key) == name;
    entries.into_iter().find(key).map(|entry| entry.value.unwrap_or_default())
}

/// The result of `SET name = ...` for a setting without an effect, whatever the value; `None` for others.
pub(super) fn set_without_effect(words: &[&str]) -> Option<QueryResult> {
    let ["set", rest @ ..] = words else { return None };
    let rest = match rest {
        ["session" | "global" | "local", rest @ ..] | rest => rest,
    };
    let name = rest.first()?.split('=').next()?;
    WITHOUT_EFFECT.contains(&name).then(|| without_effect(name))
}

/// The result of a `PRAGMA name` that switches a feature without an equivalent; `None` for others.
pub(super) fn switch(name: &str) -> Option<QueryResult> {
    let name = name.to_ascii_lowercase();
    let known = SWITCHES.contains(&name.as_str()) || WITHOUT_EFFECT.contains(&name.as_str());
    known.then(|| without_effect(&name))
}

/// The value of a setting of Warpmill, named without its prefix or by DuckDB's name; `None`: no such setting.
pub(crate) fn setting_called(name: &str, options: &ConfigOptions) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let value = |key: &str| options.entries().into_iter().find(|entry| entry.key == key).and_then(|entry| entry.value);
    match name.as_str() {
        "default_null_order" | "null_order" => value(NULL_ORDER).map(|order| match order.as_str() {
            "nulls_min" => "NULLS_FIRST_ON_ASC_LAST_ON_DESC".to_string(),
            "nulls_max" => "NULLS_LAST_ON_ASC_FIRST_ON_DESC".to_string(),
            order => order.to_uppercase(),
        }),
        "schema" | "search_path" => {
            let schema = value("datafusion.catalog.default_schema");
            schema.map(|schema| if is_main(&schema) { DUCKDB_MAIN.to_string() } else { schema })
        }
        "timezone" => Some("UTC".to_string()),
        "standard_vector_size" => Some(WarpmillOptions::of(options).chunk_rows.to_string()),
        name => match FIXED.iter().find(|(theirs, _)| *theirs == name) {
            Some((_, values)) => Some(values[0].to_string()),
            None if name.contains('.') => value(name),
            None => value(&format!("warpmill.{}", our_name(name))),
        },
    }
}

fn without_effect(name: &str) -> QueryResult {
    let mut done = QueryResult::empty();
    done.notices.push(format!("{name}: a setting of DuckDB's, without effect here"));
    done
}

/// DataFusion's word for DuckDB's order of NULLs.
fn null_order(value: &str) -> Result<&'static str> {
    match value.to_ascii_lowercase().as_str() {
        "nulls_last" | "nulls last" | "last" => Ok("nulls_last"),
        "nulls_first" | "nulls first" | "first" => Ok("nulls_first"),
        "nulls_first_on_asc_last_on_desc" | "sqlite" | "mysql" => Ok("nulls_min"),
        "nulls_last_on_asc_first_on_desc" | "postgres" => Ok("nulls_max"),
        _ => Err(Error::Setting(format!(
            "default_null_order = {value:?} is not supported: use NULLS_FIRST or NULLS_LAST"
        ))),
    }
}
