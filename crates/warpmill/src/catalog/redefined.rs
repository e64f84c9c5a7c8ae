//! Views, macros, types and sequences that a transaction has created or dropped. Only the transaction sees these changes until it commits.

use std::path::PathBuf;

use warpmill_format::FormatError;
use warpmill_format::table::transaction::FileChange;

use super::definitions::stored_text;
use super::schema::{Entry, Found, Schema};
use super::sequences::{self, Sequence, SequenceFile};
use super::transaction::Transaction;
use super::{Catalog, Defined, View, create_directory, no_schema, plain, same, view};
use crate::{Error, Result};

/// The kinds of objects that are small files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    View,
    Defined(Defined),
    Sequence,
}

impl Sort {
    fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Defined(of) => of.word(),
            Self::Sequence => "sequence",
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::View => view::SUFFIX,
            Self::Defined(of) => of.suffix(),
            Self::Sequence => sequences::SUFFIX,
        }
    }
}

/// The object that a name refers to.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    View(View),
    /// The text of a definition.
    Text(String),
    Sequence(Sequence),
}

/// A change that a transaction has made to a view, a macro, a type or a sequence.
#[derive(Debug, Clone)]
pub(super) struct Redefined {
    schema: String,
    sort: Sort,
    /// The name as it was written; in lower case for all but views.
    name: String,
    /// Whether the object belongs to the session and not to the database.
    temporary: bool,
    /// Whether there was such a stored object when the transaction first changed it.
    was_stored: bool,
    /// The new definition; `None` if the object was dropped.
    now: Option<Meaning>,
}

impl Redefined {
    fn is(&self, schema: &str, sort: Sort, name: &str) -> bool {
        self.schema == schema && self.sort == sort && same(&self.name, name)
    }
}

impl Schema {
    /// Records a change of the session's transaction; returns `false` if there is no transaction.
    ///
    /// # Errors
    /// The transaction is aborted; both a temporary and a stored object have the name.
    pub(super) fn redefine(&self, sort: Sort, name: &str, now: Option<Meaning>, temporary: bool) -> Result<bool> {
        let mut transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_mut() else { return Ok(false) };
        transaction.check()?;
        let is_own = self.folder.is_none() || temporary;
        let has_other = if is_own { self.has_stored(sort, name) } else { self.has_own(sort, name) };
        if self.folder.is_some() && has_other {
            let word = sort.word();
            let text = format!("{word} '{name}', of which there is a temporary and a stored one, in a transaction");
            return Err(Error::NotImplemented(text));
        }
        if self.folder.is_some() && !is_own {
            plain(name)?;
        }
        let before = transaction.redefined.iter().find(|known| known.is(self.name(), sort, name));
        let was_stored = before.map_or_else(|| self.has_stored(sort, name), |before| before.was_stored);
        transaction.redefined.retain(|known| !known.is(self.name(), sort, name));
        let (schema, name) = (self.name().to_string(), name.to_string());
        transaction.redefined.push(Redefined { schema, sort, name, temporary: is_own, was_stored, now });
        self.shared.changed();
        Ok(true)
    }

    /// Whether the session has an object of that name itself.
    pub(super) fn has_own(&self, sort: Sort, name: &str) -> bool {
        match sort {
            Sort::View => {
                let tables = self.session_tables.read();
                tables.iter().any(|(known, entry)| same(known, name) && matches!(entry, Entry::View(_)))
            }
            Sort::Defined(of) => self.definitions.read().contains_key(&(of, name.to_lowercase())),
            Sort::Sequence => self.sequences.lock().contains_key(&name.to_lowercase()),
        }
    }

    fn has_stored(&self, sort: Sort, name: &str) -> bool {
        self.file_of(sort, name).is_some_and(|path| path.is_file())
    }

    fn file_of(&self, sort: Sort, name: &str) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| plain(name).is_ok())?;
        Some(folder.join(format!("{name}{}", sort.suffix())))
    }

    /// The change of the session's transaction to the object of a name: `Some(None)` if it was dropped, `None` without
    /// a change.
    pub(super) fn redefined(&self, sort: Sort, name: &str) -> Option<Option<Meaning>> {
        let transaction = self.shared.transaction.lock();
        let found = transaction.as_ref()?.redefined.iter().find(|known| known.is(self.name(), sort, name))?;
        Some(found.now.clone())
    }

    /// Whether the object that the session's transaction has created under a name is temporary; `None` if it has created none.
    pub(super) fn redefined_as(&self, sort: Sort, name: &str) -> Option<bool> {
        let transaction = self.shared.transaction.lock();
        let found = transaction.as_ref()?.redefined.iter().find(|known| known.is(self.name(), sort, name))?;
        found.now.as_ref().map(|_| found.temporary)
    }

    /// Takes the next `count` numbers of a sequence that the session's transaction has created; `None` if it has changed none of that name.
    ///
    /// # Errors
    /// It has dropped the sequence, or the sequence is exhausted.
    pub(super) fn advance_in_transaction(&self, name: &str, count: usize) -> Result<Option<Vec<i64>>> {
        let mut transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_mut() else { return Ok(None) };
        let found = transaction.redefined.iter_mut().find(|known| known.is(self.name(), Sort::Sequence, name));
        match found.map(|known| &mut known.now) {
            Some(Some(Meaning::Sequence(sequence))) => {
                let mut after = sequence.clone();
                let given = after.advance(name, count)?;
                *sequence = after;
                Ok(Some(given))
            }
            Some(_) => Err(sequences::missing(name)),
            None => Ok(None),
        }
    }

    /// Changes a list of sequences, each with its name and whether it is temporary, to those that the session's transaction sees.
    pub(super) fn sequences_in_transaction(&self, all: &mut Vec<(String, Sequence, bool)>) {
        let transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_ref() else { return };
        let own = transaction.redefined.iter().filter(|known| known.schema == self.name());
        for known in own.filter(|known| known.sort == Sort::Sequence) {
            all.retain(|(name, ..)| *name != known.name);
            if let Some(Meaning::Sequence(sequence)) = &known.now {
                let temporary = known.temporary && self.folder.is_some();
                all.push((known.name.clone(), sequence.clone(), temporary));
            }
        }
    }

    /// Changes a list of names of macros or types to the names that the session's transaction sees.
    pub(super) fn defined_in_transaction(&self, of: Defined, names: &mut Vec<String>) {
        let transaction = self.shared.transaction.lock();
        let Some(transaction) = transaction.as_ref() else { return };
        for known in transaction.redefined.iter().filter(|known| known.schema == self.name()) {
            if known.sort == Sort::Defined(of) {
                names.retain(|name| *name != known.name);
                names.extend(known.now.is_some().then(|| known.name.clone()));
            }
        }
    }
}

