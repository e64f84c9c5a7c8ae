//! The order of lists and structs: NULL within them is greater than every value, in sorts of either direction, too.
//!
//! DataFusion places such NULLs as it places NULLs of whole columns, before or after all values. Here values are ordered by binary keys.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, LargeBinaryArray, LargeStringArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Between, BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFunctionDefinition,
};

use super::aggregates::frames;
use super::casts::{self, of_one};
use super::enums;

/// A key of ORDER BY.
pub(super) fn sorted(mut key: Sort, schema: &DFSchema) -> Result<Sort> {
    match key.expr.get_type(schema)? {
        ty if enums::is_enum(&ty) => key.expr = casts::position(key.expr),
        ty if has_keys(&ty) => key.expr = key_of(key.expr),
        _ => {}
    }
    Ok(key)
}

/// Rewrites one expression whose operands are bound.
pub(super) fn expression(e: Expr, schema: &DFSchema) -> Result<Expr> {
    let is = |e: &Expr| e.get_type(schema).map(|ty| has_keys(&ty));
    match e {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_ordering(op) && is(&left)? && is(&right)? => {
            let [left, right] = alike([*left, *right], schema)?.map(|e| Box::new(key_of(e)));
            Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is(&expr)? && is(&low)? && is(&high)? => {
            let [from, low] = alike([(*expr).clone(), *low], schema)?.map(key_of);
            let [to, high] = alike([*expr, *high], schema)?.map(key_of);
            let within = from.gt_eq(low).and(to.lt_eq(high));
            Ok(if negated { Expr::Not(Box::new(within)) } else { within })
        }
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            // With DISTINCT, sort keys have to be the arguments themselves; ENUM positions are ordered as their members are.
            let stays =
                |key: &Sort| Ok::<_, DataFusionError>(params.distinct && enums::is_enum(&key.expr.get_type(schema)?));
            let keyed = |key: Sort| if stays(&key)? { Ok(key) } else { sorted(key, schema) };
            params.order_by = std::mem::take(&mut params.order_by).into_iter().map(keyed).collect::<Result<_>>()?;
            let func = match params.args.first().map(is).transpose()? {
                Some(true) => extreme(&func).unwrap_or(func),
                _ => func,
            };
            Ok(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::WindowFunction(mut window) => {
            let order = std::mem::take(&mut window.params.order_by);
            let windowed = |mut by: Sort| {
                match by.expr.get_type(schema)? {
                    ty if enums::is_enum(&ty) => by.expr = casts::position(by.expr),
                    ty if has_keys(&ty) => by.expr = key(by.expr, true),
                    _ => {}
                }
                Ok::<_, DataFusionError>(by)
            };
            let order_by = order.into_iter().map(windowed).collect::<Result<_>>()?;
            let params = WindowFunctionParams { order_by, ..window.params };
            let fun = match (params.args.first().map(is).transpose()?, window.fun) {
                (Some(true), WindowFunctionDefinition::AggregateUDF(func)) => {
                    WindowFunctionDefinition::AggregateUDF(extreme(&func).map_or(func, frames::anew))
                }
                (_, fun) => fun,
            };
            Ok(Expr::from(WindowFunction { fun, params }))
        }
        e => Ok(e),
    }
}

/// Whether values of a type are ordered by keys.
pub(super) fn has_keys(ty: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    matches!(ty, List(_) | LargeList(_) | FixedSizeList(..) | Struct(_))
        && RowConverter::supports_fields(&[SortField::new(ty.clone())])
}

fn is_ordering(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// Casts both sides of a comparison to one type.
fn alike(sides: [Expr; 2], schema: &DFSchema) -> Result<[Expr; 2]> {
    let [left, right] = sides;
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    if lt == rt {
        return Ok([left, right]);
    }
    let Some(both) = comparison_coercion(&lt, &rt) else {
        return plan_err!("values of the types {lt} and {rt} cannot be compared");
    };
    Ok([casts::bind(left, &both, false, schema)?, casts::bind(right, &both, false, schema)?])
}

/// The sort key of a value.
pub(super) fn key_of(e: Expr) -> Expr {
    key(e, false)
}

fn key(e: Expr, in_digits: bool) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Arc::new(ScalarUDF::from(Key { in_digits, signature }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![e]))
}

/// Bytes that are ordered as values are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Whether keys are hexadecimal text instead of bytes: window frames do not support binary values.
    in_digits: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        "order_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.in_digits { DataType::LargeUtf8 } else { DataType::LargeBinary })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&args.args, |array| {
            let keys = keys(array)?;
            if !self.in_digits {
                return Ok(Arc::new(keys) as ArrayRef);
            }
            let digits = |key: &[u8]| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            Ok(Arc::new(keys.iter().map(|key| key.map(digits)).collect::<LargeStringArray>()))
        })
    }
}

fn keys(array: &ArrayRef) -> Result<LargeBinaryArray> {
    let options = SortOptions { descending: false, nulls_first: false };
    let converter = RowConverter::new(vec![SortField::new_with_options(array.data_type().clone(), options)])?;
    let rows = converter.convert_columns(&[Arc::clone(array)])?;
    let key = |row: usize| array.is_valid(row).then(|| rows.row(row).data().to_vec());
    Ok((0..array.len()).map(key).collect())
}

/// The replacement of DataFusion's MIN or MAX for values that are ordered by keys.
fn extreme(func: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    let greatest = match func.name() {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let replaced = func.inner().downcast_ref::<Extreme>().is_some() || frames::is_sliding(func);
    (!replaced).then(|| Arc::new(AggregateUDF::from(Extreme { greatest, plain: Arc::clone(func) })))
}

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
        Ok(types[0].clone())
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(args.return_field.as_ref().clone().with_name(args.name))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Found { greatest: self.greatest, key: None, value }))
    }
}

/// The extreme value so far, which is also the state.
#[derive(Debug)]
struct Found {
    greatest: bool,
    key: Option<Vec<u8>>,
    value: ScalarValue,
}

impl Accumulator for Found {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let keys = keys(&values[0])?;
        let keys = keys.iter().enumerate().filter_map(|(row, key)| key.map(|key| (key, row)));
        let found = if self.greatest { keys.max_by_key(|(key, _)| *key) } else { keys.min_by_key(|(key, _)| *key) };
        let Some((key, row)) = found else { return Ok(()) };
        let is_more = |kept: &Vec<u8>| if self.greatest { key > kept.as_slice() } else { key < kept.as_slice() };
        if self.key.as_ref().is_none_or(is_more) {
            self.key = Some(key.to_vec());
            self.value = ScalarValue::try_from_array(&values[0], row)?.compacted();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) - size_of_val(&self.value) + self.value.size() + self.key.as_ref().map_or(0, Vec::capacity)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::ListArray;
    use arrow::datatypes::Int32Type;

    #[test]
    fn null_within_a_list_is_the_greatest() {
        let lists = vec![Some(vec![]), Some(vec![Some(1)]), Some(vec![Some(1), None]), Some(vec![None]), None];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let keys = keys(&lists).unwrap();
        assert!((0..3).all(|row| keys.value(row) < keys.value(row + 1)) && keys.is_null(4));
    }
}
