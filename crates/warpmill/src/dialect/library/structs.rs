//! Functions of structs and maps.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StructArray, UInt64Array, make_comparator,
    new_empty_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;

use super::own::{Call, Own, Typed, TypedBy};
use crate::dialect::is_row;
use crate::dialect::operators::strict_cast;
use crate::dialect::types::common;

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
        changed("struct_insert", |args| changed_fields(args, "struct_insert", false)),
        changed("struct_update", |args| changed_fields(args, "struct_update", true)),
        Own::new("struct_concat", concat_fields, |call| {
            let DataType::Struct(fields) = &call.to else { return exec_err!("struct_concat of no struct") };
            let columns = call.args.iter().map(fields_of).collect::<Result<Vec<_>>>()?.concat();
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
        }),
        Own::new("map_of_lists", map_types, made),
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
        Own::new("map_element", element_types, element),
    ]
}

fn keys_types(types: &[DataType]) -> Option<Typed> {
    let named = matches!(types, [DataType::Struct(fields)] if !is_row(fields));
    named.then(|| (types.to_vec(), DataType::new_list(DataType::Utf8, true)))
}

/// `struct_insert(s, 'name', value, ...)`, which adds fields, and `struct_update`, which replaces fields of the same names.
fn changed(name: &'static str, typed_by: TypedBy) -> Own {
    let mut own = Own::new(
        name,
        |types| Some((types.to_vec(), DataType::Null)),
        |call| {
            let DataType::Struct(fields) = &call.to else { return exec_err!("{} of no struct", call.name) };
            if call.rows == 0 {
                return Ok(new_empty_array(&call.to));
            }
            let mut columns = fields_of(&call.args[0])?;
            columns.resize(fields.len(), Arc::clone(&call.args[0]));
            for pair in call.args[1..].chunks_exact(2) {
                let name = ScalarValue::try_from_array(&pair[0], 0)?;
                let name = name.try_as_str().flatten().unwrap_or_default();
                let Some(at) = fields.iter().position(|field| field.name().eq_ignore_ascii_case(name)) else {
                    return exec_err!("{}: no field {name}", call.name);
                };
                columns[at] = Arc::clone(&pair[1]);
            }
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
        },
    );
    own.typed_by = Some(typed_by);
    own
}

/// The columns of a struct; a struct that is NULL has fields that are.
fn fields_of(of: &ArrayRef) -> Result<Vec<ArrayRef>> {
    let of = of.as_struct();
    let field = |column: &ArrayRef| match of.nulls() {
        Some(nulls) => Ok(arrow::compute::nullif(column, &arrow::array::BooleanArray::new(!nulls.inner(), None))?),
        None => Ok(Arc::clone(column)),
    };
    of.columns().iter().map(field).collect()
}

/// The fields of the struct that [`changed`] makes.
fn changed_fields(args: &ReturnFieldArgs<'_>, name: &str, replaces: bool) -> Result<Option<DataType>> {
    let Some(DataType::Struct(fields)) = args.arg_fields.first().map(|field| field.data_type()) else {
        return plan_err!("{name} takes a struct, and values with names");
    };
    let mut all: Vec<Field> = fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    for (at, field) in args.arg_fields.iter().enumerate().skip(2).step_by(2) {
        let given = args.scalar_arguments.get(at - 1).copied().flatten();
        let Some(given) = given.and_then(|given| given.try_as_str().flatten()) else {
            return plan_err!("{name} takes a struct, and values with names");
        };
        match all.iter_mut().find(|field| field.name().eq_ignore_ascii_case(given)) {
            Some(known) if replaces => *known = Field::new(known.name(), field.data_type().clone(), true),
            Some(_) => return plan_err!("Duplicate struct entry name \"{given}\""),
            None => all.push(Field::new(given, field.data_type().clone(), true)),
        }
    }
    Ok(Some(DataType::Struct(Fields::from(all))))
}

/// The fields of several structs, one after the other.
fn concat_fields(types: &[DataType]) -> Option<Typed> {
    let fields = types.iter().map(|ty| match ty {
        DataType::Struct(fields) if !is_row(fields) => Some(fields.iter()),
        _ => None,
    });
    let all: Vec<Field> = fields
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flatten()
        .map(|f| f.as_ref().clone().with_nullable(true))
        .collect();
    let is_twice =
        |at: usize, field: &Field| all[..at].iter().any(|other| other.name().eq_ignore_ascii_case(field.name()));
    if all.is_empty() || all.iter().enumerate().any(|(at, field)| is_twice(at, field)) {
        return None;
    }
    Some((types.to_vec(), DataType::Struct(all.into())))
}

