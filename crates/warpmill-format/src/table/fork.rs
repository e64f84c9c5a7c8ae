//! Tables in a transaction: the version at its first access, and its own writes, which are invisible to others before it commits.
//!
//! The first write locks the table until the transaction ends. Small data files become durable, and manifests are written, by the transaction's
//! commit ([`super::transaction`]). Until then versions have numbers of a separate range, so that objects derived from one version are
//! not mistaken for another's.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::data_file::DataFileWriter;
use super::directory::{self, Newest};
use super::fs::FileSystem;
use super::writer::Staging;
use super::{Home, Table, TableSnapshot, Version, WriterLock, leftovers};
use crate::{FormatError, Result};

/// The number of the first transaction-private version: larger than any table's.
const FIRST_OF_FORKS: u64 = 1 << 62;

/// A number that no other version has.
pub(super) fn version_number() -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(FIRST_OF_FORKS);
    MADE.fetch_add(1, Ordering::Relaxed)
}

/// A transaction's view of a table: the committed table, and the transaction's writes.
pub(crate) struct Fork {
    /// The committed table, and its version at the transaction's begin; `None`: the transaction has created the table.
    pub(super) of: Option<(Arc<Table>, Arc<TableSnapshot>)>,
    pub(super) state: Mutex<State>,
}

/// The writes of a transaction to a table so far, with the table's lock.
#[derive(Default)]
pub(super) struct State {
    /// Whether a statement writes.
    writing: bool,
    /// Whether a statement has written.
    pub changed: bool,
    /// Whether the transaction is over.
    ended: bool,
    /// Whether all that was written is held in memory: few rows.
    pub few: bool,
    /// The data files of all statements: removed when dropped, unless published.
    pub files: Vec<DataFileWriter>,
    /// The folder in which a new table is built.
    pub staging: Option<Staging>,
    /// The table's lock, from the first write on. Last: released when all else is cleaned up.
    pub lock: Option<Arc<WriterLock>>,
}

impl fmt::Debug for Fork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("of", &self.of).finish_non_exhaustive()
    }
}

/// The right of one statement to write a fork; released when dropped.
#[derive(Debug)]
pub(crate) struct ForkLock {
    table: Arc<Table>,
    pub(super) lock: Arc<WriterLock>,
}

impl Drop for ForkLock {
    fn drop(&mut self) {
        if let Some(fork) = &self.table.fork {
            fork.state.lock().writing = false;
        }
    }
}

impl Fork {
    /// A fork of a committed table with this version.
    pub(super) fn of(table: Arc<Table>, base: Arc<TableSnapshot>) -> Self {
        Self { of: Some((table, base)), state: Mutex::default() }
    }

    /// A fork of a new table built in `staging`.
    pub(super) fn made_in(staging: Staging, lock: WriterLock) -> Self {
        let state = State { staging: Some(staging), lock: Some(Arc::new(lock)), ..State::default() };
        Self { of: None, state: Mutex::new(state) }
    }

