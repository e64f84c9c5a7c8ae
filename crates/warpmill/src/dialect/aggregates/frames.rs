//! Aggregates over frames of windows that are functions of the list of their values. A list per row would need memory for each frame.
//!
//! Values of types that sort by their bytes are kept sorted for quantiles, and counted for modes and entropies; of shapes, sums of powers are kept.
//! All other aggregates keep the values of one frame and call the function of lists after each change.

mod entropy;
mod extreme;
mod frequencies;
pub(super) mod moving;
mod queue;
mod recomputed;
mod rows;
mod shapes;
mod sliding;
mod sorted;

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err, not_impl_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, Signature, Volatility,
};

use self::entropy::Entropy;
use self::frequencies::Frequencies;
use self::rows::{Anew, OfRows, distinct};
use self::shapes::Shaped;
pub(in crate::dialect) use self::sliding::{anew, forms, is_sliding, without_subtraction};
use self::sorted::Sorted;
use crate::dialect::library::{self, Quantiles, Shape};
use crate::dialect::lists::{self, keys};
use crate::dialect::operators::with_one_nan;
use crate::dialect::{casts, nested_order, types};

/// Begins the names of the aggregates; their functions of lists begin with `list_`.
const PREFIX: &str = "frame_";

/// The name of the aggregate that is a function of lists over the frames of a window.
pub(in crate::dialect) fn of_list(function: &str) -> String {
    format!("{PREFIX}{}", function.trim_start_matches("list_"))
}

/// The aggregates.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
        let lists = lists::functions().into_iter().chain(library::functions());
        let used = lists.filter(|list| library::functions_of_lists().any(|name| name == list.name()));
        used.map(|list| Arc::new(AggregateUDF::from(OfFrame::new(list)))).collect()
    });
    FUNCTIONS.iter().cloned().chain(extreme::functions())
}

/// The name of the aggregate that is `arg_max` or `arg_min` over the frames of a window.
pub(in crate::dialect) fn of_extreme(descending: bool) -> &'static str {
    if descending { extreme::ARG_MAX } else { extreme::ARG_MIN }
}

