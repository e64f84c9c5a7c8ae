//! Commits a transaction's changes to several tables: all of them, or none.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::data_file::DataFileWriter;
use super::directory::{self, Stamp};
use super::fork::{Fork, State};
use super::fs::{FileSystem, SystemFs};
use super::journal::{self, Journal, Step};
use super::leftovers::FolderLock;
use super::log::{Append, open_logs};
use super::manifest::Manifest;
use super::{Home, Table, Version, leftovers};
use crate::{FormatError, Result};

/// A transaction's change to a table that it has forked ([`Table::fork`]) or created ([`Table::build_in_transaction`]).
#[derive(Debug, Clone)]
pub enum Change {
    /// The rows written by statements become its next version; no change if none were written.
    Written(Arc<Table>),
    /// A created table gets its name.
    Made(Arc<Table>),
    /// A created table gets this path, not that under which it was created.
    MadeAs(Arc<Table>, PathBuf),
    /// A table, of which others know the first path, gets the second one. Several such changes are made in their order, after those of rows.
    Renamed(Arc<Table>, PathBuf, PathBuf),
    /// The forked table is dropped.
    Dropped(Arc<Table>),
}

/// A small file of the database that a transaction writes or removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The new content; `None` removes the file.
    pub text: Option<String>,
}

/// A folder of tables and files that a transaction makes or removes, a schema of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FolderChange {
    /// The folder `from`, which others do not see, becomes `path`.
    Made {
        /// Its absolute path so far.
        from: PathBuf,
        /// Its new absolute path.
        path: PathBuf,
    },
    /// The folder is removed, if only these are in it.
    Removed {
        /// The absolute path of the folder.
        path: PathBuf,
        /// The names of tables and files.
        names: Vec<String>,
        /// The suffix of hidden files that may be in it, too.
        hidden: &'static str,
    },
}

impl FolderChange {
    fn path(&self) -> &Path {
        let (Self::Made { path, .. } | Self::Removed { path, .. }) = self;
        path
    }

    /// The step that makes the change, for which all else is durable.
    fn step(&self, database: &Path) -> Result<Step> {
        let folder = relative(self.path(), database)?;
        Ok(match self {
            Self::Made { from, .. } => {
                leftovers::sync_folder_of(from)?;
                Step::FolderMade { from: relative(from, database)?, folder }
            }
            Self::Removed { .. } => Step::FolderRemoved { folder },
        })
    }

    /// Refuses a folder that others have made, or in which they have made something.
    fn check(&self) -> Result<()> {
        let changed = || FormatError::Changed { table: self.path().display().to_string() };
        match self {
            Self::Made { path, .. } if path.symlink_metadata().is_ok() => Err(changed()),
            Self::Made { .. } => Ok(()),
            Self::Removed { path, names, hidden } => {
                let is_known = |name: &String| names.contains(name) || name.starts_with('.') && name.ends_with(hidden);
                if directory::names(path)?.iter().all(is_known) { Ok(()) } else { Err(changed()) }
            }
        }
    }
}

/// A change that is durable except for the names of its files and folders.
struct Ready {
    step: Step,
    table: Arc<Table>,
    /// The path that becomes one of a table.
    named: Option<PathBuf>,
    /// The version that others will see, with the stamp of its manifest.
    version: Option<(Version, Stamp)>,
    /// In the place of the step: a commit to the table's log, whose stamp this is.
    append: Option<(Append, Stamp)>,
}

/// Commits the changes of a transaction to tables of `database`, or in memory, and to files of the database: they become visible and durable
/// together, or nothing has changed. Asks `may_commit` before the last step, which gives files and folders their names. The forks cannot be
/// used afterwards.
///
/// Errors: those of [`super::TableWriter::commit`], with the same exception for the last step; [`FormatError::Replaced`] if the name of a new
/// table is taken; [`FormatError::Catalog`] for a stored table that is not in the database; [`FormatError::Cancelled`] if it may not commit.
pub fn commit(
    database: Option<&Path>,
    changes: &[Change],
    files: &[FileChange],
    may_commit: impl FnOnce() -> bool,
) -> Result<()> {
    commit_with_folders(database, changes, files, &[], may_commit)
}

