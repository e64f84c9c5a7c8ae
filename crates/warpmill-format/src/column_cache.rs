//! Cache of external columns between queries, in the encodings of tables: from DuckDB's tables and Parquet files.
//!
//! A key names a table and a version of its contents, `name/version`; callers guarantee that their data are that version. A newer version of a table
//! replaces older ones. Columns are cached separately: columns of one version have the same rows in the same order, whichever queries have read them.
//! The least recently used columns are evicted beyond a limit, which applies to the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::Serialize;

use crate::table::EncodedColumn;
use crate::{FormatError, Result, Table};

/// Default limit in bytes: a quarter of the memory that the process may use.
fn default_limit() -> u64 {
    physical_memory().unwrap_or(32 << 30) / 4
}

/// Bytes of memory: the machine's, or the container's limit if lower.
pub fn physical_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? << 10;
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.iter().filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    Some(limits.fold(machine, u64::min))
}

/// Number of table objects cached per table, for sets of columns: plans refer to them.
const SETS: usize = 64;

#[derive(Default)]
struct Cache {
    limit: u64,
    tables: HashMap<String, Entry>,
    clock: u64,
}

/// The cached columns of one version of a table.
#[derive(Default)]
struct Entry {
    version: String,
    /// Columns by position in the table.
    columns: BTreeMap<u32, Kept>,
    /// Columns put together, the newest last.
    sets: Vec<(Vec<u32>, Arc<Table>)>,
}

struct Kept {
    column: Arc<EncodedColumn>,
    bytes: u64,
    used: u64,
}

static CACHE: LazyLock<Mutex<Cache>> =
    LazyLock::new(|| Mutex::new(Cache { limit: default_limit(), ..Cache::default() }));

/// Callbacks of plan caches: each drops the tables of cached columns that its plans refer to.
static HOLDERS: Mutex<Vec<fn()>> = Mutex::new(vec![]);

/// Calls `forget` from now on whenever something is forgotten.
pub fn on_forget(forget: fn()) {
    let mut holders = HOLDERS.lock();
    if !holders.iter().any(|&known| std::ptr::fn_addr_eq(known, forget)) {
        holders.push(forget);
    }
}

fn tell() {
    let holders = HOLDERS.lock().clone();
    holders.into_iter().for_each(|forget| forget());
}

/// Splits a key into the table and the version of its contents.
fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((key, ""))
}

/// For each of the columns at `positions`, the cached column under `key`, if any.
pub fn find(key: &str, positions: &[u32]) -> Vec<Option<Arc<EncodedColumn>>> {
    let (name, version) = parts(key);
    let mut cache = CACHE.lock();
    let mut clock = cache.clock;
    cache.clock += positions.len() as u64;
    let mut entry = cache.tables.get_mut(name).filter(|entry| entry.version == version);
    let found = positions.iter().map(|position| {
        // Each has a separate time: columns are evicted one by one.
        clock += 1;
        let kept = entry.as_mut()?.columns.get_mut(position)?;
        kept.used = clock;
        Some(Arc::clone(&kept.column))
    });
    found.collect()
}

/// The table under `key` of the columns at `positions`, which are cached.
///
/// # Errors
/// The columns have different numbers of rows, so that something cached is wrong: the table is evicted.
pub fn table(key: &str, positions: &[u32], columns: &[Arc<EncodedColumn>]) -> Result<Arc<Table>> {
    let (name, version) = parts(key);
    let mut cache = CACHE.lock();
    let mut changed = false;
    if cache.tables.get(name).is_none_or(|entry| entry.version != version) {
        let entry = Entry { version: version.to_string(), ..Entry::default() };
        changed |= cache.tables.insert(name.to_string(), entry).is_some();
    }
    let (mut used, limit) = (cache.clock, cache.limit);
    cache.clock += positions.len() as u64;
    let entry = cache.tables.get_mut(name).expect("it is there, or has just been made");
    let result = entry.put_together(positions, columns);
    match &result {
        Ok(_) => {
            for (&position, column) in positions.iter().zip(columns) {
                let bytes = column.stored_bytes();
                used += 1;
                if bytes <= limit && !entry.columns.contains_key(&position) {
                    entry.columns.insert(position, Kept { column: Arc::clone(column), bytes, used });
                }
            }
            entry.forget_sets_without_columns();
            changed |= cache.shrink();
        }
        Err(_) => changed |= cache.tables.remove(name).is_some(),
    }
    drop(cache);
    if changed {
        tell();
    }
    result
}

