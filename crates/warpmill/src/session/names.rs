//! Names of tables, with or without their schema.

use std::sync::Arc;

use datafusion::common::TableReference;

use super::{QueryResult, Session};
use crate::catalog::{MAIN, Schema, is_main};
use crate::{Error, Result};

impl Session {
    /// The schema of names that say none.
    pub(super) fn default_schema(&self) -> String {
        self.inner.context.copied_config().options().catalog.default_schema.clone()
    }

    /// Makes `name` the schema of names that say none.
    pub(super) fn use_schema(&self, name: &str) -> Result<QueryResult> {
        let name = unquoted(name);
        let name = name.strip_prefix(&format!("{}.", crate::catalog::CATALOG)).unwrap_or(&name).to_string();
        let schema = self.inner.catalog.schema_called(&name)?;
        let schema = if is_main(schema.name()) { MAIN.to_string() } else { schema.name().to_string() };
        let state = self.inner.context.state_ref();
        state.write().config_mut().options_mut().catalog.default_schema = schema;
        self.settings_changed("datafusion.catalog.default_schema")?;
        Ok(QueryResult::empty())
    }

    /// The schema of `reference`, and its name there.
    pub(super) fn place(&self, reference: &TableReference) -> Result<(Arc<Schema>, String)> {
        self.inner.catalog.place(reference, &self.default_schema())
    }

    /// [`Session::place`] for a name from the API: `table`, `schema.table`, `"with.dots"`.
    pub(super) fn place_of(&self, name: &str) -> Result<(Arc<Schema>, String)> {
        self.place(&reference(name))
    }

    /// An `error` about a table, extended by the missing schema or by a similar name.
    pub(super) fn with_missing_schema(&self, error: Error) -> Error {
        let Error::Catalog(text) = &error else { return self.with_suggestion(error) };
        let name = text.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found"));
        let Some(reference) = name.map(TableReference::parse_str) else { return error };
        match self.place(&reference) {
            Err(Error::Catalog(reason)) => Error::Catalog(format!("{text}: {reason}")),
            _ => self.with_suggestion(error),
        }
    }
}

/// A name from the API. Without dots and quotes it is taken literally.
fn reference(name: &str) -> TableReference {
    match name.contains('.') || name.starts_with('"') {
        true => TableReference::parse_str_normalized(name, true),
        false => TableReference::bare(name),
    }
}

/// A name without its quotes.
fn unquoted(name: &str) -> String {
    let name = name.trim();
    let quoted = |quote: char| name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote));
    match quoted('"').or_else(|| quoted('\'')) {
        Some(name) => name.to_string(),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_spelling() {
        assert_eq!(reference("Mixed"), TableReference::bare("Mixed"));
        assert_eq!(reference("S.Mixed"), TableReference::partial("S", "Mixed"));
        assert_eq!(reference("s.\"a.b\""), TableReference::partial("s", "a.b"));
        assert_eq!(reference("\"a.b\""), TableReference::bare("a.b"));
        assert_eq!(reference("a b"), TableReference::bare("a b"));
        assert_eq!((unquoted(" \"s\" "), unquoted("s")), ("s".to_string(), "s".to_string()));
    }
}
