//! Writes a new version: divides rows into row segments, encodes them in the background, commits.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;

use super::constraints::guard::{Guard, check_rows};
use super::constraints::{self, Constraint, Relatives, RowCheck};
use super::directory::Stamp;
use super::encoder::{Encoded, Encoder};
use super::fs::FileSystem;
use super::log::{Append, open_logs};
use super::manifest::Manifest;
use super::merging::{is_manifest_due, mapped_segments, small_ranges, tail_range};
use super::sink::{Sink, Storage};
use super::sort::SortBuffer;
use super::threads::Threads;
use super::version::Version;
use super::zone_writer::{ZoneOptions, ZoneWriter};
use super::{Changes, Identity, Table, TableSnapshot, WriteOptions, WriterLock, conform, directory, leftovers};
use crate::codec::{CodecChoice, CodecConfig, ColumnChoice, ColumnCodec};
use crate::pruning::{Lookup, Sideways, is_key};
use crate::{FormatError, Result};

/// Writes row segments of a new version; nothing is visible before [`TableWriter::commit`]. Dropped without a commit it removes everything that it
/// has written.
///
/// Memory: the row segment being filled (at most [`WriteOptions::segment_bytes`], and a batch), and row segments waiting and being encoded: as many
/// of each as keep all threads busy (two columns a thread); chunks that wait for their neighbours (at most 256 MiB); plus 1 to 4 bytes per row and
/// string column whose dictionary is not final yet. With [`WriteOptions::sort_by`], all rows.
pub struct TableWriter {
    table: Arc<Table>,
    schema: SchemaRef,
    number: u64,
    identity: Identity,
    base: Option<Arc<TableSnapshot>>,
    /// The stamp of the newest version.
    stamp: Option<Stamp>,
    segment_rows: usize,
    segment_bytes: usize,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    sort: Option<SortBuffer>,
    encoding: Encoding,
    staging: Option<Staging>,
    /// The checks of rows.
    guard: Guard,
    /// Bytes that keys of new rows may take.
    key_bytes: usize,
    least_marked: usize,
    /// The table's name in errors; empty if unknown.
    name: String,
    may_commit: Box<dyn FnOnce() -> bool + Send>,
    // The last field: the lock is released after all other cleaning up.
    lock: WriterLock,
}

/// The parts from which a writer is made.
pub(crate) struct Start {
    pub table: Arc<Table>,
    pub schema: SchemaRef,
    pub base: Option<Arc<TableSnapshot>>,
    /// The stamp of the newest version of a table in a directory.
    pub stamp: Option<Stamp>,
    /// A version with the same constraints all of whose rows are replaced.
    pub replaced: Option<Arc<TableSnapshot>>,
    pub constraints: Arc<[Constraint]>,
    pub number: u64,
    pub identity: Identity,
    pub sink: Sink,
    /// Codecs of columns that the options do not change; empty: none.
    pub codecs: Vec<Option<ColumnChoice>>,
    pub staging: Option<Staging>,
    pub lock: WriterLock,
}

/// A directory in which a new table is built before it gets its name.
pub(crate) struct Staging {
    pub fs: Arc<dyn FileSystem>,
    pub path: PathBuf,
    /// The lock of a damaged table that has the name and will be replaced.
    pub over: Option<directory::DirectoryLock>,
    pub done: bool,
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.done {
            // The next writer in the same folder removes remaining files.
            let _ = leftovers::remove_folder(&*self.fs, &self.path);
        }
    }
}

