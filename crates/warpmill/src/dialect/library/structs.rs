//! Functions of structs and maps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StructArray, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::own::{Call, Own, Typed};

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("struct_keys", keys_types, |call| {
            let DataType::Struct(fields) = call.args[0].data_type() else {
                return exec_err!("struct_keys of no struct");
            };
            let names = StringArray::from_iter_values(fields.iter().map(|field| field.name()));
            let count = names.len();
            let (mut indices, mut lengths) = (vec![], vec![]);
            for row in 0..call.rows {
                let there = call.args[0].is_valid(row);
                indices.extend((0..if there { count as u32 } else { 0 }).map(Some));
                lengths.push(if there { count } else { 0 });
            }
            let values = take(&names, &arrow::array::UInt32Array::from(indices), None)?;
            let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
            let nulls = call.args[0].nulls().cloned();
            Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?))
        }),
        inserted(),
        Own::new("map_from_entries", entries_types, |call| {
            let lists = call.args[0].as_list::<i32>();
            let mut rows: Vec<Option<Vec<usize>>> = vec![];
            let parts = lists.values().as_struct();
            for row in 0..call.rows {
                let range = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
                rows.push(lists.is_valid(row).then(|| range.collect()));
            }
            let null_key = rows.iter().flatten().flatten().any(|at| parts.is_null(*at) || parts.column(0).is_null(*at));
            if null_key {
                return exec_err!("Map keys can not be NULL.");
            }
            maps(parts.column(0), parts.column(1), rows, &call.to, Twice::Error)
        }),
        Own::new("map_concat", concat_types, joined),
    ]
}

fn keys_types(types: &[DataType]) -> Option<Typed> {
    matches!(types, [DataType::Struct(_)]).then(|| (types.to_vec(), DataType::new_list(DataType::Utf8, true)))
}

/// `struct_insert(s, 'name', value, ...)`.
fn inserted() -> Own {
    let mut own = Own::new(
        "struct_insert",
        |types| Some((types.to_vec(), DataType::Null)),
        |call| {
            let DataType::Struct(fields) = &call.to else { return exec_err!("struct_insert of no struct") };
            let own = call.args[0].as_struct();
            let (nulls, mut columns) = (own.nulls(), vec![]);
            for column in own.columns() {
                // A struct that is NULL has fields that are.
                columns.push(match nulls {
                    Some(nulls) => {
                        arrow::compute::nullif(column, &arrow::array::BooleanArray::new(!nulls.inner(), None))?
                    }
                    None => Arc::clone(column),
                });
            }
            columns.extend(call.args[1..].chunks(2).filter_map(|pair| pair.get(1).cloned()));
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
        },
    );
    own.typed_by = Some(|args: &ReturnFieldArgs<'_>| {
        let Some(DataType::Struct(fields)) = args.arg_fields.first().map(|field| field.data_type()) else {
            return plan_err!("struct_insert takes a struct, and values with names");
        };
        let mut all: Vec<Field> = fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        for (at, field) in args.arg_fields.iter().enumerate().skip(2).step_by(2) {
            let name = args.scalar_arguments.get(at - 1).copied().flatten();
            let Some(name) = name.and_then(|name| name.try_as_str().flatten()) else {
                return plan_err!("struct_insert takes a struct, and values with names");
            };
            if all.iter().any(|field| field.name().eq_ignore_ascii_case(name)) {
                return plan_err!("Duplicate struct entry name \"{name}\"");
            }
            all.push(Field::new(name, field.data_type().clone(), true));
        }
        Ok(Some(DataType::Struct(Fields::from(all))))
    });
    own
}

fn entries_types(types: &[DataType]) -> Option<Typed> {
    let [DataType::List(element)] = types else { return None };
    let DataType::Struct(fields) = element.data_type() else { return None };
    let [key, value] = fields.as_ref() else { return None };
    Some((types.to_vec(), map_of(key.data_type(), value.data_type())))
}

