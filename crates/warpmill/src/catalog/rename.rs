//! Renaming of tables.

use std::sync::Arc;

use warpmill_format::Table;
use warpmill_format::table::leftovers;

use super::schema::{Entry, Found};
use super::transaction::{Known, Renamed};
use super::{Schema, plain, same};
use crate::{Error, Result};

impl Schema {
    /// Renames the table or view `name`.
    ///
    /// # Errors
    /// The new name is in use; the table is being written; it is a foreign one. It is unchanged then.
    pub(crate) fn rename(&self, name: &str, new_name: &str) -> Result<()> {
        let own = self.find(name)?.ok_or_else(|| Error::Catalog(format!("table '{name}' not found")))?;
        if !same(name, new_name)
            && let Some(there) = self.find(new_name)?
        {
            return Err(Error::Catalog(format!("{} '{new_name}' already exists", there.kind().word())));
        }
        match own {
            Found::Session(known, Entry::Warpmill(table)) if self.shared.is_in_transaction() => {
                return self.rename_in_transaction(&known, new_name, &table);
            }
            Found::Session(known, entry) => {
                self.shared.check_no_transaction("RENAME of what is no table of Warpmill")?;
                if let Some(table) = entry.own_table() {
                    self.check_unchanged_name(&known, new_name, table)?;
                }
                let mut tables = self.session_tables.write();
                tables.remove(&known);
                tables.insert(new_name.to_string(), entry);
            }
            Found::View(_) => return Err(Error::NotImplemented(format!("'{name}' is a view: it keeps its name"))),
            Found::Table(known) => {
                let (from, to) = (self.table_path(&known), self.table_path(plain(new_name)?));
                let _names = self.folder.as_deref().map(leftovers::hold_folder).transpose()?;
                let _lock = Table::hold(&from)?;
                self.shared.finish_commits()?;
                // A damaged table can be renamed.
                if let Ok(table) = self.open(&known) {
                    self.check_unchanged_name(&known, new_name, &table)?;
                }
                if to.symlink_metadata().is_ok() && !same(&known, new_name) {
                    return Err(Error::Catalog(format!("table '{new_name}' already exists")));
                }
                std::fs::rename(&from, &to).map_err(|error| super::io_error("cannot rename", &from, &error))?;
                leftovers::sync_folder_of(&to)?;
                self.opened.lock().retain(|name, _| !same(name, &known) && !same(name, new_name));
            }
        }
        self.shared.changed();
        Ok(())
    }

    /// Gives a table another name in the session's transaction.
    ///
    /// # Errors
    /// Another writer is writing it, or has committed since the transaction began; others refer to it by its name.
    fn rename_in_transaction(&self, name: &str, new_name: &str, table: &Arc<Table>) -> Result<()> {
        self.check_unchanged_name(name, new_name, table)?;
        if table.path().is_some() {
            plain(new_name)?;
        }
        let is_committed = table.forked().is_some();
        if is_committed {
            table.hold_fork()?;
        }
        let mut transaction = self.shared.transaction.lock();
        let known = transaction.as_mut().and_then(|transaction| {
            let now = transaction.of(self.name(), name)?.now.take()?;
            Some((transaction, now))
        });
        let Some((transaction, now)) = known else {
            return Err(Error::Internal(format!("no transaction knows table '{name}'")));
        };
        if is_committed && name != new_name {
            let (schema, from, to) = (self.name().to_string(), name.to_string(), new_name.to_string());
            transaction.renamed.push(Renamed { schema, from, to, table: Arc::clone(&now) });
        }
        match transaction.of(self.name(), new_name) {
            Some(known) => known.now = Some(now),
            None => {
                let (schema, name) = (self.name().to_string(), new_name.to_string());
                transaction.known.push(Known { schema, name, forked: None, now: Some(now) });
            }
        }
        self.shared.changed();
        Ok(())
    }

    /// Refuses another name for a table to which others refer by its name.
    fn check_unchanged_name(&self, name: &str, new_name: &str, table: &Table) -> Result<()> {
        match self.referring(name, table)?.first().filter(|_| !same(name, new_name)) {
            Some(other) => Err(Error::Catalog(format!(
                "Cannot rename table \"{name}\" because a foreign key of table \"{}\" refers to it",
                other.table
            ))),
            None => Ok(()),
        }
    }
}
