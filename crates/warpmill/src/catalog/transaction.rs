//! The transaction of a session: the tables that its statements have used, created and dropped since BEGIN.
//!
//! Each table is forked when a statement first names it: from then on the transaction reads that version, and its own changes. Views, macros, types
//! and sequences are in [`super::redefined`], schemas in [`super::schemas`].

use std::path::PathBuf;
use std::sync::Arc;

use warpmill_format::table::journal;
use warpmill_format::table::transaction::{Change, commit_with_folders, end};
use warpmill_format::{FormatError, Table};

use super::redefined::{Redefined, files, held_sequences, take_committed, view_of, views_of};
use super::schema::{Entry, Found, Schema};
use super::schemas::SchemaChange;
use super::{Catalog, Shared, no_schema, same};
use crate::{Error, Result};

/// A transaction's tables under one name.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub schema: String,
    pub name: String,
    /// The fork of the table that others see; `None` if others see no table.
    pub forked: Option<Arc<Table>>,
    /// The table that the transaction sees; `None` if it has dropped or renamed the table.
    pub now: Option<Arc<Table>>,
}

/// A table that others know, and that a transaction has renamed.
#[derive(Debug, Clone)]
pub(super) struct Renamed {
    pub schema: String,
    pub from: String,
    pub to: String,
    /// The fork of the table.
    pub table: Arc<Table>,
}

impl Known {
    /// Whether the transaction sees a table that others do not.
    fn is_made(&self) -> bool {
        match (&self.forked, &self.now) {
            (Some(forked), Some(now)) => !Arc::ptr_eq(forked, now),
            (forked, now) => forked.is_none() && now.is_some(),
        }
    }

    /// Takes the table away from the transaction.
    fn drop_now(&mut self) {
        // One that others know stays locked.
        end(self.now.take().filter(|now| now.forked().is_none()));
    }

    fn tables(&self) -> impl Iterator<Item = Arc<Table>> {
        self.forked.iter().chain(&self.now).cloned()
    }
}

/// The tables of a transaction.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) known: Vec<Known>,
    /// In the order of statements.
    pub(super) renamed: Vec<Renamed>,
    /// Schemas that it has created or dropped.
    pub(super) schemas: Vec<SchemaChange>,
    /// Views, macros, types and sequences that it has created or dropped.
    pub(super) redefined: Vec<Redefined>,
    /// Whether one of its statements has failed: all changes are undone, and the transaction has to be ended.
    aborted: bool,
}

impl Transaction {
    pub(super) fn of(&mut self, schema: &str, name: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.schema == schema && known.name == name)
    }

    /// Refuses further statements in an aborted transaction.
    pub(super) fn check(&self) -> Result<()> {
        match self.aborted {
            true => Err(Error::Execution(
                "the transaction was aborted by the error of a statement: end it with ROLLBACK".into(),
            )),
            false => Ok(()),
        }
    }

    /// The changes to commit.
    fn changes(&self, catalog: &Catalog) -> Result<Vec<Change>> {
        let is_used = |table: &Arc<Table>| {
            let mut tables = self.known.iter().filter_map(|known| known.now.as_ref());
            tables.any(|now| Arc::ptr_eq(now, table))
        };
        let mut changes = vec![];
        for known in &self.known {
            changes.extend(known.forked.iter().map(|forked| match is_used(forked) {
                true => Change::Written(Arc::clone(forked)),
                false => Change::Dropped(Arc::clone(forked)),
            }));
            let made = known.now.iter().filter(|now| now.forked().is_none());
            for table in made {
                let table = Arc::clone(table);
                changes.push(match table.path() {
                    Some(_) => Change::MadeAs(table, catalog.path_of(self, &known.schema, &known.name)?),
                    None => Change::Made(table),
                });
            }
        }
        let is_stored = |renamed: &&Renamed| renamed.table.path().is_some() && is_used(&renamed.table);
        for Renamed { schema, from, to, table } in self.renamed.iter().filter(is_stored) {
            let (from, to) = (catalog.path_of(self, schema, from)?, catalog.path_of(self, schema, to)?);
            changes.push(Change::Renamed(Arc::clone(table), from, to));
        }
        Ok(changes)
    }

    fn made(&self, schema: &str, name: &str) -> Option<&Known> {
        self.known.iter().find(|known| known.schema == schema && same(&known.name, name) && known.is_made())
    }
}

impl Shared {
    /// Finishes commits of several tables whose writer may have died.
    pub(super) fn finish_commits(&self) -> Result<()> {
        Ok(self.database.as_deref().map_or(Ok(()), journal::finish)?)
    }

    /// Refuses changes that a transaction could not roll back.
    ///
    /// # Errors
    /// A transaction is in progress.
    pub(super) fn check_no_transaction(&self, what: &str) -> Result<()> {
        match self.is_in_transaction() {
            true => Err(Error::NotImplemented(format!(
                "{what} within a transaction is not supported: COMMIT or ROLLBACK first"
            ))),
            false => Ok(()),
        }
    }

