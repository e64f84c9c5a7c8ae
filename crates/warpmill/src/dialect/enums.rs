//! ENUM values ([`warpmill_format::enums`]) in expressions: values of one ENUM are compared by position; together with other types, including other
//! ENUMs, a value is the text of its member.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, StringArray, StructArray, UInt32Array};
use arrow::datatypes::{DataType, FieldRef, UInt32Type};
use datafusion::common::{DFSchema, Result, exec_err, internal_err, not_impl_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, Unnest};

use warpmill_format::enums;
use warpmill_translate::kept;

pub(super) use warpmill_format::enums::{is_enum, members};

use super::casts;
use super::operators::strict_cast;
use super::outside;
use super::own_casts::{self, has_enums};
use super::types::{self, is_text, type_name};

/// The type with these members.
///
/// # Errors
/// A duplicate member; no members.
pub(super) fn data_type(members: &[String]) -> Result<DataType> {
    let mut known = HashSet::new();
    if let Some(twice) = members.iter().find(|member| !known.insert(member.as_str())) {
        return plan_err!("Attempted to create ENUM type with duplicate value {twice}");
    }
    if members.is_empty() {
        return not_impl_err!("an ENUM without members");
    }
    Ok(enums::data_type(members))
}

/// The name of an ENUM: `ENUM('a', 'b')`.
pub(super) fn name(members: &[String]) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("'{}'", member.replace('\'', "''"))).collect();
    format!("ENUM({})", members.join(", "))
}

/// The positions of values, NULL for NULLs.
pub(super) fn positions(array: &ArrayRef) -> Result<UInt32Array> {
    match enums::positions(array) {
        Some(positions) => Ok(positions),
        None => internal_err!("{} is no ENUM", array.data_type()),
    }
}

/// The texts of values.
///
/// # Errors
/// A position without a member.
pub(super) fn texts(array: &ArrayRef) -> Result<StringArray> {
    let Some(members) = members(array.data_type()) else { return internal_err!("{} is no ENUM", array.data_type()) };
    let text = |position: u32| match members.get(position as usize) {
        Some(member) => Ok(member.as_str()),
        None => exec_err!("an ENUM of {} members has no member {position}", members.len()),
    };
    positions(array)?.iter().map(|position| position.map(text).transpose()).collect()
}

/// The common type of two types that contain ENUM values: texts for different ENUMs. `None`: there is none, or neither contains any.
pub(super) fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    (has_enums(left) || has_enums(right)).then(|| unified(left, right)).flatten()
}

