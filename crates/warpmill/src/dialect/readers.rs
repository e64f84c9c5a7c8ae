//! `read_csv('file.csv')` and the like as the files that they read: a quoted path is a table.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableFactor, Value, VisitMut, VisitorMut,
};

use crate::{Error, Result};

/// Replaces the functions that read files in `statement`.
///
/// # Errors
/// Options, several files, and files whose names do not say that they are of the format.
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    let visited = match statement {
        Statement::Statement(statement) => statement.visit(&mut Readers),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(&mut Readers),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return rewrite(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Readers;

impl VisitorMut for Readers {
    type Break = Box<Error>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        let TableFactor::Table { name, args, .. } = factor else { return ControlFlow::Continue(()) };
        let ([part], Some(given)) = (name.0.as_slice(), args.as_ref()) else { return ControlFlow::Continue(()) };
        let Some(function) = part.as_ident().map(|ident| ident.value.to_lowercase()) else {
            return ControlFlow::Continue(());
        };
        let Some(extensions) = extensions(&function) else { return ControlFlow::Continue(()) };
        match path(&function, &given.args, extensions) {
            Ok(path) => {
                *name = ObjectName::from(vec![Ident::with_quote('"', path)]);
                *args = None;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// The extensions of files that a function reads here.
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

fn path(function: &str, args: &[FunctionArg], extensions: &[&str]) -> Result<String> {
    let refused = |what: String| Err(Error::NotImplemented(format!("{function}: {what}")));
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = args else {
        return refused("one path as a text is supported, without options".into());
    };
    let Value::SingleQuotedString(path) = &value.value else { return refused("its path is a text".into()) };
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
    match extensions.contains(&extension.as_str()) {
        true => Ok(path.clone()),
        false => refused(format!("{path}, whose name does not end with .{}", extensions.join(" or ."))),
    }
}
