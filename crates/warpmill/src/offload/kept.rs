//! Scans of Parquet files whose columns are kept, encoded as those of tables ([`warpmill_format::column_cache`]).
//!
//! A query that reads most rows of files encodes their columns first, which takes about as long as decoding them only, and scans what was
//! made. Where row groups are ruled out, it reads the rest as it is, and the columns are encoded in the background, after it, on threads of low
//! priority. The next query that reads them scans what was made of them, on every site, if the files are still the same: by their sizes, their
//! times of change and their inodes, which are looked at before each run.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Weak};

use arrow::datatypes::FieldRef;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use warpmill_engine::{CancelToken, EngineError};
use warpmill_format::parquet_file::{ParquetFile, encode_columns};
use warpmill_format::{Table, column_cache};
use warpmill_ir::Program;
use warpmill_translate::{Options, translate};

use super::UnprovenSums;
use super::leaf::{Named, ParquetLeaf};
use super::parquet::address;
use super::row_groups::share_left;
use crate::Error;
use crate::settings::WarpmillOptions;

/// Columns that cannot be kept, of which nobody tries again.
const MOST_REFUSED: usize = 4096;
/// Columns that wait for being encoded.
const MOST_WAITING: usize = 4096;
/// The part of a table's rows from which on a query that reads them encodes all of them first.
const READ_FIRST: f64 = 0.5;
/// The part below which nobody encodes them: reading what is left takes less than looking at the rest.
const READ_LATER: f64 = 0.1;

/// A program that scans kept columns in place of files.
#[derive(Debug, Clone)]
pub(super) struct KeptProgram {
    /// The program.
    pub program: Arc<Program>,
    /// The other program's inputs that are its inputs.
    pub inputs: Vec<usize>,
    /// The files, each with its columns, for people.
    pub notes: Vec<String>,
}

/// The findings about the leaves of a program.
#[derive(Default)]
pub(super) struct Found {
    /// The scans of kept columns, by the leaf's position, and the tables that they read.
    scans: Vec<(usize, Arc<dyn ExecutionPlan>, Arc<Table>)>,
    notes: Vec<String>,
    /// Columns that are read from files, and may be kept.
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

/// The means by which columns are encoded before a query runs.
pub(super) struct Now<'a> {
    /// Threads.
    pub threads: usize,
    /// Bytes that its columns may take, at most.
    pub room: u64,
    /// Stops the query.
    pub cancel: &'a CancelToken,
}

/// Looks for the columns that `leaves` read, and encodes those that may be encoded `now`.
///
/// # Errors
/// Kept columns that do not fit together; cancellation.
pub(super) fn find(leaves: &[Arc<dyn ExecutionPlan>], now: &Now<'_>) -> Result<Found, Error> {
    let mut found = Found::default();
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
            let share = share_left(&request.files, &leaf.schema, leaf.predicate.as_ref());
            if share >= READ_FIRST && request.bytes() <= now.room && !is_refused(&request) {
                match encode(&request, now.threads, now.cancel) {
                    Ok(()) => kept = column_cache::find(&key, &positions),
                    // Reading the files tells what is wrong with them.
                    Err(reason) => refuse(&request, &reason),
                }
                now.cancel.check().map_err(EngineError::from)?;
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

/// The files of a leaf as they are now, and the key of their columns; `None` where something else tells what there is, or nothing is read.
fn identified(leaf: ParquetLeaf) -> Option<(ParquetLeaf, Vec<Arc<ParquetFile>>, String)> {
    if leaf.columns.is_empty() {
        return None;
    }
    let open = |named: &Named| match named {
        // Reading a file tells what is wrong with it.
        Named::Local(path) => ParquetFile::open(path).ok(),
        Named::Remote(_) => None,
    };
    let files: Vec<Arc<ParquetFile>> = leaf.files.iter().map(open).collect::<Option<_>>()?;
    let versions: Vec<String> = files.iter().map(|file| file.version()).collect::<Option<_>>()?;
    // Columns are known by their positions in a schema, which may not be the files'.
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
    MEMOS.lock().retain(|memo| memo.upgrade().map(|memo| *memo.lock() = None).is_some());
}

/// A memo for a plan.
pub(super) fn memo() -> Arc<Memo> {
    Arc::default()
}

impl Found {
    /// Whether some columns are kept.
    pub fn is_empty(&self) -> bool {
        self.scans.is_empty()
    }

    /// The program of `source`, whose inputs are `leaves`, with scans of what is kept; `None` where it does not translate.
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
        let scans: HashMap<usize, _> =
            self.scans.iter().map(|(position, scan, _)| (address(&leaves[*position]), scan)).collect();
        let scan = |leaf: &Arc<dyn ExecutionPlan>| scans.get(&address(leaf)).map(|&scan| Arc::clone(scan));
        let (wide_sums, pruning) = (sums == UnprovenSums::Wide, options.pruning);
        let translated =
            translate(source, &Options { fallback: true, wide_sums, pruning, scans: &scan, ..Options::default() });
        let translated = translated.ok()?;
        let position = |input: &Arc<dyn ExecutionPlan>| leaves.iter().position(|leaf| address(leaf) == address(input));
        let inputs: Vec<usize> = translated.inputs.iter().map(position).collect::<Option<_>>()?;
        let made = KeptProgram { program: Arc::new(translated.program), inputs, notes: self.notes.clone() };
        let mut kept = memo.lock();
        if kept.is_none() {
            MEMOS.lock().push(Arc::downgrade(memo));
        }
        // The program holds the tables: their addresses are of no others meanwhile.
        *kept = Some((tables, made.clone()));
        Some(made)
    }
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    refused: HashSet<(String, u32)>,
    running: bool,
}

static WAITING: LazyLock<Mutex<Waiting>> = LazyLock::new(Mutex::default);

impl Waiting {
    /// Notes a request, without what waits already or was refused.
    fn add(&mut self, mut request: Request) {
        let waits = |column: u32| {
            let same = self.requests.iter().filter(|other| other.key == request.key);
            same.flat_map(|other| &other.columns).any(|(other, _)| *other == column)
        };
        request.columns = std::mem::take(&mut request.columns)
            .into_iter()
            .filter(|(column, _)| !waits(*column) && !self.refused.contains(&(request.key.clone(), *column)))
            .collect();
        if !request.columns.is_empty() && self.requests.len() < MOST_WAITING {
            self.requests.push_back(request);
        }
    }
}

/// Encodes what was asked for, in the background, with at most `threads` threads.
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

/// The end of the thread that encodes, however it ends.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        WAITING.lock().running = false;
    }
}

