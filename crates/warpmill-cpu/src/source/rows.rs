//! Rows that are in memory: the output of a sink, constant rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{Field, Scalar};

use super::{ChunkSource, LocalSource};
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{QueryContext, Result};
use crate::operator::{Emit, RowSet};
use crate::vector::{Data, Vector};

/// Chunks over a [`RowSet`], in its order.
pub struct RowsSource {
    rows: Arc<RowSet>,
    name: String,
    /// Batch and first row of each morsel.
    morsels: Vec<(usize, usize, usize)>,
    next: AtomicUsize,
}

/// Rows of a morsel: enough chunks to make claiming one cheap.
const MORSEL_ROWS: usize = 16 * crate::CHUNK_ROWS;

impl RowsSource {
    /// A source over `rows`, shown as `name`.
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

/// Constant rows as a [`RowSet`]; strings point into `rows`, which the running program keeps alive.
pub fn values(rows: &[Vec<Scalar>], fields: &[Field]) -> RowSet {
    let columns = fields
        .iter()
        .enumerate()
        .map(|(c, field)| {
            let mut data = Data::zeros(field.ty.phys, rows.len());
            let validity = Bitmap::from_fn(rows.len(), |r| rows[r][c] != Scalar::Null);
            for (r, row) in rows.iter().enumerate() {
                set(&mut data, r, &row[c]);
            }
            Arc::new(Vector::with_validity(data, Some(validity)))
        })
        .collect();
    RowSet { batches: vec![(columns, rows.len())] }
}

fn set(data: &mut Data, row: usize, value: &Scalar) {
    match (data, value) {
        (_, Scalar::Null) => {}
        (Data::Bool(out), Scalar::Bool(v)) => out[row] = *v,
        (Data::I32(out), Scalar::Int(v)) => out[row] = *v as i32,
        (Data::I64(out), Scalar::Int(v)) => out[row] = *v as i64,
        (Data::I128(out), Scalar::Int(v)) => out[row] = *v,
        (Data::Code(out), Scalar::Int(v)) => out[row] = *v as u32,
        (Data::F32(out), Scalar::Float(v)) => out[row] = *v as f32,
        (Data::F64(out), Scalar::Float(v)) => out[row] = *v,
        (Data::Str(out), Scalar::Str(v)) => out[row] = StrView::new(v),
        (data, value) => unreachable!("constant {value:?} in a column of {:?}", data.phys()),
    }
}
