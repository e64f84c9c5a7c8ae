//! The byte form of a dictionary: `entries: u32`, `entries + 1` offsets (u32) into the bytes that follow, the bytes.

use crate::{Dictionary, Result, segment::bytes::corrupt};

/// The bytes of `dictionary`.
pub(crate) fn dictionary_to_bytes(dictionary: &Dictionary) -> Vec<u8> {
    let mut out = (dictionary.len() as u32).to_le_bytes().to_vec();
    let mut end = 0u32;
    out.extend_from_slice(&end.to_le_bytes());
    for value in dictionary.iter() {
        end += value.len() as u32;
        out.extend_from_slice(&end.to_le_bytes());
    }
    dictionary.iter().for_each(|value| out.extend_from_slice(value.as_bytes()));
    out
}

/// The dictionary of `bytes`, everything checked: offsets, UTF-8, strictly ascending order.
pub(crate) fn dictionary_from_bytes(bytes: &[u8]) -> Result<Dictionary> {
    let word = |i: usize| Some(u32::from_le_bytes(bytes.get(4 * i..4 * i + 4)?.try_into().ok()?) as usize);
    let parse = || {
        let entries = word(0)?;
        let text = std::str::from_utf8(bytes.get(4 * (entries + 2)..)?).ok()?;
        let mut values = Vec::with_capacity(entries);
        for i in 0..entries {
            values.push(text.get(word(1 + i)?..word(2 + i)?)?);
        }
        (word(1)? == 0 && word(1 + entries)? == text.len() && values.is_sorted_by(|a, b| a < b)).then_some(values)
    };
    Ok(Dictionary::from_sorted(parse().ok_or_else(|| corrupt("malformed dictionary"))?))
}
