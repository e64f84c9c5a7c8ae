//! The value of a scalar subquery that may have more than one row.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// `only_row(value, rows)`: the value, unless it is one of several.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OnlyRow {
    signature: Signature,
}

impl Default for OnlyRow {
    fn default() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[1].to_array(args.number_rows)?;
        let rows = rows.as_primitive::<Int64Type>();
        if (0..rows.len()).any(|at| rows.is_valid(at) && rows.value(at) > 1) {
            return exec_err!(
                "More than one row returned by a subquery used as an expression - scalar subqueries can only return a single row."
            );
        }
        Ok(args.args[0].clone())
    }
}