    /// Whether a transaction is in progress.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.transaction.lock().is_some()
    }
}

impl Schema {
    /// The table or view `name`, as seen by the session's transaction, if there is one.
    pub(super) fn find(&self, name: &str) -> Result<Option<Found>> {
        self.shared.finish_commits()?;
        let mut transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_mut() else { return self.find_committed(name) };
        transaction.check()?;
        let own = |known: &Known| {
            let table = known.now.clone();
            table.map(|table| Found::Session(known.name.clone(), Entry::Warpmill(table)))
        };
        if let Some(made) = transaction.made(self.name(), name) {
            return Ok(own(made));
        }
        if let Some(view) = view_of(&transaction.redefined, self.name(), name) {
            return Ok(view);
        }
        let found = self.find_committed(name)?;
        let (spelled, table) = match &found {
            Some(Found::Session(spelled, Entry::Warpmill(table))) => (spelled, Arc::clone(table)),
            Some(Found::Table(spelled)) => (spelled, self.open(spelled)?),
            _ => return Ok(found),
        };
        if let Some(known) = transaction.of(self.name(), spelled) {
            return Ok(own(known));
        }
        let forked = table.fork()?;
        let (schema, name, now) = (self.name().to_string(), spelled.clone(), Some(Arc::clone(&forked)));
        let known = Known { schema, name, forked: Some(forked), now };
        let found = own(&known);
        transaction.known.push(known);
        Ok(found)
    }

    /// Whether the transaction has dropped the table called `name`.
    pub(super) fn is_dropped_in_transaction(&self, name: &str) -> bool {
        let mut transaction = self.shared.transaction.lock();
        let known = transaction.as_mut().and_then(|transaction| transaction.of(self.name(), name));
        known.is_some_and(|known| known.forked.is_some())
    }

    /// Shows a table to the session's transaction; returns false if there is no transaction. `goes`: the table replaces one of that name.
    pub(super) fn put_in_transaction(&self, name: &str, table: &Arc<Table>, goes: bool) -> Result<bool> {
        let mut transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_mut() else { return Ok(false) };
        let there = transaction.known.iter_mut().find(|known| known.schema == self.name() && same(&known.name, name));
        match there {
            Some(known) if known.now.as_ref().is_some_and(|now| Arc::ptr_eq(now, table)) => {}
            Some(known) if table.path().is_none() && known.tables().any(|table| table.path().is_some()) => {
                let text = format!("table '{}', which hides a stored one, in a transaction", known.name);
                return Err(Error::NotImplemented(text));
            }
            Some(known) if known.now.is_some() && !goes => {
                return Err(Error::Catalog(format!("table '{name}' already exists")));
            }
            Some(known) => {
                if known.is_made() {
                    known.drop_now();
                } else if let Some(forked) = &known.forked {
                    forked.hold_fork()?;
                }
                known.now = Some(Arc::clone(table));
            }
            None => {
                let (schema, name) = (self.name().to_string(), name.to_string());
                transaction.known.push(Known { schema, name, forked: None, now: Some(Arc::clone(table)) });
            }
        }
        self.shared.changed();
        Ok(true)
    }

    /// Drops a table that [`Schema::find`] has found in the transaction.
    ///
    /// # Errors
    /// Another writer is writing it, or has committed since the transaction began.
    pub(super) fn drop_in_transaction(&self, name: &str) -> Result<()> {
        let mut transaction = self.shared.transaction.lock();
        let known = transaction.as_mut().and_then(|transaction| transaction.of(self.name(), name));
        let Some(known) = known else { return Err(Error::Internal(format!("no transaction knows table '{name}'"))) };
        if known.is_made() {
            known.drop_now();
        } else if let Some(forked) = &known.forked {
            forked.hold_fork()?;
            known.now = None;
        }
        self.shared.changed();
        Ok(())
    }

    /// Changes a list of the schema's tables and views to the names that the transaction sees.
    pub(super) fn seen_in_transaction(&self, names: Vec<String>) -> Vec<String> {
        let transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_ref() else { return names };
        let own = || transaction.known.iter().filter(|known| known.schema == self.name());
        let views = || views_of(&transaction.redefined, self.name());
        let is_gone = |name: &String| {
            own().any(|known| known.name == *name && known.now.is_none())
                || views().any(|(view, made)| view == name && !made)
        };
        let mut seen: Vec<String> = names.into_iter().filter(|name| !is_gone(name)).collect();
        let tables = own().filter(|known| known.is_made()).map(|known| known.name.as_str());
        for made in tables.chain(views().filter(|(_, made)| *made).map(|(view, _)| view)) {
            if !seen.iter().any(|name| same(name, made)) {
                seen.push(made.to_string());
            }
        }
        seen
    }