/// The view that a transaction sees under a name; `None` if it has not changed views of that name.
pub(super) fn view_of(all: &[Redefined], schema: &str, name: &str) -> Option<Option<Found>> {
    let found = all.iter().find(|known| known.is(schema, Sort::View, name))?;
    Some(match &found.now {
        Some(Meaning::View(view)) => Some(Found::Session(found.name.clone(), Entry::View(view.clone()))),
        _ => None,
    })
}

/// The names of the views that a transaction has created (`true`) or dropped (`false`) in a schema.
pub(super) fn views_of<'a>(all: &'a [Redefined], schema: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
    let own = all.iter().filter(move |known| known.schema == schema && known.sort == Sort::View);
    own.map(|known| (known.name.as_str(), known.now.is_some()))
}

/// The names of the files in the folder of a schema that a transaction has changed.
pub(super) fn files_in<'a>(all: &'a [Redefined], schema: &'a str) -> impl Iterator<Item = String> + 'a {
    let own = all.iter().filter(move |known| known.schema == schema && !known.temporary);
    own.map(|known| format!("{}{}", known.name, known.sort.suffix()))
}

/// The changes of files that make the changes of a transaction durable. Creates missing folders.
pub(super) fn files(ending: &Transaction, catalog: &Catalog) -> Result<Vec<FileChange>> {
    let mut files = vec![];
    for known in ending.redefined.iter().filter(|known| !known.temporary) {
        let Some(schema) = catalog.schema_within(ending, &known.schema)? else { return Err(no_schema(&known.schema)) };
        let Some(path) = schema.file_of(known.sort, &known.name) else { continue };
        if let Some(folder) = path.parent() {
            create_directory(folder)?;
        }
        let path = std::path::absolute(&path).map_err(|error| super::io_error("cannot resolve", &path, &error))?;
        let text = match (&known.now, known.sort) {
            (None, _) => None,
            (Some(Meaning::View(view)), _) => Some(String::from_utf8_lossy(&view.to_bytes()).into_owned()),
            (Some(Meaning::Text(sql)), Sort::Defined(of)) => Some(stored_text(of, sql)?),
            (Some(Meaning::Sequence(sequence)), _) => Some(sequence.to_text()?),
            (Some(Meaning::Text(_)), Sort::View | Sort::Sequence) => continue,
        };
        files.push(FileChange { path, text });
    }
    Ok(files)
}

/// Locks the files of stored sequences that a transaction has created or dropped, so that no other session takes numbers of one while the transaction
/// commits.
///
/// # Errors
/// Another session has created or dropped one since; errors of the file system.
pub(super) fn held_sequences(ending: &Transaction, catalog: &Catalog) -> Result<Vec<SequenceFile>> {
    let mut held = vec![];
    let mut changed: Vec<&Redefined> =
        ending.redefined.iter().filter(|known| known.sort == Sort::Sequence && !known.temporary).collect();
    // All commits lock them in the same order.
    changed.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    for known in changed {
        let Some(schema) = catalog.schema_within(ending, &known.schema)? else { return Err(no_schema(&known.schema)) };
        let Some(folder) = &schema.folder else { continue };
        create_directory(folder)?;
        held.push(SequenceFile::hold(folder, &known.name)?);
        if schema.has_stored(Sort::Sequence, &known.name) != known.was_stored {
            return Err(FormatError::Changed { table: format!("sequence '{}'", known.name) }.into());
        }
    }
    Ok(held)
}

/// Applies the temporary changes of a committed transaction to the session's objects.
pub(super) fn take_committed(ending: &Transaction, catalog: &Catalog) {
    for known in ending.redefined.iter().filter(|known| known.temporary).cloned() {
        let Ok(Some(schema)) = catalog.schema_within(ending, &known.schema) else { continue };
        match (known.sort, known.now) {
            (Sort::View, Some(Meaning::View(view))) => schema.put(&known.name, Entry::View(view)),
            (Sort::View, _) => drop(schema.take(&known.name)),
            (Sort::Defined(of), Some(Meaning::Text(sql))) => {
                schema.definitions.write().insert((of, known.name), sql);
            }
            (Sort::Defined(of), _) => drop(schema.definitions.write().remove(&(of, known.name))),
            (Sort::Sequence, Some(Meaning::Sequence(sequence))) => {
                schema.sequences.lock().insert(known.name, sequence);
            }
            (Sort::Sequence, _) => drop(schema.sequences.lock().remove(&known.name)),
        }
    }
}
