//! DESCRIBE and SUMMARIZE of common table expressions, as statements about a query that reads them.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectNamePart, Query, SetExpr, TableFactor, TableWithJoins, VisitorMut, With,
};

use super::walk;
use crate::catalog::{named_statement, same, statement_name};
use crate::{Error, Result};

/// Adds to each `(DESCRIBE name)` in `statement` the common table expression that it describes.
///
/// # Errors
/// As in DuckDB, the query after WITH must not be a DESCRIBE itself.
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    walk::result(walk::statement(statement, &mut Described { around: vec![] }))
}

/// Whether a query consists of `(DESCRIBE ...)` only.
fn is_answer(body: &SetExpr) -> bool {
    let SetExpr::Query(query) = body else { return false };
    let SetExpr::Select(select) = &*query.body else { return false };
    match select.from.as_slice() {
        [TableWithJoins { relation: TableFactor::Table { name, .. }, .. }] => {
            let only = name.0.last().and_then(|part| part.as_ident());
            only.is_some_and(|only| named_statement(&only.value).is_some())
        }
        _ => false,
    }
}

struct Described {
    /// The WITH clauses of the enclosing queries, outermost first.
    around: Vec<Option<With>>,
}

impl Described {
    /// The statement with the common table expression that `sql` names; `None` if it names none.
    fn of_cte(&self, sql: &str) -> Option<String> {
        let (word, source) = sql.split_once(' ')?;
        let source = source.trim();
        let name = source.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(source);
        for (depth, with) in self.around.iter().enumerate().rev() {
            let Some(with) = with else { continue };
            let Some(at) = with.cte_tables.iter().position(|cte| same(&cte.alias.name.value, name)) else { continue };
            let outer = self.around[..depth].iter().flatten();
            let before = outer.flat_map(|with| &with.cte_tables).chain(&with.cte_tables[..=at]);
            let texts: Vec<String> = before.map(ToString::to_string).collect();
            // A common table expression that contains a DESCRIBE would have to be rewritten itself.
            if texts.iter().any(|text| text.contains(&statement_name(""))) {
                return None;
            }
            let recursive = if self.around.iter().flatten().any(|with| with.recursive) { "RECURSIVE " } else { "" };
            return Some(format!("{word} WITH {recursive}{} SELECT * FROM {source}", texts.join(", ")));
        }
        None
    }
}

impl VisitorMut for Described {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<Error>> {
        if query.with.is_some() && is_answer(&query.body) {
            let text = "DESCRIBE with CTE not allowed - wrap the statement in a subquery instead";
            return ControlFlow::Break(Box::new(Error::Parse(text.into())));
        }
        self.around.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<Error>> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<Error>> {
        if let TableFactor::Table { name, .. } = factor
            && let [ObjectNamePart::Identifier(only)] = name.0.as_mut_slice()
            && let Some(sql) = named_statement(&only.value)
            && let Some(of_cte) = self.of_cte(sql)
        {
            *only = Ident::with_quote('"', statement_name(&of_cte));
        }
        ControlFlow::Continue(())
    }
}
