//! The chunk into which small chunks are copied.

use std::sync::Arc;

use warpmill_format::Bitmap;
use warpmill_ir::Phys;

use crate::chunk::{Chunk, Selection, Values};
use crate::vector::{Data, Vector};

/// Dense rows copied from several chunks.
pub(super) struct Buffer {
    types: Vec<Phys>,
    capacity: usize,
    columns: Vec<Vector>,
    len: usize,
    /// Sequence of the last chunk appended.
    pub sequence: u64,
}

impl Buffer {
    /// An empty buffer for chunks of up to `capacity` rows.
    pub fn new(types: &[Phys], capacity: usize) -> Self {
        Self { types: types.to_vec(), capacity, columns: vec![], len: 0, sequence: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends logical rows `from .. to` of `chunk`.
    pub fn append(&mut self, chunk: &Chunk, from: usize, to: usize) {
        if self.columns.is_empty() {
            let empty = |&phys: &Phys| Vector::new(Data::with_capacity(phys, self.capacity));
            self.columns = self.types.iter().map(empty).collect();
        }
        for (index, own) in self.columns.iter_mut().enumerate() {
            let column = &chunk.columns()[index];
            match (&chunk.groups()[column.group], &column.values) {
                (Selection::Rows(rows), Values::Vector(values)) => extend_rows(own, values, &rows[from..to]),
                _ if (from, to) == (0, chunk.len()) => own.extend(chunk.dense(index)),
                _ => own.extend(&chunk.dense(index).slice(from, to - from)),
            }
        }
        self.len += to - from;
        self.sequence = chunk.sequence;
    }

    /// The rows as a chunk; `None` if there are none.
    pub fn take(&mut self) -> Option<Chunk> {
        let len = std::mem::take(&mut self.len);
        if len == 0 {
            return None;
        }
        let columns: Vec<_> = std::mem::take(&mut self.columns).into_iter().map(Arc::new).collect();
        let mut chunk = if columns.is_empty() { Chunk::without_columns(len) } else { Chunk::from_vectors(columns) };
        chunk.sequence = self.sequence;
        Some(chunk)
    }
}

/// Appends row `rows[i]` of `values` for every `i`, in one pass.
fn extend_rows(own: &mut Vector, values: &Vector, rows: &[u32]) {
    macro_rules! extend {
        ($($variant:ident),*) => {
            match (&mut own.data, &values.data) {
                $((Data::$variant(own), Data::$variant(values)) => {
                    own.extend(rows.iter().map(|&row| values[row as usize]));
                })*
                (own, values) => unreachable!("vectors of {:?} and {:?} in one column", own.phys(), values.phys()),
            }
        };
    }
    let len = own.len();
    extend!(Bool, I32, I64, I128, F32, F64, Str, Code);
    if own.validity.is_none() && values.validity.is_none() {
        return;
    }
    let added = values.validity.as_ref().map_or_else(|| Bitmap::new(rows.len(), true), |v| v.gather(rows));
    own.validity.get_or_insert_with(|| Bitmap::new(len, true)).extend(&added);
}
