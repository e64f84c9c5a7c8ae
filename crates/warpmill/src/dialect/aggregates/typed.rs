//! SUM and AVG of types that DataFusion has none of: sums of truth values and of NULL, averages of dates, times and intervals.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::{average::avg_udaf, sum::sum_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use crate::dialect::types::{HUGEINT, TIMESTAMP, is_number, type_name};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// The functions that calls in texts are planned with.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    [sum_udaf(), avg_udaf()].into_iter().map(|plain| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Typed { plain, signature }))
    })
}

/// The function that computes a call of `func` with an argument of a type: DataFusion's, or an average of temporal values.
pub(super) fn of_type(func: &Arc<AggregateUDF>, ty: &DataType) -> Arc<AggregateUDF> {
    match func.inner().downcast_ref::<Typed>() {
        Some(typed) if !is_mean(ty) => Arc::clone(&typed.plain),
        Some(_) => mean(),
        None => Arc::clone(func),
    }
}

/// The average of temporal values.
pub(super) fn mean() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Mean { signature: Signature::any(1, Volatility::Immutable) }))
}

/// The type that averages of dates, times or intervals are computed in.
pub(super) fn mean_type(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Date32 => TIMESTAMP,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        DataType::Interval(_) => INTERVAL,
        _ => return None,
    })
}

/// Whether an average of this type is a [`Mean`].
fn is_mean(ty: &DataType) -> bool {
    mean_type(ty).is_some()
}

