//! Hash builds beyond the memory limit: hybrid hash joins (DeWitt et al., Implementation Techniques for Main Memory Database Systems, 1984), with the
//! difference that the number of partitions in memory is chosen once all rows are known.
//!
//! Workers write their rows, divided by key hash, when the query reaches its memory limit; at the end, partitions are read back into one table as
//! long as it fits. The others stay in the file, and their probe rows are spilled as well ([`super::resume`]). Match flags of such a partition are
//! bits by row position in the partition, so that they outlive its tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rayon::prelude::*;
use warpmill_ir::Phys;
use warpmill_ir::program::BuildRows;

use super::build::{Spec, load};
use super::hash::hash_rows;
use super::slots::Slots;
use super::table::HashTable;
use crate::chunk::{Chunk, Column, Selection, Values};
use crate::context::{ExecError, QueryContext, Result};
use crate::spill::partition::{self, PARTITIONS, Part, Partitioned};
use crate::vector::{Data, NULL_ROW, Vector};

/// The partition of rows that match nothing because a key is NULL.
pub(super) const NULL_KEYS: usize = PARTITIONS;

/// The partitions of a build that are not in its table.
#[derive(Debug)]
pub(super) struct SpilledBuild {
    spec: Arc<Spec>,
    /// `PARTITIONS` by hash, then [`NULL_KEYS`].
    parts: Vec<Part>,
    /// Per partition, whether its rows are in the table; its part is empty then.
    resident: Vec<bool>,
    /// A bit per row that matched; empty where matches are not tracked.
    matched: Vec<Vec<AtomicU64>>,
}

/// Build rows in a file: a partition, or a part of one.
#[derive(Debug, Clone)]
pub(super) struct BuildPart {
    pub part: Part,
    /// Index of the partition in the first division.
    pub partition: usize,
    /// Position of the first row in the partition.
    first: usize,
    /// Whether the last column holds each row's position in the partition; otherwise rows are consecutive from `first`.
    placed: bool,
}

/// A part's table, and every row's position in its partition (empty where matches are not tracked).
pub(super) struct Loaded {
    pub table: HashTable,
    pub places: Vec<u32>,
}

/// The partition of every row of `keys`.
pub(super) fn partitions(keys: &[Arc<Vector>], rows: usize, mask: u64, depth: u32) -> Vec<u8> {
    let mut hashes = vec![0; rows];
    hash_rows(keys, 0, &mut hashes);
    hashes.into_iter().map(|hash| partition::of_hash(hash & mask, depth)).collect()
}

