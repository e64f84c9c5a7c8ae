//! Constraints and unique indexes of all tables, in DuckDB's words: `duckdb_constraints()`, `duckdb_indexes()`,
//! `information_schema.table_constraints`, `key_column_usage` and `referential_constraints`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, Int64Builder, ListBuilder, StringArray, StringBuilder,
};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use warpmill_format::table::Constraint;

use super::{shown_schema, table};
use crate::Result;
use crate::catalog::{CATALOG, Catalog, creating, same};
use crate::session::constraints::shown::{self, Shown};

/// A table with its constraints.
struct Constrained {
    schema: String,
    table: String,
    fields: SchemaRef,
    constraints: Arc<[Constraint]>,
}

/// A constraint with its position among those of its table.
struct One {
    schema: String,
    table: String,
    number: i64,
    shown: Shown,
}

/// The table about constraints called `name`; `None` if no such table has that name.
pub(super) fn named(catalog: &Catalog, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    Ok(Some(match name {
        "duckdb_constraints" => duckdb_constraints(&constraints(catalog)?)?,
        "duckdb_indexes" => duckdb_indexes(&tables(catalog)?)?,
        "table_constraints" => table_constraints(&constraints(catalog)?)?,
        "key_column_usage" => key_column_usage(&constraints(catalog)?)?,
        "referential_constraints" => referential_constraints(&constraints(catalog)?)?,
        _ => return Ok(None),
    }))
}

/// All tables of Warpmill that can be read.
fn tables(catalog: &Catalog) -> Result<Vec<Constrained>> {
    let mut all = vec![];
    for name in catalog.all_schemas()? {
        let Some(schema) = catalog.find_schema(&name)? else { continue };
        for table in schema.names()? {
            let found =
                schema.warpmill_table(&table).and_then(|found| Ok(found.map(|table| table.snapshot()).transpose()?));
            match found {
                Ok(Some(snapshot)) => all.push(Constrained {
                    schema: shown_schema(&name),
                    table,
                    fields: Arc::clone(snapshot.schema()),
                    constraints: Arc::clone(snapshot.constraints()),
                }),
                Ok(None) => {}
                Err(error) => tracing::warn!(table, %error, "a table cannot be read"),
            }
        }
    }
    Ok(all)
}

fn constraints(catalog: &Catalog) -> Result<Vec<One>> {
    let mut all = vec![];
    for Constrained { schema, table, fields, constraints } in tables(catalog)? {
        for (number, shown) in shown::all(&table, &fields, &constraints).into_iter().enumerate() {
            all.push(One { schema: schema.clone(), table: table.clone(), number: number as i64, shown });
        }
    }
    Ok(all)
}

fn duckdb_constraints(all: &[One]) -> Result<Arc<dyn TableProvider>> {
    let (mut indexes, mut names) = (ListBuilder::new(Int64Builder::new()), ListBuilder::new(StringBuilder::new()));
    let mut referenced = ListBuilder::new(StringBuilder::new());
    for one in all {
        referenced.append_value(one.shown.referenced.iter().flat_map(|(_, keys)| keys).map(Some));
        indexes.append_value(one.shown.columns.iter().map(|&column| Some(column as i64)));
        names.append_value(one.shown.names.iter().map(Some));
    }
    table(vec![
        ("database_name", texts(all, |_| Some(CATALOG))),
        ("schema_name", texts(all, |one| Some(&one.schema))),
        ("table_name", texts(all, |one| Some(&one.table))),
        ("constraint_index", Arc::new(all.iter().map(|one| Some(one.number)).collect::<Int64Array>()) as ArrayRef),
        ("constraint_type", texts(all, |one| Some(one.shown.kind))),
        ("constraint_text", texts(all, |one| Some(&one.shown.text))),
        ("expression", texts(all, |one| one.shown.expression.as_deref())),
        ("constraint_column_indexes", Arc::new(indexes.finish())),
        ("constraint_column_names", Arc::new(names.finish())),
        ("constraint_name", texts(all, |one| Some(&one.shown.name))),
        ("referenced_table", texts(all, |one| one.shown.referenced.as_ref().map(|(table, _)| table.as_str()))),
        ("referenced_column_names", Arc::new(referenced.finish())),
    ])
}

fn table_constraints(all: &[One]) -> Result<Arc<dyn TableProvider>> {
    // In `information_schema`, NOT NULL is a CHECK constraint.
    let kind = |one: &One| if one.shown.kind == "NOT NULL" { "CHECK" } else { one.shown.kind };
    table(vec![
        ("constraint_catalog", texts(all, |_| Some(CATALOG))),
        ("constraint_schema", texts(all, |one| Some(&one.schema))),
        ("constraint_name", texts(all, |one| Some(&one.shown.name))),
        ("table_catalog", texts(all, |_| Some(CATALOG))),
        ("table_schema", texts(all, |one| Some(&one.schema))),
        ("table_name", texts(all, |one| Some(&one.table))),
        ("constraint_type", texts(all, |one| Some(kind(one)))),
        ("is_deferrable", texts(all, |_| Some("NO"))),
        ("initially_deferred", texts(all, |_| Some("NO"))),
        ("enforced", texts(all, |_| Some("YES"))),
        ("nulls_distinct", texts(all, |_| Some("YES"))),
    ])
}

