//! `EXCLUDE` of window frames, which DataFusion's frames lack: a function around the call's first argument names the rows that are left out.
//!
//! [`translate`](crate::translate) moves them to the frame. The function itself is an error, so that no frame is whole by mistake, and volatile, so that
//! DataFusion's rules do not compute it elsewhere.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use warpmill_ir::{Exclude, Unsupported};

/// The name of the function. It takes the call's argument, and a text of [`Exclude::ALL`].
pub const NAME: &str = "warpmill_excluded";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Excluded(Signature);

impl ScalarUDFImpl for Excluded {
    fn name(&self) -> &str {
        NAME
    }

    /// Calls with different frames have different names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|e| e.schema_name().to_string()).collect();
        Ok(names.join(" exclude "))
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let words = match args.args.get(1) {
            Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(words)))) => words.to_uppercase(),
            _ => String::new(),
        };
        not_impl_err!("EXCLUDE {words} in a frame of this window function")
    }
}

/// The function.
pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(Excluded(Signature::any(2, Volatility::Volatile)))));
    Arc::clone(&FUNCTION)
}

/// `arguments` of a window function without the function, and the rows that it leaves out of the frame.
///
/// # Errors
/// Expressions that cannot be rewritten.
pub(crate) fn taken(arguments: &[Arc<dyn PhysicalExpr>]) -> Result<(Vec<Arc<dyn PhysicalExpr>>, Exclude), Unsupported> {
    let mut exclude = Exclude::Nothing;
    let mut without = |argument: &Arc<dyn PhysicalExpr>| {
        let without = Arc::clone(argument).transform_down(|expr| {
            let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.fun().name() == NAME) else {
                return Ok(Transformed::no(expr));
            };
            let [argument, words] = call.args() else { return Ok(Transformed::no(expr)) };
            let Some(found) = of_words(words) else { return Ok(Transformed::no(expr)) };
            exclude = found;
            Ok(Transformed::yes(Arc::clone(argument)))
        });
        without.map(|without| without.data).map_err(|error| Unsupported::new("window", error.to_string()))
    };
    let arguments = arguments.iter().map(&mut without).collect::<Result<Vec<_>, _>>()?;
    Ok((arguments, exclude))
}

/// The exclusion that a constant text names.
fn of_words(words: &Arc<dyn PhysicalExpr>) -> Option<Exclude> {
    let words = words.downcast_ref::<Literal>()?.value().try_as_str()??;
    Exclude::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(words)).map(|(exclude, _)| *exclude)
}
