//! Statements that DataFusion's front end does not support, or not with DuckDB's syntax.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::TableReference;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, Expr as SqlExpr, Insert, ObjectName, SchemaName, Statement, Use,
};

use super::changes::OwnTransaction;
use super::constraints::take_constraints;
use super::ddl::Making;
use super::duckdb_settings::{default_of_ours, our_name, set_without_effect};
use super::running::Query;
use super::{QueryResult, Session, copy, returning};
use crate::catalog::{CATALOG, creating, is_query, same};
use crate::dialect::{answer, shown, statement};
use crate::planning::bound;
use crate::{Error, Result, ScalarValue};

/// A statement as DataFusion is to plan it.
pub(super) enum Taken {
    /// Run already.
    Done(QueryResult),
    /// Rewritten to another text.
    Instead(String),
    /// Left to DataFusion.
    No,
}

impl Session {
    /// Takes `sql`, which is without comments, if it is one of ours.
    pub(super) async fn take_statement(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Taken> {
        let words: Vec<String> = sql.split(' ').take(6).map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if sql.to_ascii_lowercase().contains("pivot")
            && let Some(text) = Box::pin(self.with_pivot_values(sql, params, query)).await?
        {
            let taken = Box::pin(self.take_statement(&text, params, query)).await?;
            return Ok(if matches!(taken, Taken::No) { Taken::Instead(text) } else { taken });
        }
        if words.first() == Some(&"with")
            && let Some(done) = Box::pin(self.with_changes(sql, params)).await?
        {
            return Ok(Taken::Done(done));
        }
        if let Some(taken) = self.change_statement(sql, &words, params, query).await? {
            return Ok(taken);
        }
        if words.starts_with(&["insert", "into"]) {
            let (insert, returned) = returning::split(sql);
            if let Some(insert) = self.with_conflict_clause(insert)? {
                return self.insert_with_conflicts(&insert, returned, params, query).await;
            }
            if let Some(said) = returned {
                return Box::pin(self.insert_returning(insert, said, params, query)).await.map(Taken::Done);
            }
        }
        match &words[..] {
            ["show" | "show;", ..] => {
                let said = sql.trim_end_matches([';', ' ']);
                match self.show(said)? {
                    Some(done) => Ok(Taken::Done(done)),
                    None => Box::pin(self.show_other(said)).await,
                }
            }
            [explain, ..] if explain.starts_with("explain") => {
                Box::pin(self.explain_statement(sql, params, query)).await
            }
            ["summarize", ..] => Ok(Taken::Instead(answer(sql.trim_end_matches([';', ' '])))),
            ["describe", ..] if is_query(sql["describe".len()..].trim_start()) => {
                Ok(Taken::Instead(answer(sql.trim_end_matches([';', ' ']))))
            }
            ["begin" | "commit" | "rollback" | "abort" | "start" | "end", ..] => {
                self.transaction_statement(sql, query).await
            }
            ["set", ..] if let Some(done) = set_without_effect(&words) => Ok(Taken::Done(done)),
            ["set", scope @ ("session" | "local" | "global"), name, ..] if *name != "variable" => {
                Ok(Taken::Instead(format!("SET {}", &sql["set ".len() + scope.len() + 1..])))
            }
            ["set", "variable", ..] => self.set_variable(sql, params, query).await,
            ["reset", "variable", ..] => self.reset_variable(sql),
            ["reset", name] => self.reset(name.trim_end_matches(';')),
            ["pragma", ..] => self.pragma(sql).await,
            // Every statement has been written to its tables when it ends.
            ["checkpoint" | "checkpoint;", ..] | ["force", "checkpoint" | "checkpoint;", ..] => {
                Ok(Taken::Done(QueryResult::empty()))
            }
            ["vacuum" | "vacuum;" | "analyze" | "analyze;", ..] => self.vacuum(sql),
            ["install" | "load", _] => self.load_extension(sql),
            ["export", "database", ..] => self.export_database(sql, query).await,
            ["import", "database", ..] => self.import_database(sql, query).await,
            ["comment", "on", ..] => self.comment_statement(sql, query).await,
            ["prepare", ..] => self.prepare_statement(sql).await,
            ["deallocate", ..] => Ok(self.deallocate(sql)),
            ["table", ..] => Ok(Taken::Instead(format!("SELECT * FROM {}", &sql["table ".len()..]))),
            ["use", ..] => self.use_statement(sql),
            ["create", rest @ ..] => match object(rest) {
                Some("recursive") => self.create_view_statement(&creating::recursive_view(sql)?).await,
                Some("table") if let Some(named) = creating::with_named_columns(sql)? => {
                    self.create_table_statement(&named, params, query).await
                }
                Some("table") => self.create_table_statement(sql, params, query).await,
                Some("view") => self.create_view_statement(sql).await,
                Some("schema") => self.create_schema_statement(sql),
                Some("index") => self.create_index(sql, query).await,
                Some("macro" | "function") => self.create_macro(sql).await,
                Some("type") => self.create_type(sql, query).await,
                Some("sequence") => self.create_sequence(sql),
                _ => Ok(Taken::No),
            },
            ["drop", "macro" | "function", ..] => self.drop_macro(sql),
            ["drop", "type", ..] => self.drop_type(sql),
            ["drop", "sequence", ..] => self.drop_sequence(sql),
            ["alter", "table", ..] => self.alter_statement(sql, query).await,
            ["drop", "index", ..] => self.drop_index(sql, query).await,
            ["describe" | "desc", name @ ..] if !name.is_empty() => self.describe_table(sql).await,
            ["copy", ..] => match copy::parse(sql)? {
                Some(copy::Copy::From(from)) => self.copy_from(from, query).await.map(Taken::Done),
                Some(copy::Copy::To(text)) => Ok(Taken::Instead(text)),
                None => Ok(Taken::No),
            },
            ["insert", "or", "replace" | "ignore", ..] => self.insert_or(sql, params, query).await,
            ["insert", "or", what, ..] => Err(Error::Parse(format!(
                "INSERT OR {what} is not supported: use INSERT OR REPLACE or INSERT OR IGNORE"
            ))),
            ["replace", "into", ..] => {
                Err(Error::Parse("REPLACE INTO is not supported: use INSERT OR REPLACE INTO".into()))
            }
            ["insert", "into", ..] => match by_name(sql) {
                Some((target, rest)) => self.insert_by_name(target, rest, params).await,
                None => Ok(Taken::No),
            },
            _ => Ok(Taken::No),
        }
    }

    /// Parses an INSERT with a conflict clause.
    fn with_conflict_clause(&self, sql: &str) -> Result<Option<Insert>> {
        if !sql.to_ascii_lowercase().contains("conflict") {
            return Ok(None);
        }
        Ok(match self.parsed(sql)? {
            Some(Statement::Insert(insert)) if insert.on.is_some() => Some(insert),
            _ => None,
        })
    }

    pub(super) fn parsed(&self, sql: &str) -> Result<Option<Statement>> {
        let state = self.inner.context.state();
        Ok(match statement(&state, sql)? {
            Parsed::Statement(statement) => Some(*statement),
            _ => None,
        })
    }

    /// `RESET name`, for a setting of Warpmill without its prefix, or one of DuckDB.
    fn reset(&self, name: &str) -> Result<Taken> {
        if let Some(done) = self.reset_as_duckdb(name)? {
            return Ok(Taken::Done(done));
        }
        let lower = name.to_ascii_lowercase();
        let ours = our_name(lower.strip_prefix("warpmill.").unwrap_or(&lower));
        match default_of_ours(ours) {
            Some(value) => self.set(ours, &value).map(|()| Taken::Done(QueryResult::empty())),
            None => Ok(Taken::No),
        }
    }

    fn use_statement(&self, sql: &str) -> Result<Taken> {
        let name = match self.parsed(sql)? {
            Some(Statement::Use(Use::Object(name) | Use::Schema(name) | Use::Database(name))) => name,
            _ => return Err(Error::NotImplemented(format!("{sql}: USE takes the name of a schema"))),
        };
        self.use_schema(&name.to_string()).map(Taken::Done)
    }

    /// `INSERT OR REPLACE INTO ...` and `INSERT OR IGNORE INTO ...`, by the declared key of the table.
    async fn insert_or(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Taken> {
        let malformed = || Error::Parse(format!("{sql}: expected INSERT OR REPLACE INTO or INSERT OR IGNORE INTO"));
        let (_, rest) = sql.split_at_checked("insert or ".len()).ok_or_else(malformed)?;
        let (what, rest) = rest.split_once(' ').ok_or_else(malformed)?;
        let sql = format!("INSERT {rest}");
        let (plain, returned) = returning::split(&sql);
        let text = match by_name(plain) {
            Some((target, rest)) => self.with_names(target, rest, params).await?,
            None => plain.to_string(),
        };
        let Some(Statement::Insert(mut insert)) = self.parsed(&text)? else { return Err(malformed()) };
        if insert.on.is_some() {
            return Err(Error::Plan("INSERT OR ... and ON CONFLICT exclude each other".into()));
        }
        insert.on = Some(self.conflict_of(&insert, what.eq_ignore_ascii_case("replace"))?);
        self.insert_with_conflicts(&insert, returned, params, query).await
    }

    /// CREATE TABLE, whose constraints are taken out of it. The rest of the statement is left to DataFusion.
    async fn create_table_statement(&self, sql: &str, params: &[ScalarValue], query: &Query) -> Result<Taken> {
        let Some(Statement::CreateTable(mut table)) = self.parsed(sql)? else { return Ok(Taken::No) };
        let mut declared = take_constraints(&mut table)?;
        declared.defaults = take_defaults(&mut table);
        let temporary = std::mem::take(&mut table.temporary);
        let name = reference(&table.name)?;
        let is_plain = declared.constraints.is_empty() && declared.foreign.is_empty() && declared.defaults.is_empty();
        let changed = (temporary || !is_plain).then(|| Statement::CreateTable(table).to_string());
        let sql = changed.as_deref().unwrap_or(sql);
        let plan = bound(&Arc::new(self.inner.context.state()), sql, params).await;
        let plan = plan.map_err(|error| self.with_missing_schema(error))?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(mut command)) = plan else {
            return Err(Error::NotImplemented(sql.to_string()));
        };
        command.name = name.clone();
        for (column, default) in &declared.defaults {
            let field = command.input.schema().fields().iter().find(|field| same(field.name(), column));
            let ty = field.map(|field| field.data_type().clone()).unwrap_or(DataType::Null);
            self.check_default(column, default, &ty).await?;
        }
        // Tables to which foreign keys refer change with the new one.
        let is_one = declared.foreign.is_empty() || self.is_in_transaction();
        if is_one {
            return Box::pin(self.create_table_as(command, temporary, &declared, query)).await.map(Taken::Done);
        }
        self.inner.catalog.begin()?;
        let _own = OwnTransaction::of(&self.inner.catalog);
        let done = Box::pin(self.create_table_as(command, temporary, &declared, query)).await?;
        self.commit_for(&self.inner.running.start()).await?;
        Ok(Taken::Done(done))
    }

    fn create_schema_statement(&self, sql: &str) -> Result<Taken> {
        let (name, if_not_exists) = match self.parsed(sql)? {
            Some(Statement::CreateSchema { schema_name: SchemaName::Simple(name), if_not_exists, .. }) => {
                (name, if_not_exists)
            }
            _ => return Ok(Taken::No),
        };
        let name = match reference(&name)? {
            TableReference::Bare { table } => table,
            TableReference::Partial { schema, table } if same(&schema, CATALOG) => table,
            other => return Err(Error::Catalog(format!("{other} is no name of a schema of this database"))),
        };
        match self.inner.catalog.create_schema(&name)? || if_not_exists {
            true => Ok(Taken::Done(QueryResult::empty())),
            false => Err(Error::Catalog(format!("schema '{name}' already exists"))),
        }
    }

    async fn create_view_statement(&self, sql: &str) -> Result<Taken> {
        let Some(Statement::CreateView(mut view)) = self.parsed(sql)? else { return Ok(Taken::No) };
        let making = Making {
            if_not_exists: std::mem::take(&mut view.if_not_exists),
            or_replace: view.or_replace,
            temporary: std::mem::take(&mut view.temporary),
        };
        if view.materialized {
            return Err(Error::NotImplemented("CREATE MATERIALIZED VIEW".into()));
        }
        let name = reference(&view.name)?;
        let text = match making.if_not_exists || making.temporary {
            true => Statement::CreateView(view).to_string(),
            false => sql.to_string(),
        };
        self.create_view(&name, &text, making).await.map(Taken::Done)
    }

    /// `INSERT INTO target BY NAME query`: inserts the list of the query's columns.
    async fn insert_by_name(&self, target: &str, source: &str, params: &[ScalarValue]) -> Result<Taken> {
        self.with_names(target, source, params).await.map(Taken::Instead)
    }

    /// The text of [`Session::insert_by_name`].
    async fn with_names(&self, target: &str, source: &str, params: &[ScalarValue]) -> Result<String> {
        let plan = bound(&Arc::new(self.inner.context.state()), source, params).await?;
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let columns: Vec<String> = plan.schema().fields().iter().map(|field| quoted(shown(field.name()))).collect();
        Ok(format!("INSERT INTO {target} ({}) {source}", columns.join(", ")))
    }
}

/// The kind of thing that CREATE makes, after the words that say how.
fn object<'a>(words: &[&'a str]) -> Option<&'a str> {
    let how = ["or", "replace", "temp", "temporary", "unique", "materialized"];
    words.iter().copied().find(|word| !how.contains(word))
}

