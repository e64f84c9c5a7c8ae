//! Name resolution by DuckDB's rules: before a statement is planned, every name in it is replaced by the exact, qualified name of its object.
//!
//! Names match case-insensitively, an alias can be used in WHERE, GROUP BY, HAVING and by later items, the columns of USING and NATURAL are merged,
//! and results may have duplicate names. DataFusion supports none of this, and does not need to: it gets a statement in which everything is explicit.
//! Names that only DataFusion can resolve (columns of table functions) are not changed.

mod aggregate_calls;
mod apart;
mod assigned;
pub(super) mod calls;
mod collation;
mod columns;
mod defaults;
mod distinct;
mod distinct_from;
mod expr;
mod from;
mod groups;
mod items;
mod label;
mod more_calls;
mod parts;
mod pivot;
mod query;
mod recursive;
mod rows;
mod sample;
mod scope;
mod sets;
mod truths;
mod unread;
mod windows;

use std::collections::HashSet;

use datafusion::sql::parser::{CopyToSource, Statement as AnyStatement};
use datafusion::sql::sqlparser::ast::{Insert, ObjectName, ObjectNamePart, Query, Statement, TableObject};

pub(super) use aggregate_calls::{filtered, renamed};
pub(crate) use assigned::with_typed_values;
pub(crate) use calls::{calls_for_others, stands_for_other};
pub(super) use expr::function;
pub(crate) use expr::{called_parts, part_called};
pub(crate) use label::label;
pub(crate) use pivot::arguments;
pub(super) use scope::nested;
pub(crate) use scope::quoted;
use scope::{Fields, same};
pub(crate) use scope::{distinct_names, shown};

use super::tables::Tables;
use super::types::is_number;
use crate::Result;

/// Spells out the names of `statement`, which was read from the text `sql`.
pub(super) fn bind(statement: &mut AnyStatement, tables: &Tables<'_>, sql: &str) -> Result<()> {
    Binder { tables, sql, ctes: vec![], relations: 0, turned: 0, rows: 0, recursions: 0, read: HashSet::new() }
        .any(statement)
}

/// The destination of columns with duplicate names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// None: results, and relations of a query. Internal names distinguish them.
    Own,
    /// A table, a view or a file: they get numbers.
    Kept,
    /// A side of a UNION BY NAME: duplicates are refused.
    Refused,
}

/// A common table expression in sight.
struct Cte {
    name: String,
    /// Its name in plans, where one around it has the same.
    plan_name: String,
    fields: Fields,
    /// The recursion whose rows it reads, within its recursive part.
    reading: Option<recursive::Reading>,
}

/// Binds one statement.
struct Binder<'a> {
    tables: &'a Tables<'a>,
    sql: &'a str,
    ctes: Vec<Cte>,
    /// Number of relations with internal names.
    relations: usize,
    /// Relations that PIVOT and UNPIVOT turn around this one.
    turned: usize,
    /// Bytes of comparisons of rows.
    rows: usize,
    /// Common table expressions that may read themselves.
    recursions: u64,
    /// The numbers of common table expressions that do read themselves.
    read: HashSet<u64>,
}

impl Binder<'_> {
    fn any(&mut self, statement: &mut AnyStatement) -> Result<()> {
        match statement {
            AnyStatement::Statement(statement) => self.statement(statement),
            AnyStatement::Explain(explain) => self.any(&mut explain.statement),
            AnyStatement::CopyTo(copy) => match &mut copy.source {
                CopyToSource::Query(query) => self.query(query, None, Names::Kept).map(drop),
                CopyToSource::Relation(_) => Ok(()),
            },
            AnyStatement::CreateExternalTable(_) | AnyStatement::Reset(_) => Ok(()),
        }
    }

    fn statement(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Query(query) => self.query(query, None, Names::Own).map(drop),
            Statement::Explain { statement, .. } | Statement::Prepare { statement, .. } => self.statement(statement),
            Statement::CreateTable(table) => match &mut table.query {
                Some(query) => self.query(query, None, Names::Kept).map(drop),
                None => Ok(()),
            },
            Statement::CreateView(view) => self.query(&mut view.query, None, Names::Kept).map(drop),
            Statement::Insert(insert) => self.insert(insert),
            _ => Ok(()),
        }
    }

    fn insert(&mut self, insert: &mut Insert) -> Result<()> {
        if let TableObject::TableName(name) = &insert.table
            && let Some(schema) = self.schema(name)
        {
            for column in &mut insert.columns {
                let found = match column.0.last().and_then(ObjectNamePart::as_ident) {
                    Some(name) => schema.fields().iter().find(|field| same(field.name(), &name.value)),
                    None => None,
                };
                if let Some(field) = found {
                    *column = ObjectName::from(vec![quoted(field.name())]);
                }
            }
            defaults::add(insert, &schema)?;
            assigned::each(insert, &schema, is_number)?;
            assigned::cast(insert, &schema, self.tables.has_enums())?;
        }
        match &mut insert.source {
            Some(query) => self.query(query, None, Names::Own).map(drop),
            None => Ok(()),
        }
    }
}

/// A placeholder for a query that is being bound.
fn no_query() -> Query {
    use datafusion::sql::sqlparser::ast::{SetExpr, Values};
    let body = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: vec![] });
    query_of(body)
}

/// A query of nothing but `body`.
pub(crate) fn query_of(body: datafusion::sql::sqlparser::ast::SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}
