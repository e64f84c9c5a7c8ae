//! Finds the common table expressions that have to run once.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, ObjectName, ObjectNamePart, Query, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::walk;
use crate::visit::{visit_expressions, visit_relations};

/// The name of the brackets, which no text has.
const NAME: &str = "$ once";

/// Properties of the functions and tables that a statement names.
pub(crate) trait Names {
    /// Whether the results of a function differ from call to call.
    fn is_volatile(&self, function: &str) -> bool;

    /// Whether a table is a view whose rows differ from run to run.
    fn varies(&self, table: &ObjectName) -> bool;
}

/// Wraps each common table expression that varies and is read several times in a derived table with a reserved alias, which [`is_marked`] knows.
/// Names of the statement are bound.
pub(crate) fn mark(statement: &mut Statement, names: &dyn Names) {
    let _: ControlFlow<()> = walk::statement(statement, &mut Marks { names });
}

/// Whether an alias is the reserved one.
pub(crate) fn is_marked(alias: Option<&TableAlias>) -> bool {
    alias.is_some_and(|alias| alias.name.value == NAME)
}

struct Marks<'a> {
    names: &'a dyn Names,
}

impl VisitorMut for Marks<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        let mut varying: HashSet<String> = HashSet::new();
        for cte in &with.cte_tables {
            if self.varies(&cte.query, &varying) {
                varying.insert(cte.alias.name.value.to_lowercase());
            }
        }
        // Tables that read themselves are planned as recursive queries.
        let recursive = |cte: &Cte| with.recursive && readings(&cte.query, &cte.alias.name.value.to_lowercase()) > 0;
        for cte in with.cte_tables.iter().filter(|cte| recursive(cte)) {
            varying.remove(&cte.alias.name.value.to_lowercase());
        }
        varying.retain(|name| readings(query, name) > 1);
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if varying.contains(&cte.alias.name.value.to_lowercase()) {
                bracket(&mut cte.query);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Marks<'_> {
    /// Whether the rows of a query differ from run to run: it calls a volatile function, or reads a varying table.
    fn varies(&self, query: &Query, varying: &HashSet<String>) -> bool {
        let calls = visit_expressions(query, |expr: &Expr| match expr {
            Expr::Function(call) if last(&call.name).is_some_and(|name| self.names.is_volatile(&name)) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        let reads = visit_relations(query, |name: &ObjectName| match last(name) {
            Some(own) if varying.contains(&own) => ControlFlow::Break(()),
            _ if self.names.varies(name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        calls.is_break() || reads.is_break()
    }
}

/// Wraps a query.
fn bracket(query: &mut Query) {
    let text = format!("SELECT * FROM (SELECT 1) AS \"{NAME}\"");
    let around = Parser::new(&DuckDbDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let body = std::mem::replace(query, *around.expect("this is SQL"));
    let SetExpr::Select(select) = query.body.as_mut() else { unreachable!("{text} is a SELECT") };
    let Some(TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }) = select.from.first_mut() else {
        unreachable!("{text} reads a query")
    };
    **subquery = body;
}

/// How often a query names a table.
fn readings(query: &Query, table: &str) -> usize {
    let mut count = 0;
    let _ = visit_relations(query, |name: &ObjectName| {
        count += usize::from(last(name).as_deref() == Some(table));
        ControlFlow::<()>::Continue(())
    });
    count
}

/// The name of a table or function without a schema.
fn last(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.to_lowercase()),
        _ => None,
    }
}
