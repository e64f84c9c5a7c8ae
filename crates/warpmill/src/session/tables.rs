//! Tables from batches, files and handles.

use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::common::config::ExtensionOptions;
use datafusion::datasource::MemTable;
use datafusion::datasource::file_format::options::ReadOptions;
use datafusion::datasource::listing::{ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::prelude::{DataFrame, JsonReadOptions, ParquetReadOptions};
use warpmill_format::Table;

use super::Session;
use super::constraints::Checks;
use super::ddl::table_schema;
use crate::catalog::{Existing, files, guarded, segment_bytes, write_options};
use crate::files::CheckedParquet;
use crate::remote::{Reading, is_remote};
use crate::{Error, Result, WriteOptions, dialect};

/// The progress of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows written so far.
    pub rows: u64,
    /// The total number of rows, where known.
    pub total: Option<u64>,
}

/// Called with the progress from time to time.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

impl Session {
    /// Registers Arrow batches as a table of the session, without a copy. An existing table of the session is replaced. Columns of type NULL become
    /// INTEGER.
    pub fn register_batches(&self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<()> {
        let received = dialect::received_schema(&schema);
        let batches =
            batches.into_iter().map(|batch| dialect::with_schema(batch, &received)).collect::<Result<_, _>>()?;
        let (schema, batches) = with_types(received, batches)?;
        let (place, name) = self.place_of(name)?;
        place.put_foreign(&name, Arc::new(MemTable::try_new(schema, vec![batches])?));
        Ok(())
    }

    /// Makes a table of Warpmill a table of the session.
    ///
    /// # Errors
    /// A schema that does not exist.
    pub fn register_table(&self, name: &str, table: Arc<Table>) -> Result<()> {
        let (place, name) = self.place_of(name)?;
        place.put_table(&name, table);
        Ok(())
    }

    /// Makes anything that DataFusion can scan a table of the session.
    ///
    /// # Errors
    /// A schema that does not exist.
    pub fn register_provider(&self, name: &str, provider: Arc<dyn TableProvider>) -> Result<()> {
        let (place, name) = self.place_of(name)?;
        place.put_foreign(&name, provider);
        Ok(())
    }

    /// Registers Parquet files (a path, a directory or a glob; an `s3://` or `https://` URL) as a table of the session. Each query reads the files.
    pub fn register_parquet(&self, name: &str, path: &str) -> Result<()> {
        if is_remote(path) {
            return self.register_remote(name, path, "parquet");
        }
        let table = self.block_on(self.parquet_table(path))?;
        self.register_frame(name, self.inner.context.read_table(Arc::new(table))?)
    }

    /// As DataFusion's `read_parquet`, with checked footers.
    async fn parquet_table(&self, path: &str) -> Result<ListingTable> {
        let (context, url) = (&self.inner.context, ListingTableUrl::parse(path)?);
        let mut options =
            ParquetReadOptions::default().to_listing_options(&context.copied_config(), context.copied_table_options());
        let extension = &options.file_extension;
        if !url.as_str().ends_with(extension.as_str()) && !url.is_collection() {
            return Err(Error::Plan(format!("File path '{url}' does not match the expected extension '{extension}'")));
        }
        options.format = Arc::new(CheckedParquet(options.format));
        let config = ListingTableConfig::new(url).with_listing_options(options);
        let table = ListingTable::try_new(config.infer_schema(&context.state()).await?)?;
        Ok(table.with_cache(context.runtime_env().cache_manager.get_file_statistic_cache()))
    }

    /// Makes CSV files with a header (a path, a directory or a glob) a table of the session.
    pub fn register_csv(&self, name: &str, path: &str) -> Result<()> {
        if is_remote(path) {
            return self.register_remote(name, path, "csv");
        }
        let state = self.inner.context.state();
        let delimiter = if path.ends_with(".tsv") { b'\t' } else { b',' };
        self.register_provider(name, self.block_on(files::csv(&state, path, Some(delimiter)))?)
    }

    /// Registers files with one JSON object per line (a path, a directory or a glob) as a table of the session.
    pub fn register_json(&self, name: &str, path: &str) -> Result<()> {
        if is_remote(path) {
            return self.register_remote(name, path, "json");
        }
        let extension = extension_of(path, ".json");
        let options = JsonReadOptions::default().file_extension(&extension);
        let frame = self.block_on(self.inner.context.read_json(path, options))?;
        self.register_frame(name, frame)
    }

    fn register_remote(&self, name: &str, url: &str, file_type: &str) -> Result<()> {
        let reading = Reading { file_type: Some(file_type.into()), ..Reading::default() };
        let state = self.inner.context.state();
        let table = self.block_on(self.inner.remote.table(&state, url, reading))?;
        self.register_provider(name, table)
    }

    /// Registers the stores of URLs (`s3://bucket/path`, `https://host/path`) with [`Session::context`]; other texts are skipped. Only the session
    /// itself supports patterns.
    ///
    /// # Errors
    /// A malformed URL, a session that may not read files.
    pub fn open_stores<'a>(&self, urls: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let runtime = self.inner.context.runtime_env();
        for url in urls.into_iter().filter(|url| is_remote(url)) {
            self.inner.remote.open(&runtime, url)?;
        }
        Ok(())
    }

    fn register_frame(&self, name: &str, frame: DataFrame) -> Result<()> {
        self.register_provider(name, frame.into_view())
    }

    /// Forgets a registered table. Stored tables stay: DROP TABLE removes them.
    pub fn deregister(&self, name: &str) -> Result<()> {
        let (place, name) = self.place_of(name)?;
        place.forget(&name)
    }

