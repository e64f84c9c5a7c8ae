//! Columns of data from outside that are kept between queries, encoded as those of tables: of DuckDB's tables, of Parquet files.
//!
//! A key names a table and a version of its contents, `name/version`; whoever gives one has proven that what it reads is that version. A
//! newer version of a table takes the place of the older ones. Columns are kept one by one: those of one version have the same rows in the
//! same order, whichever queries have read them. What has not been used for longest is forgotten beyond a limit, which holds for the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::Serialize;

use crate::table::EncodedColumn;
use crate::{FormatError, Result, Table};

/// Bytes that are kept where nobody says how many: a quarter of the memory that the process may have.
fn default_limit() -> u64 {
    physical_memory().unwrap_or(32 << 30) / 4
}

/// Bytes of memory: the machine's, or the container's limit where that is lower.
pub fn physical_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let machine = line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? << 10;
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.iter().filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    Some(limits.fold(machine, u64::min))
}

/// Sets of columns of one table that are kept put together: plans hold on to them.
const SETS: usize = 64;

#[derive(Default)]
struct Cache {
    limit: u64,
    tables: HashMap<String, Entry>,
    clock: u64,
}

/// The facts about one version of a table.
#[derive(Default)]
struct Entry {
    version: String,
    /// By position in the table.
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

/// Callbacks of plan caches: each drops the tables of kept columns that its plans hold.
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

/// A key: the table, and the version of its contents.
fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((key, ""))
}

/// Of each of the columns at `positions` what is known under `key`.
pub fn find(key: &str, positions: &[u32]) -> Vec<Option<Arc<EncodedColumn>>> {
    let (name, version) = parts(key);
    let mut cache = CACHE.lock();
    let mut clock = cache.clock;
    cache.clock += positions.len() as u64;
    let mut entry = cache.tables.get_mut(name).filter(|entry| entry.version == version);
    let found = positions.iter().map(|position| {
        // Each has a time of its own: columns are forgotten one by one.
        clock += 1;
        let kept = entry.as_mut()?.columns.get_mut(position)?;
        kept.used = clock;
        Some(Arc::clone(&kept.column))
    });
    found.collect()
}

/// The table under `key` of the columns at `positions`, which are kept.
///
/// # Errors
/// They have not the same rows, so that something that was kept cannot be right: the table is forgotten.
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
    /// A table of `columns`: the same one again for the same columns.
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
        // Of columns of which others are kept, a table is only for whoever has brought them.
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

    /// Forgets what has not been used for longest until the rest fits.
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

/// Bytes that may be kept.
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
        // The one that stands for rows has no position.
        columns: entry.columns.keys().copied().filter(|&position| position != u32::MAX).collect(),
        rows: entry.columns.values().next().map_or(0, |kept| kept.column.rows()),
        bytes: entry.columns.values().map(|kept| kept.bytes).sum(),
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by_key(|table| table.table);
    let bytes = cache.bytes();
    serde_json::to_string(&Description { limit: cache.limit, bytes, tables }).unwrap_or_default()
}
