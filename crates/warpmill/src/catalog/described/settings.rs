//! Settings and variables of the session: `duckdb_settings()`, `duckdb_variables()`.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, StringBuilder};
use datafusion::catalog::TableProvider;
use datafusion::config::ExtensionOptions;
use datafusion::execution::SessionState;

use super::{table, texts};
use crate::Result;
use crate::session::duckdb_settings::{DUCKDBS, aliases_of, setting_called};
use crate::session::variables::Variables;
use crate::settings::WarpmillOptions;

/// `duckdb_settings()`: settings of Warpmill without their prefix, and the supported settings of DuckDB.
pub(super) fn settings(state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let options = state.config_options();
    let entries = WarpmillOptions::of(options).entries().into_iter();
    let mut all: Vec<(String, Option<String>, &str)> = entries
        .map(|entry| (entry.key.trim_start_matches("warpmill.").to_string(), entry.value, entry.description))
        .collect();
    all.extend(DUCKDBS.iter().map(|(name, about)| (name.to_string(), setting_called(name, options), *about)));
    all.sort();
    let mut aliases = ListBuilder::new(StringBuilder::new());
    for (name, ..) in &all {
        aliases.append_value(aliases_of(name).map(Some));
    }
    table(vec![
        ("name", texts(all.iter().map(|(name, ..)| Some(name.clone())))),
        ("value", texts(all.iter().map(|(_, value, _)| value.clone()))),
        ("description", texts(all.iter().map(|(.., about)| Some(about.to_string())))),
        ("scope", texts(all.iter().map(|_| Some("LOCAL".to_string())))),
        ("aliases", Arc::new(aliases.finish()) as ArrayRef),
    ])
}

/// `duckdb_variables()`.
pub(super) fn variables(state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let all = state.config().get_extension::<Variables>().map(|variables| variables.all()).unwrap_or_default();
    table(vec![
        ("name", texts(all.iter().map(|variable| Some(variable.name.clone())))),
        ("value", texts(all.iter().map(|variable| variable.value.clone()))),
        ("type", texts(all.iter().map(|variable| Some(variable.ty.clone())))),
    ])
}
