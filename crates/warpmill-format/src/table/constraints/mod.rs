//! Constraints of tables: primary keys, unique keys, foreign keys and CHECK conditions. They are part of each version, and every writer checks rows
//! with a [`guard::Guard`], under the table's lock, before the version is committed.

mod foreign;
pub(super) mod guard;
mod key_set;
mod keys;
mod narrow;
mod places;
mod referrers;
mod text;
mod wide;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use serde::{Deserialize, Serialize};

use super::Table;
use crate::{Result, enums};

/// Largest number of constraints of a table.
const MOST: usize = 1000;
/// Largest size in bytes of the text of a CHECK condition, and of the name of an index.
const MOST_TEXT: usize = 1 << 16;

/// A constraint on the rows of a table. Columns are given by position in the schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraint {
    /// These columns are NOT NULL and have distinct values in all rows.
    PrimaryKey(Vec<usize>),
    /// These columns have distinct values in all rows without NULL in them.
    Unique {
        /// The columns.
        columns: Vec<usize>,
        /// The name of the index that was made for it; `None` where the table declares it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<String>,
    },
    /// This SQL expression over one row is not false.
    Check(String),
    /// The values of these columns are those of a key in some row of the referenced table, or one of them is NULL.
    ForeignKey {
        /// The columns.
        columns: Vec<usize>,
        /// The referenced table, in the same schema; `None`: the table itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        table: Option<String>,
        /// The names of the referenced columns.
        keys: Vec<String>,
    },
    /// The name of a table in the same schema that may have foreign keys to this one. An entry without such a foreign key is void.
    ReferencedBy(String),
}

impl Constraint {
    /// The columns of a key; `None` for conditions.
    pub fn key(&self) -> Option<&[usize]> {
        match self {
            Constraint::PrimaryKey(columns) | Constraint::Unique { columns, .. } => Some(columns),
            Constraint::Check(_) | Constraint::ForeignKey { .. } | Constraint::ReferencedBy(_) => None,
        }
    }

    /// Whether it relates the table to others by foreign keys.
    pub fn is_reference(&self) -> bool {
        matches!(self, Constraint::ForeignKey { .. } | Constraint::ReferencedBy(_))
    }

    /// Whether it is a primary key.
    pub fn is_primary(&self) -> bool {
        matches!(self, Constraint::PrimaryKey(_))
    }
}

/// Evaluates the CHECK conditions of a table, which the format stores as texts.
pub trait RowCheck: Send + Sync {
    /// The columns that conditions read, ascending.
    fn columns(&self) -> &[usize];

    /// Checks `rows` rows, given as columns.
    ///
    /// # Errors
    /// [`FormatError::Constraint`](crate::FormatError::Constraint) if a condition is false for a row, or cannot be evaluated.
    fn check(&self, columns: &[ArrayRef], rows: usize) -> Result<()>;
}

/// Finds the tables to which foreign keys relate a table that is written.
pub trait Relatives: Send + Sync {
    /// The name of the table that is written.
    fn name(&self) -> &str;

    /// The table called `name` in the same schema, as the statement sees it; `None` if there is none.
    ///
    /// # Errors
    /// The table cannot be opened.
    fn table(&self, name: &str) -> Result<Option<Arc<Table>>>;
}

/// The evaluator of a table's CHECK conditions, if set.
pub(super) type Rows = Option<Arc<dyn RowCheck>>;

/// Whether columns of a type can be part of a key: not nested values and intervals.
pub fn is_key_type(data_type: &DataType) -> bool {
    enums::is_enum(data_type) || !data_type.is_nested() && !matches!(data_type, DataType::Interval(_))
}

/// Checks that a table with this schema can have these constraints.
///
/// # Errors
/// A description of the problem.
pub(super) fn check(constraints: &[Constraint], schema: &Schema) -> Result<(), String> {
    if constraints.len() > MOST {
        return Err(format!("{} constraints, where a table has at most {MOST}", constraints.len()));
    }
    if constraints.iter().filter(|constraint| constraint.is_primary()).count() > 1 {
        return Err("two primary keys".into());
    }
    constraints.iter().try_for_each(|constraint| check_one(constraint, schema))
}

fn check_one(constraint: &Constraint, schema: &Schema) -> Result<(), String> {
    let text = match constraint {
        Constraint::Check(text) | Constraint::ReferencedBy(text) => Some(text),
        Constraint::Unique { index, .. } => index.as_ref(),
        Constraint::ForeignKey { table, .. } => table.as_ref(),
        Constraint::PrimaryKey(_) => None,
    };
    if text.is_some_and(|text| text.is_empty() || text.len() > MOST_TEXT) {
        return Err("a constraint whose text is empty or too long".into());
    }
    if let Constraint::ForeignKey { columns, table, keys } = constraint {
        return check_foreign(columns, table.is_none(), keys, schema);
    }
    let Some(columns) = constraint.key() else { return Ok(()) };
    check_columns(columns, schema)?;
    for (at, &column) in columns.iter().enumerate() {
        let field = schema.field(column);
        if columns[..at].contains(&column) {
            return Err(format!("a key that has column {:?} twice", field.name()));
        }
        if constraint.is_primary() && field.is_nullable() {
            return Err(format!("a primary key of column {:?}, which may be null", field.name()));
        }
    }
    Ok(())
}

/// Checks that a key can have these columns.
fn check_columns(columns: &[usize], schema: &Schema) -> Result<(), String> {
    if columns.is_empty() {
        return Err("a key without columns".into());
    }
    for &column in columns {
        let Some(field) = schema.fields().get(column) else {
            return Err(format!("a key of column {column}, which is not there"));
        };
        if !is_key_type(field.data_type()) {
            return Err(format!("a key of column {:?} of type {}", field.name(), field.data_type()));
        }
    }
    Ok(())
}

/// Checks a foreign key to columns `keys`, of the table itself if `is_own`.
fn check_foreign(columns: &[usize], is_own: bool, keys: &[String], schema: &Schema) -> Result<(), String> {
    check_columns(columns, schema)?;
    if columns.len() != keys.len() {
        return Err(format!("a foreign key of {} columns that refers to {}", columns.len(), keys.len()));
    }
    for (&column, key) in columns.iter().zip(keys) {
        if key.is_empty() || key.len() > MOST_TEXT {
            return Err("a foreign key to a column whose name is empty or too long".into());
        }
        let field = schema.field(column);
        if is_own && schema.field_with_name(key).ok().is_none_or(|own| own.data_type() != field.data_type()) {
            return Err(format!("a foreign key of column {:?} that refers to {key:?} of its own table", field.name()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
