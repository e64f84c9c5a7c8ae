//! Casts: how values are rounded, read and written, and when that fails.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use super::operators::strict_cast;
use super::types::{self, HUGEINT, TIMESTAMP, digits, is_decimal, is_float, is_number};
use crate::dialect::text;

/// `e` as `to`, as DuckDB casts it.
pub(super) fn bind(e: Expr, to: &DataType, try_cast: bool, schema: &DFSchema) -> Result<Expr> {
    let from = e.get_type(schema)?;
    let plain = |e: Expr, to: &DataType| match try_cast {
        true => Expr::TryCast(TryCast::new(Box::new(e), to.clone())),
        false => Expr::Cast(Cast::new(Box::new(e), to.clone())),
    };
    Ok(match (&from, to) {
        (from, to) if from == to => e,
        // Half away from zero.
        (from, to) if to.is_integer() && is_decimal(from) && digits(from).is_some_and(|(_, scale)| scale > 0) => {
            plain(plain(e, &HUGEINT), to)
        }
        // Half to even.
        (from, to) if to.is_integer() && is_float(from) => match e {
            e @ Expr::ScalarFunction(_) if is_convert(&e, How::Even) => plain(e, to),
            e => plain(convert(How::Even, from.clone(), try_cast, e), to),
        },
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, to) if is_number(to) => match &e {
            Expr::Literal(value, _) => match value.try_as_str().flatten().map(|text| text::number(text, to)) {
                None => lit(ScalarValue::try_from(to)?),
                Some(Some(value)) => lit(value),
                Some(None) if try_cast => lit(ScalarValue::try_from(to)?),
                Some(None) => return exec_err!("cannot convert the text {value} to {to}"),
            },
            _ => convert(How::Read, to.clone(), try_cast, e),
        },
        (from, DataType::Utf8) if is_float(from) || matches!(from, DataType::Timestamp(..)) => {
            convert(How::Write, DataType::Utf8, try_cast, e)
        }
        (_, to) => plain(e, to),
    })
}

/// A conversion that Arrow has not, or does otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum How {
    /// The nearest whole number, the even one of two.
    Even,
    /// Text as a number.
    Read,
    /// A value as text.
    Write,
}

fn convert(how: How, to: DataType, try_cast: bool, e: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::from(Convert { how, to, try_cast, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![e]))
}

fn is_convert(e: &Expr, how: How) -> bool {
    let Expr::ScalarFunction(call) = e else { return false };
    call.func.inner().downcast_ref::<Convert>().is_some_and(|convert| convert.how == how)
}

/// A conversion as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Convert {
    how: How,
    to: DataType,
    try_cast: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &str {
        match self.how {
            How::Even => "round_even",
            How::Read => "read_number",
            How::Write => "write_text",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|e| e.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let array = &arrays[0];
        let result = match self.how {
            How::Even => even(array)?,
            How::Read => self.read(array)?,
            How::Write => written(array)?,
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

impl Convert {
    fn read(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = strict_cast(array, &DataType::Utf8)?;
        let null = ScalarValue::try_from(&self.to)?;
        let values =
            texts.as_string::<i32>().iter().map(|text| match text.map(|text| (text, text::number(text, &self.to))) {
                None => Ok(null.clone()),
                Some((_, Some(value))) => Ok(value),
                Some((_, None)) if self.try_cast => Ok(null.clone()),
                Some((text, None)) => exec_err!("cannot convert the text {text:?} to {}", self.to),
            });
        let values = values.collect::<Result<Vec<_>>>()?;
        if values.is_empty() {
            return Ok(arrow::array::new_empty_array(&self.to));
        }
        ScalarValue::iter_to_array(values)
    }
}

/// The name of [`shown`], which no text has.
pub(super) const SHOWN: &str = "cast\u{1f}shown";

/// A function that gives its argument, a cast, and whose name has that cast in it. [`unmarked`] takes its calls away.
pub(super) fn shown() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Shown { signature: Signature::any(1, Volatility::Immutable) }))
}

/// What is in the place of a call of [`shown`].
pub(super) fn unmarked(function: &ScalarFunction) -> Option<&Expr> {
    function.func.inner().downcast_ref::<Shown>().and_then(|_| function.args.first())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shown {
    signature: Signature,
}

impl ScalarUDFImpl for Shown {
    fn name(&self) -> &str {
        SHOWN
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [Expr::Cast(Cast { expr, field })] => format!("CAST({} AS {})", expr.schema_name(), field.data_type()),
            [Expr::TryCast(TryCast { expr, field })] => {
                format!("TRY_CAST({} AS {})", expr.schema_name(), field.data_type())
            }
            args => args.iter().map(|e| e.schema_name().to_string()).collect(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

fn even(array: &ArrayRef) -> Result<ArrayRef> {
    let wide = strict_cast(array, &DataType::Float64)?;
    let rounded: arrow::array::Float64Array = wide.as_primitive::<Float64Type>().unary(f64::round_ties_even);
    strict_cast(&(Arc::new(rounded) as ArrayRef), array.data_type())
}

fn written(array: &ArrayRef) -> Result<ArrayRef> {
    let texts: StringArray = match array.data_type() {
        DataType::Float32 => {
            array.as_primitive::<arrow::datatypes::Float32Type>().iter().map(|x| x.map(text::of_float)).collect()
        }
        ty if types::is_float(ty) => {
            let wide = strict_cast(array, &DataType::Float64)?;
            wide.as_primitive::<Float64Type>().iter().map(|x| x.map(text::of_float)).collect()
        }
        ty => {
            let zoned = matches!(ty, DataType::Timestamp(_, Some(_)));
            let moments = strict_cast(&strict_cast(array, &types::timestamptz())?, &TIMESTAMP)?;
            let moments = moments.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
            let suffix = if zoned { "+00" } else { "" };
            moments.iter().map(|micros| micros.map(|micros| format!("{}{suffix}", text::of_moment(micros)))).collect()
        }
    };
    Ok(Arc::new(texts))
}
