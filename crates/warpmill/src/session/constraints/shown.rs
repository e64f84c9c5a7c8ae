//! Constraints in DuckDB's syntax: `PRIMARY KEY(a, b)`, `CHECK((a > 0))`, and their names.

use std::ops::ControlFlow;

use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, VisitorMut};
use warpmill_format::table::Constraint;

use super::expressions;
use crate::dialect::optionally_quoted;
use crate::visit::visit_mut;

/// A constraint of a table as DuckDB shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `PRIMARY KEY`, `UNIQUE`, `FOREIGN KEY`, `CHECK` or `NOT NULL`.
    pub kind: &'static str,
    /// The constraint's full text.
    pub text: String,
    /// The condition of CHECK.
    pub expression: Option<String>,
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// The names of its columns.
    pub names: Vec<String>,
    /// Its name.
    pub name: String,
    /// The referenced table of a foreign key, and the names of the referenced columns.
    pub referenced: Option<(String, Vec<String>)>,
}

/// The constraints of a table, NOT NULL last. Unique indexes and foreign keys of other tables are not included.
pub(crate) fn all(table: &str, schema: &Schema, constraints: &[Constraint]) -> Vec<Shown> {
    let declared = constraints.iter().filter(|constraint| !is_index(constraint));
    let declared = declared.filter_map(|constraint| one(table, schema, constraint));
    let not_null = (0..schema.fields().len()).filter(|at| !schema.field(*at).is_nullable());
    let not_null = not_null.map(|at| made(table, schema, "NOT NULL", vec![at], None));
    declared.chain(not_null).collect()
}

/// Whether a constraint is an index.
pub(crate) fn is_index(constraint: &Constraint) -> bool {
    matches!(constraint, Constraint::Unique { index: Some(_), .. })
}

/// A constraint of a table; `None` for the entry of a foreign key of another one.
fn one(table: &str, schema: &Schema, constraint: &Constraint) -> Option<Shown> {
    Some(match constraint {
        Constraint::PrimaryKey(columns) => made(table, schema, "PRIMARY KEY", columns.clone(), None),
        Constraint::Unique { columns, .. } => made(table, schema, "UNIQUE", columns.clone(), None),
        Constraint::Check(text) => {
            let columns = expressions::columns(text, schema).unwrap_or_default();
            made(table, schema, "CHECK", columns, Some(expression(text)))
        }
        Constraint::ForeignKey { columns, table: other, keys } => {
            let other = other.as_deref().unwrap_or(table);
            foreign(table, made(table, schema, "FOREIGN KEY", columns.clone(), None), other, keys)
        }
        Constraint::ReferencedBy(_) => return None,
    })
}

/// A foreign key with the table to which it refers.
fn foreign(table: &str, key: Shown, other: &str, keys: &[String]) -> Shown {
    let text = format!("FOREIGN KEY ({}) REFERENCES {}({})", list(&key.names), optionally_quoted(other), list(keys));
    let parts = [table].into_iter().chain(key.names.iter().chain(keys).map(String::as_str)).chain(["fkey"]);
    let name = parts.collect::<Vec<_>>().join("_").to_lowercase();
    Shown { text, name, referenced: Some((other.to_string(), keys.to_vec())), ..key }
}

fn made(table: &str, schema: &Schema, kind: &'static str, columns: Vec<usize>, expression: Option<String>) -> Shown {
    let names: Vec<String> = columns.iter().map(|column| schema.field(*column).name().clone()).collect();
    let text = match (kind, &expression) {
        (_, Some(expression)) => format!("CHECK({expression})"),
        ("NOT NULL", None) => kind.to_string(),
        _ => format!("{kind}({})", list(&names)),
    };
    let suffix = match kind {
        "PRIMARY KEY" => "pkey",
        "UNIQUE" => "key",
        "NOT NULL" => "not_null",
        _ => "check",
    };
    let parts: Vec<&str> = [table].into_iter().chain(names.iter().map(String::as_str)).chain([suffix]).collect();
    let name = parts.join("_").to_lowercase();
    Shown { kind, text, expression, columns, names, name, referenced: None }
}

/// Keys, indexes and conditions of a table.
pub(crate) fn texts(table: &str, schema: &Schema, constraints: &[Constraint]) -> Vec<String> {
    let text = |constraint: &Constraint| match constraint {
        Constraint::Unique { index: Some(name), .. } => {
            Some(format!("UNIQUE INDEX {}({})", optionally_quoted(name), columns(schema, constraint)))
        }
        constraint => one(table, schema, constraint).map(|shown| shown.text),
    };
    constraints.iter().filter_map(text).collect()
}

/// The names of the columns of a key, as a list.
pub(crate) fn columns(schema: &Schema, constraint: &Constraint) -> String {
    let columns = constraint.key().unwrap_or_default().iter();
    list(&columns.map(|column| schema.field(*column).name().clone()).collect::<Vec<_>>())
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| optionally_quoted(name)).collect::<Vec<_>>().join(", ")
}

/// For each column, `PRI` where it is part of the primary key, else `UNI` where it is part of another key.
pub(crate) fn keys(schema: &Schema, constraints: &[Constraint]) -> Vec<Option<&'static str>> {
    let of = |column: usize| {
        let is_in = |constraint: &&Constraint| constraint.key().is_some_and(|columns| columns.contains(&column));
        let declared = constraints.iter().filter(|constraint| !is_index(constraint)).filter(is_in);
        let kinds: Vec<bool> = declared.map(Constraint::is_primary).collect();
        match (kinds.contains(&true), kinds.is_empty()) {
            (true, _) => Some("PRI"),
            (false, false) => Some("UNI"),
            (false, true) => None,
        }
    };
    (0..schema.fields().len()).map(of).collect()
}

/// A condition with brackets around each operation.
pub(super) fn expression(text: &str) -> String {
    let Ok(mut expr) = expressions::parsed(text) else { return text.to_string() };
    let _: ControlFlow<()> = visit_mut(&mut expr, &mut Brackets);
    expr.to_string()
}

struct Brackets;

impl VisitorMut for Brackets {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ BinaryOperator::NotEq, .. } = expr {
            *op = BinaryOperator::Custom("!=".to_string());
        }
        match expr {
            Expr::Nested(inner) => {
                let inner = std::mem::replace(&mut **inner, Expr::Identifier(Ident::new("")));
                *expr = inner;
            }
            Expr::BinaryOp { .. }
            | Expr::UnaryOp { .. }
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::Between { .. }
            | Expr::InList { .. }
            | Expr::Like { .. }
            | Expr::ILike { .. } => {
                let inner = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *expr = Expr::Nested(Box::new(inner));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_in_brackets() {
        assert_eq!(expression("a > 0"), "(a > 0)");
        assert_eq!(expression("((a > 0)) AND b <> 3"), "((a > 0) AND (b != 3))");
        assert_eq!(expression("NOT a = 3 OR b IS NULL"), "((NOT (a = 3)) OR (b IS NULL))");
        assert_eq!(expression("b BETWEEN 1 AND 2"), "(b BETWEEN 1 AND 2)");
        assert_eq!(expression("lower(c) = 'x'"), "(lower(c) = 'x')");
        assert_eq!(expression("a"), "a");
    }
}
