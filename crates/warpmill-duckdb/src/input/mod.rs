//! Rows that come in.
//!
//! Threads of the host gather rows ([`Part`]) and hand them over with their place among the others: DuckDB's scans number what they
//! give in the order of the table. As soon as it is known which rows a row segment has, the thread that made it known encodes it. So the
//! columns of one version of a table have the same rows in the same order whenever they are read, and are kept one by one.

mod part;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use warpmill_format::table::{ColumnWriter, EncodedColumn, Piece, Values};
use warpmill_format::{SEGMENT_ROWS, Table};

#[cfg(test)]
pub(crate) use part::entry;
pub(crate) use part::text;
pub use part::{Part, VectorView};

use crate::Refused;
use crate::cache;
use crate::plan::{Needed, Plan};

/// Rows of one input of one execution.
pub struct Input {
    plan: Arc<Plan>,
    index: usize,
    key: Option<String>,
    /// For each column: known from before, or being read.
    columns: Vec<Column>,
    /// Which of the input's columns have to come.
    missing: Vec<u32>,
    queue: Mutex<Queue>,
    error: OnceLock<String>,
}

enum Column {
    Known(Arc<EncodedColumn>),
    Read(ColumnWriter),
}

/// Rows that have come, and are not cut into row segments yet.
#[derive(Default)]
struct Queue {
    /// By place.
    waiting: BTreeMap<u64, Part>,
    /// Places below this one have come, or will not.
    next: u64,
    /// In order: the rows of the next row segment.
    open: Vec<(Arc<Part>, Range<usize>)>,
    open_rows: usize,
    /// Row segments so far.
    segments: usize,
    /// What is to be encoded, by whoever has time.
    tasks: VecDeque<Task>,
}

/// A column of a row segment that is to be encoded.
struct Task {
    segment: usize,
    /// Of those that are read.
    column: usize,
    rows: Arc<[(Arc<Part>, Range<usize>)]>,
}

impl Queue {
    /// Takes rows with their place.
    fn add(&mut self, place: Option<u64>, part: Part) -> Result<(), Refused> {
        let place = place.unwrap_or(self.next);
        if place < self.next || self.waiting.insert(place, part).is_some() {
            return Err(Refused::new("rows of the table came twice, or too late"));
        }
        Ok(())
    }

    /// Cuts what is known to be in order; `all`: no more rows come.
    fn cut(&mut self, all: bool) {
        while let Some(entry) = self.waiting.first_entry()
            && (all || *entry.key() <= self.next)
        {
            let (place, part) = entry.remove_entry();
            self.next = self.next.max(place + 1);
            let (part, mut start) = (Arc::new(part), 0);
            while start < part.rows {
                let rows = (SEGMENT_ROWS - self.open_rows).min(part.rows - start);
                self.open.push((Arc::clone(&part), start..start + rows));
                (start, self.open_rows) = (start + rows, self.open_rows + rows);
                if self.open_rows == SEGMENT_ROWS {
                    self.close(part.pieces.len());
                }
            }
        }
        if let Some((part, _)) = self.open.first().filter(|_| all) {
            let columns = part.pieces.len();
            self.close(columns);
        }
    }

    fn close(&mut self, columns: usize) {
        let (segment, rows) = (self.segments, std::mem::take(&mut self.open).into());
        self.open_rows = 0;
        self.segments += 1;
        self.tasks.extend((0..columns).map(|column| Task { segment, column, rows: Arc::clone(&rows) }));
    }
}

impl Input {
    /// Input `index` of `plan`; with a key, columns may be known already and are kept.
    pub fn new(plan: Arc<Plan>, index: usize, key: Option<String>) -> Self {
        let needed = &plan.inputs[index];
        let known = key.as_deref().map(|key| cache::find(key, &needed.kept_as()));
        let mut known = known.unwrap_or_default().into_iter();
        let error = OnceLock::new();
        let columns = needed.schema.fields().iter().filter_map(|field| {
            if let Some(column) = known.next().flatten() {
                return Some(Column::Known(column));
            }
            match ColumnWriter::new(Arc::clone(field)) {
                Ok(writer) => Some(Column::Read(writer)),
                Err(refused) => {
                    let _ = error.set(refused.to_string());
                    None
                }
            }
        });
        let columns: Vec<Column> = columns.collect();
        let is_read = |i: &u32| matches!(columns.get(*i as usize), Some(Column::Read(_)));
        let missing = (0..columns.len() as u32).filter(is_read).collect();
        Self { plan, index, key, columns, missing, queue: Mutex::default(), error }
    }

    fn needed(&self) -> &Needed {
        &self.plan.inputs[self.index]
    }

    /// Which of the columns that the plan reads have to come. Of an input without columns, rows have to: the list has one entry.
    pub fn missing(&self) -> &[u32] {
        &self.missing
    }

    /// Why rows were refused.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }

    fn writers(&self) -> impl Iterator<Item = &ColumnWriter> {
        self.columns.iter().filter_map(|column| match column {
            Column::Read(writer) => Some(writer),
            Column::Known(_) => None,
        })
    }

    /// For rows of the columns that have to come.
    pub fn part(&self) -> Part {
        let types = match self.needed().columns.is_empty() {
            true => vec![],
            false => self.missing.iter().map(|&i| self.needed().types[i as usize]).collect(),
        };
        Part { types, pieces: self.writers().map(ColumnWriter::piece).collect(), rows: 0 }
    }