/// Converts the arguments of such an aggregate to the types that its function of lists has; `None`: another function.
///
/// # Errors
/// Types that the function does not support, and fractions of quantiles that are not constant.
pub(super) fn arguments(function: &str, args: &[Expr], schema: &DFSchema) -> Result<Option<Vec<Expr>>> {
    let found = function.starts_with(PREFIX).then(|| functions().find(|known| known.name() == function)).flatten();
    let Some(aggregate) = found else { return Ok(None) };
    if let [_, at] = args
        && function.contains("quantile")
    {
        library::check_fraction(function.trim_start_matches(PREFIX), at)?;
    }
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let to = aggregate.coerce_types(&types)?;
    let converted = args.iter().zip(to).map(|(arg, to)| casts::bind(arg.clone(), &to, false, schema));
    let mut converted = converted.collect::<Result<Vec<_>>>()?;
    if let [_, key] = converted.as_mut_slice()
        && extreme::is_extreme(function)
        && nested_order::has_keys(&key.get_type(schema)?)
    {
        *key = nested_order::key_of(std::mem::take(key));
    }
    Ok(Some(converted))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfFrame {
    name: String,
    list: Arc<ScalarUDF>,
    signature: Signature,
}

impl OfFrame {
    fn new(list: Arc<ScalarUDF>) -> Self {
        Self { name: of_list(list.name()), list, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// The arguments of a function of lists, for the types of values and of further arguments.
fn listed(types: &[DataType]) -> Vec<FieldRef> {
    let (value, rest) = types.split_first().map_or((&DataType::Null, [].as_slice()), |(value, rest)| (value, rest));
    let types = std::iter::once(DataType::new_list(value.clone(), true)).chain(rest.iter().cloned());
    types.map(|ty| Arc::new(Field::new("", ty, true))).collect()
}

impl AggregateUDFImpl for OfFrame {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let fields = fields_with_udf(&listed(types), self.list.as_ref())?;
        let mut types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
        types[0] = match &types[0] {
            DataType::List(element) => element.data_type().clone(),
            other => return internal_err!("{} of {other}", self.list.name()),
        };
        Ok(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fields = listed(types);
        let constants = vec![None; fields.len()];
        let args = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants };
        Ok(self.list.return_field_from_args(args)?.data_type().clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(value) = args.expr_fields.first() else { return internal_err!("{} of no value", self.name) };
        let (value, to) = (value.data_type(), args.return_field.data_type());
        let is_sorted = is_ordered(value) && !args.is_distinct;
        Ok(match self.list.name() {
            "list_mode" if is_sorted => accumulator(Frequencies::new(value)?),
            "list_entropy" if is_sorted => accumulator(Entropy::new(value)?),
            list if is_sorted && Quantiles::is_computed_by(list) => {
                let (rows, list, to) = (converter(value)?, list.into(), to.clone());
                accumulator(Ordered { rows, sorted: Sorted::default(), list, at: None, to })
            }
            list if !args.is_distinct
                && let Some(shape) = Shape::of_list(list) =>
            {
                accumulator(Shaped::new(shape))
            }
            _ => accumulator(Anew::of(OfList {
                list: Arc::clone(&self.list),
                to: Arc::clone(&args.return_field),
                empty: self.default_value(to)?,
                is_distinct: args.is_distinct,
            })),
        })
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        match self.list.name() {
            "list_entropy" => Ok(ScalarValue::Float64(Some(0.0))),
            _ => ScalarValue::try_from(ty),
        }
    }
}

/// Whether the values of a type sort by their rows, given one kind of NaN, and equal values, but for zeros, have equal rows.
fn is_ordered(ty: &DataType) -> bool {
    let simple = ty.is_integer() || types::is_float(ty) || types::is_decimal(ty) || types::is_text(ty);
    simple || matches!(ty, DataType::Boolean | DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_))
}

fn converter(ty: &DataType) -> Result<RowConverter> {
    Ok(RowConverter::new(vec![SortField::new(ty.clone())])?)
}

/// The rows of a frame.
trait Frame: std::fmt::Debug + Send + Sync {
    /// Adds rows; `columns` are the arguments of the aggregate.
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()>;

    /// Removes the oldest rows.
    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()>;

    fn value(&mut self) -> Result<ScalarValue>;

    fn size(&self) -> usize;
}

/// An accumulator of a frame.
fn accumulator(frame: impl Frame + 'static) -> Box<dyn Accumulator> {
    Box::new(Accumulated { frame: Box::new(frame), result: None })
}

/// A frame with its aggregate, which is computed once until rows change: rows may have equal frames.
#[derive(Debug)]
struct Accumulated {
    frame: Box<dyn Frame>,
    result: Option<ScalarValue>,
}

impl Accumulator for Accumulated {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if columns[0].is_empty() {
            return Ok(());
        }
        self.result = None;
        self.frame.add(columns)
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if columns[0].is_empty() {
            return Ok(());
        }
        self.result = None;
        self.frame.remove(columns)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(result) = &self.result {
            return Ok(result.clone());
        }
        Ok(self.result.insert(self.frame.value()?).clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("partial results of frames")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("partial results of frames")
    }
}

/// The sorted values of a frame, without NULLs, for quantiles.
#[derive(Debug)]
struct Ordered {
    rows: RowConverter,
    sorted: Sorted<OwnedRow>,
    /// The function of lists.
    list: String,
    /// Its fractions.
    at: Option<ScalarValue>,
    to: DataType,
}

/// The rows of the values that are not NULL.
fn present(converter: &RowConverter, values: &ArrayRef) -> Result<Vec<OwnedRow>> {
    let rows = converter.convert_columns(std::slice::from_ref(values))?;
    Ok((0..values.len()).filter(|&at| values.is_valid(at)).map(|at| rows.row(at).owned()).collect())
}

impl Frame for Ordered {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if let (None, Some(at)) = (&self.at, columns.get(1)) {
            self.at = Some(ScalarValue::try_from_array(at, 0)?);
        }
        present(&self.rows, &with_one_nan(&columns[0]))?.into_iter().for_each(|row| self.sorted.insert(row));
        Ok(())
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        present(&self.rows, &with_one_nan(&columns[0]))?.iter().for_each(|row| self.sorted.remove(row));
        Ok(())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        let count = self.sorted.len();
        if count == 0 {
            return ScalarValue::try_from(&self.to);
        }
        let quantiles = Quantiles::new(&self.list, self.at.as_ref(), &self.to)?;
        let ranks = quantiles.ranks(count);
        let elements = self.rows.convert_rows(ranks.iter().map(|rank| self.sorted.get(*rank).row()))?;
        quantiles.value(&elements[0], count)
    }

    fn size(&self) -> usize {
        self.sorted.len() * (size_of::<OwnedRow>() + size_of::<u64>())
    }
}

/// A function of the list of values.
#[derive(Debug)]
struct OfList {
    list: Arc<ScalarUDF>,
    to: FieldRef,
    /// The aggregate of no rows.
    empty: ScalarValue,
    is_distinct: bool,
}

impl OfRows for OfList {
    fn of_nothing(&self) -> Result<ScalarValue> {
        Ok(self.empty.clone())
    }

    fn of(&self, columns: &[ArrayRef]) -> Result<ScalarValue> {
        let values = if self.is_distinct { distinct(&columns[..1])?.swap_remove(0) } else { Arc::clone(&columns[0]) };
        let element = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list: ArrayRef = Arc::new(ListArray::try_new(element, offsets, values, None)?);
        // The other arguments are constants.
        let rest = columns[1..].iter().map(|column| Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(column, 0)?)));
        let args = std::iter::once(Ok(ColumnarValue::Array(list))).chain(rest).collect::<Result<Vec<_>>>()?;
        let arg_fields = args.iter().map(|arg| Arc::new(Field::new("", arg.data_type(), true))).collect();
        let call = ScalarFunctionArgs {
            args,
            arg_fields,
            number_rows: 1,
            return_field: Arc::clone(&self.to),
            config_options: Arc::new(ConfigOptions::default()),
        };
        match self.list.invoke_with_args(call)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0),
        }
    }
}
