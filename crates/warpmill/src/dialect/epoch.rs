//! `to_timestamp(seconds)`: the moment that many seconds after 1970 began, in UTC.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::casts::of_one;
use super::operators::strict_cast;
use super::types::{is_number, timestamptz, type_name};

/// The function.
pub(super) fn to_timestamp() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(ToTimestamp { signature: Signature::user_defined(Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    signature: Signature,
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        "to_timestamp"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if ty.is_null() || is_number(ty) => Ok(vec![DataType::Float64]),
            types => {
                let names: Vec<_> = types.iter().map(type_name).collect();
                plan_err!("no function to_timestamp({}): it is of a number of seconds", names.join(", "))
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(timestamptz())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&args.args, |array| {
            let seconds = strict_cast(array, &DataType::Float64)?;
            let moments = seconds.as_primitive::<Float64Type>().iter().map(|x| x.map(micros).transpose());
            let moments = moments.collect::<Result<TimestampMicrosecondArray>>()?;
            Ok(Arc::new(moments.with_timezone("UTC")) as ArrayRef)
        })
    }
}

fn micros(seconds: f64) -> Result<i64> {
    let micros = (seconds * 1e6).round_ties_even();
    match micros.abs() < i64::MAX as f64 {
        true => Ok(micros as i64),
        false => exec_err!("{seconds:e} seconds are out of range for TIMESTAMP WITH TIME ZONE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_to_microseconds() {
        for (seconds, expected) in
            [(0.0, 0), (1.5, 1_500_000), (2.5e-6, 2), (-1.5e-6, -2), (1_577_836_800.0, 1_577_836_800_000_000)]
        {
            assert_eq!(micros(seconds).unwrap(), expected, "{seconds}");
        }
        for seconds in [1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 9_223_372_036_855.0, -9_223_372_036_855.0] {
            assert!(micros(seconds).is_err(), "{seconds}");
        }
        assert!(micros(9_223_372_036_854.0).is_ok() && micros(-9_223_372_036_854.0).is_ok());
    }
}
