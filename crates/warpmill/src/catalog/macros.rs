//! Macros: texts of CREATE MACRO, kept as views are.

use serde::{Deserialize, Serialize};
use warpmill_format::FormatError;
use warpmill_format::table::leftovers;

use super::{Schema, create_directory, entries, plain};
use crate::{Error, Result};

/// The end of the name of a macro's file.
pub(super) const SUFFIX: &str = ".macro";
const FORMAT: &str = "warpmill macro";
const VERSION: u32 = 1;

/// A macro as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    format: String,
    version: u32,
    /// The text of CREATE MACRO.
    sql: String,
}

impl Schema {
    /// Adds or replaces a macro: stored where there is a database, unless it is `temporary`.
    pub(crate) fn put_macro(&self, name: &str, sql: &str, temporary: bool) -> Result<()> {
        self.shared.check_no_transaction("CREATE MACRO")?;
        let name = name.to_lowercase();
        match self.folder.as_ref().filter(|_| !temporary) {
            Some(folder) => {
                let file = folder.join(format!("{}{SUFFIX}", plain(&name)?));
                create_directory(folder)?;
                leftovers::clean(folder)?;
                let stored = Stored { format: FORMAT.into(), version: VERSION, sql: sql.to_string() };
                let bytes = serde_json::to_vec_pretty(&stored).map_err(|error| Error::Internal(error.to_string()))?;
                leftovers::write_file(&file, &bytes)?;
                self.macros.write().remove(&name);
            }
            None => drop(self.macros.write().insert(name, sql.to_string())),
        }
        self.shared.changed();
        Ok(())
    }

    /// The names of all macros, in lower case.
    pub(crate) fn macro_names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.macros.read().keys().cloned().collect();
        if let Some(folder) = &self.folder {
            let stored = entries(folder)?.into_iter().filter(|name| !name.starts_with('.'));
            names.extend(stored.filter_map(|name| name.strip_suffix(SUFFIX).map(str::to_lowercase)));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The text of CREATE MACRO of the macro called `name`.
    ///
    /// # Errors
    /// Its file cannot be read, or is none of a macro.
    pub(crate) fn macro_text(&self, name: &str) -> Result<Option<String>> {
        let name = name.to_lowercase();
        if let Some(sql) = self.macros.read().get(&name) {
            return Ok(Some(sql.clone()));
        }
        let Some(folder) = self.folder.as_ref().filter(|_| plain(&name).is_ok()) else { return Ok(None) };
        let path = folder.join(format!("{name}{SUFFIX}"));
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| super::io_error("cannot read", &path, &error))?,
        };
        let corrupt = |detail: String| FormatError::Corrupt { path: path.clone(), segment: None, detail };
        let stored: Stored =
            serde_json::from_slice(&bytes).map_err(|error| corrupt(format!("not a macro: {error}")))?;
        match (stored.format.as_str(), stored.version) {
            (FORMAT, VERSION) => {
                // Other processes change it: plans of it are not kept.
                self.shared.stored_views.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
                Ok(Some(stored.sql))
            }
            (FORMAT, version) => Err(corrupt(format!("a macro of version {version}, which is not known here")).into()),
            _ => Err(corrupt("not a macro".into()).into()),
        }
    }

    /// Removes a macro; `false`: there is none of that name.
    pub(crate) fn remove_macro(&self, name: &str) -> Result<bool> {
        self.shared.check_no_transaction("DROP MACRO")?;
        let name = name.to_lowercase();
        let mut removed = self.macros.write().remove(&name).is_some();
        if !removed && let Some(folder) = self.folder.as_ref().filter(|_| plain(&name).is_ok()) {
            let path = folder.join(format!("{name}{SUFFIX}"));
            removed = match std::fs::remove_file(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                gone => gone.map(|()| true).map_err(|error| super::io_error("cannot drop macro", &path, &error))?,
            };
            if removed {
                leftovers::sync_folder_of(&path)?;
            }
        }
        if removed {
            self.shared.changed();
        }
        Ok(removed)
    }
}
