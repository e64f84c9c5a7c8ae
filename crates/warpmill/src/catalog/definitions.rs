//! Macros and types: their CREATE statements, stored in files as views are.

use serde::{Deserialize, Serialize};
use warpmill_format::FormatError;
use warpmill_format::table::leftovers;

use super::redefined::{Meaning, Sort};
use super::{Schema, create_directory, entries, plain};
use crate::{Error, Result};

const VERSION: u32 = 1;

/// The kinds of definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Defined {
    Macro,
    Type,
}

impl Defined {
    pub(super) const ALL: [Self; 2] = [Self::Macro, Self::Type];

    /// The word for the kind in statements, in lower case.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Macro => "macro",
            Self::Type => "type",
        }
    }

    /// The suffix of the names of its files.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Macro => ".macro",
            Self::Type => ".type",
        }
    }

    fn format(self) -> String {
        format!("warpmill {}", self.word())
    }
}

/// The content of a definition's file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    format: String,
    version: u32,
    /// The CREATE statement.
    sql: String,
}

/// The content of the file of a definition.
pub(super) fn stored_text(of: Defined, sql: &str) -> Result<String> {
    let stored = Stored { format: of.format(), version: VERSION, sql: sql.to_string() };
    serde_json::to_string_pretty(&stored).map_err(|error| Error::Internal(error.to_string()))
}

impl Schema {
    /// Adds or replaces a definition. It is stored if there is a database, unless it is `temporary`.
    pub(crate) fn put_definition(&self, of: Defined, name: &str, sql: &str, temporary: bool) -> Result<()> {
        let name = name.to_lowercase();
        if self.redefine(Sort::Defined(of), &name, Some(Meaning::Text(sql.to_string())), temporary)? {
            return Ok(());
        }
        match self.folder.as_ref().filter(|_| !temporary) {
            Some(folder) => {
                let file = folder.join(format!("{}{}", plain(&name)?, of.suffix()));
                create_directory(folder)?;
                leftovers::clean(folder)?;
                leftovers::write_file(&file, stored_text(of, sql)?.as_bytes())?;
                self.definitions.write().remove(&(of, name));
            }
            None => drop(self.definitions.write().insert((of, name), sql.to_string())),
        }
        self.shared.changed();
        Ok(())
    }

    /// The names of all macros, or of all types, in lower case.
    pub(crate) fn defined_names(&self, of: Defined) -> Result<Vec<String>> {
        let own = self.definitions.read();
        let mut names: Vec<String> =
            own.keys().filter(|(known, _)| *known == of).map(|(_, name)| name.clone()).collect();
        drop(own);
        if let Some(folder) = &self.folder {
            let stored = entries(folder)?.into_iter().filter(|name| !name.starts_with('.'));
            names.extend(stored.filter_map(|name| name.strip_suffix(of.suffix()).map(str::to_lowercase)));
        }
        self.defined_in_transaction(of, &mut names);
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The names of the stored macros or types, in lower case; all of them in a schema in memory.
    pub(crate) fn stored_definitions(&self, of: Defined) -> Result<Vec<String>> {
        let mut names = self.defined_names(of)?;
        if self.folder.is_some() {
            let own = self.definitions.read();
            names.retain(|name| !own.contains_key(&(of, name.clone())));
        }
        Ok(names)
    }

    /// The CREATE statement of the macro or type called `name`.
    ///
    /// # Errors
    /// Its file cannot be read, or is not a definition.
    pub(crate) fn definition(&self, of: Defined, name: &str) -> Result<Option<String>> {
        let name = name.to_lowercase();
        match self.redefined(Sort::Defined(of), &name) {
            Some(Some(Meaning::Text(sql))) => return Ok(Some(sql)),
            Some(_) => return Ok(None),
            None => {}
        }
        if let Some(sql) = self.definitions.read().get(&(of, name.clone())) {
            return Ok(Some(sql.clone()));
        }
        let Some(folder) = self.folder.as_ref().filter(|_| plain(&name).is_ok()) else { return Ok(None) };
        let path = folder.join(format!("{name}{}", of.suffix()));
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| super::io_error("cannot read", &path, &error))?,
        };
        let corrupt = |detail: String| FormatError::Corrupt { path: path.clone(), segment: None, detail };
        let stored: Stored =
            serde_json::from_slice(&bytes).map_err(|error| corrupt(format!("not a {}: {error}", of.word())))?;
        match stored.version {
            _ if stored.format != of.format() => Err(corrupt(format!("not a {}", of.word())).into()),
            VERSION => {
                // Other processes may change the definition: plans with it are not cached.
                self.shared.stored_views.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
                Ok(Some(stored.sql))
            }
            version => Err(corrupt(format!(
                "a {} of format version {version}, which a newer build of Warpmill has written",
                of.word()
            ))
            .into()),
        }
    }

    /// Removes a macro or a type; returns `false` if there is none of that name.
    pub(crate) fn remove_definition(&self, of: Defined, name: &str) -> Result<bool> {
        let name = name.to_lowercase();
        if self.shared.is_in_transaction() {
            let there = self.defined_names(of)?.contains(&name);
            let temporary = self.has_own(Sort::Defined(of), &name);
            return Ok(there && self.redefine(Sort::Defined(of), &name, None, temporary)?);
        }
        let mut removed = self.definitions.write().remove(&(of, name.clone())).is_some();
        if !removed && let Some(folder) = self.folder.as_ref().filter(|_| plain(&name).is_ok()) {
            let path = folder.join(format!("{name}{}", of.suffix()));
            removed = match std::fs::remove_file(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                gone => gone
                    .map(|()| true)
                    .map_err(|error| super::io_error(&format!("cannot drop {}", of.word()), &path, &error))?,
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
