//! The order of the values of an ordered aggregate, which its state keeps until it is finalized.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, make_comparator};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use serde::{Deserialize, Serialize};

/// A sort key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    /// The field of the structs that it is.
    pub(super) column: usize,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

/// The selection from an ordered list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pick {
    /// The list of all.
    All,
    First,
    Last,
    /// The first one that is not NULL.
    FirstPresent,
}

/// The first field of the structs in a list, in the order of keys.
pub(super) fn in_order(list: Expr, order: &[Key], pick: Pick) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = InOrder { order: order.to_vec(), pick, signature };
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![list]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InOrder {
    order: Vec<Key>,
    pick: Pick,
    signature: Signature,
}

impl ScalarUDFImpl for InOrder {
    fn name(&self) -> &str {
        "state_values_in_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::List(element)] => match element.data_type() {
                DataType::Struct(fields) if !fields.is_empty() => Ok(match self.pick {
                    Pick::All => DataType::new_list(fields[0].data_type().clone(), true),
                    _ => fields[0].data_type().clone(),
                }),
                other => plan_err!("no values and keys: {other}"),
            },
            types => plan_err!("no list of values and keys: {types:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.args[0].to_array(args.number_rows)?;
        let lists = lists.as_list::<i32>();
        let values = lists.values().as_struct().column(0);
        let places = self.places(lists)?;
        if self.pick != Pick::All {
            let picked = places.iter().map(|places| match self.pick {
                Pick::Last => places.last().copied(),
                Pick::FirstPresent => places.iter().copied().find(|at| values.is_valid(*at as usize)),
                _ => places.first().copied(),
            });
            return Ok(ColumnarValue::Array(take(values, &picked.collect::<UInt32Array>(), None)?));
        }
        let lengths = places.iter().map(Vec::len);
        let offsets = OffsetBuffer::from_lengths(lengths);
        let all = UInt32Array::from_iter_values(places.iter().flatten().copied());
        let values = take(values, &all, None)?;
        let element = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let sorted: ArrayRef = Arc::new(ListArray::try_new(element, offsets, values, lists.nulls().cloned())?);
        Ok(ColumnarValue::Array(sorted))
    }
}

impl InOrder {
    /// The positions of the elements of each list, in their order.
    fn places(&self, lists: &ListArray) -> Result<Vec<Vec<u32>>> {
        let rows = lists.values().as_struct();
        let comparators = self.order.iter().map(|key| {
            let column = rows.column(key.column);
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            make_comparator(column, column, options)
        });
        let comparators = comparators.collect::<Result<Vec<_>, _>>()?;
        let compared = |a: &u32, b: &u32| {
            let mut each = comparators.iter().map(|compare| compare(*a as usize, *b as usize));
            each.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        };
        let offsets = lists.value_offsets();
        let sorted = |row: usize| {
            if lists.is_null(row) {
                return vec![];
            }
            let mut places: Vec<u32> = (offsets[row] as u32..offsets[row + 1] as u32).collect();
            places.sort_by(compared);
            places
        };
        Ok((0..lists.len()).map(sorted).collect())
    }
}
