//! Arrow files as DataFusion's planner sees them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore};

use super::batches::Batches;
use super::input::Input;
use super::source::ArrowFiles;
use crate::dialect::received_schema;

/// Wraps the formats of another factory in [`CheckedArrow`].
#[derive(Debug)]
pub(crate) struct CheckedArrowFactory(pub Arc<dyn FileFormatFactory>);

impl GetExt for CheckedArrowFactory {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for CheckedArrowFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(CheckedArrow(self.0.create(state, options)?)))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(CheckedArrow(self.0.default()))
    }
}

/// Arrow files that are checked when they are read. The format inside writes them.
#[derive(Debug)]
struct CheckedArrow(Arc<dyn FileFormat>);

#[async_trait]
impl FileFormat for CheckedArrow {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.0.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.0.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let mut schemas = Vec::with_capacity(objects.len());
        let pool = &state.runtime_env().memory_pool;
        for object in objects {
            let batches = Batches::open(Input::open(store, object).await?, pool, None).await?;
            schemas.push(Arc::unwrap_or_clone(batches.schema));
        }
        Ok(received_schema(&Arc::new(Schema::try_merge(schemas)?)))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.0.infer_stats(state, store, schema, object).await
    }

    async fn create_physical_plan(&self, state: &dyn Session, scan: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(files) = scan.file_source().downcast_ref::<ArrowFiles>().cloned() else {
            return Ok(DataSourceExec::from_data_source(scan));
        };
        let files = Arc::new(files.with_memory(&state.runtime_env().memory_pool));
        Ok(DataSourceExec::from_data_source(FileScanConfigBuilder::from(scan).with_source(files).build()))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.create_writer_physical_plan(input, state, sink, order).await
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(ArrowFiles::new(schema))
    }
}
