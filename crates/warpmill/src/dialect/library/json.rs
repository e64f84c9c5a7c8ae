//! JSON in texts: paths and their results.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringBuilder, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err, exec_err, not_impl_err};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::json_structure::structure;
use super::json_writer::write;
use super::own::{Call, Is, Own, Typed, text_like, typed, whole_like};

pub(super) fn functions() -> Vec<Own> {
    use DataType::{Boolean, Utf8};
    vec![
        Own::new("json_extract", extract_types, |call| extract(call, false)),
        Own::new("json_extract_string", extract_types, |call| extract(call, true)),
        Own::new(
            "json_value",
            |t| path_types(t, Utf8),
            |call| {
                call.texts(|row| {
                    Ok(found(call, row)?
                        .filter(|value| !value.is_object() && !value.is_array())
                        .map(|value| value.to_string()))
                })
            },
        ),
        Own::new(
            "json_exists",
            |t| path_types(t, Boolean),
            |call| {
                call.bools(|row| match call.all(row) {
                    true => Ok(Some(found(call, row)?.is_some())),
                    false => Ok(None),
                })
            },
        ),
        Own::new(
            "json_array_length",
            |t| own_types(t, DataType::UInt64),
            |call| {
                let rows = (0..call.rows)
                    .map(|row| Ok(found(call, row)?.map(|value| value.as_array().map_or(0, |list| list.len() as u64))));
                Ok(Arc::new(rows.collect::<Result<UInt64Array>>()?))
            },
        ),
        Own::new(
            "json_type",
            |t| own_types(t, Utf8),
            |call| call.texts(|row| Ok(found(call, row)?.as_ref().map(|value| kind(value).to_string()))),
        ),
        Own::new("json_keys", |t| own_types(t, DataType::new_list(Utf8, true)), keys),
        Own::new(
            "json_valid",
            |t| typed(t, &[Is::Text], Boolean),
            |call| {
                call.bools(|row| {
                    Ok(call.text(0, row).map(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()))
                })
            },
        ),
        Own::new(
            "json",
            |t| typed(t, &[Is::Text], Utf8),
            |call| call.texts(|row| call.text(0, row).map(|text| Ok(parsed(text)?.to_string())).transpose()),
        ),
        Own::new(
            "json_structure",
            |t| typed(t, &[Is::Text], Utf8),
            |call| {
                call.texts(|row| call.text(0, row).map(|text| Ok(structure(&parsed(text)?).to_string())).transpose())
            },
        ),
        Own::new(
            "json_pretty",
            |t| typed(t, &[Is::Text], Utf8),
            |call| call.texts(|row| call.text(0, row).map(|text| pretty(&parsed(text)?)).transpose()),
        ),
        Own::new(
            "json_contains",
            |t| typed(t, &[Is::Text; 2], Boolean),
            |call| {
                call.bools(|row| match Option::zip(call.text(0, row), call.text(1, row)) {
                    Some((whole, part)) => Ok(Some(contains(&parsed(whole)?, &parsed(part)?))),
                    None => Ok(None),
                })
            },
        ),
        Own::new(
            "json_merge_patch",
            |t| typed(t, &[Is::Text; 2], Utf8),
            |call| {
                call.texts(|row| match Option::zip(call.text(0, row), call.text(1, row)) {
                    Some((whole, patch)) => {
                        let mut whole = parsed(whole)?;
                        merge(&mut whole, parsed(patch)?);
                        Ok(Some(whole.to_string()))
                    }
                    None => Ok(None),
                })
            },
        ),
        Own::new(
            "json_object_of_lists",
            |t| match t {
                [DataType::List(_), DataType::List(_)] => Some((t.to_vec(), Utf8)),
                _ => None,
            },
            |call| {
                let (keys, values) = (call.args[0].as_list::<i32>(), call.args[1].as_list::<i32>());
                call.texts(|row| {
                    if keys.is_null(row) || values.is_null(row) {
                        return Ok(None);
                    }
                    super::json_writer::object(&keys.value(row), &values.value(row)).map(Some)
                })
            },
        ),
        Own::new("to_json", |t| matches!(t, [_]).then(|| (t.to_vec(), Utf8)), written_or_null),
        Own::new(
            "cast_to_json",
            |t| matches!(t, [_]).then(|| (t.to_vec(), Utf8)),
            |call| {
                call.texts(|row| match call.args[0].data_type() {
                    DataType::Null => Ok(None),
                    _ if call.args[0].is_null(row) => Ok(None),
                    // Unchanged, if it is valid JSON.
                    DataType::Utf8 => {
                        let text = call.text(0, row).unwrap_or_default();
                        parsed(text)?;
                        Ok(Some(text.to_string()))
                    }
                    _ => written(call, 0, row).map(Some),
                })
            },
        ),
        Own::new("json_quote", |t| matches!(t, [_]).then(|| (t.to_vec(), Utf8)), written_or_null),
        Own::new(
            "json_array",
            |t| Some((t.to_vec(), Utf8)),
            |call| {
                call.texts(|row| {
                    let parts = (0..call.args.len()).map(|i| written(call, i, row)).collect::<Result<Vec<_>>>()?;
                    Ok(Some(format!("[{}]", parts.join(","))))
                })
            },
        ),
        Own::new(
            "json_object",
            |t| t.len().is_multiple_of(2).then(|| (keyed(t), Utf8)),
            |call| {
                call.texts(|row| {
                    let mut parts = vec![];
                    for i in (0..call.args.len()).step_by(2) {
                        let Some(key) = call.text(i, row) else { return exec_err!("json_object: a key is NULL") };
                        parts.push(format!("{}:{}", Value::from(key), written(call, i + 1, row)?));
                    }
                    Ok(Some(format!("{{{}}}", parts.join(","))))
                })
            },
        ),
    ]
}

