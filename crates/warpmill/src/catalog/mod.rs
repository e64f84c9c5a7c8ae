//! The tables of a session: those of its database directory, and those registered in memory.

mod provider;
mod sink;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::TableType;
use parking_lot::{Mutex, RwLock};
use warpmill_format::{Table, TableWriter};

pub use provider::WarpmillTable;
pub(crate) use sink::{write_options, write_stream};

use crate::remote::Remote;
use crate::{Error, Result, WriteOptions};

/// The schema `public`: one sub-directory of the database directory per stored table, and the session's own tables.
///
/// Names of the session's own tables hide stored tables. Every look-up gives the newest committed version, by whichever
/// process it was written.
#[derive(Debug)]
pub(crate) struct Catalog {
    database: Option<PathBuf>,
    session_tables: RwLock<BTreeMap<String, Entry>>,
    opened: Mutex<HashMap<String, Arc<Table>>>,
    /// Tables whose names are URLs.
    remote: Arc<Remote>,
    changes: AtomicU64,
}

#[derive(Debug, Clone)]
enum Entry {
    /// A table of Warpmill, in memory or registered by its handle.
    Warpmill(Arc<Table>),
    /// Anything else that DataFusion can scan: views, files, Arrow batches.
    Foreign(Arc<dyn TableProvider>),
}

/// What [`crate::Session::tables`] says of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// `stored` (in the database directory), `memory`, `view` or `external`.
    pub kind: String,
    /// Rows, where known.
    pub rows: Option<u64>,
    /// Compressed size in bytes, of Warpmill's tables.
    pub stored_bytes: Option<u64>,
    /// Uncompressed size in bytes, of Warpmill's tables.
    pub plain_bytes: Option<u64>,
    /// Size in bytes of the metadata by which queries skip rows, of Warpmill's tables.
    pub pruning_bytes: Option<u64>,
}

impl Catalog {
    pub(crate) fn new(database: Option<PathBuf>, remote: Arc<Remote>) -> Self {
        let (session_tables, opened, changes) = (RwLock::default(), Mutex::default(), AtomicU64::new(0));
        Self { database, session_tables, opened, remote, changes }
    }

    /// Grows with every table that is added or removed by this session.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The directory of stored table `name`; `None` without a database or for a name that cannot be a directory's.
    fn directory(&self, name: &str) -> Option<PathBuf> {
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        self.database.as_ref().filter(|_| plain).map(|database| database.join(name))
    }

    fn stored(&self, name: &str) -> Result<Option<Arc<Table>>> {
        let Some(path) = self.directory(name) else { return Ok(None) };
        let mut opened = self.opened.lock();
        if !Table::exists(&path) {
            opened.remove(name);
            return Ok(None);
        }
        if let Some(table) = opened.get(name) {
            return Ok(Some(Arc::clone(table)));
        }
        let table = Table::open(&path)?;
        opened.insert(name.to_string(), Arc::clone(&table));
        Ok(Some(table))
    }

    /// The table of Warpmill called `name`, if there is one.
    pub(crate) fn warpmill_table(&self, name: &str) -> Result<Option<Arc<Table>>> {
        match self.session_tables.read().get(name) {
            Some(Entry::Warpmill(table)) => Ok(Some(Arc::clone(table))),
            Some(Entry::Foreign(_)) => Ok(None),
            None => self.stored(name),
        }
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.session_tables.read().contains_key(name) || self.directory(name).is_some_and(|path| Table::exists(&path))
    }

    /// Adds or replaces a table of the session.
    pub(crate) fn put_table(&self, name: &str, table: Arc<Table>) {
        self.session_tables.write().insert(name.to_string(), Entry::Warpmill(table));
        self.changed();
    }

    /// Adds or replaces a foreign table of the session.
    pub(crate) fn put_foreign(&self, name: &str, provider: Arc<dyn TableProvider>) {
        self.session_tables.write().insert(name.to_string(), Entry::Foreign(provider));
        self.changed();
    }

    /// Forgets a table of the session; stored tables stay.
    pub(crate) fn forget(&self, name: &str) -> Result<()> {
        if self.session_tables.write().remove(name).is_some() {
            self.changed();
            return Ok(());
        }
        match self.stored(name)? {
            Some(_) => Err(Error::Catalog(format!("table '{name}' is stored in the database: DROP TABLE removes it"))),
            None => Err(Error::Catalog(format!("table '{name}' not found"))),
        }
    }

    /// Starts a table called `name` with new rows: in the database directory, or in memory where there is none. An existing
    /// table of Warpmill is replaced when the writer commits; pass the writer to [`Catalog::commit`].
    pub(crate) fn build(&self, name: &str, schema: SchemaRef, options: WriteOptions) -> Result<TableWriter> {
        if let Some(table) = self.warpmill_table(name)? {
            return Ok(table.replace(schema, options)?);
        }
        if let Some(database) = &self.database {
            let path = self.directory(name).ok_or_else(|| {
                Error::Catalog(format!("{name:?} cannot be the name of a table in a database directory"))
            })?;
            create_directory(database)?;
            return Ok(Table::build(&path, schema, options)?);
        }
        Ok(Table::in_memory(schema.clone()).replace(schema, options)?)
    }

