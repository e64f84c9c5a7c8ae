//! Tables of URLs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use parking_lot::RwLock;

use super::location::{Location, is_remote};
use super::settings::RemoteOptions;
use super::store::{RemoteStore, Shared};
use super::{RemoteError, RemoteReason};

/// The session's knowledge of object stores and web servers.
#[derive(Debug)]
pub(crate) struct Remote {
    shared: Arc<Shared>,
    allowed: bool,
    state: RwLock<Weak<RwLock<SessionState>>>,
}

/// The options for reading files as a table.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// `parquet`, `csv` or `json`; `None`: by the file name's extension, Parquet by default.
    pub file_type: Option<String>,
    /// Options of the format.
    pub options: HashMap<String, String>,
    /// Names and types of the columns; `None`: from the files.
    pub schema: Option<SchemaRef>,
}

impl Remote {
    /// The remote files of a session; `allowed`: it may read files.
    pub fn new(allowed: bool) -> Self {
        Self { shared: Arc::default(), allowed, state: RwLock::default() }
    }

    /// Whether the session may read files.
    pub fn allowed(&self) -> bool {
        self.allowed
    }

    /// Sets the session state whose tables later lookups use.
    pub fn attach(&self, state: Weak<RwLock<SessionState>>) {
        *self.state.write() = state;
    }

    /// Takes the session's settings.
    pub fn update(&self, options: RemoteOptions) {
        let mut shared = self.shared.options.write();
        if shared.1 != options {
            *shared = (shared.0 + 1, options);
        }
    }

    /// The table that a query calls `name`; `None` where it is not a URL, or the session may not read files.
    pub async fn named(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.allowed || !is_remote(name) {
            return Ok(None);
        }
        let state = self.state.read().upgrade().map(|state| state.read().clone());
        let state = state.ok_or_else(|| DataFusionError::Internal("the session has ended".into()))?;
        self.table(&state, name, Reading::default()).await.map(Some)
    }

    /// Registers the store of `url` with DataFusion.
    ///
    /// # Errors
    /// A malformed URL; a session that may not read files.
    pub fn open(&self, runtime: &RuntimeEnv, url: &str) -> Result<()> {
        let location = Location::parse(url).map_err(external)?;
        self.open_location(runtime, &location)
    }

    fn open_location(&self, runtime: &RuntimeEnv, location: &Location) -> Result<()> {
        if !self.allowed {
            return Err(external(RemoteError::new(location.shown.clone(), RemoteReason::Forbidden)));
        }
        // The embedding program may have registered its own store.
        if runtime.object_store(&location.url).is_err() {
            let store = RemoteStore::new(Arc::clone(&self.shared), location.base.clone());
            runtime.register_object_store(location.url.get_url(), Arc::new(store));
        }
        Ok(())
    }

    /// The files of `url` as a table.
    ///
    /// # Errors
    /// A URL that is not understood, files that are not there or cannot be read, a session that may not read files.
    pub async fn table(&self, state: &SessionState, url: &str, reading: Reading) -> Result<Arc<dyn TableProvider>> {
        let location = Location::parse(url).map_err(external)?;
        self.open_location(state.runtime_env(), &location)?;
        let file_type = reading.file_type.unwrap_or_else(|| file_type(location.name()).to_string());
        let missing = || DataFusionError::Configuration(format!("there is no file format {file_type}"));
        let format = state.get_file_format_factory(&file_type).ok_or_else(missing)?.create(state, &reading.options)?;
        let extension = if location.url.is_collection() && location.url.get_glob().is_none() {
            format!(".{}", format.get_ext().trim_start_matches('.'))
        } else {
            String::new()
        };
        exists(state, &location, &extension).await?;
        let options = ListingOptions::new(format).with_file_extension(extension);
        let config = ListingTableConfig::new(location.url.clone()).with_listing_options(options);
        let config = match reading.schema {
            Some(schema) => config.with_schema(schema),
            None => {
                let config = if location.is_file() { config } else { config.infer_partitions_from_path(state).await? };
                config.infer_schema(state).await.map_err(|error| location.unreadable(&file_type, error))?
            }
        };
        let files = ListingTable::try_new(config)?;
        Ok(match location.is_file() {
            true => Arc::new(RemoteTable { files, url: location.shown }),
            false => Arc::new(files),
        })
    }
}