/// Keys are texts.
fn keyed(types: &[DataType]) -> Vec<DataType> {
    types.iter().enumerate().map(|(i, ty)| if i % 2 == 0 { DataType::Utf8 } else { ty.clone() }).collect()
}

/// The argument as JSON; NULL stays NULL.
fn written_or_null(call: &Call) -> Result<ArrayRef> {
    call.texts(|row| match call.args[0].data_type().is_null() || call.args[0].is_null(row) {
        true => Ok(None),
        false => written(call, 0, row).map(Some),
    })
}

fn written(call: &Call, arg: usize, row: usize) -> Result<String> {
    let mut out = String::new();
    write(&call.args[arg], row, &mut out)?;
    Ok(out)
}

fn parsed(text: &str) -> Result<Value> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) => exec_err!("Malformed JSON: {error}. Input: \"{text}\""),
    }
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    /// An index, counted from the end if negative.
    At(i64),
}

/// Parses the steps of `$.a[0]`, of `/a/0`, or of a key alone.
fn steps(path: &str) -> Result<Vec<Step>> {
    if let Some(pointer) = path.strip_prefix('/') {
        let step = |part: &str| match part.parse::<i64>() {
            Ok(at) if at >= 0 => Step::At(at),
            _ => Step::Key(part.replace("~1", "/").replace("~0", "~")),
        };
        return Ok(pointer.split('/').map(step).collect());
    }
    let Some(mut rest) = path.strip_prefix('$') else { return Ok(vec![Step::Key(path.to_string())]) };
    let mut steps = vec![];
    while let Some(first) = rest.chars().next() {
        if rest.contains('*') {
            return not_impl_err!("the JSON path {path}: wildcards");
        }
        let wrong = || exec_err!("Invalid JSON path: {path}");
        match first {
            '.' if rest[1..].starts_with('"') => {
                let Some(end) = rest[2..].find('"') else { return wrong() };
                steps.push(Step::Key(rest[2..2 + end].to_string()));
                rest = &rest[3 + end..];
            }
            '.' => {
                let end = rest[1..].find(['.', '[']).map_or(rest.len(), |end| end + 1);
                if end == 1 {
                    return wrong();
                }
                steps.push(Step::Key(rest[1..end].to_string()));
                rest = &rest[end..];
            }
            '[' => {
                let Some(end) = rest.find(']') else { return wrong() };
                let inside = &rest[1..end];
                let from_end = inside.strip_prefix("#-").map(|n| n.parse::<i64>().map(|n| -n));
                match (from_end.unwrap_or_else(|| inside.parse::<i64>()), inside.trim_matches(['"', '\''])) {
                    (Ok(at), _) => steps.push(Step::At(at)),
                    (Err(_), key) if key.len() + 2 == inside.len() => steps.push(Step::Key(key.to_string())),
                    _ => return wrong(),
                }
                rest = &rest[end + 1..];
            }
            _ => return wrong(),
        }
    }
    Ok(steps)
}

fn walk<'v>(value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match (step, value) {
        (Step::Key(key), Value::Object(object)) => object.get(key),
        // A number in a pointer may be a key.
        (Step::At(at), Value::Object(object)) => object.get(&at.to_string()),
        (Step::At(at), Value::Array(list)) => {
            let at = if *at < 0 {
                list.len().checked_sub(at.unsigned_abs() as usize)?
            } else {
                usize::try_from(*at).ok()?
            };
            list.get(at)
        }
        _ => None,
    })
}

fn path_types(types: &[DataType], to: DataType) -> Option<Typed> {
    typed(types, &[Is::Text; 2], to.clone()).or_else(|| typed(types, &[Is::Text, Is::Whole], to))
}

