//! Plans from bytes and from JSON.

use datafusion_substrait::substrait::proto::Plan;
use prost::Message;
use serde_json::Value;

use crate::error::{Result, SubstraitError};

/// Parses a serialized `substrait.Plan`.
///
/// # Errors
/// [`SubstraitError::Decode`] for bytes that are not a plan, that are empty, or that nest messages more than 100 deep.
pub fn from_bytes(bytes: &[u8]) -> Result<Plan> {
    let plan = Plan::decode(bytes).map_err(|error| SubstraitError::Decode(error.to_string()))?;
    checked(plan)
}

/// Parses a plan in protobuf's JSON form; accepts snake-case names, and the `extensionUris` of earlier versions.
///
/// # Errors
/// [`SubstraitError::Decode`] for a text that is not a plan.
pub fn from_json(text: &str) -> Result<Plan> {
    let decode = |error: serde_json::Error| SubstraitError::Decode(error.to_string());
    let mut value: Value = serde_json::from_str(text).map_err(decode)?;
    modernize(&mut value);
    checked(serde_json::from_value(value).map_err(decode)?)
}

/// Serializes a plan.
pub fn to_bytes(plan: &Plan) -> Vec<u8> {
    plan.encode_to_vec()
}

/// The JSON form of a plan.
///
/// # Errors
/// [`SubstraitError::Invalid`] for a plan with unknown enumerators.
pub fn to_json(plan: &Plan) -> Result<String> {
    serde_json::to_string_pretty(plan).map_err(|error| SubstraitError::Invalid(error.to_string()))
}

/// Bytes of other messages decode to plans without relations, since protobuf skips unknown fields.
fn checked(plan: Plan) -> Result<Plan> {
    match plan.relations.is_empty() {
        true => Err(SubstraitError::Decode("it has no relations".into())),
        false => Ok(plan),
    }
}

/// Renames fields of earlier versions that say URI instead of URN.
fn modernize(plan: &mut Value) {
    let Some(plan) = plan.as_object_mut() else { return };
    for (old, new) in [("extensionUris", "extensionUrns"), ("extension_uris", "extension_urns")] {
        let Some(mut uris) = plan.remove(old) else { continue };
        for uri in uris.as_array_mut().into_iter().flatten() {
            let names =
                [("extensionUriAnchor", "extensionUrnAnchor"), ("extension_uri_anchor", "extension_urn_anchor")];
            rename(uri, &names);
            rename(uri, &[("uri", "urn")]);
        }
        plan.entry(new).or_insert(uris);
    }
    let names =
        [("extensionUriReference", "extensionUrnReference"), ("extension_uri_reference", "extension_urn_reference")];
    for declaration in plan.get_mut("extensions").and_then(Value::as_array_mut).into_iter().flatten() {
        for mapping in declaration.as_object_mut().into_iter().flat_map(|object| object.values_mut()) {
            rename(mapping, &names);
        }
    }
}

fn rename(value: &mut Value, names: &[(&str, &str)]) {
    let Some(object) = value.as_object_mut() else { return };
    for (old, new) in names {
        if let Some(value) = object.remove(*old) {
            object.insert((*new).to_string(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_of_earlier_versions_keep_their_extensions() {
        let text = r#"{
            "extensionUris": [{"extensionUriAnchor": 1, "uri": "/functions_boolean.yaml"}],
            "extensions": [{"extensionFunction": {"extensionUriReference": 1, "functionAnchor": 2, "name": "not:bool"}}],
            "relations": [{"rel": {"read": {"namedTable": {"names": ["t"]}}}}]
        }"#;
        let plan = from_json(text).unwrap();
        assert_eq!(plan.extension_urns[0].urn, "/functions_boolean.yaml");
        assert_eq!(from_json(&to_json(&plan).unwrap()).unwrap(), plan);
        assert_eq!(from_bytes(&to_bytes(&plan)).unwrap(), plan);
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for text in ["", "[]", "1", "{}", "{\"relations\": 3}", "{\"no such field\": 1}"] {
            assert!(matches!(from_json(text), Err(SubstraitError::Decode(_))), "{text}");
        }
        for bytes in [&b""[..], b"\xff\xff", b"SELECT 1", b"\x1a\x05\x0a"] {
            assert!(matches!(from_bytes(bytes), Err(SubstraitError::Decode(_))), "{bytes:?}");
        }
    }
}