    /// Takes the rows of `part`, which is empty then. They come after those of all lower places, and each place comes once; all below
    /// `least` have come, or will not. No place: in any order.
    pub fn take(&self, part: &mut Part, place: Option<u64>, least: u64) -> bool {
        if self.needed().columns.is_empty() {
            // One column that stands for the rows.
            let rows = part.rows;
            part.pieces.iter_mut().for_each(|piece| stand_in(piece, rows));
        }
        let part = std::mem::replace(part, self.part());
        let added = {
            let mut queue = self.queue.lock();
            let added = if part.rows > 0 { queue.add(place, part) } else { Ok(()) };
            queue.next = queue.next.max(least);
            queue.cut(false);
            added
        };
        added.and_then(|()| self.encode()).map_err(|refused| self.fail(refused.to_string())).is_ok()
    }

    /// Encodes what there is to encode.
    fn encode(&self) -> Result<(), Refused> {
        let writers: Vec<&ColumnWriter> = self.writers().collect();
        loop {
            let task = self.queue.lock().tasks.pop_front();
            let Some(Task { segment, column, rows }) = task else { return Ok(()) };
            let parts = rows.iter().map(|(part, range)| (&part.pieces[column], range.clone()));
            writers[column].encode(segment, &parts.collect::<Vec<(&Piece, _)>>())?;
        }
    }

    /// The same, by as many threads as there is work for.
    fn encode_rest(&self, threads: usize) -> Result<(), Refused> {
        let threads = threads.min(self.queue.lock().tasks.len());
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| self.encode())).collect();
            let own = self.encode();
            let others =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            others.fold(own, Result::and)
        })
    }

    /// Notes why rows are refused.
    pub fn fail(&self, error: String) {
        let _ = self.error.set(error);
    }

    /// All rows, once no more come; `threads` may be used.
    pub fn finish(&mut self, threads: usize) -> Result<Arc<Table>, Refused> {
        if let Some(error) = self.error() {
            return Err(Refused::new(error));
        }
        self.queue.lock().cut(true);
        self.encode_rest(threads)?;
        let columns = std::mem::take(&mut self.columns).into_iter().map(|column| match column {
            Column::Known(column) => Ok(column),
            Column::Read(writer) => Ok(Arc::new(writer.finish()?)),
        });
        let columns = columns.collect::<Result<Vec<_>, Refused>>()?;
        match &self.key {
            Some(key) => cache::table(key, &self.needed().kept_as(), &columns),
            None => Ok(Table::of_columns(&columns)?),
        }
    }
}

/// Fills the column that stands for rows without columns.
fn stand_in(piece: &mut Piece, rows: usize) {
    if let Values::Narrow(values) = piece.values() {
        values.resize(values.len() + rows, 0);
    }
    piece.added(rows, None);
}

impl Needed {
    /// Under which numbers its columns are kept: their positions, and one of its own for what stands for rows.
    fn kept_as(&self) -> Vec<u32> {
        if self.positions.is_empty() { vec![u32::MAX] } else { self.positions.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    fn part(rows: usize) -> Part {
        let mut piece = Piece::new(&DataType::Boolean, false).unwrap();
        stand_in(&mut piece, rows);
        Part { types: vec![], pieces: vec![piece], rows }
    }

    /// Rows of the parts of each row segment that is to be encoded.
    fn tasks(queue: &mut Queue) -> Vec<Vec<usize>> {
        queue.tasks.drain(..).map(|task| task.rows.iter().map(|(_, range)| range.len()).collect()).collect()
    }

    #[test]
    fn rows_are_cut_in_the_order_of_their_places() {
        const HALF: usize = SEGMENT_ROWS / 2;
        let mut queue = Queue::default();
        for (place, rows) in [(5, 3), (2, HALF + 1), (1, HALF)] {
            queue.add(Some(place), part(rows)).unwrap();
            queue.cut(false);
        }
        assert!(tasks(&mut queue).is_empty(), "whether there is a place 0 is not known");
        queue.next = 1;
        queue.cut(false);
        assert_eq!(tasks(&mut queue), [[HALF, HALF]]);
        assert!(queue.add(Some(2), part(1)).is_err() && queue.add(Some(5), part(1)).is_err());
        let mut queue = Queue::default();
        for (place, rows) in [(7, 1), (3, 2), (9, 3)] {
            queue.add(Some(place), part(rows)).unwrap();
        }
        queue.next = 4;
        queue.cut(false);
        queue.cut(true);
        assert_eq!(tasks(&mut queue), [[2, 1, 3]]);
    }

    #[test]
    fn rows_without_places_come_as_they_come() {
        let mut queue = Queue::default();
        for rows in [SEGMENT_ROWS - 1, 3, 2 * SEGMENT_ROWS] {
            queue.add(None, part(rows)).unwrap();
            queue.cut(false);
        }
        queue.cut(true);
        assert_eq!(
            tasks(&mut queue),
            [vec![SEGMENT_ROWS - 1, 1], vec![2, SEGMENT_ROWS - 2], vec![SEGMENT_ROWS], vec![2]]
        );
    }
}
