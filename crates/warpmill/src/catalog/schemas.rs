//! Schemas that a transaction makes and drops. A new one is a hidden folder until the commit gives it its name.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpmill_format::table::leftovers::HiddenFolder;
use warpmill_format::table::transaction::FolderChange;

use super::redefined::{Sort, files_in};
use super::schema::{Entry, Found, Schema};
use super::sequences::LOCK_SUFFIX;
use super::transaction::Transaction;
use super::{Catalog, Defined, SCHEMA_SUFFIX, create_directory, plain, same};
use crate::{Error, Result};

/// A schema that a transaction has made or dropped, or both.
#[derive(Debug)]
pub(super) struct SchemaChange {
    schema: Arc<Schema>,
    /// Whether others know it.
    was: bool,
    /// Whether the transaction has it.
    is: bool,
    /// The hidden folder around that of a new stored schema.
    around: Option<HiddenFolder>,
}

impl SchemaChange {
    fn is_called(&self, name: &str) -> bool {
        same(self.schema.name(), name)
    }
}

impl Transaction {
    /// The schema that the transaction sees under a name: `Some(None)` if it has dropped it, `None` if it has changed none of that name.
    pub(super) fn schema(&self, name: &str) -> Option<Option<Arc<Schema>>> {
        let change = self.schemas.iter().find(|change| change.is_called(name))?;
        Some(change.is.then(|| Arc::clone(&change.schema)))
    }

    /// Changes a list of names of schemas to those that the transaction sees.
    pub(super) fn schemas_seen(&self, names: &mut Vec<String>) {
        for change in &self.schemas {
            names.retain(|name| !change.is_called(name));
            names.extend(change.is.then(|| change.schema.name().to_string()));
        }
    }

    /// Lets new schemas be, which may be committed from now on.
    pub(super) fn schemas_commit(&self) {
        let made = self.schemas.iter().filter(|change| change.is);
        made.filter_map(|change| change.around.as_ref()).for_each(HiddenFolder::commits);
    }

    /// The changes of folders to commit.
    fn folders(&self) -> Result<Vec<FolderChange>> {
        let mut folders = vec![];
        for SchemaChange { schema, was, is, .. } in &self.schemas {
            let Some(folder) = &schema.folder else { continue };
            let from = std::path::absolute(folder).map_err(|error| Error::Io(error.to_string()))?;
            match (was, is) {
                (false, true) => {
                    let database = from.parent().and_then(|around| around.parent()).unwrap_or(&from);
                    let path = database.join(format!("{}{SCHEMA_SUFFIX}", schema.name()));
                    folders.push(FolderChange::Made { from, path });
                }
                (true, false) => {
                    let own = self.known.iter().filter(|known| known.schema == schema.name());
                    let names = own.filter(|known| known.forked.is_some()).map(|known| known.name.clone());
                    let names = names.chain(files_in(&self.redefined, schema.name())).collect();
                    folders.push(FolderChange::Removed { path: from, names, hidden: LOCK_SUFFIX });
                }
                _ => {}
            }
        }
        Ok(folders)
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        // New schemas of a transaction refer to the state that has the transaction.
        if self.is_in_transaction()
            && let Err(error) = self.roll_back()
        {
            tracing::debug!(%error, "the transaction of a session that ends has ended");
        }
    }
}

impl Catalog {
    /// The schema of a name in a transaction that ends, also one that it has dropped.
    pub(super) fn schema_within(&self, ending: &Transaction, name: &str) -> Result<Option<Arc<Schema>>> {
        match ending.schemas.iter().find(|change| change.is_called(name)) {
            Some(change) => Ok(Some(Arc::clone(&change.schema))),
            None => self.find_committed_schema(name),
        }
    }

    /// The changes of folders of a transaction that ends.
    pub(super) fn folders_of(&self, ending: &Transaction) -> Result<Vec<FolderChange>> {
        ending.folders()
    }

