//! Rewrites `read_csv('file.csv')` and similar functions to the files that they read: a quoted path is a table.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, DictionaryField, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias,
    TableFactor, UnaryOperator, Value, VisitorMut,
};

use super::walk;
use crate::catalog::reading::{Call, Given};
use crate::catalog::{is_told, statement_name};
use crate::{Error, Result};

/// Replaces the functions that read files in `statement`.
///
/// # Errors
/// An argument that is not constant.
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    walk::result(walk::statement(statement, &mut Readers))
}

struct Readers;

impl VisitorMut for Readers {
    type Break = Box<Error>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        let TableFactor::Table { name, args, alias, .. } = factor else { return ControlFlow::Continue(()) };
        let ([part], Some(given)) = (name.0.as_slice(), args.as_ref()) else { return ControlFlow::Continue(()) };
        let Some(function) = part.as_ident().map(|ident| ident.value.to_lowercase()) else {
            return ControlFlow::Continue(());
        };
        if is_told(&function) && given.args.is_empty() {
            let parts = ["information_schema", function.as_str()].map(|part| Ident::with_quote('"', part));
            *name = ObjectName::from(parts.to_vec());
            *args = None;
            return ControlFlow::Continue(());
        }
        if function == "pragma_table_info" {
            return match one_text(&given.args) {
                Some(table) => {
                    let called = Ident::with_quote('"', function);
                    alias.get_or_insert(TableAlias { explicit: true, name: called, columns: vec![], at: None });
                    *name =
                        ObjectName::from(vec![Ident::with_quote('"', statement_name(&format!("table_info {table}")))]);
                    *args = None;
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Break(Box::new(Error::Plan("pragma_table_info takes the name of a table".into()))),
            };
        }
        if !is_reader(&function) {
            return ControlFlow::Continue(());
        }
        match table(&function, &given.args) {
            Ok(table) => {
                if table.starts_with('\u{1}') && alias.is_none() {
                    let name = Ident::with_quote('"', function);
                    *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
                }
                *name = ObjectName::from(vec![Ident::with_quote('"', table)]);
                *args = None;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// The text that is the only argument.
fn one_text(args: &[FunctionArg]) -> Option<String> {
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = args else { return None };
    match &value.value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}

fn is_reader(function: &str) -> bool {
    extensions(function).is_some() || matches!(function, "glob" | "read_text" | "read_blob")
}

/// The extensions of files that a function reads.
fn extensions(function: &str) -> Option<&'static [&'static str]> {
    Some(match function {
        "read_csv" | "read_csv_auto" => &["csv", "tsv"],
        "read_json" | "read_json_auto" | "read_ndjson" | "read_ndjson_auto" | "read_json_objects" => {
            &["json", "ndjson", "jsonl"]
        }
        "read_parquet" | "parquet_scan" => &["parquet"],
        _ => return None,
    })
}

/// The table name of a call: a path, or the text of the call.
fn table(function: &str, args: &[FunctionArg]) -> Result<String> {
    let refused = |what: &dyn std::fmt::Display| Err(Error::NotImplemented(format!("{function}: {what}")));
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(first)), options @ ..] = args else {
        return refused(&"its first argument is a path, or a list of paths");
    };
    let paths = match value(first) {
        Some(Given::One(path)) => vec![path],
        Some(Given::List(paths)) if !paths.is_empty() => paths,
        _ => return refused(&format!("{first} is no path, and no list of paths")),
    };
    if let ([path], [], Some(extensions)) = (&paths[..], options, extensions(function)) {
        let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
        if extensions.contains(&extension.as_str()) && (extension != "json" || function != "read_ndjson") {
            return Ok(path.clone());
        }
        if path.contains("://") || function == "read_json_objects" {
            return refused(&format!("{path}, whose name does not end with .{}", extensions.join(" or .")));
        }
    }
    let mut given = vec![];
    for option in options {
        let (name, arg) = match option {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(arg), .. }
            | FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(arg), .. } => {
                (name, arg)
            }
            // The parser takes `name = value` for a comparison.
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) => {
                match &**left {
                    Expr::Identifier(name) => (name, &**right),
                    other => return refused(&format!("the option {other}")),
                }
            }
            other => return refused(&format!("the argument {other}")),
        };
        let Some(value) = value(arg) else { return refused(&format!("{name} = {arg}, which is no constant")) };
        given.push((name.value.to_lowercase(), value));
    }
    Ok(Call { function: function.to_string(), paths, options: given }.name())
}

/// A constant.
fn value(expr: &Expr) -> Option<Given> {
    let one = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text.clone()),
            Value::Number(number, _) => Some(number.clone()),
            Value::Boolean(value) => Some(value.to_string()),
            _ => None,
        },
        Expr::Identifier(word) if word.quote_style.is_none() => Some(word.value.clone()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{expr}")),
        _ => None,
    };
    Some(match expr {
        Expr::Array(Array { elem, .. }) => Given::List(elem.iter().map(one).collect::<Option<_>>()?),
        Expr::Dictionary(fields) => {
            let field = |field: &DictionaryField| Some((field.key.value.clone(), one(&field.value)?));
            Given::Map(fields.iter().map(field).collect::<Option<_>>()?)
        }
        one_of => Given::One(one(one_of)?),
    })
}
