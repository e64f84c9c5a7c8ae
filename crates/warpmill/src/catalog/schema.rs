//! A schema: tables and views of the session, and those stored in its folder.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::TableType;
use parking_lot::{Mutex, RwLock};
use warpmill_format::table::leftovers;
use warpmill_format::{FormatError, Table, TableWriter};

use super::reading::Call;
use super::redefined::{Meaning, Sort};
use super::sequences::Sequence;
use super::view::{self, View};
use super::{
    Defined, Shared, TableInfo, WarpmillTable, create_directory, described, entries, files, plain, same, special,
    summary,
};
use crate::session::constraints::shown;
use crate::{Error, Result, WriteOptions};

/// The kind of thing that a name is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table.
    Table,
    /// A view.
    View,
}

impl Kind {
    /// Name of the kind in messages.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::View => "view",
        }
    }
}

/// The session's own tables and views hide stored ones. Every look-up returns the newest committed version, of any process.
#[derive(Debug)]
pub(crate) struct Schema {
    name: String,
    /// The folder of its tables; `None`: in memory.
    pub(super) folder: Option<PathBuf>,
    pub(super) session_tables: RwLock<BTreeMap<String, Entry>>,
    /// Texts of the session's macros and types by lower-case name.
    pub(super) definitions: RwLock<BTreeMap<(Defined, String), String>>,
    /// The session's sequences by lower-case name.
    pub(super) sequences: Mutex<BTreeMap<String, Sequence>>,
    /// Set, while `session_tables` is locked, when the schema has been dropped.
    pub(super) dropped: AtomicBool,
    pub(super) opened: Mutex<HashMap<String, Arc<Table>>>,
    pub(super) shared: Arc<Shared>,
    this: Weak<Self>,
}

/// An entry of the session itself under a name.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// A table of Warpmill, in memory or registered by its handle.
    Warpmill(Arc<Table>),
    /// Anything else that DataFusion can scan: files, Arrow batches.
    Foreign(Arc<dyn TableProvider>),
    /// A view, planned when it is used.
    View(View),
}

impl Entry {
    pub(super) fn own_table(&self) -> Option<&Arc<Table>> {
        match self {
            Entry::Warpmill(table) => Some(table),
            Entry::Foreign(_) | Entry::View(_) => None,
        }
    }
}

/// How an existing table with the name of a new one is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The new one takes its place.
    Goes,
    /// There is no new one.
    Stays,
}

/// The object under a name, with its spelling.
pub(super) enum Found {
    Session(String, Entry),
    Table(String),
    View(String),
}

impl Found {
    /// Whether it is a table or a view.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Found::Session(_, Entry::View(_)) | Found::View(_) => Kind::View,
            Found::Session(..) | Found::Table(_) => Kind::Table,
        }
    }
}