    /// Applies the committed changes of a table to the session's names.
    fn take_committed(&self, known: &Known) {
        self.opened.lock().retain(|name, _| !same(name, &known.name));
        let is_stored = known.tables().any(|table| table.path().is_some());
        match &known.now {
            _ if !known.is_made() && known.now.is_some() => {}
            Some(made) if made.path().is_none() => {
                // One that was renamed is still the table that others know.
                self.put_table(&known.name, Arc::clone(made.forked().unwrap_or(made)));
            }
            // A session's table of that name would hide the stored one.
            Some(_) => drop(self.take(&known.name)),
            // Other sessions have never seen a table that the transaction created and dropped.
            None if is_stored || known.forked.is_none() => {}
            None => drop(self.take(&known.name)),
        }
    }
}

impl Catalog {
    /// The absolute path of a stored table.
    fn path_of(&self, ending: &Transaction, schema: &str, name: &str) -> Result<PathBuf> {
        let found = self.schema_within(ending, schema)?;
        let path = found.ok_or_else(|| no_schema(schema))?.table_path(name);
        std::path::absolute(&path).map_err(|error| Error::Io(error.to_string()))
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// A transaction is in progress.
    pub(crate) fn begin(&self) -> Result<()> {
        let mut transaction = self.shared.transaction.lock();
        if transaction.is_some() {
            return Err(Error::Execution("cannot start a transaction within a transaction".into()));
        }
        *transaction = Some(Transaction::default());
        drop(transaction);
        self.shared.changed();
        Ok(())
    }

    /// Whether a transaction is in progress.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.shared.is_in_transaction()
    }

    /// Checks that statements can run: no transaction is aborted.
    ///
    /// # Errors
    /// The transaction is aborted.
    pub(crate) fn check_not_aborted(&self) -> Result<()> {
        self.shared.transaction.lock().as_ref().map_or(Ok(()), Transaction::check)
    }

    /// Undoes the changes of the transaction, if there is one, after a statement has failed. It still has to be ended.
    pub(crate) fn abort(&self) {
        let mut transaction = self.shared.transaction.lock();
        if let Some(transaction) = transaction.as_mut() {
            end(transaction.known.drain(..).flat_map(|known| known.tables().collect::<Vec<_>>()));
            transaction.redefined.clear();
            transaction.renamed.clear();
            transaction.schemas.clear();
            transaction.aborted = true;
            self.shared.changed();
        }
    }

    /// Commits the transaction if `may_commit`, which is called before the last step, returns true. After an error nothing has changed, unless
    /// making the commit durable failed: then the commit may be visible after a crash.
    ///
    /// # Errors
    /// There is no transaction; a statement of it has failed; its writes cannot be committed.
    pub(crate) fn commit(&self, may_commit: impl FnOnce() -> bool) -> Result<()> {
        // Look-ups of names wait for the lock: they see the whole commit, or nothing of it.
        let mut transaction = self.shared.transaction.lock();
        let Some(ending) = transaction.take() else {
            return Err(Error::Execution("cannot commit: no transaction is active".into()));
        };
        if ending.aborted {
            let text = "nothing was committed: the error of a statement has aborted the transaction";
            return Err(Error::Execution(text.into()));
        }
        let database = self.shared.database.as_deref().map(std::path::absolute).transpose();
        let database = database.map_err(|error| Error::Io(error.to_string()))?;
        // An error of files ends the use of the tables, too.
        let made = held_sequences(&ending, self).and_then(|held| {
            let (files, folders) = (files(&ending, self)?, self.folders_of(&ending)?);
            Ok((held, files, folders, ending.changes(self)?))
        });
        let committing = || {
            let may = may_commit();
            if may {
                ending.schemas_commit();
            }
            may
        };
        let committed = match made {
            Ok((_held, files, folders, changes)) => {
                commit_with_folders(database.as_deref(), &changes, &files, &folders, committing)
            }
            Err(error) => {
                end(ending.known.iter().flat_map(Known::tables));
                return Err(error);
            }
        };
        if committed.is_ok() {
            take_committed(&ending, self);
            for known in &ending.known {
                // Tables of a schema that was dropped meanwhile have no names any more.
                if let Ok(Some(schema)) = self.schema_within(&ending, &known.schema) {
                    schema.take_committed(known);
                }
            }
            self.take_committed_schemas(&ending);
        }
        drop(transaction);
        self.shared.changed();
        match committed {
            // Planning the statements again would not help.
            Err(FormatError::Replaced { table }) => Err(FormatError::Changed { table }.into()),
            committed => Ok(committed?),
        }
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// There is no transaction.
    pub(crate) fn roll_back(&self) -> Result<()> {
        let Some(ending) = self.shared.transaction.lock().take() else {
            return Err(Error::Execution("cannot roll back: no transaction is active".into()));
        };
        end(ending.known.iter().flat_map(Known::tables));
        self.shared.changed();
        Ok(())
    }
}
