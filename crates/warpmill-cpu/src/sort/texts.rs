//! Strings computed by the operator before a sort: the sort copies the strings of rows that it keeps, so that all others can be freed at once.

use std::sync::Arc;

use super::run::SortBatch;
use super::{Operand, Shared};
use crate::context::{QueryContext, Result, Worker};
use crate::vector::{Data, Vector};

/// The string copies of one worker.
pub(super) struct Texts {
    /// Indices of the columns whose strings are copied.
    columns: Vec<usize>,
    /// Owns the copies, including copies for rows dropped since.
    arena: Worker,
    /// An empty arena, to swap with.
    spare: Worker,
}

impl Texts {
    pub fn new(columns: &[usize], query: &QueryContext) -> Self {
        let [arena, spare] = [(); 2].map(|()| Worker::new(&query.memory));
        Self { columns: columns.to_vec(), arena, spare }
    }

    /// Replaces the strings of `batch` by copies.
    pub fn own<P>(&mut self, batch: &mut SortBatch<P>, shared: &Shared) -> Result<()> {
        for &column in &self.columns {
            batch.columns[column] = copied(&batch.columns[column], &mut self.arena)?;
        }
        let open = &shared.keys[shared.normalizer.open..];
        for (key, operand) in batch.open_keys.iter_mut().zip(open) {
            *key = match operand {
                Operand::Column(column) => batch.columns[*column].clone(),
                // A computed key may view a part of a column's string.
                Operand::Expr(_) => copied(key, &mut self.arena)?,
            };
        }
        Ok(())
    }

    /// Keeps all copies alive until the query ends.
    pub fn keep(&mut self, query: &QueryContext) {
        // A dropped worker leaves its strings to the query.
        drop(std::mem::replace(&mut self.arena, Worker::new(&query.memory)));
    }

    /// Copies the strings of `batch` again, and frees all other copies.
    pub fn renew<P>(&mut self, batch: &mut SortBatch<P>, shared: &Shared) -> Result<()> {
        std::mem::swap(&mut self.arena, &mut self.spare);
        self.own(batch, shared)?;
        self.spare.forget_texts();
        Ok(())
    }
}

/// `vector` with copies of its strings.
fn copied(vector: &Arc<Vector>, arena: &mut Worker) -> Result<Arc<Vector>> {
    let Data::Str(views) = &vector.data else { return Ok(vector.clone()) };
    let mut copies = Vec::with_capacity(views.len());
    for (row, view) in views.iter().enumerate() {
        copies.push(if vector.is_valid(row) { arena.text(view.as_str())? } else { Default::default() });
    }
    Ok(Arc::new(Vector { data: Data::Str(copies), validity: vector.validity.clone() }))
}
