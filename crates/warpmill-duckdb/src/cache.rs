//! Rows of DuckDB's tables that are kept between queries.
//!
//! The key names a table and a version of its contents; the shim gives one only where it has proven that the caller's
//! snapshot is that version. A newer version of a table takes the place of the older ones.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::Serialize;
use warpmill_format::Table;

use crate::plan::forget_tables;

/// Bytes that are kept where nobody says how many.
const DEFAULT_LIMIT: u64 = 8 << 30;

#[derive(Default)]
struct Cache {
    limit: u64,
    /// For each table the rows that are known: of one version, with different columns.
    tables: HashMap<String, Vec<Entry>>,
    clock: u64,
}

struct Entry {
    version: String,
    /// Positions of the columns that are there.
    columns: Vec<u32>,
    table: Arc<Table>,
    bytes: u64,
    used: u64,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(|| Mutex::new(Cache { limit: DEFAULT_LIMIT, ..Cache::default() }));

/// A key: the table, and the version of its contents.
fn parts(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((key, ""))
}

/// The rows under `key`, if they have all of `columns`.
pub fn find(key: &str, columns: &[u32]) -> Option<Arc<Table>> {
    let (name, version) = parts(key);
    let mut cache = CACHE.lock();
    cache.clock += 1;
    let clock = cache.clock;
    let fits = |entry: &&mut Entry| entry.version == version && entry.has(columns);
    let entry = cache.tables.get_mut(name)?.iter_mut().find(fits)?;
    entry.used = clock;
    Some(Arc::clone(&entry.table))
}

/// Keeps the rows of a table, unless they are there already. Those of other versions, and those with some of these columns
/// only, are forgotten.
pub fn keep(key: &str, columns: &[u32], table: &Arc<Table>) {
    let bytes = table.snapshot().map_or(0, |snapshot| snapshot.stored_bytes());
    let (name, version) = parts(key);
    let mut cache = CACHE.lock();
    cache.clock += 1;
    let (used, limit) = (cache.clock, cache.limit);
    let entries = cache.tables.entry(name.to_string()).or_default();
    if bytes > limit || entries.iter().any(|entry| entry.version == version && entry.has(columns)) {
        return;
    }
    let before = entries.len();
    entries.retain(|entry| entry.version == version && !entry.columns.iter().all(|column| columns.contains(column)));
    let mut changed = entries.len() < before;
    let (version, columns) = (version.to_string(), columns.to_vec());
    entries.push(Entry { version, columns, table: Arc::clone(table), bytes, used });
    changed |= cache.shrink();
    drop(cache);
    if changed {
        forget_tables();
    }
}

impl Entry {
    fn has(&self, columns: &[u32]) -> bool {
        columns.iter().all(|column| self.columns.contains(column))
    }
}

impl Cache {
    fn bytes(&self) -> u64 {
        self.tables.values().flatten().map(|entry| entry.bytes).sum()
    }

    /// Forgets what has not been used for longest until the rest fits.
    fn shrink(&mut self) -> bool {
        let mut changed = false;
        while self.bytes() > self.limit {
            let oldest = self.tables.values().flatten().map(|entry| entry.used).min();
            self.tables.values_mut().for_each(|entries| entries.retain(|entry| Some(entry.used) != oldest));
            changed = true;
        }
        changed
    }
}

/// Forgets everything.
pub fn clear() {
    CACHE.lock().tables.clear();
    forget_tables();
}

/// Bytes that may be kept.
pub fn set_limit(bytes: u64) {
    let mut cache = CACHE.lock();
    cache.limit = bytes;
    let changed = cache.shrink();
    drop(cache);
    if changed {
        forget_tables();
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
    columns: &'a [u32],
    rows: u64,
    bytes: u64,
}

/// What is kept, as JSON.
pub fn describe() -> String {
    let cache = CACHE.lock();
    let entries = cache.tables.iter().flat_map(|(name, entries)| entries.iter().map(move |entry| (name, entry)));
    let tables = entries.map(|(name, entry)| TableDescription {
        table: name,
        version: &entry.version,
        columns: &entry.columns,
        rows: entry.table.snapshot().map_or(0, |snapshot| snapshot.num_rows()),
        bytes: entry.bytes,
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by_key(|table| (table.table, table.columns));
    let bytes = cache.bytes();
    serde_json::to_string(&Description { limit: cache.limit, bytes, tables }).unwrap_or_default()
}