/// [`commit`] with folders of tables and files, which are made or removed after all else.
///
/// Errors: also [`FormatError::Changed`] if others have made one, or something in one that is to be removed.
pub fn commit_with_folders(
    database: Option<&Path>,
    changes: &[Change],
    files: &[FileChange],
    folders: &[FolderChange],
    may_commit: impl FnOnce() -> bool,
) -> Result<()> {
    let ended = Ended(changes);
    let stored = |change: &&Change| matches!(change.table().home, Home::Directory { .. });
    let mut in_order: Vec<&Change> = changes.iter().filter(stored).collect();
    in_order.sort_by_key(|change| change.turn());
    let database = database.unwrap_or(Path::new(""));
    let changes_nothing = |change: &&Change| matches!(change, Change::Written(table) if !table.has_changed());
    in_order.retain(|change| !changes_nothing(change));
    // A log is of one table.
    let alone = in_order.len() == 1 && files.is_empty() && folders.is_empty();
    let ready = in_order.into_iter().filter_map(|change| change.ready(database, alone).transpose());
    let mut ready = ready.collect::<Result<Vec<Ready>>>()?;
    let file = |change: &FileChange| {
        let file = relative(&change.path, database)?;
        Ok(Step::File { file, text: change.text.clone() })
    };
    let others = files.iter().map(file).chain(folders.iter().map(|folder| folder.step(database)));
    let others = others.collect::<Result<Vec<Step>>>()?;
    match &mut ready[..] {
        [Ready { append: Some((append, stamp)), version, table, .. }] => {
            let (fs, path) = table.directory();
            let may_commit = || if may_commit() { Ok(()) } else { Err(FormatError::Cancelled) };
            *version = Some((append.version.clone(), append.commit(&**fs, path, stamp, may_commit)?));
        }
        ready => place(database, ready, others, folders, may_commit)?,
    }
    for Ready { table, version, .. } in ready {
        if let (Some((version, stamp)), Some((of, _))) = (version, &table.own_fork()?.of) {
            of.publish(version, Some(stamp));
        }
    }
    changes.iter().filter(|change| !stored(change)).try_for_each(Change::apply_in_memory)?;
    drop(ended);
    Ok(())
}

/// Ends the transaction's use of forked or created tables: uncommitted changes are removed.
pub fn end(tables: impl IntoIterator<Item = Arc<Table>>) {
    tables.into_iter().filter_map(|table| table.fork.as_ref().map(Fork::end)).for_each(drop);
}

/// Ends all forks when it is dropped.
struct Ended<'a>(&'a [Change]);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        end(self.0.iter().map(|change| Arc::clone(change.table())));
    }
}

impl Change {
    fn table(&self) -> &Arc<Table> {
        let (Self::Written(table)
        | Self::Made(table)
        | Self::MadeAs(table, _)
        | Self::Renamed(table, ..)
        | Self::Dropped(table)) = self;
        table
    }

    /// Its place in the order of steps: new tables may have the names of dropped and renamed ones.
    fn turn(&self) -> u8 {
        match self {
            Self::Dropped(_) => 0,
            Self::Written(_) => 1,
            Self::Renamed(..) => 2,
            Self::Made(_) | Self::MadeAs(..) => 3,
        }
    }