impl Location {
    /// Converts an error of reading the files, and names them.
    fn unreadable(&self, file_type: &str, error: DataFusionError) -> DataFusionError {
        if RemoteError::find(&error).is_some() {
            return error;
        }
        let text = format!("not a whole {file_type} file: {}", error.strip_backtrace());
        external(RemoteError::new(self.shown.clone(), RemoteReason::Other(text)))
    }
}

/// A table of one file. A query fails if the file is missing: DataFusion would take it for a folder without files.
#[derive(Debug)]
struct RemoteTable {
    files: ListingTable,
    url: String,
}

#[async_trait]
impl TableProvider for RemoteTable {
    fn schema(&self) -> SchemaRef {
        self.files.schema()
    }

    fn table_type(&self) -> TableType {
        self.files.table_type()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.files.scan(state, projection, filters, limit).await?;
        match plan.is::<EmptyExec>() {
            true => Err(external(RemoteError::new(self.url.clone(), RemoteReason::NotFound))),
            false => Ok(plan),
        }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.files.supports_filters_pushdown(filters)
    }
}

fn external(error: RemoteError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Checks that there is a file at `location`.
async fn exists(state: &SessionState, location: &Location, extension: &str) -> Result<()> {
    let store = state.runtime_env().object_store(&location.url)?;
    let found = match location.web {
        true => store.head(location.url.prefix()).await.map(|_| true)?,
        false => {
            let mut files = location.url.list_all_files(state, store.as_ref(), extension).await?;
            files.next().await.transpose()?.is_some()
        }
    };
    let reason = if location.is_file() { RemoteReason::NotFound } else { RemoteReason::Nothing };
    if found { Ok(()) } else { Err(external(RemoteError::new(location.shown.clone(), reason))) }
}

/// The format by the extension of a name or a pattern.
fn file_type(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    match name.rsplit('.').next() {
        Some("csv") => "csv",
        Some("json" | "ndjson" | "jsonl") => "json",
        _ => "parquet",
    }
}

/// `CREATE EXTERNAL TABLE` with URLs; other locations are left to `inner`.
#[derive(Debug)]
pub(crate) struct RemoteTableFactory {
    pub remote: Arc<Remote>,
    pub inner: Arc<dyn TableProviderFactory>,
}

#[async_trait]
impl TableProviderFactory for RemoteTableFactory {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        if !command.locations.iter().any(|location| is_remote(location)) {
            return self.inner.create(state, command).await;
        }
        let full = state.as_any().downcast_ref::<SessionState>();
        let full = full.ok_or_else(|| DataFusionError::Internal("a state of another kind".into()))?;
        let simple = command.table_partition_cols.is_empty() && command.order_exprs.is_empty();
        if let ([location], true) = (&command.locations[..], simple) {
            let schema = Arc::clone(command.schema.inner());
            let reading = Reading {
                file_type: Some(command.file_type.clone()),
                options: command.options.clone(),
                schema: (!schema.fields().is_empty()).then_some(schema),
            };
            return self.remote.table(full, location, reading).await;
        }
        for location in &command.locations {
            let parsed = Location::parse(location).map_err(external)?;
            if parsed.url.get_glob().is_some() {
                let text = "a pattern in a URL with several locations, PARTITIONED BY or WITH ORDER: name the folder";
                return Err(DataFusionError::NotImplemented(text.into()));
            }
            self.remote.open_location(full.runtime_env(), &parsed)?;
        }
        self.inner.create(state, command).await
    }
}
