//! Rows in memory as a source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{ChunkSource, LocalSource};
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{QueryContext, Result};
use crate::operator::Emit;
use crate::rows::RowSet;

/// Chunks over a [`RowSet`], in its order.
pub struct RowsSource {
    rows: Arc<RowSet>,
    name: String,
    /// Batch, first row and number of rows of each morsel.
    morsels: Vec<(usize, usize, usize)>,
    next: AtomicUsize,
}

/// Largest number of rows of a morsel: enough chunks to make claiming one cheap.
const MORSEL_ROWS: usize = 16 * crate::CHUNK_ROWS;

impl RowsSource {
    /// A source over `rows`, named `name`.
    pub fn new(name: String, rows: Arc<RowSet>) -> Self {
        let morsels = rows
            .batches
            .iter()
            .enumerate()
            .flat_map(|(batch, (_, len))| {
                (0..*len).step_by(MORSEL_ROWS).map(move |start| (batch, start, MORSEL_ROWS.min(len - start)))
            })
            .collect();
        Self { rows, name, morsels, next: AtomicUsize::new(0) }
    }
}

impl ChunkSource for RowsSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn parallelism(&self) -> usize {
        self.morsels.len()
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        Box::new(LocalRows { source: self, chunk_rows: query.settings.chunk_rows })
    }
}

struct LocalRows<'a> {
    source: &'a RowsSource,
    chunk_rows: usize,
}

impl LocalSource for LocalRows<'_> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let morsel = self.source.next.fetch_add(1, Ordering::Relaxed);
        let Some(&(batch, start, len)) = self.source.morsels.get(morsel) else { return Ok(false) };
        let vectors = &self.source.rows.batches[batch].0;
        for (i, offset) in (0..len).step_by(self.chunk_rows).enumerate() {
            let columns = vectors.iter().map(|v| Column { values: Values::Vector(v.clone()), group: 0 }).collect();
            let range = Selection::Range { start: (start + offset) as u32 };
            let mut chunk = Chunk::from_parts(self.chunk_rows.min(len - offset), columns, vec![range]);
            chunk.sequence = (morsel as u64) << 32 | i as u64;
            emit(chunk)?;
        }
        Ok(true)
    }
}
