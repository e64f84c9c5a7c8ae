//! The names in a session: schemas with their tables and views.
//!
//! The main schema, `public` or `main`, is the database directory itself; another schema `s` is its sub-directory `s.schema`. Names match
//! case-insensitively, and keep the spelling of their creation.

mod comments;
pub(crate) mod creating;
mod definitions;
mod described;
pub(crate) mod file_statistics;
pub(crate) mod files;
pub(crate) mod hive;
mod listing;
mod provider;
pub(crate) mod reading;
mod redefined;
pub(crate) mod relatives;
mod removal;
mod rename;
mod schema;
mod schemas;
mod sequences;
mod sink;
mod special;
mod summary;
mod transaction;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::{Result as DataFusionResult, TableReference};
use datafusion::execution::SessionState;
use parking_lot::{Mutex, RwLock};
use warpmill_format::FileAccess;
use warpmill_format::table::leftovers;

pub(crate) use comments::{comment_of, with_comment};
pub(crate) use definitions::Defined;
pub(crate) use described::is_told;
pub use provider::WarpmillTable;
pub(crate) use schema::{Existing, Kind, Schema};
pub(crate) use sequences::{Sequence, SequenceOptions};
pub(crate) use sink::{TableSink, guarded, segment_bytes, write_options, write_stream};
pub(crate) use special::{NUMBERED, ROW, named_statement, statement_name, version_name};
pub(crate) use summary::is_query;
pub(crate) use view::View;

use crate::remote::Remote;
use crate::settings::WarpmillOptions;
use crate::{Error, Result};

/// Name of the only catalog, DataFusion's default.
pub(crate) const CATALOG: &str = "datafusion";
/// Name of the main schema.
pub(crate) const MAIN: &str = "public";
/// DuckDB's name of the main schema.
pub(crate) const DUCKDB_MAIN: &str = "main";
const INFORMATION_SCHEMA: &str = "information_schema";
/// Suffix of a schema's folder.
const SCHEMA_SUFFIX: &str = ".schema";

/// A table as [`crate::Session::tables`] describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Name of the table.
    pub name: String,
    /// The schema that it is in.
    pub schema: String,
    /// `stored` (in the database directory), `memory`, `view`, `external`, or `damaged` (stored, but it cannot be read).
    pub kind: String,
    /// Number of rows, if known.
    pub rows: Option<u64>,
    /// Compressed size in bytes, for Warpmill's tables.
    pub stored_bytes: Option<u64>,
    /// Uncompressed size in bytes, for Warpmill's tables.
    pub plain_bytes: Option<u64>,
    /// Size of the pruning metadata in bytes, for Warpmill's tables.
    pub pruning_bytes: Option<u64>,
    /// Keys, unique indexes and CHECK conditions in DuckDB's notation, such as `PRIMARY KEY(id)`.
    pub constraints: Vec<String>,
}

/// State shared by all schemas of a session.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Tables named by URLs.
    remote: Arc<Remote>,
    changes: AtomicU64,
    /// Number of uses of views whose text is in the database, where other processes may change it.
    stored_views: AtomicU64,
    state: RwLock<Weak<RwLock<SessionState>>>,
    /// The folder of the main schema, if there is a database.
    database: Option<PathBuf>,
    /// The transaction that BEGIN has begun.
    transaction: Mutex<Option<transaction::Transaction>>,
}

impl Shared {
    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// How files of tables come into memory.
    fn file_access(&self) -> FileAccess {
        let state = self.state.read().upgrade();
        state.map_or_else(FileAccess::default, |state| {
            WarpmillOptions::of(state.read_recursive().config_options()).file_access
        })
    }

    /// A copy of the session's current state.
    fn state(&self) -> Result<SessionState> {
        // DataFusion looks up schemas while it reads its state.
        let state = self.state.read().upgrade().map(|state| state.read_recursive().clone());
        state.ok_or_else(|| Error::Other("the session has ended".into()))
    }
}

/// The schemas of a session.
#[derive(Debug)]
pub(crate) struct Catalog {
    database: Option<PathBuf>,
    main: Arc<Schema>,
    /// Schemas of the session, and those of the database directory that have been used.
    others: RwLock<BTreeMap<String, Arc<Schema>>>,
    shared: Arc<Shared>,
    this: Weak<Self>,
}

