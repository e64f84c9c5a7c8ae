//! Renaming of tables.

use warpmill_format::Table;
use warpmill_format::table::leftovers;

use super::schema::Found;
use super::{Schema, plain, same};
use crate::{Error, Result};

impl Schema {
    /// Renames the table or view `name`.
    ///
    /// # Errors
    /// The new name is in use; the table is being written; it is a foreign one. It is unchanged then.
    pub(crate) fn rename(&self, name: &str, new_name: &str) -> Result<()> {
        self.shared.check_no_transaction("RENAME")?;
        let own = self.find(name)?.ok_or_else(|| Error::Catalog(format!("table '{name}' not found")))?;
        if !same(name, new_name)
            && let Some(there) = self.find(new_name)?
        {
            return Err(Error::Catalog(format!("{} '{new_name}' already exists", there.kind().word())));
        }
        match own {
            Found::Session(known, entry) => {
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
