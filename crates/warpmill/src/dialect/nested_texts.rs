//! Texts as lists, structs and maps: `[1, NULL, 'a, b']`, `{name: value}` or `(value, value)`, `{key=value}`.
//!
//! A text is divided at its own level only; parts are texts again, which are read as values of the element's or field's type. White space around parts
//! does not count. Quotes, single or double, keep it, and separators; within them a backslash takes the next character as it is.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, ListArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, exec_err, not_impl_err};

use super::types::type_name;
use super::{casts, library};

/// The texts of `array` as values of a nested type; a text that is none is NULL if `try_cast`.
///
/// # Errors
/// Texts that are no such values, unless `try_cast`.
pub(super) fn read(array: &ArrayRef, to: &DataType, try_cast: bool) -> Result<ArrayRef> {
    let reader = Reader { texts: array.as_string::<i32>(), to, try_cast };
    match to {
        DataType::List(field) => reader.lists(field),
        DataType::FixedSizeList(field, length) => reader.arrays(field, *length),
        DataType::Struct(fields) => reader.structs(fields),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) => reader.maps(parts),
            other => not_impl_err!("texts as maps of {other}"),
        },
        to => casts::of_texts(array, to, try_cast),
    }
}

/// A part of a text as a text; `None`: NULL.
type Part = Option<String>;

struct Reader<'a> {
    texts: &'a StringArray,
    to: &'a DataType,
    try_cast: bool,
}

impl Reader<'_> {
    /// `parse` of each text; NULL for NULL, and for texts that it does not accept if `try_cast`.
    fn rows<T>(&self, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<Option<T>>> {
        let row = |text: Option<&str>| match text.map(|text| (text, parse(text))) {
            Some((text, None)) if !self.try_cast => {
                let to = type_name(self.to);
                exec_err!("the text '{text}' can't be cast to the type {to}")
            }
            found => Ok(found.and_then(|(_, found)| found)),
        };
        self.texts.iter().map(row).collect()
    }

    fn values(&self, parts: Vec<Part>, to: &DataType) -> Result<ArrayRef> {
        read(&(Arc::new(StringArray::from(parts)) as ArrayRef), to, self.try_cast)
    }

    fn lists(&self, field: &FieldRef) -> Result<ArrayRef> {
        let rows = self.rows(list)?;
        let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
        let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.as_ref().map_or(0, Vec::len)));
        let values = self.values(rows.into_iter().flatten().flatten().collect(), field.data_type())?;
        Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, Some(nulls))?))
    }

    fn arrays(&self, field: &FieldRef, length: i32) -> Result<ArrayRef> {
        let size = usize::try_from(length).unwrap_or(0);
        let rows = self.rows(|text| list(text).filter(|parts| parts.len() == size))?;
        let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
        let parts = rows.into_iter().flat_map(|row| row.unwrap_or_else(|| vec![None; size]));
        let values = self.values(parts.collect(), field.data_type())?;
        let count = self.texts.len();
        Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(field), length, values, Some(nulls), count)?))
    }

    fn structs(&self, fields: &Fields) -> Result<ArrayRef> {
        let rows = self.rows(|text| fields_of(text, fields))?;
        let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
        let column = |at: usize| rows.iter().map(|row| row.as_ref().and_then(|row| row[at].clone())).collect();
        let columns = fields.iter().enumerate().map(|(at, field)| self.values(column(at), field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, Some(nulls), rows.len())?))
    }

    fn maps(&self, parts: &Fields) -> Result<ArrayRef> {
        let [key, value] = &**parts else { return not_impl_err!("texts as maps of {parts:?}") };
        let (mut keys, mut values, mut places) = (vec![], vec![], vec![]);
        for row in self.rows(entries)? {
            let begin = keys.len();
            places.push(row.map(|row| {
                let count = row.len();
                row.into_iter().for_each(|(key, value)| {
                    keys.push(Some(key));
                    values.push(value);
                });
                (begin..begin + count).collect()
            }));
        }
        let (keys, values) = (self.values(keys, key.data_type())?, self.values(values, value.data_type())?);
        if keys.null_count() > 0 {
            return exec_err!("a key of a map is no {}", type_name(key.data_type()));
        }
        library::map_of_places(&keys, &values, places, self.to)
    }
}

/// The elements of a list.
fn list(text: &str) -> Option<Vec<Part>> {
    Some(divided(text, ['[', ']'])?.into_iter().map(part).collect())
}

