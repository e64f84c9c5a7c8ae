//! Casts: supported pairs, rounding, parsing, formatting, and failures.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Float32Array, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, Float64Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, not_impl_err};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use warpmill_ir::scalar::moments;
use warpmill_translate::kept;

use super::castable;
use super::field_names;
use super::moment_texts;
use super::nested_texts;
use super::operators::strict_cast;
use super::states;
use super::types::{self, HUGEINT, TIMESTAMP, digits, is_decimal, is_float, is_number, is_text};
use super::written;
use super::{enums, own_casts, uuids};
use crate::dialect::text;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Casts `e` to `to` by DuckDB's rules. Casts that may round or fail are protected from optimization.
pub(super) fn bind(e: Expr, to: &DataType, try_cast: bool, schema: &DFSchema) -> Result<Expr> {
    let from = e.get_type(schema)?;
    if from != *to
        && let Some(cast) = states::cast(&e, [&from, to], try_cast, schema)?
    {
        return Ok(cast);
    }
    let plain = |e: Expr, to: &DataType| match try_cast {
        true => Expr::TryCast(TryCast::new(Box::new(e), to.clone())),
        false => Expr::Cast(Cast::new(Box::new(e), to.clone())),
    };
    Ok(match (&from, to) {
        (from, to) if from == to => e,
        _ if kept::is_counted(&e) => plain(e, to),
        (from, to) if enums::is_enum(from) && !enums::is_enum(to) && *to != DataType::Utf8 => {
            bind(bind(e, &DataType::Utf8, try_cast, schema)?, to, try_cast, schema)?
        }
        (from, to) if enums::is_enum(to) && castable::exists(from, to) => own(e, to, try_cast)?,
        (from, to) if let Some(named) = field_names::renamed(from, to) => {
            bind(convert(How::Rename, named, try_cast, e), to, try_cast, schema)?
        }
        (from, to) if !castable::exists(from, to) => convert(How::Never, to.clone(), try_cast, e),
        // Half away from zero.
        (from, to) if to.is_integer() && is_decimal(from) && digits(from).is_some_and(|(_, scale)| scale > 0) => {
            kept::kept(plain(plain(e, &HUGEINT), to))
        }
        // Half to even.
        (from, to) if to.is_integer() && is_float(from) => match e {
            e @ Expr::ScalarFunction(_) if is_convert(&e, How::Even) => plain(e, to),
            e => plain(convert(How::Even, from.clone(), try_cast, e), to),
        },
        (DataType::Boolean, to) if is_decimal(to) => kept::kept(plain(plain(e, &DataType::Int8), to)),
        (from, DataType::Boolean) if is_decimal(from) => e.not_eq(lit(ScalarValue::new_zero(from)?)),
        (DataType::Float64, DataType::Float32) => convert(How::Narrow, to.clone(), try_cast, e),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, to) if is_number(to) => match &e {
            Expr::Literal(value, _) => match value.try_as_str().flatten().map(|text| text::number(text, to)) {
                None => lit(ScalarValue::try_from(to)?),
                Some(Some(value)) => lit(value),
                Some(None) if value.try_as_str().flatten().is_some_and(|text| text::is_too_wide(text, to)) => {
                    return not_impl_err!("a number of more than 38 digits");
                }
                Some(None) if try_cast => lit(ScalarValue::try_from(to)?),
                Some(None) => return exec_err!("cannot convert the text {value} to {to}"),
            },
            _ => convert(How::Read, to.clone(), try_cast, e),
        },
        (DataType::Timestamp(from, None), DataType::Timestamp(to_unit, None)) if from > to_unit => {
            convert(How::Nearest, to.clone(), try_cast, e)
        }
        (
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View,
            DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, None),
        ) => bind(bind(e, &TIMESTAMP, try_cast, schema)?, to, try_cast, schema)?,
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, to) if moment_texts::is_read(to) => match &e {
            Expr::Literal(value, _) => match value.try_as_str().flatten() {
                None => lit(ScalarValue::try_from(to)?),
                // The literal keeps its metadata.
                Some(text) if moment_texts::is_plain(text, to) => plain(e, to),
                Some(text) => match moment_texts::read(text, to)? {
                    Some(moment) => lit(moment),
                    None => convert(How::Moment, to.clone(), try_cast, e),
                },
            },
            _ => convert(How::Moment, to.clone(), try_cast, e),
        },
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Binary) => {
            convert(How::Bytes, DataType::Binary, try_cast, e)
        }
        (from, to) if is_text(from) && written::has_parts(to) => convert(How::Nested, to.clone(), try_cast, e),
        (from, DataType::Utf8) if is_float(from) || is_written_otherwise(from) => {
            convert(How::Write, DataType::Utf8, try_cast, e)
        }
        (from, to) if own_casts::is_within(from) || own_casts::is_within(to) => own(e, to, try_cast)?,
        (from, to) if matches!(e, Expr::Literal(..)) || kept::always_fits(from, to) => plain(e, to),
        (_, to) => kept::kept(plain(e, to)),
    })
}

