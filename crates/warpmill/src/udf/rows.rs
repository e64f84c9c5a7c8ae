//! Functions of rows whose code is called.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::{Called, RowFunction};

/// The function that `code` is.
pub(super) fn of_rows(
    called: Called,
    parameters: usize,
    code: Arc<dyn RowFunction>,
    is_volatile: bool,
) -> Arc<ScalarUDF> {
    let volatility = if is_volatile { Volatility::Volatile } else { Volatility::Immutable };
    let signature = Signature::any(parameters, volatility);
    Arc::new(ScalarUDF::from(CalledScalar { called, code, signature }))
}

/// What `function` knows about itself, if its code is called.
pub(super) fn called(function: &ScalarUDF) -> Option<&Called> {
    function.inner().downcast_ref::<CalledScalar>().map(|function| &function.called)
}

#[derive(Debug)]
struct CalledScalar {
    called: Called,
    code: Arc<dyn RowFunction>,
    signature: Signature,
}

impl CalledScalar {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.code).cast::<()>() as usize
    }
}

impl PartialEq for CalledScalar {
    fn eq(&self, other: &Self) -> bool {
        self.called == other.called && self.address() == other.address()
    }
}

impl Eq for CalledScalar {}

impl Hash for CalledScalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.called.hash(state);
        self.address().hash(state);
    }
}

impl ScalarUDFImpl for CalledScalar {
    fn name(&self) -> &str {
        &self.called.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.called.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_volatile = self.signature.volatility == Volatility::Volatile;
        let constant = !is_volatile && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let results = self.code.call(&columns, rows, &self.called.returns)?;
        if results.len() != rows || results.data_type() != &self.called.returns {
            return internal_err!("{} results of type {} for {rows} rows", results.len(), results.data_type());
        }
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
            false => ColumnarValue::Array(results),
        })
    }
}
