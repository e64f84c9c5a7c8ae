//! Tables: row segments of all columns, in committed versions, on disk or in memory.
//!
//! A table on disk is a directory with data files, written once, and one manifest per committed version, which lists all parts of the version
//! (`docs/format.md`). The newest manifest is the current version. A writer holds the lock file, writes its files under temporary names, and commits
//! by renaming its manifest, or, if little has changed, by appending a record to the newest manifest's log; until then, and after any failure, readers
//! see the version before. The next writer removes old versions; readers of one keep its files open, mapped or not, which removal does not affect.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;

use crate::{FileAccess, FormatError, Result};

mod changes;
mod chunk;
mod column_dictionary;
mod columns;
mod conform;
mod constraints;
mod data_file;
mod decode;
mod deletions;
mod directory;
mod encoder;
mod entries;
mod fork;
mod fs;
mod identity;
mod interner;
pub mod journal;
pub mod leftovers;
mod log;
mod log_reader;
mod manifest;
mod manifest_check;
mod merging;
mod options;
mod parts;
mod pieces;
mod pruning;
mod record;
mod regroup;
mod rows;
mod sample;
mod sink;
mod snapshot;
mod sort;
mod stored_chunk;
mod strings;
mod summary;
mod threads;
pub mod transaction;
mod version;
mod waiting;
mod writer;
mod zone_writer;

#[cfg(test)]
pub(crate) mod tests;

pub use changes::Changes;
pub use columns::{ColumnWriter, EncodedColumn, Part};
pub use constraints::{Constraint, Relatives, RowCheck, is_key_type};
pub use options::WriteOptions;
pub use parts::WithParts;
pub use pieces::{Piece, Strings, Values};
pub use pruning::{ColumnZones, ZoneMap};
pub use snapshot::{ColumnSummary, TableSnapshot};
pub use stored_chunk::StoredChunk;
pub use writer::TableWriter;

pub(crate) use chunk::{Chunk as VersionChunk, Source};
pub(crate) use conform::{conform_column, stored_schema, strict_cast};
use data_file::DataFileWriter;
use directory::{Known, Newest, Stamp};
use fork::{Fork, ForkLock};
use fs::{FileSystem, SystemFs};
pub use identity::Identity;
use sink::Sink;
pub(crate) use version::{RowSegment, Version};
use writer::{Staging, Start};

/// A table in a directory or in memory: returns snapshots and commits writes.
#[derive(Debug)]
pub struct Table {
    home: Home,
    /// The newest version seen so far, and the stamp of its manifest.
    current: Mutex<Option<(Arc<TableSnapshot>, Option<Stamp>)>>,
    /// Whether files are read instead of mapped.
    reads: AtomicBool,
    /// Set for a table in a transaction.
    fork: Option<Fork>,
}

#[derive(Debug, Clone)]
enum Home {
    Memory { writing: Arc<AtomicU8> },
    Directory { fs: Arc<dyn FileSystem>, path: PathBuf },
}

/// Keeps writers from a table, until dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "held for its drop")]
pub struct TableHold(directory::DirectoryLock);

impl TableHold {
    /// [`Table::remove`] for the table in directory `path`, which is held.
    ///
    /// Errors: those of the file system.
    pub fn remove(self, path: &Path) -> Result<()> {
        let path = std::path::absolute(path).map_err(FormatError::io("cannot resolve", path))?;
        let _names = leftovers::hold_names(path.parent().unwrap_or(&path))?;
        let aside = leftovers::set_aside(&path)?;
        leftovers::sync_folder_of(&path)?;
        leftovers::remove(&aside);
        Ok(())
    }
}