impl TableWriter {
    pub(crate) fn start(start: Start, options: &WriteOptions) -> Result<Self> {
        let Start { table, schema, base, stamp, replaced, constraints, number, identity, sink, codecs, staging, lock } =
            start;
        let mut guard = Guard::new(constraints, &schema, options.key_bytes)?;
        if let Some(replaced) = replaced {
            guard.replace(replaced);
        }
        let name = table.path().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let segment_rows = options.segment_rows;
        if !segment_rows.is_multiple_of(crate::VECTOR_ROWS) || segment_rows > crate::SEGMENT_ROWS {
            let limit = crate::SEGMENT_ROWS;
            let detail = format!("segment_rows is {segment_rows}, not a multiple of 1024 between 1024 and {limit}");
            return Err(FormatError::Catalog(detail));
        }
        let zone_rows = options.zone_rows;
        if zone_rows == 0 || !zone_rows.is_multiple_of(crate::VECTOR_ROWS) || u32::try_from(zone_rows).is_err() {
            return Err(FormatError::Catalog(format!("zone_rows is {zone_rows}, not a multiple of 1024")));
        }
        let lookups: Arc<[Lookup]> = options.sideways.iter().map(|s| lookup(s, &schema)).collect::<Result<_>>()?;
        let sort = match &options.sort_by[..] {
            [] if options.cluster => Some(SortBuffer::clustering(&schema, lookups.clone())),
            [] => None,
            names => Some(SortBuffer::new(&schema, names, lookups.clone())?),
        };
        let storage = storage(&sink, schema.fields().len(), &codecs, options)?;
        let zones = ZoneOptions { metadata: options.metadata, zone_rows };
        let zones = ZoneWriter::new(zones, lookups, schema.fields().len());
        let threads = Threads::new(options.threads);
        let encoder = Encoder::new(schema.clone(), base.clone(), threads, storage, zones, sink);
        let encoding = Encoding::Here(Box::new(encoder));
        let (pending, pending_rows) = (Vec::new(), 0);
        let may_commit = Box::new(|| true);
        Ok(Self {
            table,
            schema,
            number,
            identity,
            base,
            stamp,
            segment_rows,
            segment_bytes: options.segment_bytes,
            pending,
            pending_rows,
            pending_bytes: 0,
            sort,
            encoding,
            staging,
            guard,
            key_bytes: options.key_bytes,
            least_marked: options.least_marked,
            name: name.unwrap_or_default(),
            may_commit,
            lock,
        })
    }