    /// Applies the committed changes to the session's schemas.
    pub(super) fn take_committed_schemas(&self, ending: &Transaction) {
        let mut others = self.others.write();
        for SchemaChange { schema, was, is, .. } in &ending.schemas {
            match (was, is) {
                (false, true) if self.database.is_none() => {
                    others.insert(schema.name().to_string(), Arc::clone(schema));
                }
                (true, false) => {
                    schema.dropped.store(true, Ordering::Relaxed);
                    others.remove(schema.name());
                }
                _ => {}
            }
        }
    }

    /// Makes a schema in the session's transaction; returns false if it exists.
    pub(super) fn create_schema_in_transaction(&self, name: &str) -> Result<bool> {
        if self.find_schema(name)?.is_some() {
            return Ok(false);
        }
        let mut transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_mut() else {
            return Err(Error::Internal("a schema in no transaction".into()));
        };
        transaction.check()?;
        if let Some(change) = transaction.schemas.iter_mut().find(|change| change.is_called(name)) {
            change.is = true;
            self.shared.changed();
            return Ok(true);
        }
        let around = match &self.database {
            Some(database) => {
                let folder = database.join(format!("{}{SCHEMA_SUFFIX}", plain(name)?));
                create_directory(database)?;
                Some(HiddenFolder::beside(&folder)?)
            }
            None => None,
        };
        let folder = around.as_ref().map(|around| around.path().join(format!("{name}{SCHEMA_SUFFIX}")));
        folder.as_deref().map_or(Ok(()), create_directory)?;
        let schema = Schema::new(name, folder, Arc::clone(&self.shared));
        transaction.schemas.push(SchemaChange { schema, was: false, is: true, around });
        self.shared.changed();
        Ok(true)
    }

    /// Drops a schema in the session's transaction, with all that is in it.
    pub(super) fn drop_schema_in_transaction(&self, schema: &Arc<Schema>, cascade: bool) -> Result<()> {
        schema.drop_all_in_transaction(cascade)?;
        let mut transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_mut() else {
            return Err(Error::Internal("a schema in no transaction".into()));
        };
        match transaction.schemas.iter_mut().find(|change| change.is_called(schema.name())) {
            Some(change) => change.is = false,
            None => {
                let schema = Arc::clone(schema);
                transaction.schemas.push(SchemaChange { schema, was: true, is: false, around: None });
            }
        }
        self.shared.changed();
        Ok(())
    }
}

impl Schema {
    /// Drops all tables and other objects in the session's transaction.
    ///
    /// # Errors
    /// There are some, without `cascade`; a table is being written; frames and files, which no transaction drops.
    fn drop_all_in_transaction(&self, cascade: bool) -> Result<()> {
        let tables = self.names()?;
        let sequences: Vec<String> = self.all_sequences()?.into_iter().map(|(name, ..)| name).collect();
        let mut definitions = vec![];
        for of in Defined::ALL {
            definitions.extend(self.defined_names(of)?.into_iter().map(|name| (of, name)));
        }
        let inside = || {
            let definitions = definitions.iter().map(|(_, name)| name);
            tables.iter().chain(definitions).chain(&sequences).map(|name| format!("'{name}'"))
        };
        if !cascade && inside().next().is_some() {
            let inside = inside().collect::<Vec<_>>().join(", ");
            let text = format!("schema '{}' is not empty: it has {inside} (DROP SCHEMA ... CASCADE)", self.name());
            return Err(Error::Catalog(text));
        }
        for name in &tables {
            match self.find(name)? {
                Some(Found::Session(known, Entry::Warpmill(_))) => self.drop_in_transaction(&known)?,
                Some(Found::View(known) | Found::Session(known, Entry::View(_))) => {
                    let temporary = self.redefined_as(Sort::View, &known);
                    let temporary = temporary.unwrap_or_else(|| self.has_own(Sort::View, &known));
                    self.redefine(Sort::View, &known, None, temporary)?;
                }
                Some(Found::Session(..) | Found::Table(_)) => {
                    self.shared.check_no_transaction("DROP of what is no table of Warpmill")?;
                }
                None => {}
            }
        }
        for (of, name) in &definitions {
            self.remove_definition(*of, name)?;
        }
        sequences.iter().try_for_each(|name| self.remove_sequence(name).map(drop))
    }
}
