//! Quantiles of lists: the element at a fraction of the sorted list, or an interpolation between two elements.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Decimal128Type, FieldRef, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::Expr;

use super::own::{Call, Own, Typed, number_like};
use super::ranks::{Order, comparator, element, list_of, lists, valid};
use crate::dialect::lists::Lists;
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{HUGEINT, TIMESTAMP, digits, is_decimal, is_float};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("list_quantile_disc", disc_types, |call| quantiles(call, Kind::Element)),
        Own::new("list_quantile_cont", cont_types, |call| quantiles(call, Kind::Between)),
        Own::new("list_median", median_types, median),
        Own::new("list_mad", mad_types, mad),
    ]
}

/// Refuses a non-constant fraction: quantiles of rows are computed from lists, and DuckDB requires a constant.
pub(in crate::dialect) fn check_fraction(call: &str, at: &Expr) -> Result<()> {
    match at.any_column_refs() || at.is_volatile() {
        true => {
            let name = call.trim_start_matches("list_");
            plan_err!("The \"quantile\" argument in function \"{name}\" must be a constant expression")
        }
        false => Ok(()),
    }
}

/// Types of a list and of a fraction, or of several fractions with a list as the result.
fn with_fraction(held: DataType, at: &DataType, to: DataType) -> Option<Typed> {
    match at {
        DataType::List(field) if number_like(field.data_type()) => {
            Some((vec![list_of(&held), list_of(&DataType::Float64)], list_of(&to)))
        }
        at => number_like(at).then(|| (vec![list_of(&held), DataType::Float64], to)),
    }
}

fn disc_types(types: &[DataType]) -> Option<Typed> {
    let [_, at] = types else { return None };
    let element = element(types)?;
    with_fraction(element.clone(), at, element)
}

fn cont_types(types: &[DataType]) -> Option<Typed> {
    let [_, at] = types else { return None };
    let (held, to) = match element(types)? {
        DataType::Date32 => (TIMESTAMP, TIMESTAMP),
        DataType::Timestamp(_, zone) => {
            let ty = DataType::Timestamp(TimeUnit::Microsecond, zone);
            (ty.clone(), ty)
        }
        DataType::Interval(_) => return None,
        ty => between_types(&ty)?,
    };
    with_fraction(held, at, to)
}

/// The type for computing with elements, and the type of interpolated values.
fn between_types(element: &DataType) -> Option<(DataType, DataType)> {
    let same = |ty: DataType| Some((ty.clone(), ty));
    match element {
        DataType::Date32 => same(TIMESTAMP),
        DataType::Time32(_) | DataType::Time64(_) => same(DataType::Time64(TimeUnit::Microsecond)),
        DataType::Timestamp(..) | DataType::Interval(_) | DataType::Float32 => same(element.clone()),
        ty if *ty == HUGEINT => Some((HUGEINT, DataType::Float64)),
        ty if is_decimal(ty) => same(ty.clone()),
        ty if number_like(ty) => same(DataType::Float64),
        _ => None,
    }
}

/// The median of values without interpolation is one of them.
fn median_types(types: &[DataType]) -> Option<Typed> {
    let element = element(types).filter(|_| types.len() == 1)?;
    let (held, to) = between_types(&element).unwrap_or((element.clone(), element));
    Some((vec![list_of(&held)], to))
}

fn mad_types(types: &[DataType]) -> Option<Typed> {
    let (held, to) = between_types(&element(types).filter(|_| types.len() == 1)?)?;
    match held {
        DataType::Interval(_) => None,
        DataType::Timestamp(_, zone) => {
            Some((vec![list_of(&DataType::Timestamp(TimeUnit::Microsecond, zone))], INTERVAL))
        }
        DataType::Time64(_) => Some((vec![list_of(&held)], INTERVAL)),
        held => Some((vec![list_of(&held)], to)),
    }
}

/// A quantile's fraction; negative ones count from the end.
#[derive(Debug, Clone, Copy)]
struct Fraction(f64);

