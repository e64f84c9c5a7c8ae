//! Texts of CHECK conditions: the columns that they name.

use std::ops::ControlFlow;

use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitorMut};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::catalog::same;
use crate::dialect::{optionally_quoted, order_operators, plain};
use crate::visit::visit_mut;
use crate::{Error, Result};

/// The parser's limit on expression levels.
const MOST_LEVELS: usize = 10_000;

/// The expression that a text is.
pub(in crate::session) fn parsed(text: &str) -> Result<Expr> {
    let failed =
        |error: datafusion::sql::sqlparser::parser::ParserError| Error::Parse(format!("CHECK ({text}): {error}"));
    let plain = plain(text);
    let parser = Parser::new(&DuckDbDialect {}).with_recursion_limit(MOST_LEVELS).try_with_sql(&plain);
    let mut expr = parser.map_err(failed)?.parse_expr().map_err(failed)?;
    order_operators(&mut expr);
    Ok(expr)
}

/// The part of a compound name that names a column, with its position.
fn column_in<'a>(schema: &Schema, parts: &'a mut [Ident]) -> Option<(usize, &'a mut Ident)> {
    // `column`, `column.field`, `table.column`.
    parts.iter_mut().take(2).find_map(|part| {
        let at = schema.fields().iter().position(|field| same(field.name(), &part.value))?;
        Some((at, part))
    })
}

/// Visits the names of columns.
struct Names<'a, F: FnMut(usize, &mut Ident)> {
    schema: &'a Schema,
    visit: F,
}

impl<F: FnMut(usize, &mut Ident)> VisitorMut for Names<'_, F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let found = match expr {
            Expr::Identifier(name) => column_in(self.schema, std::slice::from_mut(name)),
            Expr::CompoundIdentifier(parts) => column_in(self.schema, parts),
            _ => None,
        };
        if let Some((at, name)) = found {
            (self.visit)(at, name);
        }
        ControlFlow::Continue(())
    }
}

/// The columns that a text names, ascending.
pub(crate) fn columns(text: &str, schema: &Schema) -> Result<Vec<usize>> {
    let mut found = vec![];
    let mut expr = parsed(text)?;
    let _: ControlFlow<()> = visit_mut(&mut expr, &mut Names { schema, visit: |at, _: &mut Ident| found.push(at) });
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The text of an expression with a column of `schema` renamed.
pub(super) fn renamed(text: &str, schema: &Schema, column: usize, name: &str) -> Result<String> {
    let mut expr = parsed(text)?;
    let is_plain = optionally_quoted(name) == name;
    let rename = |at: usize, ident: &mut Ident| {
        if at == column {
            *ident = if is_plain { Ident::new(name) } else { Ident::with_quote('"', name) };
        }
    };
    let _: ControlFlow<()> = visit_mut(&mut expr, &mut Names { schema, visit: rename });
    Ok(expr.to_string())
}

/// Whether an expression has a subquery in it.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    struct Subqueries;
    impl VisitorMut for Subqueries {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut datafusion::sql::sqlparser::ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    visit_mut(&mut expr.clone(), &mut Subqueries).is_break()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    fn schema() -> Schema {
        Schema::new(["a", "B c", "s"].map(|name| Field::new(name, DataType::Int32, true)).to_vec())
    }

    #[test]
    fn columns_are_found() {
        let columns = |text: &str| columns(text, &schema()).unwrap();
        assert_eq!(columns("A > 1 AND \"b C\" < t.s"), [0, 1, 2]);
        assert_eq!(columns("s.x > 1"), [2]);
        assert_eq!(columns("lower('a') = 'b'"), [] as [usize; 0]);
    }

    #[test]
    fn columns_get_other_names() {
        let renamed = |text: &str| renamed(text, &schema(), 0, "x y").unwrap();
        assert_eq!(renamed("a > 0 AND t.a < s"), "\"x y\" > 0 AND t.\"x y\" < s");
        assert_eq!(renamed("s > 'a'"), "s > 'a'");
        assert_eq!(super::renamed("a > 0", &schema(), 0, "z").unwrap(), "z > 0");
    }

    #[test]
    fn subqueries_are_seen() {
        assert!(has_subquery(&parsed("a > (SELECT 1)").unwrap()));
        assert!(has_subquery(&parsed("a IN (SELECT 1)").unwrap()));
        assert!(!has_subquery(&parsed("a IN (1, 2)").unwrap()));
    }
}
