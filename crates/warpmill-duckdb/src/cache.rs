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
    tables: HashMap<String, Entry>,
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
    let entry = cache.tables.get_mut(name).filter(|entry| entry.version == version)?;
    if !columns.iter().all(|column| entry.columns.contains(column)) {
        return None;
    }
    entry.used = clock;
    Some(Arc::clone(&entry.table))
}

/// Keeps the rows of a table, unless there are others of this version with more columns.
pub fn keep(key: &str, columns: &[u32], table: &Arc<Table>) {
    let bytes = table.snapshot().map_or(0, |snapshot| snapshot.stored_bytes());
    let (name, version) = parts(key);
    let mut cache = CACHE.lock();
    cache.clock += 1;
    let more = |entry: &&Entry| entry.version == version && entry.columns.len() > columns.len();
    if cache.tables.get(name).filter(more).is_some() || bytes > cache.limit {
        return;
    }
    let entry = Entry {
        version: version.to_string(),
        columns: columns.to_vec(),
        table: Arc::clone(table),
        bytes,
        used: cache.clock,
    };
    let mut replaced = cache.tables.insert(name.to_string(), entry).is_some();
    replaced |= cache.shrink();
    drop(cache);
    if replaced {
        forget_tables();
    }
}

impl Cache {
    /// Forgets what has not been used for longest until the rest fits.
    fn shrink(&mut self) -> bool {
        let mut changed = false;
        while self.tables.values().map(|entry| entry.bytes).sum::<u64>() > self.limit {
            let Some(oldest) = self.tables.iter().min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone())
            else {
                break;
            };
            self.tables.remove(&oldest);
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
    let tables = cache.tables.iter().map(|(name, entry)| TableDescription {
        table: name,
        version: &entry.version,
        columns: &entry.columns,
        rows: entry.table.snapshot().map_or(0, |snapshot| snapshot.num_rows()),
        bytes: entry.bytes,
    });
    let mut tables: Vec<_> = tables.collect();
    tables.sort_by_key(|table| table.table);
    let bytes = cache.tables.values().map(|entry| entry.bytes).sum();
    serde_json::to_string(&Description { limit: cache.limit, bytes, tables }).unwrap_or_default()
}