impl Fraction {
    fn of(at: Option<f64>) -> Result<Self> {
        match at {
            None => exec_err!("The \"quantile\" argument must not be NULL"),
            Some(at) if (-1.0..=1.0).contains(&at) => Ok(Self(at)),
            Some(_) => exec_err!("QUANTILE can only take parameters in the range [-1, 1]"),
        }
    }

    fn counts_from_end(self) -> bool {
        self.0 < 0.0
    }

    /// The rank of the element, from 0.
    fn element(self, count: usize) -> usize {
        let (all, at) = (count as f64, self.0.abs());
        let rank = (all - (all - at * all).floor()).max(1.0) as usize - 1;
        if self.counts_from_end() { count - 1 - rank } else { rank }
    }

    /// The ranks of the two neighbouring elements, and the relative position between them.
    fn between(self, count: usize) -> (usize, usize, f64) {
        let place = (count - 1) as f64 * self.0.abs();
        let (low, high, by) = (place.floor() as usize, place.ceil() as usize, place - place.floor());
        if self.counts_from_end() { (count - 1 - low, count - 1 - high, by) } else { (low, high, by) }
    }
}

/// Elements of some lists, of which few ranks are needed.
struct Ranks {
    lists: Lists,
    order: Order,
    /// Sort keys of the elements, if they have any.
    keys: Option<Vec<i64>>,
}

/// The elements of a list by index.
enum Ranked<'r> {
    Keyed(Vec<(i64, usize)>),
    Compared(Vec<usize>, &'r Order),
}

impl Ranks {
    fn of(call: &Call) -> Result<Self> {
        let lists = lists(call);
        let (order, keys) = (comparator(&lists)?, order_keys(&lists.elements)?);
        Ok(Self { lists, order, keys })
    }

    /// The elements of a list; `None` for NULL.
    fn row(&self, range: &Option<Range<usize>>) -> Option<Ranked<'_>> {
        let positions = valid(&self.lists, range.clone()?);
        if positions.is_empty() {
            return None;
        }
        Some(match &self.keys {
            Some(keys) => Ranked::Keyed(positions.into_iter().map(|at| (keys[at], at)).collect()),
            None => Ranked::Compared(positions, &self.order),
        })
    }
}

impl Ranked<'_> {
    fn len(&self) -> usize {
        match self {
            Ranked::Keyed(elements) => elements.len(),
            Ranked::Compared(positions, _) => positions.len(),
        }
    }

    fn at(&mut self, rank: usize) -> usize {
        match self {
            Ranked::Keyed(elements) => elements.select_nth_unstable(rank).1.1,
            Ranked::Compared(positions, order) => {
                *positions.select_nth_unstable_by(rank, |a, b| order(*a, *b).then(a.cmp(b))).1
            }
        }
    }

    fn place(&mut self, kind: Kind, at: Fraction) -> Place {
        let count = self.len();
        match kind {
            Kind::Element => {
                let element = self.at(at.element(count));
                Place { low: element, high: element, by: 0.0 }
            }
            Kind::Between => {
                let (low, high, by) = at.between(count);
                Place { low: self.at(low), high: self.at(high), by }
            }
        }
    }
}

/// Numbers, dates and timestamps as integers in the same order.
fn order_keys(elements: &ArrayRef) -> Result<Option<Vec<i64>>> {
    let ty = elements.data_type();
    if is_float(ty) {
        let floats = strict_cast(elements, &DataType::Float64)?;
        return Ok(Some(floats.as_primitive::<Float64Type>().values().iter().map(|x| key_of_float(*x)).collect()));
    }
    let is_small =
        ty.is_signed_integer() || matches!(ty, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_));
    if !is_small {
        return Ok(None);
    }
    let wide = if *ty == DataType::Date32 { cast(elements, &DataType::Int32)? } else { Arc::clone(elements) };
    Ok(Some(cast(&wide, &DataType::Int64)?.as_primitive::<Int64Type>().values().to_vec()))
}

