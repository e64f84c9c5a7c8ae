//! Scans of Parquet files whose columns are kept in memory, encoded like those of tables ([`warpmill_format::column_cache`]).
//!
//! A query that reads most rows of files encodes their columns first, which takes about as long as only decoding them, and scans the encoded columns.
//! Where row groups are pruned, it reads the rest directly, and low-priority threads encode the columns in the background, after the query. Later
//! queries scan the encoded columns, on every site, while the files are unchanged: sizes, modification times and inodes are compared before each run.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use arrow::datatypes::FieldRef;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::{Condvar, Mutex};
use warpmill_engine::{CancelToken, EngineError};
use warpmill_format::parquet_file::{Bounds, Outcome, ParquetFile, encode_columns};
use warpmill_format::{FormatError, Table, column_cache};
use warpmill_ir::Program;

use super::UnprovenSums;
use super::leaf::{Named, ParquetLeaf};
use super::parquet::{address, with_scans};
use super::row_groups::share_left;
use crate::Error;
use crate::settings::WarpmillOptions;

/// Columns that could not be encoded and are not tried again.
const MOST_REFUSED: usize = 4096;
/// Columns that wait for being encoded.
const MOST_WAITING: usize = 4096;
/// The fraction of a table's rows from which on a query encodes all of them first.
const READ_FIRST: f64 = 0.5;
/// The fraction below which rows are not encoded: reading the remaining row groups costs less.
const READ_LATER: f64 = 0.1;

/// A program that scans kept columns in place of files.
#[derive(Debug, Clone)]
pub(super) struct KeptProgram {
    /// The program.
    pub program: Arc<Program>,
    /// The other program's inputs that are its inputs.
    pub inputs: Vec<usize>,
    /// The files with their columns, for EXPLAIN.
    pub notes: Vec<String>,
}

/// The kept columns that the leaves of a program can read.
#[derive(Default)]
pub(super) struct Found {
    /// The scans of kept columns: position of the leaf, scan, and the table that it reads.
    scans: Vec<(usize, Arc<dyn ExecutionPlan>, Arc<Table>)>,
    notes: Vec<String>,
    /// Columns that are read from files, and may be encoded.
    pub missing: Vec<Request>,
    /// Scans of files that are not kept.
    pub others: usize,
}

/// Columns of files that are to be kept.
pub(super) struct Request {
    files: Vec<Arc<ParquetFile>>,
    key: String,
    columns: Vec<(u32, FieldRef)>,
}

/// The limits for encoding columns before a query runs.
pub(super) struct Now<'a> {
    /// Threads.
    pub threads: usize,
    /// Bytes that its columns may take, at most; 0: nothing is encoded.
    pub room: u64,
    /// Stops the query.
    pub cancel: &'a CancelToken,
}

/// Looks up the columns that `leaves` read, and encodes missing ones within the limits `now`.
///
/// # Errors
/// Kept columns that do not match each other; cancellation.
pub(super) fn find(leaves: &[Arc<dyn ExecutionPlan>], now: &Now<'_>) -> Result<Found, Error> {
    let (mut found, mut room) = (Found::default(), now.room);
    for (position, leaf) in leaves.iter().enumerate() {
        let Some(leaf) = ParquetLeaf::of(leaf) else { continue };
        let Some((leaf, files, key)) = leaf.ok().and_then(identified) else {
            found.others += 1;
            continue;
        };
        let positions: Vec<u32> = leaf.columns.iter().map(|&column| column as u32).collect();
        let mut kept = column_cache::find(&key, &positions);
        if kept.iter().any(Option::is_none) {
            let columns = positions.iter().copied().zip(leaf.fields()).zip(&kept);
            let columns = columns.filter(|(_, kept)| kept.is_none()).map(|(column, _)| column).collect();
            let request = Request { files, key: key.clone(), columns };
            // Skips the statistics of row groups where the columns cannot be kept at all.
            let share = match is_hopeless(&request, column_cache::limit()) {
                true => 0.0,
                false => share_left(&request.files, &leaf.schema, leaf.predicate.as_ref()),
            };
            if share >= READ_FIRST && request.bytes() <= room && !is_hopeless(&request, room) {
                let before: u64 = kept.iter().flatten().map(|column| column.stored_bytes()).sum();
                let stop = || now.cancel.check().is_err();
                encode(&request, &Bounds { threads: now.threads, bytes: room, stop: &stop }, By::Query);
                now.cancel.check().map_err(EngineError::from)?;
                kept = column_cache::find(&key, &positions);
                let bytes: u64 = kept.iter().flatten().map(|column| column.stored_bytes()).sum();
                room = room.saturating_sub(bytes.saturating_sub(before));
            } else if share >= READ_LATER {
                found.missing.push(request);
            }
        }
        let columns: Option<Vec<_>> = kept.into_iter().collect();
        match columns {
            Some(columns) => {
                let table = column_cache::table(&key, &positions, &columns)?;
                found.notes.push(format!("{}: {} columns", leaf.name, columns.len()));
                found.scans.push((position, leaf.scan(table.snapshot()?)?, table));
            }
            None => found.others += 1,
        }
    }
    Ok(found)
}