    /// Makes the change of a stored table durable, except for its names; `None` if there is no change. `alone`: it is the only one.
    fn ready(&self, database: &Path, alone: bool) -> Result<Option<Ready>> {
        let table = self.table();
        let (fs, path) = table.directory();
        let fork = table.own_fork()?;
        let folder = path.parent().unwrap_or(path);
        let relative = |path: &Path| relative(path, database);
        let mut state = fork.state.lock();
        if let Some(lock) = &state.lock
            && !lock.holds()
        {
            return Err(table.replaced());
        }
        if !matches!(self, Self::Dropped(_)) {
            let newest = table.snapshot()?;
            let needed: HashSet<&str> = newest.files().iter().map(|file| file.name()).collect();
            state.files.iter_mut().try_for_each(|files| files.sync(|name| needed.contains(name)))?;
        }
        let (mut named, mut append) = (None, None);
        let (step, version) = match (self, &fork.of, &state.staging) {
            (Self::Dropped(_), Some((_, base)), _) => {
                (Step::Dropped { table: relative(path)?, identity: base.parts().identity }, None)
            }
            (Self::Renamed(_, from, to), Some(_), _) => {
                named = Some(to.clone());
                let identity = table.snapshot()?.parts().identity;
                (Step::Renamed { from: relative(from)?, table: relative(to)?, identity }, None)
            }
            (Self::Written(_), Some((of, base)), _) if state.changed => {
                let step = Step::Version { table: relative(path)?, version: fork.next_version() };
                let (now, stamp) = of.stamped()?;
                let is_few = alone && state.few && now.is_same_version(base);
                if let Some(stamp) = stamp.as_ref().filter(|_| is_few) {
                    let made = Append::of(path, stamp, base.parts(), &for_others(table, fork)?, table.access())?;
                    append = made.map(|made| (made, stamp.clone()));
                }
                let version = match append {
                    Some(_) => None,
                    None => {
                        let log = state.few || stamp.as_ref().is_some_and(|stamp| stamp.log.is_some());
                        stamp.map_or(Ok(()), |stamp| stamp.sync_log(&**fs, path))?;
                        let version = staged(fs, table, &mut state, path, log)?;
                        fs.sync_dir(path).map_err(FormatError::io("cannot sync", path))?;
                        Some(version)
                    }
                };
                (step, version)
            }
            (Self::Made(_) | Self::MadeAs(..), None, Some(staging)) => {
                let path = if let Self::MadeAs(_, path) = self { path } else { path };
                named = Some(path.to_path_buf());
                let staging = staging.path.clone();
                let (version, _) = staged(fs, table, &mut state, &staging, false)?;
                directory::place_manifest(&**fs, &staging, version.number)?;
                directory::mark_committed(&**fs, &staging, version.number);
                fs.sync_dir(folder).map_err(FormatError::io("cannot sync", folder))?;
                (Step::Made { from: relative(&staging)?, table: relative(path)? }, None)
            }
            _ => return Ok(None),
        };
        Ok(Some(Ready { step, table: Arc::clone(table), named, version, append }))
    }

    /// Publishes the change of a table in memory.
    fn apply_in_memory(&self) -> Result<()> {
        let Some(fork) = &self.table().fork else { return Ok(()) };
        let changed = fork.state.lock().changed;
        match (self, &fork.of) {
            (Self::Written(table), Some((of, _))) if changed => {
                of.publish(for_others(table, fork)?, None);
            }
            (Self::Dropped(_), Some((of, _))) => of.drop_for_good(),
            _ => {}
        }
        Ok(())
    }
}

/// The newest version of a fork, with its public version number.
fn for_others(table: &Table, fork: &Fork) -> Result<Version> {
    let mut version = table.snapshot()?.parts().clone();
    version.number = fork.next_version();
    Ok(version)
}

