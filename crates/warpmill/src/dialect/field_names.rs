//! Names of struct fields in casts: DuckDB compares them case-insensitively, DataFusion case-sensitively.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

/// `from` with the field names of `to`; `None` if it has them. Unnamed fields of `row(...)` get them in order.
pub(super) fn renamed(from: &DataType, to: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, LargeList, List, Struct};
    let element = |from: &FieldRef, to: &FieldRef| {
        let renamed = renamed(from.data_type(), to.data_type())?;
        Some(Arc::new(from.as_ref().clone().with_data_type(renamed)))
    };
    match (from, to) {
        (List(from), List(to) | LargeList(to) | FixedSizeList(to, _)) => element(from, to).map(List),
        (LargeList(from), List(to) | LargeList(to) | FixedSizeList(to, _)) => element(from, to).map(LargeList),
        (FixedSizeList(from, length), List(to) | LargeList(to) | FixedSizeList(to, _)) => {
            element(from, to).map(|element| FixedSizeList(element, *length))
        }
        (Struct(from), Struct(to)) => {
            let fields: Fields =
                from.iter().enumerate().map(|(at, field)| renamed_field(field, at, from, to)).collect();
            (fields != *from).then_some(Struct(fields))
        }
        _ => None,
    }
}

/// Whether a struct is a row, whose fields are unnamed.
pub fn is_row(fields: &Fields) -> bool {
    !fields.is_empty() && fields.iter().enumerate().all(|(at, field)| *field.name() == format!("c{at}"))
}

/// Refuses a struct that has one name twice.
pub(super) fn check_names(call: &ScalarFunction) -> Result<()> {
    let mut taken = HashSet::new();
    for name in call.args.iter().step_by(2) {
        if let Expr::Literal(name, _) = name
            && let Some(name) = name.try_as_str().flatten()
            && !taken.insert(name.to_lowercase())
        {
            return plan_err!("Duplicate named argument {name:?} in a struct");
        }
    }
    Ok(())
}

/// The field of structs of type `ty` that is called `name`.
pub(super) fn field(ty: &DataType, name: &str) -> Option<FieldRef> {
    let DataType::Struct(fields) = ty else { return None };
    called(fields, name).cloned()
}

fn called<'f>(fields: &'f Fields, name: &str) -> Option<&'f FieldRef> {
    let exact = fields.iter().find(|field| field.name() == name);
    exact.or_else(|| fields.iter().find(|field| field.name().eq_ignore_ascii_case(name)))
}

/// Field number `at` of structs `from` with its name in `to`.
fn renamed_field(field: &FieldRef, at: usize, from: &Fields, to: &Fields) -> FieldRef {
    let unnamed = from.len() == to.len() && is_row(from);
    let target = called(to, field.name()).or_else(|| to.get(at).filter(|_| unnamed));
    let Some(target) = target else { return Arc::clone(field) };
    let data_type = renamed(field.data_type(), target.data_type()).unwrap_or_else(|| field.data_type().clone());
    Arc::new(field.as_ref().clone().with_name(target.name()).with_data_type(data_type))
}

/// `array` as one of type `to`, which differs in names of fields only.
pub(super) fn with_names(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(make_array(named(array.to_data(), to)?))
}

fn named(data: ArrayData, to: &DataType) -> Result<ArrayData> {
    let types: Vec<DataType> = match to {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            vec![element.data_type().clone()]
        }
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type().clone()).collect(),
        _ => return Ok(data),
    };
    let children = data.child_data().iter().zip(&types).map(|(child, to)| named(child.clone(), to));
    let children = children.collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().data_type(to.clone()).child_data(children).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array, StructArray};
    use arrow::datatypes::Field;

    fn structs(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, ty)| Field::new(*name, ty.clone(), true)).collect())
    }

    #[test]
    fn names_are_those_of_the_target() {
        let int = DataType::Int32;
        let from = structs(&[("A", int.clone()), ("b", structs(&[("X", int.clone())]))]);
        let to = structs(&[("b", structs(&[("x", DataType::Int64)])), ("a", DataType::Int64)]);
        let wanted = structs(&[("a", int.clone()), ("b", structs(&[("x", int.clone())]))]);
        assert_eq!(renamed(&from, &to), Some(wanted.clone()));
        assert_eq!(renamed(&wanted, &to), None);
        let list = |ty| DataType::new_list(ty, true);
        assert_eq!(renamed(&list(from.clone()), &list(to)), Some(list(wanted)));
        let row = structs(&[("c0", int.clone()), ("c1", int.clone())]);
        let pair = structs(&[("p", int.clone()), ("q", int.clone())]);
        assert_eq!(renamed(&row, &pair), Some(pair.clone()));
        assert_eq!(renamed(&structs(&[("c0", int.clone())]), &pair), None);
        assert_eq!(renamed(&int, &pair), None);
    }

    #[test]
    fn values_stay() {
        let own = structs(&[("A", DataType::Int32)]);
        let DataType::Struct(fields) = &own else { unreachable!() };
        let array: ArrayRef = Arc::new(StructArray::new(
            fields.clone(),
            vec![Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))],
            Some(vec![true, true, false].into()),
        ));
        let to = structs(&[("a", DataType::Int32)]);
        let renamed = with_names(&array.slice(1, 2), &to).unwrap();
        assert_eq!((renamed.data_type(), renamed.len(), renamed.null_count()), (&to, 2, 1));
        assert_eq!(renamed.as_struct().column(0).null_count(), 1);
    }
}
