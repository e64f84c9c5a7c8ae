//! `getenv('NAME')`: a variable of the process's environment.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result as DataFusionResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::{Error, Result};

/// `getenv`; `allowed`: in sessions that may read the environment.
pub(super) fn function(allowed: bool) -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Volatile);
    ScalarUDF::from(GetEnv { allowed, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GetEnv {
    allowed: bool,
    signature: Signature,
}

/// The value of a variable; as in DuckDB's shell, empty where there is none.
fn value(name: &str) -> Result<String> {
    match std::env::var_os(name).map(|value| value.into_string()) {
        None => Ok(String::new()),
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) => Err(Error::Execution(format!("getenv: the value of {name:?} is no text in UTF-8"))),
    }
}

impl ScalarUDFImpl for GetEnv {
    fn name(&self) -> &str {
        "getenv"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        match self.allowed {
            true => Ok(DataType::Utf8),
            false => Err(Error::NotImplemented("getenv: this session does not read the environment".into()).into()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let names = args.args[0].to_array(args.number_rows)?;
        let values = names.as_string::<i32>().iter().map(|name| name.map(value).transpose());
        let values: StringArray = values.collect::<Result<Vec<_>>>()?.into_iter().collect();
        Ok(ColumnarValue::Array(Arc::new(values) as ArrayRef))
    }
}