/// `e` cast to type `to`, without an Arrow cast; folds constants.
fn own(e: Expr, to: &DataType, try_cast: bool) -> Result<Expr> {
    Ok(match &e {
        Expr::Literal(value, _) => {
            lit(ScalarValue::try_from_array(&own_casts::cast(&value.to_array()?, to, try_cast)?, 0)?)
        }
        _ => convert(How::Own, to.clone(), try_cast, e),
    })
}

/// Changes the type of `e`, which contains UUIDs, to `to`, which differs at most in field metadata.
pub(super) fn with_fields(e: Expr, to: &DataType) -> Expr {
    convert(How::Own, to.clone(), false, e)
}

/// The position of an ENUM value; NULL for NULL.
pub(super) fn position(e: Expr) -> Expr {
    convert(How::Position, DataType::UInt32, false, e)
}

/// Whether DuckDB formats values of a type in its own way.
pub(super) fn is_written_otherwise(ty: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Date32, Duration, Interval, LargeBinary, Time32, Time64, Timestamp};
    written::has_parts(ty)
        || *ty == uuids::UUID
        || matches!(
            ty,
            Date32
                | Timestamp(..)
                | Time32(_)
                | Time64(_)
                | Interval(_)
                | Duration(_)
                | Binary
                | LargeBinary
                | BinaryView
        )
}

/// A conversion that Arrow lacks, or does differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum How {
    /// The nearest whole number, the even one of two.
    Even,
    /// The nearest timestamp in a coarser unit; ties away from 1970.
    Nearest,
    /// The nearest FLOAT; an error for larger numbers.
    Narrow,
    /// Text as a number.
    Read,
    /// Text as a date, a time, a moment or an interval.
    Moment,
    /// Text as bytes.
    Bytes,
    /// Text as a list, a struct or a map.
    Nested,
    /// Values of types without Arrow casts, also nested ones.
    Own,
    /// The position of an ENUM value.
    Position,
    /// A value as text.
    Write,
    /// A struct with other names of fields.
    Rename,
    /// No cast: an error for every non-NULL value.
    Never,
}

fn convert(how: How, to: DataType, try_cast: bool, e: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(Convert::new(how, to, try_cast)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![e]))
}

fn is_convert(e: &Expr, how: How) -> bool {
    let Expr::ScalarFunction(call) = e else { return false };
    call.func.inner().downcast_ref::<Convert>().is_some_and(|convert| convert.how == how)
}

/// Whether a call reads a date, a time, a moment or an interval from a text.
pub(super) fn reads_moment(call: &ScalarFunction) -> bool {
    call.func.inner().downcast_ref::<Convert>().is_some_and(|convert| convert.how == How::Moment)
}