/// The values of a struct's fields: by name, or in order; fields that are not named are NULL.
fn fields_of(text: &str, fields: &Fields) -> Option<Vec<Part>> {
    let mut found = vec![None; fields.len()];
    if let Some(values) = divided(text, ['(', ')']) {
        if values.len() > fields.len() {
            return None;
        }
        values.into_iter().enumerate().for_each(|(at, value)| found[at] = part(value));
        return Some(found);
    }
    for field in divided(text, ['{', '}'])? {
        let at = *places(field, ':')?.first()?;
        let name = part(&field[..at])?;
        found[fields.iter().position(|field| *field.name() == name)?] = part(&field[at + 1..]);
    }
    Some(found)
}

/// The entries of a map, whose keys differ.
fn entries(text: &str) -> Option<Vec<(String, Part)>> {
    let mut known = HashSet::new();
    let entry = |entry: &str| {
        let at = *places(entry, '=')?.first()?;
        let key = part(&entry[..at])?;
        known.insert(key.clone()).then(|| (key, part(&entry[at + 1..])))
    };
    divided(text, ['{', '}'])?.into_iter().map(entry).collect()
}

/// The parts of a text in brackets, between commas.
fn divided(text: &str, [open, close]: [char; 2]) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix(open)?.strip_suffix(close)?;
    let commas = places(inner, ',')?;
    if inner.trim().is_empty() {
        return Some(vec![]);
    }
    let begins = std::iter::once(0).chain(commas.iter().map(|at| at + 1));
    let ends = commas.iter().copied().chain([inner.len()]);
    Some(begins.zip(ends).map(|(begin, end)| &inner[begin..end]).collect())
}

/// The places of `wanted` outside of quotes and brackets; `None` if one of these does not end.
fn places(text: &str, wanted: char) -> Option<Vec<usize>> {
    let (mut found, mut closing, mut quote) = (vec![], vec![], None);
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match (quote, c) {
            (Some(_), '\\') => drop(characters.next()),
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => closing.push(']'),
            (None, '{') => closing.push('}'),
            (None, '(') => closing.push(')'),
            (None, ']' | '}' | ')') => {
                closing.pop().filter(|open| *open == c)?;
            }
            (None, c) if c == wanted && closing.is_empty() => found.push(at),
            (None, _) => {}
        }
    }
    (quote.is_none() && closing.is_empty()).then_some(found)
}

/// A part without the quotes of its own level; `None`: NULL.
fn part(text: &str) -> Part {
    let text = text.trim();
    if text.eq_ignore_ascii_case("null") {
        return None;
    }
    let (mut out, mut depth, mut quote) = (String::with_capacity(text.len()), 0_usize, None);
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        let is_kept = match (quote, c) {
            (Some(_), '\\') => {
                if depth > 0 {
                    out.push(c);
                }
                out.extend(characters.next());
                false
            }
            (Some(open), c) if c == open => {
                quote = None;
                depth > 0
            }
            (Some(_), _) => true,
            (None, '\'' | '"') => {
                quote = Some(c);
                depth > 0
            }
            (None, c) => {
                depth += usize::from(matches!(c, '[' | '{' | '('));
                depth -= usize::from(matches!(c, ']' | '}' | ')')).min(depth);
                true
            }
        };
        if is_kept {
            out.push(c);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists_of(text: &str) -> Option<Vec<Part>> {
        list(text)
    }

    #[test]
    fn lists_are_divided_at_their_own_level() {
        let parts = |texts: &[&str]| Some(texts.iter().map(|text| Some((*text).to_string())).collect::<Vec<_>>());
        assert_eq!(lists_of(" [ a b , [c, ']'], {d: 'e,f'} ] "), parts(&["a b", "[c, ']']", "{d: 'e,f'}"]));
        assert_eq!(
            lists_of(r#"['it''s', 'it\'s', "a"b, ' x ', 'null']"#),
            parts(&["its", "it's", "ab", " x ", "null"])
        );
        assert_eq!(lists_of(r"[a\,b]"), parts(&[r"a\", "b"]));
        assert_eq!(lists_of("[,]"), parts(&["", ""]));
        assert_eq!(lists_of("[ ]"), Some(vec![]));
        assert_eq!(lists_of("[null, NULL]"), Some(vec![None, None]));
        for wrong in ["", "1", "[1", "[1]]", "{1}", "[a'b]", "[(1]", "[(1])", "é"] {
            assert_eq!(lists_of(wrong), None, "{wrong}");
        }
    }
}