/// DataFusion's function for more types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed {
    plain: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Typed {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn aliases(&self) -> &[String] {
        self.plain.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let average = self.name() == "avg";
        match types {
            [DataType::Null] if average => Ok(vec![DataType::Float64]),
            [DataType::Null] => Ok(vec![HUGEINT]),
            [DataType::Boolean] if !average => Ok(vec![DataType::Int64]),
            [ty] if average && is_mean(ty) => Ok(mean_type(ty).into_iter().collect()),
            [DataType::Duration(_)] => Ok(types.to_vec()),
            [ty] if is_number(ty) || matches!(ty, DataType::Decimal256(..)) => Ok(vec![match ty {
                ty if average && !ty.is_decimal() => DataType::Float64,
                ty if ty.is_signed_integer() => DataType::Int64,
                ty if ty.is_unsigned_integer() => DataType::UInt64,
                ty if ty.is_floating() => DataType::Float64,
                ty => ty.clone(),
            }]),
            types => {
                let names: Vec<_> = types.iter().map(type_name).collect();
                plan_err!("No function matches {}({})", self.name(), names.join(", "))
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [ty] if is_mean(ty) => Ok(ty.clone()),
            types => self.plain.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_mean(args.return_type()) { MeanOf::boxed(&args) } else { self.plain.accumulator(args) }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if is_mean(args.return_type()) { mean_fields(&args) } else { self.plain.state_fields(args) }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !is_mean(args.return_type()) && self.plain.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.plain.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_mean(args.return_type()) { MeanOf::boxed(&args) } else { self.plain.create_sliding_accumulator(args) }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The average of moments, times or intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Mean {
    signature: Signature,
}

impl AggregateUDFImpl for Mean {
    fn name(&self) -> &str {
        "mean"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        MeanOf::boxed(&args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        mean_fields(&args)
    }
}

fn mean_fields(args: &StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
    let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
    if args.is_distinct {
        return Ok(vec![field("values", DataType::new_list(args.return_type().clone(), true))]);
    }
    let [months, days, rest] = ["months", "days", "rest"].map(|part| field(part, HUGEINT));
    Ok(vec![field("count", DataType::Int64), months, days, rest])
}

/// The parts of a value: only intervals use all; other types use the last.
type Parts = [i128; 3];

#[derive(Debug)]
struct MeanOf {
    ty: DataType,
    count: i64,
    sum: Parts,
    /// A value for each length, for DISTINCT.
    distinct: Option<HashMap<i128, Parts>>,
}

impl MeanOf {
    fn boxed(args: &AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (ty, distinct) = (args.return_type().clone(), args.is_distinct.then(HashMap::new));
        Ok(Box::new(Self { ty, count: 0, sum: [0; 3], distinct }))
    }

    fn each(&self, values: &ArrayRef, mut f: impl FnMut(Parts)) -> Result<()> {
        if self.ty == INTERVAL {
            let parts =
                |of: IntervalMonthDayNano| [of.months.into(), of.days.into(), i128::from(of.nanoseconds / 1000)];
            values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten().for_each(|value| f(parts(value)));
        } else {
            let values = cast(values, &DataType::Int64)?;
            values.as_primitive::<Int64Type>().iter().flatten().for_each(|value| f([0, 0, value.into()]));
        }
        Ok(())
    }

    fn add(&mut self, parts: Parts, sign: i64) {
        self.count += sign;
        self.sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part * i128::from(sign));
    }

    /// A value with these parts.
    fn scalar(&self, [months, days, micros]: Parts) -> Result<ScalarValue> {
        if self.ty == INTERVAL {
            let value = IntervalMonthDayNano::new(months as i32, days as i32, (micros as i64).saturating_mul(1000));
            return Ok(ScalarValue::IntervalMonthDayNano(Some(value)));
        }
        ScalarValue::try_from_array(&cast(&Int64Array::from(vec![micros as i64]), &self.ty)?, 0)
    }
}

const DAY: i128 = 86_400_000_000;

/// The length of a value in microseconds; equal intervals have equal lengths.
fn length([months, days, micros]: Parts) -> i128 {
    (months * 30 + days) * DAY + micros
}

/// A quotient rounded to the nearest integer; ties toward zero.
pub(in crate::dialect) fn nearest(sum: i128, count: i128) -> i128 {
    let (quotient, rest) = (sum / count, sum % count);
    if rest.abs() * 2 > count { quotient + rest.signum() } else { quotient }
}

/// The average of intervals: the remainder of months becomes days, and the remainder of days becomes time.
fn mean_interval([months, days, micros]: Parts, count: i128) -> Parts {
    let of_months = months % count * 30;
    let left = days % count + of_months % count;
    // DuckDB does not divide the remaining microseconds.
    [months / count, days / count + of_months / count, micros / count + left * DAY / count + micros % count]
}

impl Accumulator for MeanOf {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let mut all = vec![];
        self.each(&columns[0], |parts| all.push(parts))?;
        match &mut self.distinct {
            Some(seen) => all.into_iter().for_each(|parts| {
                seen.entry(length(parts)).or_insert(parts);
            }),
            None => all.into_iter().for_each(|parts| self.add(parts, 1)),
        }
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let mut all = vec![];
        self.each(&columns[0], |parts| all.push(parts))?;
        all.into_iter().for_each(|parts| self.add(parts, -1));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.distinct.is_none()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(seen) = &self.distinct {
            let seen: Vec<Parts> = seen.values().copied().collect();
            (self.count, self.sum) = (0, [0; 3]);
            seen.into_iter().for_each(|parts| self.add(parts, 1));
        }
        match i128::from(self.count) {
            0 => ScalarValue::try_from(&self.ty),
            count if self.ty == INTERVAL => self.scalar(mean_interval(self.sum, count)),
            count => self.scalar([0, 0, nearest(self.sum[2], count)]),
        }
    }

    fn size(&self) -> usize {
        let seen = self.distinct.as_ref().map_or(0, |seen| seen.capacity() * size_of::<(i128, Parts)>());
        size_of_val(self) + seen
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.distinct {
            let values = seen.values().map(|parts| self.scalar(*parts)).collect::<Result<Vec<_>>>()?;
            return Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.ty))]);
        }
        let part = |part: i128| ScalarValue::Decimal128(Some(part), 38, 0);
        let [months, days, rest] = self.sum.map(part);
        Ok(vec![ScalarValue::from(self.count), months, days, rest])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.distinct.is_some() {
            let lists = states[0].as_list::<i32>();
            return lists.iter().flatten().try_for_each(|values| self.update_batch(&[values]));
        }
        let counts = states[0].as_primitive::<Int64Type>();
        for (row, count) in counts.values().iter().enumerate() {
            self.count += count;
            for (part, sum) in self.sum.iter_mut().enumerate() {
                *sum += states[part + 1].as_primitive::<Decimal128Type>().value(row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_the_nearest_moments() {
        assert_eq!([nearest(7, 2), nearest(-7, 2), nearest(11, 3), nearest(-11, 3), nearest(10, 3)], [3, -3, 4, -4, 3]);
    }

    #[test]
    fn rests_of_months_become_days_and_hours() {
        const HOUR: i128 = 3_600_000_000;
        assert_eq!(mean_interval([13, 1, 3 * HOUR], 3), [4, 10, 9 * HOUR]);
        assert_eq!(mean_interval([-12, 10, 0], 2), [-6, 5, 0]);
        assert_eq!(mean_interval([0, 0, 5], 3), [0, 0, 3]);
    }
}