    /// The table that is being written.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The stored schema that batches must match: the same columns in this order, of these types or types of the same kind (any string type, any
    /// integer type whose values fit, ...).
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds rows; full segments are encoded on worker threads while more rows arrive.
    ///
    /// Errors: [`FormatError::Schema`] with the name of a column that does not fit; no row of the batch has been added then. [`FormatError::NotNull`]
    /// and [`FormatError::Constraint`] if the table's constraints forbid a row, [`FormatError::Memory`] if keys take too much memory: the writer
    /// cannot commit then. Errors of encoding and of files concern rows written before, and [`TableWriter::commit`] will fail, too.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = conform::conform(batch, &self.schema).map_err(|error| error.of_table(&self.name))?;
        self.guard.add(&batch)?;
        match &mut self.sort {
            Some(sort) => sort.push(batch),
            None => self.push(batch),
        }
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let segment_rows = if self.segment_rows == 0 { crate::SEGMENT_ROWS } else { self.segment_rows };
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = (segment_rows - self.pending_rows).min(batch.num_rows() - start);
            let part = batch.slice(start, rows);
            self.pending_bytes = self.pending_bytes.saturating_add(bytes_of(&part));
            self.pending.push(part);
            self.pending_rows += rows;
            start += rows;
            if self.pending_rows == segment_rows || self.pending_bytes >= self.segment_bytes {
                let full = std::mem::take(&mut self.pending);
                (self.pending_rows, self.pending_bytes) = (0, 0);
                self.encoding.send(full)?;
            }
        }
        Ok(())
    }

    /// The version being written on: the newest one, as long as this writer exists. `None`: all rows are replaced.
    pub fn base(&self) -> Option<&Arc<TableSnapshot>> {
        self.base.as_ref()
    }

    /// Applies changes to rows of [`TableWriter::base`]; only once, and before rows are added. Row segments without changes are kept.
    ///
    /// # Errors
    /// Errors of reading and encoding; [`FormatError::Schema`] with the name of a column whose strings exceed 2 GiB in one row segment;
    /// [`FormatError::Constraint`] if the table's constraints forbid a row.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        self.guard.change(changes)?;
        match &mut self.encoding {
            Encoding::Here(encoder) => encoder.change(changes, self.least_marked),
            Encoding::Worker(_) | Encoding::Done => Err(failed_before()),
        }
    }

    /// Merges neighbouring row segments of fewer than `small` rows (0: half of a full one), and writes those with deleted rows anew, before anything else
    /// is written. Returns whether there are any.
    ///
    /// # Errors
    /// The errors of [`TableWriter::change`].
    pub fn merge_small(&mut self, small: usize) -> Result<bool> {
        let (Encoding::Here(encoder), Some(base)) = (&mut self.encoding, &self.base) else {
            return Err(failed_before());
        };
        let full = if self.segment_rows == 0 { crate::SEGMENT_ROWS } else { self.segment_rows };
        let small = if small == 0 { full / 2 } else { small };
        let ranges = small_ranges(base, (full, small), self.segment_bytes as u64);
        encoder.merge(&ranges)?;
        Ok(!ranges.is_empty())
    }

    /// Merges the last row segments where several have few rows, and about as many, before anything else is written: a table whose rows come one by one
    /// has few row segments, and each row is written again a few times only.
    ///
    /// # Errors
    /// The errors of [`TableWriter::change`].
    pub fn merge_tail(&mut self) -> Result<()> {
        let (Encoding::Here(encoder), Some(base)) = (&mut self.encoding, &self.base) else { return Ok(()) };
        let full = if self.segment_rows == 0 { crate::SEGMENT_ROWS } else { self.segment_rows };
        let free =
            if is_manifest_due(&self.table, self.stamp.as_ref()) { 0 } else { mapped_segments(&self.table, base) };
        tail_range(base, full, free).map_or(Ok(()), |range| encoder.merge(&[range]))
    }

    /// Sets the table's name for errors about its constraints.
    pub fn call(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Sets the evaluator of the table's CHECK conditions. Without it, rows cannot be written to a table that has some.
    pub fn check_by(&mut self, rows: Arc<dyn RowCheck>) {
        self.guard.evaluate_by(rows);
    }

    /// Sets the tables to which foreign keys relate the table. Without them, no foreign keys can be written, and no keys of a referenced table removed.
    pub fn relate(&mut self, relatives: Arc<dyn Relatives>) {
        self.guard.relate(relatives);
    }

    /// Leaves foreign keys unchecked, for rows that have the keys of the rows that they replace.
    pub fn keep_references(&mut self) {
        self.guard.keep_references();
    }

    /// Changes the table's constraints, before any row is written. Existing rows are checked for new keys; writing rows afterwards requires another
    /// writer. Columns of a primary key become NOT NULL.
    ///
    /// # Errors
    /// [`FormatError::Catalog`]: the table cannot have them, or has rows and new CHECK conditions; [`FormatError::NotNull`],
    /// [`FormatError::Constraint`]: its rows violate them.
    pub fn declare(&mut self, constraints: Vec<Constraint>) -> Result<()> {
        let mut fields: Vec<Field> = self.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        for &column in constraints.iter().filter(|c| c.is_primary()).filter_map(Constraint::key).flatten() {
            let Some(field) = fields.get_mut(column) else { continue };
            if let Some(base) = &self.base
                && base.has_null(column)?
            {
                return Err(FormatError::NotNull { column: field.name().clone() }.of_table(&self.name));
            }
            field.set_nullable(false);
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        constraints::check(&constraints, &schema).map_err(FormatError::Catalog)?;
        if let Some(base) = &self.base {
            let known = self.guard.constraints();
            let new: Vec<Constraint> = constraints.iter().filter(|c| !known.contains(c)).cloned().collect();
            let is_declared_first =
                |constraint: &Constraint| matches!(constraint, Constraint::Check(_) | Constraint::ForeignKey { .. });
            if base.num_rows() > 0 && new.iter().any(is_declared_first) {
                let text = "CHECK and FOREIGN KEY constraints are declared of tables without rows";
                return Err(FormatError::Catalog(text.into()));
            }
            check_rows(base, &new, &schema)?;
        }
        self.guard = Guard::new(constraints.into(), &schema, self.key_bytes)?;
        // Statements that were planned with other constraints are planned again.
        (self.schema, self.identity) = (schema, Identity::new());
        Ok(())
    }

    /// Gives the schema and its fields other metadata, before any row is written. Another writer is needed to write rows afterwards.
    ///
    /// # Errors
    /// [`FormatError::Schema`]: the schemas differ in more than metadata.
    pub fn annotate(&mut self, schema: &Schema) -> Result<()> {
        let plain = |field: &Field| field.clone().with_metadata(HashMap::new());
        let (old, new) = (self.schema.fields(), schema.fields());
        if old.len() != new.len() || old.iter().zip(new).any(|(old, new)| plain(old) != plain(new)) {
            return Err(FormatError::schema(&self.name, "other metadata come with other columns"));
        }
        (self.schema, self.identity) = (Arc::new(schema.clone()), Identity::new());
        Ok(())
    }

    /// Lets [`TableWriter::commit`] call `may_commit` before its last step, which gives the new version its name. If that returns false, the commit
    /// fails with [`FormatError::Cancelled`], and nothing has changed.
    pub fn commit_only_if(&mut self, may_commit: impl FnOnce() -> bool + Send + 'static) {
        self.may_commit = Box::new(may_commit);
    }

    /// Encodes the remaining rows, makes the new version durable and visible, and returns it.
    ///
    /// After an error the newest version is the one before, unless the very last step, making the new version's name durable, failed: then it may be
    /// the new one.
    ///
    /// Errors: besides those of writing, [`FormatError::Constraint`] if two rows would have the same key, [`FormatError::Replaced`] if the table has
    /// lost its name, or it belongs to another one now; [`FormatError::Cancelled`] as in [`TableWriter::commit_only_if`].
    pub fn commit(mut self) -> Result<Arc<TableSnapshot>> {
        if let Some(sort) = self.sort.take() {
            if self.segment_rows == 0 {
                self.segment_rows = sorted_segment_rows(sort.rows());
            }
            sort.drain(self.segment_rows, |batch| self.push(batch))?;
        }
        self.guard.finish(self.base.as_deref())?;
        let mut encoder = std::mem::replace(&mut self.encoding, Encoding::Done).into_encoder()?;
        if self.pending_rows > 0 {
            encoder.push(&[std::mem::take(&mut self.pending)])?;
        }
        let Encoded { segments, dictionaries, codecs, pruning, sink } = encoder.finish()?;
        let (number, identity, schema) = (self.number, Some(self.identity), self.schema.clone());
        let constraints = Arc::clone(self.guard.constraints());
        let mut version = Version { number, identity, schema, constraints, dictionaries, codecs, segments, pruning };
        let may_commit = self.may_commit;
        let files = match sink {
            Sink::Memory => None,
            Sink::Files(mut files) => {
                files.finish()?;
                Some(*files)
            }
        };
        if let Some(fork) = &self.table.fork {
            return if may_commit() { fork.keep(&self.table, version, files) } else { Err(FormatError::Cancelled) };
        }
        let Some(mut files) = files else {
            return if may_commit() { Ok(self.table.publish(version, None)) } else { Err(FormatError::Cancelled) };
        };
        let may_commit = || match self.lock.holds() {
            true if may_commit() => Ok(()),
            true => Err(FormatError::Cancelled),
            // The directory was moved or removed without its lock.
            false => Err(self.table.replaced()),
        };
        let (fs, path) = self.table.directory();
        // Small changes of a table that has been written before.
        let is_few = files.is_held() && self.base.is_some();
        if let (true, Some(stamp), Some(base)) = (is_few, &self.stamp, &self.base)
            && let Some(append) = Append::of(path, stamp, base.parts(), &version, self.table.access())?
        {
            let stamp = append.commit(&**fs, path, stamp, may_commit)?;
            return Ok(self.table.publish(append.version, Some(stamp)));
        }
        if files.is_held() {
            files.settle(&mut version)?;
        }
        if let Some(stamp) = &self.stamp {
            stamp.sync_log(&**fs, path)?;
        }
        open_logs(&mut version, path, self.table.access())?;
        let log = is_few || self.stamp.as_ref().is_some_and(|stamp| stamp.log.is_some());
        let manifest = Manifest { log, ..version.to_manifest() };
        let stamp = match &mut self.staging {
            None => {
                fs.sync_dir(path).map_err(FormatError::io("cannot sync", path))?;
                let stamp = directory::write_manifest(&**fs, path, &manifest, || {
                    may_commit()?;
                    files.publish();
                    Ok(())
                })?;
                directory::mark_committed(&**fs, path, manifest.version);
                stamp
            }
            Some(staging) => {
                let stamp = directory::write_manifest(&**fs, &staging.path, &manifest, || Ok(()))?;
                directory::mark_committed(&**fs, &staging.path, manifest.version);
                may_commit()?;
                directory::put_in_place(&**fs, &staging.path, path, staging.over.as_ref(), || {
                    files.publish();
                    staging.done = true;
                })?;
                stamp
            }
        };
        Ok(self.table.publish(version, Some(stamp)))
    }
}

/// Bytes of the rows of a batch, which may be a slice of a larger one.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of =
        |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size());
    batch.columns().iter().map(of).sum()
}