/// The right to write a table, until dropped.
#[derive(Debug)]
pub(crate) enum WriterLock {
    Memory(#[expect(dead_code, reason = "held for its drop")] MemoryLock),
    Directory(directory::DirectoryLock),
    Fork(ForkLock),
}

impl WriterLock {
    /// Whether the table still has the name under which it was locked.
    fn holds(&self) -> bool {
        match self {
            WriterLock::Memory(_) => true,
            WriterLock::Directory(lock) => lock.holds(),
            WriterLock::Fork(fork) => fork.lock.holds(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct MemoryLock(Arc<AtomicU8>);

impl Drop for MemoryLock {
    fn drop(&mut self) {
        // One that was dropped meanwhile stays so.
        let _ = self.0.compare_exchange(WRITING, FREE, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// States of a table in memory: not being written, being written, dropped.
const FREE: u8 = 0;
const WRITING: u8 = 1;
const DROPPED: u8 = 2;

impl Table {
    /// A new, empty table in directory `path`, which must not exist.
    ///
    /// Errors: [`FormatError::Catalog`] when something of that name exists, [`FormatError::Schema`] for a column type that
    /// cannot be stored.
    pub fn create(path: &Path, schema: SchemaRef) -> Result<Arc<Self>> {
        let writer = Self::build(path, schema, WriteOptions::default())?;
        let table = writer.table().clone();
        writer.commit()?;
        Ok(table)
    }

    /// Starts a new table in directory `path`, which must not exist; the writer's commit creates it with all its rows, so that a table of that name
    /// never has only some of them.
    pub fn build(path: &Path, schema: SchemaRef, options: WriteOptions) -> Result<TableWriter> {
        Self::build_with(Arc::new(SystemFs), path, schema, options, None)
    }

    /// [`Table::build`] in the place of a damaged table, which is locked until the commit replaces it.
    pub fn build_over(path: &Path, schema: SchemaRef, options: WriteOptions) -> Result<TableWriter> {
        let over = directory::lock(path)?;
        Self::build_with(Arc::new(SystemFs), path, schema, options, Some(over))
    }

    /// [`Table::build`] in a transaction: the writer's commit shows the table to the transaction, and [`transaction::commit`] to others.
    pub fn build_in_transaction(path: &Path, schema: SchemaRef, options: WriteOptions) -> Result<TableWriter> {
        Self::build_fork(Arc::new(SystemFs), path, schema, &options)
    }

    fn build_fork(
        fs: Arc<dyn FileSystem>,
        path: &Path,
        schema: SchemaRef,
        options: &WriteOptions,
    ) -> Result<TableWriter> {
        let schema = stored_schema(&schema)?;
        let path = std::path::absolute(path).map_err(FormatError::io("cannot resolve", path))?;
        leftovers::clean(path.parent().unwrap_or(&path))?;
        let (staging, lock) = leftovers::create_folder(&*fs, &path)?;
        let staging = Staging { fs: fs.clone(), path: staging, over: None, done: false };
        let (number, identity) = (fork::version_number(), Identity::new());
        let empty = Version { identity: Some(identity), ..Version::empty(number, schema.clone()) };
        let empty = TableSnapshot::new(Some(path.clone()), empty);
        let mut table = Self::at(Home::Directory { fs, path }, Some(empty));
        table.fork = Some(Fork::made_in(staging, WriterLock::Directory(lock)));
        let table = Arc::new(table);
        let lock = table.writer_lock(options.keep_versions)?;
        let sink = table.sink(Newest { snapshot: &*table.snapshot()?, stamp: None }, options)?;
        let (base, codecs, staging, constraints) = (None, Vec::new(), None, Arc::default());
        let (replaced, stamp) = (None, None);
        TableWriter::start(
            Start { table, schema, base, stamp, replaced, constraints, number, identity, sink, codecs, staging, lock },
            options,
        )
    }

    fn build_with(
        fs: Arc<dyn FileSystem>,
        path: &Path,
        schema: SchemaRef,
        options: WriteOptions,
        over: Option<directory::DirectoryLock>,
    ) -> Result<TableWriter> {
        let schema = stored_schema(&schema)?;
        let path = std::path::absolute(path).map_err(FormatError::io("cannot resolve", path))?;
        if over.is_none() && path.symlink_metadata().is_ok() {
            return Err(FormatError::Catalog(format!("{} exists already", path.display())));
        }
        leftovers::clean(path.parent().unwrap_or(&path))?;
        let (staging, lock) = leftovers::create_folder(&*fs, &path)?;
        let staging = Staging { fs: fs.clone(), path: staging, over, done: false };
        let lock = WriterLock::Directory(lock);
        let sink = Sink::Files(Box::new(DataFileWriter::new(fs.clone(), &staging.path, &path, 1)));
        let table = Arc::new(Self::at(Home::Directory { fs, path }, None));
        let (base, identity, codecs, staging) = (None, Identity::new(), Vec::new(), Some(staging));
        let (number, constraints, replaced, stamp) = (1, Arc::default(), None, None);
        TableWriter::start(
            Start { table, schema, base, stamp, replaced, constraints, number, identity, sink, codecs, staging, lock },
            &options,
        )
    }

    /// Locks the table in directory `path`, valid or damaged, until dropped.
    ///
    /// Errors: [`FormatError::Locked`] if there is a writer, [`FormatError::Catalog`] if there is no such directory.
    pub fn hold(path: &Path) -> Result<TableHold> {
        directory::lock(path).map(TableHold)
    }

    /// Removes the table in directory `path`, valid or damaged, with its files. Its name is free at once, or nothing has changed.
    ///
    /// Errors: [`FormatError::Locked`] if there is a writer, [`FormatError::Catalog`] if there is no table.
    pub fn remove(path: &Path) -> Result<()> {
        Self::hold(path)?.remove(path)
    }

    /// Opens the table in directory `path`.
    ///
    /// Errors: [`FormatError::Catalog`] if there is none, [`FormatError::Corrupt`] if its manifest or files are damaged.
    pub fn open(path: &Path) -> Result<Arc<Self>> {
        Self::open_as(path, FileAccess::default())
    }

    /// [`Table::open`] with an access method for its files.
    pub fn open_as(path: &Path, access: FileAccess) -> Result<Arc<Self>> {
        Self::open_in(Arc::new(SystemFs), path, access)
    }

    #[cfg(test)]
    fn open_with(fs: Arc<dyn FileSystem>, path: &Path) -> Result<Arc<Self>> {
        Self::open_in(fs, path, FileAccess::default())
    }

    fn open_in(fs: Arc<dyn FileSystem>, path: &Path, access: FileAccess) -> Result<Arc<Self>> {
        let path = std::path::absolute(path).map_err(FormatError::io("cannot resolve", path))?;
        let table = Arc::new(Self::at(Home::Directory { fs, path }, None));
        table.set_access(access);
        table.snapshot()?;
        Ok(table)
    }

    /// Whether directory `path` contains a table, valid or damaged.
    ///
    /// Errors: those of the file system.
    pub fn exists(path: &Path) -> Result<bool> {
        directory::is_table(path)
    }

    /// A table that lives in memory only. Columns of types that cannot be stored are reported when it is written.
    pub fn in_memory(schema: SchemaRef) -> Arc<Self> {
        let schema = stored_schema(&schema).unwrap_or(schema);
        let empty = TableSnapshot::new(None, Version::empty(1, schema));
        let home = Home::Memory { writing: Arc::default() };
        Arc::new(Self::at(home, Some(empty)))
    }

    fn at(home: Home, snapshot: Option<Arc<TableSnapshot>>) -> Self {
        let (current, reads) = (Mutex::new(snapshot.map(|snapshot| (snapshot, None))), AtomicBool::new(false));
        Self { home, current, reads, fork: None }
    }

    /// A fork of the table for a transaction that begins now: its writes are invisible to others before [`transaction::commit`].
    ///
    /// Errors: those of [`Table::snapshot`].
    pub fn fork(self: &Arc<Self>) -> Result<Arc<Self>> {
        let base = self.snapshot()?;
        let mut own = Self::at(self.home.clone(), Some(Arc::clone(&base)));
        own.set_access(self.access());
        own.fork = Some(Fork::of(Arc::clone(self), base));
        Ok(Arc::new(own))
    }

    /// Locks a table that a transaction has forked until the transaction ends.
    ///
    /// Errors: [`FormatError::Locked`] if there is another writer, [`FormatError::Changed`] if one has committed since the fork.
    pub fn hold_fork(self: &Arc<Self>) -> Result<()> {
        self.own_fork()?.hold(self)
    }

    /// Whether it is a table that a transaction has made.
    pub fn is_made_in_transaction(&self) -> bool {
        self.fork.as_ref().is_some_and(|fork| fork.of.is_none())
    }

    fn own_fork(&self) -> Result<&Fork> {
        self.fork.as_ref().ok_or(FormatError::Ended)
    }

    /// Sets the access method for files of further snapshots; existing ones keep theirs.
    pub fn set_access(&self, access: FileAccess) {
        self.reads.store(access == FileAccess::Read, Ordering::Relaxed);
    }

    fn access(&self) -> FileAccess {
        if self.reads.load(Ordering::Relaxed) { FileAccess::Read } else { FileAccess::Map }
    }

    /// The table's directory; `None` for a table in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.home {
            Home::Memory { .. } => None,
            Home::Directory { path, .. } => Some(path),
        }
    }

    /// The version that [`Table::snapshot`] returned last; there may be a newer one.
    pub fn last_snapshot(&self) -> Option<Arc<TableSnapshot>> {
        self.current.lock().as_ref().map(|(snapshot, _)| Arc::clone(snapshot))
    }

    /// The stamp of that version, if it is a committed one on disk.
    fn last_stamp(&self) -> Option<Stamp> {
        self.current.lock().as_ref().and_then(|(_, stamp)| stamp.clone())
    }

    /// The newest committed version, of any process.
    pub fn snapshot(&self) -> Result<Arc<TableSnapshot>> {
        self.stamped().map(|(snapshot, _)| snapshot)
    }

    /// [`Table::snapshot`] with its stamp, if it is a committed version on disk.
    fn stamped(&self) -> Result<(Arc<TableSnapshot>, Option<Stamp>)> {
        let mut current = self.current.lock();
        let path = match (&self.home, &self.fork) {
            (Home::Directory { path, .. }, None) => path,
            (Home::Memory { .. }, _) | (_, Some(_)) => {
                return Ok(current.clone().expect("tables in memory and forks have a version"));
            }
        };
        if let Some((snapshot, Some(stamp))) = &*current
            && snapshot.is_open(self.access())
            && stamp.is_newest(path, snapshot.version())?
            && snapshot.check_files().is_ok()
        {
            return Ok((snapshot.clone(), Some(stamp.clone())));
        }
        // Nothing is reused from files that have been changed.
        let known = current.take().filter(|(snapshot, _)| snapshot.check_files().is_ok());
        let known = known.as_ref().map(|(snapshot, stamp)| Known { version: snapshot.parts(), stamp: stamp.as_ref() });
        let (version, stamp) = directory::load_newest(path, known, self.access())?;
        let snapshot = TableSnapshot::sealed(Some(path.clone()), version, stamp.seal);
        *current = Some((snapshot.clone(), Some(stamp.clone())));
        Ok((snapshot, Some(stamp)))
    }

    /// Version `version`, if it still exists.
    ///
    /// Errors: [`FormatError::Catalog`] with the existing versions; those of [`Table::snapshot`].
    pub fn snapshot_at(&self, version: u64) -> Result<Arc<TableSnapshot>> {
        let newest = self.snapshot()?;
        if newest.version() == version {
            return Ok(newest);
        }
        let mut there = vec![newest.version()];
        if let Home::Directory { path, .. } = &self.home
            && !self.is_made_in_transaction()
        {
            if let Some((found, stamp)) = directory::load_version(path, version, newest.parts(), self.access())? {
                return Ok(TableSnapshot::sealed(Some(path.clone()), found, stamp.seal));
            }
            there = directory::versions(path)?;
        }
        let there = there.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let name = self.path().and_then(Path::file_name).map_or("in memory".into(), |name| name.to_string_lossy());
        Err(FormatError::Catalog(format!("table {name} has no version {version} any more, or not yet: it has {there}")))
    }

    /// Starts an append to the newest version.
    ///
    /// Errors: [`FormatError::Locked`] if there is another writer, in this or another process; [`FormatError::Replaced`] for a table in memory that
    /// was dropped.
    pub fn append(self: &Arc<Self>, options: WriteOptions) -> Result<TableWriter> {
        self.write(None, None, options)
    }

    /// [`Table::append`] for rows with the columns of `planned`, an earlier version.
    ///
    /// Errors: [`FormatError::Replaced`] if the name belongs to another table now, or the table has other columns.
    pub fn append_to(self: &Arc<Self>, planned: &TableSnapshot, options: WriteOptions) -> Result<TableWriter> {
        self.write(None, Some(planned), options)
    }

    /// Starts a version that replaces all rows (and may change the schema).
    ///
    /// Errors: those of [`Table::append`], and [`FormatError::Schema`] for a column type that cannot be stored.
    pub fn replace(self: &Arc<Self>, schema: SchemaRef, options: WriteOptions) -> Result<TableWriter> {
        self.write(Some(stored_schema(&schema)?), None, options)
    }

    /// [`Table::replace`] with rows for the columns of `planned`, an earlier version.
    ///
    /// Errors: those of [`Table::append_to`].
    pub fn replace_rows(self: &Arc<Self>, planned: &TableSnapshot, options: WriteOptions) -> Result<TableWriter> {
        self.write(Some(planned.schema().clone()), Some(planned), options)
    }

    /// Prevents all further writes to a table in memory that has been dropped.
    ///
    /// Errors: [`FormatError::Locked`] if there is a writer.
    pub fn retire(&self) -> Result<()> {
        match &self.home {
            Home::Directory { .. } => Ok(()),
            Home::Memory { writing } => {
                match writing.compare_exchange(FREE, DROPPED, Ordering::AcqRel, Ordering::Acquire) {
                    Err(WRITING) => Err(FormatError::Locked { table: "in memory".into() }),
                    _ => Ok(()),
                }
            }
        }
    }

    /// [`Table::retire`] for a table whose only writer is the caller.
    fn drop_for_good(&self) {
        if let Home::Memory { writing } = &self.home {
            writing.store(DROPPED, Ordering::Release);
        }
    }

    /// Takes [`Table::retire`] back.
    pub fn reinstate(&self) {
        if let Home::Memory { writing } = &self.home {
            let _ = writing.compare_exchange(DROPPED, FREE, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    fn write(
        self: &Arc<Self>,
        replaced_by: Option<SchemaRef>,
        planned: Option<&TableSnapshot>,
        options: WriteOptions,
    ) -> Result<TableWriter> {
        let lock = self.writer_lock(options.keep_versions)?;
        let (base, stamp) = self.stamped()?;
        if planned.is_some_and(|planned| !base.continues(planned)) {
            return Err(self.replaced());
        }
        let number = if self.fork.is_some() { fork::version_number() } else { base.version() + 1 };
        let identity = base.parts().identity.filter(|_| replaced_by.is_none()).unwrap_or_else(Identity::new);
        let sink = self.sink(Newest { snapshot: &base, stamp: stamp.as_ref() }, &options)?;
        // Rows for an earlier version belong to its table; others may be for a different table of the same name.
        let constraints = match replaced_by.is_some() && planned.is_none() {
            true => Arc::default(),
            false => Arc::clone(&base.parts().constraints),
        };
        let replaced = (replaced_by.is_some() && planned.is_some()).then(|| Arc::clone(&base));
        let (schema, codecs, base) = match replaced_by {
            // Columns keep their codecs by name.
            Some(schema) => {
                let choice = |name: &str| base.parts().codecs.get(base.column_index(name)?).copied().flatten();
                let codecs = schema.fields().iter().map(|field| choice(field.name())).collect();
                (schema, codecs, None)
            }
            None => (stored_schema(base.schema())?, base.parts().codecs.clone(), Some(base)),
        };
        let table = self.clone();
        let staging = None;
        TableWriter::start(
            Start { table, schema, base, stamp, replaced, constraints, number, identity, sink, codecs, staging, lock },
            &options,
        )
    }

    /// The destination of the next version, after `newest`; removes versions that cannot be requested any more.
    fn sink(&self, newest: Newest<'_>, options: &WriteOptions) -> Result<Sink> {
        let base = newest.snapshot;
        let Home::Directory { fs, path } = &self.home else { return Ok(Sink::Memory) };
        let files = match &self.fork {
            Some(fork) => fork.data_files(fs, path),
            None => {
                directory::collect_garbage(&**fs, path, newest, options.keep_versions)?;
                leftovers::clean(path.parent().unwrap_or(path))?;
                DataFileWriter::new(fs.clone(), path, path, base.version() + 1)
            }
        };
        let files = files.with_access(self.access());
        let has_codecs = options.codec.is_some() || base.parts().codecs.iter().any(Option::is_some);
        // Earlier statements of a transaction that are too many for a record have no use for others in memory.
        let pending = base.files().iter().filter(|file| file.is_pending()).map(|file| file.held_bytes()).sum::<u64>();
        let is_little = pending <= record::MOST_RECORD_BYTES as u64;
        let holds = options.log && !has_codecs && !options.direct_io && is_little;
        Ok(Sink::Files(Box::new(if holds { files.holding() } else { files })))
    }

    /// The error for writing to a table whose name belongs to another one now.
    fn replaced(&self) -> FormatError {
        FormatError::Replaced { table: self.shown() }
    }

    /// The table's name in errors.
    fn shown(&self) -> String {
        self.path().map_or_else(|| "in memory".into(), |path| path.display().to_string())
    }

    /// Locks it for writing, within a transaction or not.
    fn writer_lock(self: &Arc<Self>, keep_versions: usize) -> Result<WriterLock> {
        match &self.fork {
            Some(fork) => fork.lock(self, keep_versions).map(WriterLock::Fork),
            None => self.lock(),
        }
    }

    fn lock(&self) -> Result<WriterLock> {
        match &self.home {
            Home::Directory { path, .. } => {
                let lock = directory::lock(path)?;
                // A version that another transaction has committed may not have its name yet.
                journal::finish_around(path.parent().unwrap_or(path))?;
                Ok(WriterLock::Directory(lock))
            }
            Home::Memory { writing } => {
                match writing.compare_exchange(FREE, WRITING, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => Ok(WriterLock::Memory(MemoryLock(writing.clone()))),
                    Err(DROPPED) => Err(self.replaced()),
                    Err(_) => Err(FormatError::Locked { table: "in memory".into() }),
                }
            }
        }
    }

    /// The file system and directory of a table on disk.
    fn directory(&self) -> (&Arc<dyn FileSystem>, &Path) {
        match &self.home {
            Home::Directory { fs, path } => (fs, path),
            Home::Memory { .. } => unreachable!("a table in memory writes no files"),
        }
    }

    /// Makes a committed version, whose manifest has this stamp, the newest one.
    fn publish(&self, version: Version, stamp: Option<Stamp>) -> Arc<TableSnapshot> {
        let seal = stamp.as_ref().map_or(0, |stamp| stamp.seal);
        let snapshot = TableSnapshot::sealed(self.path().map(Path::to_owned), version, seal);
        *self.current.lock() = Some((snapshot.clone(), stamp));
        snapshot
    }
}
