//! Assignments of SET.

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{Assignment, AssignmentTarget, Expr, ObjectName};
use warpmill_format::TableSnapshot;

use super::target::Target;
use crate::catalog::same;
use crate::session::ddl::default_of;
use crate::{Error, Result};

/// The columns that an UPDATE sets, and the SQL of their values.
///
/// # Errors
/// A column that does not exist, or is set twice.
pub(super) fn assignments(set: &[Assignment], base: &TableSnapshot, target: &Target) -> Result<Vec<(usize, String)>> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut add = |name: &ObjectName, value: &Expr| {
        let column = column_of(name, base, target)?;
        if all.iter().any(|(known, _)| *known == column) {
            return Err(Error::Plan(format!("column {name} of table {} is set twice", target.reference)));
        }
        all.push((column, value_of(value, base.schema().field(column))));
        Ok(())
    };
    for assignment in set {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => add(name, value)?,
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
                names.iter().zip(values).try_for_each(|(name, value)| add(name, value))?;
            }
            (AssignmentTarget::Tuple(_), _) => return Err(Error::NotImplemented(format!("SET {assignment}"))),
        }
    }
    Ok(all)
}

/// The position of a column of the table.
pub(super) fn column_of(name: &ObjectName, base: &TableSnapshot, target: &Target) -> Result<usize> {
    let parts: Vec<&str> = name.0.iter().filter_map(|part| Some(part.as_ident()?.value.as_str())).collect();
    let [column] = parts[..] else {
        return Err(Error::Plan(format!("SET {name}: a column of the table is named without the table")));
    };
    let found = base.schema().fields().iter().position(|field| same(field.name(), column));
    found.ok_or_else(|| Error::Plan(format!("table {} has no column {column}", target.reference)))
}

/// The SQL of a column's value.
pub(super) fn value_of(value: &Expr, column: &Field) -> String {
    match value {
        Expr::Identifier(name) if name.quote_style.is_none() && same(&name.value, "default") => {
            default_of(column).unwrap_or("NULL").to_string()
        }
        value => value.to_string(),
    }
}