/// Lists of keys and of values.
fn map_types(types: &[DataType]) -> Option<Typed> {
    let list = |ty: &DataType| match ty {
        DataType::List(_) => Some(ty.clone()),
        DataType::LargeList(element) | DataType::FixedSizeList(element, _) => Some(DataType::List(Arc::clone(element))),
        DataType::Null => Some(DataType::new_list(DataType::Null, true)),
        _ => None,
    };
    let [keys, values] = types else { return None };
    let lists = [list(keys)?, list(values)?];
    let [DataType::List(key), DataType::List(value)] = &lists else { return None };
    let to = map_of(key.data_type(), value.data_type());
    Some((lists.into(), to))
}

fn made(call: &Call) -> Result<ArrayRef> {
    let (keys, values) = (call.args[0].as_list::<i32>(), call.args[1].as_list::<i32>());
    let (mut rows, mut matching) = (vec![], vec![]);
    for row in 0..call.rows {
        let range = |of: &ListArray| of.value_offsets()[row] as usize..of.value_offsets()[row + 1] as usize;
        if keys.is_null(row) || values.is_null(row) {
            rows.push(None);
            continue;
        }
        let (own, others) = (range(keys), range(values));
        if own.len() != others.len() {
            return exec_err!("The map key list does not align with the map value list.");
        }
        if own.clone().any(|at| keys.values().is_null(at)) || keys.values().data_type().is_null() && !own.is_empty() {
            return exec_err!("Map keys can not be NULL.");
        }
        matching.extend(own.clone().zip(others));
        rows.push(Some(own.collect()));
    }
    // Values in the order of keys.
    let mut places = vec![None; keys.values().len()];
    for (key, value) in matching {
        places[key] = Some(value as u64);
    }
    let values = take(values.values(), &UInt64Array::from(places), None)?;
    maps(keys.values(), &values, rows, &call.to, Twice::Error)
}

fn entries_types(types: &[DataType]) -> Option<Typed> {
    let [DataType::List(element)] = types else { return None };
    let DataType::Struct(fields) = element.data_type() else { return None };
    let [key, value] = fields.as_ref() else { return None };
    Some((types.to_vec(), map_of(key.data_type(), value.data_type())))
}

/// A map and a key, which is compared in the type that it and the map's keys have in common.
fn element_types(types: &[DataType]) -> Option<Typed> {
    let [map @ DataType::Map(entries, _), key] = types else { return None };
    let DataType::Struct(fields) = entries.data_type() else { return None };
    let own = fields[0].data_type();
    let key = match own == key || key.is_null() {
        true => key.clone(),
        false => common(own, key).or_else(|| comparison_coercion(own, key))?,
    };
    Some((vec![map.clone(), key], fields[1].data_type().clone()))
}

/// The value of a map for a key; NULL if the key is missing.
fn element(call: &Call) -> Result<ArrayRef> {
    let (map, wanted) = (call.args[0].as_map(), &call.args[1]);
    if wanted.data_type().is_null() {
        return Ok(new_null_array(&call.to, call.rows));
    }
    let keys = strict_cast(map.keys(), wanted.data_type())?;
    let order = make_comparator(&keys, wanted, SortOptions::default())?;
    let place = |row: usize| {
        let there = map.is_valid(row) && wanted.is_valid(row);
        let mut range = map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
        range.find(|&at| there && order(at, row).is_eq()).map(|at| at as u64)
    };
    let places: UInt64Array = (0..call.rows).map(place).collect();
    Ok(take(map.values(), &places, None)?)
}

fn map_of(key: &DataType, value: &DataType) -> DataType {
    let fields = Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// Maps of one type, or empty maps, or NULL.
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

/// Treatment of duplicate keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twice {
    Error,
    /// The last value, at the position of the first.
    Last,
}

/// Maps of the keys and values at some places; `None`: NULL.
///
/// # Errors
/// A key twice.
pub(in crate::dialect) fn map_of_places(
    keys: &ArrayRef,
    values: &ArrayRef,
    rows: Vec<Option<Vec<usize>>>,
    to: &DataType,
) -> Result<ArrayRef> {
    maps(keys, values, rows, to, Twice::Error)
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