fn encode_waiting(threads: usize, cancel: &CancelToken) {
    loop {
        let next = WAITING.lock().requests.pop_front();
        let Some(request) = next else { return };
        if cancel.check().is_err() {
            return;
        }
        // The limit may change.
        if request.bytes() <= column_cache::limit()
            && let Err(reason) = encode(&request, threads, cancel)
        {
            refuse(&request, &reason);
        }
    }
}

/// Notes that columns cannot be kept.
fn refuse(request: &Request, reason: &str) {
    tracing::debug!(%reason, "columns are not kept");
    let mut waiting = WAITING.lock();
    if waiting.refused.len() >= MOST_REFUSED {
        waiting.refused.clear();
    }
    waiting.refused.extend(request.columns.iter().map(|(column, _)| (request.key.clone(), *column)));
}

fn is_refused(request: &Request) -> bool {
    let waiting = WAITING.lock();
    request.columns.iter().any(|(column, _)| waiting.refused.contains(&(request.key.clone(), *column)))
}

impl Request {
    /// The bytes that the columns take in their files, compressed: what is made of them takes about as many.
    fn bytes(&self) -> u64 {
        self.columns.iter().map(|(_, field)| stored_bytes(&self.files, field.name())).sum()
    }
}

/// Encodes the columns of a request, and keeps them if the files are still the same.
fn encode(request: &Request, threads: usize, cancel: &CancelToken) -> Result<(), String> {
    let known =
        column_cache::find(&request.key, &request.columns.iter().map(|(column, _)| *column).collect::<Vec<_>>());
    let columns = request.columns.iter().zip(known).filter(|(_, known)| known.is_none()).map(|(column, _)| column);
    let (positions, fields): (Vec<u32>, Vec<FieldRef>) = columns.cloned().unzip();
    if positions.is_empty() {
        return Ok(());
    }
    let made = encode_columns(&request.files, &fields, threads, &|| cancel.check().is_err());
    let Some(made) = made.map_err(|error| error.to_string())? else { return Ok(()) };
    let is_same = |file: &Arc<ParquetFile>| {
        ParquetFile::open(file.path()).is_ok_and(|now| now.version().is_some() && now.version() == file.version())
    };
    if !request.files.iter().all(is_same) {
        return Err("a file has changed meanwhile".into());
    }
    column_cache::table(&request.key, &positions, &made).map(drop).map_err(|error| error.to_string())
}

/// The bytes that a column takes in files, compressed.
fn stored_bytes(files: &[Arc<ParquetFile>], name: &str) -> u64 {
    let groups = files.iter().flat_map(|file| file.metadata().row_groups());
    let columns = groups.flat_map(|group| group.columns());
    let named = columns.filter(|column| matches!(column.column_path().parts(), [only] if only == name));
    named.map(|column| u64::try_from(column.compressed_size()).unwrap_or(0)).sum()
}
