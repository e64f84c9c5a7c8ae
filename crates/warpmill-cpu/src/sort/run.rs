//! Sorting of row references by normalized prefixes, and gathering of the rows.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;
use warpmill_format::{Bitmap, StrView};

use super::normalize::{Direction, Prefix};
use crate::vector::{Data, Vector};

/// A row's position in the input, for a stable order: the chunk's sequence, then the worker's count of chunks and rows.
pub(super) type Origin = (u64, u64);

/// Largest number of rows that the calling thread sorts alone.
const SERIAL_ROWS: usize = 1 << 16;
/// Largest number of rows that are sorted and copied on one thread: waking another takes longer.
pub(super) const FEW_ROWS: usize = 4096;

/// A batch of rows to sort.
pub(super) struct SortBatch<P> {
    pub prefixes: Vec<P>,
    /// The keys from the first one that prefixes do not hold completely.
    pub open_keys: Vec<Arc<Vector>>,
    pub columns: Vec<Arc<Vector>>,
    pub origins: Origins,
    /// Index of the worker: chunks of different pipelines may have the same sequence.
    pub worker: usize,
}

/// Origins of a batch's rows.
pub(super) enum Origins {
    /// Rows of one chunk: row `i` has this origin plus `i`.
    Chunk(Origin),
    /// One origin per row.
    Rows(Vec<Origin>),
}

impl<P> SortBatch<P> {
    pub fn rows(&self) -> usize {
        self.prefixes.len()
    }

    pub fn origin(&self, row: usize) -> Origin {
        match &self.origins {
            Origins::Chunk((sequence, position)) => (*sequence, position + row as u64),
            Origins::Rows(rows) => rows[row],
        }
    }

    /// Sort key for the source's order of batches that are whole chunks.
    pub fn place(&self) -> Option<(u64, usize, u64)> {
        match self.origins {
            Origins::Chunk((sequence, position)) => Some((sequence, self.worker, position)),
            Origins::Rows(_) => None,
        }
    }

    pub fn bytes(&self) -> usize {
        let vectors: usize = self.columns.iter().chain(&self.open_keys).map(|column| column.bytes()).sum();
        vectors + self.rows() * (size_of::<P>() + size_of::<Origin>())
    }
}

/// A row: its prefix, and its batch and row packed in one word.
pub(super) type Entry<P> = (P, u64);

fn at(place: u64) -> (usize, usize) {
    ((place >> 32) as usize, place as u32 as usize)
}

/// The first `limit` rows of `batches`, in order; rows with equal keys are in order of origin.
pub(super) fn sorted<P: Prefix>(batches: &[SortBatch<P>], open: &[Direction], limit: usize) -> Vec<Entry<P>> {
    let mut entries: Vec<Entry<P>> = Vec::with_capacity(batches.iter().map(SortBatch::rows).sum());
    for (batch, rows) in batches.iter().enumerate() {
        entries.extend(rows.prefixes.iter().enumerate().map(|(row, &p)| (p, (batch as u64) << 32 | row as u64)));
    }
    // Batches of whole chunks in the source's order: comparing packed positions keeps equal rows in that order.
    let in_order = batches.iter().all(|b| b.place().is_some()) && batches.is_sorted_by_key(SortBatch::place);
    if in_order && open.is_empty() {
        return first(entries, limit, Entry::<P>::cmp);
    }
    // Compares two rows by the open keys from `key` on, then by origin.
    let by_value = |key: usize, a: u64, b: u64| {
        let ((i, row_i), (j, row_j)) = (at(a), at(b));
        let (x, y) = (&batches[i], &batches[j]);
        let mut keys = open.iter().zip(x.open_keys.iter().zip(&y.open_keys)).skip(key);
        let open = keys
            .find_map(|(key, (a, b))| Some(key.compare(a, row_i, b, row_j)).filter(|order| *order != Ordering::Equal));
        open.unwrap_or_else(|| {
            if in_order {
                return a.cmp(&b);
            }
            let ((sequence, position), (other, other_position)) = (x.origin(row_i), y.origin(row_j));
            (sequence, x.worker, position).cmp(&(other, y.worker, other_position))
        })
    };
    if limit < entries.len() {
        return first(entries, limit, |a, b| a.0.cmp(&b.0).then_with(|| by_value(0, a.1, b.1)));
    }
    // Sorts by prefixes first, which entries contain, then rows with equal prefixes with a copy of their first open key.
    let mut entries = first(entries, limit, Entry::<P>::cmp);
    let by_open_keys = |run: &mut [Entry<P>]| {
        let strings = (run.len() > FEW_ROWS).then(|| open_strings(batches, run)).flatten();
        let Some(mut strings) = strings else {
            return run.sort_unstable_by(|a, b| by_value(0, a.1, b.1));
        };
        let order = |a: &(StrView, u64), b: &(StrView, u64)| {
            let strings = if open[0].descending { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) };
            strings.then_with(|| by_value(1, a.1, b.1))
        };
        strings.par_sort_unstable_by(order);
        run.iter_mut().zip(strings).for_each(|(entry, (_, place))| entry.1 = place);
    };
    if entries.len() <= FEW_ROWS {
        entries.chunk_by_mut(|a, b| a.0 == b.0).filter(|run| run.len() > 1).for_each(by_open_keys);
    } else {
        entries.par_chunk_by_mut(|a, b| a.0 == b.0).filter(|run| run.len() > 1).for_each(by_open_keys);
    }
    entries
}

