//! Aggregates of rows: their argument types, and aggregates that differ from DataFusion's.

pub(super) mod frames;
mod histograms;
mod kahan;
mod pairs;
mod typed;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, i256};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Case, Expr, ExprSchemable, Signature, Volatility,
};

pub(super) use typed::nearest;

use self::frames::moving;
use super::extremes;
use super::operators::convert;
use super::types::{HUGEINT, MAX_WIDTH, digits, is_text, type_name};

/// The functions that replace DataFusion's with the same names.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    let of_rows = pairs::functions().chain(kahan::functions()).chain(histograms::functions());
    of_rows.chain(frames::functions()).collect()
}

/// The function for planning calls in texts, if it accepts more types than the one that computes them: see [`checked`].
pub(super) fn of_texts(name: &str) -> Option<Arc<AggregateUDF>> {
    static FUNCTIONS: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| typed::functions().collect());
    FUNCTIONS.iter().find(|function| function.name() == name).cloned()
}

/// Converts an aggregate's arguments to DuckDB's types: sums of integers are HUGEINT, sums of decimals have the full width, and averages are DOUBLE
/// (of exact sums, in programs).
///
/// # Errors
/// Argument types for which DuckDB has no such function.
pub(super) fn arguments(function: &str, mut args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    check(function, &args, schema)?;
    if let Some(args) = frames::arguments(function, &args, schema)? {
        return Ok(args);
    }
    if histograms::is_histogram(function) {
        return histograms::arguments(function, args, schema);
    }
    if pairs::is_of_pairs(function) {
        return args.into_iter().map(|arg| convert(arg, &DataType::Float64, schema)).collect();
    }
    let [only] = args.as_mut_slice() else { return Ok(args) };
    let ty = only.get_type(schema)?;
    let to = match (function, &ty) {
        ("sum", DataType::Boolean) => {
            *only = convert(std::mem::take(only), &DataType::Int32, schema)?;
            Some(HUGEINT)
        }
        ("sum", ty) if ty.is_integer() || ty.is_null() => Some(HUGEINT),
        ("sum", ty) => digits(ty).map(|(_, scale)| DataType::Decimal128(MAX_WIDTH, scale)),
        ("avg", DataType::Null) => Some(DataType::Float64),
        ("avg", ty) => digits(ty).map(|_| DataType::Float64).or_else(|| typed::mean_type(ty)),
        ("fsum" | "favg", _) => Some(DataType::Float64),
        _ => None,
    };
    if let Some(to) = to {
        *only = convert(std::mem::take(only), &to, schema)?;
    }
    Ok(args)
}

