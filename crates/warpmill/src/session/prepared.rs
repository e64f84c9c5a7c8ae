//! PREPARE of statements that change rows: the session keeps their texts, and EXECUTE runs these with its values as parameters.

use datafusion::common::DFSchema;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Deallocate, Execute, Expr, LogicalPlan, Statement as PlanStatement};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::statements::Taken;
use super::turns::{begins_with, may_have_changes};
use super::{QueryResult, Session, returning};
use crate::plan_cache::normalized;
use crate::{Error, Result, ScalarValue};

/// A prepared statement that changes rows.
#[derive(Debug, Clone)]
pub(super) struct PreparedChange {
    sql: String,
    /// The number of its parameters.
    parameters: usize,
}

impl Session {
    /// `PREPARE name AS statement` for a statement that changes rows and that DataFusion cannot plan.
    pub(super) async fn prepare_statement(&self, sql: &str) -> Result<Taken> {
        let Some((name, text)) = parts(sql) else { return Ok(Taken::No) };
        if !self.is_change(text)? {
            return Ok(Taken::No);
        }
        self.check_change(text).await?;
        let prepared = PreparedChange { sql: text.to_string(), parameters: parameters(text)? };
        self.deallocate_query(name).await;
        self.inner.prepared_changes.lock().insert(name.to_lowercase(), prepared);
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// `DEALLOCATE [PREPARE] name` for such a statement.
    pub(super) fn deallocate(&self, sql: &str) -> Taken {
        let mut words = sql.trim_end_matches([';', ' ']).split(' ').skip(1).peekable();
        words.next_if(|word| word.eq_ignore_ascii_case("prepare"));
        let name = words.next().unwrap_or_default().trim_matches('"').to_lowercase();
        self.inner.prepared.lock().retain(|known, _| known.to_lowercase() != name);
        match self.forget_change(&name) {
            true => Taken::Done(QueryResult::empty()),
            false => Taken::No,
        }
    }

    /// Forgets such a statement; returns whether there was one.
    pub(super) fn forget_change(&self, name: &str) -> bool {
        self.inner.prepared_changes.lock().remove(&name.to_lowercase()).is_some()
    }

    /// The text that an EXECUTE of such a statement runs, and its parameters.
    ///
    /// # Errors
    /// Arguments that are no values, or not as many as the statement has parameters.
    pub(super) fn executed_change(&self, execute: &Execute) -> Result<Option<(String, Vec<ScalarValue>)>> {
        let found = self.inner.prepared_changes.lock().get(&execute.name.to_lowercase()).cloned();
        let Some(PreparedChange { sql, parameters }) = found else { return Ok(None) };
        let values = self.arguments(execute, parameters)?;
        Ok(Some((sql, values)))
    }

    /// The text that an EXECUTE of a prepared query runs, and its parameters, which have their own types; `None` for one whose PREPARE gives types, or
    /// whose parameters have names.
    ///
    /// # Errors
    /// The errors of [`Session::executed_change`] and of [`Session::prepared_text`].
    pub(super) fn executed_query(&self, execute: &Execute) -> Result<Option<(String, Vec<ScalarValue>)>> {
        let Some(sql) = self.prepared_text(&execute.name)? else { return Ok(None) };
        let typed = matches!(self.parsed(&sql)?, Some(Statement::Prepare { data_types, .. }) if !data_types.is_empty());
        let Some((_, text)) = parts(&sql).filter(|_| !typed) else { return Ok(None) };
        let Ok(parameters) = parameters(text) else { return Ok(None) };
        let values = self.arguments(execute, parameters)?;
        Ok(Some((text.to_string(), values)))
    }

    /// The values of an EXECUTE of a statement with this many parameters.
    fn arguments(&self, execute: &Execute, parameters: usize) -> Result<Vec<ScalarValue>> {
        let given = execute.parameters.len();
        if given != parameters {
            return Err(Error::Plan(format!("EXECUTE {}: {given} values for {parameters} parameters", execute.name)));
        }
        let state = self.inner.context.state();
        let context = SimplifyContext::builder().with_config_options(state.config_options().clone()).build();
        let simplifier = ExprSimplifier::new(context);
        let value = |expr: &Expr| {
            let coerced = simplifier.coerce(expr.clone(), &DFSchema::empty())?;
            match simplifier.simplify(coerced)? {
                Expr::Literal(value, _) => Ok(value),
                other => Err(Error::Plan(format!("EXECUTE {}: {other} is no constant", execute.name))),
            }
        };
        execute.parameters.iter().map(value).collect()
    }

    /// Whether a text executes a prepared statement that must not run at the same time as others.
    pub(super) fn executes_alone(&self, sql: &str) -> bool {
        if !begins_with(sql, "execute") {
            return false;
        }
        let text = normalized(sql);
        let name = text.split(' ').nth(1).and_then(|rest| rest.split(['(', ';']).next()).unwrap_or_default();
        let prepared = self.inner.prepared_changes.lock();
        prepared.get(&name.trim_matches('"').to_lowercase()).is_some_and(|change| may_have_changes(&change.sql))
    }

    /// Whether a statement changes rows in a form that DataFusion cannot plan.
    fn is_change(&self, text: &str) -> Result<bool> {
        let words: Vec<String> = text.split(' ').take(2).map(str::to_ascii_lowercase).collect();
        Ok(match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["update" | "delete" | "merge" | "truncate", ..] | ["insert", "or"] => true,
            ["insert", ..] => {
                returning::split(text).1.is_some()
                    || matches!(self.parsed(text)?, Some(Statement::Insert(insert)) if insert.on.is_some())
            }
            ["with", ..] if may_have_changes(text) => match self.parsed(text)? {
                Some(Statement::Query(query)) => {
                    let changes = |body: &SetExpr| {
                        matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
                    };
                    let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
                    changes(&query.body) || ctes.into_iter().any(|cte| changes(&cte.query.body))
                }
                Some(Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_)) => true,
                _ => false,
            },
            _ => false,
        })
    }

    /// Checks that the statement is valid with the current tables.
    async fn check_change(&self, text: &str) -> Result<()> {
        let words: Vec<&str> = text.split(' ').take(6).collect();
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let nothing = vec![ScalarValue::Null; parameters(text)?];
        if !matches!(lower.first().map(String::as_str), Some("update" | "delete" | "merge")) {
            return Ok(());
        }
        let explained = format!("EXPLAIN {text}");
        let words: Vec<&str> = std::iter::once("explain").chain(lower.iter().map(String::as_str)).collect();
        let query = self.inner.running.start();
        if let Some(Taken::Instead(text)) =
            Box::pin(self.change_statement(&explained, &words, &nothing, &query)).await?
        {
            let state = std::sync::Arc::new(self.inner.context.state());
            crate::planning::bound(&state, &text, &nothing).await?;
        }
        Ok(())
    }

    /// Forgets a prepared query of that name.
    async fn deallocate_query(&self, name: &str) {
        let gone = LogicalPlan::Statement(PlanStatement::Deallocate(Deallocate { name: name.to_string() }));
        if let Err(error) = self.inner.context.execute_logical_plan(gone).await {
            tracing::trace!(%error, "there was no prepared query of that name");
        }
        self.inner.prepared.lock().remove(name);
    }
}

