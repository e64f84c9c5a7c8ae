//! Values of other types that become parts of texts: `||`, `concat` and the like write them as casts do.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::casts;

/// One expression whose parts are bound.
pub(super) fn expression(e: Expr, schema: &DFSchema) -> Result<Expr> {
    match e {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            let (left, right) = match (is_text(&left, schema)?, is_text(&right, schema)?) {
                (true, false) => (left, Box::new(written(*right, schema)?)),
                (false, true) => (Box::new(written(*left, schema)?), right),
                _ => (left, right),
            };
            Ok(Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if matches!(func.name(), "concat" | "concat_ws") => {
            let args = args.into_iter().map(|arg| written(arg, schema)).collect::<Result<_>>()?;
            Ok(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) if func.name() == "string_agg" => {
            params.args = params.args.into_iter().map(|arg| written(arg, schema)).collect::<Result<_>>()?;
            Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        e => Ok(e),
    }
}

fn is_text(e: &Expr, schema: &DFSchema) -> Result<bool> {
    // Rows of `||` are as deep as they are long, and their parts are known.
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = e {
        return Ok(is_text(right, schema)? || is_text(left, schema)?);
    }
    Ok(matches!(e.get_type(schema)?, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View))
}

/// `e` as a text, where it is none, and no list or struct.
fn written(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let ty = e.get_type(schema)?;
    let stays = is_text(&e, schema)? || ty.is_null() || ty.is_nested() || matches!(ty, DataType::Dictionary(..));
    if stays { Ok(e) } else { casts::bind(e, &DataType::Utf8, false, schema) }
}
