//! An identity function that DataFusion's rules do not look through.
//!
//! They compare the operand instead of its cast (`CAST(x AS TINYINT) > 3` becomes `x > 3`), and lose the error for a value that does not fit.
//! [`translate`](crate::translate) replaces the function by its argument.

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
    /// Whether the argument is a count of units, see [`counted`].
    counted: bool,
}

impl Kept {
    fn function(counted: bool) -> Arc<ScalarUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Kept { signature, counted }))
    }
}

impl ScalarUDFImpl for Kept {
    fn name(&self) -> &str {
        NAME
    }

    /// The argument's name, as for casts.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|e| e.schema_name().to_string()).collect())
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

/// The function, for registries that read serialized plans.
pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Kept::function(false));
    Arc::clone(&FUNCTION)
}

/// Wraps `e`.
pub fn kept(e: Expr) -> Expr {
    function().call(vec![e])
}

/// Wraps `e`, the operand of a cast between a date and its number of days for arithmetic. SQL texts contain no such casts.
pub fn counted(e: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Kept::function(true));
    FUNCTION.call(vec![e])
}

/// Whether an expression is that of [`counted`].
pub fn is_counted(e: &Expr) -> bool {
    let Expr::ScalarFunction(call) = e else { return false };
    call.func.inner().downcast_ref::<Kept>().is_some_and(|kept| kept.counted)
}

/// Whether a cast succeeds and keeps every value. Other casts must not be optimized away.
pub fn always_fits(from: &DataType, to: &DataType) -> bool {
    // Digits before and after the point.
    let digits = |ty: &DataType| {
        Some(match ty {
            DataType::Boolean => (1, 0),
            DataType::Int8 | DataType::UInt8 => (3, 0),
            DataType::Int16 | DataType::UInt16 => (5, 0),
            DataType::Int32 | DataType::UInt32 => (10, 0),
            DataType::Int64 => (19, 0),
            DataType::UInt64 => (20, 0),
            DataType::Decimal128(width, scale) => (i16::from(*width) - i16::from(*scale), *scale),
            _ => return None,
        })
    };
    if let (DataType::Timestamp(unit, _), DataType::Timestamp(room, _)) = (from, to) {
        return unit <= room;
    }
    match (digits(from), digits(to)) {
        // Rounding changes the value, which may then be too large.
        (Some((whole, scale)), Some((room, digits))) if matches!(to, DataType::Decimal128(..)) => {
            whole <= room && scale <= digits
        }
        (Some((whole, 0)), Some((room, 0))) if from.is_integer() || *from == DataType::Boolean => {
            whole < room && (*from == DataType::Boolean || from.is_unsigned_integer() || to.is_signed_integer())
        }
        (_, Some(_)) => *from == DataType::Null,
        // Floats, texts, and all dates but the last years'.
        (_, None) => true,
    }
}
