//! Histograms with given bins: `histogram(x, bins)`, which counts values up to each bound, and `histogram_exact(x, bins)`.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, ListArray, MapArray, StructArray, UInt32Array, UInt64Array, make_comparator,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, concat, take, unary};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Signature, Volatility,
};

use crate::dialect::casts;
use crate::dialect::library::{map_type, other_bin};
use crate::dialect::lists::keys;
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{HUGEINT, is_decimal, is_float, type_name};

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    [("histogram", false), ("histogram_exact", true)].into_iter().map(|(name, exact)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Histogram { name, exact, signature }))
    })
}

/// Whether a function of this name is a histogram.
pub(super) fn is_histogram(name: &str) -> bool {
    matches!(name, "histogram" | "histogram_exact")
}

/// The arguments of a histogram: converts bounds to the type of the values.
///
/// # Errors
/// The bounds are not a list, or NULL.
pub(super) fn arguments(function: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let types = args.iter().map(|arg| arg.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let to = coerced(function, &types)?;
    args.into_iter().zip(to).map(|(arg, to)| casts::bind(arg, &to, false, schema)).collect()
}

/// The types that a call is computed with.
fn coerced(function: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [value, DataType::List(bound) | DataType::LargeList(bound) | DataType::FixedSizeList(bound, _)]
            if !value.is_null() =>
        {
            let (key, bound) = (key_type(value), bound.data_type());
            // Casts of lists do not round.
            let rounded = key.is_integer() && is_fractional(bound);
            let bound = if rounded { bound.clone() } else { key.clone() };
            Ok(vec![key, DataType::new_list(bound, true)])
        }
        [_, DataType::Null] => plan_err!("Histogram bin list cannot be NULL"),
        types => {
            let names: Vec<_> = types.iter().map(type_name).collect();
            plan_err!("No function matches {function}({})", names.join(", "))
        }
    }
}

fn is_fractional(ty: &DataType) -> bool {
    is_float(ty) || is_decimal(ty) && *ty != HUGEINT
}

/// Bounds as values of a type; integers are rounded to the nearest.
fn as_keys(bounds: &ArrayRef, key: &DataType) -> Result<ArrayRef> {
    if !key.is_integer() {
        return strict_cast(bounds, key);
    }
    let rounded = match bounds.data_type() {
        ty if is_float(ty) => {
            let floats = strict_cast(bounds, &DataType::Float64)?;
            let rounded: Float64Array = unary(floats.as_primitive::<Float64Type>(), f64::round_ties_even);
            Arc::new(rounded) as ArrayRef
        }
        ty if is_decimal(ty) => strict_cast(bounds, &HUGEINT)?,
        _ => Arc::clone(bounds),
    };
    strict_cast(&rounded, key)
}

