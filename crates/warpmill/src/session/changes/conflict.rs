//! INSERT with ON CONFLICT, as MERGE: rows match by the columns that the clause names, or by keys that the table declares.

use std::ops::ControlFlow;

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, DoUpdate, Expr, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, TableObject,
};
use warpmill_format::table::Constraint;

use super::target::{Target, quoted};
use crate::catalog::same;
use crate::dialect::{type_name, with_typed_values};
use crate::session::Session;
use crate::session::ddl::default_of;
use crate::session::running::Query;
use crate::session::statements::Taken;
use crate::visit::{visit_expressions, visit_expressions_mut};
use crate::{Error, Result, ScalarValue};

/// The name of the source's rows in the clause, as in PostgreSQL and DuckDB.
const EXCLUDED: &str = "excluded";
/// The column of the source that numbers the rows of one key.
const NUMBER: &str = "\"\u{1}number\"";
/// The column of the source that numbers all rows.
const PLACE: &str = "\"\u{1}place\"";

impl Session {
    /// Runs `INSERT INTO ... ON CONFLICT (columns) DO ...`; `returning` is its RETURNING clause.
    pub(in crate::session) async fn insert_with_conflicts(
        &self,
        insert: &Insert,
        returning: Option<&str>,
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<Taken> {
        let target = target_of(insert)?;
        let table = self.changed_table(&target)?.snapshot()?;
        let mut insert = insert.clone();
        with_typed_values(&mut insert, table.schema())?;
        let mut merge = Upsert::of(&insert, table.schema(), table.constraints())?.merge(&target)?;
        if let Some(said) = returning {
            merge.push_str(&format!(" RETURNING {said}"));
        }
        let taken = Box::pin(self.change_statement(&merge, &["merge", "into"], params, query)).await?;
        taken.ok_or_else(|| Error::Internal("ON CONFLICT is a MERGE".into()))
    }
}

impl Session {
    /// The conflict clause for INSERT OR REPLACE (`replace`: existing rows get the new values) or INSERT OR IGNORE.
    pub(in crate::session) fn conflict_of(&self, insert: &Insert, replace: bool) -> Result<OnInsert> {
        let table = self.changed_table(&target_of(insert)?)?.snapshot()?;
        let keys = declared_keys(table.constraints());
        if keys.is_empty() {
            return Err(no_key());
        }
        let mut assignments = vec![];
        if replace {
            let [key] = &keys[..] else { return Err(several_keys()) };
            let mut names = columns_of(insert, table.schema())?;
            let is_key = |name: &&str| key.iter().any(|column| table.schema().field(*column).name() == name);
            // If all columns are key columns, they are set to themselves, so that existing rows count as updated.
            if !names.iter().all(is_key) {
                names.retain(|name| !is_key(name));
            }
            for name in names {
                let column = Ident::with_quote('"', name);
                let value = Expr::CompoundIdentifier(vec![Ident::new(EXCLUDED), column.clone()]);
                let target = AssignmentTarget::ColumnName(ObjectName::from(vec![column]));
                assignments.push(Assignment { target, value });
            }
        }
        let action = match assignments.is_empty() {
            true => OnConflictAction::DoNothing,
            false => OnConflictAction::DoUpdate(DoUpdate { assignments, selection: None }),
        };
        Ok(OnInsert::OnConflict(OnConflict { conflict_target: None, action }))
    }
}

/// The column sets of the keys of a table, without duplicates.
fn declared_keys(constraints: &[Constraint]) -> Vec<Vec<usize>> {
    let mut keys: Vec<Vec<usize>> = vec![];
    for key in constraints.iter().filter_map(Constraint::key) {
        let mut key = key.to_vec();
        key.sort_unstable();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn no_key() -> Error {
    let text =
        "There are no UNIQUE/PRIMARY KEY constraints that refer to this table, specify ON CONFLICT columns manually";
    Error::Plan(text.into())
}

fn several_keys() -> Error {
    let text = "Conflict target has to be provided for a DO UPDATE operation when the table has multiple UNIQUE/PRIMARY KEY \
                constraints";
    Error::Plan(text.into())
}

/// The columns that an INSERT gives values, by their names in the table.
fn columns_of<'a>(insert: &Insert, schema: &'a SchemaRef) -> Result<Vec<&'a str>> {
    match &insert.columns[..] {
        [] => Ok(schema.fields().iter().map(|field| field.name().as_str()).collect()),
        names => names.iter().map(|name| column_of(last(name)?, schema)).collect(),
    }
}

fn target_of(insert: &Insert) -> Result<Target> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(Error::NotImplemented(format!("INSERT INTO {} with ON CONFLICT", insert.table)));
    };
    let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
    Target::of_name(name, alias.as_ref())
}