    /// Makes the rows of a writer from [`Catalog::build`] the table called `name`.
    pub(crate) fn commit(&self, name: &str, writer: TableWriter) -> Result<()> {
        let table = Arc::clone(writer.table());
        writer.commit()?;
        self.committed(name, table);
        Ok(())
    }

    /// Shows a table whose writer from [`Catalog::build`] has committed.
    pub(crate) fn committed(&self, name: &str, table: Arc<Table>) {
        match table.path() {
            // A foreign table of that name would hide the stored one.
            Some(_) => drop(self.session_tables.write().remove(name)),
            None => drop(self.session_tables.write().insert(name.to_string(), Entry::Warpmill(table))),
        }
        self.changed();
    }

    /// Removes table `name`, files included. The directory is renamed first: a reader or a crash never sees half a table.
    fn remove(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(entry) = self.session_tables.write().remove(name) {
            self.changed();
            return entry.provider(name).map(Some);
        }
        let Some(table) = self.stored(name)? else { return Ok(None) };
        let provider = WarpmillTable::open(name, table)?;
        let path = self.directory(name).expect("a stored table has a directory");
        let dropped = path.with_file_name(format!(".{name}.dropped-{}-{}", std::process::id(), self.changes()));
        std::fs::rename(&path, &dropped).map_err(|error| io_error("cannot drop table", &path, &error))?;
        self.opened.lock().remove(name);
        self.changed();
        std::fs::remove_dir_all(&dropped).map_err(|error| io_error("cannot remove", &dropped, &error))?;
        Ok(Some(Arc::new(provider)))
    }

    fn stored_names(&self) -> Vec<String> {
        let Some(entries) = self.database.as_ref().and_then(|path| std::fs::read_dir(path).ok()) else { return vec![] };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| self.directory(name).is_some_and(|path| Table::exists(&path))).collect()
    }

    /// All tables, by name.
    pub(crate) fn infos(&self) -> Result<Vec<TableInfo>> {
        self.table_names().iter().map(|name| self.info(name)).collect()
    }

    fn info(&self, name: &str) -> Result<TableInfo> {
        let entry = self.session_tables.read().get(name).cloned();
        let (kind, table) = match entry {
            Some(Entry::Warpmill(table)) => (if table.path().is_some() { "stored" } else { "memory" }, Some(table)),
            Some(Entry::Foreign(provider)) if provider.is::<ViewTable>() => ("view", None),
            Some(Entry::Foreign(_)) => ("external", None),
            None => ("stored", self.stored(name)?),
        };
        let snapshot = table.map(|table| table.snapshot()).transpose()?;
        Ok(TableInfo {
            name: name.to_string(),
            kind: kind.to_string(),
            rows: snapshot.as_ref().map(|s| s.num_rows()),
            stored_bytes: snapshot.as_ref().map(|s| s.stored_bytes()),
            plain_bytes: snapshot.as_ref().map(|s| s.plain_bytes()),
            pruning_bytes: snapshot.as_ref().map(|s| s.pruning_bytes()),
        })
    }
}

impl Entry {
    fn provider(self, name: &str) -> Result<Arc<dyn TableProvider>> {
        match self {
            Entry::Warpmill(table) => Ok(Arc::new(WarpmillTable::open(name, table)?)),
            Entry::Foreign(provider) => Ok(provider),
        }
    }
}

#[async_trait]
impl SchemaProvider for Catalog {
    fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.stored_names().into_iter().collect();
        names.extend(self.session_tables.read().keys().cloned());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let entry = self.session_tables.read().get(name).cloned();
        let entry = match entry {
            Some(entry) => Some(entry),
            None => self.stored(name)?.map(Entry::Warpmill),
        };
        if entry.is_none() {
            return self.remote.named(name).await;
        }
        Ok(entry.map(|entry| entry.provider(name)).transpose()?)
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if self.exists(&name) {
            return Err(Error::Catalog(format!("table '{name}' already exists")).into());
        }
        self.put_foreign(&name, table);
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.remove(name)?)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.exists(name)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        let entry = self.session_tables.read().get(name).cloned();
        Ok(match entry {
            Some(Entry::Foreign(provider)) => Some(provider.table_type()),
            Some(Entry::Warpmill(_)) => Some(TableType::Base),
            None => self.exists(name).then_some(TableType::Base),
        })
    }
}

/// Creates the database directory where it is missing.
pub(crate) fn create_directory(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| io_error("cannot create directory", path, &error))
}

fn io_error(action: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Io(format!("{action} {}: {error}", path.display()))
}
