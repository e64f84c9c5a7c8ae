//! Changes among the CTEs of a statement, as `WITH new AS (INSERT INTO t ... RETURNING id) SELECT ... FROM new`: they run one after the other, each
//! seeing what those before it have done, and the statement after them. All of it is one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Cte, Insert, Query as QueryAst, SetExpr, Statement, With};

use super::target::quoted;
use crate::session::{QueryResult, Session, returning};
use crate::{Error, Result, ScalarValue};

/// The beginnings of statements that change rows.
const CHANGES: [&str; 4] = ["insert into ", "update ", "delete from ", "merge into "];

/// The rows of changes under names of the session, until dropped.
struct Rows<'a> {
    session: &'a Session,
    names: Vec<String>,
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = self.session.deregister(name) {
                tracing::debug!(%error, "the rows of a change were forgotten already");
            }
        }
    }
}

impl Rows<'_> {
    /// A query of the rows of `result`, which CTE `cte` has returned.
    fn query(&mut self, cte: &Cte, result: QueryResult) -> Result<Box<QueryAst>> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("rows of {} {}", cte.alias.name.value, MADE.fetch_add(1, Ordering::Relaxed));
        let table = MemTable::try_new(result.schema, vec![result.batches])?;
        self.session.register_provider(&quoted(&name), Arc::new(table))?;
        let text = format!("SELECT * FROM {}", quoted(&name));
        self.names.push(quoted(&name));
        match self.session.parsed(&text)? {
            Some(Statement::Query(query)) => Ok(query),
            _ => Err(Error::Internal(format!("{text} is a query"))),
        }
    }
}

impl Session {
    /// Runs a statement with changes among its CTEs; `None`: it has none.
    pub(in crate::session) async fn with_changes(
        &self,
        sql: &str,
        params: &[ScalarValue],
    ) -> Result<Option<QueryResult>> {
        let lower = sql.to_ascii_lowercase();
        if !CHANGES.iter().any(|word| lower.contains(word)) {
            return Ok(None);
        }
        let Some(Statement::Query(mut statement)) = self.parsed(sql)? else { return Ok(None) };
        let Some(with) = statement.with.take_if(|with| with.cte_tables.iter().any(|cte| change_of(cte).is_some()))
        else {
            return Ok(None);
        };
        if with.recursive {
            return Err(Error::NotImplemented("changes among recursive CTEs".into()));
        }
        let begins = !self.is_in_transaction();
        if begins {
            self.begin()?;
        }
        let done = self.run_parts(*statement, with, params).await;
        match done {
            Ok(result) if begins => self.commit().await.map(|()| Some(result)),
            Ok(result) => Ok(Some(result)),
            Err(error) => {
                if begins {
                    self.roll_back()?;
                }
                Err(error)
            }
        }
    }

    /// Runs the changes among the CTEs, and the statement after them.
    async fn run_parts(&self, mut statement: QueryAst, with: With, params: &[ScalarValue]) -> Result<QueryResult> {
        let mut rows = Rows { session: self, names: vec![] };
        let mut before = With { cte_tables: vec![], ..with.clone() };
        for mut cte in with.cte_tables {
            let Some(change) = change_of(&cte) else {
                before.cte_tables.push(cte);
                continue;
            };
            let text = match (before.cte_tables.is_empty(), change) {
                (true, change) => change.to_string(),
                (false, Statement::Insert(insert)) => with_ctes(insert.clone(), &before)?,
                (false, change) => format!("{before} {change}"),
            };
            let result = self.run_part(&text, params).await?;
            // Without RETURNING, it has no columns that anybody could name.
            if returning::split(&text).1.is_some() {
                cte.query = rows.query(&cte, result)?;
                before.cte_tables.push(cte);
            }
        }
        let text = match (&*statement.body, before.cte_tables.is_empty()) {
            (SetExpr::Insert(Statement::Insert(insert)), false) => with_ctes(insert.clone(), &before)?,
            (_, true) => statement.to_string(),
            (_, false) => {
                statement.with = Some(before);
                statement.to_string()
            }
        };
        self.run_part(&text, params).await
    }

    /// Runs a statement within another one.
    async fn run_part(&self, sql: &str, params: &[ScalarValue]) -> Result<QueryResult> {
        let query = self.inner.running.start();
        Box::pin(self.run_statement(sql, params, &query)).await
    }
}

/// The statement that a CTE is, if that changes rows.
fn change_of(cte: &Cte) -> Option<&Statement> {
    match &*cte.query.body {
        SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) | SetExpr::Merge(change) => {
            Some(change)
        }
        _ => None,
    }
}

/// The text of an INSERT whose query has these CTEs before its own.
fn with_ctes(mut insert: Insert, before: &With) -> Result<String> {
    let Some(source) = &mut insert.source else {
        return Err(Error::NotImplemented(format!("CTEs before {insert}")));
    };
    match &mut source.with {
        Some(own) => drop(own.cte_tables.splice(0..0, before.cte_tables.iter().cloned())),
        none => *none = Some(before.clone()),
    }
    Ok(insert.to_string())
}
