//! Aggregates of list elements: `list_sum(l)` etc., and `list_aggregate(l, 'sum')`.
//!
//! DataFusion computes with DOUBLEs, which have 53 bits. As in aggregates of rows, NULLs are ignored, and the result without values is NULL (0 for a
//! count).

mod of;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::types::type_name;
use of::Of;
pub(super) use of::{Lists, keys};

/// The functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let own = [
        ("list_sum", Of::Sum, &["array_sum"][..]),
        ("list_avg", Of::Average, &["array_avg"]),
        ("list_product", Of::Product, &["array_product"]),
        ("list_min", Of::Least, &["array_min"]),
        ("list_max", Of::Greatest, &["array_max"]),
        ("list_count", Of::Count, &[]),
        ("list_first", Of::First, &[]),
        ("list_last", Of::Last, &[]),
        ("list_any_value", Of::Any, &["array_any_value"]),
    ];
    let own = own.into_iter().map(|(name, of, aliases)| ListAggregate::function(name, Some(of), aliases));
    let aliases = ["list_aggr", "array_aggregate", "array_aggr", "aggregate"];
    own.chain([ListAggregate::function("list_aggregate", None, &aliases)]).collect()
}

/// The product of the numbers of a list.
pub(super) fn product(list: Expr) -> Expr {
    let function = ListAggregate::function("list_product", Some(Of::Product), &[]);
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![list]))
}

/// An aggregate of lists; without a fixed aggregate the second argument names it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListAggregate {
    name: &'static str,
    aliases: Vec<String>,
    of: Option<Of>,
    signature: Signature,
}

impl ListAggregate {
    fn function(name: &'static str, of: Option<Of>, aliases: &[&str]) -> Arc<ScalarUDF> {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { name, aliases, of, signature }))
    }

    /// The aggregate to compute.
    fn of(&self, name: Option<&ScalarValue>) -> Result<Of> {
        if let Some(of) = self.of {
            return Ok(of);
        }
        let Some(name) = name.and_then(|name| name.try_as_str().flatten()) else {
            return plan_err!("{}: the name of the aggregate is a constant text", self.name);
        };
        Of::named(name).map_or_else(|| plan_err!("{}: no aggregate {name} of lists", self.name), Ok)
    }
}

impl ScalarUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (list, name) = match (self.of, types) {
            (Some(_), [list]) => (list, None),
            (None, [list, name]) => (list, Some(name.clone())),
            _ => {
                return plan_err!(
                    "{} takes {}",
                    self.name,
                    if self.of.is_some() { "a list" } else { "a list and a name" }
                );
            }
        };
        let list = match list {
            DataType::Null | DataType::List(_) | DataType::LargeList(_) => list.clone(),
            DataType::FixedSizeList(element, _) | DataType::ListView(element) => DataType::List(Arc::clone(element)),
            DataType::LargeListView(element) => DataType::LargeList(Arc::clone(element)),
            other => return plan_err!("{} is of lists, not of {}", self.name, type_name(other)),
        };
        Ok(std::iter::once(list).chain(name).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{}: its type is that of its elements", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = self.of(args.scalar_arguments.get(1).copied().flatten())?;
        let ty = match args.arg_fields[0].data_type() {
            DataType::List(element) | DataType::LargeList(element) => of.result(element.data_type())?,
            _ => DataType::Null,
        };
        Ok(Arc::new(Field::new(self.name, ty, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match args.args.get(1) {
            Some(ColumnarValue::Scalar(name)) => Some(name),
            _ => None,
        };
        let of = self.of(name)?;
        let to = args.return_field.data_type();
        Ok(match &args.args[0] {
            ColumnarValue::Array(lists) => ColumnarValue::Array(computed(of, lists, to)?),
            ColumnarValue::Scalar(list) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&computed(of, &list.to_array()?, to)?, 0)?)
            }
        })
    }
}

/// The aggregate of each list, as a value of type `to`.
fn computed(of: Of, lists: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match lists.data_type() {
        DataType::Null => Ok(new_null_array(to, lists.len())),
        DataType::List(_) => of.computed(&rows(lists.as_list::<i32>()), to),
        DataType::LargeList(_) => of.computed(&rows(lists.as_list::<i64>()), to),
        other => exec_err!("an aggregate of {}, which is no list", type_name(other)),
    }
}

pub(super) fn rows<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Lists {
    let range = |row: usize| {
        let offset = |at: usize| lists.value_offsets()[at].as_usize();
        lists.is_valid(row).then(|| offset(row)..offset(row + 1))
    };
    Lists { elements: Arc::clone(lists.values()), rows: (0..lists.len()).map(range).collect() }
}
