//! Functions of regular expressions.
//!
//! DuckDB uses RE2. Rust's `regex` has the same syntax, except for Unicode in classes (`\d`, `\w`, `\s`, `\b`), which are ASCII in RE2, and for
//! options.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;
use regex::{Captures, Regex, RegexBuilder};

use super::own::{Call, Is, Own, Typed, typed};
use super::texts::lists;

pub(super) fn functions() -> Vec<Own> {
    use DataType::{Boolean, Utf8};
    let mut extract = Own::new("regexp_extract", extract_types, extract);
    extract.typed_by = Some(extract_type);
    vec![
        Own::new("regexp_matches", matches_types, |call| matches(call, false)),
        Own::new("regexp_full_match", matches_types, |call| matches(call, true)),
        Own::new("regexp_replace_re2", replace_types, replace),
        extract,
        Own::new("regexp_extract_all", extract_all_types, extract_all),
        Own::new("string_split_regex", split_types, split),
        Own::new(
            "regexp_escape",
            |t| typed(t, &[Is::Text], Utf8),
            |call| call.texts(|row| Ok(call.text(0, row).map(escaped))),
        ),
        Own::new(
            "glob_matches",
            |t| typed(t, &[Is::Text; 2], Boolean),
            |call| {
                call.bools(|row| match Option::zip(call.text(0, row), call.text(1, row)) {
                    None => Ok(None),
                    Some((text, pattern)) => Ok(Some(glob(text.as_bytes(), pattern.as_bytes()))),
                })
            },
        ),
    ]
}

/// Regular expressions by pattern and options, compiled once in a call.
#[derive(Default)]
struct Compiled {
    found: HashMap<(String, String), Option<Regex>>,
}

impl Compiled {
    /// The compiled expression for a pattern and options, and whether the options say that all matches count.
    fn get(&mut self, pattern: &str, options: &str, whole: bool) -> Result<(&Regex, bool)> {
        let (mut builder_options, mut all) = (Options::default(), false);
        for option in options.chars() {
            match option {
                'c' => builder_options.insensitive = false,
                'i' => builder_options.insensitive = true,
                'l' => builder_options.literal = true,
                'm' | 'n' | 'p' => builder_options.dot_all = false,
                's' => builder_options.dot_all = true,
                'g' => all = true,
                ' ' => {}
                other => return exec_err!("Unrecognized Regex option {other}"),
            }
        }
        let key = (pattern.to_string(), options.to_string());
        let entry = self.found.entry(key).or_insert(None);
        if entry.is_none() {
            let pattern = if builder_options.literal { regex::escape(pattern) } else { of_ascii(pattern)? };
            let pattern = if whole { format!(r"\A(?:{pattern})\z") } else { pattern };
            let regex = RegexBuilder::new(&pattern)
                .case_insensitive(builder_options.insensitive)
                .dot_matches_new_line(builder_options.dot_all)
                .build();
            match regex {
                Ok(regex) => *entry = Some(regex),
                Err(error) => return exec_err!("Invalid regular expression {pattern}: {error}"),
            }
        }
        match entry {
            Some(regex) => Ok((regex, all)),
            None => exec_err!("Invalid regular expression {pattern}"),
        }
    }
}

#[derive(Default)]
struct Options {
    insensitive: bool,
    literal: bool,
    dot_all: bool,
}

/// A pattern with RE2's ASCII classes.
fn of_ascii(pattern: &str) -> Result<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let Some(next) = chars.next() else { return exec_err!("Invalid regular expression: trailing \\") };
                let within = |inside: &str, negated: bool| match (in_class, negated) {
                    (true, false) => inside.to_string(),
                    (true, true) => format!("[^{inside}]"),
                    (false, false) => format!("[{inside}]"),
                    (false, true) => format!("[^{inside}]"),
                };
                match next {
                    'd' => out.push_str(&within("0-9", false)),
                    'D' => out.push_str(&within("0-9", true)),
                    'w' => out.push_str(&within("0-9A-Za-z_", false)),
                    'W' => out.push_str(&within("0-9A-Za-z_", true)),
                    's' => out.push_str(&within(r"\t\n\f\r ", false)),
                    'S' => out.push_str(&within(r"\t\n\f\r ", true)),
                    'b' if !in_class => out.push_str(r"(?-u:\b)"),
                    'B' if !in_class => return not_impl_err!("\\B in a regular expression"),
                    // RE2 supports some escapes that Rust does not, and vice versa.
                    'C' | 'Q' | 'E' | 'G' | 'K' | 'R' | 'X' | 'Z' | 'u' | 'U' | '<' | '>' | '0'..='9' => {
                        return exec_err!("Invalid regular expression: \\{next} is not supported");
                    }
                    other => out.extend(['\\', other]),
                }
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                // A bracket at the beginning of a class is a literal character.
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str(r"\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                let name: String = std::iter::once('[').chain(chars.by_ref().take_while(|c| *c != ']')).collect();
                out.push_str(&name);
                out.push(']');
            }
            '[' => out.push_str(r"\["),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Operators of sets, which RE2 has not.
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str(r"\-"),
            c => out.push(c),
        }
    }
    Ok(out)
}