fn key_column_usage(all: &[One]) -> Result<Arc<dyn TableProvider>> {
    let is_key = |one: &&One| matches!(one.shown.kind, "PRIMARY KEY" | "UNIQUE" | "FOREIGN KEY");
    let of = |one: &'_ One| (0..one.shown.names.len()).collect::<Vec<_>>();
    let parts: Vec<(&One, usize)> =
        all.iter().filter(is_key).flat_map(|one| of(one).into_iter().map(move |at| (one, at))).collect();
    table(vec![
        ("constraint_catalog", texts(&parts, |_| Some(CATALOG))),
        ("constraint_schema", texts(&parts, |(one, _)| Some(&one.schema))),
        ("constraint_name", texts(&parts, |(one, _)| Some(&one.shown.name))),
        ("table_catalog", texts(&parts, |_| Some(CATALOG))),
        ("table_schema", texts(&parts, |(one, _)| Some(&one.schema))),
        ("table_name", texts(&parts, |(one, _)| Some(&one.table))),
        ("column_name", texts(&parts, |(one, at)| Some(&one.shown.names[*at]))),
        (
            "ordinal_position",
            Arc::new(parts.iter().map(|(_, at)| Some(*at as i32 + 1)).collect::<Int32Array>()) as ArrayRef,
        ),
        (
            "position_in_unique_constraint",
            Arc::new(parts.iter().map(in_referenced).collect::<Int32Array>()) as ArrayRef,
        ),
    ])
}

/// `information_schema.referential_constraints`: foreign keys, with the keys to which they refer.
fn referential_constraints(all: &[One]) -> Result<Arc<dyn TableProvider>> {
    let referenced = |one: &One| -> Option<&One> {
        let (table, keys) = one.shown.referenced.as_ref()?;
        all.iter().find(|other| {
            let is_key = matches!(other.shown.kind, "PRIMARY KEY" | "UNIQUE");
            let is_there = other.schema == one.schema && same(&other.table, table);
            is_key && is_there && sorted(&other.shown.names) == sorted(keys)
        })
    };
    let pairs: Vec<(&One, &One)> = all.iter().filter_map(|one| Some((one, referenced(one)?))).collect();
    table(vec![
        ("constraint_catalog", texts(&pairs, |_| Some(CATALOG))),
        ("constraint_schema", texts(&pairs, |(one, _)| Some(&one.schema))),
        ("constraint_name", texts(&pairs, |(one, _)| Some(&one.shown.name))),
        ("unique_constraint_catalog", texts(&pairs, |_| Some(CATALOG))),
        ("unique_constraint_schema", texts(&pairs, |(_, other)| Some(&other.schema))),
        ("unique_constraint_name", texts(&pairs, |(_, other)| Some(&other.shown.name))),
        ("match_option", texts(&pairs, |_| Some("NONE"))),
        ("update_rule", texts(&pairs, |_| Some("NO ACTION"))),
        ("delete_rule", texts(&pairs, |_| Some("NO ACTION"))),
    ])
}

/// The position of a column of a foreign key among the referenced columns; `None` for other keys.
fn in_referenced((one, at): &(&One, usize)) -> Option<i32> {
    one.shown.referenced.as_ref().map(|_| *at as i32 + 1)
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    names.sort();
    names
}

/// A unique index.
struct Index {
    schema: String,
    table: String,
    name: String,
    columns: String,
    sql: String,
}

fn duckdb_indexes(all: &[Constrained]) -> Result<Arc<dyn TableProvider>> {
    let of = |of: &Constrained| -> Vec<Index> {
        let index = |constraint: &Constraint| match constraint {
            Constraint::Unique { index: Some(name), .. } => {
                let columns = shown::columns(&of.fields, constraint);
                let sql = creating::index(&creating::qualified(&of.schema, &of.table), &of.fields, constraint)?;
                Some(Index { schema: of.schema.clone(), table: of.table.clone(), name: name.clone(), columns, sql })
            }
            _ => None,
        };
        of.constraints.iter().filter_map(index).collect()
    };
    let all: Vec<Index> = all.iter().flat_map(of).collect();
    let truths = |truth: bool| -> ArrayRef { Arc::new(all.iter().map(|_| Some(truth)).collect::<BooleanArray>()) };
    let expressions: ArrayRef =
        Arc::new(all.iter().map(|index| Some(format!("[{}]", index.columns))).collect::<StringArray>());
    table(vec![
        ("database_name", texts(&all, |_| Some(CATALOG))),
        ("schema_name", texts(&all, |index| Some(&index.schema))),
        ("index_name", texts(&all, |index| Some(&index.name))),
        ("table_name", texts(&all, |index| Some(&index.table))),
        ("comment", texts(&all, |_| None)),
        ("is_unique", truths(true)),
        ("is_primary", truths(false)),
        ("expressions", expressions),
        ("sql", texts(&all, |index| Some(&index.sql))),
    ])
}

fn texts<'a, T>(all: &'a [T], of: impl Fn(&'a T) -> Option<&'a str>) -> ArrayRef {
    Arc::new(all.iter().map(of).collect::<StringArray>())
}
