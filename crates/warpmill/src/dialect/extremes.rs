//! MIN and MAX of floats in DuckDB's order: NaN is greater than all other numbers.
//!
//! DataFusion's group accumulators begin with the greatest and the smallest finite number, so that infinities are lost, and replace NaN by any
//! following number.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    StatisticsArgs,
};

/// The replacement of DataFusion's MIN or MAX for floats.
pub(super) fn of_floats(func: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    let greatest = match func.name() {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let replaced = func.inner().downcast_ref::<Extreme>().is_some();
    (!replaced).then(|| Arc::new(AggregateUDF::from(Extreme { greatest, plain: Arc::clone(func) })))
}

/// DataFusion's function with another group accumulator.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    plain: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.plain.coerce_types(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        matches!(args.return_field.data_type(), DataType::Float32 | DataType::Float64)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Float32 => Ok(Box::new(Groups::<Float32Type>::new(self.greatest))),
            DataType::Float64 => Ok(Box::new(Groups::<Float64Type>::new(self.greatest))),
            other => internal_err!("{} of floats, of {other}", self.name()),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.plain.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.plain.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.plain.value_from_stats(args)
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.plain.inner().set_monotonicity(ty)
    }
}

/// The extreme of each group; its state is the extreme so far.
#[derive(Debug)]
struct Groups<T: ArrowPrimitiveType> {
    greatest: bool,
    values: Vec<T::Native>,
    /// Whether a group has a value.
    found: Vec<bool>,
    ty: PhantomData<T>,
}

impl<T: ArrowPrimitiveType> Groups<T> {
    fn new(greatest: bool) -> Self {
        Self { greatest, values: vec![], found: vec![], ty: PhantomData }
    }

    fn add(&mut self, group: usize, value: T::Native) {
        let kept = self.values[group];
        let (more, less) = if self.greatest { (value, kept) } else { (kept, value) };
        if !self.found[group] || is_greater(more, less) {
            self.values[group] = value;
            self.found[group] = true;
        }
    }

    fn take(&mut self, groups: EmitTo) -> ArrayRef {
        let (values, found) = (groups.take_needed(&mut self.values), groups.take_needed(&mut self.found));
        Arc::new(PrimitiveArray::<T>::new(values.into(), Some(NullBuffer::from(found))))
    }
}

/// Whether `a` is greater than `b`; NaN is greater than all numbers.
fn is_greater<V: PartialOrd + Copy>(a: V, b: V) -> bool {
    let is_nan = |value: V| value.partial_cmp(&value).is_none();
    a > b || is_nan(a) && !is_nan(b)
}

impl<T: ArrowPrimitiveType + Send> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.values.resize(total, T::default_value());
        self.found.resize(total, false);
        let values = values[0].as_primitive::<T>();
        for (row, &group) in groups.iter().enumerate() {
            let counts = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if counts && values.is_valid(row) {
                self.add(group, values.value(row));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(filter) = filter else { return Ok(vec![Arc::clone(&values[0])]) };
        let states = values[0].as_primitive::<T>().iter().zip(filter);
        let states: PrimitiveArray<T> = states.map(|(value, counts)| value.filter(|_| counts == Some(true))).collect();
        Ok(vec![Arc::new(states)])
    }

    fn evaluate(&mut self, groups: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(groups))
    }

    fn state(&mut self, groups: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(groups)])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.found.capacity()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float32Array, Float64Array};

    use super::*;

    #[test]
    fn infinities_and_nan_are_extremes() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(f64::NEG_INFINITY),
            Some(f64::NAN),
            Some(1.0),
            None,
            Some(f64::INFINITY),
            Some(f64::NAN),
        ]));
        let groups = [0, 1, 1, 2, 3, 4];
        let extremes = |greatest| {
            let mut kept = Groups::<Float64Type>::new(greatest);
            kept.update_batch(std::slice::from_ref(&values), &groups, None, 5).unwrap();
            let found = kept.evaluate(EmitTo::All).unwrap();
            format!("{:?}", found.as_primitive::<Float64Type>().iter().collect::<Vec<_>>())
        };
        assert_eq!(extremes(true), "[Some(-inf), Some(NaN), None, Some(inf), Some(NaN)]");
        assert_eq!(extremes(false), "[Some(-inf), Some(1.0), None, Some(inf), Some(NaN)]");
    }

    #[test]
    fn states_are_merged_and_filters_hold() {
        let values: ArrayRef = Arc::new(Float32Array::from(vec![3.0, 5.0, 4.0]));
        let mut one = Groups::<Float32Type>::new(true);
        let filter = BooleanArray::from(vec![Some(true), None, Some(false)]);
        one.update_batch(std::slice::from_ref(&values), &[0, 0, 1], Some(&filter), 2).unwrap();
        let states = one.state(EmitTo::All).unwrap();
        let mut other = Groups::<Float32Type>::new(true);
        other.merge_batch(&states, &[1, 0], 2).unwrap();
        let first = other.evaluate(EmitTo::First(1)).unwrap();
        assert!(first.len() == 1 && first.is_null(0));
        let second = other.evaluate(EmitTo::All).unwrap();
        assert_eq!(second.as_primitive::<Float32Type>().value(0), 3.0);
    }
}