/// Sort key of a float: one zero, and one NaN, which is the greatest.
fn key_of_float(x: f64) -> i64 {
    let x = if x.is_nan() { f64::NAN.copysign(1.0) } else { x + 0.0 };
    let bits = x.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// A position between two elements, or at one of them.
#[derive(Debug, Clone, Copy)]
struct Place {
    low: usize,
    high: usize,
    /// How far it is from the first to the second.
    by: f64,
}

/// The kind of quantile: discrete (the lower element), or continuous (interpolated).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Element,
    Between,
}

impl Kind {
    /// The values at some places of `elements`.
    fn values(self, elements: &ArrayRef, places: &[Option<Place>], to: &DataType) -> Result<ArrayRef> {
        match self {
            Kind::Element => {
                let positions = places.iter().map(|place| place.map(|place| place.low as u64));
                Ok(take(elements, &positions.collect::<UInt64Array>(), None)?)
            }
            Kind::Between if matches!(to, DataType::Interval(_)) => Ok(Arc::new(intervals(elements, places))),
            Kind::Between => Measure::of(elements)?.values(places, to),
        }
    }
}

/// The quantiles at the fractions of each list.
fn quantiles(call: &Call, kind: Kind) -> Result<ArrayRef> {
    let ranks = Ranks::of(call)?;
    let several = matches!(call.args[1].data_type(), DataType::List(_));
    let (mut places, mut lengths, mut there) = (vec![], vec![], vec![]);
    for (row, range) in ranks.lists.rows.iter().enumerate() {
        let fractions = fractions(&call.args[1], row)?;
        let ranked = ranks.row(range);
        there.push(ranked.is_some());
        lengths.push(if ranked.is_some() { fractions.len() } else { 0 });
        match ranked {
            Some(mut ranked) => places.extend(fractions.iter().map(|at| Some(ranked.place(kind, *at)))),
            None if several => {}
            None => places.push(None),
        }
    }
    let elements = &ranks.lists.elements;
    match &call.to {
        DataType::List(field) if several => {
            let values = kind.values(elements, &places, field.data_type())?;
            let there = Some(NullBuffer::from(there));
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), OffsetBuffer::from_lengths(lengths), values, there)?))
        }
        to => kind.values(elements, &places, to),
    }
}

/// The fractions in a row of an argument, or the only one.
fn fractions(at: &ArrayRef, row: usize) -> Result<Vec<Fraction>> {
    let numbers = match at.data_type() {
        DataType::List(_) if at.is_null(row) => return Fraction::of(None).map(|_| vec![]),
        DataType::List(_) => at.as_list::<i32>().value(row),
        _ => at.slice(row, 1),
    };
    let numbers = numbers.as_primitive::<Float64Type>();
    let fractions = numbers.iter().map(Fraction::of).collect::<Result<Vec<_>>>()?;
    if fractions.iter().any(|at| at.0 < 0.0) && fractions.iter().any(|at| at.0 > 0.0) {
        return exec_err!("QUANTILE parameters must have consistent signs");
    }
    Ok(fractions)
}

/// Quantiles of values that are sorted elsewhere and found by their ranks.
pub(in crate::dialect) struct Quantiles<'t> {
    kind: Kind,
    /// One, unless the result is a list.
    fractions: Vec<Fraction>,
    /// The list, if the result is one.
    list: Option<&'t FieldRef>,
    to: &'t DataType,
}

impl<'t> Quantiles<'t> {
    /// Whether a function of lists computes quantiles.
    pub(in crate::dialect) fn is_computed_by(list: &str) -> bool {
        matches!(list, "list_median" | "list_quantile_cont" | "list_quantile_disc")
    }