fn unified(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Dictionary, FixedSizeList, List, Map, Null, Struct};
    let field = |left: &FieldRef, right: &FieldRef| {
        let ty = unified(left.data_type(), right.data_type())?;
        Some(Arc::new(left.as_ref().clone().with_data_type(ty)))
    };
    let is_text_like = |ty: &DataType| is_enum(ty) || is_text(ty);
    Some(match (left, right) {
        (left, right) if left == right => left.clone(),
        (Null, other) | (other, Null) => other.clone(),
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => return unified(value, other),
        (left, right) if is_text_like(left) && is_text_like(right) => DataType::Utf8,
        (left, right) if !has_enums(left) && !has_enums(right) => return types::common(left, right),
        (left, right) if is_enum(left) || is_enum(right) => return None,
        (List(left), List(right)) => List(field(left, right)?),
        (FixedSizeList(left, length), FixedSizeList(right, other)) if length == other => {
            FixedSizeList(field(left, right)?, *length)
        }
        (Map(left, sorted), Map(right, _)) => Map(field(left, right)?, *sorted),
        (Struct(left), Struct(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right);
            let same = |(left, right): (&FieldRef, &FieldRef)| {
                left.name().eq_ignore_ascii_case(right.name()).then(|| field(left, right)).flatten()
            };
            Struct(pairs.map(same).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// Replaces both sides of a comparison by positions, if they belong to one ENUM.
pub(super) fn positioned(left: Expr, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let ty = left.get_type(schema)?;
    match is_enum(&ty) && right.get_type(schema)? == ty {
        true => Ok((casts::position(left), casts::position(right))),
        false => Ok((left, right)),
    }
}

/// Refuses field access to ENUM values, which are structs internally.
pub(super) fn check_access(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    match (call.func.name(), call.args.as_slice()) {
        ("get_field", [of, ..]) => match of.get_type(schema)? {
            ty if is_enum(&ty) => plan_err!("Cannot extract a field of a value of type {}", type_name(&ty)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Refuses unnesting the fields of ENUM values.
pub(super) fn check_unnest(unnest: &Unnest) -> Result<()> {
    let fields = unnest.struct_type_columns.iter().map(|&column| unnest.input.schema().field(column));
    match fields.into_iter().find(|field| is_enum(field.data_type())) {
        Some(field) => plan_err!("unnest of a value of type {}", type_name(field.data_type())),
        None => Ok(()),
    }
}

/// The argument types that a function gets for these types: ENUM values unchanged, or as texts.
pub(super) fn taken(function: &str, types: &[DataType]) -> Vec<DataType> {
    let is_mixed = joins_lists(function) && own_casts::are_mixed(types);
    let taken = |ty: &DataType| match ty {
        ty if is_enum(ty) && !are_taken_by(function) => DataType::Utf8,
        ty if is_mixed => outside::without_enums(ty),
        ty => ty.clone(),
    };
    types.iter().map(taken).collect()
}

/// Whether a function searches values in lists, or makes lists or texts of them.
fn joins_lists(function: &str) -> bool {
    matches!(
        function,
        "list_contains"
            | "list_position"
            | "array_append"
            | "array_prepend"
            | "array_concat"
            | "array_to_string"
            | "list_has_any"
            | "list_has_all"
            | "array_has_any"
            | "array_has_all"
            | "array_intersect"
            | "list_intersect"
    )
}

/// Refuses calls with values of different ENUMs, which DataFusion would consider as one type, unless they become separate parts, or are cast later.
pub(super) fn check_arguments(function: &str, types: &[DataType]) -> Result<()> {
    let is_cast =
        matches!(function, "coalesce" | "greatest" | "least" | "nullif" | "make_array" | "concat" | "concat_ws");
    let has_parts = matches!(
        function,
        "named_struct"
            | "struct"
            | "struct_insert"
            | "map"
            | "make_map"
            | "map_from_arrays"
            | "map_of_lists"
            | "map_element"
    );
    let found: Vec<DataType> = types.iter().flat_map(own_casts::enums_in).collect();
    match found.iter().find(|ty| **ty != found[0]) {
        Some(other) if !is_cast && !has_parts => plan_err!(
            "{function} of values of {} and {}: an explicit cast is required",
            type_name(&found[0]),
            type_name(other)
        ),
        _ => Ok(()),
    }
}

/// Whether a function accepts ENUM values; others get their texts.
fn are_taken_by(function: &str) -> bool {
    matches!(
        function,
        "coalesce"
            | "greatest"
            | "least"
            | "nullif"
            | "nvl2"
            | "make_array"
            | "make_list"
            | "named_struct"
            | "struct"
            | "struct_insert"
            | "map"
            | "make_map"
            | "map_from_arrays"
            | "map_element"
            | "typeof"
            | "arrow_typeof"
            | "get_field"
            | "unnest"
            | "enum_range"
            | "enum_first"
            | "enum_last"
            | "enum_code"
            | "enum_range_boundary"
            | "array_append"
            | "array_prepend"
            | "list_contains"
            | "list_position"
            | "rename_fields"
            | "refuse_cast"
            | "convert_own"
            | "write_text"
            | "enum_position"
    ) || function == kept::NAME
}

/// The type of positions in an ENUM.
pub(super) fn code_type(ty: &DataType) -> DataType {
    match members(ty).map_or(0, |members| members.len()) {
        ..=255 => DataType::UInt8,
        256..=65_535 => DataType::UInt16,
        _ => DataType::UInt32,
    }
}

/// The dictionary type of an ENUM's members, for external readers.
pub(super) fn dictionary_type(ty: &DataType) -> DataType {
    DataType::Dictionary(Box::new(code_type(ty)), Box::new(DataType::Utf8))
}

/// Values as a dictionary array of their members, for external readers.
///
/// # Errors
/// A position without a member.
pub(super) fn dictionary(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(members) = members(array.data_type()) else { return internal_err!("{} is no ENUM", array.data_type()) };
    let values: ArrayRef = Arc::new(StringArray::from(members));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::<UInt32Type>::try_new(positions(array)?, values)?);
    strict_cast(&dictionary, &dictionary_type(array.data_type()))
}

/// Values of the ENUM `to` at these positions.
pub(super) fn of_positions(positions: UInt32Array, to: &DataType) -> Result<ArrayRef> {
    let DataType::Struct(fields) = to else { return internal_err!("{to} is no ENUM") };
    let (rows, nulls) = (positions.len(), positions.nulls().cloned());
    let values = StructArray::try_new_with_length(fields.clone(), vec![Arc::new(positions)], nulls, rows)?;
    Ok(Arc::new(values))
}

/// Texts as values of the ENUM `to`.
///
/// # Errors
/// A text that is no member, unless `try_cast` makes it NULL.
pub(super) fn of_texts(array: &ArrayRef, to: &DataType, try_cast: bool) -> Result<ArrayRef> {
    let Some(members) = members(to) else { return internal_err!("{to} is no ENUM") };
    let known: HashMap<&str, u32> = members.iter().map(String::as_str).zip(0..).collect();
    let texts = strict_cast(array, &DataType::Utf8)?;
    let texts: &StringArray = texts.as_string();
    let position = |text: &str| match known.get(text) {
        None if !try_cast => exec_err!("Could not convert string '{text}' to {}", type_name(to)),
        found => Ok(found.copied()),
    };
    let positions = texts.iter().map(|text| Ok(text.map(position).transpose()?.flatten()));
    of_positions(positions.collect::<Result<UInt32Array>>()?, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn texts_are_members() {
        let members = ["sad".to_string(), "it's".to_string(), "happy".to_string()];
        let mood = data_type(&members).unwrap();
        assert_eq!((type_name(&mood).as_str(), is_enum(&mood)), ("ENUM('sad', 'it''s', 'happy')", true));
        let given: ArrayRef = Arc::new(StringArray::from(vec![Some("happy"), None, Some("sad")]));
        let values = of_texts(&given, &mood, false).unwrap();
        assert_eq!(positions(&values).unwrap(), UInt32Array::from(vec![Some(2), None, Some(0)]));
        assert_eq!(&(Arc::new(texts(&values).unwrap()) as ArrayRef), &given);
        let slice = values.slice(1, 2);
        assert_eq!(texts(&slice).unwrap().iter().collect::<Vec<_>>(), [None, Some("sad")]);
        let other: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        assert!(of_texts(&other, &mood, false).is_err());
        assert!(of_texts(&other, &mood, true).unwrap().is_null(0));
        assert!(texts(&of_positions(UInt32Array::from(vec![3]), &mood).unwrap()).is_err());
        assert!(data_type(&["a".to_string(), "a".to_string()]).is_err() && data_type(&[]).is_err());
        assert!(!is_enum(&DataType::Struct(vec![Field::new("a", DataType::UInt32, true)].into())));
    }
}
