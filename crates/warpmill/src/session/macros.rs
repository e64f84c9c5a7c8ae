//! CREATE MACRO and DROP MACRO.

use datafusion::sql::sqlparser::ast::Statement;

use super::statements::{Taken, reference};
use super::{QueryResult, Session};
use crate::catalog::Defined;
use crate::dialect::{self, is_taken};
use crate::planning::run;
use crate::{Error, Result};

impl Session {
    /// `CREATE [OR REPLACE] [TEMP] MACRO name(parameters) AS [TABLE] definition`.
    pub(super) async fn create_macro(&self, sql: &str) -> Result<Taken> {
        let Some(Statement::CreateMacro { or_replace, temporary, name, .. }) = self.parsed(sql)? else {
            return Ok(Taken::No);
        };
        let (schema, name) = self.place(&reference(&name)?)?;
        let lower = name.to_lowercase();
        if self.is_function_of_sql(&lower) || self.inner.functions.get(&lower).is_some() {
            return Err(Error::Catalog(format!("macro '{name}': there is a function of that name")));
        }
        let (state, text) = (self.inner.context.state(), sql.to_string());
        run(async move { dialect::check_macro(&text, &state) }).await?;
        if !or_replace && schema.defined_names(Defined::Macro)?.contains(&lower) {
            return Err(Error::Catalog(format!("macro '{name}' already exists")));
        }
        schema.put_definition(Defined::Macro, &name, sql, temporary)?;
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// `DROP MACRO [TABLE] [IF EXISTS] name`.
    pub(super) fn drop_macro(&self, sql: &str) -> Result<Taken> {
        let mut words = sql.trim_end_matches(';').split_whitespace().skip(2).peekable();
        words.next_if(|word| word.eq_ignore_ascii_case("table"));
        let if_exists = words.next_if(|word| word.eq_ignore_ascii_case("if")).is_some();
        if if_exists && !words.next().is_some_and(|word| word.eq_ignore_ascii_case("exists")) {
            return Err(Error::Parse(format!("{sql}: IF EXISTS is expected")));
        }
        let (Some(name), None) = (words.next(), words.next()) else {
            return Err(Error::Parse(format!("{sql}: the name of one macro is expected")));
        };
        let (schema, name) = self.place_of(name)?;
        match schema.remove_definition(Defined::Macro, &name)? || if_exists {
            true => Ok(Taken::Done(QueryResult::empty())),
            false => Err(Error::Catalog(format!("there is no macro '{name}'"))),
        }
    }

    /// Whether SQL has a function of that name, which is in lower case.
    pub(super) fn is_function_of_sql(&self, name: &str) -> bool {
        let state = self.inner.context.state();
        state.scalar_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
            || state.higher_order_functions().contains_key(name)
            || state.table_functions().contains_key(name)
            || is_taken(name)
    }
}