/// The current files of a leaf, and the key of their columns; `None` where the files cannot be identified, or no columns are read.
fn identified(leaf: ParquetLeaf) -> Option<(ParquetLeaf, Vec<Arc<ParquetFile>>, String)> {
    if leaf.columns.is_empty() {
        return None;
    }
    let open = |named: &Named| match named {
        // Errors are left to the scan, which names them.
        Named::Local(path) => ParquetFile::open(path).ok(),
        Named::Remote(_) => None,
    };
    let files: Vec<Arc<ParquetFile>> = leaf.files.iter().map(open).collect::<Option<_>>()?;
    let versions: Vec<String> = files.iter().map(|file| file.version()).collect::<Option<_>>()?;
    // Columns are identified by position in a schema, which may differ from the files' schemas.
    let mut schema = DefaultHasher::new();
    leaf.schema.hash(&mut schema);
    let paths: Vec<String> = files.iter().map(|file| file.path().display().to_string()).collect();
    let key = format!("parquet {:016x} {}/{}", schema.finish(), paths.join("\n"), versions.join(","));
    Some((leaf, files, key))
}

/// A program that was made of kept columns, kept with the plan; forgotten when columns are.
pub(super) type Memo = Mutex<Option<(Vec<usize>, KeptProgram)>>;

static MEMOS: LazyLock<Mutex<Vec<Weak<Memo>>>> = LazyLock::new(|| {
    column_cache::on_forget(forget);
    Mutex::default()
});

fn forget() {
    let memos: Vec<Arc<Memo>> = MEMOS.lock().iter().filter_map(Weak::upgrade).collect();
    // Tables are dropped without holding a lock.
    let forgotten: Vec<_> = memos.iter().map(|memo| memo.lock().take()).collect();
    drop(forgotten);
}

/// A memo for a plan.
pub(super) fn memo() -> Arc<Memo> {
    let memo = Arc::default();
    let mut memos = MEMOS.lock();
    if memos.len() == memos.capacity() {
        memos.retain(|memo| memo.strong_count() > 0);
    }
    memos.push(Arc::downgrade(&memo));
    memo
}

impl Found {
    /// Whether some columns are kept.
    pub fn is_empty(&self) -> bool {
        self.scans.is_empty()
    }

