//! Removal of tables, views and whole schemas.

use std::path::Path;
use std::sync::atomic::Ordering;

use warpmill_format::table::leftovers;
use warpmill_format::{FormatError, Table};

use super::redefined::Sort;
use super::schema::{Entry, Found, wrong_kind};
use super::{Defined, Kind, Schema, entries, io_error, same, sequences, view};
use crate::{Error, Result};

impl Schema {
    /// Removes the table or view `name`, including files; returns false if it does not exist. Damaged tables can be removed, too.
    ///
    /// # Errors
    /// It is of another kind; it is being written; the system refuses. It is unchanged then.
    pub(crate) fn remove(&self, name: &str, kind: Kind) -> Result<bool> {
        let Some(found) = self.find(name)? else { return Ok(false) };
        let is_own = matches!(&found, Found::Session(_, Entry::Warpmill(_)));
        if found.kind() == Kind::View && kind == Kind::View && self.shared.is_in_transaction() {
            let known = match &found {
                Found::Session(_, Entry::Foreign(_)) => None,
                Found::Session(known, _) | Found::View(known) => Some(known),
                Found::Table(_) => None,
            };
            if let Some(known) = known {
                return self.redefine(Sort::View, known, None, self.has_own(Sort::View, known));
            }
        }
        if !is_own {
            self.shared.check_no_transaction("DROP of what is no table of Warpmill")?;
        }
        if let Found::Session(known, Entry::Foreign(_)) = &found {
            // Files and frames are as much the one as the other.
            return Ok(self.take(known));
        }
        if found.kind() != kind {
            return Err(wrong_kind(name, found.kind()));
        }
        match found {
            Found::Session(known, Entry::Warpmill(table)) if self.shared.is_in_transaction() => {
                self.check_unreferenced(&known, &table)?;
                return self.drop_in_transaction(&known).map(|()| true);
            }
            Found::Session(known, Entry::Warpmill(table)) => {
                table.retire()?;
                self.check_unreferenced(&known, &table).inspect_err(|_| table.reinstate())?;
                return Ok(self.take(&known));
            }
            Found::Session(known, _) => return Ok(self.take(&known)),
            Found::Table(known) => {
                self.opened.lock().remove(&known);
                let path = self.table_path(&known);
                let held = match Table::hold(&path) {
                    // Another process removed it first.
                    Err(FormatError::Catalog(_)) => return Ok(false),
                    held => held?,
                };
                self.shared.finish_commits()?;
                // A damaged table can be removed, whatever refers to it.
                if let Ok(table) = self.open(&known) {
                    self.check_unreferenced(&known, &table)?;
                    self.opened.lock().remove(&known);
                }
                held.remove(&path)?;
            }
            Found::View(known) => {
                let path = self.view_path(&known);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                    removed => removed.map_err(|error| io_error("cannot drop view", &path, &error))?,
                }
                leftovers::sync_folder_of(&path)?;
            }
        }
        if let Some(folder) = &self.folder {
            leftovers::clean(folder)?;
        }
        self.shared.changed();
        Ok(true)
    }

    /// Removes the schema with its tables and views, if `cascade`.
    ///
    /// # Errors
    /// A table is being written; there are foreign files; there are tables or views without `cascade`. Nothing is removed then.
    pub(super) fn remove_all(&self, cascade: bool) -> Result<()> {
        // No names come meanwhile.
        let _names = self.folder.as_deref().map(leftovers::hold_folder).transpose()?;
        let mut tables = self.session_tables.write();
        let mut inside: Vec<String> = tables.keys().cloned().collect();
        inside.extend(self.stored()?.into_iter().map(|(name, _)| name));
        for of in Defined::ALL {
            inside.extend(self.defined_names(of)?);
        }
        inside.sort();
        inside.dedup_by(|a, b| same(a, b));
        if !cascade && !inside.is_empty() {
            let inside = inside.into_iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
            let text = format!("schema '{}' is not empty: it has {inside} (DROP SCHEMA ... CASCADE)", self.name());
            return Err(Error::Catalog(text));
        }
        let own: Vec<_> = tables.values().filter_map(Entry::own_table).collect();
        for (at, table) in own.iter().enumerate() {
            if let Err(error) = table.retire() {
                own[..at].iter().for_each(|table| table.reinstate());
                return Err(error.into());
            }
        }
        if let Err(error) = self.folder.as_deref().map_or(Ok(()), |folder| self.remove_folder(folder)) {
            own.iter().for_each(|table| table.reinstate());
            return Err(error);
        }
        self.dropped.store(true, Ordering::Relaxed);
        self.opened.lock().clear();
        self.definitions.write().clear();
        self.sequences.lock().clear();
        tables.clear();
        Ok(())
    }

    /// Removes the schema's folder with its tables and views, all or nothing.
    fn remove_folder(&self, folder: &Path) -> Result<()> {
        leftovers::clean(folder)?;
        let stored = self.stored()?;
        let is_stored = |name: &String| {
            let own = [sequences::SUFFIX, sequences::LOCK_SUFFIX].into_iter().chain(Defined::ALL.map(Defined::suffix));
            if own.into_iter().any(|suffix| name.ends_with(suffix)) {
                return true;
            }
            stored.iter().any(|(known, kind)| match kind {
                Kind::Table => known == name,
                Kind::View => name.strip_suffix(view::SUFFIX) == Some(known),
            })
        };
        if let Some(strange) = entries(folder)?.into_iter().find(|name| !is_stored(name)) {
            let (schema, folder) = (self.name(), folder.display());
            let text =
                format!("schema '{schema}' cannot be dropped: {strange:?} in {folder} is no table or view of it");
            return Err(Error::Catalog(text));
        }
        let tables = stored.iter().filter(|(_, kind)| *kind == Kind::Table);
        let locks = tables.map(|(name, _)| Table::hold(&self.table_path(name)));
        let locks = locks.collect::<Result<Vec<_>, _>>()?;
        let aside = leftovers::set_aside(folder)?;
        leftovers::sync_folder_of(folder)?;
        leftovers::remove(&aside);
        drop(locks);
        Ok(())
    }
}
