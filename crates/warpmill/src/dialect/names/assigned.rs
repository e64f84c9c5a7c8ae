//! Values that INSERT assigns to columns: of types that DataFusion converts nothing to (UUIDs, ENUMs, and nested types with these), and of several forms.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Insert, SetExpr, TypedString, UnaryOperator, Value, Values,
};

use super::defaults::{columns_of, expression, query};
use super::scope::{quoted, same};
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

/// Casts the values of VALUES for a column to its type, each by itself, where they are written in several ways: their common type may have fewer digits
/// than one of them, as that of 9007199254740993 and 1e0. `tells` is true for types that have to be told.
pub(super) fn each(insert: &mut Insert, schema: &SchemaRef, tells: impl Fn(&DataType) -> bool) -> Result<()> {
    let Some(columns) = columns_of(insert, schema) else { return Ok(()) };
    let Some(SetExpr::Values(values)) = insert.source.as_mut().map(|source| &mut *source.body) else { return Ok(()) };
    for (at, column) in columns.into_iter().enumerate() {
        let ty = schema.field(column).data_type();
        let mut forms = values.rows.iter().filter_map(|row| row.content.get(at)).filter_map(Form::of);
        let Some(first) = forms.next() else { continue };
        let several = values.rows.len() > 1 && (matches!(first, Form::Other) || forms.any(|form| form != first));
        let is_no_truth = *ty == DataType::Boolean && matches!(first, Form::Decimal | Form::Float);
        if !(several && tells(ty) || is_no_truth) {
            continue;
        }
        let cast = as_type(Expr::Value(Value::Null.into()), &type_name(ty))?;
        for value in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            // NULL has no digits, and DEFAULT is no value.
            if Form::of(value).is_some() {
                let mut cast = cast.clone();
                if let Expr::Cast { expr, .. } = &mut cast {
                    **expr = std::mem::replace(value, Expr::Value(Value::Null.into()));
                }
                *value = cast;
            }
        }
    }
    Ok(())
}

/// `insert` with casts to the types of its table of `schema` where a column of VALUES has values of several forms.
pub(crate) fn with_typed_values(insert: &mut Insert, schema: &SchemaRef) -> Result<()> {
    each(insert, schema, |_| true)
}

/// The form in which a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Whole,
    Decimal,
    Float,
    Text,
    Truth,
    Other,
}

impl Form {
    /// The form of a value; `None` for NULL and DEFAULT.
    fn of(value: &Expr) -> Option<Self> {
        Some(match value {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(**expr, Expr::Value(_)) => {
                return Self::of(expr);
            }
            Expr::Identifier(name) if name.quote_style.is_none() && same(&name.value, "default") => return None,
            Expr::Value(constant) => match &constant.value {
                Value::Null => return None,
                Value::Number(digits, _) if digits.contains(['e', 'E']) => Self::Float,
                Value::Number(digits, _) if digits.contains('.') => Self::Decimal,
                Value::Number(..) => Self::Whole,
                Value::SingleQuotedString(_) => Self::Text,
                Value::Boolean(_) => Self::Truth,
                _ => Self::Other,
            },
            _ => Self::Other,
        })
    }
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
