//! Conversions where the types of the plan and of DataFusion differ.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Cast, Expr};

use super::type_of;
use crate::error::Result;

/// The properties of a type that matter for using its values as another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Float,
    Decimal,
    Date,
    Timestamp,
    Text,
    Bytes,
    Other,
}

fn class(ty: &DataType) -> Class {
    match ty {
        DataType::Dictionary(_, values) => class(values),
        ty if ty.is_integer() => Class::Integer,
        ty if ty.is_floating() => Class::Float,
        ty if ty.is_decimal() => Class::Decimal,
        DataType::Date32 | DataType::Date64 => Class::Date,
        DataType::Timestamp(..) => Class::Timestamp,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Class::Bytes,
        _ => Class::Other,
    }
}

pub(super) fn cast(expr: Expr, ty: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), ty.clone()))
}

/// Converts a column of type `actual` to the plan's declared type: unchanged, or by a cast that keeps every value (or fails at run time). `None` if
/// the types are incompatible.
pub(super) fn reconciled(column: Expr, actual: &DataType, declared: &DataType) -> Option<Expr> {
    let same = actual == declared || matches!((class(actual), class(declared)), (Class::Text, Class::Text));
    if same || (actual.is_nested() && declared.is_nested()) || *actual == DataType::Null {
        let untyped = *actual == DataType::Null && actual != declared;
        return Some(if untyped { cast(column, declared) } else { column });
    }
    let fits = match (class(actual), class(declared)) {
        (Class::Bytes, Class::Bytes)
        | (Class::Integer, Class::Integer | Class::Decimal)
        | (Class::Decimal, Class::Decimal)
        | (Class::Date, Class::Date | Class::Timestamp)
        | (Class::Timestamp, Class::Timestamp)
        | (Class::Float, Class::Float) => !narrows(actual, declared),
        _ => false,
    };
    fits.then(|| cast(column, declared))
}

/// Whether a cast would round.
fn narrows(actual: &DataType, declared: &DataType) -> bool {
    match (actual, declared) {
        (DataType::Float64, DataType::Float32 | DataType::Float16) | (DataType::Float32, DataType::Float16) => true,
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => to < from,
        (DataType::Date64, DataType::Date32) => false,
        _ => match (scale(actual), scale(declared)) {
            (Some(from), Some(to)) => to < from,
            _ => false,
        },
    }
}

/// Digits after the point.
pub(super) fn scale(ty: &DataType) -> Option<i8> {
    match ty {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// Converts the result of a function to the plan's declared type.
///
/// It is cast if its kind differs (`extract` returns 32-bit integers here) or if the plan declares more bits. Digits of decimals are never removed:
/// Substrait's `avg` of decimals has as few as its argument, DataFusion's has more.
pub(super) fn conformed(expr: Expr, declared: Option<&DataType>, schema: &DFSchema) -> Result<Expr> {
    let Some(declared) = declared else { return Ok(expr) };
    let actual = type_of(&expr, schema)?;
    let wider = || declared.primitive_width() > actual.primitive_width();
    let needed = match (class(&actual), class(declared)) {
        (Class::Integer, Class::Integer) | (Class::Float, Class::Float) => wider(),
        (Class::Decimal, Class::Decimal) => false,
        (Class::Integer | Class::Float | Class::Decimal, Class::Integer | Class::Float | Class::Decimal)
        | (Class::Date, Class::Timestamp)
        | (Class::Timestamp, Class::Date) => true,
        _ => false,
    };
    Ok(if needed { cast(expr, declared) } else { expr })
}
