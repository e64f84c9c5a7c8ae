//! The common form of library functions: arguments of known types, one result column.

use std::fmt;
use std::hash::{Hash, Hasher};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Date32Type, Field, FieldRef, Float64Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::dialect::types::type_name;
use crate::dialect::uuids::UUID;

/// The types to which a function's arguments are converted, and its result type.
pub(super) type Typed = (Vec<DataType>, DataType);

/// The types for given argument types; `None` if the function does not support them.
pub(super) type Types = fn(&[DataType]) -> Option<Typed>;

/// Computes a column of arguments that [`Types`] has chosen.
pub(super) type Run = fn(&Call) -> Result<ArrayRef>;

/// Result type that depends on a constant argument.
pub(super) type TypedBy = fn(&ReturnFieldArgs<'_>) -> Result<Option<DataType>>;

/// A function.
pub(super) struct Own {
    pub(super) name: &'static str,
    pub(super) types: Types,
    pub(super) run: Run,
    /// Set if the result type depends on a constant argument, which `types` does not see.
    pub(super) typed_by: Option<TypedBy>,
    signature: Signature,
}

impl Own {
    pub(super) fn new(name: &'static str, types: Types, run: Run) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { name, types, run, typed_by: None, signature }
    }

    /// The function as one that is called for every row, whatever its arguments are.
    pub(super) fn volatile(self) -> Self {
        Self { signature: Signature::user_defined(Volatility::Volatile), ..self }
    }

    fn typed(&self, types: &[DataType]) -> Result<Typed> {
        match (self.types)(types) {
            Some(typed) => Ok(typed),
            None => {
                let names: Vec<_> = types.iter().map(type_name).collect();
                plan_err!("No function matches {}({})", self.name, names.join(", "))
            }
        }
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Own {}

impl Hash for Own {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Own {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.typed(types)?.0)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.typed(types)?.1)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(by) = self.typed_by
            && let Some(ty) = by(&args)?
        {
            return Ok(Field::new(self.name, ty, true).into());
        }
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Field::new(self.name, self.typed(&types)?.1, true).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let call = Call { name: self.name, args: arrays, rows, to: args.return_field.data_type().clone() };
        let result = (self.run)(&call)?;
        Ok(match constant && self.signature.volatility == Volatility::Immutable {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false if constant => ColumnarValue::Array(
                ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?).to_array(args.number_rows)?,
            ),
            false => ColumnarValue::Array(result),
        })
    }
}

/// A call with its arguments as columns.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) args: Vec<ArrayRef>,
    pub(super) rows: usize,
    pub(super) to: DataType,
}

impl Call {
    /// The text in a row of an argument; `None` for NULL.
    pub(super) fn text(&self, arg: usize, row: usize) -> Option<&str> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_string::<i32>().value(row))
    }

    pub(super) fn integer(&self, arg: usize, row: usize) -> Option<i64> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_primitive::<Int64Type>().value(row))
    }

    pub(super) fn float(&self, arg: usize, row: usize) -> Option<f64> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_primitive::<Float64Type>().value(row))
    }

    pub(super) fn bool(&self, arg: usize, row: usize) -> Option<bool> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_boolean().value(row))
    }

    pub(super) fn bytes(&self, arg: usize, row: usize) -> Option<&[u8]> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_binary::<i32>().value(row))
    }

    /// The microseconds of a timestamp.
    pub(super) fn moment(&self, arg: usize, row: usize) -> Option<i64> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_primitive::<TimestampMicrosecondType>().value(row))
    }

    /// The days of a date.
    pub(super) fn date(&self, arg: usize, row: usize) -> Option<i32> {
        let array = self.args.get(arg)?;
        array.is_valid(row).then(|| array.as_primitive::<Date32Type>().value(row))
    }

    /// Whether no argument of a row is NULL.
    pub(super) fn all(&self, row: usize) -> bool {
        self.args.iter().all(|array| array.is_valid(row))
    }

    pub(super) fn texts(&self, f: impl Fn(usize) -> Result<Option<String>>) -> Result<ArrayRef> {
        Ok(std::sync::Arc::new((0..self.rows).map(f).collect::<Result<StringArray>>()?))
    }

    pub(super) fn integers(&self, f: impl Fn(usize) -> Result<Option<i64>>) -> Result<ArrayRef> {
        Ok(std::sync::Arc::new((0..self.rows).map(f).collect::<Result<Int64Array>>()?))
    }

    pub(super) fn floats(&self, f: impl Fn(usize) -> Result<Option<f64>>) -> Result<ArrayRef> {
        // NaN of one kind: Arrow tells those with a sign apart.
        let one = |row| Ok(f(row)?.map(|x| if x.is_nan() { f64::NAN } else { x }));
        Ok(std::sync::Arc::new((0..self.rows).map(one).collect::<Result<Float64Array>>()?))
    }

    pub(super) fn bools(&self, f: impl Fn(usize) -> Result<Option<bool>>) -> Result<ArrayRef> {
        Ok(std::sync::Arc::new((0..self.rows).map(f).collect::<Result<BooleanArray>>()?))
    }
}

