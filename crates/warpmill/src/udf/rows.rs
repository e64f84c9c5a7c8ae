//! Scalar functions that call host code, or compiled code.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::compiled::{self, Compiler, Native, Outcome};
use super::{Called, RowFunction, how};

/// The scalar function for host code `code`, compiled code, or both: compiled code is tried first.
pub(super) fn of_rows(
    called: Called,
    parameters: usize,
    code: Option<Arc<dyn RowFunction>>,
    compiler: Option<Compiler>,
    is_volatile: bool,
) -> Arc<ScalarUDF> {
    let volatility = if is_volatile { Volatility::Volatile } else { Volatility::Immutable };
    let signature = Signature::any(parameters, volatility);
    let compiler = compiler.map(Arc::new);
    Arc::new(ScalarUDF::from(CalledScalar { called, code, compiler, signature }))
}

/// The name of `function`, if the session defines it, and the way it runs for these argument types.
pub(super) fn explained(
    function: &ScalarUDF,
    types: impl FnOnce() -> Result<Vec<DataType>>,
) -> Option<(String, String)> {
    let CalledScalar { called, compiler, .. } = function.inner().downcast_ref::<CalledScalar>()?;
    Some((called.name.clone(), how(called, compiler.as_deref(), types)))
}

#[derive(Debug)]
struct CalledScalar {
    called: Called,
    code: Option<Arc<dyn RowFunction>>,
    compiler: Option<Arc<Compiler>>,
    signature: Signature,
}

impl CalledScalar {
    fn address(&self) -> usize {
        match (&self.code, &self.compiler) {
            (Some(code), _) => Arc::as_ptr(code).cast::<()>() as usize,
            (None, Some(compiler)) => Arc::as_ptr(compiler) as usize,
            (None, None) => 0,
        }
    }

    /// The compiled function for values of these types; an error where there is neither it nor code to call.
    fn native(&self, types: &[DataType]) -> Result<Option<Arc<Native>>> {
        let Some(compiler) = &self.compiler else { return Ok(None) };
        match compiler.native(types)? {
            Ok(native) => Ok(Some(native)),
            Err(_) if self.code.is_some() => Ok(None),
            Err(reason) => plan_err!("function '{}' is not compiled: {reason}", self.called.name),
        }
    }

    fn results(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let returns = &self.called.returns;
        if let (Some(native), Some(compiler)) = (self.native(&types)?, &self.compiler) {
            let outcome = compiled::run_rows(&native, compiler.runs(), columns, rows, returns);
            return self.completed(outcome.map_err(|error| self.called.named(error))?, columns);
        }
        match &self.code {
            Some(code) => Ok(code.call(columns, rows, returns)?),
            None => internal_err!("a function without code"),
        }
    }

    /// The results of compiled code, completed by calling code for rows that were given up.
    fn completed(&self, outcome: Outcome, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let Outcome { results, given_up } = outcome;
        let Some((_, reason)) = given_up.first() else { return Ok(results) };
        let Some(code) = &self.code else { return Err(self.called.gives_up(reason)) };
        let rows: UInt64Array = given_up.iter().map(|(row, _)| *row as u64).collect();
        let some = columns.iter().map(|column| take(column, &rows, None)).collect::<Result<Vec<_>, _>>()?;
        let called = code.call(&some, given_up.len(), &self.called.returns)?;
        let mut places: Vec<_> = (0..results.len()).map(|row| (0, row)).collect();
        for (at, (row, _)) in given_up.iter().enumerate() {
            places[*row] = (1, at);
        }
        Ok(interleave(&[results.as_ref(), called.as_ref()], &places)?)
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

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.code.is_none() {
            self.native(types)?;
        }
        Ok(self.called.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_volatile = self.signature.volatility == Volatility::Volatile;
        let constant = !is_volatile && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let results = self.results(&columns, rows)?;
        if results.len() != rows || results.data_type() != &self.called.returns {
            return internal_err!("{} results of type {} for {rows} rows", results.len(), results.data_type());
        }
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&results, 0)?),
            false => ColumnarValue::Array(results),
        })
    }
}