/// An INSERT with ON CONFLICT.
struct Upsert<'a> {
    source: String,
    /// Columns that the INSERT sets, by their names in the table.
    columns: Vec<&'a str>,
    /// The key columns by which rows match.
    keys: Vec<&'a str>,
    /// Further keys: new rows that share one with another row are skipped.
    others: Vec<Vec<&'a str>>,
    /// The update of existing rows; `None`: they are unchanged.
    update: Option<&'a DoUpdate>,
    schema: &'a SchemaRef,
}

impl<'a> Upsert<'a> {
    fn of(insert: &'a Insert, schema: &'a SchemaRef, constraints: &[Constraint]) -> Result<Self> {
        let Some(OnInsert::OnConflict(OnConflict { conflict_target, action })) = &insert.on else {
            return Err(Error::NotImplemented("INSERT with ON DUPLICATE KEY: ON CONFLICT (columns) DO UPDATE".into()));
        };
        let Some(source) = &insert.source else {
            return Err(Error::NotImplemented("INSERT without rows with ON CONFLICT".into()));
        };
        let columns = columns_of(insert, schema)?;
        let mut all = match conflict_target {
            Some(ConflictTarget::Columns(names)) => {
                vec![names.iter().map(|name| column_of(name, schema)).collect::<Result<Vec<_>>>()?]
            }
            Some(other) => return Err(Error::NotImplemented(format!("ON CONFLICT{other}: name the columns"))),
            None => given_keys(schema, constraints, &columns)?,
        };
        if all.len() > 1 && matches!(action, OnConflictAction::DoUpdate(_)) {
            return Err(several_keys());
        }
        let keys = all.remove(0);
        if let Some(key) = keys.iter().find(|key| !columns.contains(key)) {
            return Err(Error::Plan(format!("ON CONFLICT ({key}): the INSERT gives it no value")));
        }
        let update = match action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(update) => Some(update),
        };
        Ok(Self { source: source.to_string(), columns, keys, others: all, update, schema })
    }

    fn merge(&self, target: &Target) -> Result<String> {
        let own = target.alias();
        let same: Vec<_> = self.keys.iter().map(|key| pair(&own, key)).collect();
        let values: Vec<_> = self.columns.iter().map(|name| format!("{EXCLUDED}.{}", quoted(name))).collect();
        let update = match self.update {
            Some(update) => self.updating(update, target)?,
            None => String::new(),
        };
        Ok(format!(
            "MERGE INTO {} USING ({}) AS {EXCLUDED} ON {}{update} WHEN NOT MATCHED THEN INSERT ({}) VALUES ({})",
            target.plain(),
            self.rows(target),
            same.join(" AND "),
            list(&self.columns),
            values.join(", ")
        ))
    }

    /// The source's rows, one per key: DO NOTHING takes the first, and DO UPDATE refuses a second. Keys with NULL match no row.
    fn rows(&self, target: &Target) -> String {
        if !self.others.is_empty() {
            return self.rows_of_several_keys(target);
        }
        let null = any_null(&self.keys);
        let numbered = format!(
            "SELECT *, row_number() OVER (PARTITION BY {}) AS {NUMBER} FROM ({})",
            list(&self.keys),
            self.typed_rows()
        );
        if self.update.is_none() {
            return format!("SELECT {} FROM ({numbered}) WHERE {NUMBER} = 1 OR {null}", list(&self.columns));
        }
        let first = quoted(self.keys[0]);
        let twice = "ON CONFLICT DO UPDATE cannot change a row twice: several of the rows have one key";
        let checked = self.columns.iter().map(|name| match *name == self.keys[0] {
            true => format!(
                "coalesce(error(CASE WHEN {NUMBER} > 1 AND NOT ({null}) THEN '{twice}' END), {first}) AS {first}"
            ),
            false => quoted(name),
        });
        format!("SELECT {} FROM ({numbered})", checked.collect::<Vec<_>>().join(", "))
    }

    /// The source's rows, with the types of the table.
    fn typed_rows(&self) -> String {
        let typed = self.columns.iter().map(|name| {
            let field = self.schema.field_with_name(name).expect("a column of the table");
            format!("CAST({0} AS {1}) AS {0}", quoted(name), type_name(field.data_type()))
        });
        let typed = typed.collect::<Vec<_>>().join(", ");
        format!("SELECT {typed} FROM ({}) AS \"\u{1}rows\"({})", self.source, list(&self.columns))
    }

    /// The first row of each key, for several keys in turn, without rows that share a key other than the first with a row of the table.
    fn rows_of_several_keys(&self, target: &Target) -> String {
        const NEW: &str = "\"\u{1}new\"";
        let mut rows = format!("SELECT *, row_number() OVER () AS {PLACE} FROM ({})", self.typed_rows());
        for key in std::iter::once(&self.keys).chain(&self.others) {
            let null = any_null(key);
            let number = format!("row_number() OVER (PARTITION BY {} ORDER BY {PLACE})", list(key));
            let columns = list(&self.columns);
            rows = format!(
                "SELECT {columns}, {PLACE} FROM (SELECT *, {number} AS {NUMBER} FROM ({rows})) WHERE {NUMBER} = 1 OR {null}"
            );
        }
        let own = target.alias();
        let is_there = |key: &Vec<&str>| {
            let pairs = key.iter().map(|key| format!("{own}.{0} = {NEW}.{0}", quoted(key)));
            let pairs = pairs.collect::<Vec<_>>().join(" AND ");
            format!("NOT EXISTS (SELECT 1 FROM {} WHERE {pairs})", target.plain())
        };
        let free = self.others.iter().map(is_there).collect::<Vec<_>>().join(" AND ");
        format!("SELECT {} FROM ({rows}) AS {NEW} WHERE {free}", list(&self.columns))
    }

    /// The clause for rows that are there.
    fn updating(&self, update: &DoUpdate, target: &Target) -> Result<String> {
        let mut set = vec![];
        for Assignment { target: column, value } in &update.assignments {
            let AssignmentTarget::ColumnName(name) = column else {
                return Err(Error::NotImplemented(format!("ON CONFLICT DO UPDATE SET {column}")));
            };
            set.push(format!("{} = {}", quoted(column_of(last(name)?, self.schema)?), self.qualified(value, target)));
        }
        let condition = update.selection.as_ref().map(|condition| self.qualified(condition, target));
        let condition = condition.map(|condition| format!(" AND ({condition})")).unwrap_or_default();
        Ok(format!(" WHEN MATCHED{condition} THEN UPDATE SET {}", set.join(", ")))
    }

    /// An expression with unqualified names resolved to columns of the target. Subqueries are unchanged.
    fn qualified(&self, expr: &Expr, target: &Target) -> String {
        let mut expr = expr.clone();
        let is_query = |expr: &Expr| matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. });
        let queries = visit_expressions(&expr, |part| match is_query(part) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        if queries.is_continue() {
            let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
                if let Expr::Identifier(name) = part
                    && column_of(name, self.schema).is_ok()
                {
                    *part = Expr::CompoundIdentifier(vec![Ident::with_quote('"', target.name()), name.clone()]);
                }
                ControlFlow::Continue(())
            });
        }
        expr.to_string()
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

