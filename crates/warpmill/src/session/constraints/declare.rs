//! Constraints in the declarations of tables and columns.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, CreateTable, Expr, Ident, IndexColumn, TableConstraint,
};
use warpmill_format::table::Constraint;

use super::{Declaration, Declared};
use crate::catalog::same;
use crate::{Error, Result};

/// Takes constraints out of a table's declaration; columns of its primary key become NOT NULL.
///
/// # Errors
/// A constraint on an unknown column, or on one column twice; two primary keys.
pub(in crate::session) fn take_constraints(table: &mut CreateTable) -> Result<Declared> {
    let mut declared = Declared::default();
    for (at, column) in table.columns.iter_mut().enumerate() {
        let mut kept = Vec::new();
        for option in std::mem::take(&mut column.options) {
            match &option.option {
                ColumnOption::PrimaryKey(_) => declared.constraints.push(Constraint::PrimaryKey(vec![at])),
                ColumnOption::Unique(_) => {
                    declared.constraints.push(Constraint::Unique { columns: vec![at], index: None });
                }
                ColumnOption::Check(check) => declared.constraints.push(Constraint::Check(check.expr.to_string())),
                ColumnOption::ForeignKey(key) => declared.foreign.push(Declaration::of(key, vec![at])?),
                ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_) => kept.push(option),
                other => return Err(Error::NotImplemented(format!("column {}: {other}", column.name))),
            }
        }
        column.options = kept;
    }
    for constraint in std::mem::take(&mut table.constraints) {
        take_one(table, constraint, &mut declared)?;
    }
    let primary: Vec<&Constraint> = declared.constraints.iter().filter(|constraint| constraint.is_primary()).collect();
    if primary.len() > 1 {
        return Err(Error::Plan(format!("table \"{}\" has more than one primary key", table.name)));
    }
    for &at in primary.into_iter().filter_map(Constraint::key).flatten() {
        let options = &mut table.columns[at].options;
        options.retain(|option| option.option != ColumnOption::Null);
        if !options.iter().any(|option| option.option == ColumnOption::NotNull) {
            options.push(ColumnOptionDef { name: None, option: ColumnOption::NotNull });
        }
    }
    if table.query.is_some() && !(declared.constraints.is_empty() && declared.foreign.is_empty()) {
        return Err(Error::Plan("CREATE TABLE ... AS declares no constraints: ALTER TABLE adds keys".into()));
    }
    Ok(declared)
}

/// Takes a constraint of the whole table.
fn take_one(table: &CreateTable, constraint: TableConstraint, declared: &mut Declared) -> Result<()> {
    let position = |name: &Ident| table.columns.iter().position(|column| same(&column.name.value, &name.value));
    match &constraint {
        TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_) => {
            let missing =
                |name: &Ident| Error::Plan(format!("table \"{}\" does not have a column named {name}", table.name));
            let key = key_of(&constraint, |name| position(name).ok_or_else(|| missing(name)))?;
            declared.constraints.extend(key);
        }
        TableConstraint::Check(check) => declared.constraints.push(Constraint::Check(check.expr.to_string())),
        TableConstraint::ForeignKey(key) => {
            let missing = |name: &Ident| Error::Plan(format!("column \"{}\" named in key does not exist", name.value));
            let columns = key.columns.iter().map(|name| position(name).ok_or_else(|| missing(name)));
            declared.foreign.push(Declaration::of(key, columns.collect::<Result<_>>()?)?);
        }
        other => return Err(Error::NotImplemented(other.to_string())),
    }
    Ok(())
}

/// A table constraint as a key, with columns by position; `None`: it is not a key.
///
/// # Errors
/// Errors of `position`; a key over expressions, or with one column twice.
pub(super) fn key_of(
    constraint: &TableConstraint,
    position: impl Fn(&Ident) -> Result<usize>,
) -> Result<Option<Constraint>> {
    let (columns, is_primary) = match constraint {
        TableConstraint::PrimaryKey(key) => (positions(&key.columns, position, "primary key constraint")?, true),
        TableConstraint::Unique(key) => (positions(&key.columns, position, "unique constraint")?, false),
        _ => return Ok(None),
    };
    Ok(Some(match is_primary {
        true => Constraint::PrimaryKey(columns),
        false => Constraint::Unique { columns, index: None },
    }))
}

/// The positions of the columns of a key.
pub(super) fn positions(
    columns: &[IndexColumn],
    position: impl Fn(&Ident) -> Result<usize>,
    what: &str,
) -> Result<Vec<usize>> {
    let mut found = vec![];
    for column in columns {
        let name = match &column.column.expr {
            Expr::Identifier(name) => name,
            Expr::Nested(inner) if matches!(**inner, Expr::Identifier(_)) => {
                let Expr::Identifier(name) = &**inner else { continue };
                name
            }
            other => return Err(Error::NotImplemented(format!("a {what} on the expression {other}"))),
        };
        let at = position(name)?;
        if found.contains(&at) {
            return Err(Error::Plan(format!("column {name} appears twice in {what}")));
        }
        found.push(at);
    }
    Ok(found)
}

/// Takes the keys out of the declaration of a column that is added as column `at` of a table.
///
/// # Errors
/// Constraints that an added column cannot have.
pub(in crate::session) fn added_column(column: &mut ColumnDef, at: usize) -> Result<Vec<Constraint>> {
    let mut constraints = vec![];
    let mut refused = None;
    column.options.retain(|option| {
        match &option.option {
            ColumnOption::Unique(_) => constraints.push(Constraint::Unique { columns: vec![at], index: None }),
            ColumnOption::PrimaryKey(_) => refused = Some("PRIMARY KEY"),
            ColumnOption::Check(_) => refused = Some("CHECK"),
            ColumnOption::ForeignKey(_) => refused = Some("FOREIGN KEY"),
            _ => return true,
        }
        false
    });
    match refused {
        Some(what) => {
            Err(Error::NotImplemented(format!("Adding columns with {what} constraints is not supported yet")))
        }
        None => Ok(constraints),
    }
}