/// The newest version of a fork, with its manifest staged in `directory`, and what statements have held in memory in a file there. `log`: whether the
/// manifest may have a log.
fn staged(
    fs: &Arc<dyn FileSystem>,
    table: &Table,
    state: &mut State,
    directory: &Path,
    log: bool,
) -> Result<(Version, Stamp)> {
    let mut version = for_others(table, table.own_fork()?)?;
    if version.is_pending() {
        let first = state.files.last().map_or(0, DataFileWriter::next_number);
        let files = DataFileWriter::new(Arc::clone(fs), directory, directory, version.number);
        let mut files = files.numbered_from(first).with_access(table.access());
        let settled = files.settle(&mut version);
        state.files.push(files);
        settled?;
    }
    open_logs(&mut version, directory, table.access())?;
    let manifest = Manifest { log, ..version.to_manifest() };
    let stamp = directory::stage_manifest(&**fs, directory, &manifest)?;
    Ok((version, stamp))
}

/// The path relative to the database.
fn relative(path: &Path, database: &Path) -> Result<String> {
    // Without a database, no path is in it.
    let inside = path.strip_prefix(database).ok().filter(|relative| relative.is_relative());
    let relative = inside.and_then(Path::to_str).map(str::to_owned);
    let database = database.display();
    relative.ok_or_else(|| FormatError::Catalog(format!("{} is no name in {database}", path.display())))
}

/// Gives files and folders their names; `others` are the steps for single files and for folders of tables.
fn place(
    database: &Path,
    ready: &[Ready],
    others: Vec<Step>,
    folders: &[FolderChange],
    may_commit: impl FnOnce() -> bool,
) -> Result<()> {
    let committing = || {
        if !may_commit() {
            return Err(FormatError::Cancelled);
        }
        // From now on, files and folders may belong to committed tables.
        for one in ready {
            let mut state = one.table.own_fork()?.state.lock();
            state.files.iter_mut().for_each(|files| files.publish());
            state.staging.iter_mut().for_each(|staging| staging.done = true);
        }
        Ok(())
    };
    let steps: Vec<Step> = ready.iter().map(|one| one.step.clone()).chain(others).collect();
    let fs: &dyn FileSystem = ready.first().map_or(&SystemFs, |one| &**one.table.directory().0);
    let _names = hold_names_of(database, ready, folders)?;
    match &steps[..] {
        [] => committing(),
        [one] => {
            committing()?;
            let aside = one.apply(fs, database)?;
            aside.iter().for_each(|path| leftovers::remove(path));
            Ok(())
        }
        steps => {
            let journal = Journal::commit(fs, database, steps, committing)?;
            // The transaction is committed: the next statement that looks for commits does the steps that fail now.
            journal.finish(fs, database, steps).unwrap_or_else(|error| {
                tracing::warn!(%error, "a commit of several tables is left for the next statement to finish");
            });
            Ok(())
        }
    }
}

/// Locks the folders in which tables get names, which must be free, or belong to tables dropped or renamed in the same commit.
///
/// Errors: [`FormatError::Replaced`] if one is in use; those of folders of tables.
fn hold_names_of(database: &Path, ready: &[Ready], folders: &[FolderChange]) -> Result<Vec<Option<FolderLock>>> {
    let named = || ready.iter().filter_map(|one| Some((&one.table, one.named.as_deref()?)));
    let mut held: Vec<&Path> = named().filter_map(|(_, path)| path.parent()).collect();
    held.extend(folders.iter().map(|folder| match folder {
        FolderChange::Made { .. } => database,
        FolderChange::Removed { path, .. } => path,
    }));
    // All commits lock folders in the same order, so that two of them do not wait for each other.
    held.sort_unstable();
    held.dedup();
    let locks = held.into_iter().map(leftovers::hold_folder).collect::<Result<Vec<_>>>()?;
    journal::finish(database)?;
    folders.iter().try_for_each(FolderChange::check)?;
    let goes = |path: &Path| {
        let goes = |one: &&Ready| matches!(one.step, Step::Dropped { .. } | Step::Renamed { .. });
        ready.iter().filter(goes).any(|one| one.table.path() == Some(path))
    };
    for (table, path) in named() {
        if path.symlink_metadata().is_ok() && !goes(path) {
            return Err(FormatError::Replaced { table: table.shown() });
        }
    }
    Ok(locks)
}
