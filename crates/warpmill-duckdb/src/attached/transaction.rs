//! Transactions of DuckDB's in an attached database.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpmill::Session;

use super::Failed;
use super::append::Writer;
use super::database::Database;
use super::table::OwnTable;
use crate::plan::runtime;

/// A transaction. Dropped without a commit it is rolled back.
pub struct Transaction {
    database: Arc<Database>,
    session: Option<Session>,
    /// Those that may still write: a transaction ends when none does.
    writers: Mutex<Vec<Weak<Writer>>>,
}

impl Transaction {
    /// Begins one.
    ///
    /// # Errors
    /// The system refuses what a session needs.
    pub fn begin(database: &Arc<Database>) -> Result<Self, Failed> {
        let session = database.session()?;
        session.begin()?;
        Ok(Self { database: Arc::clone(database), session: Some(session), writers: Mutex::default() })
    }

    pub(super) fn session(&self) -> &Session {
        self.session.as_ref().expect("a transaction that has not ended has a session")
    }

    pub(super) fn has_writer(&self, writer: &Arc<Writer>) {
        self.writers.lock().push(Arc::downgrade(writer));
    }

    fn end_writers(&self) {
        let writers = std::mem::take(&mut *self.writers.lock());
        writers.iter().filter_map(Weak::upgrade).for_each(|writer| writer.give_up());
    }

    /// Commits all of it, or nothing.
    ///
    /// # Errors
    /// Another writer was first, or the file system fails. The transaction is over in any case.
    pub fn commit(mut self) -> Result<(), Failed> {
        self.end_writers();
        let Some(session) = self.session.take() else { return Ok(()) };
        let committed = runtime().block_on(session.commit());
        self.database.give_back(session);
        Ok(committed?)
    }

    /// The names of the schemas, the main one first.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn schemas(&self) -> Result<Vec<String>, Failed> {
        Ok(self.session().schemas()?)
    }

    /// The names of a schema's tables that can be opened.
    ///
    /// # Errors
    /// There is no such schema.
    pub fn tables(&self, schema: &str) -> Result<Vec<String>, Failed> {
        Ok(self.session().stored_tables(schema)?)
    }

    /// A table as it is now for the transaction; `None`: there is none of that name.
    ///
    /// # Errors
    /// It is damaged.
    pub fn table(&self, schema: &str, name: &str) -> Result<Option<OwnTable>, Failed> {
        self.session().stored_table(schema, name)?.map(|table| OwnTable::of(&table)).transpose()
    }

    /// Runs a statement that gives no rows.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn execute(&self, sql: &str) -> Result<(), Failed> {
        runtime().block_on(self.session().execute_async(sql, &[]))?;
        Ok(())
    }

    /// Runs a statement that no transaction takes back, such as CREATE SCHEMA: of a transaction that has done nothing yet.
    ///
    /// # Errors
    /// Those of the statement.
    pub fn execute_outside(&self, sql: &str) -> Result<(), Failed> {
        let session = self.session();
        session.roll_back()?;
        let done = self.execute(sql);
        session.begin()?;
        done
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end_writers();
        if let Some(session) = self.session.take() {
            // One that cannot be rolled back goes with its session.
            if session.roll_back().is_ok() {
                self.database.give_back(session);
            }
        }
    }
}