    /// Writes `batches` into table `name`: stored where there is a database directory, otherwise in memory. An existing table is replaced if
    /// `replace`, else an error. The table becomes visible with all rows, or not at all.
    pub fn create_table(
        &self,
        name: &str,
        schema: SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch>>,
        options: WriteOptions,
        replace: bool,
        progress: Option<ProgressFn>,
    ) -> Result<()> {
        let _turn = self.inner.turns.wait(false)?;
        let (place, table) = self.place_of(name)?;
        if !replace && place.kind(&table)?.is_some() {
            return Err(Error::Catalog(format!("table '{name}' already exists")));
        }
        let query = self.inner.running.start();
        let existing = if replace { Existing::Goes } else { Existing::Stays };
        let schema = dialect::received_schema(&schema);
        let mut writer = place.build(&table, table_schema(&schema), self.layout(&table, options)?, existing)?;
        let gate = query.handle.commit.clone();
        writer.commit_only_if(move || gate.pass());
        let mut rows = 0;
        for batch in batches {
            let batch = dialect::with_schema(batch?, &schema)?;
            query.handle.cancel.check().map_err(|_| Error::Cancelled)?;
            writer.write(&batch)?;
            rows += batch.num_rows() as u64;
            if let Some(progress) = &progress {
                progress(Progress { rows, total: None });
            }
        }
        place.commit(&table, writer, existing)
    }

    /// Appends `batches` to table `name` of Warpmill, all or none. Columns are matched by position, as the table's writer
    /// does: types of the same kind are converted, values that do not fit are an error.
    pub fn append_table(&self, name: &str, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<u64> {
        let _turn = self.inner.turns.wait(false)?;
        let (place, own_name) = self.place_of(name)?;
        let table = match (place.warpmill_table(&own_name)?, place.kind(&own_name)?) {
            (Some(table), _) => table,
            (None, Some(_)) => {
                let text = format!("'{name}' is not a table of Warpmill: rows cannot be appended");
                return Err(Error::Catalog(text));
            }
            (None, None) => return Err(Error::Catalog(format!("table '{name}' not found"))),
        };
        let query = self.inner.running.start();
        let mut writer = table.append(self.layout(&own_name, WriteOptions::default())?)?;
        let schema = Arc::clone(table.snapshot()?.schema());
        let checks = match writer.base() {
            Some(base) if !base.constraints().is_empty() => {
                let state = Arc::new(self.inner.context.state());
                self.block_on(Checks::planned(&state, base.schema(), base.constraints(), &own_name))?
            }
            _ => None,
        };
        guarded(&mut writer, &own_name, checks.as_ref(), Some(&place.siblings(&own_name, &table)));
        let gate = query.handle.commit.clone();
        writer.commit_only_if(move || gate.pass());
        let mut rows = 0;
        for batch in batches {
            let batch = dialect::as_members(&batch?, &schema)?;
            query.handle.cancel.check().map_err(|_| Error::Cancelled)?;
            writer.write(&batch)?;
            rows += batch.num_rows() as u64;
        }
        writer.commit()?;
        Ok(rows)
    }

    /// The session's options for writing tables, with `settings` (names and values, such as `codec` and `lz4`) overriding its own.
    ///
    /// # Errors
    /// Unknown settings, invalid values.
    pub fn write_options(&self, settings: &[(String, String)]) -> Result<WriteOptions> {
        let mut options = self.options();
        for (name, value) in settings {
            options.set(name.strip_prefix("warpmill.").unwrap_or(name), value)?;
        }
        Ok(write_options(&options))
    }

    /// The session's settings where `options` has the defaults.
    pub(super) fn defaults(&self, options: WriteOptions) -> WriteOptions {
        let settings = self.options();
        let default = WriteOptions::default();
        WriteOptions {
            segment_rows: match options.segment_rows {
                rows if rows == default.segment_rows => settings.segment_rows,
                rows => rows,
            },
            segment_bytes: match options.segment_bytes {
                bytes if bytes == default.segment_bytes => segment_bytes(&settings),
                bytes => bytes,
            },
            metadata: match options.metadata {
                metadata if metadata == default.metadata => settings.pruning_metadata,
                metadata => metadata,
            },
            zone_rows: match options.zone_rows {
                rows if rows == default.zone_rows => settings.zone_rows,
                rows => rows,
            },
            threads: if options.threads == 0 { settings.threads } else { options.threads },
            codec: options.codec.or_else(|| settings.codec.options(settings.worker_threads())),
            direct_io: options.direct_io || settings.direct_io,
            key_bytes: options.key_bytes.min(settings.memory_limit),
            ..options
        }
    }
}

/// Batches with columns of type NULL as INTEGER.
fn with_types(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    if schema.fields().iter().all(|field| *field.data_type() != DataType::Null) {
        return Ok((schema, batches));
    }
    let typed = |field: &FieldRef| match field.data_type() {
        DataType::Null => Arc::new(field.as_ref().clone().with_data_type(DataType::Int32)),
        _ => Arc::clone(field),
    };
    let fields: Fields = schema.fields().iter().map(typed).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let batches = batches.into_iter().map(|batch| {
        let columns = batch.columns().iter().map(|column| match column.data_type() {
            DataType::Null => new_null_array(&DataType::Int32, column.len()),
            _ => Arc::clone(column),
        });
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns.collect())?)
    });
    let batches = batches.collect::<Result<_>>()?;
    Ok((schema, batches))
}

/// The required extension of files in `path`: the path's own, where it has one.
fn extension_of(path: &str, default: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.split_once('.') {
        Some((_, extension)) if !extension.contains(['*', '?', '[', '{']) => format!(".{extension}"),
        _ => default.to_string(),
    }
}