    /// The quantiles that a function of lists computes at the fractions `at`, or the median, as a value of type `to`.
    ///
    /// # Errors
    /// Invalid fractions.
    pub(in crate::dialect) fn new(list: &str, at: Option<&ScalarValue>, to: &'t DataType) -> Result<Self> {
        let fractions = match at {
            Some(at) => fractions(&at.to_array()?, 0)?,
            None => vec![Fraction(0.5)],
        };
        let (list_field, element) = match (to, at) {
            (DataType::List(field), Some(ScalarValue::List(_))) => (Some(field), field.data_type()),
            _ => (None, to),
        };
        let is_disc = list == "list_quantile_disc" || list == "list_median" && between_types(element).is_none();
        let kind = if is_disc { Kind::Element } else { Kind::Between };
        Ok(Self { kind, fractions, list: list_field, to: element })
    }

    fn places(&self, count: usize) -> impl Iterator<Item = (usize, usize, f64)> {
        self.fractions.iter().map(move |at| match self.kind {
            Kind::Element => (at.element(count), at.element(count), 0.0),
            Kind::Between => at.between(count),
        })
    }

    /// The ranks, from 0, of the values that are needed of `count` ones, at least one.
    pub(in crate::dialect) fn ranks(&self, count: usize) -> Vec<usize> {
        self.places(count).flat_map(|(low, high, _)| [low, high]).collect()
    }

    /// The quantiles of `count` values, of which `elements` have the needed ranks.
    pub(in crate::dialect) fn value(&self, elements: &ArrayRef, count: usize) -> Result<ScalarValue> {
        let place = |(at, (_, _, by))| Some(Place { low: 2 * at, high: 2 * at + 1, by });
        let places: Vec<_> = self.places(count).enumerate().map(place).collect();
        let values = self.kind.values(elements, &places, self.to)?;
        match self.list {
            Some(field) => {
                let lengths = OffsetBuffer::from_lengths([values.len()]);
                Ok(ScalarValue::List(Arc::new(ListArray::try_new(Arc::clone(field), lengths, values, None)?)))
            }
            None => ScalarValue::try_from_array(&values, 0),
        }
    }
}

fn median(call: &Call) -> Result<ArrayRef> {
    let ranks = Ranks::of(call)?;
    let elements = &ranks.lists.elements;
    let kind = if between_types(elements.data_type()).is_some() { Kind::Between } else { Kind::Element };
    let place = |range| ranks.row(range).map(|mut ranked| ranked.place(kind, Fraction(0.5)));
    let places: Vec<_> = ranks.lists.rows.iter().map(place).collect();
    kind.values(elements, &places, &call.to)
}

/// The median of the absolute deviations from the median.
fn mad(call: &Call) -> Result<ArrayRef> {
    let lists = lists(call);
    let rows = lists.rows.iter().map(|range| {
        let positions = valid(&lists, range.clone()?);
        (!positions.is_empty()).then_some(positions)
    });
    match Measure::of(&lists.elements)? {
        Measure::Floats(values) => {
            let of = |positions: Vec<usize>| {
                let numbers = positions.into_iter().map(|at| values.value(at)).collect();
                apart(numbers, order_of_floats, |low, high| mixed(low, high, 0.5), |x, middle| (x - middle).abs())
            };
            let found: Float64Array = rows.map(|positions| positions.map(of)).collect();
            strict_cast(&(Arc::new(found) as ArrayRef), &call.to)
        }
        Measure::Whole { values, rounding } => {
            let of = |positions: Vec<usize>| {
                let numbers = positions.into_iter().map(|at| values[at]).collect();
                apart(numbers, i128::cmp, |low, high| rounding.mixed(low, high, 0.5), |x, middle| (x - middle).abs())
            };
            whole_values(rows.map(|positions| positions.map(of)).collect(), &call.to)
        }
    }
}

/// The median of the distances of some numbers from their median.
fn apart<T: Copy>(
    mut numbers: Vec<T>,
    order: fn(&T, &T) -> Ordering,
    mixed: impl Fn(T, T) -> T,
    distance: impl Fn(T, T) -> T,
) -> T {
    let middle = middle_of(&mut numbers, order, &mixed);
    numbers.iter_mut().for_each(|x| *x = distance(*x, middle));
    middle_of(&mut numbers, order, mixed)
}

