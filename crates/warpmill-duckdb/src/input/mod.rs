//! Reads the rows of a plan's inputs.
//!
//! Threads of the host collect rows ([`Part`]) and hand them over with their place: DuckDB's scans number their batches in the order of
//! the table. A row segment is encoded as soon as its rows are known, by the thread that completes it. Therefore the columns of one
//! version of a table have the same rows in the same order whenever they are read, and can be kept one by one.

mod encoder;
mod part;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;
use warpmill_format::Table;
use warpmill_format::table::{EncodedColumn, Piece, Values};

pub(crate) use encoder::Encoder;
#[cfg(test)]
pub(crate) use part::entry;
pub use part::{Part, VectorView};

use crate::Refused;
use crate::attached::table::OwnTable;
use crate::cache;
use crate::plan::{Needed, Plan};

/// The measurements of reading inputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Time until the last row had arrived; of several inputs, the longest time.
    pub reading_ms: f64,
    /// Time of encoding, summed over all threads; most of it falls into the time above.
    pub encoding_ms: f64,
    /// Time of the work that was left after the last row had arrived.
    pub finishing_ms: f64,
}

impl Reading {
    /// The measurements of two inputs that are read at the same time and finished one after the other.
    pub fn and(self, other: Self) -> Self {
        Self {
            reading_ms: self.reading_ms.max(other.reading_ms),
            encoding_ms: self.encoding_ms + other.encoding_ms,
            finishing_ms: self.finishing_ms + other.finishing_ms,
        }
    }
}

/// Rows of one input of one execution.
pub struct Input {
    plan: Arc<Plan>,
    index: usize,
    key: Option<String>,
    /// The columns that are kept from earlier executions.
    known: Vec<Option<Arc<EncodedColumn>>>,
    /// The columns of the input that have to be read, by their index among the needed ones.
    missing: Vec<u32>,
    /// Encodes the missing columns; `None` if they cannot be stored, or after the end.
    encoder: Option<Encoder>,
    /// A table of Warpmill's own, of which no rows have to be handed over.
    own: Option<Arc<Table>>,
    error: OnceLock<String>,
    since: Instant,
    /// The measurements; complete after [`Input::finish`].
    pub reading: Reading,
}

impl Input {
    /// Input `index` of `plan`. With a key, kept columns are used, and new ones are kept.
    pub fn new(plan: Arc<Plan>, index: usize, key: Option<String>) -> Self {
        let needed = &plan.inputs[index];
        let fields = needed.schema.fields();
        let known = key.as_deref().map(|key| cache::find(key, &needed.kept_as()));
        let known = known.unwrap_or_else(|| vec![None; fields.len()]);
        let missing: Vec<u32> = (0u32..).zip(&known).filter(|(_, known)| known.is_none()).map(|(i, _)| i).collect();
        let types = match needed.columns.is_empty() {
            true => vec![],
            false => missing.iter().map(|&i| needed.types[i as usize]).collect(),
        };
        let encoder = Encoder::new(missing.iter().map(|&i| Arc::clone(&fields[i as usize])), types);
        let error = encoder.as_ref().err().map_or_else(OnceLock::new, |refused| refused.to_string().into());
        let (encoder, since, reading) = (encoder.ok(), Instant::now(), Reading::default());
        Self { plan, index, key, known, missing, encoder, own: None, error, since, reading }
    }

    /// Input `index` of `plan`, a table of Warpmill's own that is read directly.
    ///
    /// # Errors
    /// A column that does not have the type of the plan.
    pub fn of_table(plan: Arc<Plan>, index: usize, table: &OwnTable) -> Result<Self, Refused> {
        let own = Some(table.for_plan(&plan.inputs[index])?);
        let (known, missing, since) = (vec![], vec![], Instant::now());
        let (error, reading) = (OnceLock::new(), Reading::default());
        Ok(Self { plan, index, key: None, known, missing, encoder: None, own, error, since, reading })
    }

    fn needed(&self) -> &Needed {
        &self.plan.inputs[self.index]
    }

    /// The columns to read, of those that the plan reads. An input without columns has one entry: its rows have to be counted.
    pub fn missing(&self) -> &[u32] {
        &self.missing
    }

    /// The reason why rows were refused.
    pub fn error(&self) -> Option<&str> {
        self.error.get().map(String::as_str)
    }

    /// An empty part for rows of the missing columns.
    pub fn part(&self) -> Part {
        self.encoder.as_ref().map_or_else(Part::default, Encoder::part)
    }

    /// Takes the rows of `part`, which is empty afterwards. Their place comes after all lower places, and each place comes once; no further
    /// rows have a place below `least`. Without a place, rows may be in any order.
    pub fn take(&self, part: &mut Part, place: Option<u64>, least: u64) -> bool {
        let Some(encoder) = &self.encoder else { return false };
        if self.needed().columns.is_empty() {
            // The only column just counts the rows.
            let rows = part.rows;
            part.pieces.iter_mut().for_each(|piece| stand_in(piece, rows));
        }
        let part = std::mem::replace(part, encoder.part());
        let taken = encoder.take(part, place, least).and_then(|()| encoder.encode());
        taken.map_err(|refused| self.fail(refused.to_string())).is_ok()
    }

    /// Records the reason why rows are refused; the first reason is kept.
    pub fn fail(&self, error: String) {
        let _ = self.error.set(error);
    }

    /// All rows as a table, after the last row was handed over. At most `threads` threads are used.
    pub fn finish(&mut self, threads: usize) -> Result<Arc<Table>, Refused> {
        if let Some(error) = self.error() {
            return Err(Refused::new(error));
        }
        if let Some(own) = self.own.take() {
            return Ok(own);
        }
        let encoder = self.encoder.take().ok_or_else(|| Refused::new("rows that have been used already"))?;
        let read = self.since.elapsed();
        let (made, encoding) = encoder.finish(threads)?;
        if !made.is_empty() {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let finishing_ms = ms(self.since.elapsed() - read);
            self.reading = Reading { reading_ms: ms(read), encoding_ms: ms(encoding), finishing_ms };
        }
        let mut made = made.into_iter();
        let columns = std::mem::take(&mut self.known).into_iter();
        let columns: Vec<_> = columns.filter_map(|known| known.or_else(|| made.next())).collect();
        match &self.key {
            Some(key) => Ok(cache::table(key, &self.needed().kept_as(), &columns)?),
            None => Ok(Table::of_columns(&columns)?),
        }
    }
}

/// Adds `rows` rows to the column of an input that only counts rows.
fn stand_in(piece: &mut Piece, rows: usize) {
    if let Values::Narrow(values) = piece.values() {
        values.resize(values.len() + rows, 0);
    }
    piece.added(rows, None);
}

impl Needed {
    /// The numbers under which its columns are kept: their positions, or a number of its own for the column that only counts rows.
    fn kept_as(&self) -> Vec<u32> {
        if self.positions.is_empty() { vec![u32::MAX] } else { self.positions.clone() }
    }
}
