//! Prefetching of remote columns while the device processes earlier ones.
//!
//! Row segments are read in groups, several at a time, in the order in which they are brought to the device. Data that the query has room to keep
//! stays on the host until the query ends. Other data is read ahead within a window of bytes, and dropped once it has been written to a slot.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use warpmill_eval::ExecError;
use warpmill_format::parquet_file::ParquetPromise;

use crate::data::chunks::Chunk;
use crate::data::row_segment::RowSegment;
use crate::memory::error::Result;

/// Largest number of bytes of a group of several row segments: enough for several requests.
const GROUP: u64 = 32 << 20;

/// Number of groups that are read at the same time.
const READERS: usize = 4;

/// Columns of row segments.
type Rows = Vec<Vec<Arc<Chunk>>>;

/// Reads the remote columns of the row segments of a kernel. Drop waits for reads in progress, so that the next reader of the same data finds it.
pub(super) struct Ahead {
    work: Arc<Work>,
    readers: Vec<JoinHandle<()>>,
    /// The group of each row segment, by its number, and its position in the group.
    places: HashMap<usize, (usize, usize)>,
}

struct Work {
    groups: Vec<Rows>,
    /// Bytes that may be read ahead without being kept; exceeded if the next batch needs more.
    window: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The group to read next.
    next: usize,
    /// The last group that a caller waits for.
    wanted: usize,
    /// Bytes of groups that are not kept and not yet written.
    window: u64,
    /// Bytes of each such group, and the positions of its promises that are not kept.
    passing: HashMap<usize, (u64, Vec<usize>)>,
    /// Opened rows of groups.
    ready: HashMap<usize, Result<Rows>>,
    /// Number of written row segments, by group.
    written: HashMap<usize, usize>,
    stopped: bool,
}

