//! UNION, INTERSECT, EXCEPT and VALUES.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, SetExpr, SetOperator, SetQuantifier, Statement, Table, TableFactor,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::apart::marked;
use super::parts::Parts;
use super::pivot::parsed;
use super::scope::{Field, Fields, Scope, quoted, same};
use super::{Binder, Names, assigned, no_query, query_of};
use crate::dialect::literals;
use crate::{Error, Result};

impl Binder<'_> {
    /// Binds a set expression. Returns its columns.
    pub(super) fn set_expr(&mut self, body: &mut SetExpr, outer: Option<&Scope<'_>>, names: Names) -> Result<Fields> {
        if let SetExpr::Table(table) = body {
            *body = whole_table(table)?;
        }
        match body {
            SetExpr::Select(select) => self.select(select, None, outer, names),
            SetExpr::Query(query) => self.query(query, outer, names),
            SetExpr::Values(values) => {
                let scope = Scope::inside(outer);
                let mut parts: Vec<Option<Parts>> = match values.rows.first() {
                    Some(row) => row.content.iter().map(|expr| Parts::of(expr, &scope)).collect(),
                    None => vec![],
                };
                assigned::alike(values)?;
                let several = values.rows.len() > 1;
                for expr in values.rows.iter_mut().flat_map(|row| row.content.iter_mut()) {
                    self.expr(expr, &scope)?;
                    // Values that DataFusion casts have no mark.
                    mark_cast(expr, several);
                }
                let width = values.rows.first().map_or(0, |row| row.content.len());
                let field = |at: usize| Field {
                    name: format!("col{at}"),
                    column: format!("column{}", at + 1),
                    parts: parts[at].take(),
                };
                Ok(Some((0..width).map(field).collect()))
            }
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                let (op, quantifier) = (*op, *set_quantifier);
                let by_name = matches!(
                    quantifier,
                    SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
                );
                let names = if by_name { Names::Refused } else { names };
                let left_fields = self.set_expr(left, outer, names)?;
                let right_fields = self.set_expr(right, outer, if by_name { Names::Refused } else { Names::Own })?;
                if by_name {
                    return by_names(left_fields, right_fields);
                }
                if op != SetOperator::Union && quantifier == SetQuantifier::All {
                    let (Some(left_fields), Some(right_fields)) = (&left_fields, &right_fields) else {
                        return Err(Error::NotImplemented(format!("{op} ALL of a table function: not supported")));
                    };
                    *body = with_multiplicities(op, (left, left_fields), (right, right_fields))?;
                }
                Ok(left_fields)
            }
            SetExpr::Table(_) | SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Ok(None)
            }
        }
    }
}

/// All rows of a table: `TABLE schema.name`.
fn whole_table(table: &Table) -> Result<SetExpr> {
    let name: Vec<String> =
        table.schema_name.iter().chain(&table.table_name).map(|part| quoted(part).to_string()).collect();
    Ok(*parsed(&format!("SELECT * FROM {}", name.join(".")))?.body)
}

/// Marks a value of a VALUES list that is a cast, or that becomes one: numbers that DataFusion reads otherwise, beside other values.
fn mark_cast(value: &mut Expr, several: bool) {
    if let Expr::Nested(inner) = value {
        return mark_cast(inner, several);
    }
    if several {
        literals::typed(value);
    }
    if matches!(value, Expr::Cast { .. }) {
        *value = marked(value);
    }
}

/// The columns of a UNION BY NAME: DataFusion's names are case-sensitive.
fn by_names(left: Fields, right: Fields) -> Result<Fields> {
    let (Some(mut fields), Some(right)) = (left, right) else { return Ok(None) };
    for side in [&fields, &right] {
        each_once(side.iter().map(|field| field.name.as_str()))?;
    }
    for field in right {
        match fields.iter().find(|other| same(&other.name, &field.name)) {
            Some(other) if other.name == field.name => {}
            Some(_) => {
                let what = format!("UNION BY NAME of columns {:?} that differ in case: not supported", field.name);
                return Err(Error::NotImplemented(what));
            }
            None => fields.push(field),
        }
    }
    Ok(Some(fields))
}

/// Refuses duplicate names in a side of a UNION BY NAME.
pub(super) fn each_once<'n>(names: impl Iterator<Item = &'n str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name.to_lowercase()) {
            return Err(Error::Plan(format!(
                "UNION (ALL) BY NAME operation doesn't support duplicate names in the SELECT list - \
                 the name {name:?} occurs multiple times"
            )));
        }
    }
    Ok(())
}

type Side<'s> = (&'s mut Box<SetExpr>, &'s [Field]);

/// INTERSECT ALL or EXCEPT ALL: the n-th of equal rows has a partner if the other side has n of them, so that row numbers turn both sides into sets.
fn with_multiplicities(op: SetOperator, left: Side<'_>, right: Side<'_>) -> Result<SetExpr> {
    let list =
        |fields: &[Field]| fields.iter().map(|field| quoted(&field.column).to_string()).collect::<Vec<_>>().join(", ");
    let numbered = |fields: &[Field]| {
        let all = list(fields);
        format!(
            "SELECT {all}, row_number() OVER (PARTITION BY {all}) AS \"row\u{1f}number\" FROM (SELECT 1) AS \"rows\""
        )
    };
    let columns = list(left.1);
    let text = format!("SELECT {columns} FROM (({}) {op} ({})) AS \"both\"", numbered(left.1), numbered(right.1));
    let statements = Parser::parse_sql(&GenericDialect {}, &text).map_err(|error| Error::Parse(error.to_string()))?;
    let Some(Statement::Query(mut query)) = statements.into_iter().next() else {
        return Err(Error::Parse("a set operation could not be written".into()));
    };
    let mut sides = [left.0, right.0].map(|side| {
        let body = std::mem::replace(&mut **side, *no_query().body);
        Some(Box::new(query_of(body)))
    });
    let both = only_subquery(&mut query.body).and_then(|both| match &mut *both.body {
        SetExpr::SetOperation { left, right, .. } => Some((left, right)),
        _ => None,
    });
    let Some((one, other)) = both else { return Err(Error::Parse("a set operation could not be written".into())) };
    for (place, side) in [one, other].into_iter().zip(&mut sides) {
        if let (Some(subquery), Some(side)) = (only_subquery(place), side.take()) {
            *subquery = side;
        }
    }
    Ok(*query.body)
}

/// The subquery that a SELECT reads.
fn only_subquery(body: &mut SetExpr) -> Option<&mut Box<Query>> {
    match body {
        SetExpr::Query(query) => only_subquery(&mut query.body),
        SetExpr::Select(select) => match &mut select.from.first_mut()?.relation {
            TableFactor::Derived { subquery, .. } => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}