impl Catalog {
    pub(crate) fn new(database: Option<PathBuf>, remote: Arc<Remote>) -> Arc<Self> {
        let (changes, stored_views, state) = (AtomicU64::new(0), AtomicU64::new(0), RwLock::default());
        let (transaction, folder) = (Mutex::default(), database.clone());
        let shared = Arc::new(Shared { remote, changes, stored_views, state, database: folder, transaction });
        let main = Schema::new(MAIN, database.clone(), Arc::clone(&shared));
        Arc::new_cyclic(|this| Self { database, main, others: RwLock::default(), shared, this: Weak::clone(this) })
    }

    /// From now on, views and files are read with the settings and functions of this state.
    pub(crate) fn attach(&self, state: Weak<RwLock<SessionState>>) {
        *self.shared.state.write() = state;
    }

    /// Finishes commits of several tables, whose writer may have died.
    pub(crate) fn finish_commits(&self) -> Result<()> {
        self.shared.finish_commits()
    }

    /// Grows with every table that is added or removed by this session.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Number of uses of views whose text is in the database.
    pub(crate) fn stored_views(&self) -> u64 {
        self.shared.stored_views.load(Ordering::Acquire)
    }

    /// The schema called `name`, as seen by the session's transaction, if there is one.
    pub(crate) fn find_schema(&self, name: &str) -> Result<Option<Arc<Schema>>> {
        let changed = self.shared.transaction.lock().as_ref().and_then(|transaction| transaction.schema(name));
        changed.map_or_else(|| self.find_committed_schema(name), Ok)
    }

    /// The schema called `name`, as seen by sessions without a transaction.
    fn find_committed_schema(&self, name: &str) -> Result<Option<Arc<Schema>>> {
        if is_main(name) {
            return Ok(Some(Arc::clone(&self.main)));
        }
        let Some(database) = &self.database else {
            let others = self.others.read();
            let found = others.get(name).or_else(|| others.values().find(|schema| same(schema.name(), name)));
            return Ok(found.cloned());
        };
        let names = schema_folders(database)?;
        let found = names.iter().find(|found| *found == name).or_else(|| names.iter().find(|found| same(found, name)));
        let mut others = self.others.write();
        let Some(found) = found else {
            others.retain(|known, _| names.contains(known));
            return Ok(None);
        };
        let open = || {
            let folder = database.join(format!("{found}{SCHEMA_SUFFIX}"));
            Schema::new(found, Some(folder), Arc::clone(&self.shared))
        };
        Ok(Some(Arc::clone(others.entry(found.clone()).or_insert_with(open))))
    }

    /// The schema called `name`, which must be there.
    pub(crate) fn schema_called(&self, name: &str) -> Result<Arc<Schema>> {
        self.find_schema(name)?.ok_or_else(|| no_schema(name))
    }

    /// The schema of `reference`, and the name in it.
    ///
    /// # Errors
    /// Missing catalog or schema, by name.
    pub(crate) fn place(&self, reference: &TableReference, default: &str) -> Result<(Arc<Schema>, String)> {
        reference.catalog().map_or(Ok(()), |catalog| self.check_catalog(catalog))?;
        let schema = self.schema_called(reference.schema().unwrap_or(default))?;
        Ok((schema, reference.table().to_string()))
    }

    /// Whether `name` is that of the only catalog.
    pub(crate) fn check_catalog(&self, name: &str) -> Result<()> {
        match same(name, CATALOG) {
            true => Ok(()),
            false => Err(Error::Catalog(format!("catalog '{name}' does not exist"))),
        }
    }

