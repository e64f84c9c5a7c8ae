//! The number of different windows of a SELECT: the planner stacks them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, Visitor, WindowType};

use super::{MAX_WINDOWS, visit};
use crate::{Error, Result};

/// Refuses a statement with a SELECT of too many windows. Takes time linear in the text.
pub(crate) fn check_windows(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Windows(vec![HashSet::new()])) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(refusal()),
    }
}

/// The error of too many windows.
pub(super) fn refusal() -> Error {
    Error::Limit(format!(
        "more than {MAX_WINDOWS} different windows are in a SELECT, or above each other, which is the limit: functions over the same window \
         count once"
    ))
}

/// The windows of the queries (their ORDER BY) and SELECTs that are being visited, the innermost last.
struct Windows(Vec<HashSet<WindowType>>);

impl Visitor for Windows {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.0.push(HashSet::new());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.0.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.0.push(HashSet::new());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.0.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let (Expr::Function(call), Some(windows)) = (expr, self.0.last_mut())
            && let Some(window) = &call.over
        {
            windows.insert(window.clone());
            if windows.len() > MAX_WINDOWS {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParser;

    fn over(windows: impl Iterator<Item = usize>) -> String {
        let items = windows.map(|k| format!("sum(i) OVER (ORDER BY i + {k})"));
        format!("SELECT {} FROM t", items.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn different_windows_of_a_select_are_counted() {
        let check = |sql: &str| check_windows(&DFParser::parse_sql(sql).unwrap()[0]);
        assert!(check(&over(0..MAX_WINDOWS)).is_ok());
        assert!(check(&over(0..MAX_WINDOWS + 1)).is_err());
        assert!(check(&format!("SELECT * FROM ({}) AS s", over(0..MAX_WINDOWS + 1))).is_err());
        // Equal windows count once, and each branch is counted separately.
        assert!(check(&over((0..4 * MAX_WINDOWS).map(|k| k % 7))).is_ok());
        let (one, other) = (over(0..400), over(400..800));
        assert!(check(&format!("{one} UNION ALL {other}")).is_ok());
        for around in ["EXPLAIN {}", "COPY ({}) TO 'x.csv'", "CREATE TABLE x AS {}"] {
            assert!(check(&around.replace("{}", &over(0..MAX_WINDOWS))).is_ok());
            assert!(check(&around.replace("{}", &over(0..MAX_WINDOWS + 1))).is_err());
        }
    }

    #[test]
    fn each_query_has_those_of_its_order() {
        let check = |sql: &str| check_windows(&DFParser::parse_sql(sql).unwrap()[0]);
        let ordered = |windows: std::ops::Range<usize>| {
            let items = windows.map(|k| format!("sum(i) OVER (ORDER BY i + {k})"));
            format!("(SELECT i FROM t ORDER BY {})", items.collect::<Vec<_>>().join(", "))
        };
        let (one, other) = (ordered(0..400), ordered(400..800));
        assert!(check(&format!("SELECT * FROM {one} AS a, {other} AS b")).is_ok());
        assert!(check(&format!("SELECT * FROM {one} AS a, {} AS b", ordered(0..MAX_WINDOWS + 1))).is_err());
    }
}
