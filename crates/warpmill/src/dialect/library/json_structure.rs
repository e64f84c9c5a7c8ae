//! The structure of JSON: types in the place of values.

use serde_json::{Map, Value};

/// The structure of a value: the name of a type, a list of the type of all elements, or types by name.
pub(super) fn structure(value: &Value) -> Value {
    named(read(value))
}

/// A structure in which objects that never have a field are JSON.
fn named(structure: Value) -> Value {
    match structure {
        Value::Object(fields) if fields.is_empty() => Value::String("JSON".to_owned()),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(name, field)| (name, named(field))).collect()),
        Value::Array(elements) => Value::Array(elements.into_iter().map(named).collect()),
        name => name,
    }
}

fn read(value: &Value) -> Value {
    let name = |name: &str| Value::String(name.to_owned());
    match value {
        Value::Null => name("NULL"),
        Value::Bool(_) => name("BOOLEAN"),
        Value::Number(number) if number.is_u64() => name("UBIGINT"),
        Value::Number(number) if number.is_i64() => name("BIGINT"),
        Value::Number(_) => name("DOUBLE"),
        Value::String(_) => name("VARCHAR"),
        Value::Array(elements) => {
            let element = elements.iter().map(read).reduce(common).unwrap_or_else(|| name("NULL"));
            Value::Array(vec![element])
        }
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), read(value))).collect())
        }
    }
}

/// The structure of values of both.
fn common(left: Value, right: Value) -> Value {
    let is_null = |structure: &Value| structure == "NULL";
    let is_whole = |structure: &Value| ["UBIGINT", "BIGINT", "HUGEINT"].iter().any(|name| structure == name);
    let is_number = |structure: &Value| is_whole(structure) || structure == "DOUBLE";
    match (left, right) {
        (left, right) if left == right || is_null(&right) => left,
        (left, right) if is_null(&left) => right,
        (left, right) if is_whole(&left) && is_whole(&right) => Value::String("HUGEINT".to_owned()),
        (left, right) if is_number(&left) && is_number(&right) => Value::String("DOUBLE".to_owned()),
        (Value::Array(left), Value::Array(right)) => {
            Value::Array(left.into_iter().chain(right).reduce(common).into_iter().collect())
        }
        (Value::Object(left), Value::Object(right)) => Value::Object(merged(left, right)),
        _ => Value::String("JSON".to_owned()),
    }
}

fn merged(mut left: Map<String, Value>, right: Map<String, Value>) -> Map<String, Value> {
    for (name, structure) in right {
        let both = match left.get_mut(&name) {
            Some(known) => common(known.take(), structure),
            None => structure,
        };
        left.insert(name, both);
    }
    left
}