fn matches_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Text; 3];
    matches!(types.len(), 2 | 3).then(|| typed(types, &kinds[..types.len()], DataType::Boolean))?
}

fn matches(call: &Call, whole: bool) -> Result<ArrayRef> {
    let mut compiled = Compiled::default();
    let rows = (0..call.rows).map(|row| {
        if !call.all(row) {
            return Ok(None);
        }
        let (Some(text), Some(pattern)) = (call.text(0, row), call.text(1, row)) else { return Ok(None) };
        let (regex, _) = compiled.get(pattern, call.text(2, row).unwrap_or(""), whole)?;
        Ok(Some(regex.is_match(text)))
    });
    Ok(Arc::new(rows.collect::<Result<arrow::array::BooleanArray>>()?))
}

fn replace_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Text; 4];
    matches!(types.len(), 3 | 4).then(|| typed(types, &kinds[..types.len()], DataType::Utf8))?
}

/// Replaces the first match, or all, by a text in which `\1` is the first group.
fn replace(call: &Call) -> Result<ArrayRef> {
    let mut compiled = Compiled::default();
    let rows = (0..call.rows).map(|row| {
        if !call.all(row) {
            return Ok(None);
        }
        let (Some(text), Some(pattern), Some(by)) = (call.text(0, row), call.text(1, row), call.text(2, row)) else {
            return Ok(None);
        };
        let (regex, all) = compiled.get(pattern, call.text(3, row).unwrap_or(""), false)?;
        // A reference to a group that is not there: RE2 replaces nothing.
        if by.as_bytes().windows(2).any(|pair| {
            pair[0] == b'\\' && pair[1].is_ascii_digit() && usize::from(pair[1] - b'0') >= regex.captures_len()
        }) {
            return Ok(Some(text.to_string()));
        }
        let limit = usize::from(!all);
        Ok(Some(regex.replacen(text, limit, |found: &Captures<'_>| replacement(found, by)).into_owned()))
    });
    Ok(Arc::new(rows.collect::<Result<StringArray>>()?))
}

fn replacement(found: &Captures<'_>, by: &str) -> String {
    let mut out = String::new();
    let mut chars = by.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    let group = digit.to_digit(10).unwrap_or(0) as usize;
                    out.push_str(found.get(group).map_or("", |part| part.as_str()));
                }
                Some(other) => out.push(other),
                None => {}
            },
            (c, false) => out.push(c),
        }
    }
    out
}

fn extract_types(types: &[DataType]) -> Option<Typed> {
    use DataType::Utf8;
    match types {
        [_, _] => typed(types, &[Is::Text; 2], Utf8),
        [_, _, DataType::List(_)] => typed(types, &[Is::Text, Is::Text, Is::Texts], Utf8),
        [_, _, _] => typed(types, &[Is::Text, Is::Text, Is::Whole], Utf8),
        [_, _, DataType::List(_), _] => typed(types, &[Is::Text, Is::Text, Is::Texts, Is::Text], Utf8),
        [_, _, _, _] => typed(types, &[Is::Text, Is::Text, Is::Whole, Is::Text], Utf8),
        _ => None,
    }
}

/// A struct, if names of groups are given.
fn extract_type(args: &ReturnFieldArgs<'_>) -> Result<Option<DataType>> {
    if !matches!(args.arg_fields.get(2).map(|field| field.data_type()), Some(DataType::List(_))) {
        return Ok(None);
    }
    let Some(Some(Some(ScalarValue::List(names)))) = args.scalar_arguments.get(2).map(|arg| arg.cloned()).map(Some)
    else {
        return plan_err!("regexp_extract: the names of groups are constant");
    };
    let names = names.value(0);
    let names = arrow::compute::cast(&names, &DataType::Utf8)?;
    let fields: Fields = names
        .as_string::<i32>()
        .iter()
        .map(|name| Field::new(name.unwrap_or_default(), DataType::Utf8, true))
        .collect();
    Ok(Some(DataType::Struct(fields)))
}

