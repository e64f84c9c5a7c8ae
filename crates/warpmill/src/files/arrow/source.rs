//! Scans of Arrow files.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use object_store::ObjectStore;

use super::batches::Batches;
use super::input::Input;

/// Arrow files, and the columns that are read from them.
#[derive(Clone)]
pub(super) struct ArrowFiles {
    metrics: ExecutionPlanMetricsSet,
    projection: SplitProjection,
    schema: TableSchema,
    memory: Arc<dyn MemoryPool>,
}

impl ArrowFiles {
    /// All columns of files with this schema.
    pub fn new(schema: TableSchema) -> Self {
        let projection = SplitProjection::unprojected(&schema);
        let memory = Arc::new(UnboundedMemoryPool::default());
        Self { metrics: ExecutionPlanMetricsSet::new(), projection, schema, memory }
    }

    /// The same source with batches accounted to a session's memory.
    pub fn with_memory(self, memory: &Arc<dyn MemoryPool>) -> Self {
        Self { memory: Arc::clone(memory), ..self }
    }
}

impl FileSource for ArrowFiles {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let (schema, wanted) = (self.schema.clone(), self.projection.file_indices.clone());
        let memory = Arc::clone(&self.memory);
        let opener = Arc::new(Opener { store, schema, wanted, memory });
        ProjectionOpener::try_new(self.projection.clone(), opener, self.schema.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, _batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "arrow"
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.schema.file_schema(), &merged);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut next = TreeNodeRecursion::Continue;
        for item in self.projection.source.iter() {
            next = f(&item.expr)?;
            if next == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(next)
    }
}

/// Opens the files of a scan.
struct Opener {
    store: Arc<dyn ObjectStore>,
    schema: TableSchema,
    wanted: Vec<usize>,
    memory: Arc<dyn MemoryPool>,
}

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (store, schema) = (Arc::clone(&self.store), Arc::clone(self.schema.file_schema()));
        let (wanted, memory) = (self.wanted.clone(), Arc::clone(&self.memory));
        Ok(async move {
            let input = Input::open(&store, &file.object_meta).await?;
            Batches::open(input, &memory, file.range.clone()).await?.rows(schema, wanted)
        }
        .boxed())
    }
}
