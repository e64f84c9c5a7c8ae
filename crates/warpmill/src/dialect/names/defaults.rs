//! Defaults of columns in INSERT: `DEFAULT` as a value, columns that are not named, `DEFAULT VALUES`.

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{
    Expr, Insert, ObjectName, ObjectNamePart, Parens, Query, SetExpr, Value, Values,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::scope::quoted;
use super::{query_of, same};
use crate::dialect::{order_operators, row_queries};
use crate::session::ddl::default_of;
use crate::{Error, Result};

/// Inserts the defaults of a table of `schema` where `insert` uses DEFAULT.
pub(super) fn add(insert: &mut Insert, schema: &SchemaRef) -> Result<()> {
    let default = |at: usize| match default_of(schema.field(at)) {
        Some(sql) => expression(sql).map(|expr| Expr::Nested(Box::new(expr))),
        None => Ok(Expr::Value(Value::Null.into())),
    };
    let all = schema.fields().len();
    if insert.source.is_none() && insert.assignments.is_empty() {
        let row = (0..all).map(default).collect::<Result<Vec<_>>>()?;
        insert.columns.clear();
        insert.source = Some(Box::new(query_of(SetExpr::Values(Values {
            explicit_row: false,
            value_keyword: false,
            rows: vec![Parens::with_empty_span(row)],
        }))));
        return Ok(());
    }
    // Other code reports unknown names.
    let Some(columns) = columns_of(insert, schema) else { return Ok(()) };
    let Some(source) = &mut insert.source else { return Ok(()) };
    // Otherwise defaults would fill up such a row, or be counted among its excess values.
    if let SetExpr::Values(values) = &*source.body
        && let Some(row) = values.rows.iter().find(|row| row.len() != columns.len())
    {
        let (expected, given) = (columns.len(), row.len());
        return Err(Error::Plan(format!("INSERT has {expected} columns, but a row of {given} values")));
    }
    let left: Vec<usize> =
        (0..all).filter(|at| !columns.contains(at) && default_of(schema.field(*at)).is_some()).collect();
    if let SetExpr::Values(values) = &mut *source.body {
        for row in &mut values.rows {
            for (value, column) in row.iter_mut().zip(&columns) {
                if matches!(value, Expr::Identifier(name) if name.quote_style.is_none() && same(&name.value, "default"))
                {
                    *value = default(*column)?;
                }
            }
            if is_plain(source.with.is_some(), source.order_by.is_some(), source.limit_clause.is_some()) {
                for column in &left {
                    row.push(default(*column)?);
                }
            }
        }
    }
    let of_values = matches!(&*source.body, SetExpr::Values(_));
    // Rows of VALUES have got their defaults.
    row_queries::replace(&mut source.body).map_err(|error| Error::Parse(error.to_string()))?;
    if left.is_empty() {
        return Ok(());
    }
    if !(of_values && is_plain(source.with.is_some(), source.order_by.is_some(), source.limit_clause.is_some())) {
        let added = left.iter().map(|column| Ok(format!("({})", default(*column)?))).collect::<Result<Vec<_>>>()?;
        let text = format!("SELECT \"\u{1}rows\".*, {} FROM ({source}) AS \"\u{1}rows\"", added.join(", "));
        **source = query(&text)?;
    }
    insert.columns.extend(left.iter().map(|at| ObjectName::from(vec![quoted(schema.field(*at).name())])));
    Ok(())
}

/// The columns of a table of `schema` for which `insert` has values, in order; `None` if it names an unknown one.
pub(super) fn columns_of(insert: &Insert, schema: &SchemaRef) -> Option<Vec<usize>> {
    let position = |name: &ObjectName| {
        let name = name.0.last().and_then(ObjectNamePart::as_ident)?;
        schema.fields().iter().position(|field| same(field.name(), &name.value))
    };
    match insert.columns.is_empty() {
        true => Some((0..schema.fields().len()).collect()),
        false => insert.columns.iter().map(position).collect(),
    }
}

/// Whether a list of rows has no clauses around it.
fn is_plain(with: bool, order: bool, limit: bool) -> bool {
    !(with || order || limit)
}

/// Parses an internal expression, or the default of a column.
pub(super) fn expression(sql: &str) -> Result<Expr> {
    let parser = Parser::new(&DuckDbDialect).with_recursion_limit(10_000).try_with_sql(sql);
    let expr = parser.and_then(|mut parser| parser.parse_expr());
    let mut expr = expr.map_err(|error| Error::Parse(format!("{error} (of {sql})")))?;
    order_operators(&mut expr);
    Ok(expr)
}

pub(super) fn query(sql: &str) -> Result<Query> {
    let parser = Parser::new(&DuckDbDialect).with_recursion_limit(10_000).try_with_sql(sql);
    let query = parser.and_then(|mut parser| parser.parse_query());
    query.map(|query| *query).map_err(|error| Error::Parse(format!("{error} (of {sql})")))
}