/// The name and the statement of `PREPARE name [(types)] AS statement`.
fn parts(sql: &str) -> Option<(&str, &str)> {
    let rest = sql.get("prepare ".len()..)?;
    let (name, mut rest) = rest.split_at(rest.find([' ', '('])?);
    rest = rest.trim_start();
    if rest.starts_with('(') {
        rest = rest[rest.find(')')? + 1..].trim_start();
    }
    let word = rest.get(.."as ".len()).filter(|word| word.eq_ignore_ascii_case("as "))?;
    Some((name.trim_matches('"'), rest[word.len()..].trim_end_matches([';', ' '])))
}

/// The number of parameters of a statement: the greatest number of `$1`, `$2`, ..., or the number of `?`.
fn parameters(sql: &str) -> Result<usize> {
    let tokens = Tokenizer::new(&DuckDbDialect, sql).tokenize().map_err(|error| Error::Parse(error.to_string()))?;
    let (mut most, mut marks) = (0, 0);
    for token in &tokens {
        let Token::Placeholder(name) = token else { continue };
        match name.trim_start_matches('$').parse::<usize>() {
            Ok(number) => most = most.max(number),
            Err(_) if name == "?" => marks += 1,
            Err(_) => return Err(Error::NotImplemented(format!("the parameter {name} of PREPARE: $1, $2, ..."))),
        }
    }
    Ok(most.max(marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_behind_their_names() {
        assert_eq!(parts("PREPARE p AS DELETE FROM t;"), Some(("p", "DELETE FROM t")));
        assert_eq!(parts("prepare \"P\"(INT, TEXT) as UPDATE t SET a = $1"), Some(("P", "UPDATE t SET a = $1")));
        assert_eq!(parts("PREPARE p"), None);
        assert_eq!(parameters("DELETE FROM t WHERE a = $2 OR b = $1 OR c = '$7'").unwrap(), 2);
        assert_eq!(parameters("UPDATE t SET a = ?, b = ?").unwrap(), 2);
        assert!(parameters("DELETE FROM t WHERE a = $name").is_err());
    }
}