fn map_of(key: &DataType, value: &DataType) -> DataType {
    let fields = Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// Maps of one type, or without entries, or NULL.
fn concat_types(types: &[DataType]) -> Option<Typed> {
    let parts = |ty: &DataType| match ty {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => Some((fields[0].data_type().clone(), fields[1].data_type().clone())),
            _ => None,
        },
        _ => None,
    };
    let of_any = |ty: &&DataType| parts(ty).is_some_and(|(key, _)| !key.is_null());
    let (key, value) = parts(types.iter().find(of_any)?)?;
    let fits = |ty: &DataType| match parts(ty) {
        Some((own, _)) if own.is_null() => true,
        Some(own) => own == (key.clone(), value.clone()),
        None => ty.is_null(),
    };
    types.iter().all(fits).then(|| (types.to_vec(), map_of(&key, &value)))
}

fn joined(call: &Call) -> Result<ArrayRef> {
    let DataType::Map(entries, _) = &call.to else { return exec_err!("map_concat of no maps") };
    let DataType::Struct(fields) = entries.data_type() else { return exec_err!("map_concat of no maps") };
    let (mut keys, mut values) =
        (vec![new_empty_array(fields[0].data_type())], vec![new_empty_array(fields[1].data_type())]);
    let mut rows: Vec<Option<Vec<usize>>> = vec![None; call.rows];
    let mut before = 0;
    for arg in &call.args {
        let Some(map) = arg.as_map_opt() else { continue };
        let empty = map.keys().data_type().is_null();
        for (row, found) in rows.iter_mut().enumerate().filter(|(row, _)| map.is_valid(*row)) {
            let offsets = map.value_offsets();
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            let own = found.get_or_insert_default();
            if !empty {
                own.extend(range.map(|at| before + at));
            }
        }
        if !empty {
            before += map.keys().len();
            keys.push(Arc::clone(map.keys()));
            values.push(Arc::clone(map.values()));
        }
    }
    let all = |parts: &[ArrayRef]| concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    maps(&all(&keys)?, &all(&values)?, rows, &call.to, Twice::Last)
}

/// What becomes of a key that is there twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twice {
    Error,
    /// It has the last value, at the first place.
    Last,
}

/// Maps of the entries at some places; `None`: NULL.
fn maps(
    keys: &ArrayRef,
    values: &ArrayRef,
    rows: Vec<Option<Vec<usize>>>,
    to: &DataType,
    twice: Twice,
) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let ranks = converter.convert_columns(&[Arc::clone(keys)])?;
    let (mut key_places, mut value_places, mut lengths, mut valid) = (vec![], vec![], vec![], vec![]);
    for row in rows {
        valid.push(row.is_some());
        let mut known: HashMap<OwnedRow, usize> = HashMap::new();
        let mut seen = HashSet::new();
        let start = key_places.len();
        for at in row.unwrap_or_default() {
            let rank = ranks.row(at).owned();
            if seen.insert(rank.clone()) {
                known.insert(rank, key_places.len());
                key_places.push(at as u64);
                value_places.push(at as u64);
            } else if twice == Twice::Error {
                return exec_err!("Map keys must be unique.");
            } else if let Some(place) = known.get(&rank) {
                value_places[*place] = at as u64;
            }
        }
        lengths.push(key_places.len() - start);
    }
    let DataType::Map(entries, ordered) = to else { return exec_err!("a map is of no map type") };
    let DataType::Struct(fields) = entries.data_type() else { return exec_err!("a map is of no map type") };
    let taken = |of: &ArrayRef, places: Vec<u64>| take(of, &arrow::array::UInt64Array::from(places), None);
    let columns = vec![taken(keys, key_places)?, taken(values, value_places)?];
    let parts = StructArray::try_new(fields.clone(), columns, None)?;
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, parts, nulls, *ordered)?))
}