/// The type of the bounds for values of a type.
fn key_type(value: &DataType) -> DataType {
    match value {
        DataType::Dictionary(_, value) => key_type(value),
        value if is_decimal(value) && *value != HUGEINT => DataType::Float64,
        value => value.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Histogram {
    name: &'static str,
    /// Whether bins have the values of their bounds only.
    exact: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Histogram {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerced(self.name, types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(map_type(&coerced(self.name, types)?[0]))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("{}: DISTINCT is not supported", self.name);
        }
        Ok(Box::new(Counts { exact: self.exact, ty: args.return_type().clone(), bins: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, element| {
            let list = DataType::new_list(element, true);
            Arc::new(Field::new(format!("{}[{part}]", args.name), list, true))
        };
        Ok(vec![field("bounds", key_of(args.return_type())?), field("counts", DataType::UInt64)])
    }
}

/// The type of the keys of a map.
fn key_of(map: &DataType) -> Result<DataType> {
    match map {
        DataType::Map(entries, _) if let DataType::Struct(fields) = entries.data_type() => {
            Ok(fields[0].data_type().clone())
        }
        other => exec_err!("a histogram of type {other}, which is no map"),
    }
}

/// Distinct bounds in order, and the number of values of each bin; the last number counts the values in no bin.
#[derive(Debug)]
struct Bins {
    bounds: ArrayRef,
    counts: Vec<u64>,
}

impl Bins {
    fn of(bounds: &ArrayRef, key: &DataType) -> Result<Self> {
        if bounds.logical_null_count() > 0 {
            return exec_err!("Histogram bin entry cannot be NULL");
        }
        let bounds = as_keys(bounds, key)?;
        let order = order_of(&bounds, &bounds)?;
        let mut at: Vec<u32> = (0..bounds.len() as u32).collect();
        at.sort_by(|a, b| order(*a as usize, *b as usize));
        at.dedup_by(|a, b| order(*a as usize, *b as usize).is_eq());
        let counts = vec![0; at.len() + 1];
        Ok(Self { bounds: take(&bounds, &UInt32Array::from(at), None)?, counts })
    }

    /// The bin of each row with a value.
    fn each(&self, values: &ArrayRef, exact: bool) -> Result<Vec<usize>> {
        let order = order_of(values, &self.bounds)?;
        let places: Vec<usize> = (0..self.bounds.len()).collect();
        let bin = |row: usize| {
            let at = places.partition_point(|place| order(row, *place) == Ordering::Greater);
            let is_there = !exact || at < places.len() && order(row, at).is_eq();
            if is_there { at } else { places.len() }
        };
        Ok((0..values.len()).filter(|row| values.is_valid(*row)).map(bin).collect())
    }

    fn has_bounds(&self, bounds: &ArrayRef) -> Result<bool> {
        let order = order_of(bounds, &self.bounds)?;
        Ok(bounds.len() == self.bounds.len() && (0..bounds.len()).all(|at| order(at, at).is_eq()))
    }
}

type Order = Box<dyn Fn(usize, usize) -> Ordering + Send + Sync>;

/// A comparator of two columns; NULLs within values are last.
fn order_of(left: &ArrayRef, right: &ArrayRef) -> Result<Order> {
    let options = SortOptions { descending: false, nulls_first: false };
    Ok(make_comparator(&keys(left), &keys(right), options)?)
}

#[derive(Debug)]
struct Counts {
    exact: bool,
    ty: DataType,
    /// The bins of the first row that has a value.
    bins: Option<Bins>,
}

impl Accumulator for Counts {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (values, lists) = (&columns[0], columns[1].as_list::<i32>());
        let Some(first) = (0..values.len()).find(|row| values.is_valid(*row)) else { return Ok(()) };
        if self.bins.is_none() {
            if lists.is_null(first) {
                return exec_err!("Histogram bin list cannot be NULL");
            }
            self.bins = Some(Bins::of(&lists.value(first), values.data_type())?);
        }
        if let Some(bins) = &mut self.bins {
            for bin in bins.each(values, self.exact)? {
                bins.counts[bin] += 1;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let Some(bins) = &mut self.bins else { return Ok(()) };
        for bin in bins.each(&columns[0], self.exact)? {
            bins.counts[bin] = bins.counts[bin].saturating_sub(1);
        }
        if bins.counts.iter().all(|count| *count == 0) {
            self.bins = None;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (DataType::Map(entries, sorted), Some(bins)) = (&self.ty, &self.bins) else {
            return ScalarValue::try_new_null(&self.ty);
        };
        let DataType::Struct(fields) = entries.data_type() else { return exec_err!("entries are structs") };
        let (mut bounds, mut counts) = (Arc::clone(&bins.bounds), bins.counts.clone());
        let others = counts.pop().filter(|count| *count > 0);
        if let (Some(count), Some(other)) = (others, other_bin(fields[0].data_type())) {
            if fields[0].data_type().is_temporal() {
                return not_impl_err!("histograms with other values than bins of {}", type_name(fields[0].data_type()));
            }
            bounds = concat(&[&bounds, &other.to_array()?])?;
            counts.push(count);
        }
        let offsets = OffsetBuffer::from_lengths([counts.len()]);
        let values = StructArray::try_new(fields.clone(), vec![bounds, Arc::new(UInt64Array::from(counts))], None)?;
        Ok(ScalarValue::Map(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, values, None, *sorted)?)))
    }

    fn size(&self) -> usize {
        let bins = self.bins.as_ref();
        size_of_val(self) + bins.map_or(0, |bins| bins.bounds.get_array_memory_size() + bins.counts.capacity() * 8)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let key = key_of(&self.ty)?;
        let Some(bins) = &self.bins else {
            return [key, DataType::UInt64]
                .map(|element| ScalarValue::try_new_null(&DataType::new_list(element, true)))
                .into_iter()
                .collect();
        };
        let counts: ArrayRef = Arc::new(UInt64Array::from(bins.counts.clone()));
        let list = |values: &ArrayRef| {
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([values.len()]);
            let list = ListArray::try_new(field, offsets, Arc::clone(values), None)?;
            Ok::<_, DataFusionError>(ScalarValue::List(Arc::new(list)))
        };
        [&bins.bounds, &counts].into_iter().map(list).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (bounds, counts) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for row in (0..bounds.len()).filter(|row| bounds.is_valid(*row)) {
            let (bounds, counts) = (bounds.value(row), counts.value(row));
            let counts = counts.as_primitive::<UInt64Type>().values();
            match &mut self.bins {
                None => self.bins = Some(Bins { bounds, counts: counts.to_vec() }),
                Some(bins) if bins.has_bounds(&bounds)? => {
                    bins.counts.iter_mut().zip(counts).for_each(|(own, other)| *own += other);
                }
                Some(_) => {
                    return not_impl_err!(
                        "Histogram - cannot combine histograms with different bin boundaries. \
                         Bin boundaries must be the same for all histograms within the same group"
                    );
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;

    fn counts(exact: bool, key: &DataType) -> Counts {
        Counts { exact, ty: map_type(key), bins: None }
    }

    /// Lists of the same bounds in each of `rows` rows.
    fn bounds(of: &ArrayRef, rows: usize) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(of.data_type().clone(), true));
        let all = concat(&vec![of.as_ref(); rows]).unwrap();
        let offsets = OffsetBuffer::from_lengths(vec![of.len(); rows]);
        Arc::new(ListArray::new(field, offsets, all, None))
    }

    fn found(of: &mut Counts) -> (ArrayRef, Vec<u64>) {
        let ScalarValue::Map(map) = of.evaluate().unwrap() else { panic!("a map") };
        let counts = map.values().as_primitive::<UInt64Type>().values().to_vec();
        (Arc::clone(map.keys()), counts)
    }

    fn numbers(of: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(of.to_vec()))
    }

    #[test]
    fn values_are_counted_up_to_bounds_or_at_them() {
        let values = numbers(&[Some(0), Some(10), None, Some(11), Some(35)]);
        let lists = bounds(&numbers(&[Some(20), Some(10), Some(20)]), values.len());
        let (mut ranges, mut exact) = (counts(false, &DataType::Int64), counts(true, &DataType::Int64));
        ranges.update_batch(&[Arc::clone(&values), Arc::clone(&lists)]).unwrap();
        exact.update_batch(&[values, lists]).unwrap();
        let keys = numbers(&[Some(10), Some(20), Some(i64::MAX)]);
        assert_eq!(found(&mut ranges), (Arc::clone(&keys), vec![2, 1, 1]));
        assert_eq!(found(&mut exact), (keys, vec![1, 0, 3]));
    }

    #[test]
    fn bounds_are_rounded() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![10.5, 20.5, 19.8]));
        let bins = Bins::of(&floats, &DataType::Int64).unwrap();
        assert_eq!(&bins.bounds, &numbers(&[Some(10), Some(20)]));
        assert!(Bins::of(&numbers(&[Some(1), None]), &DataType::Int64).is_err());
        assert!(Bins::of(&numbers(&[Some(1000)]), &DataType::Int8).is_err());
    }

    #[test]
    fn parts_are_merged_and_rows_taken_away() {
        let of = |value: f64| -> [ArrayRef; 2] {
            let limits: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN]));
            [Arc::new(Float64Array::from(vec![value])), bounds(&limits, 1)]
        };
        let mut whole = counts(false, &DataType::Float64);
        assert!(whole.evaluate().unwrap().is_null());
        for value in [-0.0, f64::INFINITY, f64::NAN] {
            let mut part = counts(false, &DataType::Float64);
            part.update_batch(&of(value)).unwrap();
            let state: Vec<_> = part.state().unwrap().iter().map(|part| part.to_array().unwrap()).collect();
            whole.merge_batch(&state).unwrap();
        }
        assert_eq!(found(&mut whole).1, [1, 2]);
        whole.retract_batch(&of(1.0)).unwrap();
        assert_eq!(found(&mut whole).1, [1, 1]);
        let mut other = counts(false, &DataType::Float64);
        let lists = bounds(&(Arc::new(Float64Array::from(vec![7.0])) as ArrayRef), 1);
        other.update_batch(&[Arc::new(Float64Array::from(vec![1.0])), lists]).unwrap();
        let state: Vec<_> = other.state().unwrap().iter().map(|part| part.to_array().unwrap()).collect();
        assert!(whole.merge_batch(&state).is_err());
    }
}
