//! A function that gives its argument, and that DataFusion's rules do not look through.
//!
//! They compare what is cast instead of the cast (`CAST(x AS TINYINT) > 3` becomes `x > 3`), and the error of a value that does not fit is
//! gone. [`mod@crate::translate`] puts the argument in its place.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function.
pub const NAME: &str = "warpmill_kept";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kept {
    signature: Signature,
}

impl ScalarUDFImpl for Kept {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

/// `e`, as it is.
pub fn kept(e: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::new_from_impl(Kept { signature: Signature::any(1, Volatility::Immutable) }))
    });
    FUNCTION.call(vec![e])
}