    /// Locks `table`, whose fork this is, for a statement.
    ///
    /// Errors: [`FormatError::Locked`] if another writer holds the lock, [`FormatError::Changed`] if one has committed since the transaction began,
    /// [`FormatError::Ended`].
    pub(super) fn lock(&self, table: &Arc<Table>, keep_versions: usize) -> Result<ForkLock> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(FormatError::Ended);
        }
        if state.writing {
            return Err(FormatError::Locked { table: table.shown() });
        }
        let lock = match (&state.lock, &self.of) {
            (Some(lock), _) => Arc::clone(lock),
            (None, Some((of, base))) => Arc::new(first_lock(of, base, keep_versions)?),
            (None, None) => return Err(FormatError::Ended),
        };
        state.lock = Some(Arc::clone(&lock));
        state.writing = true;
        Ok(ForkLock { table: Arc::clone(table), lock })
    }

    /// Locks the table until the transaction ends, without writing it.
    ///
    /// Errors: those of [`Fork::lock`].
    pub(super) fn hold(&self, table: &Arc<Table>) -> Result<()> {
        self.lock(table, usize::MAX).map(drop)
    }

    /// The newest committed version, if others have committed since the transaction began.
    ///
    /// Errors: those of [`Table::snapshot`].
    pub(super) fn newer(&self) -> Result<Option<Arc<TableSnapshot>>> {
        let Some((of, base)) = &self.of else { return Ok(None) };
        // While it is locked nobody commits.
        if self.state.lock().lock.is_some() {
            return Ok(None);
        }
        let newest = of.snapshot()?;
        Ok((!newest.is_same_version(base)).then_some(newest))
    }

    /// The writer of the next statement's data files, for a table in directory `path`.
    pub(super) fn data_files(&self, fs: &Arc<dyn FileSystem>, path: &Path) -> DataFileWriter {
        let state = self.state.lock();
        // Before its commit, a new table is read in its staging directory.
        let directory = state.staging.as_ref().map_or(path, |staging| &staging.path);
        let first = state.files.last().map_or(0, DataFileWriter::next_number);
        DataFileWriter::new(Arc::clone(fs), directory, directory, self.next_version()).numbered_from(first).sync_later()
    }

    /// The number of the table's next committed version.
    pub(super) fn next_version(&self) -> u64 {
        self.of.as_ref().map_or(1, |(_, base)| base.version() + 1)
    }

    /// Makes a statement's writes the version that the transaction sees from now on.
    ///
    /// Errors: [`FormatError::Ended`]: nothing is kept.
    pub(super) fn keep(
        &self,
        table: &Table,
        version: Version,
        files: Option<DataFileWriter>,
    ) -> Result<Arc<TableSnapshot>> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(FormatError::Ended);
        }
        state.few = files.as_ref().is_some_and(DataFileWriter::is_held) && (state.few || !state.changed);
        state.changed = true;
        state.files.extend(files);
        Ok(table.publish(version, None))
    }

    /// Ends the transaction's use of the table: removes uncommitted files, and releases the lock.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        *state = State { ended: true, ..State::default() };
    }
}

/// Locks `of`, whose newest version must still be `base`; removes older versions.
fn first_lock(of: &Arc<Table>, base: &TableSnapshot, keep_versions: usize) -> Result<WriterLock> {
    let lock = of.lock()?;
    let (now, stamp) = of.stamped()?;
    if !now.is_same_version(base) {
        return Err(FormatError::Changed { table: of.shown() });
    }
    if let Home::Directory { fs, path } = &of.home {
        let newest = Newest { snapshot: &now, stamp: stamp.as_ref() };
        directory::collect_garbage(&**fs, path, newest, keep_versions)?;
        leftovers::clean(path.parent().unwrap_or(path))?;
    }
    Ok(lock)
}

impl Table {
    /// The version that a writer of another table sees, and the newest committed one, if that is another, and a transaction that has not locked the
    /// table sees the former.
    pub(crate) fn seen(&self) -> Result<(Arc<TableSnapshot>, Option<Arc<TableSnapshot>>)> {
        let own = self.snapshot()?;
        let newer = self.fork.as_ref().map(Fork::newer).transpose()?;
        Ok((own, newer.flatten()))
    }

    /// Locks the table for a writer of another one: until the returned lock is dropped, or until the transaction ends.
    pub(crate) fn hold_for_others(self: &Arc<Self>) -> Result<Option<WriterLock>> {
        match &self.fork {
            Some(fork) => fork.hold(self).map(|()| None),
            None => self.lock().map(Some),
        }
    }

    /// Whether a transaction has written rows of the table.
    pub(super) fn has_changed(&self) -> bool {
        self.fork.as_ref().is_some_and(|fork| fork.state.lock().changed)
    }

    /// The committed table that a transaction has forked.
    pub fn forked(&self) -> Option<&Arc<Table>> {
        self.fork.as_ref().and_then(|fork| fork.of.as_ref()).map(|(of, _)| of)
    }
}