/// The numeric types for interpolation.
enum Measure {
    Floats(Float64Array),
    Whole { values: Vec<i128>, rounding: Rounding },
}

/// Rounding of interpolated integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    /// Decimals of up to 64 bits: towards zero.
    TowardsZero,
    /// Wider decimals: towards the first.
    TowardsFirst,
    /// Timestamps: half away from zero.
    Nearest,
}

impl Measure {
    fn of(elements: &ArrayRef) -> Result<Self> {
        let ty = elements.data_type();
        Ok(match ty {
            ty if *ty == HUGEINT => Measure::Floats(exact_floats(elements)?),
            ty if is_decimal(ty) => {
                let (width, scale) = digits(ty).unwrap_or((38, 0));
                let values = strict_cast(elements, &DataType::Decimal128(width, scale))?;
                let values = values.as_primitive::<Decimal128Type>().values().to_vec();
                let rounding = if width > 18 { Rounding::TowardsFirst } else { Rounding::TowardsZero };
                Measure::Whole { values, rounding }
            }
            DataType::Timestamp(..) | DataType::Time64(_) => {
                let values = cast(elements, &DataType::Int64)?;
                let values = values.as_primitive::<Int64Type>().values().iter().map(|value| i128::from(*value));
                Measure::Whole { values: values.collect(), rounding: Rounding::Nearest }
            }
            _ => Measure::Floats(strict_cast(elements, &DataType::Float64)?.as_primitive::<Float64Type>().clone()),
        })
    }

    /// The values at some places.
    fn values(&self, places: &[Option<Place>], to: &DataType) -> Result<ArrayRef> {
        match self {
            Measure::Floats(values) => {
                let value = |place: Place| mixed(values.value(place.low), values.value(place.high), place.by);
                let found: Float64Array = places.iter().map(|place| place.map(value)).collect();
                strict_cast(&(Arc::new(found) as ArrayRef), to)
            }
            Measure::Whole { values, rounding } => {
                let value = |place: Place| rounding.mixed(values[place.low], values[place.high], place.by);
                whole_values(places.iter().map(|place| place.map(value)).collect(), to)
            }
        }
    }
}

/// The middle number, or `mixed` of the two middle ones.
fn middle_of<T: Copy>(numbers: &mut [T], order: fn(&T, &T) -> Ordering, mixed: impl Fn(T, T) -> T) -> T {
    let (low, high) = ((numbers.len() - 1) / 2, numbers.len() / 2);
    let high = *numbers.select_nth_unstable_by(high, order).1;
    if numbers.len() % 2 == 1 { high } else { mixed(*numbers.select_nth_unstable_by(low, order).1, high) }
}

