//! Transactions of DuckDB in an attached database.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpmill::Session;

use super::Failed;
use super::append::Writer;
use super::database::Database;
use super::table::OwnTable;
use crate::plan::runtime;

/// A transaction. It is rolled back if it is dropped without a commit.
pub struct Transaction {
    database: Arc<Database>,
    session: Option<Session>,
    /// Writers that may still be writing: the end of the transaction stops them and waits for them.
    writers: Mutex<Vec<Weak<Writer>>>,
}

impl Transaction {
    /// Begins a transaction.
    ///
    /// # Errors
    /// The system cannot provide the resources of a session.
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

    /// Commits all changes of the transaction, or none.
    ///
    /// # Errors
    /// Another writer has committed first, or the file system fails. The transaction has ended in any case.
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

    /// A table as the transaction sees it now; `None` if no table has that name.
    ///
    /// # Errors
    /// The table is damaged.
    pub fn table(&self, schema: &str, name: &str) -> Result<Option<OwnTable>, Failed> {
        self.session().stored_table(schema, name)?.map(|table| OwnTable::of(&table)).transpose()
    }

    /// Runs a statement that returns no rows.
    ///
    /// # Errors
    /// The errors of the statement.
    pub fn execute(&self, sql: &str) -> Result<(), Failed> {
        runtime().block_on(self.session().execute_async(sql, &[]))?;
        Ok(())
    }

    /// Runs a statement that cannot be rolled back, such as CREATE SCHEMA. The transaction must not have done anything before.
    ///
    /// # Errors
    /// The errors of the statement.
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
            // A session whose transaction cannot be rolled back is dropped.
            if session.roll_back().is_ok() {
                self.database.give_back(session);
            }
        }
    }
}