    /// The program of `source`, whose inputs are `leaves`, with scans of kept columns; `None` where it does not translate.
    pub fn program(
        &self,
        (source, leaves): (&Arc<dyn ExecutionPlan>, &[Arc<dyn ExecutionPlan>]),
        sums: UnprovenSums,
        options: &WarpmillOptions,
        memo: &Arc<Memo>,
    ) -> Option<KeptProgram> {
        let tables: Vec<usize> = self.scans.iter().map(|(_, _, table)| Arc::as_ptr(table) as usize).collect();
        if let Some((_, known)) = memo.lock().as_ref().filter(|(known, _)| *known == tables) {
            return Some(known.clone());
        }
        let scans =
            self.scans.iter().map(|(position, scan, _)| (address(&leaves[*position]), Arc::clone(scan))).collect();
        let (program, inputs) = with_scans((source, leaves), &scans, sums, options).ok()?;
        let made = KeptProgram { program: Arc::new(program), inputs, notes: self.notes.clone() };
        // The memo holds the tables, so that their addresses stay unique.
        let before = memo.lock().replace((tables, made.clone()));
        drop(before);
        Some(made)
    }
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    /// Columns that cannot be kept.
    refused: BTreeSet<(String, u32)>,
    /// Column sets, with a lower bound in bytes of their encoded size.
    too_large: HashMap<(String, Vec<u32>), u64>,
    running: bool,
}

static WAITING: LazyLock<Mutex<Waiting>> = LazyLock::new(Mutex::default);

impl Waiting {
    fn is_refused(&self, key: &str, column: u32) -> bool {
        self.refused.contains(&(key.to_owned(), column))
    }

    /// Adds a request, without columns that are waiting already or were refused.
    fn add(&mut self, mut request: Request) {
        let waits = |column: u32| {
            let same = self.requests.iter().filter(|other| other.key == request.key);
            same.flat_map(|other| &other.columns).any(|(other, _)| *other == column)
        };
        request.columns = std::mem::take(&mut request.columns)
            .into_iter()
            .filter(|(column, _)| !waits(*column) && !self.is_refused(&request.key, *column))
            .collect();
        if !request.columns.is_empty() && self.requests.len() < MOST_WAITING {
            self.requests.push_back(request);
        }
    }
}

/// Encodes the requested columns in the background, with at most `threads` threads.
pub(super) fn keep(requests: Vec<Request>, threads: usize) {
    let mut waiting = WAITING.lock();
    requests.into_iter().for_each(|request| waiting.add(request));
    if waiting.requests.is_empty() || waiting.running {
        return;
    }
    waiting.running = warpmill_engine::encode_later(move |cancel| {
        let _ended = Ended;
        encode_waiting(threads, &cancel);
    });
}

/// Clears the state of the encoding thread when it panics.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        if std::thread::panicking() {
            WAITING.lock().running = false;
        }
    }
}

impl Waiting {
    /// The next request; without one, the encoding thread ends.
    fn next(&mut self) -> Option<Request> {
        let next = self.requests.pop_front();
        self.running = next.is_some();
        next
    }
}

fn encode_waiting(threads: usize, cancel: &CancelToken) {
    let stop = || cancel.check().is_err();
    while let Some(request) = { WAITING.lock().next() } {
        let bytes = column_cache::limit();
        if !stop() && request.bytes() <= bytes && !is_hopeless(&request, bytes) {
            encode(&request, &Bounds { threads, bytes, stop: &stop }, By::Background);
        }
    }
}

/// Records that a column cannot be encoded.
fn refuse(key: &str, column: u32, reason: &str) {
    tracing::debug!(reason, column, "a column is not kept");
    let mut waiting = WAITING.lock();
    if waiting.refused.len() >= MOST_REFUSED {
        waiting.refused.clear();
    }
    waiting.refused.insert((key.to_owned(), column));
}

/// Records that columns together take more than `bytes`.
fn note_too_large(request: &Request, bytes: u64) {
    let mut waiting = WAITING.lock();
    if waiting.too_large.len() >= MOST_REFUSED {
        waiting.too_large.clear();
    }
    waiting.too_large.insert((request.key.clone(), request.positions()), bytes);
}

/// Whether the columns of a request are known to be refused or to exceed `bytes`.
fn is_hopeless(request: &Request, bytes: u64) -> bool {
    let waiting = WAITING.lock();
    let positions = request.positions();
    positions.iter().any(|&column| waiting.is_refused(&request.key, column))
        || waiting.too_large.get(&(request.key.clone(), positions)).is_some_and(|&most| bytes <= most)
}

impl Request {
    fn positions(&self) -> Vec<u32> {
        self.columns.iter().map(|(column, _)| *column).collect()
    }