impl Ahead {
    /// Starts to read these row segments; `None` if all have been read.
    pub fn of(rows: &[RowSegment<'_>]) -> Option<Self> {
        let window = rows.iter().flat_map(|row| promises(row.columns)).map(ParquetPromise::window).next()?;
        Self::with(rows, window, GROUP)
    }

    /// The same with another window and group size.
    fn with(rows: &[RowSegment<'_>], window: u64, group_bytes: u64) -> Option<Self> {
        let to_come = |row: &&RowSegment<'_>| row.columns.iter().any(|chunk| chunk.promise().is_some());
        let (mut groups, mut places, mut bytes) = (Vec::<Rows>::new(), HashMap::new(), 0);
        for row in rows.iter().filter(to_come) {
            let own: u64 = promises(row.columns).map(|promise| promise.stored_bytes()).sum();
            match groups.last_mut() {
                Some(last) if bytes + own <= group_bytes => last.push(row.columns.to_vec()),
                _ => {
                    groups.push(vec![row.columns.to_vec()]);
                    bytes = 0;
                }
            }
            bytes += own;
            let group = groups.len() - 1;
            places.insert(row.number, (group, groups[group].len() - 1));
        }
        if groups.is_empty() {
            return None;
        }
        let count = groups.len().min(READERS);
        let work = Arc::new(Work { groups, window, state: Mutex::default(), changed: Condvar::new() });
        let reader = |_| {
            let work = work.clone();
            std::thread::spawn(move || work.read())
        };
        Some(Self { readers: (0..count).map(reader).collect(), work, places })
    }

    /// Waits for the columns of `rows`.
    ///
    /// # Errors
    /// Files that cannot be read, have changed, or are damaged; [`Failure::Unforeseen`](crate::memory::error::Failure::Unforeseen).
    pub fn open(&self, rows: &[RowSegment<'_>]) -> Result<Rows> {
        let last = rows.iter().filter_map(|row| self.places.get(&row.number)).map(|(group, _)| *group).max();
        let mut state = self.work.state.lock();
        state.wanted = state.wanted.max(last.unwrap_or(0));
        self.work.changed.notify_all();
        let mut opened = vec![];
        for row in rows {
            let Some((group, position)) = self.places.get(&row.number) else {
                opened.push(row.columns.to_vec());
                continue;
            };
            while !state.ready.contains_key(group) {
                self.work.changed.wait(&mut state);
            }
            match state.ready.remove(group) {
                Some(Err(failure)) => return Err(failure),
                Some(Ok(rows)) => {
                    opened.push(rows[*position].clone());
                    state.ready.insert(*group, Ok(rows));
                }
                None => {}
            }
        }
        Ok(opened)
    }

    /// Reports that `rows` have been written to a slot.
    pub fn written(&self, rows: &[RowSegment<'_>]) {
        let mut state = self.work.state.lock();
        for (group, _) in rows.iter().filter_map(|row| self.places.get(&row.number)) {
            let written = state.written.entry(*group).or_default();
            *written += 1;
            if *written == self.work.groups[*group].len() {
                state.ready.remove(group);
                self.work.forget(*group, &mut state);
            }
        }
        self.work.changed.notify_all();
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.work.state.lock().stopped = true;
        self.work.changed.notify_all();
        for reader in self.readers.drain(..) {
            // The caller that waited for a panicked reader got an error.
            let _ = reader.join();
        }
        let mut state = self.work.state.lock();
        let passing: Vec<usize> = state.passing.keys().copied().collect();
        passing.into_iter().for_each(|group| self.work.forget(group, &mut state));
    }
}

impl Work {
    /// The loop of a reader thread.
    fn read(&self) {
        while let Some(group) = self.next() {
            let mut done = Done { work: self, group, found: None };
            done.found = Some(self.open(group));
        }
    }

    /// Waits for room, and claims the next group to read.
    fn next(&self) -> Option<usize> {
        let mut state = self.state.lock();
        loop {
            let group = state.next;
            if state.stopped || group == self.groups.len() {
                return None;
            }
            if state.window < self.window || group <= state.wanted {
                let promises = self.promises(group);
                let passing = ParquetPromise::claim(&promises);
                let bytes = passing.iter().map(|&position| promises[position].stored_bytes()).sum();
                state.next += 1;
                state.window += bytes;
                state.passing.insert(group, (bytes, passing));
                return Some(group);
            }
            self.changed.wait(&mut state);
        }
    }

    fn open(&self, group: usize) -> Result<Rows> {
        ParquetPromise::read(&self.promises(group)).map_err(ExecError::from)?;
        if self.state.lock().stopped {
            return Ok(vec![]);
        }
        let opened = |columns: &Vec<Arc<Chunk>>| columns.iter().map(Chunk::opened).collect();
        self.groups[group].iter().map(opened).collect()
    }

    fn promises(&self, group: usize) -> Vec<&ParquetPromise> {
        self.groups[group].iter().flat_map(|columns| promises(columns)).collect()
    }

    /// Frees the data of a group that is not kept.
    fn forget(&self, group: usize, state: &mut State) {
        if let Some((bytes, passing)) = state.passing.remove(&group) {
            state.window -= bytes;
            let promises = self.promises(group);
            ParquetPromise::forget(&passing.iter().map(|&position| promises[position]).collect::<Vec<_>>());
        }
    }
}

/// A group that a reader has begun. Drop hands over the result to waiting callers, an error if the reader panicked.
struct Done<'a> {
    work: &'a Work,
    group: usize,
    found: Option<Result<Rows>>,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        let lost = || Err(ExecError::Input("a thread that reads remote files failed".into()).into());
        let found = self.found.take().unwrap_or_else(lost);
        self.work.state.lock().ready.insert(self.group, found);
        self.work.changed.notify_all();
    }
}

fn promises(columns: &[Arc<Chunk>]) -> impl Iterator<Item = &ParquetPromise> {
    columns.iter().filter_map(|chunk| chunk.promise()).map(|promise| &**promise)
}

#[cfg(test)]
mod tests;
