//! A table of the supported forms of Substrait, for documentation.

use std::fmt::Write;

use crate::functions::{AGGREGATES, Extension, OPTIONS, OPTIONS_OF_FUNCTIONS, SCALARS, WINDOWS};

/// A part of Substrait, and notes on its support.
type Entry = (&'static str, &'static str);

const YES: &str = "yes";

const RELATIONS: &[Entry] = &[
    ("read: named table", "yes; names are matched in any case where none is the same"),
    ("read: virtual table", "yes, of literals and of expressions"),
    ("read: local files", "Parquet (file, folder, glob, several files)"),
    ("read: filter, mask", "yes; best-effort filters are ignored; masks of nested fields are refused"),
    ("read: Iceberg, extension table", "no"),
    ("filter", YES),
    ("fetch", "yes; offset and count are literals"),
    ("project", "yes, with window functions"),
    ("sort", "yes; comparison functions are refused"),
    ("aggregate", "yes, with grouping sets, filters, DISTINCT and order; partial phases are refused"),
    ("cross", YES),
    ("join", "inner, outer, left, right, semi, anti and mark joins; single joins are refused"),
    ("hash join, merge join, nested-loop join", "as join; the algorithm is ours to choose"),
    (
        "set",
        "union all, union distinct, minus primary, intersection primary, intersection multiset; others are refused",
    ),
    ("window (consistent partition)", YES),
    ("exchange", "read as its input: how rows are spread is ours to choose"),
    ("reference", YES),
    ("expand, write, DDL, update, extension relations", "no"),
];

const EXPRESSIONS: &[Entry] = &[
    ("literal", "all but struct, list, map and user-defined ones"),
    ("field reference", "of columns, nested struct fields, and columns of outer queries"),
    ("scalar function", "see below"),
    ("window function", "see below; bounds in rows and ranges"),
    ("if-then, switch", YES),
    ("singular or-list, multi or-list", YES),
    ("cast", "yes; to `varchar<n>` and `fixedchar<n>` it cuts, `fixedchar` is not padded"),
    ("subquery: scalar, IN, EXISTS, ANY, ALL", "yes; IN of several columns and UNIQUE are refused"),
    ("dynamic parameter", "yes, with a value bound in the plan"),
    ("nested, lambda", "no"),
];

/// The tables of supported relations, expressions, functions and options, as Markdown.
pub fn conformance() -> String {
    let mut text = String::new();
    entries(&mut text, "Relation", RELATIONS);
    entries(&mut text, "Expression", EXPRESSIONS);
    text.push_str("| Extension | Kind | Functions |\n|---|---|---|\n");
    functions(&mut text, "scalar", SCALARS);
    functions(&mut text, "aggregate", AGGREGATES);
    functions(&mut text, "window", WINDOWS);
    text.push_str("\n| Option of functions | Behaviours that are ours |\n|---|---|\n");
    for (option, values) in OPTIONS {
        let _ = writeln!(text, "| `{option}` | {} |", values.join(", "));
    }
    for (function, option, values) in OPTIONS_OF_FUNCTIONS {
        let _ = writeln!(text, "| `{option}` of `{function}` | {} |", values.join(", "));
    }
    text
}

fn entries(text: &mut String, title: &str, entries: &[Entry]) {
    let _ = writeln!(text, "| {title} | Understood |\n|---|---|");
    for (name, note) in entries {
        let _ = writeln!(text, "| {name} | {note} |");
    }
    text.push('\n');
}

fn functions<T>(text: &mut String, kind: &str, extensions: &[Extension<T>]) {
    for extension in extensions {
        let names: Vec<_> = extension.functions.iter().map(|(name, _)| format!("`{name}`")).collect();
        let _ = writeln!(text, "| `{}` | {kind} | {} |", extension.name, names.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use warpmill::Session;

    use super::conformance;
    use crate::functions::{AGGREGATES, SCALARS, Scalar, WINDOWS};

    const BEGIN: &str = "<!-- conformance -->\n";
    const END: &str = "<!-- /conformance -->";

    /// `WARPMILL_BLESS=1` writes the tables into the documentation.
    #[test]
    fn the_documentation_has_these_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/substrait.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the mark at which the tables begin");
        let (tables, after) = rest.split_once(END).expect("the mark at which the tables end");
        if std::env::var_os("WARPMILL_BLESS").is_some() {
            return std::fs::write(path, [before, BEGIN, &conformance(), END, after].concat()).unwrap();
        }
        assert_eq!(tables, conformance(), "run the test with WARPMILL_BLESS=1");
    }

    #[test]
    fn the_session_has_every_function_that_is_named() {
        let state = Session::new().unwrap().context().state();
        for (name, function) in SCALARS.iter().flat_map(|extension| extension.functions) {
            if let Scalar::Call(function) = function {
                assert!(state.scalar_functions().contains_key(*function), "{name}: {function}");
            }
        }
        for (name, function) in AGGREGATES.iter().flat_map(|extension| extension.functions) {
            for function in [Some(function.function), function.population].into_iter().flatten() {
                assert!(state.aggregate_functions().contains_key(function), "{name}: {function}");
            }
        }
        for (name, function) in WINDOWS.iter().flat_map(|extension| extension.functions) {
            assert!(state.window_functions().contains_key(function.function), "{name}: {}", function.function);
        }
    }
}
