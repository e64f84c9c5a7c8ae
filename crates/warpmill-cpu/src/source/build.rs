//! The rows of a hash build, selected by whether they matched.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpmill_ir::{BuildRows, Field, Phys};

use super::{ChunkSource, LocalSource};
use crate::context::{QueryContext, Result};
use crate::join::{HashTable, SpilledBlock};
use crate::operator::Emit;

/// Number of build rows of a morsel.
const MORSEL_ROWS: usize = 32 * crate::CHUNK_ROWS;

/// A finished hash build as a source; valid after all its probes.
pub struct BuildSource {
    table: Arc<HashTable>,
    which: BuildRows,
    nulls: Vec<Phys>,
    /// Blocks of rows in spill files.
    spilled: Vec<SpilledBlock>,
    next: AtomicUsize,
    next_spilled: AtomicUsize,
}

impl BuildSource {
    /// The rows `which` of `table`; `fields` are its payload, then all-NULL columns, then the mark.
    pub fn new(table: Arc<HashTable>, which: BuildRows, fields: &[Field]) -> Self {
        let mark = usize::from(which == BuildRows::Marked);
        let nulls = fields[table.payload().len()..fields.len() - mark].iter().map(|field| field.ty.phys).collect();
        let spilled = table.spilled_blocks();
        Self { table, which, nulls, spilled, next: AtomicUsize::new(0), next_spilled: AtomicUsize::new(0) }
    }
}

impl ChunkSource for BuildSource {
    fn name(&self) -> String {
        format!("{:?} rows of a build", self.which)
    }

    fn parallelism(&self) -> usize {
        self.table.rows().div_ceil(MORSEL_ROWS) + self.spilled.len()
    }

    fn local<'a>(&'a self, query: &Arc<QueryContext>) -> Box<dyn LocalSource + 'a> {
        Box::new(LocalBuild { source: self, chunk_rows: query.settings.chunk_rows })
    }
}

struct LocalBuild<'a> {
    source: &'a BuildSource,
    chunk_rows: usize,
}

impl LocalSource for LocalBuild<'_> {
    fn next_morsel(&mut self, emit: Emit<'_>) -> Result<bool> {
        let BuildSource { table, which, nulls, spilled, next, next_spilled } = self.source;
        let start = next.fetch_add(MORSEL_ROWS, Ordering::Relaxed);
        if start >= table.rows() {
            let block = next_spilled.fetch_add(1, Ordering::Relaxed);
            let Some(&block) = spilled.get(block) else { return Ok(false) };
            table.spilled_rows(*which, nulls, block, self.chunk_rows)?.into_iter().try_for_each(emit)?;
            return Ok(true);
        }
        table.build_rows(*which, nulls, start..start + MORSEL_ROWS, self.chunk_rows).into_iter().try_for_each(emit)?;
        Ok(true)
    }
}
