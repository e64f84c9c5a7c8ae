//! The sink that builds hash tables.

use std::any::Any;
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rayon::prelude::*;
use warpmill_ir::Phys;

use super::asof::Times;
use super::direct::Direct;
use super::keys::{PackedKeys, equal_keys, word_range};
use super::slots::{Built, Slots};
use super::spill::{Loaded, NULL_KEYS, SpilledBuild, partitions};
use super::table::{HashTable, Index, hash_tags, null_keys};
use super::{Columns, hash};
use crate::chunk::Chunk;
use crate::context::{ExecError, QueryContext, Reservation, Result, Worker};
use crate::expr::PreparedExpr;
use crate::operator::{LocalSink, Sink, SinkOutput};
use crate::spill::SpillStats;
use crate::spill::partition::{PARTITIONS, Part, Partitioned};
use crate::vector::{Data, NULL_ROW, Vector};

const NAME: &str = "hash build";

/// Collects a build side and makes a [`HashTable`] from it.
pub struct HashBuildSink {
    spec: Arc<Spec>,
}

pub(super) struct Spec {
    keys: Vec<PreparedExpr>,
    pub key_types: Vec<Phys>,
    /// Whether the last key only orders the rows whose other keys are equal.
    ordered: bool,
    payload: Vec<usize>,
    payload_types: Vec<Phys>,
    null_equals_null: bool,
    pub track_matches: bool,
    pub tuning: Tuning,
    /// Spilled rows.
    file: Mutex<Option<Arc<Partitioned>>>,
    pub stats: SpillStats,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HashBuild of {:?} by {:?}", self.payload_types, self.key_types)
    }
}

impl Spec {
    /// The number of keys compared for equality.
    pub fn equalities(&self) -> usize {
        self.key_types.len() - usize::from(self.ordered)
    }
}

/// Settings for tests (see [`crate::context::Settings::equal_hashes`]).
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    pub hash_mask: u64,
    direct: bool,
}

/// Dense rows of one worker.
struct Rows {
    keys: Vec<Vector>,
    payload: Vec<Vector>,
    len: usize,
}

struct LocalBuild {
    spec: Arc<Spec>,
    query: Arc<QueryContext>,
    worker: Worker,
    keyed: Rows,
    /// Rows with a NULL key, where NULLs are not equal to each other.
    unkeyed: Rows,
    reserved: usize,
}

impl HashBuildSink {
    /// A build on `keys` (of types `key_types`) that keeps columns `payload` of its input (of types `payload_types`). The other parameters are those
    /// of `warpmill_ir::program::Sink::HashBuild`.
    pub fn new(
        keys: Vec<PreparedExpr>,
        key_types: Vec<Phys>,
        payload: Vec<usize>,
        payload_types: Vec<Phys>,
        null_equals_null: bool,
        track_matches: bool,
    ) -> Self {
        let tuning = Tuning { hash_mask: u64::MAX, direct: true };
        let (file, stats) = (Mutex::default(), SpillStats::default());
        let spec = Spec {
            keys,
            key_types,
            ordered: false,
            payload,
            payload_types,
            null_equals_null,
            track_matches,
            tuning,
            file,
            stats,
        };
        Self { spec: Arc::new(spec) }
    }

    /// The same build with the last key as the order of rows whose other keys are equal, for ASOF joins. Rows with a NULL there match nothing.
    pub(crate) fn with_order(self) -> Self {
        let Ok(mut spec) = Arc::try_unwrap(self.spec) else { panic!("already shared") };
        spec.ordered = true;
        Self { spec: Arc::new(spec) }
    }

    /// The same build with all hashes equal and no direct addressing: the worst case, for tests.
    pub(crate) fn with_equal_hashes(self) -> Self {
        let Ok(mut spec) = Arc::try_unwrap(self.spec) else { panic!("already shared") };
        spec.tuning = Tuning { hash_mask: 0, direct: false };
        Self { spec: Arc::new(spec) }
    }

    /// The same build without direct addressing, for tests.
    #[cfg(test)]
    pub(super) fn without_direct(self) -> Self {
        let Ok(mut spec) = Arc::try_unwrap(self.spec) else { panic!("already shared") };
        spec.tuning.direct = false;
        Self { spec: Arc::new(spec) }
    }
}