fn extract(call: &Call) -> Result<ArrayRef> {
    let mut compiled = Compiled::default();
    if let DataType::Struct(fields) = &call.to {
        let mut columns: Vec<Vec<Option<String>>> = vec![vec![]; fields.len()];
        for row in 0..call.rows {
            let pair = Option::zip(call.text(0, row), call.text(1, row));
            let found = match pair {
                None => None,
                Some((text, pattern)) => {
                    let (regex, _) = compiled.get(pattern, call.text(3, row).unwrap_or(""), false)?;
                    if fields.len() >= regex.captures_len() {
                        return exec_err!("Not enough group names in regexp_extract");
                    }
                    regex.captures(text)
                }
            };
            for (i, column) in columns.iter_mut().enumerate() {
                let part = found.as_ref().and_then(|found| found.get(i + 1)).map_or("", |part| part.as_str());
                column.push(pair.is_some().then(|| part.to_string()));
            }
        }
        let columns = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef);
        return Ok(Arc::new(StructArray::try_new(fields.clone(), columns.collect(), None)?));
    }
    let rows = (0..call.rows).map(|row| {
        let (Some(text), Some(pattern)) = (call.text(0, row), call.text(1, row)) else { return Ok(None) };
        let group = if call.args.len() > 2 { call.integer(2, row) } else { Some(0) };
        let Some(group) = group else { return Ok(Some(String::new())) };
        let (regex, _) = compiled.get(pattern, call.text(3, row).unwrap_or(""), false)?;
        let group = group_of(group, regex)?;
        let part = regex.captures(text).and_then(|found| found.get(group).map(|part| part.as_str().to_string()));
        Ok(Some(part.unwrap_or_default()))
    });
    Ok(Arc::new(rows.collect::<Result<StringArray>>()?))
}

fn group_of(group: i64, regex: &Regex) -> Result<usize> {
    match usize::try_from(group) {
        Ok(at) if at <= 9 && at < regex.captures_len() => Ok(at),
        _ => exec_err!("Pattern has {} groups. Cannot access group {group}", regex.captures_len() - 1),
    }
}

fn extract_all_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Text, Is::Text, Is::Whole, Is::Text];
    let list = DataType::new_list(DataType::Utf8, true);
    matches!(types.len(), 2..=4).then(|| typed(types, &kinds[..types.len()], list))?
}

fn extract_all(call: &Call) -> Result<ArrayRef> {
    let mut compiled = Compiled::default();
    let mut rows: Vec<Option<Vec<&str>>> = vec![];
    for row in 0..call.rows {
        let (Some(text), Some(pattern), true) = (call.text(0, row), call.text(1, row), call.all(row)) else {
            rows.push(None);
            continue;
        };
        let (regex, _) = compiled.get(pattern, call.text(3, row).unwrap_or(""), false)?;
        let group = group_of(if call.args.len() > 2 { call.integer(2, row).unwrap_or(0) } else { 0 }, regex)?;
        rows.push(Some(
            regex.captures_iter(text).map(|found| found.get(group).map_or("", |part| part.as_str())).collect(),
        ));
    }
    lists(call, |row| rows[row].clone())
}

fn split_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Text; 3];
    let list = DataType::new_list(DataType::Utf8, true);
    matches!(types.len(), 2 | 3).then(|| typed(types, &kinds[..types.len()], list))?
}

fn split(call: &Call) -> Result<ArrayRef> {
    let mut compiled = Compiled::default();
    let mut rows: Vec<Option<Vec<&str>>> = vec![];
    for row in 0..call.rows {
        let (Some(text), Some(pattern), true) = (call.text(0, row), call.text(1, row), call.all(row)) else {
            rows.push(None);
            continue;
        };
        let (regex, _) = compiled.get(pattern, call.text(2, row).unwrap_or(""), false)?;
        if regex.is_match("") {
            return not_impl_err!("string_split_regex with a pattern that matches the empty text");
        }
        rows.push(Some(regex.split(text).collect()));
    }
    lists(call, |row| rows[row].clone())
}

fn escaped(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    text.chars().flat_map(|c| [(!plain(c)).then_some('\\'), Some(c)]).flatten().collect()
}

/// Whether a text matches a pattern of `*`, `?` and `[...]`.
fn glob(text: &[u8], pattern: &[u8]) -> bool {
    let Some((&first, rest)) = pattern.split_first() else { return text.is_empty() };
    match first {
        b'*' => (0..=text.len()).any(|skipped| glob(&text[skipped..], rest)),
        b'?' => !text.is_empty() && glob(&text[1..], rest),
        b'[' => {
            let negated = rest.first() == Some(&b'!');
            let inside = &rest[usize::from(negated)..];
            let Some(end) = inside.iter().skip(1).position(|c| *c == b']').map(|at| at + 1) else { return false };
            let Some((&c, text)) = text.split_first() else { return false };
            let set = &inside[..end];
            let mut found = false;
            let mut at = 0;
            while at < set.len() {
                match set.get(at..at + 3) {
                    Some([low, b'-', high]) => (found |= (*low..=*high).contains(&c), at += 3).1,
                    _ => (found |= set[at] == c, at += 1).1,
                }
            }
            found != negated && glob(text, &inside[end + 1..])
        }
        b'\\' if !rest.is_empty() => text.first() == Some(&rest[0]) && glob(&text[1..], &rest[1..]),
        c => text.first() == Some(&c) && glob(&text[1..], rest),
    }
}
