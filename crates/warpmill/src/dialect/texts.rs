//! Values of other types that become parts of texts: `||`, `concat` and the like write them as casts do.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::expr::{AggregateFunction, Case, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};

use super::{casts, enums, library};

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
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if matches!(func.name(), "concat" | "concat_ws") => {
            if func.name() == "concat_ws"
                && let [by, parts @ ..] = args.as_mut_slice()
            {
                for part in parts {
                    *part = spread(std::mem::take(part), by, schema)?;
                }
            }
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

/// The elements of a list with `by` between them, NULL where there are none; what is no list stays.
fn spread(e: Expr, by: &Expr, schema: &DFSchema) -> Result<Expr> {
    let DataType::List(element) = e.get_type(schema)? else { return Ok(e) };
    if element.data_type().is_nested() {
        return plan_err!("concat_ws() does not support nested lists");
    }
    if element.data_type().is_null() {
        return Ok(lit(ScalarValue::Utf8(None)));
    }
    let texts = casts::bind(e, &DataType::new_list(DataType::Utf8, true), false, schema)?;
    let joined = library::call("array_to_string", vec![texts.clone(), by.clone()]);
    let (Some(joined), Some(count)) = (joined, library::call("array_length", vec![texts])) else {
        return internal_err!("no functions of lists");
    };
    let some = (Box::new(count.gt(lit(0i64))), Box::new(joined));
    Ok(Expr::Case(Case::new(None, vec![some], None)))
}

/// `e` as a text, where it is none, and no list or struct.
fn written(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let ty = e.get_type(schema)?;
    let stays = is_text(&e, schema)?
        || ty.is_null()
        || ty.is_nested() && !enums::is_enum(&ty)
        || matches!(ty, DataType::Dictionary(..));
    if stays { Ok(e) } else { casts::bind(e, &DataType::Utf8, false, schema) }
}