/// A text alone, or with a path.
fn own_types(types: &[DataType], to: DataType) -> Option<Typed> {
    typed(types, &[Is::Text], to.clone()).or_else(|| path_types(types, to))
}

fn extract_types(types: &[DataType]) -> Option<Typed> {
    use DataType::Utf8;
    match types {
        [json, path] if text_like(json) && (text_like(path) || whole_like(path)) => path_types(types, Utf8),
        types => typed(types, &[Is::Text, Is::Texts], DataType::new_list(Utf8, true)),
    }
}

/// The result of a row's path.
fn found(call: &Call, row: usize) -> Result<Option<Value>> {
    let Some(text) = call.text(0, row) else { return Ok(None) };
    let steps = match call.args.get(1).map(|path| path.data_type()) {
        None => vec![],
        Some(DataType::Int64) => match call.integer(1, row) {
            Some(at) => vec![Step::At(at)],
            None => return Ok(None),
        },
        Some(_) => match call.text(1, row) {
            Some(path) => steps(path)?,
            None => return Ok(None),
        },
    };
    Ok(walk(&parsed(text)?, &steps).cloned())
}

/// A value in lines, indented by four blanks.
fn pretty(value: &Value) -> Result<String> {
    let mut text = vec![];
    let mut writer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    value.serialize(&mut writer).map_err(|error| exec_datafusion_err!("{error}"))?;
    String::from_utf8(text).map_err(|error| exec_datafusion_err!("{error}"))
}

fn shown(value: &Value, as_text: bool) -> Option<String> {
    match value {
        Value::String(text) if as_text => Some(text.clone()),
        Value::Null if as_text => None,
        value => Some(value.to_string()),
    }
}

fn extract(call: &Call, as_text: bool) -> Result<ArrayRef> {
    if !matches!(call.args[1].data_type(), DataType::List(_)) {
        return call.texts(|row| Ok(found(call, row)?.and_then(|value| shown(&value, as_text))));
    }
    let mut builder = ListBuilder::new(StringBuilder::new());
    let paths = call.args[1].as_list::<i32>();
    for row in 0..call.rows {
        let Some(text) = call.text(0, row).filter(|_| paths.is_valid(row)) else {
            builder.append(false);
            continue;
        };
        let value = parsed(text)?;
        for path in paths.value(row).as_string::<i32>().iter() {
            let found = match path {
                Some(path) => walk(&value, &steps(path)?).and_then(|value| shown(value, as_text)),
                None => None,
            };
            builder.values().append_option(found);
        }
        builder.append(true);
    }
    Ok(Arc::new(builder.finish()))
}

fn keys(call: &Call) -> Result<ArrayRef> {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in 0..call.rows {
        let found = found(call, row)?;
        let valid = found.is_some();
        if let Some(Value::Object(object)) = &found {
            object.keys().for_each(|key| builder.values().append_value(key));
        }
        builder.append(valid);
    }
    Ok(Arc::new(builder.finish()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "BOOLEAN",
        Value::Number(number) if number.is_u64() => "UBIGINT",
        Value::Number(number) if number.is_i64() => "BIGINT",
        Value::Number(_) => "DOUBLE",
        Value::String(_) => "VARCHAR",
        Value::Array(_) => "ARRAY",
        Value::Object(_) => "OBJECT",
    }
}

/// Whether a value, or a part of it, contains all of another.
fn contains(whole: &Value, part: &Value) -> bool {
    let here = match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|own| own == value || nested(own, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|value| whole.iter().any(|own| own == value || nested(own, value)))
        }
        (whole, part) => whole == part,
    };
    here || match whole {
        Value::Object(object) => object.values().any(|value| contains(value, part)),
        Value::Array(list) => list.iter().any(|value| contains(value, part)),
        _ => false,
    }
}

fn nested(own: &Value, part: &Value) -> bool {
    (part.is_object() || part.is_array()) && contains(own, part)
}

/// RFC 7396.
fn merge(whole: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *whole = patch;
        return;
    };
    if !whole.is_object() {
        *whole = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(object) = whole {
        for (key, value) in patch {
            match value {
                Value::Null => drop(object.shift_remove(&key)),
                value => merge(object.entry(key).or_insert(Value::Null), value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let key = |name: &str| Step::Key(name.into());
        assert_eq!(steps("$.a[0].\"b c\"").unwrap(), [key("a"), Step::At(0), key("b c")]);
        assert_eq!(steps("/a/0").unwrap(), [key("a"), Step::At(0)]);
        assert_eq!(steps("a.b").unwrap(), [key("a.b")]);
        assert_eq!(steps("$[#-1]").unwrap(), [Step::At(-1)]);
        assert_eq!(steps("$").unwrap(), []);
        for wrong in ["$.", "$[", "$[x]", "$x", "$.*"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
    }
}
