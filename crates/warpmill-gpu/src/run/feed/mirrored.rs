//! The copies that a run finds of mirrored data, and what it tells about its use of the rest.

use std::collections::HashMap;
use std::sync::Arc;

use crate::compile::prepared::Prepared;
use crate::data::chunks::Chunk;
use crate::data::kept::ColumnId;
use crate::data::mirror::{MirrorOptions, Read};
use crate::data::policy::roles::roles;
use crate::data::policy::semantic::{Bandwidths, CPU_THREAD, ColumnUse, Role, weights};
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, chunks};
use crate::memory::mirrors::Mirrors;
use crate::run::shared::Shared;

use warpmill_format::ValueLayout;

/// Finds copies for a run.
pub(super) struct Mirrored<'a> {
    shared: &'a Shared,
    /// By position among the columns of the program's scans.
    columns: Vec<(ColumnId, Role)>,
    /// The first of them of each pipeline.
    first: HashMap<usize, usize>,
    rates: Bandwidths,
    /// Bytes that did not travel.
    pub found: u64,
}

impl<'a> Mirrored<'a> {
    /// For a run of `prepared`, beside which the CPU has so many threads.
    pub fn new(shared: &'a Shared, prepared: &Prepared, options: MirrorOptions, cpu_threads: usize) -> Self {
        let (mut columns, mut first) = (vec![], HashMap::new());
        let mut of_pipeline: HashMap<usize, Vec<Role>> = HashMap::new();
        for (position, (column, form)) in prepared.columns.iter().zip(&prepared.forms).enumerate() {
            let begin = *first.entry(column.pipeline).or_insert(position);
            let roles = of_pipeline.entry(column.pipeline).or_insert_with(|| {
                let pipeline = &prepared.program.pipelines[column.pipeline];
                roles(pipeline, &prepared.program.sinks[pipeline.sink])
            });
            let (table, name) = column.name.clone();
            let role = roles.get(position - begin).copied().unwrap_or_default();
            columns.push((ColumnId { table, column: name, form: *form }, role));
        }
        shared.store.mirror.lock().begin(options);
        let rates = Bandwidths {
            cpu: CPU_THREAD * cpu_threads.max(1) as f64,
            device: shared.peak_bandwidth().unwrap_or(2e12),
            link: shared.paths.rates().link,
        };
        Self { shared, columns, first, rates, found: 0 }
    }

    /// The copies of row segments.
    pub fn look(&self, rows: &[RowSegment<'_>]) -> Found {
        let mirror = self.shared.store.mirror.lock();
        let there = |chunk: &Arc<Chunk>| Some((chunk.travels_as(), mirror.get(&chunk.travels_as())?));
        chunks(rows).filter(|chunk| chunk.may_stay()).filter_map(there).collect()
    }

    /// The copies of row segments of `pipeline`, and notes that they are read.
    pub fn find(&mut self, pipeline: usize, rows: &[RowSegment<'_>], mirrors: &mut Mirrors) -> Found {
        let mut mirror = self.shared.store.mirror.lock();
        let mut found = Found::new();
        for chunk in chunks(rows).filter(|chunk| chunk.may_stay()) {
            let Some(at) = mirror.get(&chunk.travels_as()) else { continue };
            if found.insert(chunk.travels_as(), at).is_some() {
                continue;
            }
            if let Some(segment) = chunk.segment()
                && matches!(chunk.layout.values, ValueLayout::Strings { .. })
            {
                mirrors.add(at, segment.as_bytes(), segment.clone());
            }
        }
        let Some(&first) = self.first.get(&pipeline) else { return found };
        for row in rows {
            let uses = row.columns.iter().zip(&self.columns[first..]).map(|(chunk, (_, role))| ColumnUse {
                bytes: chunk.copied_bytes(),
                cached: found.contains_key(&chunk.travels_as()),
                role: *role,
            });
            let uses: Vec<ColumnUse> = uses.collect();
            let rows = row.columns.first().map_or(0, |chunk| chunk.rows as u64);
            let weights = weights(&uses, rows, &self.rates);
            let read = row.columns.iter().zip(&self.columns[first..]).zip(weights);
            let read = read.filter(|((chunk, _), _)| chunk.may_stay());
            let read = read.map(|((chunk, (column, _)), weight)| Read { chunk, column, segment: row.number, weight });
            mirror.note(&read.collect::<Vec<_>>());
        }
        found
    }
}

impl Drop for Mirrored<'_> {
    fn drop(&mut self) {
        self.shared.store.mirror.lock().end();
    }
}
