//! BEGIN, COMMIT and ROLLBACK.

use super::running::Query;
use super::statements::Taken;
use super::{QueryResult, Session};
use crate::commit::GivenUp;
use crate::plan_cache::normalized;
use crate::{Error, Result};

/// A statement that begins or ends the session's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Begin,
    Commit,
    RollBack,
}

impl Order {
    /// The order that a statement without comments is.
    fn of(sql: &str) -> Option<Self> {
        let lower = sql.trim_end_matches([';', ' ']).to_ascii_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        match words[..] {
            ["begin"] | ["begin" | "start", "transaction"] | ["begin", "work"] => Some(Self::Begin),
            ["commit" | "end"] | ["commit" | "end", "transaction" | "work"] => Some(Self::Commit),
            ["rollback" | "abort"] | ["rollback" | "abort", "transaction" | "work"] => Some(Self::RollBack),
            _ => None,
        }
    }
}

/// Whether a text is a statement that begins or ends a transaction.
pub(super) fn is_order(sql: &str) -> bool {
    /// The first keywords, and beginnings of comments.
    const BEGINNINGS: [&str; 8] = ["begin", "start", "commit", "end", "rollback", "abort", "--", "/*"];
    let text = sql.trim_start();
    let begins = |word: &str| text.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word));
    BEGINNINGS.iter().any(|word| begins(word)) && Order::of(&normalized(sql)).is_some()
}

impl Session {
    /// A statement that begins with a word of transactions.
    pub(super) async fn transaction_statement(&self, sql: &str, query: &Query) -> Result<Taken> {
        match Order::of(sql) {
            Some(Order::Begin) => self.begin_now()?,
            Some(Order::Commit) => self.commit_for(query).await?,
            Some(Order::RollBack) => self.inner.catalog.roll_back()?,
            None => {
                let text = format!("{}: there are BEGIN, COMMIT and ROLLBACK", sql.trim_end_matches([';', ' ']));
                return Err(Error::NotImplemented(text));
            }
        }
        Ok(Taken::Done(QueryResult::empty()))
    }

    /// Begins a transaction: writes are visible to this session alone until [`Session::commit`].
    ///
    /// # Errors
    /// A transaction is open already; the session has workers, which read committed data only.
    pub fn begin(&self) -> Result<()> {
        let _turn = self.inner.turns.wait(true)?;
        self.begin_now()
    }

    /// [`Session::begin`] by a statement that is alone.
    pub(super) fn begin_now(&self) -> Result<()> {
        if !self.options().workers.addresses.is_empty() {
            return Err(Error::NotImplemented(
                "BEGIN in a session with workers: workers read committed data only".into(),
            ));
        }
        self.inner.catalog.begin()
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.inner.catalog.is_in_transaction()
    }

    /// Commits the transaction: all of it, or nothing. The transaction ends in any case.
    ///
    /// # Errors
    /// No open transaction; errors of the file system; external changes of the database.
    pub async fn commit(&self) -> Result<()> {
        let _turn = self.inner.turns.take(true).await?;
        self.commit_for(&self.inner.running.start()).await
    }

    /// [`Session::commit`] by a statement that is alone.
    pub(super) async fn commit_for(&self, query: &Query) -> Result<()> {
        let (session, gate) = (self.clone(), query.handle.commit.clone());
        let given_up = GivenUp::cancels(&gate);
        let pass = gate.clone();
        let done = tokio::task::spawn_blocking(move || session.inner.catalog.commit(|| pass.pass())).await;
        given_up.done();
        done.map_err(|error| Error::Internal(error.to_string()))?
    }

    /// Ends the transaction and discards its changes.
    ///
    /// # Errors
    /// No open transaction.
    pub fn roll_back(&self) -> Result<()> {
        let _turn = self.inner.turns.wait(true)?;
        self.inner.catalog.roll_back()
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn orders_have_several_spellings() {
        for (sql, order) in [
            ("BEGIN", Order::Begin),
            ("begin transaction;", Order::Begin),
            ("START TRANSACTION", Order::Begin),
            ("COMMIT ;", Order::Commit),
            ("end work", Order::Commit),
            ("Rollback Transaction", Order::RollBack),
            ("abort", Order::RollBack),
        ] {
            assert_eq!(Order::of(sql), Some(order), "{sql}");
        }
        for sql in ["BEGIN READ ONLY", "START", "ROLLBACK TO SAVEPOINT a", "COMMIT AND CHAIN", "begin; commit"] {
            assert_eq!(Order::of(sql), None, "{sql}");
        }
    }
}
