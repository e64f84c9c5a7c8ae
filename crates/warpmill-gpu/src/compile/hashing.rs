//! Hashes and column-wise comparison of keys.

use super::cpp::{CType, Value};
use super::generator::Generator;
use super::layout::BuildLayout;

/// An operand for the mask of an open-addressing table.
pub fn slot_mask(g: &mut Generator, build: &BuildLayout) -> String {
    g.params.value(CType::U64, "mask", (build.slots - 1).to_le_bytes().to_vec())
}

/// A `u64` variable with the hash of key values, NULLs included.
pub fn wide_hash(g: &mut Generator, values: &[Value]) -> String {
    let mut hash = "0x9E3779B97F4A7C15ull".to_string();
    for value in values {
        let own = match &value.valid {
            Some(valid) => format!("({valid} ? hash_value({}) : 0x51ull)", value.text),
            None => format!("hash_value({})", value.text),
        };
        hash = g.code.define(CType::U64, "h", format!("hash_mix({hash}, {own})"));
    }
    hash
}

/// A condition: `values` equal stored keys, where NULL equals NULL. `read` returns the element of an array.
pub fn same_keys(arrays: &[(String, Option<String>)], values: &[Value], read: impl Fn(&str) -> String) -> String {
    let same = values.iter().zip(arrays).map(|(value, (data, valid))| {
        let equal = format!("same_value({}, ({}){})", value.text, value.ty.name(), read(data));
        match (&value.valid, valid) {
            (None, None) => equal,
            (own, stored) => {
                let own = own.clone().unwrap_or("true".into());
                let stored = stored.as_ref().map_or("true".into(), |valid| format!("({} != 0)", read(valid)));
                format!("({own} == {stored} && (!{own} || {equal}))")
            }
        }
    });
    same.collect::<Vec<_>>().join(" && ")
}
