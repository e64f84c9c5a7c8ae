//! The number of copies of common table expressions after the planner has copied each to every place that names it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, ObjectNamePart, Query, Visitor};

use super::{MAX_NODES, visit};
use crate::visit::visit_relations;
use crate::{Error, Result};

/// Refuses a statement whose common table expressions read each other too often. Takes time linear in the text and in its levels of queries.
pub(crate) fn check_ctes(statement: &Statement) -> Result<()> {
    match visit(statement, &mut Readings) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(Error::Limit(format!(
            "the common table expression {name} reads others more than {MAX_NODES} times, which is the limit: make a table of one that is \
             named often"
        ))),
    }
}

/// Counts, in every query, how often its common table expressions read each other.
struct Readings;

impl Visitor for Readings {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        let mut readings: HashMap<String, u64> = HashMap::new();
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let mut count = 1u64;
            let _ = visit_relations(&cte.query, |name: &ast::ObjectName| {
                if let [ObjectNamePart::Identifier(name)] = name.0.as_slice() {
                    count = count.saturating_add(readings.get(&name.value.to_lowercase()).copied().unwrap_or(0));
                }
                ControlFlow::<()>::Continue(())
            });
            if count > MAX_NODES {
                return ControlFlow::Break(cte.alias.name.value.clone());
            }
            readings.insert(cte.alias.name.value.to_lowercase(), count);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParser;

    fn doubled(levels: usize) -> String {
        let ctes = (1..=levels).map(|at| format!(", c{at} AS (SELECT * FROM c{0} a, C{0} b)", at - 1));
        format!("WITH c0 AS (SELECT 1){} SELECT * FROM c{levels}", ctes.collect::<String>())
    }

    #[test]
    fn what_doubles_is_refused() {
        let check = |sql: &str| check_ctes(&DFParser::parse_sql(sql).unwrap()[0]);
        assert!(check(&doubled(5)).is_ok() && check(&doubled(60)).is_err());
        assert!(check(&format!("SELECT * FROM ({}) x", doubled(26))).is_err());
        for around in ["EXPLAIN {}", "EXPLAIN ANALYZE {}", "COPY ({}) TO 'x.csv'", "CREATE TABLE x AS {}"] {
            let around = |levels| around.replace("{}", &doubled(levels));
            assert!(check(&around(5)).is_ok() && check(&around(60)).is_err(), "{}", around(1));
        }
    }
}
