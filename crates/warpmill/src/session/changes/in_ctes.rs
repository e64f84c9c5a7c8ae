//! Changes among the CTEs of a statement, as in `WITH new AS (INSERT INTO t ... RETURNING id) SELECT ... FROM new`: they run in order, each seeing
//! the effects of those before it, then the statement after them. CTEs that changes read are computed once. All of it is one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Cte, Insert, Query as QueryAst, SetExpr, Statement, With};

use super::target::quoted;
use crate::catalog::{Catalog, same};
use crate::session::turns::may_have_changes;
use crate::session::{QueryResult, Session, returning};
use crate::{Error, Result, ScalarValue};

/// The rows of CTEs under names of the session, until dropped.
struct Rows<'a> {
    session: &'a Session,
    names: Vec<String>,
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = self.session.deregister(name) {
                tracing::debug!(%error, "the rows of a CTE were forgotten already");
            }
        }
    }
}

impl Rows<'_> {
    /// Replaces the query of `cte` by the rows of `result`.
    fn keep(&mut self, mut cte: Cte, result: QueryResult) -> Result<Cte> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("{} {}", cte.alias.name.value, MADE.fetch_add(1, Ordering::Relaxed));
        let table = MemTable::try_new(result.schema, vec![result.batches])?;
        self.session.register_provider(&quoted(&name), Arc::new(table))?;
        let text = format!("SELECT * FROM {}", quoted(&name));
        self.names.push(quoted(&name));
        cte.query = match self.session.parsed(&text)? {
            Some(Statement::Query(query)) => query,
            _ => return Err(Error::Internal(format!("{text} is a query"))),
        };
        Ok(cte)
    }
}

/// A transaction of one statement, which is rolled back when this is dropped.
pub(in crate::session) struct OwnTransaction<'a>(&'a Catalog);

impl<'a> OwnTransaction<'a> {
    /// The transaction that a catalog has.
    pub(in crate::session) fn of(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Drop for OwnTransaction<'_> {
    fn drop(&mut self) {
        // One that was committed is over.
        if let Err(error) = self.0.roll_back() {
            tracing::trace!(%error, "the transaction of a statement has ended");
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
        if !may_have_changes(sql) {
            return Ok(None);
        }
        let Some(Statement::Query(mut statement)) = self.parsed(sql)? else { return Ok(None) };
        let has_changes = statement.with.iter().flat_map(|with| &with.cte_tables).any(|cte| change_of(cte).is_some());
        if let (SetExpr::Insert(change), Some(with), false) = (&*statement.body, &statement.with, has_changes) {
            let text = text_of(change, with)?;
            return self.run_part(&text, params).await.map(Some);
        }
        let Some(with) = statement.with.take_if(|with| with.cte_tables.iter().any(|cte| change_of(cte).is_some()))
        else {
            return Ok(None);
        };
        if with.recursive {
            return Err(Error::NotImplemented("changes among recursive CTEs".into()));
        }
        if self.is_in_transaction() {
            return self.run_parts(*statement, with, params).await.map(Some);
        }
        self.begin_now()?;
        let _own = OwnTransaction::of(&self.inner.catalog);
        let result = self.run_parts(*statement, with, params).await?;
        self.commit_for(&self.inner.running.start()).await?;
        Ok(Some(result))
    }

    /// Runs the changes among the CTEs, and the statement after them.
    async fn run_parts(&self, mut statement: QueryAst, with: With, params: &[ScalarValue]) -> Result<QueryResult> {
        let mut rows = Rows { session: self, names: vec![] };
        let mut before = With { cte_tables: vec![], ..with.clone() };
        let used = used_by_changes(&with.cte_tables);
        for (used, cte) in used.into_iter().zip(with.cte_tables) {
            let Some(change) = change_of(&cte) else {
                if !used {
                    before.cte_tables.push(cte);
                    continue;
                }
                let query = format!("{} SELECT * FROM {}", with_one_more(&before, &cte), cte.alias.name);
                let result = self.run_part(&query, params).await?;
                before.cte_tables.push(rows.keep(cte, result)?);
                continue;
            };
            let text = text_of(change, &with_own(&before, &cte)?)?;
            let result = self.run_part(&text, params).await?;
            // Without RETURNING, it has no columns that a query could name.
            if returning::split(&change.to_string()).1.is_some() {
                before.cte_tables.push(rows.keep(cte, result)?);
            }
        }
        let text = match &*statement.body {
            SetExpr::Insert(change) => text_of(change, &before)?,
            _ => {
                statement.with = Some(before).filter(|before| !before.cte_tables.is_empty());
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

/// For each CTE, whether changes after it may read it, directly or through other CTEs: judged by their texts.
fn used_by_changes(ctes: &[Cte]) -> Vec<bool> {
    let texts: Vec<String> = ctes.iter().map(|cte| cte.query.to_string().to_lowercase()).collect();
    let mut used = vec![false; ctes.len()];
    for at in (0..ctes.len()).rev() {
        let name = ctes[at].alias.name.value.to_lowercase();
        let is_read = |later: usize| change_of(&ctes[later]).is_some() || used[later];
        used[at] = (at + 1..ctes.len()).any(|later| is_read(later) && texts[later].contains(&name));
    }
    used
}

fn with_one_more(before: &With, cte: &Cte) -> With {
    let mut with = before.clone();
    with.cte_tables.push(cte.clone());
    with
}

/// The CTEs visible to a change: those before it, and its own.
///
/// # Errors
/// A CTE name that is used twice; ORDER BY or LIMIT after the change.
fn with_own(before: &With, cte: &Cte) -> Result<With> {
    let query = &cte.query;
    if query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return Err(Error::NotImplemented(format!("ORDER BY and LIMIT of the change {}", cte.alias.name)));
    }
    let mut with = before.clone();
    for own in query.with.iter().flat_map(|own| &own.cte_tables) {
        if with.cte_tables.iter().any(|other| same(&other.alias.name.value, &own.alias.name.value)) {
            let text = format!("CTE {} of the change {}, which has another one's name", own.alias.name, cte.alias.name);
            return Err(Error::NotImplemented(text));
        }
        with.cte_tables.push(own.clone());
    }
    Ok(with)
}

/// The text of a change with these CTEs put before it.
fn text_of(change: &Statement, with: &With) -> Result<String> {
    match change {
        _ if with.cte_tables.is_empty() => Ok(change.to_string()),
        Statement::Insert(insert) => with_ctes(insert.clone(), with),
        change => Ok(format!("{with} {change}")),
    }
}

/// The text of an INSERT whose query gets these CTEs; its own CTEs hide those of the same name.
fn with_ctes(mut insert: Insert, before: &With) -> Result<String> {
    let Some(source) = &mut insert.source else {
        return Err(Error::NotImplemented(format!("CTEs before {insert}")));
    };
    let is_hidden =
        |cte: &Cte, own: &With| own.cte_tables.iter().any(|other| same(&other.alias.name.value, &cte.alias.name.value));
    match &mut source.with {
        Some(own) => {
            let shown: Vec<Cte> = before.cte_tables.iter().filter(|cte| !is_hidden(cte, own)).cloned().collect();
            own.cte_tables.splice(0..0, shown);
            own.recursive |= before.recursive;
        }
        none => *none = Some(before.clone()),
    }
    Ok(insert.to_string())
}
