//! Collects parts of rows into row segments, and encodes the columns of these.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::FieldRef;
use parking_lot::Mutex;
use warpmill_format::SEGMENT_ROWS;
use warpmill_format::table::{ColumnWriter, EncodedColumn, Piece};

use super::Part;
use crate::Refused;
use crate::types::Type;

/// Encodes the columns of rows that threads hand over in parts.
pub struct Encoder {
    types: Vec<Type>,
    writers: Vec<ColumnWriter>,
    queue: Mutex<Queue>,
    /// Parts whose rows have been encoded: their memory is used for further parts.
    used: Mutex<Vec<Part>>,
    nanos: AtomicU64,
}

/// Rows that have arrived, but are not in a complete row segment yet.
#[derive(Default)]
struct Queue {
    /// Parts by place, until all parts before them have arrived.
    waiting: BTreeMap<u64, Part>,
    /// No further rows have a place below this one.
    next: u64,
    /// The rows of the next row segment, in order.
    open: Rows,
    open_rows: usize,
    /// The number of row segments so far.
    segments: usize,
    /// Columns to be encoded, by any thread.
    tasks: VecDeque<Task>,
}

/// A column of a row segment to be encoded.
struct Task {
    segment: usize,
    /// The position among the columns to be encoded.
    column: usize,
    rows: Arc<Rows>,
}

/// Ranges of rows of parts, in order.
type Rows = Vec<(Arc<Part>, Range<usize>)>;

impl Queue {
    /// Adds the rows of a part, with their place.
    fn add(&mut self, place: Option<u64>, part: Part) -> Result<(), Refused> {
        let place = place.unwrap_or(self.next);
        if place < self.next || self.waiting.insert(place, part).is_some() {
            return Err(Refused::new("rows of the table came twice, or too late"));
        }
        Ok(())
    }

    /// Moves rows whose order is known into row segments. `all`: no more rows follow, so that the last row segment is closed.
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
        let (segment, rows) = (self.segments, Arc::new(std::mem::take(&mut self.open)));
        self.open_rows = 0;
        self.segments += 1;
        self.tasks.extend((0..columns).map(|column| Task { segment, column, rows: Arc::clone(&rows) }));
    }
}

impl Encoder {
    /// An encoder of columns with these names and types. `types` are the types of the vectors; empty if the only column just counts rows.
    pub fn new(fields: impl Iterator<Item = FieldRef>, types: Vec<Type>) -> Result<Self, Refused> {
        let writers = fields.map(ColumnWriter::new).collect::<Result<_, _>>()?;
        let (queue, used, nanos) = Default::default();
        Ok(Self { types, writers, queue, used, nanos })
    }

    /// An empty part, in the memory of a used one if there is any.
    pub fn part(&self) -> Part {
        let Some(used) = self.used.lock().pop() else {
            return Part {
                types: self.types.clone(),
                pieces: self.writers.iter().map(ColumnWriter::piece).collect(),
                rows: 0,
            };
        };
        let pieces = self.writers.iter().zip(used.pieces).map(|(writer, piece)| writer.again(piece));
        Part { pieces: pieces.collect(), rows: 0, types: used.types }
    }

    /// Adds the rows of a part. Their place comes after all lower places, and each place comes once; no further rows have a place below
    /// `least`. Without a place, rows may be in any order.
    pub fn take(&self, part: Part, place: Option<u64>, least: u64) -> Result<(), Refused> {
        self.writers.iter().zip(&part.pieces).for_each(|(writer, piece)| writer.learn(piece));
        let mut queue = self.queue.lock();
        let added = if part.rows > 0 { queue.add(place, part) } else { Ok(()) };
        queue.next = queue.next.max(least);
        queue.cut(false);
        added
    }

    /// Encodes columns until no task is left.
    pub fn encode(&self) -> Result<(), Refused> {
        loop {
            let task = self.queue.lock().tasks.pop_front();
            let Some(Task { segment, column, rows }) = task else { return Ok(()) };
            let started = Instant::now();
            let parts = rows.iter().map(|(part, range)| (&part.pieces[column], range.clone()));
            self.writers[column].encode(segment, &parts.collect::<Vec<(&Piece, _)>>())?;
            self.nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            // The last task that uses the rows makes their memory available again.
            let parts = Arc::into_inner(rows).into_iter().flatten().filter_map(|(part, _)| Arc::into_inner(part));
            self.used.lock().extend(parts);
        }
    }

    /// Encodes the remaining columns, on as many threads as there are tasks, but at most `threads`.
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

    /// The encoded columns after the last row, and the total time of encoding on all threads. At most `threads` threads are used.
    pub fn finish(self, threads: usize) -> Result<(Vec<Arc<EncodedColumn>>, Duration), Refused> {
        self.queue.lock().cut(true);
        self.encode_rest(threads)?;
        let started = Instant::now();
        let columns = self.writers.into_iter().map(|writer| Ok(Arc::new(writer.finish()?)));
        let columns = columns.collect::<Result<Vec<_>, Refused>>()?;
        Ok((columns, Duration::from_nanos(self.nanos.into_inner()) + started.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in;
    use super::*;
    use arrow::datatypes::DataType;

    fn part(rows: usize) -> Part {
        let mut piece = Piece::new(&DataType::Boolean, false).unwrap();
        stand_in(&mut piece, rows);
        Part { types: vec![], pieces: vec![piece], rows }
    }

    /// The numbers of rows that each row segment to be encoded takes from parts.
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