impl Sink for HashBuildSink {
    fn name(&self) -> String {
        match self.spec.stats.any() {
            true => format!("HashBuild (hybrid, {PARTITIONS} partitions)"),
            false => "HashBuild".into(),
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.spec.stats.counters("spill_partitions", "spill_divisions")
    }

    fn local(&self, query: &Arc<QueryContext>) -> Box<dyn LocalSink> {
        Box::new(LocalBuild {
            spec: self.spec.clone(),
            query: query.clone(),
            worker: Worker::new(&query.memory),
            keyed: Rows::new(&self.spec),
            unkeyed: Rows::new(&self.spec),
            reserved: 0,
        })
    }

    fn finish(
        &self,
        locals: Vec<Box<dyn LocalSink>>,
        query: &Arc<QueryContext>,
        pool: &rayon::ThreadPool,
    ) -> Result<SinkOutput> {
        let own = |local: Box<dyn LocalSink>| local.into_any().downcast().expect("a local state of this sink");
        let mut locals: Vec<Box<LocalBuild>> = locals.into_iter().map(own).collect();
        let keyed_rows = locals.iter().map(|local| local.keyed.len).sum::<usize>();
        let rows = keyed_rows + locals.iter().map(|local| local.unkeyed.len).sum::<usize>();
        let reserved: usize = locals.iter().map(|local| local.reserved).sum();
        if self.spec.file.lock().is_some() || too_large(reserved, keyed_rows, query) {
            locals.iter_mut().try_for_each(|local| local.put_aside())?;
            drop(locals);
            let parts = self.spec.file.lock().take().map_or_else(Vec::new, |file| file.parts());
            let (spilled, mut table) = pool.install(|| SpilledBuild::new(self.spec.clone(), parts, query))?;
            table.spilled = Some(Arc::new(spilled));
            return Ok(SinkOutput::Hash(Arc::new(table)));
        }
        if rows >= NULL_ROW as usize {
            return Err(ExecError::Unsupported(format!("a hash build of {rows} rows")));
        }
        let (mut keyed, mut unkeyed) = (vec![], vec![]);
        for local in locals {
            let LocalBuild { keyed: with_key, unkeyed: without_key, .. } = *local;
            keyed.push(with_key);
            unkeyed.push(without_key);
        }
        let table = pool.install(|| {
            // Columns are concatenated while the workers' copies still exist.
            query.reserve_or_exceed(NAME, reserved)?;
            let (keys, payload) = concat(&self.spec, keyed, unkeyed);
            query.release(reserved);
            let mut held = query.hold(0);
            held.adopt(reserved);
            build(&self.spec, (keys, payload), rows, keyed_rows, held, query)
        })?;
        Ok(SinkOutput::Hash(Arc::new(table)))
    }
}

/// Whether a table of `rows` rows, which take `bytes` bytes, does not fit.
fn too_large(bytes: usize, rows: usize, query: &QueryContext) -> bool {
    let more = bytes + Slots::bytes(rows) + query.settings.memory_limit / 8;
    query.spills() && more > query.room() && bytes + Slots::bytes(rows) > query.working_memory()
}

/// The table of the rows of `parts`, of which the first `keyed` have keys that can match. Where matches are tracked, rows' positions are their last
/// column if `placed`, otherwise counted from 0.
pub(super) fn load(spec: &Spec, parts: &[Part], keyed: usize, placed: bool, query: &QueryContext) -> Result<Loaded> {
    let rows = parts.iter().map(Part::rows).sum::<usize>();
    let mut types: Vec<Phys> = spec.key_types.iter().chain(&spec.payload_types).copied().collect();
    if placed {
        types.push(Phys::Code);
    }
    let mut held = query.hold(parts.iter().map(Part::bytes).sum::<u64>() as usize);
    let mut columns: Vec<Vector> = types.iter().map(|&phys| Vector::new(Data::with_capacity(phys, rows))).collect();
    for part in parts {
        for block in 0..part.blocks.len() {
            query.cancel.check()?;
            columns.iter_mut().zip(part.read(block)?).for_each(|(own, new)| own.extend(&new));
        }
    }
    held.resize(columns.iter().map(Vector::bytes).sum());
    let places = spec.track_matches && !placed;
    if places {
        columns.push(Vector::new(Data::Code((0..rows as u32).collect())));
    }
    let mut keys: Columns = columns.into_iter().map(Arc::new).collect();
    let payload = keys.split_off(spec.key_types.len());
    let mut table = build(spec, (keys, payload), rows, keyed, held, query)?;
    let places = if places || placed { table.payload.pop() } else { None };
    let places = match places.map(|column| column.data.clone()) {
        Some(Data::Code(places)) => places,
        _ => vec![],
    };
    Ok(Loaded { table, places })
}

impl LocalSink for LocalBuild {
    fn consume(&mut self, chunk: Chunk) -> Result<()> {
        let keys = self.spec.keys.iter().map(|key| key.eval(&chunk, &mut self.worker)).collect::<Result<Columns>>()?;
        let payload: Columns = self.spec.payload.iter().map(|&column| chunk.dense(column).clone()).collect();
        let bytes = keys.iter().chain(&payload).map(|v| v.bytes()).sum::<usize>();
        let full = self.reserve(bytes)?;
        let nulls = if self.spec.null_equals_null { None } else { null_keys(&keys) };
        match nulls {
            None => self.keyed.extend(&keys, &payload, chunk.len()),
            Some(nulls) => {
                let (without_key, with_key): (Vec<u32>, Vec<u32>) =
                    (0..chunk.len() as u32).partition(|&row| nulls.get(row as usize));
                let gather =
                    |columns: &Columns, rows: &[u32]| columns.iter().map(|v| Arc::new(v.gather(rows))).collect();
                for (to, rows) in [(&mut self.keyed, with_key), (&mut self.unkeyed, without_key)] {
                    let (keys, payload): (Columns, Columns) = (gather(&keys, &rows), gather(&payload, &rows));
                    to.extend(&keys, &payload, rows.len());
                }
            }
        }
        if full { self.put_aside() } else { Ok(()) }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

impl LocalBuild {
    /// Reserves `bytes` more. Returns whether rows have to be spilled.
    fn reserve(&mut self, bytes: usize) -> Result<bool> {
        let query = &self.query;
        let mut full = false;
        if !query.spills() {
            query.reserve(NAME, bytes)?;
        } else if !query.try_reserve(bytes, query.settings.memory_limit / 5) {
            // Some memory is left for later operators of the query.
            query.account(bytes);
            full = self.reserved + bytes > query.working_memory();
        }
        self.reserved += bytes;
        Ok(full)
    }

    /// Spills all rows, partitioned by key hash.
    fn put_aside(&mut self) -> Result<()> {
        let (spec, query) = (&self.spec, &self.query);
        let file = {
            let mut file = spec.file.lock();
            match &*file {
                Some(file) => file.clone(),
                None => file.insert(Arc::new(Partitioned::create(query, PARTITIONS + 1)?)).clone(),
            }
        };
        let keyed = std::mem::replace(&mut self.keyed, Rows::new(spec));
        let keys: Columns = keyed.keys.into_iter().map(Arc::new).collect();
        let ids = partitions(&keys[..spec.equalities()], keyed.len, spec.tuning.hash_mask, 0);
        let columns: Vec<&Vector> = keys.iter().map(|key| &**key).chain(&keyed.payload).collect();
        spec.stats.wrote(file.write(&columns, &ids)?);
        let unkeyed = std::mem::replace(&mut self.unkeyed, Rows::new(spec));
        let columns: Vec<&Vector> = unkeyed.keys.iter().chain(&unkeyed.payload).collect();
        spec.stats.wrote(file.write(&columns, &vec![NULL_KEYS as u8; unkeyed.len])?);
        query.release(std::mem::take(&mut self.reserved));
        Ok(())
    }
}

impl Rows {
    fn new(spec: &Spec) -> Self {
        let empty = |types: &[Phys]| types.iter().map(|&phys| Vector::new(Data::with_capacity(phys, 0))).collect();
        Self { keys: empty(&spec.key_types), payload: empty(&spec.payload_types), len: 0 }
    }

    fn extend(&mut self, keys: &[Arc<Vector>], payload: &[Arc<Vector>], len: usize) {
        let own = self.keys.iter_mut().chain(&mut self.payload);
        own.zip(keys.iter().chain(payload)).for_each(|(own, new)| own.extend(new));
        self.len += len;
    }
}

/// All workers' keys and payload as one vector per column: keyed rows first.
fn concat(spec: &Spec, keyed: Vec<Rows>, unkeyed: Vec<Rows>) -> (Columns, Columns) {
    let columns = spec.key_types.len() + spec.payload_types.len();
    let mut parts: Vec<Vec<Vector>> = vec![vec![]; columns];
    for rows in keyed.into_iter().chain(unkeyed).filter(|rows| rows.len > 0) {
        parts.iter_mut().zip(rows.keys.into_iter().chain(rows.payload)).for_each(|(parts, own)| parts.push(own));
    }
    let types = spec.key_types.iter().chain(&spec.payload_types);
    let mut keys: Columns = parts
        .into_par_iter()
        .zip(types.collect::<Vec<_>>())
        .map(|(parts, &phys)| {
            let len = parts.iter().map(Vector::len).sum();
            let mut parts = parts.into_iter();
            let Some(mut all) = parts.next() else { return Arc::new(Vector::new(Data::with_capacity(phys, 0))) };
            if all.len() < len {
                let mut whole = Vector::new(Data::with_capacity(phys, len));
                whole.extend(&all);
                all = whole;
            }
            parts.for_each(|part| all.extend(&part));
            Arc::new(all)
        })
        .collect();
    let payload = keys.split_off(spec.key_types.len());
    (keys, payload)
}

/// The table of rows with these keys and payload, whose memory `held` has reserved.
fn build(
    spec: &Spec,
    (mut keys, mut payload): (Columns, Columns),
    rows: usize,
    keyed: usize,
    mut held: Reservation,
    query: &QueryContext,
) -> Result<HashTable> {
    let times = if spec.ordered { keys.pop() } else { None };
    let ranges: Vec<_> = keys.iter().map(|key| word_range(key, keyed)).collect();
    let (index, unique, mut order) = index(spec, &keys, &ranges, keyed, &mut held, query)?;
    let times = match times {
        Some(times) => {
            take(keyed * size_of::<u64>(), &mut held, query)?;
            Some(Times::sort(&times, keyed, &index.runs(keyed), &mut order))
        }
        None => None,
    };
    if let Some(order) = order {
        let bytes = keys.iter().chain(&payload).map(|v| v.bytes()).sum();
        query.reserve_or_exceed(NAME, bytes)?;
        let order: Vec<u32> = order.into_iter().chain(keyed as u32..rows as u32).collect();
        keys.par_iter_mut().chain(&mut payload).for_each(|column| *column = Arc::new(gather(column, &order)));
        query.release(bytes);
    }
    let flags = if spec.track_matches { rows } else { 0 };
    take(flags, &mut held, query)?;
    Ok(HashTable {
        index,
        unique,
        rows,
        keyed,
        filters: keys.iter().map(|_| OnceLock::new()).collect(),
        keys,
        payload,
        null_equals_null: spec.null_equals_null,
        ranges,
        matched: (0..flags).map(|_| AtomicU8::new(0)).collect(),
        hash_mask: spec.tuning.hash_mask,
        spilled: None,
        times,
        _held: held,
    })
}

/// Reserves `bytes` more for a table.
fn take(bytes: usize, held: &mut Reservation, query: &QueryContext) -> Result<()> {
    query.reserve_or_exceed(NAME, bytes)?;
    held.adopt(bytes);
    Ok(())
}

/// [`Vector::gather`], in parallel where it pays.
fn gather(column: &Vector, rows: &[u32]) -> Vector {
    const BLOCK: usize = 1 << 18;
    if rows.len() <= BLOCK || rayon::current_num_threads() == 1 {
        return column.gather(rows);
    }
    let parts: Vec<Vector> = rows.par_chunks(BLOCK).map(|rows| column.gather(rows)).collect();
    let mut all = Vector::new(Data::with_capacity(column.data.phys(), rows.len()));
    parts.iter().for_each(|part| all.extend(part));
    all
}

/// The index of the first `keyed` rows, whether their keys are distinct, and the row order that it assumes.
fn index(
    spec: &Spec,
    keys: &[Arc<Vector>],
    ranges: &[Option<(i128, i128)>],
    keyed: usize,
    held: &mut Reservation,
    query: &QueryContext,
) -> Result<(Index, bool, Option<Vec<u32>>)> {
    const BLOCK: usize = 1 << 16;
    if keys.is_empty() {
        return Ok((Index::All, false, None));
    }
    let mut tags = vec![0u64; keyed];
    let mask = spec.tuning.hash_mask;
    let Some(packed) = PackedKeys::new(ranges, spec.null_equals_null) else {
        take(Slots::bytes(keyed), held, query)?;
        tags.par_chunks_mut(BLOCK).enumerate().for_each(|(block, tags)| {
            hash_tags(keys, block * BLOCK, tags, spec.null_equals_null, mask);
        });
        let equal = |a: usize, b: usize| equal_keys(keys, a, keys, b);
        let Built { slots, unique, order } = Slots::build(&tags, |tag| tag, equal);
        return Ok((Index::Hashed(slots), unique, order));
    };
    tags.par_chunks_mut(BLOCK).enumerate().for_each(|(block, tags)| packed.encode(keys, block * BLOCK, tags));
    let fits = !query.spills() || Direct::bytes(packed.range) <= query.room();
    if spec.tuning.direct && fits && Direct::pays(packed.range, keyed) {
        take(Direct::bytes(packed.range), held, query)?;
        let (direct, order) = Direct::build(&tags, packed.range);
        return Ok((Index::Direct(packed, direct), order.is_none(), order));
    }
    take(Slots::bytes(keyed), held, query)?;
    let Built { slots, unique, order } = Slots::build(&tags, |tag| hash::mix(tag) & mask, |_, _| true);
    Ok((Index::Packed(packed, slots), unique, order))
}