    /// The compressed bytes of the columns in their files: encoded columns take about as many, or more.
    fn bytes(&self) -> u64 {
        self.columns.iter().map(|(_, field)| stored_bytes(&self.files, field.name())).sum()
    }
}

/// The owner of an encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// A query, with all of its threads.
    Query,
    /// The background, slowly.
    Background,
}

/// The files whose columns are being encoded.
static ENCODING: Mutex<BTreeMap<String, By>> = Mutex::new(BTreeMap::new());
static ENCODED: Condvar = Condvar::new();

/// The exclusive right to encode columns of some files: others wait, and find the result.
struct Turn<'a>(&'a str);

impl<'a> Turn<'a> {
    /// Waits for the right, until `stop` returns true; a query does not wait for the background.
    fn wait(key: &'a str, by: By, stop: &(dyn Fn() -> bool + Sync)) -> Option<Self> {
        let mut encoding = ENCODING.lock();
        while let Some(&other) = encoding.get(key) {
            if stop() || by == By::Query && other == By::Background {
                return None;
            }
            ENCODED.wait_for(&mut encoding, Duration::from_millis(10));
        }
        encoding.insert(key.to_owned(), by);
        Some(Self(key))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        ENCODING.lock().remove(self.0);
        ENCODED.notify_all();
    }
}

/// Encodes the missing columns of a request, and keeps them if the files are unchanged; records columns that cannot be encoded.
fn encode(request: &Request, bounds: &Bounds<'_>, by: By) {
    let Some(_turn) = Turn::wait(&request.key, by, bounds.stop) else { return };
    let known = column_cache::find(&request.key, &request.positions());
    let missing = request.columns.iter().zip(known).filter(|(_, known)| known.is_none()).map(|(column, _)| column);
    let missing: Vec<&(u32, FieldRef)> = missing.collect();
    if missing.is_empty() {
        return;
    }
    match encode_all(request, &missing, bounds) {
        Ok(true) => {}
        Ok(false) => note_too_large(request, bounds.bytes),
        // One of the columns fails; the others are encoded one by one.
        Err(_) => {
            for column in missing {
                if let Err(Some(reason)) = encode_all(request, &[column], bounds) {
                    refuse(&request.key, column.0, &reason);
                }
            }
        }
    }
}

/// Encodes columns, all or none; returns false if they exceed the bounds.
///
/// Errors: the reason; `None`: a later attempt may succeed.
fn encode_all(request: &Request, columns: &[&(u32, FieldRef)], bounds: &Bounds<'_>) -> Result<bool, Option<String>> {
    let (positions, fields): (Vec<u32>, Vec<FieldRef>) = columns.iter().map(|column| (*column).clone()).unzip();
    let made = encode_columns(&request.files, &fields, bounds).map_err(|error| match error {
        FormatError::Io { .. } => None,
        error => Some(error.to_string()),
    })?;
    let made = match made {
        Outcome::Columns(made) => made,
        Outcome::Stopped => return Ok(true),
        Outcome::TooLarge => return Ok(false),
    };
    let is_same = |file: &Arc<ParquetFile>| {
        ParquetFile::open(file.path()).is_ok_and(|now| now.version().is_some() && now.version() == file.version())
    };
    if !request.files.iter().all(is_same) {
        return Err(None);
    }
    column_cache::table(&request.key, &positions, &made).map_err(|error| Some(error.to_string()))?;
    // Columns that do not fit are dropped at once.
    Ok(column_cache::find(&request.key, &positions).iter().all(Option::is_some))
}

/// The compressed bytes of a column in files.
fn stored_bytes(files: &[Arc<ParquetFile>], name: &str) -> u64 {
    let groups = files.iter().flat_map(|file| file.metadata().row_groups());
    let columns = groups.flat_map(|group| group.columns());
    let named = columns.filter(|column| matches!(column.column_path().parts(), [only] if only == name));
    named.map(|column| u64::try_from(column.compressed_size()).unwrap_or(0)).sum()
}
