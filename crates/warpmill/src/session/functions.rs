//! Functions that the user of a session defines.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::logical_expr::{Deallocate, LogicalPlan, Statement as PlanStatement};
use datafusion::sql::sqlparser::ast::{Expr, Statement};

use super::Session;
use super::query::with_nullable_rows;
use crate::planning::{bound, run};
use crate::udf::FunctionDefinition;
use crate::visit::visit_expressions;
use crate::{Error, Result};

/// The text of a PREPARE.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    sql: String,
    /// The session's functions that its statement calls, in lower case; `!name`: one that has changed since.
    called: Vec<String>,
}

impl Session {
    /// Defines a function, replacing one of the same name. Cached plans are dropped; prepared statements that call it must be prepared again.
    ///
    /// # Errors
    /// [`Error::Catalog`] where SQL has a function of that name, [`Error::Plan`] and [`Error::Parse`] for an invalid definition.
    pub fn create_function(&self, definition: FunctionDefinition) -> Result<()> {
        let name = definition.name.to_lowercase();
        if self.is_function_of_sql(&name) {
            return Err(Error::Catalog(format!(
                "function '{name}' is built in: give the session's function another name"
            )));
        }
        if name.trim().is_empty() || name.starts_with("__py_") {
            return Err(Error::Plan(format!("'{name}' is not a valid name of a function")));
        }
        let functions = Arc::clone(&self.inner.functions);
        // On a planning thread: expressions nest to the depth of their length.
        let replaced = self.wait(run(async move { functions.define(definition) }))?;
        // No cached plan calls a function that did not exist.
        if replaced {
            self.function_changed(&name);
        }
        Ok(())
    }

    /// Removes a function of the session.
    ///
    /// # Errors
    /// [`Error::Catalog`] for an unknown name.
    pub fn remove_function(&self, name: &str) -> Result<()> {
        match self.inner.functions.remove(name) {
            true => {
                self.function_changed(&name.to_lowercase());
                Ok(())
            }
            false => Err(Error::Catalog(format!("the session has no user-defined function '{name}'"))),
        }
    }

    fn function_changed(&self, name: &str) {
        self.inner.settings_changes.fetch_add(1, Ordering::AcqRel);
        for PreparedStatement { called, .. } in self.inner.prepared.lock().values_mut() {
            if called.iter().any(|other| other == name) {
                *called = vec![format!("!{name}")];
            }
        }
    }

    /// Records the text of a PREPARE, and the functions of the session that its statement calls.
    pub(super) fn note_prepared(&self, name: &str, sql: &str) -> Result<()> {
        let mut called = vec![];
        if let Some(Statement::Prepare { statement, .. }) = self.parsed(sql)? {
            let _: ControlFlow<()> = visit_expressions(&statement, |e| {
                if let Expr::Function(call) = e
                    && let Some(name) = call.name.0.last().and_then(|name| name.as_ident())
                    && self.inner.functions.get(&name.value).is_some()
                {
                    called.push(name.value.to_lowercase());
                }
                ControlFlow::Continue(())
            });
        }
        let statement = PreparedStatement { sql: sql.to_string(), called };
        self.inner.prepared.lock().insert(name.to_string(), statement);
        Ok(())
    }

    /// The text of the PREPARE of a statement, if there is one.
    ///
    /// # Errors
    /// A called function was redefined or removed since PREPARE.
    pub(super) fn prepared_text(&self, name: &str) -> Result<Option<String>> {
        let Some(PreparedStatement { sql, called }) = self.inner.prepared.lock().get(name).cloned() else {
            return Ok(None);
        };
        match called.iter().find_map(|name| name.strip_prefix('!')) {
            Some(function) => Err(Error::Catalog(format!(
                "prepared statement '{name}' calls function '{function}', which has changed: DEALLOCATE it, and prepare it again"
            ))),
            None => Ok(Some(sql)),
        }
    }

    /// Plans a prepared statement again, for the current tables as the transaction sees them.
    ///
    /// # Errors
    /// The errors of [`Session::prepared_text`]; an error of planning if the statement has become invalid.
    pub(super) async fn prepare_anew(&self, name: &str) -> Result<()> {
        let Some(sql) = self.prepared_text(name)? else { return Ok(()) };
        let plan = with_nullable_rows(bound(&Arc::new(self.inner.context.state()), &sql, &[]).await?)?;
        let gone = LogicalPlan::Statement(PlanStatement::Deallocate(Deallocate { name: name.to_string() }));
        // It may have been deallocated concurrently; then nothing is left to do.
        if self.inner.context.execute_logical_plan(gone).await.is_ok() {
            self.inner.context.execute_logical_plan(plan).await?;
        }
        Ok(())
    }
}