/// Refuses argument types that DataFusion supports and DuckDB does not.
fn check(function: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let none = || {
        let types = args.iter().map(|arg| Ok(type_name(&arg.get_type(schema)?))).collect::<Result<Vec<_>>>()?;
        plan_err!("No function matches {function}({})", types.join(", "))
    };
    match (function, args) {
        ("count", [_, _, ..]) => none(),
        ("string_agg", [_, separator]) => match separator.get_type(schema)? {
            ty if !ty.is_null() && !is_text(&ty) => none(),
            _ if separator.any_column_refs() || separator.is_volatile() => {
                plan_err!("The \"arg\" argument in function \"string_agg\" must be a constant expression")
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The arguments of an aggregate in a window with its filter merged into them, if it ignores NULLs: programs have no other filter there.
pub(super) fn filtered(function: &str, args: Vec<Expr>, filter: &mut Option<Box<Expr>>) -> Vec<Expr> {
    let ignores_nulls = matches!(function, "count" | "sum" | "avg" | "min" | "max" | "bool_and" | "bool_or");
    match <[Expr; 1]>::try_from(args) {
        Ok([arg]) if ignores_nulls && filter.is_some() => {
            let branches = filter.take().map(|filter| (filter, Box::new(arg)));
            vec![Expr::Case(Case::new(None, branches.into_iter().collect(), None))]
        }
        Ok(args) => args.into(),
        Err(args) => args,
    }
}

/// The function itself; for sums that may exceed 128 bits one that checks that; for extremes of floats one with DuckDB's order.
pub(super) fn checked(func: Arc<AggregateUDF>, args: &[Expr], schema: &DFSchema) -> Result<Arc<AggregateUDF>> {
    /// Number of digits of values of which no table has enough rows to exceed 128 bits.
    const SAFE: u8 = 28;
    let [arg] = args else { return Ok(func) };
    let ty = arg.get_type(schema)?;
    let func = typed::of_type(&func, &ty);
    if ty.is_floating() {
        return Ok(extremes::of_floats(&func).unwrap_or(func));
    }
    if func.name() != "sum" || !matches!(ty, DataType::Decimal128(..)) || func.inner().downcast_ref::<Total>().is_some()
    {
        return Ok(func);
    }
    let plain = match arg {
        Expr::Cast(cast) => &cast.expr,
        other => other,
    };
    let wide = digits(&plain.get_type(schema)?).is_none_or(|(width, _)| width > SAFE);
    Ok(if wide { Arc::new(AggregateUDF::from(Total::new())) } else { func })
}

/// The functions that [`checked`] and [`in_window`] put in the place of others, by names of their own.
pub(crate) fn of_types() -> Vec<(String, Arc<AggregateUDF>)> {
    let extremes = [min_udaf(), max_udaf()].into_iter().filter_map(|plain| {
        let name = format!("{} of floats", plain.name());
        Some((name, extremes::of_floats(&plain)?))
    });
    let total = ("sum of decimals".to_string(), Arc::new(AggregateUDF::from(Total::new())));
    let checked: Vec<_> = extremes.chain([total, ("avg of moments".to_string(), typed::mean())]).collect();
    let plain = all_default_aggregate_functions().into_iter().chain(functions());
    let named = plain.map(|function| (function.name().to_string(), function)).chain(checked.iter().cloned());
    let in_windows = named.flat_map(|(name, function)| {
        let forms = frames::forms(&function).into_iter();
        forms.map(move |(how, form)| (format!("{name} {how}"), form))
    });
    let in_windows: Vec<_> = in_windows.collect();
    checked.into_iter().chain(in_windows).collect()
}

/// Refuses distinct pairs: their functions have no state for them.
pub(super) fn check_distinct(function: &str, distinct: bool) -> Result<()> {
    match distinct && pairs::is_of_pairs(function) {
        true => not_impl_err!("{function} of distinct pairs"),
        false => Ok(()),
    }
}

/// The function that computes a call of `func` in a window, where rows leave its frames.
///
/// # Errors
/// Arguments without a type.
pub(super) fn in_window(
    func: Arc<AggregateUDF>,
    args: &[Expr],
    distinct: bool,
    schema: &DFSchema,
) -> Result<Arc<AggregateUDF>> {
    let is_kept = matches!(
        func.name(),
        "any_value" | "bit_and" | "bit_or" | "string_agg" | "histogram" | "histogram_exact" | "fsum_error"
    );
    let is_distinct = distinct && (func.name() == "string_agg" || moving::is_known(func.name()));
    if is_kept || is_distinct {
        return Ok(frames::anew(func));
    }
    match args {
        [arg] => Ok(frames::without_subtraction(func, &arg.get_type(schema)?)),
        _ => Ok(func),
    }
}

/// The sum of decimals of the full width; one of more digits is an error.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Total {
    signature: Signature,
}

impl Total {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Total {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = args.return_field.data_type().clone();
        let distinct = args.is_distinct.then(HashMap::new);
        Ok(Box::new(Sum { ty, total: i256::ZERO, count: 0, distinct }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            let value = Field::new_list_field(args.return_type().clone(), true);
            return Ok(vec![Arc::new(Field::new_list(format!("{}_values", args.name), value, true))]);
        }
        let scale = digits(args.return_type()).map_or(0, |(_, scale)| scale);
        let total = Field::new(format!("{}_total", args.name), DataType::Decimal256(WIDE, scale), true);
        let count = Field::new(format!("{}_count", args.name), DataType::Int64, true);
        Ok(vec![Arc::new(total), Arc::new(count)])
    }
}

/// Digits of totals.
const WIDE: u8 = 76;

#[derive(Debug)]
struct Sum {
    ty: DataType,
    total: i256,
    count: i64,
    /// Number of occurrences of each value, for DISTINCT.
    distinct: Option<HashMap<i128, i64>>,
}

impl Sum {
    fn add(&mut self, values: &ArrayRef, sign: i64) -> Result<()> {
        for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
            if let Some(seen) = &mut self.distinct {
                let times = seen.entry(value).or_default();
                *times += sign;
                if *times != i64::from(sign > 0) {
                    continue;
                }
            }
            let value = i256::from_i128(value);
            self.total = if sign > 0 { self.total.wrapping_add(value) } else { self.total.wrapping_sub(value) };
            self.count += sign;
        }
        Ok(())
    }

    fn scale(&self) -> i8 {
        digits(&self.ty).map_or(0, |(_, scale)| scale)
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (width, scale) = (MAX_WIDTH, self.scale());
        if self.count == 0 {
            return Ok(ScalarValue::Decimal128(None, width, scale));
        }
        match self.total.to_i128().filter(|total| total.unsigned_abs() < 10u128.pow(width.into())) {
            Some(total) => Ok(ScalarValue::Decimal128(Some(total), width, scale)),
            None => exec_err!("overflow in sum: the result does not fit {}", self.ty),
        }
    }

    fn size(&self) -> usize {
        let seen = self.distinct.as_ref().map_or(0, |seen| seen.capacity() * size_of::<(i128, i64)>());
        size_of_val(self) + seen
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.distinct {
            let value = |&value: &i128| ScalarValue::Decimal128(Some(value), MAX_WIDTH, self.scale());
            let values: Vec<_> = seen.keys().map(value).collect();
            let ty = DataType::Decimal128(MAX_WIDTH, self.scale());
            return Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &ty))]);
        }
        Ok(vec![ScalarValue::Decimal256(Some(self.total), WIDE, self.scale()), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if self.distinct.is_some() {
            let lists = states[0].as_list::<i32>();
            return lists.iter().flatten().try_for_each(|values| self.add(&values, 1));
        }
        let totals = states[0].as_primitive::<Decimal256Type>();
        let counts = states[1].as_primitive::<Int64Type>();
        for (total, count) in totals.iter().flatten().zip(counts.iter().flatten()) {
            self.total = self.total.wrapping_add(total);
            self.count += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Decimal128Array;

    #[test]
    fn totals_leave_38_digits_with_an_error_only() {
        let most = 10i128.pow(38) - 1;
        let values = |list: Vec<i128>| -> [ArrayRef; 1] { [Arc::new(Decimal128Array::from(list))] };
        let mut sum = Sum { ty: HUGEINT, total: i256::ZERO, count: 0, distinct: None };
        assert!(sum.evaluate().unwrap().is_null());
        sum.update_batch(&values(vec![most, most, 1])).unwrap();
        assert!(sum.evaluate().is_err());
        sum.retract_batch(&values(vec![most, 1])).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Decimal128(Some(most), 38, 0));
        let mut once = Sum { ty: HUGEINT, total: i256::ZERO, count: 0, distinct: Some(HashMap::new()) };
        once.update_batch(&values(vec![5, 5, 7])).unwrap();
        assert_eq!(once.evaluate().unwrap(), ScalarValue::Decimal128(Some(12), 38, 0));
        let mut other = Sum { ty: HUGEINT, total: i256::ZERO, count: 0, distinct: Some(HashMap::new()) };
        other.update_batch(&values(vec![7, most, 0])).unwrap();
        let states = |sum: &mut Sum| [sum.state().unwrap()[0].to_array().unwrap()];
        other.merge_batch(&states(&mut once)).unwrap();
        assert!(other.evaluate().is_err());
        let own = states(&mut once);
        once.merge_batch(&own).unwrap();
        assert_eq!(once.evaluate().unwrap(), ScalarValue::Decimal128(Some(12), 38, 0));
    }
}
