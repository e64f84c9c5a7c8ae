//! Suggestions of similar names in errors.

use datafusion::common::TableReference;

use super::Session;
use crate::Error;
use crate::catalog::{CATALOG, MAIN};
use crate::dialect::called_names;
use crate::error::{edits, is_near};

impl Session {
    /// The names of all SQL functions, for completion. Operators and functions built into the planner are not included.
    pub fn function_names(&self) -> Vec<String> {
        let state = self.inner.context.state();
        let registered = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        let mut names: Vec<String> = registered.chain(state.window_functions().keys()).cloned().collect();
        names.extend(called_names().map(str::to_string));
        names.retain(|name| !name.starts_with("__"));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// An `error` about a missing table or function, extended by a similar name.
    pub(super) fn with_suggestion(&self, error: Error) -> Error {
        match error {
            Error::Catalog(text) => {
                let missing = text.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
                let Some(missing) = missing else { return Error::Catalog(text) };
                let table = TableReference::parse_str(missing).table().to_lowercase();
                let near = nearest(&table, self.table_names());
                let near = near.map(|near| format!(": did you mean '{near}'?")).unwrap_or_default();
                Error::Catalog(format!("table '{}' not found{near}", without_defaults(missing)))
            }
            Error::Plan(text) => {
                let missing =
                    text.strip_prefix("Invalid function '").and_then(|rest| rest.trim_end().strip_suffix("'."));
                let near = missing.and_then(|name| nearest(&name.to_lowercase(), self.function_names()));
                Error::Plan(near.map_or(text.clone(), |near| format!("{}\nDid you mean '{near}'?", text.trim_end())))
            }
            error => error,
        }
    }

    /// The names of the tables of all schemas; unreadable schemas are skipped, as statements that use them report the error.
    fn table_names(&self) -> Vec<String> {
        let catalog = &self.inner.catalog;
        let schemas = catalog.all_schemas().unwrap_or_default();
        schemas.iter().filter_map(|schema| catalog.schema_called(schema).ok()?.names().ok()).flatten().collect()
    }
}

/// A table's name without the catalog and the schema that every name has.
fn without_defaults(name: &str) -> &str {
    let rest = name.strip_prefix(CATALOG).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
    rest.strip_prefix(MAIN).and_then(|rest| rest.strip_prefix('.')).unwrap_or(rest)
}

/// The name that is nearest to `missing`, if any is near.
fn nearest(missing: &str, names: Vec<String>) -> Option<String> {
    let near = names.into_iter().filter(|name| is_near(missing, &name.to_lowercase()));
    near.min_by_key(|name| (edits(missing, &name.to_lowercase()), name.clone()))
}

#[cfg(test)]
mod tests {
    use super::{nearest, without_defaults};

    #[test]
    fn names_are_near_by_edits_or_by_their_beginning() {
        let of = |missing: &str, names: &[&str]| nearest(missing, names.iter().map(ToString::to_string).collect());
        assert_eq!(of("yaer", &["var", "year", "yearweek"]).as_deref(), Some("year"));
        assert_eq!(of("year", &["var", "ceil"]), None);
        assert_eq!(of("line", &["lineitem", "part"]).as_deref(), Some("lineitem"));
        assert_eq!(of("Orders_2".to_lowercase().as_str(), &["Orders_1", "x"]).as_deref(), Some("Orders_1"));
        assert_eq!(of("ab", &["abc_long_name"]), None);
        assert_eq!(of("x", &[]), None);
        assert_eq!(without_defaults("datafusion.public.t"), "t");
        assert_eq!(without_defaults("datafusion.shop.t"), "shop.t");
        assert_eq!((without_defaults("public.t"), without_defaults("publicity")), ("t", "publicity"));
    }
}