/// Number of rows per segment for `rows` sorted rows: queried values are close together then, and devices copy or skip whole segments. More than
/// a few thousand segments would cost more than they save.
fn sorted_segment_rows(rows: u64) -> usize {
    (1 << (rows / 1024).max(1).ilog2()).clamp(1 << 16, crate::SEGMENT_ROWS)
}

/// The storage of each column's chunks: by the options, or as before. Tables in memory have no codecs.
fn storage(sink: &Sink, columns: usize, kept: &[Option<ColumnChoice>], options: &WriteOptions) -> Result<Storage> {
    if let Some(codec) = &options.codec {
        codec.check()?;
    }
    let none = || ColumnCodec::Fixed(CodecConfig::NONE);
    let codec = |column: usize| match (sink, &options.codec) {
        (Sink::Memory, _) => none(),
        (Sink::Files(_), Some(codec)) => ColumnCodec::new(codec),
        (Sink::Files(_), None) => match kept.get(column).and_then(Option::as_ref) {
            Some(choice) => ColumnCodec::kept(choice),
            None => none(),
        },
    };
    let extent = if matches!(sink, Sink::Files(_)) { options.extent_bytes } else { 0 };
    // A named codec, or none, excludes symbols.
    let asked = || options.codec.as_ref().is_none_or(|codec| codec.choice == CodecChoice::Auto);
    let symbols = options.symbols && matches!(sink, Sink::Files(_)) && asked();
    Ok(Storage { codecs: (0..columns).map(codec).collect(), symbols, align: options.direct_io, extent })
}

