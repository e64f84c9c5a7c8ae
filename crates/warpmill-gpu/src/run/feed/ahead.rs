//! Columns of remote files that are read while the device works on those before them.
//!
//! Row segments are read in groups, several at a time, in the order in which they are brought to the device. What the query has room to keep
//! stays on the host until its end; of the rest, so much is ahead as fits a window, and is forgotten once it has been written to a slot.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use warpmill_eval::ExecError;
use warpmill_format::parquet_file::ParquetPromise;

use crate::data::chunks::Chunk;
use crate::data::row_segment::RowSegment;
use crate::memory::error::Result;

/// Bytes of a group, at most, where it has several row segments: enough for several requests.
const GROUP: u64 = 32 << 20;

/// Groups that are read at the same time.
const READERS: usize = 4;

/// The columns of some row segments.
type Rows = Vec<Vec<Arc<Chunk>>>;

/// Reads what is to come of the row segments of a kernel. Dropping it waits for what has been begun: whoever reads the same next finds it.
pub(super) struct Ahead {
    work: Arc<Work>,
    readers: Vec<JoinHandle<()>>,
    /// By the number of a row segment: its group, and its place there.
    places: HashMap<usize, (usize, usize)>,
}

struct Work {
    groups: Vec<Rows>,
    /// Bytes that may be ahead, beyond what there is room to keep; more where the next batch has more.
    window: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The group that is read next.
    next: usize,
    /// The last one that somebody waits for.
    wanted: usize,
    /// Bytes of groups that there is no room to keep, until they have been written.
    window: u64,
    /// Those of each, and which of its promises they are.
    passing: HashMap<usize, (u64, Vec<usize>)>,
    /// The rows that were read.
    ready: HashMap<usize, Result<Rows>>,
    /// Row segments that have been written, by group.
    written: HashMap<usize, usize>,
    stopped: bool,
}

impl Ahead {
    /// For these row segments; `None` where nothing of them is to come.
    pub fn of(rows: &[RowSegment<'_>]) -> Option<Self> {
        let window = rows.iter().flat_map(|row| promises(row.columns)).map(ParquetPromise::window).next()?;
        Self::with(rows, window, GROUP)
    }

    /// The same with a window and groups of other sizes.
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

    /// The columns of `rows`, for which it waits.
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

    /// `rows` are no longer needed.
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
            // Whoever waited for one that panicked has heard of it.
            let _ = reader.join();
        }
        let mut state = self.work.state.lock();
        let passing: Vec<usize> = state.passing.keys().copied().collect();
        passing.into_iter().for_each(|group| self.work.forget(group, &mut state));
    }
}

impl Work {
    /// The work of each reader.
    fn read(&self) {
        while let Some(group) = self.next() {
            let mut done = Done { work: self, group, found: None };
            done.found = Some(self.open(group));
        }
    }

    /// The group to read next, once there is room for it.
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

    /// Gives the memory of a group back that there is no room to keep.
    fn forget(&self, group: usize, state: &mut State) {
        if let Some((bytes, passing)) = state.passing.remove(&group) {
            state.window -= bytes;
            let promises = self.promises(group);
            ParquetPromise::forget(&passing.iter().map(|&position| promises[position]).collect::<Vec<_>>());
        }
    }
}

/// A group that a reader has begun: whoever waits for it hears of its end, also where the reader panics.
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
