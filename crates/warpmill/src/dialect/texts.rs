//! Values of other types in string functions: `||`, `concat` and similar functions write them as casts do.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::expr::{AggregateFunction, Case, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};

use super::{casts, enums, library};

/// Rewrites one expression whose operands are bound.
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
    // Chains of `||` nest once per operand; only operands decide, without deriving the type of the whole chain.
    if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) = e {
        return Ok(is_text(right, schema)? || is_text(left, schema)?);
    }
    Ok(matches!(e.get_type(schema)?, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View))
}

/// The elements of a list separated by `by`, NULL where the list is; expressions of other types are unchanged.
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

/// Casts `e` to text, unless it is text, a list or a struct.
fn written(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let ty = e.get_type(schema)?;
    let stays = is_text(&e, schema)?
        || ty.is_null()
        || ty.is_nested() && !enums::is_enum(&ty)
        || matches!(ty, DataType::Dictionary(..));
    if stays { Ok(e) } else { casts::bind(e, &DataType::Utf8, false, schema) }
}