impl SpilledBuild {
    /// Makes a table of the parts that fit. Returns the remaining parts and the table.
    pub fn new(spec: Arc<Spec>, mut parts: Vec<Part>, query: &QueryContext) -> Result<(Self, HashTable)> {
        let mut budget = query.room().saturating_sub(query.settings.memory_limit / 4);
        let mut resident = vec![false; PARTITIONS];
        let mut here = vec![];
        for (partition, part) in parts[..PARTITIONS].iter_mut().enumerate() {
            if part.rows() >= NULL_ROW as usize {
                return Err(ExecError::Unsupported(format!("{} rows of a hash build in one partition", part.rows())));
            }
            let bytes = table_bytes(part);
            resident[partition] = bytes <= budget;
            if bytes <= budget {
                budget -= bytes;
                here.push(std::mem::take(part));
            }
        }
        let table = load(&spec, &here, here.iter().map(Part::rows).sum(), false, query)?.table;
        let words = |part: &Part| (0..part.rows().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let matched = if spec.track_matches { parts.iter().map(words).collect() } else { vec![] };
        // All other parts have their rows in the table, if any.
        let left = parts[..PARTITIONS].iter().filter(|part| !part.blocks.is_empty());
        spec.stats.pieces.fetch_add(left.count() as u64, Relaxed);
        Ok((Self { spec, parts, resident, matched }, table))
    }

    /// All parts that are not in the table; includes NULL keys if `nulls`.
    pub fn parts(&self, nulls: bool) -> Vec<BuildPart> {
        let parts = self.parts.iter().enumerate().filter(|(partition, _)| nulls || *partition < PARTITIONS);
        parts.map(|(partition, part)| BuildPart { part: part.clone(), partition, first: 0, placed: false }).collect()
    }

    /// Whether rows of `partition` are in the table.
    pub fn is_resident(&self, partition: u8) -> bool {
        self.resident[partition as usize]
    }

    /// The partition of every row of `keys` in the division at `depth`.
    pub fn partitions(&self, keys: &[Arc<Vector>], rows: usize, depth: u32) -> Vec<u8> {
        partitions(keys, rows, self.spec.tuning.hash_mask, depth)
    }

    /// Loads a part's table.
    pub fn load(&self, part: &BuildPart, query: &QueryContext, pool: &rayon::ThreadPool) -> Result<Loaded> {
        let BuildPart { part, partition, first, placed } = part;
        let keyed = if *partition == NULL_KEYS { 0 } else { part.rows() };
        let mut loaded = pool.install(|| load(&self.spec, std::slice::from_ref(part), keyed, *placed, query))?;
        if !placed && self.spec.track_matches {
            loaded.places.iter_mut().for_each(|place| *place += *first as u32);
        }
        Ok(loaded)
    }

    /// Divides a part by the hash bits of `depth`.
    pub fn divide(
        &self,
        part: &BuildPart,
        depth: u32,
        query: &QueryContext,
        pool: &rayon::ThreadPool,
    ) -> Result<Vec<BuildPart>> {
        let to = Partitioned::create(query, PARTITIONS)?;
        let keys = self.spec.equalities();
        let firsts = part.firsts();
        let place = self.spec.track_matches && !part.placed;
        let divide = |(index, first): (usize, usize)| -> Result<()> {
            query.cancel.check()?;
            let mut columns = part.part.read(index)?;
            let rows = part.part.blocks[index].rows;
            if place {
                columns.push(Vector::new(Data::Code((first as u32..(first + rows) as u32).collect())));
            }
            let key_columns: Vec<Arc<Vector>> = columns[..keys].iter().cloned().map(Arc::new).collect();
            let ids = self.partitions(&key_columns, rows, depth);
            self.spec.stats.wrote(to.write(&columns.iter().collect::<Vec<_>>(), &ids)?);
            Ok(())
        };
        pool.install(|| firsts.into_par_iter().enumerate().try_for_each(divide))?;
        self.spec.stats.again.fetch_add(1, Relaxed);
        let child =
            |child| BuildPart { part: child, partition: part.partition, first: 0, placed: self.spec.track_matches };
        Ok(to.parts().into_iter().map(child).collect())
    }

    /// Records the matches found in a part's table.
    pub fn record(&self, partition: usize, table: &HashTable, places: &[u32]) {
        for (flag, &place) in table.matched.iter().zip(places) {
            if flag.load(Relaxed) != 0 {
                self.matched[partition][place as usize / 64].fetch_or(1 << (place % 64), Relaxed);
            }
        }
    }

    /// The blocks of all parts, for [`SpilledBuild::rows`]: partition, block, and position of the block's first row.
    pub fn blocks(&self) -> Vec<(usize, usize, usize)> {
        let blocks = |part: &BuildPart| {
            let firsts = part.firsts().into_iter().enumerate();
            let partition = part.partition;
            firsts.map(move |(block, first)| (partition, block, first)).collect::<Vec<_>>()
        };
        self.parts(true).iter().flat_map(blocks).collect()
    }

    /// The rows `which` of a block, in the form of [`HashTable::build_rows`].
    pub fn rows(
        &self,
        which: BuildRows,
        nulls: &[Phys],
        (partition, block, first): (usize, usize, usize),
        chunk_rows: usize,
    ) -> Result<Vec<Chunk>> {
        let columns = self.parts[partition].read(block)?;
        let rows = self.parts[partition].blocks[block].rows as u32;
        let bits = &self.matched[partition];
        let is_matched = |row: u32| {
            let place = first + row as usize;
            bits[place / 64].load(Relaxed) >> (place % 64) & 1 != 0
        };
        let wanted = |&row: &u32| match which {
            BuildRows::Matched => is_matched(row),
            BuildRows::Unmatched => !is_matched(row),
            BuildRows::Marked => true,
        };
        let payload: Vec<Arc<Vector>> = columns.into_iter().skip(self.spec.key_types.len()).map(Arc::new).collect();
        let wanted: Vec<u32> = (0..rows).filter(wanted).collect();
        let chunk = |rows: &[u32]| {
            let column = |vector: &Arc<Vector>| Column { values: Values::Vector(vector.clone()), group: 0 };
            let mut columns: Vec<Column> = payload.iter().map(column).collect();
            let mut dense = |vector| columns.push(Column { values: Values::Vector(Arc::new(vector)), group: 1 });
            nulls.iter().for_each(|&phys| dense(Vector::nulls(phys, rows.len())));
            if which == BuildRows::Marked {
                dense(Vector::new(Data::Bool(rows.iter().map(|&row| is_matched(row)).collect())));
            }
            let groups = vec![Selection::Rows(Arc::new(rows.to_vec())), Selection::Range { start: 0 }];
            Chunk::from_parts(rows.len(), columns, groups)
        };
        Ok(wanted.chunks(chunk_rows).map(chunk).collect())
    }
}

impl BuildPart {
    /// Position in the partition of the first row of every block.
    fn firsts(&self) -> Vec<usize> {
        let mut next = self.first;
        let first = |rows: usize| {
            next += rows;
            next - rows
        };
        self.part.blocks.iter().map(|block| block.rows).map(first).collect()
    }

    /// Estimated bytes of the part's table.
    pub fn table_bytes(&self) -> usize {
        table_bytes(&self.part)
    }

    /// Splits the part into runs of blocks whose tables need about `budget` bytes each.
    pub fn split(&self, budget: usize) -> Vec<BuildPart> {
        let mut parts: Vec<BuildPart> = vec![];
        for (block, first) in self.part.blocks.iter().zip(self.firsts()) {
            let last = parts
                .last_mut()
                .filter(|last| last.table_bytes() + last.table_bytes() / last.part.blocks.len() <= budget);
            match last {
                Some(last) => last.part.blocks.push(*block),
                None => {
                    let part = Part { file: self.part.file.clone(), blocks: vec![*block] };
                    parts.push(Self { part, first, ..*self });
                }
            }
        }
        parts
    }
}

/// Estimated bytes of a part's table during its build.
fn table_bytes(part: &Part) -> usize {
    2 * part.bytes() as usize + Slots::bytes(part.rows())
}