/// A name in its spelling.
pub(super) fn reference(name: &ObjectName) -> Result<TableReference> {
    let parts: Vec<&str> = name.0.iter().filter_map(|part| Some(part.as_ident()?.value.as_str())).collect();
    match parts[..] {
        [table] => Ok(TableReference::bare(table)),
        [schema, table] => Ok(TableReference::partial(schema, table)),
        [catalog, schema, table] => Ok(TableReference::full(catalog, schema, table)),
        _ => Err(Error::Plan(format!("{name} is no name"))),
    }
}

/// Takes the defaults out of a table's declaration: columns with the SQL of their defaults.
fn take_defaults(table: &mut CreateTable) -> Vec<(String, String)> {
    let mut defaults = vec![];
    for column in &mut table.columns {
        column.options.retain(|option| match &option.option {
            ColumnOption::Default(value) => {
                defaults.push((column.name.value.clone(), without_brackets(value).to_string()));
                false
            }
            _ => true,
        });
    }
    defaults
}

/// An expression without brackets around all of it.
pub(super) fn without_brackets(mut expr: &SqlExpr) -> &SqlExpr {
    while let SqlExpr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The target and the query of `INSERT INTO target BY NAME query`.
fn by_name(sql: &str) -> Option<(&str, &str)> {
    let rest = sql.get("insert into ".len()..)?;
    // The name ends at the first space outside of quotes.
    let mut quoted = false;
    let end = rest.find(|c| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    })?;
    let (target, rest) = rest.split_at(end);
    let rest = rest.trim_start();
    let prefix = rest.get(.."by name ".len())?;
    prefix.eq_ignore_ascii_case("by name ").then(|| (target, &rest["by name ".len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_by_name_is_told_apart() {
        assert_eq!(by_name("INSERT INTO t BY NAME SELECT 1 AS a"), Some(("t", "SELECT 1 AS a")));
        assert_eq!(by_name("insert into \"a b\".t by name FROM x"), Some(("\"a b\".t", "FROM x")));
        assert_eq!(by_name("INSERT INTO t SELECT 1 AS a"), None);
        assert_eq!(by_name("INSERT INTO t VALUES (1)"), None);
    }

    #[test]
    fn what_is_created() {
        assert_eq!(object(&["or", "replace", "temp", "table", "t"]), Some("table"));
        assert_eq!(object(&["unique", "index", "i"]), Some("index"));
        assert_eq!(object(&[]), None);
    }
}
