//! `list_reduce(list, lambda total, x, position: ..., initial)`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, UInt64Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF,
    HigherOrderUDFImpl, LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};

use super::combined_lists::both;
use super::lists::{element, list};
use crate::dialect::lists::rows;
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{MAX_WIDTH, digits, is_decimal, is_whole, type_name};

/// The function.
pub(in crate::dialect) fn function() -> Arc<HigherOrderUDF> {
    let signature = HigherOrderSignature::user_defined(Volatility::Immutable);
    Arc::new(HigherOrderUDF::new_from_impl(Reduce { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Reduce {
    signature: HigherOrderSignature,
}

/// The type of the total: of elements and of the first total; decimals have all digits before the point.
fn total_type(types: &[&DataType]) -> Result<DataType> {
    let ([of] | [of, _]) = types else { return plan_err!("list_reduce takes a list, a lambda and a first value") };
    let Some(own) = list(of).map(|list| element(&list)) else {
        return plan_err!("list_reduce takes a list, not {}", type_name(of));
    };
    let all = types.get(1).map_or_else(|| Some(own.clone()), |initial| both(&own, initial));
    match all {
        Some(ty) if is_decimal(&ty) => Ok(DataType::Decimal128(MAX_WIDTH, digits(&ty).map_or(0, |(_, scale)| scale))),
        Some(ty) => Ok(ty),
        None => plan_err!("list_reduce of {} and a first value of another type", type_name(of)),
    }
}

impl HigherOrderUDFImpl for Reduce {
    fn name(&self) -> &str {
        "list_reduce"
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let total = total_type(&types.iter().collect::<Vec<_>>())?;
        Ok([DataType::new_list(total.clone(), true), total].into_iter().take(types.len()).collect())
    }

    fn lambda_parameters(
        &self,
        _: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let values: Vec<&DataType> = fields
            .iter()
            .filter_map(|field| match field {
                ValueOrLambda::Value(field) => Some(field.data_type()),
                ValueOrLambda::Lambda(_) => None,
            })
            .collect();
        let total = total_type(&values)?;
        let field = |ty: &DataType| Arc::new(Field::new("", ty.clone(), true));
        Ok(LambdaParametersProgress::Complete(vec![vec![field(&total), field(&total), field(&DataType::Int64)]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (mut values, mut made) = (vec![], None);
        for field in args.arg_fields {
            match field {
                ValueOrLambda::Value(field) => values.push(field.data_type()),
                ValueOrLambda::Lambda(field) => made = Some(field.data_type()),
            }
        }
        let total = total_type(&values)?;
        match made {
            // No digits are cut off; a whole number that the type does not hold is an error.
            Some(made)
                if made.is_null()
                    || is_whole(made) && is_whole(&total)
                    || both(made, &total).as_ref() == Some(&total) =>
            {
                Ok(Arc::new(Field::new("", total, true)))
            }
            Some(made) => {
                plan_err!("list_reduce of {} whose lambda returns {}", type_name(&total), type_name(made))
            }
            None => plan_err!("list_reduce takes a list, a lambda and a first value"),
        }
    }

    fn clear_null_values(&self) -> bool {
        false
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let (mut values, mut lambda) = (vec![], None);
        for arg in &args.args {
            match arg {
                ValueOrLambda::Value(value) => values.push(value.to_array(args.number_rows)?),
                ValueOrLambda::Lambda(given) => lambda = Some(given),
            }
        }
        let (Some(lambda), Some(list)) = (lambda, values.first()) else {
            return exec_err!("list_reduce takes a list and a lambda");
        };
        Ok(ColumnarValue::Array(reduced(list, values.get(1), lambda, args.return_field.data_type())?))
    }
}

/// The total of each list: step by step, of the rows that have so many elements.
fn reduced(list: &ArrayRef, initial: Option<&ArrayRef>, lambda: &LambdaArgument, to: &DataType) -> Result<ArrayRef> {
    let lists = rows(list.as_list::<i32>());
    let lengths: Vec<usize> = lists.rows.iter().map(|row| row.as_ref().map_or(0, |row| row.len())).collect();
    let nothing = |(row, length): (&Option<_>, &usize)| row.is_some() && *length == 0;
    if initial.is_none() && lists.rows.iter().zip(&lengths).any(nothing) {
        return exec_err!("Cannot perform list_reduce on an empty input list");
    }
    let start = |row: usize| lists.rows[row].as_ref().map(|row| row.start as u64);
    let elements = strict_cast(&lists.elements, to)?;
    let first = usize::from(initial.is_none());
    let mut totals = match initial {
        Some(initial) => strict_cast(initial, to)?,
        None => {
            let at = (0..lengths.len()).map(|row| start(row).filter(|_| lengths[row] > 0));
            take(&elements, &at.collect::<UInt64Array>(), None)?
        }
    };
    for step in first..lengths.iter().copied().max().unwrap_or(0) {
        let active: Vec<u64> = (0..lengths.len()).filter(|row| lengths[*row] > step).map(|row| row as u64).collect();
        let own: UInt64Array = active.iter().map(|row| Some(start(*row as usize)? + step as u64)).collect();
        let rows = UInt64Array::from(active.clone());
        let total = || Ok(take(&totals, &rows, None)?);
        let value = || Ok(take(&elements, &own, None)?);
        let position = || Ok(Arc::new(Int64Array::from(vec![step as i64 + 1; active.len()])) as ArrayRef);
        let made = lambda.evaluate(&[&total, &value, &position], |captured| {
            captured.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
        })?;
        let made = strict_cast(&made.into_array(active.len())?, to)?;
        let mut places: Vec<u64> = (0..lengths.len() as u64).collect();
        for (at, row) in active.iter().enumerate() {
            places[*row as usize] = (lengths.len() + at) as u64;
        }
        totals = take(&concat(&[totals.as_ref(), made.as_ref()])?, &UInt64Array::from(places), None)?;
    }
    if lists.rows.iter().all(Option::is_some) {
        return Ok(totals);
    }
    let there = (0..lengths.len()).map(|row| lists.rows[row].is_some().then_some(row as u64));
    match lists.rows.iter().any(Option::is_some) {
        true => Ok(take(&totals, &there.collect::<UInt64Array>(), None)?),
        false => Ok(new_null_array(to, lengths.len())),
    }
}
