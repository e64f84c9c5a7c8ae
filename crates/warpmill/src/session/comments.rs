//! COMMENT ON: comments are stored in the metadata of a table's schema, or with a view.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::catalog::SchemaProvider;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use warpmill_format::{Table, TableSnapshot};

use super::running::Query;
use super::statements::{Taken, reference};
use super::{QueryResult, Session};
use crate::catalog::{Schema as Names, View, same, with_comment, write_options};
use crate::commit::GivenUp;
use crate::dialect::shown;
use crate::{Error, Result};

/// A comment, or its removal, and the object of the comment.
struct Comment {
    target: TableReference,
    column: Option<String>,
    text: Option<String>,
}

impl Comment {
    /// Reads `COMMENT ON TABLE | VIEW | COLUMN name IS 'text' | NULL`.
    fn parse(sql: &str) -> Result<Self> {
        // The parser does not have the statement in DuckDB's dialect.
        let parsed =
            Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_statement());
        let parsed = parsed.map_err(|error| Error::Parse(error.to_string()))?;
        let Statement::Comment { object_type, object_name, comment, .. } = parsed else {
            return Err(Error::Parse(format!("{sql}: expected COMMENT ON TABLE name IS 'text'")));
        };
        match object_type {
            CommentObject::Table | CommentObject::View => {
                Ok(Self { target: reference(&object_name)?, column: None, text: comment })
            }
            CommentObject::Column => {
                let mut parts = object_name.0;
                let column = parts.pop().and_then(|part| Some(part.as_ident()?.value.clone()));
                if column.is_none() || parts.is_empty() {
                    return Err(Error::Parse(format!("{sql}: a column is named with its table")));
                }
                Ok(Self { target: reference(&ObjectName(parts))?, column, text: comment })
            }
            other => Err(Error::NotImplemented(format!("COMMENT ON {other}: tables, views and columns have comments"))),
        }
    }
}

impl Session {
    /// `COMMENT ON TABLE | VIEW | COLUMN name IS 'text' | NULL`. As in DuckDB, TABLE and VIEW are the same.
    pub(super) async fn comment_statement(&self, sql: &str, query: &Query) -> Result<Taken> {
        let comment = Comment::parse(sql)?;
        let (schema, name) = self.place(&comment.target)?;
        if let Some(table) = schema.warpmill_table(&name)? {
            let old = table.snapshot()?;
            let new = commented(&old, &comment)?;
            self.annotate(&table, &name, &old, new, query).await?;
        } else if let Some(view) = schema.view(&name)? {
            self.comment_on_view(&schema, &name, view, comment).await?;
        } else {
            let target = comment.target;
            return Err(Error::Catalog(match schema.kind(&name)? {
                Some(_) => format!("'{target}' is no table of Warpmill: it has no comments"),
                None => format!("table '{target}' not found"),
            }));
        }
        Ok(Taken::Done(QueryResult::empty()))
    }

    async fn comment_on_view(&self, schema: &Names, name: &str, view: View, comment: Comment) -> Result<()> {
        if let Some(column) = &comment.column {
            let provider = schema.table(name).await?;
            let fields = provider.map(|provider| provider.schema().fields().clone()).unwrap_or_default();
            if !fields.iter().any(|field| same(shown(field.name()), column)) {
                return Err(no_column(name, column));
            }
        }
        let view = view.with_comment(comment.column.as_deref(), comment.text);
        schema.put_view(name, view, schema.is_temporary(name)?)
    }

    /// Adds a version of a table whose schema has other metadata.
    async fn annotate(
        &self,
        table: &Arc<Table>,
        name: &str,
        old: &Arc<TableSnapshot>,
        schema: Schema,
        query: &Query,
    ) -> Result<()> {
        let (options, gate) = (write_options(&self.options()), query.handle.commit.clone());
        let (table, name, old) = (Arc::clone(table), name.to_string(), Arc::clone(old));
        let given_up = GivenUp::cancels(&gate);
        let done = tokio::task::spawn_blocking(move || -> Result<()> {
            let mut writer = table.append_to(&old, options)?;
            writer.call(&name);
            writer.commit_only_if(move || gate.pass());
            writer.annotate(&schema)?;
            writer.commit()?;
            Ok(())
        });
        let done = done.await;
        given_up.done();
        done.map_err(|error| Error::Internal(error.to_string()))?
    }
}

/// The schema of a table with the new comment.
fn commented(old: &TableSnapshot, comment: &Comment) -> Result<Schema> {
    let schema = old.schema();
    let Some(column) = &comment.column else {
        let metadata = with_comment(schema.metadata().clone(), comment.text.clone());
        return Ok(Schema::new_with_metadata(schema.fields().clone(), metadata));
    };
    let at = schema.fields().iter().position(|field| same(field.name(), column));
    let at = at.ok_or_else(|| no_column(comment.target.table(), column))?;
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    let metadata = with_comment(fields[at].metadata().clone(), comment.text.clone());
    fields[at].set_metadata(metadata);
    Ok(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn no_column(table: &str, column: &str) -> Error {
    Error::Plan(format!("'{table}' does not have a column named {column}"))
}
