//! Lists of rows that `IN` searches for a row: `(a, b) IN ((1, 'x'), (2, 'y'))`.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::bind::binary_operator;
use super::types::{is_float, is_text, is_whole};

/// A search for a row as comparisons of values; `None` where all values to compare have types that are alike, so that DataFusion looks the row up.
///
/// # Errors
/// Values that cannot be compared.
pub(super) fn compared(search: &InList, schema: &DFSchema) -> Result<Option<Expr>> {
    let Some(row) = values(&search.expr) else { return Ok(None) };
    let rows: Option<Vec<&[Expr]>> = search.list.iter().map(values).collect();
    let Some(rows) = rows.filter(|rows| rows.iter().all(|other| other.len() == row.len())) else { return Ok(None) };
    let types = row.iter().map(|value| value.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let is_looked_up = |other: &[Expr]| {
        types.iter().zip(other).all(|(own, wanted)| wanted.get_type(schema).is_ok_and(|ty| are_alike(own, &ty)))
    };
    if rows.iter().all(|other| is_looked_up(other)) {
        return Ok(None);
    }
    let found = rows.into_iter().map(|other| equal(row, other, schema)).collect::<Result<Vec<_>>>()?;
    let Some(any) = any_of(found) else { return Ok(None) };
    Ok(Some(if search.negated { Expr::Not(Box::new(any)) } else { any }))
}

/// The values of a row.
fn values(row: &Expr) -> Option<&[Expr]> {
    match row {
        Expr::ScalarFunction(call) if matches!(call.func.name(), "struct" | "row") => Some(&call.args),
        _ => None,
    }
}

/// Whether DataFusion finds values of one type among those of another as comparisons do.
fn are_alike(own: &DataType, other: &DataType) -> bool {
    let same = own == other && !own.is_nested() && !is_float(own);
    same || is_whole(own) && is_whole(other) || is_text(own) && is_text(other)
}

/// Whether two rows are equal; NULL equals NULL.
fn equal(row: &[Expr], other: &[Expr], schema: &DFSchema) -> Result<Expr> {
    let compared = row.iter().zip(other).map(|(value, wanted)| {
        let is_constant = matches!(wanted, Expr::Literal(constant, _) if !constant.is_null());
        let op = if is_constant { Operator::Eq } else { Operator::IsNotDistinctFrom };
        let equal = BinaryExpr::new(Box::new(value.clone()), op, Box::new(wanted.clone()));
        let equal = binary_operator(equal, schema)?;
        Ok(if is_constant { equal.and(value.clone().is_not_null()) } else { equal })
    });
    let compared = compared.collect::<Result<Vec<_>>>()?;
    Ok(compared.into_iter().reduce(Expr::and).expect("a row has values"))
}

/// Conditions of which one has to hold, as a balanced tree.
fn any_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut rest = std::mem::take(&mut conditions).into_iter();
        while let Some(left) = rest.next() {
            conditions.push(match rest.next() {
                Some(right) => left.or(right),
                None => left,
            });
        }
    }
    conditions.pop()
}