/// The first open key of entries with their positions, if it is a string column without NULLs.
fn open_strings<P>(batches: &[SortBatch<P>], entries: &[Entry<P>]) -> Option<Vec<(StrView, u64)>> {
    let string = |place: u64| {
        let (batch, row) = at(place);
        let key = batches[batch].open_keys.first()?;
        match &key.data {
            Data::Str(strings) if key.is_valid(row) => Some((strings[row], place)),
            _ => None,
        }
    };
    entries.iter().map(|entry| string(entry.1)).collect()
}

/// The first `limit` entries, in order.
fn first<P: Prefix>(
    mut entries: Vec<Entry<P>>,
    limit: usize,
    order: impl Fn(&Entry<P>, &Entry<P>) -> Ordering + Sync,
) -> Vec<Entry<P>> {
    if limit == 0 {
        return vec![];
    }
    if limit < entries.len() {
        entries.select_nth_unstable_by(limit - 1, &order);
        entries.truncate(limit);
    }
    if entries.len() <= SERIAL_ROWS {
        entries.sort_unstable_by(order);
    } else {
        entries.par_sort_unstable_by(order);
    }
    entries
}

/// Gathers the rows of `entries`, column by column.
pub(super) fn gather<P: Sync>(columns: &[Vec<&Vector>], entries: &[Entry<P>]) -> Vec<Arc<Vector>> {
    columns.iter().map(|sources| Arc::new(gather_column(sources, entries))).collect()
}

fn gather_column<P: Sync>(sources: &[&Vector], entries: &[Entry<P>]) -> Vector {
    macro_rules! pick {
        ($($variant:ident),*) => {
            match &sources[0].data {
                $(Data::$variant(_) => {
                    let slices: Vec<_> = sources
                        .iter()
                        .map(|source| match &source.data {
                            Data::$variant(values) => values.as_slice(),
                            other => unreachable!("{:?} in a column of another type", other.phys()),
                        })
                        .collect();
                    Data::$variant(entries.iter().map(|(_, place)| {
                        let (batch, row) = at(*place);
                        slices[batch][row]
                    }).collect())
                })*
            }
        };
    }
    let data = pick!(Bool, I32, I64, I128, F32, F64, Str, Code);
    let validity = sources.iter().any(|source| source.validity.is_some()).then(|| {
        Bitmap::from_fn(entries.len(), |i| {
            let (batch, row) = at(entries[i].1);
            sources[batch].is_valid(row)
        })
    });
    Vector::with_validity(data, validity)
}

/// Transposes batches of columns to one list of vectors per column.
pub(super) fn by_column<'a>(batches: impl Iterator<Item = &'a [Arc<Vector>]>, columns: usize) -> Vec<Vec<&'a Vector>> {
    let mut out: Vec<Vec<&Vector>> = vec![vec![]; columns];
    for batch in batches {
        out.iter_mut().zip(batch).for_each(|(column, vector)| column.push(vector));
    }
    out
}

/// Copies the rows of `entries` to one batch.
pub(super) fn compact<P: Prefix>(batches: &[SortBatch<P>], entries: &[Entry<P>]) -> SortBatch<P> {
    let first = &batches[0];
    let columns = by_column(batches.iter().map(|b| b.columns.as_slice()), first.columns.len());
    let open_keys = by_column(batches.iter().map(|b| b.open_keys.as_slice()), first.open_keys.len());
    let origins = entries.iter().map(|(_, place)| {
        let (batch, row) = at(*place);
        batches[batch].origin(row)
    });
    SortBatch {
        prefixes: entries.iter().map(|entry| entry.0).collect(),
        origins: Origins::Rows(origins.collect()),
        columns: gather(&columns, entries),
        open_keys: gather(&open_keys, entries),
        worker: first.worker,
    }
}