fn pair(own: &str, column: &str) -> String {
    let column = quoted(column);
    format!("{own}.{column} = {EXCLUDED}.{column}")
}

fn last(name: &ObjectName) -> Result<&Ident> {
    let ident = name.0.last().and_then(|part| part.as_ident());
    ident.ok_or_else(|| Error::Plan(format!("{name} is no name of a column")))
}

fn column_of<'a>(name: &Ident, schema: &'a SchemaRef) -> Result<&'a str> {
    let found = schema.fields().iter().find(|field| same(field.name(), &name.value));
    let found = found.map(|field| field.name().as_str());
    found.ok_or_else(|| Error::Plan(format!("INSERT with ON CONFLICT: there is no column {name}")))
}

/// The declared keys that new rows with these columns may have: a column without a value and a default is NULL.
///
/// # Errors
/// There is no such key.
fn given_keys<'a>(schema: &'a SchemaRef, constraints: &[Constraint], columns: &[&str]) -> Result<Vec<Vec<&'a str>>> {
    let keys = declared_keys(constraints);
    if keys.is_empty() {
        return Err(no_key());
    }
    let is_given = |column: &usize| {
        let field = schema.field(*column);
        columns.contains(&field.name().as_str()) || default_of(field).is_some() || !field.is_nullable()
    };
    let given = keys.iter().filter(|key| keys.len() == 1 || key.iter().all(is_given));
    let given = given.map(|key| key.iter().map(|column| schema.field(*column).name().as_str()).collect());
    let given: Vec<Vec<&str>> = given.collect();
    let missing = |key: &&&str| !columns.contains(key);
    match given.iter().flatten().find(missing) {
        Some(key) => Err(Error::Plan(format!("ON CONFLICT: the INSERT gives column {key} of a key no value"))),
        None if given.is_empty() => Err(Error::Plan("ON CONFLICT: the INSERT gives no key a value".into())),
        None => Ok(given),
    }
}

/// Whether a row has NULL in one of the columns of a key.
fn any_null(key: &[&str]) -> String {
    key.iter().map(|column| format!("{} IS NULL", quoted(column))).collect::<Vec<_>>().join(" OR ")
}