/// Whether a value of type `ty` may be passed as a text: numbers may not.
pub(super) fn text_like(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
        || matches!(ty, DataType::Dictionary(_, value) if text_like(value))
}

/// Whether a value of type `ty` is binary: UUIDs do not count.
pub(super) fn is_blob(ty: &DataType) -> bool {
    ty.is_binary() && *ty != UUID
}

pub(super) fn number_like(ty: &DataType) -> bool {
    ty.is_null() || crate::dialect::types::is_number(ty)
}

pub(super) fn whole_like(ty: &DataType) -> bool {
    ty.is_null() || crate::dialect::types::is_whole(ty)
}

pub(super) fn moment_like(ty: &DataType) -> bool {
    matches!(ty, DataType::Null | DataType::Date32 | DataType::Timestamp(..))
}

/// A kind of argument in a pattern of [`typed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Text,
    Whole,
    Number,
    Bool,
    Bytes,
    /// A date or a timestamp, as a timestamp.
    Moment,
    Interval,
    /// A list of texts.
    Texts,
    /// A list of truth values.
    Bools,
}

impl Is {
    fn of(self, ty: &DataType) -> Option<DataType> {
        use DataType::{Binary, Boolean, Float64, Int64, Interval, List, Null, Utf8};
        let element = |wanted: Is, ty: &DataType| match ty {
            List(field) => wanted.of(field.data_type()).map(|ty| DataType::new_list(ty, true)),
            Null => wanted.of(&Null).map(|ty| DataType::new_list(ty, true)),
            _ => None,
        };
        match self {
            Is::Text => text_like(ty).then_some(Utf8),
            Is::Whole => whole_like(ty).then_some(Int64),
            Is::Number => number_like(ty).then_some(Float64),
            Is::Bool => matches!(ty, Boolean | Null).then_some(Boolean),
            Is::Bytes => (ty.is_null() || is_blob(ty)).then_some(Binary),
            Is::Moment => moment_like(ty).then_some(crate::dialect::types::TIMESTAMP),
            Is::Interval => matches!(ty, Interval(_) | DataType::Duration(_) | Null)
                .then_some(Interval(arrow::datatypes::IntervalUnit::MonthDayNano)),
            Is::Texts => element(Is::Text, ty),
            Is::Bools => element(Is::Bool, ty),
        }
    }
}

/// The types of a function with arguments of these kinds.
pub(super) fn typed(types: &[DataType], kinds: &[Is], to: DataType) -> Option<Typed> {
    if types.len() != kinds.len() {
        return None;
    }
    let types = types.iter().zip(kinds).map(|(ty, kind)| kind.of(ty)).collect::<Option<Vec<_>>>()?;
    Some((types, to))
}
