//! Turns of a session's statements: a statement that begins or ends a transaction runs alone, so that every statement is within one transaction, or
//! outside of any, from its beginning to its end.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::transactions::is_order;
use crate::plan_cache::normalized;
use crate::{Error, Result};

/// The longest wait for a turn: limited, because running statements may themselves wait for this one.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

/// The words of statements that change rows.
const CHANGES: [&str; 4] = ["insert", "update", "delete", "merge"];

/// Whether a statement has to run alone: it begins or ends a transaction, possibly its own for changes among its CTEs, or for foreign keys.
pub(super) fn is_alone(sql: &str) -> bool {
    is_order(sql)
        || may_have_changes(sql)
        || begins_with(sql, "export")
        || begins_with(sql, "import")
        || may_have_foreign_keys(sql)
}

/// Whether a statement may make a table with foreign keys.
fn may_have_foreign_keys(sql: &str) -> bool {
    begins_with(sql, "create") && sql.to_ascii_lowercase().contains("references")
}

/// Whether a text begins with a word, behind comments.
pub(super) fn begins_with(sql: &str, word: &str) -> bool {
    let begins = |text: &str| text.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word));
    let text = sql.trim_start();
    if text.starts_with("--") || text.starts_with("/*") { begins(&normalized(text)) } else { begins(text) }
}

/// Whether changes may be among the CTEs of a statement.
pub(super) fn may_have_changes(sql: &str) -> bool {
    // WITH, or a comment before it.
    if !sql.trim_start().starts_with(['w', 'W', '-', '/']) {
        return false;
    }
    let lower = sql.to_ascii_lowercase();
    lower.contains("with") && CHANGES.iter().any(|word| lower.contains(word)) && normalized(&lower).starts_with("with ")
}

/// The turns of a session.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    alone: bool,
}

/// A turn, until dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    alone: bool,
}

impl Turns {
    /// Waits for a turn.
    ///
    /// # Errors
    /// The wait took longer than `PATIENCE`.
    pub async fn take(&self, alone: bool) -> Result<Turn<'_>> {
        let begun = Instant::now();
        loop {
            if let Some(turn) = self.try_take(alone) {
                return Ok(turn);
            }
            check(begun, alone)?;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// [`Turns::take`] for synchronous callers.
    ///
    /// # Errors
    /// The wait took longer than `PATIENCE`.
    pub fn wait(&self, alone: bool) -> Result<Turn<'_>> {
        let begun = Instant::now();
        loop {
            if let Some(turn) = self.try_take(alone) {
                return Ok(turn);
            }
            check(begun, alone)?;
            std::thread::sleep(PAUSE);
        }
    }

    fn try_take(&self, alone: bool) -> Option<Turn<'_>> {
        let mut state = self.0.lock();
        if state.alone || (alone && state.running > 0) {
            return None;
        }
        match alone {
            true => state.alone = true,
            false => state.running += 1,
        }
        Some(Turn { turns: self, alone })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.0.lock();
        match self.alone {
            true => state.alone = false,
            false => state.running -= 1,
        }
    }
}

fn check(begun: Instant, alone: bool) -> Result<()> {
    if begun.elapsed() < PATIENCE {
        return Ok(());
    }
    let what =
        if alone { "other statements of the connection run" } else { "a transaction of the connection begins or ends" };
    Err(Error::Execution(format!(
        "{what}, for more than {} s: wait for them, or connect once more",
        PATIENCE.as_secs()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_alone_and_others_are_not() {
        let turns = Turns::default();
        let (one, two) = (turns.try_take(false).unwrap(), turns.try_take(false).unwrap());
        assert!(turns.try_take(true).is_none());
        drop(one);
        assert!(turns.try_take(true).is_none());
        drop(two);
        let alone = turns.try_take(true).unwrap();
        assert!(turns.try_take(false).is_none() && turns.try_take(true).is_none());
        drop(alone);
        assert!(turns.try_take(false).is_some());
    }

    #[test]
    fn which_statements_are_alone() {
        for sql in [
            "BEGIN",
            " commit;",
            "-- c\nWITH a AS (DELETE FROM t) SELECT 1",
            "with a as (select 1) insert into t from a",
            "EXPORT DATABASE 'x'",
            "/* c */ -- d\n export database 'x'",
            "IMPORT DATABASE 'x'",
            "Create Table t (a INTEGER References p (id))",
        ] {
            assert!(is_alone(sql), "{sql}");
        }
        for sql in
            ["SELECT 1", "INSERT INTO t SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "UPDATE t SET with_it = 1"]
        {
            assert!(!is_alone(sql), "{sql}");
        }
    }
}