/// The result of a function of one argument; folds constants.
pub(super) fn of_one(
    args: &[ColumnarValue],
    function: impl FnOnce(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let result = function(&ColumnarValue::values_to_arrays(args)?[0])?;
    Ok(match args {
        [ColumnarValue::Scalar(_)] => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        _ => ColumnarValue::Array(result),
    })
}

impl How {
    const ALL: [Self; 12] = [
        Self::Even,
        Self::Nearest,
        Self::Narrow,
        Self::Read,
        Self::Moment,
        Self::Bytes,
        Self::Nested,
        Self::Own,
        Self::Position,
        Self::Write,
        Self::Rename,
        Self::Never,
    ];
}

/// A conversion as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Convert {
    how: How,
    to: DataType,
    try_cast: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Convert {
    fn name(&self) -> &str {
        match self.how {
            How::Even => "round_even",
            How::Nearest => "round_moment",
            How::Narrow => "narrow_float",
            How::Read => "read_number",
            // Programs support these two.
            How::Moment if self.try_cast => "try_read_moment",
            How::Moment => "read_moment",
            How::Bytes => "read_bytes",
            How::Nested => "read_nested",
            How::Own => "convert_own",
            How::Position => "enum_position",
            How::Write => "write_text",
            How::Rename => "rename_fields",
            How::Never => "refuse_cast",
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
        of_one(&args.args, |array| match self.how {
            How::Even => even(array),
            How::Nearest => nearest(array, &self.to),
            How::Narrow => self.narrow(array),
            How::Read => self.read(array),
            How::Moment => self.moment(array),
            How::Bytes => self.bytes(array),
            How::Nested => nested_texts::read(&strict_cast(array, &DataType::Utf8)?, &self.to, self.try_cast),
            How::Own => own_casts::cast(array, &self.to, self.try_cast),
            How::Position => Ok(Arc::new(enums::positions(array)?)),
            How::Write => written(array),
            How::Rename => field_names::with_names(array, &self.to),
            How::Never => castable::refused(array, &self.to, self.try_cast),
        })
    }
}

/// The texts of `array` as values of a type without parts.
///
/// # Errors
/// Texts that are no such values, unless `try_cast` makes them NULL.
pub(super) fn of_texts(array: &ArrayRef, to: &DataType, try_cast: bool) -> Result<ArrayRef> {
    let how = |how| Convert::new(how, to.clone(), try_cast);
    match to {
        to if is_text(to) => strict_cast(array, to),
        to if is_number(to) => how(How::Read).read(array),
        to if moment_texts::is_read(to) => how(How::Moment).moment(array),
        DataType::Binary => how(How::Bytes).bytes(array),
        to if own_casts::is_within(to) => own_casts::cast(array, to, try_cast),
        to => Ok(cast_with_options(array, to, &CastOptions { safe: try_cast, ..CastOptions::default() })?),
    }
}

impl Convert {
    fn new(how: How, to: DataType, try_cast: bool) -> Self {
        Self { how, to, try_cast, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The type, and 1 where invalid values become NULL.
    pub(super) fn parts(&self) -> (DataType, i32) {
        (self.to.clone(), self.try_cast.into())
    }

    /// The conversion of that name with these parts.
    pub(super) fn named(name: &str, to: &DataType, try_cast: i32) -> Option<Self> {
        How::ALL.into_iter().map(|how| Self::new(how, to.clone(), try_cast != 0)).find(|convert| convert.name() == name)
    }

    fn narrow(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let rows = array.as_primitive::<Float64Type>().iter().map(|value| match value {
            Some(wide) if wide.is_finite() && (wide as f32).is_infinite() => match self.try_cast {
                true => Ok(None),
                false => exec_err!("{wide:e} is out of range for FLOAT"),
            },
            value => Ok(value.map(|wide| wide as f32)),
        });
        Ok(Arc::new(rows.collect::<Result<Float32Array>>()?))
    }

    fn moment(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = strict_cast(array, &DataType::Utf8)?;
        let null = ScalarValue::try_from(&self.to)?;
        let values = texts.as_string::<i32>().iter().map(|text| {
            let Some(text) = text else { return Ok(null.clone()) };
            match moment_texts::read(text, &self.to)? {
                Some(moment) => Ok(moment),
                None if self.try_cast => Ok(null.clone()),
                None => exec_err!("cannot convert the text {text:?} to {}", types::type_name(&self.to)),
            }
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        if values.is_empty() {
            return Ok(arrow::array::new_empty_array(&self.to));
        }
        ScalarValue::iter_to_array(values)
    }

    fn bytes(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = strict_cast(array, &DataType::Utf8)?;
        let rows = texts.as_string::<i32>().iter().map(|text| match text.map(|text| (text, text::bytes(text))) {
            Some((text, None)) if !self.try_cast => exec_err!("cannot convert the text {text:?} to bytes"),
            bytes => Ok(bytes.and_then(|(_, bytes)| bytes)),
        });
        Ok(Arc::new(rows.collect::<Result<Vec<_>>>()?.iter().map(Option::as_deref).collect::<BinaryArray>()))
    }

    fn read(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = strict_cast(array, &DataType::Utf8)?;
        // Arrow parses numbers in the same way, except that it does not round all decimals.
        if !is_decimal(&self.to) {
            let numbers = arrow::compute::cast(&texts, &self.to)?;
            if numbers.null_count() == texts.null_count() {
                return Ok(numbers);
            }
        }
        let null = ScalarValue::try_from(&self.to)?;
        let values =
            texts.as_string::<i32>().iter().map(|text| match text.map(|text| (text, text::number(text, &self.to))) {
                None => Ok(null.clone()),
                Some((_, Some(value))) => Ok(value),
                Some((text, None)) if text::is_too_wide(text, &self.to) => {
                    not_impl_err!("a number of more than 38 digits")
                }
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

/// An identity function for a cast that keeps the cast in its name. [`unmarked`] removes its calls.
pub(super) fn shown() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Shown { signature: Signature::any(1, Volatility::Immutable) }))
}

/// The argument of a call of [`shown`].
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

/// Timestamps converted to a coarser unit.
fn nearest(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let per_second = |ty: &DataType| match ty {
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        _ => 1_000_000_000_i64,
    };
    let ratio = per_second(array.data_type()) / per_second(to);
    let counts = strict_cast(array, &DataType::Int64)?;
    let rounded: arrow::array::Int64Array = counts.as_primitive::<Int64Type>().unary(|count| {
        let up = count.unsigned_abs() % ratio.unsigned_abs() * 2 >= ratio.unsigned_abs();
        count / ratio + if up { count.signum() } else { 0 }
    });
    strict_cast(&(Arc::new(rounded) as ArrayRef), to)
}

pub(super) fn written(array: &ArrayRef) -> Result<ArrayRef> {
    if written::has_parts(array.data_type()) {
        return written::column(array);
    }
    let texts: StringArray = match array.data_type() {
        DataType::Float32 => {
            array.as_primitive::<arrow::datatypes::Float32Type>().iter().map(|x| x.map(text::of_float)).collect()
        }
        ty if types::is_float(ty) => {
            let wide = strict_cast(array, &DataType::Float64)?;
            wide.as_primitive::<Float64Type>().iter().map(|x| x.map(text::of_float)).collect()
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().iter();
            days.map(|days| days.map(|days| moments::of_date(days.into()))).collect()
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = strict_cast(array, &DataType::Time64(TimeUnit::Microsecond))?;
            times.as_primitive::<Time64MicrosecondType>().iter().map(|x| x.map(moments::of_time)).collect()
        }
        DataType::Interval(_) => {
            let intervals = strict_cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|x| x.map(text::of_interval)).collect()
        }
        // Differences of moments have days of 24 hours.
        DataType::Duration(_) => {
            let micros = strict_cast(array, &DataType::Duration(TimeUnit::Microsecond))?;
            let micros = micros.as_primitive::<DurationMicrosecondType>().iter();
            let interval = |micros: i64| {
                let days = i32::try_from(micros / DAY).ok()?;
                Some(text::of_interval(IntervalMonthDayNano::new(0, days, micros % DAY * 1_000)))
            };
            let texts = micros.map(|x| match x.map(interval) {
                None => Ok(None),
                Some(Some(text)) => Ok(Some(text)),
                Some(None) => exec_err!("an interval of more days than it can have"),
            });
            texts.collect::<Result<StringArray>>()?
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = strict_cast(array, &DataType::LargeBinary)?;
            bytes.as_binary::<i64>().iter().map(|x| x.map(text::of_bytes)).collect()
        }
        DataType::FixedSizeBinary(uuids::BYTES) => uuids::texts(array.as_fixed_size_binary()),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            let nanos = array.as_primitive::<TimestampNanosecondType>().iter();
            nanos.map(|nanos| nanos.map(moments::of_nanos)).collect()
        }
        ty => {
            let zoned = matches!(ty, DataType::Timestamp(_, Some(_)));
            let moments = strict_cast(&strict_cast(array, &types::timestamptz())?, &TIMESTAMP)?;
            let moments = moments.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
            let suffix = if zoned { "+00" } else { "" };
            let text = |micros| format!("{}{suffix}", moments::of_moment(micros));
            moments.iter().map(|micros| micros.map(text)).collect()
        }
    };
    Ok(Arc::new(texts))
}