impl Entry {
    /// A table of `columns`: the same object for the same columns.
    fn put_together(&mut self, positions: &[u32], columns: &[Arc<EncodedColumn>]) -> Result<Arc<Table>> {
        let is_kept = |(position, column): (&u32, &Arc<EncodedColumn>)| {
            self.columns.get(position).is_some_and(|kept| Arc::ptr_eq(&kept.column, column))
        };
        let kept = positions.iter().zip(columns).all(is_kept);
        let known = self.sets.iter().find(|(set, _)| set == positions).filter(|_| kept);
        if let Some((_, table)) = known {
            return Ok(Arc::clone(table));
        }
        let others = self.columns.values().find(|kept| kept.column.rows() != columns.first().map_or(0, |c| c.rows()));
        if others.is_some() {
            return Err(FormatError::schema("", "columns of one version of a table have different numbers of rows"));
        }
        let table = Table::of_columns(columns)?;
        // If the cache has other copies of these columns, the table is made for this caller only.
        let is_other = |(position, column): (&u32, &Arc<EncodedColumn>)| {
            self.columns.get(position).is_some_and(|kept| !Arc::ptr_eq(&kept.column, column))
        };
        if !positions.iter().zip(columns).any(is_other) {
            self.sets.retain(|(set, _)| set != positions);
            self.sets.push((positions.to_vec(), Arc::clone(&table)));
        }
        Ok(table)
    }

    fn forget_sets_without_columns(&mut self) {
        let columns = &self.columns;
        self.sets.retain(|(set, _)| set.iter().all(|position| columns.contains_key(position)));
        self.sets.drain(..self.sets.len().saturating_sub(SETS));
    }
}

impl Cache {
    fn bytes(&self) -> u64 {
        self.tables.values().flat_map(|entry| entry.columns.values()).map(|kept| kept.bytes).sum()
    }

    /// Evicts the least recently used columns until the rest fits.
    fn shrink(&mut self) -> bool {
        let mut changed = false;
        while self.bytes() > self.limit {
            let oldest = self.tables.values().flat_map(|entry| entry.columns.values()).map(|kept| kept.used).min();
            for entry in self.tables.values_mut() {
                entry.columns.retain(|_, kept| Some(kept.used) != oldest);
                entry.forget_sets_without_columns();
            }
            self.tables.retain(|_, entry| !entry.columns.is_empty());
            changed = true;
        }
        changed
    }
}

/// Forgets everything.
pub fn clear() {
    CACHE.lock().tables.clear();
    tell();
}

/// The limit in bytes.
pub fn limit() -> u64 {
    CACHE.lock().limit
}

/// Sets [`limit`].
pub fn set_limit(bytes: u64) {
    let mut cache = CACHE.lock();
    cache.limit = bytes;
    let changed = cache.shrink();
    drop(cache);
    if changed {
        tell();
    }
}

#[derive(Serialize)]
struct Description<'a> {
    limit: u64,
    bytes: u64,
    tables: Vec<TableDescription<'a>>,
}

#[derive(Serialize)]
struct TableDescription<'a> {
    table: &'a str,
    version: &'a str,
    columns: Vec<u32>,
    rows: u64,
    bytes: u64,
}

/// The contents of the cache, as JSON.
pub fn describe() -> String {
    let cache = CACHE.lock();
    let tables = cache.tables.iter().map(|(name, entry)| TableDescription {
        table: name,
        version: &entry.version,
        // The placeholder column for rows has no position.
        columns: entry.columns.keys().copied().filter(|&position| position != u32::MAX).collect(),
        rows: entry.columns.values().next().map_or(0, |kept| kept.column.rows()),
        bytes: entry.columns.values().map(|kept| kept.bytes).sum(),
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by_key(|table| table.table);
    let bytes = cache.bytes();
    serde_json::to_string(&Description { limit: cache.limit, bytes, tables }).unwrap_or_default()
}