impl Schema {
    pub(super) fn new(name: &str, folder: Option<PathBuf>, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            name: name.to_string(),
            folder,
            session_tables: RwLock::default(),
            definitions: RwLock::default(),
            sequences: Mutex::default(),
            dropped: AtomicBool::new(false),
            opened: Mutex::default(),
            shared,
            this: Weak::clone(this),
        })
    }

    /// Name of the schema.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether new tables that are not temporary get folders.
    pub(crate) fn is_stored(&self) -> bool {
        self.folder.is_some()
    }

    /// The path of a stored table or view; `None` without a database or for a name that no stored table has, such as those of [`special`].
    fn path(&self, name: &str, suffix: &str) -> Option<PathBuf> {
        // Tables with reserved names may be older than the reservation.
        let possible = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0', '\u{1}']);
        self.folder.as_ref().filter(|_| possible).map(|folder| folder.join(format!("{name}{suffix}")))
    }

    /// The path of a stored table.
    pub(super) fn table_path(&self, name: &str) -> PathBuf {
        self.path(name, "").expect("a stored table has a path")
    }

    pub(super) fn view_path(&self, name: &str) -> PathBuf {
        self.path(name, view::SUFFIX).expect("a stored view has a path")
    }

    /// The table or view `name`, as seen by sessions without a transaction.
    pub(super) fn find_committed(&self, name: &str) -> Result<Option<Found>> {
        let tables = self.session_tables.read();
        let entry = tables.get_key_value(name).or_else(|| tables.iter().find(|(known, _)| same(known, name)));
        if let Some((name, entry)) = entry {
            return Ok(Some(Found::Session(name.clone(), entry.clone())));
        }
        drop(tables);
        let (Some(table), Some(view)) = (self.path(name, ""), self.path(name, view::SUFFIX)) else { return Ok(None) };
        if Table::exists(&table)? {
            return Ok(Some(Found::Table(name.to_string())));
        }
        if view.is_file() {
            return Ok(Some(Found::View(name.to_string())));
        }
        self.opened.lock().remove(name);
        Ok(self.stored()?.into_iter().find_map(|(known, kind)| match kind {
            _ if !same(&known, name) => None,
            Kind::Table => Some(Found::Table(known)),
            Kind::View => Some(Found::View(known)),
        }))
    }

    /// The stored tables and views.
    pub(super) fn stored(&self) -> Result<Vec<(String, Kind)>> {
        let Some(folder) = &self.folder else { return Ok(vec![]) };
        let mut found = Vec::new();
        for name in entries(folder)?.into_iter().filter(|name| !name.starts_with('.')) {
            let path = folder.join(&name);
            // An unreadable folder is listed as damaged instead of being omitted, and hides no other.
            let is_table = Table::exists(&path).unwrap_or_else(|error| {
                tracing::warn!(table = name, %error, "a folder cannot be read");
                true
            });
            if is_table {
                found.push((name, Kind::Table));
            } else if let Some(view) = name.strip_suffix(view::SUFFIX).filter(|_| path.is_file()) {
                found.push((view.to_string(), Kind::View));
            }
        }
        Ok(found)
    }

    /// The stored table of exactly this name.
    pub(super) fn open(&self, name: &str) -> Result<Arc<Table>> {
        let mut opened = self.opened.lock();
        let access = self.shared.file_access();
        if let Some(table) = opened.get(name) {
            table.set_access(access);
            return Ok(Arc::clone(table));
        }
        let table = Table::open_as(&self.table_path(name), access)?;
        opened.insert(name.to_string(), Arc::clone(&table));
        Ok(table)
    }

    /// The Warpmill table `name`, if there is one.
    pub(crate) fn warpmill_table(&self, name: &str) -> Result<Option<Arc<Table>>> {
        match self.find(name)? {
            Some(Found::Session(_, Entry::Warpmill(table))) => Ok(Some(table)),
            Some(Found::Table(name)) => self.open(&name).map(Some),
            _ => Ok(None),
        }
    }

    /// The view called `name`, if there is one.
    pub(crate) fn view(&self, name: &str) -> Result<Option<View>> {
        match self.find(name)? {
            Some(Found::Session(_, Entry::View(view))) => Ok(Some(view)),
            Some(Found::View(name)) => View::read(&self.view_path(&name)).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether `name` is one of the session's that has stored ones beside it.
    pub(crate) fn is_temporary(&self, name: &str) -> Result<bool> {
        match self.redefined_as(Sort::View, name) {
            Some(temporary) => Ok(self.folder.is_some() && temporary),
            None => Ok(self.folder.is_some() && self.session_kind(name)?.is_some()),
        }
    }

    /// The kind of `name`; `None`: nothing.
    pub(crate) fn kind(&self, name: &str) -> Result<Option<Kind>> {
        Ok(self.find(name)?.map(|found| found.kind()))
    }

    /// The kind of the session's own `name`.
    pub(crate) fn session_kind(&self, name: &str) -> Result<Option<Kind>> {
        Ok(match self.find(name)? {
            Some(Found::Session(_, Entry::Warpmill(table))) if table.path().is_some() => None,
            Some(found @ Found::Session(..)) => Some(found.kind()),
            _ => None,
        })
    }

    /// Adds or replaces a table of the session.
    pub(crate) fn put_table(&self, name: &str, table: Arc<Table>) {
        self.put(name, Entry::Warpmill(table));
    }

    /// Adds or replaces a foreign table of the session.
    pub(crate) fn put_foreign(&self, name: &str, provider: Arc<dyn TableProvider>) {
        self.put(name, Entry::Foreign(provider));
    }

    pub(super) fn put(&self, name: &str, entry: Entry) {
        let mut tables = self.session_tables.write();
        tables.retain(|known, _| !same(known, name));
        tables.insert(name.to_string(), entry);
        drop(tables);
        self.shared.changed();
    }

    /// Removes the session's own table or view `name`, if there is one.
    pub(super) fn take(&self, name: &str) -> bool {
        let mut tables = self.session_tables.write();
        let before = tables.len();
        tables.retain(|known, _| !same(known, name));
        let taken = tables.len() < before;
        drop(tables);
        if taken {
            self.shared.changed();
        }
        taken
    }

    /// Forgets a table of the session; stored tables stay.
    pub(crate) fn forget(&self, name: &str) -> Result<()> {
        if self.take(name) {
            return Ok(());
        }
        match self.kind(name)? {
            Some(kind) => {
                let (word, drop) = (kind.word(), kind.word().to_uppercase());
                Err(Error::Catalog(format!("{word} '{name}' is stored in the database: DROP {drop} removes it")))
            }
            None => Err(Error::Catalog(format!("table '{name}' not found"))),
        }
    }

    /// Adds or replaces a view: stored if there is a database, unless it is `temporary`.
    pub(crate) fn put_view(&self, name: &str, view: View, temporary: bool) -> Result<()> {
        let spelled = match self.find(name)? {
            Some(Found::View(known) | Found::Session(known, Entry::View(_))) => known,
            _ => name.to_string(),
        };
        if self.redefine(Sort::View, &spelled, Some(Meaning::View(view.clone())), temporary)? {
            return Ok(());
        }
        let Some(folder) = self.folder.as_ref().filter(|_| !temporary) else {
            self.put(name, Entry::View(view));
            return Ok(());
        };
        let name = match self.find(name)? {
            Some(Found::View(known)) => known,
            _ => plain(name)?.to_string(),
        };
        create_directory(folder)?;
        leftovers::clean(folder)?;
        leftovers::write_file(&self.view_path(&name), &view.to_bytes())?;
        self.take(&name);
        self.shared.changed();
        Ok(())
    }

    /// Starts a new table `name`: in the schema's folder, or in memory if there is none. The writer's commit replaces an existing Warpmill table if
    /// it `goes`; pass the writer to [`Schema::commit`].
    pub(crate) fn build(
        &self,
        name: &str,
        schema: SchemaRef,
        options: WriteOptions,
        existing: Existing,
    ) -> Result<TableWriter> {
        let new_name = match self.find(name)? {
            Some(Found::Session(_, Entry::Warpmill(_)) | Found::Table(_)) if existing == Existing::Stays => {
                return Err(Error::Catalog(format!("table '{name}' already exists")));
            }
            Some(Found::Session(known, Entry::Warpmill(table))) => {
                let writer = table.replace(schema, options)?;
                self.check_unreferenced(&known, &table)?;
                return Ok(writer);
            }
            Some(Found::Table(known)) => {
                // Dropped meanwhile: another one may exist by now.
                let dropped = || Err(FormatError::Replaced { table: name.to_string() }.into());
                let path = self.table_path(&known);
                return match self.open(&known).and_then(|table| Ok((table.snapshot()?, table))) {
                    Ok((_, table)) => match table.replace(schema, options) {
                        Err(FormatError::Catalog(_)) if !Table::exists(&path)? => dropped(),
                        writer => {
                            let writer = writer?;
                            self.check_unreferenced(&known, &table)?;
                            Ok(writer)
                        }
                    },
                    Err(Error::Catalog(_)) => dropped(),
                    Err(error) if is_damage(&error) => {
                        tracing::warn!(table = known, %error, "a damaged table is being replaced");
                        Ok(Table::build_over(&path, schema, options)?)
                    }
                    Err(error) => Err(error),
                };
            }
            Some(Found::View(_) | Found::Session(_, Entry::View(_))) => return Err(wrong_kind(name, Kind::View)),
            Some(Found::Session(_, Entry::Foreign(_))) | None => name,
        };
        match &self.folder {
            Some(folder) => {
                let path = folder.join(plain(new_name)?);
                create_directory(folder)?;
                Ok(match self.shared.is_in_transaction() {
                    true if path.symlink_metadata().is_ok() && !self.is_dropped_in_transaction(new_name) => {
                        return Err(Error::Catalog(format!("{} exists already", path.display())));
                    }
                    true => Table::build_in_transaction(&path, schema, options)?,
                    false => Table::build(&path, schema, options)?,
                })
            }
            None => self.build_in_memory(schema, options),
        }
    }

    /// Starts a table in memory, whose name is given at the commit.
    pub(crate) fn build_in_memory(&self, schema: SchemaRef, options: WriteOptions) -> Result<TableWriter> {
        Ok(Table::in_memory(Arc::clone(&schema)).replace(schema, options)?)
    }

    /// Commits a writer from [`Schema::build`] as table `name`.
    ///
    /// # Errors
    /// Another statement has created a table of that name meanwhile, or is writing the one to replace.
    pub(crate) fn commit(&self, name: &str, writer: TableWriter, existing: Existing) -> Result<()> {
        let table = Arc::clone(writer.table());
        writer.commit()?;
        self.committed(name, table, existing)
    }

    /// Publishes a table whose writer from [`Schema::build`] has committed.
    ///
    /// # Errors
    /// The errors of [`Schema::commit`] for tables in memory.
    pub(crate) fn committed(&self, name: &str, table: Arc<Table>, existing: Existing) -> Result<()> {
        if self.put_in_transaction(name, &table, existing == Existing::Goes)? {
            return Ok(());
        }
        if table.path().is_some() {
            // A foreign table of that name would hide the stored one, and a damaged one may still be known.
            self.take(name);
            self.opened.lock().retain(|known, _| !same(known, name));
            self.shared.changed();
            return Ok(());
        }
        let mut tables = self.session_tables.write();
        if self.dropped.load(Ordering::Relaxed) {
            return Err(FormatError::Replaced { table: name.to_string() }.into());
        }
        match tables.iter().find(|(known, _)| same(known, name)).map(|(_, entry)| entry) {
            Some(Entry::Warpmill(known)) if Arc::ptr_eq(known, &table) => {}
            Some(Entry::Warpmill(known)) if existing == Existing::Goes => known.retire()?,
            Some(Entry::Warpmill(_) | Entry::View(_)) => {
                return Err(FormatError::Replaced { table: name.to_string() }.into());
            }
            Some(Entry::Foreign(_)) | None => {}
        }
        tables.retain(|known, _| !same(known, name));
        tables.insert(name.to_string(), Entry::Warpmill(table));
        drop(tables);
        self.shared.changed();
        Ok(())
    }

    /// The names of all tables and views, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.session_tables.read().keys().cloned().collect();
        let own = names.len();
        for (name, _) in self.stored()? {
            if !names[..own].iter().any(|known| same(known, &name)) {
                names.push(name);
            }
        }
        let mut names = self.seen_in_transaction(names);
        names.sort();
        Ok(names)
    }

    /// All tables and views, by name. Unreadable ones are only marked as such.
    pub(super) fn infos(&self) -> Result<Vec<TableInfo>> {
        let infos = self.names()?.into_iter().map(|name| self.info(name));
        Ok(infos.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn info(&self, name: String) -> Result<Option<TableInfo>> {
        let found = match self.find(&name) {
            Err(error) => {
                tracing::warn!(table = name, %error, "a table cannot be looked up");
                Some(Found::Table(name.clone()))
            }
            Ok(found) => found,
        };
        let (kind, table) = match found {
            Some(Found::Session(_, Entry::Warpmill(table))) => {
                (if table.path().is_some() { "stored" } else { "memory" }, Some(Ok(table)))
            }
            Some(Found::Session(_, Entry::View(_)) | Found::View(_)) => ("view", None),
            Some(Found::Session(_, Entry::Foreign(provider))) if provider.is::<ViewTable>() => ("view", None),
            Some(Found::Session(_, Entry::Foreign(_))) => ("external", None),
            Some(Found::Table(name)) => ("stored", Some(self.open(&name))),
            None => return Ok(None),
        };
        let snapshot = table.map(|table| table.and_then(|table| Ok(table.snapshot()?))).transpose();
        let (kind, snapshot) = match snapshot {
            Ok(snapshot) => (kind, snapshot),
            // Dropped since.
            Err(Error::Catalog(_)) => return Ok(None),
            Err(error) => {
                tracing::warn!(table = name, %error, "a table cannot be read");
                ("damaged", None)
            }
        };
        let constraints =
            snapshot.as_ref().map(|s| shown::texts(&name, s.schema(), s.constraints())).unwrap_or_default();
        Ok(Some(TableInfo {
            name,
            schema: self.name.clone(),
            kind: kind.to_string(),
            rows: snapshot.as_ref().map(|s| s.num_rows()),
            stored_bytes: snapshot.as_ref().map(|s| s.stored_bytes()),
            plain_bytes: snapshot.as_ref().map(|s| s.plain_bytes()),
            pruning_bytes: snapshot.as_ref().map(|s| s.pruning_bytes()),
            constraints,
        }))
    }

    fn own_provider(&self, name: &str, table: Arc<Table>) -> Result<Arc<dyn TableProvider>> {
        let siblings = self.this.upgrade().map(|schema| schema.siblings(name, &table));
        Ok(Arc::new(WarpmillTable::open(name, table)?.beside(siblings)))
    }

    async fn provider(&self, found: Found) -> Result<Arc<dyn TableProvider>> {
        match found {
            Found::Session(name, Entry::Warpmill(table)) => self.own_provider(&name, table),
            Found::Session(_, Entry::Foreign(provider)) => Ok(provider),
            Found::Session(name, Entry::View(view)) => view.provider(&self.name, &name, self.shared.state()?).await,
            Found::Table(name) => self.own_provider(&name, self.open(&name)?),
            Found::View(name) => {
                self.shared.stored_views.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
                let view = View::read(&self.view_path(&name))?;
                view.provider(&self.name, &name, self.shared.state()?).await
            }
        }
    }
}

pub(super) fn wrong_kind(name: &str, is: Kind) -> Error {
    let other = if is == Kind::View { Kind::Table } else { Kind::View };
    Error::Catalog(format!("'{name}' is a {}, not a {}", is.word(), other.word()))
}

/// Whether an error is caused by the table itself, not by the system.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Format(error) if !matches!(**error, FormatError::Io { .. } | FormatError::Locked { .. }))
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        self.names().unwrap_or_else(|error| {
            tracing::warn!(schema = self.name, %error, "the tables of a schema cannot be listed");
            vec![]
        })
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if let Some(found) = self.find(name)? {
            return Ok(Some(self.provider(found).await?));
        }
        if let Some(sql) = special::named_statement(name) {
            return summary::answer(sql, self.shared.state()?).await.map(Some).map_err(Into::into);
        }
        if let Some(call) = Call::named(name) {
            return match self.shared.remote.allowed() {
                true => call.table(self.shared.state()?).await.map(Some).map_err(Into::into),
                false => {
                    Err(Error::NotImplemented(format!("{}: this session may not read files", call.function)).into())
                }
            };
        }
        if name.starts_with('\u{1}') {
            return Ok(self.special(name)?.map(|table| Arc::new(table) as _));
        }
        if let Some(told) = described::unqualified(name, &self.shared).await? {
            return Ok(Some(told));
        }
        match self.shared.remote.named(name).await? {
            None if self.shared.remote.allowed() => files::named(&self.shared.state()?, name).await,
            table => Ok(table),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if self.find(&name)?.is_some() {
            return Err(Error::Catalog(format!("table '{name}' already exists")).into());
        }
        self.put_foreign(&name, table);
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let gone = match self.find(name)? {
            Some(Found::Session(_, Entry::Foreign(provider))) => Some(provider),
            _ => None,
        };
        self.forget(name)?;
        Ok(gone)
    }

    fn table_exist(&self, name: &str) -> bool {
        !matches!(self.find(name), Ok(None))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>, DataFusionError> {
        Ok(match self.find(name)? {
            Some(Found::Session(_, Entry::Foreign(provider))) => Some(provider.table_type()),
            Some(found) => Some(match found.kind() {
                Kind::Table => TableType::Base,
                Kind::View => TableType::View,
            }),
            None => None,
        })
    }
}