    /// Adds a schema; returns false if it exists.
    pub(crate) fn create_schema(&self, name: &str) -> Result<bool> {
        self.shared.finish_commits()?;
        if self.find_schema(name)?.is_some() || same(name, INFORMATION_SCHEMA) {
            return Ok(false);
        }
        if self.shared.is_in_transaction() {
            return self.create_schema_in_transaction(name);
        }
        let folder = match &self.database {
            Some(database) => {
                let folder = database.join(format!("{}{SCHEMA_SUFFIX}", plain(name)?));
                create_directory(database)?;
                match std::fs::create_dir(&folder) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
                    made => made.map_err(|error| io_error("cannot create schema", &folder, &error))?,
                }
                leftovers::sync_folder_of(&folder)?;
                Some(folder)
            }
            None => None,
        };
        let schema = Schema::new(name, folder, Arc::clone(&self.shared));
        self.others.write().insert(name.to_string(), schema);
        self.shared.changed();
        Ok(true)
    }

    /// Drops a schema, with `cascade` including its content; returns false if it does not exist.
    ///
    /// # Errors
    /// The main schema; the names of the remaining content. Nothing is removed then.
    pub(crate) fn drop_schema(&self, name: &str, cascade: bool) -> Result<bool> {
        if is_main(name) || same(name, INFORMATION_SCHEMA) {
            return Err(Error::Catalog(format!("schema '{name}' is built in and cannot be dropped")));
        }
        let Some(schema) = self.find_schema(name)? else { return Ok(false) };
        if self.shared.is_in_transaction() {
            return self.drop_schema_in_transaction(&schema, cascade).map(|()| true);
        }
        schema.remove_all(cascade)?;
        self.others.write().remove(schema.name());
        self.shared.changed();
        Ok(true)
    }

    /// The names of all schemas, the main one first.
    pub(crate) fn all_schemas(&self) -> Result<Vec<String>> {
        let mut names = match &self.database {
            Some(database) => schema_folders(database)?,
            None => self.others.read().keys().cloned().collect(),
        };
        if let Some(transaction) = self.shared.transaction.lock().as_ref() {
            transaction.schemas_seen(&mut names);
        }
        names.sort();
        names.insert(0, MAIN.to_string());
        Ok(names)
    }

    /// All tables and views, by schema and name.
    pub(crate) fn infos(&self) -> Result<Vec<TableInfo>> {
        let mut infos = Vec::new();
        for schema in self.all_schemas()? {
            if let Some(schema) = self.find_schema(&schema)? {
                infos.extend(schema.infos()?);
            }
        }
        Ok(infos)
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        self.all_schemas().unwrap_or_else(|error| {
            tracing::warn!(%error, "the schemas of the database cannot be listed");
            vec![MAIN.to_string()]
        })
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if same(name, INFORMATION_SCHEMA) {
            return self.this.upgrade().map(|catalog| listing::information_schema(&catalog, &self.shared));
        }
        self.find_schema(name).ok().flatten().map(|schema| schema as _)
    }

    fn register_schema(
        &self,
        name: &str,
        _schema: Arc<dyn SchemaProvider>,
    ) -> DataFusionResult<Option<Arc<dyn SchemaProvider>>> {
        let text = format!("schema '{name}': schemas of other providers are not part of a session of Warpmill");
        Err(Error::NotImplemented(text).into())
    }
}

/// Whether two names are equal, ignoring case.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Whether `name` is one of the main schema's.
pub(crate) fn is_main(name: &str) -> bool {
    same(name, MAIN) || same(name, DUCKDB_MAIN)
}

pub(crate) fn no_schema(name: &str) -> Error {
    Error::Catalog(format!("schema '{name}' does not exist"))
}

/// `name`, if it can be a file name.
fn plain(name: &str) -> Result<&str> {
    let suffixes = [SCHEMA_SUFFIX, view::SUFFIX, sequences::SUFFIX].into_iter();
    let mut suffixes = suffixes.chain(Defined::ALL.map(Defined::suffix));
    let reserved = suffixes.any(|suffix| name.to_ascii_lowercase().ends_with(suffix));
    match name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) || reserved {
        true => Err(Error::Catalog(format!("{name:?} cannot be a name in a database directory"))),
        false => Ok(name),
    }
}

/// The names of the schemas that have a folder in `database`.
fn schema_folders(database: &Path) -> Result<Vec<String>> {
    let is_schema = |name: String| {
        let schema = name.strip_suffix(SCHEMA_SUFFIX).filter(|schema| !schema.is_empty() && !name.starts_with('.'))?;
        let path = database.join(&name);
        // A table with such a name can be older than support for schemas.
        (path.is_dir() && !warpmill_format::Table::exists(&path).unwrap_or(false)).then(|| schema.to_string())
    };
    Ok(entries(database)?.into_iter().filter_map(is_schema).collect())
}

/// The names in a folder; empty if it does not exist.
fn entries(folder: &Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| io_error("cannot list", folder, &error);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

/// Creates the database directory where it is missing.
pub(crate) fn create_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| io_error("cannot create directory", path, &error))
}

fn io_error(action: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("{action} {}: {error}", path.display()))
}
