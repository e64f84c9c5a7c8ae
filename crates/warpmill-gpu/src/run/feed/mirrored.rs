//! Lookup of mirrored copies, and recording of reads for the policy.

use std::collections::HashMap;
use std::sync::Arc;

use crate::compile::prepared::Prepared;
use crate::data::chunks::Chunk;
use crate::data::kept::ColumnId;
use crate::data::mirror::{GroupShare, MirrorOptions, Read};
use crate::data::policy::roles::roles;
use crate::data::policy::semantic::{Bandwidths, ColumnUse, Role, weights};
use crate::data::row_segment::RowSegment;
use crate::data::slot::{Found, chunks};
use crate::memory::mirrors::Mirrors;
use crate::run::peers::PeerReads;
use crate::run::shared::Shared;

use warpmill_format::ValueLayout;

/// Assumed rate of a link between two devices, as a multiple of the link to the host: NVLink 4 beside PCIe 5.
const PEER_LINKS: f64 = 6.7;

/// Mirrored copies for a run.
pub(super) struct Mirrored<'a> {
    shared: &'a Shared,
    /// By position among the columns of the program's scans: the mirror's number of the column, and its role.
    columns: Vec<(usize, Role)>,
    /// Position of the first column of each pipeline.
    first: HashMap<usize, usize>,
    rates: Bandwidths,
    /// The device's number in its group, and the number of devices, if a group runs the query.
    member: Option<(usize, usize)>,
    /// Bytes that needed no copy.
    pub found: u64,
}

impl<'a> Mirrored<'a> {
    /// For a run of `prepared`, with `cpu_threads` threads of the CPU back end.
    pub fn new(
        shared: &'a Shared,
        prepared: &Prepared,
        (options, reads): (MirrorOptions, Option<&PeerReads>),
        cpu_threads: usize,
    ) -> Self {
        let (mut columns, mut first) = (vec![], HashMap::new());
        let mut of_pipeline: HashMap<usize, Vec<Role>> = HashMap::new();
        let mut mirror = shared.store.mirror.lock();
        mirror.begin(options);
        for (position, (column, form)) in prepared.columns.iter().zip(&prepared.forms).enumerate() {
            let begin = *first.entry(column.pipeline).or_insert(position);
            let roles = of_pipeline.entry(column.pipeline).or_insert_with(|| {
                let pipeline = &prepared.program.pipelines[column.pipeline];
                roles(pipeline, &prepared.program.sinks[pipeline.sink])
            });
            let (table, name) = column.name.clone();
            let role = roles.get(position - begin).copied().unwrap_or_default();
            columns.push((mirror.number(ColumnId { table, column: name, form: *form }), role));
        }
        drop(mirror);
        let rates = Bandwidths {
            cpu: warpmill_machine::current().cpu.encoded_bytes() * cpu_threads.max(1) as f64,
            device: shared.peak_bandwidth().unwrap_or_else(|| shared.device_rates().memory),
            link: shared.paths.rates().link,
        };
        let member = reads.map(|reads| (reads.number(), reads.devices()));
        Self { shared, columns, first, rates, member, found: 0 }
    }

    /// The addresses of copies of row segments, without recording a read.
    pub fn look(&self, rows: &[RowSegment<'_>]) -> Found {
        let mirror = self.shared.store.mirror.lock();
        let there = |chunk: &Arc<Chunk>| Some((chunk.travels_as(), mirror.get(&chunk.travels_as())?));
        chunks(rows).filter(|chunk| chunk.may_stay()).filter_map(there).collect()
    }

    /// The addresses of copies of row segments of `pipeline`; records the reads. `is_whole`: all devices of the group read the pipeline's table
    /// completely.
    pub fn find(
        &mut self,
        (pipeline, is_whole): (usize, bool),
        rows: &[RowSegment<'_>],
        mirrors: &mut Mirrors,
    ) -> Found {
        let mut mirror = self.shared.store.mirror.lock();
        let mut found = Found::with_capacity_and_hasher(chunks(rows).count(), Default::default());
        let columns = self.first.get(&pipeline).map(|&first| &self.columns[first..]);
        let (mut uses, mut read) = (vec![], vec![]);
        for row in rows {
            uses.clear();
            read.clear();
            for (position, chunk) in row.columns.iter().enumerate() {
                let stays = chunk.may_stay();
                let there = mirror.get(&chunk.travels_as()).filter(|_| stays);
                if let Some(at) = there
                    && found.insert(chunk.travels_as(), at).is_none()
                    && let Some(segment) = chunk.segment()
                    && matches!(chunk.layout.values, ValueLayout::Strings { .. })
                {
                    mirrors.add(at, segment.as_bytes(), segment.clone());
                }
                let Some(&(column, role)) = columns.and_then(|columns| columns.get(position)) else { continue };
                uses.push(ColumnUse { bytes: chunk.copied_bytes(), cached: there.is_some(), role });
                let (segment, here) = (row.number, there.is_some());
                let seconds = chunk.copied_bytes() as f64 / (PEER_LINKS * self.rates.link);
                let group = self.member.filter(|_| is_whole).map(|(own, devices)| GroupShare { own, devices, seconds });
                read.push((stays, Read { chunk, column, segment, here, weight: 0.0, group }));
            }
            let rows = row.columns.first().map_or(0, |chunk| chunk.rows as u64);
            let weights = weights(&uses, rows, &self.rates);
            for ((stays, read), weight) in read.iter().zip(weights) {
                if *stays {
                    mirror.note(&Read { weight, ..*read });
                }
            }
        }
        found
    }
}

impl Drop for Mirrored<'_> {
    fn drop(&mut self) {
        self.shared.store.mirror.lock().end();
    }
}
