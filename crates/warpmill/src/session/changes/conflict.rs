//! INSERT with ON CONFLICT, as MERGE: columns that the clause names say which rows are the same one.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, DoUpdate, Expr, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, TableObject, visit_expressions, visit_expressions_mut,
};

use super::target::{Target, quoted};
use crate::catalog::same;
use crate::dialect::type_name;
use crate::session::Session;
use crate::session::running::Query;
use crate::session::statements::Taken;
use crate::{Error, Result, ScalarValue};

/// The name of the source's rows in the clause, as PostgreSQL and DuckDB have it.
const EXCLUDED: &str = "excluded";
/// The column of the source that counts rows with one key.
const NUMBER: &str = "\"\u{1}number\"";

impl Session {
    /// Runs `INSERT INTO ... ON CONFLICT (columns) DO ...`, of which `returning` is said to be returned.
    pub(in crate::session) async fn insert_with_conflicts(
        &self,
        insert: &Insert,
        returning: Option<&str>,
        params: &[ScalarValue],
        query: &Query,
    ) -> Result<Taken> {
        let target = target_of(insert)?;
        let schema = Arc::clone(self.changed_table(&target)?.snapshot()?.schema());
        let mut merge = Upsert::of(insert, &schema)?.merge(&target)?;
        if let Some(said) = returning {
            merge.push_str(&format!(" RETURNING {said}"));
        }
        let taken = Box::pin(self.change_statement(&merge, &["merge", "into"], params, query)).await?;
        taken.ok_or_else(|| Error::Internal("ON CONFLICT is a MERGE".into()))
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
    /// Columns that get values, by their names in the table.
    columns: Vec<&'a str>,
    /// Columns that say which rows are the same, and their types in SQL.
    keys: Vec<Key<'a>>,
    /// The changes of a row that is there; `None`: there are none.
    update: Option<&'a DoUpdate>,
    schema: &'a SchemaRef,
}

struct Key<'a> {
    column: &'a str,
    ty: String,
}

impl<'a> Upsert<'a> {
    fn of(insert: &'a Insert, schema: &'a SchemaRef) -> Result<Self> {
        let Some(OnInsert::OnConflict(OnConflict { conflict_target, action })) = &insert.on else {
            return Err(Error::NotImplemented("INSERT with ON DUPLICATE KEY: ON CONFLICT (columns) DO UPDATE".into()));
        };
        let Some(ConflictTarget::Columns(names)) = conflict_target else {
            return Err(Error::NotImplemented(
                "ON CONFLICT without columns: keys are declared, not kept; name them, ON CONFLICT (id) DO ..".into(),
            ));
        };
        let Some(source) = &insert.source else {
            return Err(Error::NotImplemented("INSERT without rows with ON CONFLICT".into()));
        };
        let columns = match &insert.columns[..] {
            [] => schema.fields().iter().map(|field| field.name().as_str()).collect(),
            names => names.iter().map(|name| column_of(last(name)?, schema)).collect::<Result<Vec<_>>>()?,
        };
        let keys = names.iter().map(|name| key_of(name, schema)).collect::<Result<Vec<_>>>()?;
        if let Some(key) = keys.iter().find(|key| !columns.contains(&key.column)) {
            return Err(Error::Plan(format!("ON CONFLICT ({}): the INSERT gives it no value", key.column)));
        }
        let update = match action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(update) => Some(update),
        };
        Ok(Self { source: source.to_string(), columns, keys, update, schema })
    }

    fn merge(&self, target: &Target) -> Result<String> {
        let own = target.alias();
        let same: Vec<_> = self.keys.iter().map(|key| pair(&own, key.column)).collect();
        let values: Vec<_> = self.columns.iter().map(|name| format!("{EXCLUDED}.{}", quoted(name))).collect();
        let update = match self.update {
            Some(update) => self.updating(update, target)?,
            None => String::new(),
        };
        Ok(format!(
            "MERGE INTO {} USING ({}) AS {EXCLUDED} ON {}{update} WHEN NOT MATCHED THEN INSERT ({}) VALUES ({})",
            target.plain(),
            self.rows(),
            same.join(" AND "),
            list(&self.columns),
            values.join(", ")
        ))
    }

    /// The source's rows, one of each key: DO NOTHING takes the first, and DO UPDATE refuses a second. NULL is no key.
    fn rows(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().map(|key| key.column).collect();
        let null: Vec<_> = keys.iter().map(|key| format!("{} IS NULL", quoted(key))).collect();
        let null = null.join(" OR ");
        let typed = self.columns.iter().map(|name| match self.keys.iter().find(|key| key.column == *name) {
            Some(key) => format!("CAST({0} AS {1}) AS {0}", quoted(name), key.ty),
            None => quoted(name),
        });
        let typed: Vec<_> = typed.collect();
        let numbered = format!(
            "SELECT *, row_number() OVER (PARTITION BY {}) AS {NUMBER} FROM (SELECT {} FROM ({}) AS \"\u{1}rows\"({}))",
            list(&keys),
            typed.join(", "),
            self.source,
            list(&self.columns)
        );
        if self.update.is_none() {
            return format!("SELECT {} FROM ({numbered}) WHERE {NUMBER} = 1 OR {null}", list(&self.columns));
        }
        let first = quoted(keys[0]);
        let twice = "ON CONFLICT DO UPDATE cannot change a row twice: several of the rows have one key";
        let checked = self.columns.iter().map(|name| match *name == keys[0] {
            true => format!(
                "coalesce(error(CASE WHEN {NUMBER} > 1 AND NOT ({null}) THEN '{twice}' END), {first}) AS {first}"
            ),
            false => quoted(name),
        });
        format!("SELECT {} FROM ({numbered})", checked.collect::<Vec<_>>().join(", "))
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

    /// An expression whose names without a table are the target's columns. Subqueries keep theirs.
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

fn key_of<'a>(name: &Ident, schema: &'a SchemaRef) -> Result<Key<'a>> {
    let column = column_of(name, schema)?;
    let ty = schema.field_with_name(column).map(|field| type_name(field.data_type()))?;
    Ok(Key { column, ty })
}