/// The order of floats, in which NaN is the greatest.
fn order_of_floats(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn mixed(low: f64, high: f64, by: f64) -> f64 {
    if by == 0.0 { low } else { low * (1.0 - by) + high * by }
}

impl Rounding {
    fn mixed(self, low: i128, high: i128, by: f64) -> i128 {
        if by == 0.0 || low == high {
            return low;
        }
        let step = (high - low) as f64 * by;
        match self {
            Rounding::TowardsZero => mixed(low as f64, high as f64, by) as i128,
            Rounding::TowardsFirst => low + step as i128,
            Rounding::Nearest => {
                let (whole, rest) = (low + step.floor() as i128, step - step.floor());
                whole + i128::from(rest > 0.5 || rest == 0.5 && whole >= 0)
            }
        }
    }
}

/// Integers as floats. They may be decimals of scale 0, whose quantiles DuckDB computes exactly.
fn exact_floats(elements: &ArrayRef) -> Result<Float64Array> {
    const EXACT: u128 = 1 << 53;
    let values = elements.as_primitive::<Decimal128Type>();
    if values.iter().flatten().any(|value| value.unsigned_abs() > EXACT) {
        return not_impl_err!("quantiles of whole numbers of 38 digits beyond 2^53");
    }
    Ok(values.unary(|value| value as f64))
}

const DAY: i128 = 86_400_000_000;

/// The microseconds of an interval, with months of 30 days.
fn micros(of: IntervalMonthDayNano) -> i128 {
    (i128::from(of.months) * 30 + i128::from(of.days)) * DAY + i128::from(of.nanoseconds / 1000)
}

/// The intervals at some positions; an element keeps its form.
fn intervals(elements: &ArrayRef, places: &[Option<Place>]) -> IntervalMonthDayNanoArray {
    let elements = elements.as_primitive::<IntervalMonthDayNanoType>();
    let value = |Place { low, high, by }: Place| {
        let (low, high) = (elements.value(low), elements.value(high));
        if by == 0.0 { low } else { interval(Rounding::Nearest.mixed(micros(low), micros(high), by)) }
    };
    places.iter().map(|place| place.map(value)).collect()
}

/// An interval of days and microseconds.
fn interval(micros: i128) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(0, (micros / DAY) as i32, (micros % DAY) as i64 * 1000)
}

/// Integers as values of type `to`.
fn whole_values(values: Vec<Option<i128>>, to: &DataType) -> Result<ArrayRef> {
    if let DataType::Interval(_) = to {
        let found = values.into_iter().map(|value| value.map(interval));
        return Ok(Arc::new(found.collect::<IntervalMonthDayNanoArray>()));
    }
    if let Some((width, scale)) = digits(to).filter(|_| is_decimal(to)) {
        let found: Decimal128Array = values.into_iter().collect();
        return strict_cast(&(Arc::new(found.with_precision_and_scale(width, scale)?) as ArrayRef), to);
    }
    let found: Int64Array = values.into_iter().map(|value| value.map(|value| value as i64)).collect();
    Ok(cast(&found, to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_below_zero_count_from_the_end() {
        assert_eq!([0.3, -0.3].map(|at| Fraction(at).element(10)), [2, 7]);
        assert_eq!([0.3, -0.3].map(|at| Fraction(at).element(11)), [3, 7]);
        assert_eq!((Fraction(0.0).element(5), Fraction(1.0).element(5)), (0, 4));
        assert_eq!(Fraction(-0.25).between(5), (3, 3, 0.0));
        assert!(Fraction::of(None).is_err() && Fraction::of(Some(1.1)).is_err());
    }

    #[test]
    fn what_lies_between_is_rounded_as_its_type_is() {
        assert_eq!(Rounding::TowardsZero.mixed(-105, 2, 0.5), -51);
        assert_eq!(Rounding::TowardsFirst.mixed(-4, -1, 0.5), -3);
        let wide = 9_999_999_999_999_999_999_999_999_997;
        assert_eq!(Rounding::TowardsFirst.mixed(wide, wide + 2, 0.5), wide + 1);
        assert_eq!(Rounding::Nearest.mixed(1, 4, 0.5), 3);
        assert_eq!(Rounding::Nearest.mixed(-4, -1, 0.5), -3);
    }

    #[test]
    fn keys_have_the_order_of_floats() {
        let floats = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 1e-300, 3.0, f64::INFINITY, f64::NAN];
        assert!(floats.windows(2).all(|pair| key_of_float(pair[0]) < key_of_float(pair[1])));
        assert_eq!(key_of_float(-0.0), key_of_float(0.0));
        assert_eq!(key_of_float(-f64::NAN), key_of_float(f64::NAN));
    }

    #[test]
    fn extremes_have_a_middle() {
        assert_eq!(middle_of(&mut [-1e308, 1e308], order_of_floats, |low, high| mixed(low, high, 0.5)), 0.0);
        let nan = middle_of(&mut [f64::NAN, 1.0, 2.0], order_of_floats, |low, high| mixed(low, high, 0.5));
        assert_eq!(nan, 2.0);
    }
}
