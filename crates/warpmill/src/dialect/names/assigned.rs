//! Values for columns whose types DataFusion converts nothing to: UUIDs, ENUMs, and nested types with these.

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Expr, Insert, SetExpr, TypedString, Value, Values};

use super::defaults::{columns_of, expression, query};
use super::scope::quoted;
use crate::Result;
use crate::dialect::own_casts;
use crate::dialect::types::{is_text, type_name};

/// The name of the inserted rows, and the prefix of the names of their columns.
const ROWS: &str = "\u{1}given";

/// Casts the values that `insert` assigns to such columns of a table of `schema`, and values for text columns that may be ENUMs.
pub(super) fn cast(insert: &mut Insert, schema: &SchemaRef, has_enums: bool) -> Result<()> {
    let Some(columns) = columns_of(insert, schema) else { return Ok(()) };
    let named = |at: &usize| {
        let ty = schema.field(*at).data_type();
        (own_casts::is_within(ty) || has_enums && is_text(ty)).then(|| type_name(ty))
    };
    let types: Vec<Option<String>> = columns.iter().map(named).collect();
    let Some(source) = insert.source.as_mut().filter(|_| types.iter().any(Option::is_some)) else { return Ok(()) };
    if let SetExpr::Values(values) = &mut *source.body {
        for row in &mut values.rows {
            for (value, ty) in row.iter_mut().zip(&types) {
                if let Some(ty) = ty {
                    *value = as_type(value.clone(), ty)?;
                }
            }
        }
        return Ok(());
    }
    let column = |at: usize| quoted(&format!("{ROWS}{at}"));
    let item = |(at, ty): (usize, &Option<String>)| match ty {
        Some(ty) => format!("CAST({} AS {ty}) AS {}", column(at), column(at)),
        None => column(at).to_string(),
    };
    let items: Vec<String> = types.iter().enumerate().map(item).collect();
    let names: Vec<String> = (0..types.len()).map(|at| column(at).to_string()).collect();
    **source =
        query(&format!("SELECT {} FROM ({source}) AS {} ({})", items.join(", "), quoted(ROWS), names.join(", ")))?;
    Ok(())
}

/// `CAST(value AS ty)`.
fn as_type(value: Expr, ty: &str) -> Result<Expr> {
    let mut cast = expression(&format!("CAST(NULL AS {ty})"))?;
    if let Expr::Cast { expr, .. } = &mut cast {
        **expr = value;
    }
    Ok(cast)
}

/// Converts constant texts of a VALUES list to UUIDs if another value of their column is a cast to UUID: DataFusion finds no common type.
pub(super) fn alike(list: &mut Values) -> Result<()> {
    let is_cast = |value: &Expr| match value {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => *data_type == SqlType::Uuid,
        _ => false,
    };
    let is_text =
        |value: &Expr| matches!(value, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    let width = list.rows.first().map_or(0, |row| row.content.len());
    for column in 0..width {
        if !list.rows.iter().any(|row| row.content.get(column).is_some_and(is_cast)) {
            continue;
        }
        for value in list.rows.iter_mut().filter_map(|row| row.content.get_mut(column)).filter(|value| is_text(value)) {
            *value = as_type(value.clone(), "UUID")?;
        }
    }
    Ok(())
}