/// Reads the table of `sideways` for rows of `schema`.
fn lookup(sideways: &Sideways, schema: &SchemaRef) -> Result<Lookup> {
    let column = schema.index_of(&sideways.column);
    let column = column.map_err(|_| FormatError::schema(&sideways.column, "the table has no such column"))?;
    let data_type = schema.field(column).data_type();
    if !is_key(data_type) {
        return Err(FormatError::schema(
            &sideways.column,
            format!("keys of type {data_type} cannot be followed: integers can"),
        ));
    }
    Lookup::new(sideways, column)
}

/// The encoder: on this thread until a row segment is full, then on a separate one.
enum Encoding {
    Here(Box<Encoder>),
    Worker(Worker),
    /// Finished, or failed with a reported error.
    Done,
}

impl Encoding {
    fn send(&mut self, parts: Vec<RecordBatch>) -> Result<()> {
        let worker = match std::mem::replace(self, Self::Done) {
            Self::Here(encoder) => Worker::start(encoder)?,
            Self::Worker(worker) => worker,
            Self::Done => return Err(failed_before()),
        };
        if worker.queue.as_ref().is_some_and(|queue| queue.send(parts).is_ok()) {
            *self = Self::Worker(worker);
            return Ok(());
        }
        Err(worker.finish().err().unwrap_or_else(failed_before))
    }

    fn into_encoder(self) -> Result<Encoder> {
        match self {
            Self::Here(encoder) => Ok(*encoder),
            Self::Worker(worker) => worker.finish(),
            Self::Done => Err(failed_before()),
        }
    }
}

fn failed_before() -> FormatError {
    FormatError::Catalog("an earlier write of this version failed: it cannot be committed".into())
}

/// The encoder's thread.
struct Worker {
    queue: Option<SyncSender<Vec<RecordBatch>>>,
    thread: Option<JoinHandle<Result<Encoder>>>,
}

impl Worker {
    fn start(mut encoder: Box<Encoder>) -> Result<Self> {
        let at_once = encoder.at_once();
        let (queue, rows) = sync_channel::<Vec<RecordBatch>>(at_once);
        let run = move || {
            // Takes all waiting row segments, so that even few columns keep many threads busy.
            while let Ok(first) = rows.recv() {
                let segments: Vec<_> = std::iter::once(first).chain(rows.try_iter().take(at_once - 1)).collect();
                encoder.push(&segments)?;
            }
            Ok(*encoder)
        };
        let thread = std::thread::Builder::new().name("warpmill-writer".into()).spawn(run);
        let thread = thread.map_err(|e| FormatError::Catalog(format!("cannot start a writer thread: {e}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    fn finish(mut self) -> Result<Encoder> {
        self.queue = None;
        let thread = self.thread.take().expect("joined once");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The writer was dropped: the outcome does not matter.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sorted_segment_rows;

    #[test]
    fn sorted_tables_have_a_thousand_segments_or_few() {
        let rows = [0, 1, 6_000_000, 60_000_000, 134_217_728, 600_000_000, 1_500_000_000, 6_000_000_000];
        let kilo = rows.map(|rows| sorted_segment_rows(rows) / 1024);
        assert_eq!(kilo, [64, 64, 64, 64, 128, 512, 1024, 1024]);
    }
}
