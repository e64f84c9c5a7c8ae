//! Functions of ENUMs: members and positions.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, StringArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Own, Typed};
use crate::dialect::enums;
use crate::dialect::operators::strict_cast;

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("enum_range", |types| of_one(types, texts()), |call| lists(call, |_, count| Some(0..count))),
        Own::new("enum_first", |types| of_one(types, DataType::Utf8), |call| member(call, |_| 0)),
        Own::new("enum_last", |types| of_one(types, DataType::Utf8), |call| member(call, |count| count - 1)),
        Own::new(
            "enum_code",
            |types| of_one(types, types.first().map_or(DataType::Null, enums::code_type)),
            |call| {
                let positions: ArrayRef = Arc::new(enums::positions(&call.args[0])?);
                strict_cast(&positions, &call.to)
            },
        ),
        Own::new("enum_range_boundary", boundary_types, |call| {
            let bounds = call.args.iter().map(positions).collect::<Result<Vec<_>>>()?;
            lists(call, |row, count| {
                let bound = |arg: usize| {
                    bounds[arg].as_ref().filter(|array| array.is_valid(row)).map(|array| array.value(row) as usize)
                };
                let (first, last) = (bound(0).unwrap_or(0), bound(1).map_or(count, |last| last + 1));
                Some(first..last.max(first))
            })
        }),
    ]
}

fn texts() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

fn of_one(types: &[DataType], to: DataType) -> Option<Typed> {
    matches!(types, [ty] if enums::is_enum(ty)).then(|| (types.to_vec(), to))
}

/// Two values of one ENUM, one of which may be an untyped NULL.
fn boundary_types(types: &[DataType]) -> Option<Typed> {
    let [from, to] = types else { return None };
    let fits = match (enums::is_enum(from), enums::is_enum(to)) {
        (true, true) => from == to,
        (true, false) => to.is_null(),
        (false, true) => from.is_null(),
        (false, false) => false,
    };
    fits.then(|| (types.to_vec(), texts()))
}

/// The members of the ENUM that an argument is of.
fn members(call: &Call) -> Result<Vec<String>> {
    match call.args.iter().find_map(|arg| enums::members(arg.data_type())) {
        Some(members) => Ok(members),
        None => exec_err!("{} is of an ENUM", call.name),
    }
}

fn positions(arg: &ArrayRef) -> Result<Option<UInt32Array>> {
    enums::is_enum(arg.data_type()).then(|| enums::positions(arg)).transpose()
}

/// The member at the position that `place` returns for the number of members, in every row.
fn member(call: &Call, place: fn(usize) -> usize) -> Result<ArrayRef> {
    let members = members(call)?;
    let member = members.get(place(members.len())).map(String::as_str);
    Ok(Arc::new((0..call.rows).map(|_| member).collect::<StringArray>()))
}

/// Lists of the members in the range that `range` returns for a row and the number of members.
fn lists(call: &Call, range: impl Fn(usize, usize) -> Option<Range<usize>>) -> Result<ArrayRef> {
    let members = members(call)?;
    let (mut lengths, mut values) = (vec![], vec![]);
    for row in 0..call.rows {
        let range = range(row, members.len()).unwrap_or(0..0);
        lengths.push(range.len());
        values.extend(members[range].iter().map(String::as_str));
    }
    let element = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(element, offsets, Arc::new(StringArray::from(values)), None)?))
}
