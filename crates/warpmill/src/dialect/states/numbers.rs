//! Functions that compute with states of [`Moments`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Accumulator, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::State;
use super::kind::Kind;
use super::moments::Moments;
use super::packed::{of_parts, parts_of};
use crate::dialect::aggregates::nearest;
use crate::dialect::operators::strict_cast;

/// The task of one of these functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// The result of a state's aggregate.
    Value,
    /// A state of two.
    Combined,
    /// A state that is there several times.
    Repeated,
    /// The average of timestamps, from a sum of microseconds and a count.
    MeanMoment,
    /// A number of times, which is not negative.
    Times,
}

/// A call of such a function with result type `to`.
pub(super) fn call(what: What, to: &DataType, args: Vec<Expr>) -> Expr {
    let function = Numbers { what, to: to.clone(), signature: Signature::variadic_any(Volatility::Immutable) };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Numbers {
    what: What,
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Numbers {
    fn name(&self) -> &str {
        match self.what {
            What::Value => "state_result",
            What::Combined => "state_of_states",
            What::Repeated => "repeated_state",
            What::MeanMoment => "mean_moment",
            What::Times => "state_multiplicity",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(match self.what {
            What::Value => {
                let states = States::of(&arrays[0])?;
                let value = |row| states.row(row).and_then(|numbers| states.moments.value(&numbers));
                Arc::new((0..arrays[0].len()).map(value).collect::<Float64Array>())
            }
            What::Combined => combined(&self.to, &States::of(&arrays[0])?, &States::of(&arrays[1])?)?,
            What::Repeated => {
                repeated(&self.to, &States::of(&arrays[0])?, &strict_cast(&arrays[1], &DataType::Float64)?)?
            }
            What::MeanMoment => mean_moment(&arrays[0], &arrays[1], &self.to)?,
            What::Times => times(&arrays[0])?,
        }))
    }
}

fn times(counts: &ArrayRef) -> Result<ArrayRef> {
    let counts = strict_cast(counts, &DataType::Int64)?;
    let counts = counts.as_primitive::<arrow::datatypes::Int64Type>();
    match counts.iter().flatten().all(|count| count >= 0) {
        true => Ok(Arc::new(counts.clone())),
        false => exec_err!("combine_aggr multiplicity must be non-negative"),
    }
}

fn mean_moment(sums: &ArrayRef, counts: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (sums, counts) = (sums.as_primitive::<Decimal128Type>(), counts.as_primitive::<UInt64Type>());
    let mean = |(sum, count): (Option<i128>, Option<u64>)| {
        let count = count.filter(|count| *count > 0)?;
        i64::try_from(nearest(sum?, count.into())).ok()
    };
    let means: Int64Array = sums.iter().zip(counts).map(mean).collect();
    Ok(cast(&means, to)?)
}

/// States of numbers as columns of floats.
struct States {
    moments: Moments,
    columns: Vec<Float64Array>,
    valid: Vec<bool>,
}

impl States {
    fn of(states: &ArrayRef) -> Result<Self> {
        let (state, moments) = moments_of(states.data_type())?;
        let columns = parts_of(&state, states.as_struct()).into_iter().map(|part| {
            let numbers = cast(&part, &DataType::Float64)?;
            Ok(numbers.as_primitive::<Float64Type>().clone())
        });
        let valid = (0..states.len()).map(|row| states.is_valid(row)).collect();
        Ok(Self { moments, columns: columns.collect::<Result<_>>()?, valid })
    }

    /// The numbers of a row; `None` for NULL.
    fn row(&self, row: usize) -> Option<Vec<f64>> {
        self.valid[row].then(|| self.columns.iter().map(|column| column.value(row)).collect())
    }
}

fn moments_of(ty: &DataType) -> Result<(State, Moments)> {
    match State::of(ty).map(|state| (state.kind(), state)) {
        Some((Kind::Moments(moments), state)) => Ok((state, moments)),
        Some((_, state)) => not_impl_err!("combine_aggr of states of {} over a window", state.function),
        None => exec_err!("no state: {ty}"),
    }
}

/// States of type `ty` that have the numbers in `rows`.
fn states(ty: &DataType, rows: &[Option<Vec<f64>>]) -> Result<ArrayRef> {
    let (state, _) = moments_of(ty)?;
    let types = state.kind().parts(&[]);
    let parts = types.iter().enumerate().map(|(at, ty)| {
        let column: Float64Array = rows.iter().map(|row| row.as_ref().map(|numbers| numbers[at])).collect();
        Ok(cast(&column, ty)?)
    });
    of_parts(ty, &parts.collect::<Result<Vec<_>>>()?)
}

fn combined(ty: &DataType, left: &States, right: &States) -> Result<ArrayRef> {
    let rows = left.valid.len();
    // DuckDB begins with the second one.
    let row = |row| {
        let mut numbers = right.row(row);
        if let Some(other) = left.row(row) {
            left.moments.combine(&mut numbers, &other);
        }
        numbers
    };
    states(ty, &(0..rows).map(row).collect::<Vec<_>>())
}

fn repeated(ty: &DataType, of: &States, times: &ArrayRef) -> Result<ArrayRef> {
    let times = times.as_primitive::<Float64Type>();
    let row = |row| {
        let times = times.is_valid(row).then(|| times.value(row)).filter(|times| *times > 0.0)?;
        of.row(row).map(|numbers| of.moments.repeated(&numbers, times))
    };
    states(ty, &(0..of.valid.len()).map(row).collect::<Vec<_>>())
}

/// `combine_aggr` of states of numbers.
#[derive(Debug)]
pub(super) struct Combining {
    ty: DataType,
    moments: Moments,
    numbers: Option<Vec<f64>>,
}

impl Combining {
    /// The combination of states of type `ty`.
    pub(super) fn of(ty: &DataType) -> Result<Self> {
        let (_, moments) = moments_of(ty)?;
        Ok(Self { ty: ty.clone(), moments, numbers: moments.empty() })
    }
}

impl Accumulator for Combining {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let states = States::of(&columns[0])?;
        for numbers in (0..states.valid.len()).filter_map(|row| states.row(row)) {
            self.moments.combine(&mut self.numbers, &numbers);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&states(&self.ty, std::slice::from_ref(&self.numbers))?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.numbers.as_ref().map_or(0, |numbers| numbers.capacity() * size_of::<f64>())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
