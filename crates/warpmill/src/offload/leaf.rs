//! The parts of a leaf that scans Parquet files: a replacement of the scan has to return the same rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use object_store::ObjectMeta;
use warpmill_format::TableSnapshot;
use warpmill_translate::scan_exec::WarpmillScanExec;

use crate::Error;
use crate::remote::is_remote;

/// The files of a scan, and its columns, predicate and projection.
pub(super) struct ParquetLeaf {
    /// The name of the files in plans.
    pub name: String,
    /// The files in scan order, repeated as often as they are scanned.
    pub files: Vec<Named>,
    /// The store of remote files.
    pub store: ObjectStoreUrl,
    /// The columns that all files have.
    pub schema: SchemaRef,
    /// The positions of the columns that are read.
    pub columns: Vec<usize>,
    /// The predicate, which is tested again above the scan: the scan may use it to skip rows.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The projection over the columns.
    list: Vec<ProjectionExpr>,
}

/// A file that is scanned.
#[derive(Clone)]
pub(super) enum Named {
    Local(PathBuf),
    Remote(ObjectMeta),
}

impl ParquetLeaf {
    /// Whether `leaf` is a scan of Parquet files.
    pub fn is_one(leaf: &Arc<dyn ExecutionPlan>) -> bool {
        leaf.downcast_ref::<DataSourceExec>()
            .is_some_and(|node| node.downcast_to_file_source::<ParquetSource>().is_some())
    }

    /// The scan of `leaf`; `None` where it does not scan Parquet files, an error where the scan cannot be replaced.
    pub fn of(leaf: &Arc<dyn ExecutionPlan>) -> Option<Result<Self, String>> {
        let node = leaf.downcast_ref::<DataSourceExec>()?;
        let (config, source) = node.downcast_to_file_source::<ParquetSource>()?;
        let name = shown(config);
        Some(Self::new(leaf, config, source).map_err(|reason| format!("{name}: {reason}")))
    }

    fn new(leaf: &Arc<dyn ExecutionPlan>, config: &FileScanConfig, source: &ParquetSource) -> Result<Self, String> {
        if let Some(reason) = unlike_a_table(leaf, config, source) {
            return Err(reason.into());
        }
        let files = files(config)?;
        // Computed columns are computed above the scan.
        let schema = config.file_schema();
        let all = || (0..schema.fields().len()).map(|index| expression(schema, index));
        let list: Vec<ProjectionExpr> = match config.file_source().projection() {
            Some(projection) => projection.as_ref().to_vec(),
            None => all().collect(),
        };
        let mut columns: Vec<usize> =
            list.iter().flat_map(|item| collect_columns(&item.expr)).map(|column| column.index()).collect();
        columns.sort_unstable();
        columns.dedup();
        if columns.iter().any(|&column| column >= schema.fields().len()) {
            return Err("a column that is not in the files".into());
        }
        let (name, store, schema) = (shown(config), config.object_store_url.clone(), Arc::clone(schema));
        Ok(Self { name, files, store, schema, columns, predicate: source.filter(), list })
    }

    /// The columns that are read.
    pub fn fields(&self) -> Vec<FieldRef> {
        self.columns.iter().map(|&column| Arc::clone(&self.schema.fields()[column])).collect()
    }

    /// The same scan over `table`, which has the columns that are read.
    ///
    /// # Errors
    /// A table with other columns.
    pub fn scan(&self, table: Arc<TableSnapshot>) -> Result<Arc<dyn ExecutionPlan>, Error> {
        let scan = WarpmillScanExec::try_new(table, self.name.clone(), None)?;
        let list = self.list.iter().cloned().map(|item| {
            let moved = item.expr.transform(|expr| {
                let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
                let index = self.columns.binary_search(&column.index()).expect("it was collected");
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), index))))
            });
            Ok(ProjectionExpr { expr: moved?.data, alias: item.alias })
        });
        let list = list.collect::<Result<Vec<_>, Error>>()?;
        Ok(Arc::new(ProjectionExec::try_new(list, Arc::new(scan))?))
    }
}

fn expression(schema: &SchemaRef, index: usize) -> ProjectionExpr {
    let name = schema.field(index).name();
    ProjectionExpr { expr: Arc::new(Column::new(name, index)), alias: name.clone() }
}

/// The reason why a scan does more than return the rows of files, if it does.
fn unlike_a_table(
    leaf: &Arc<dyn ExecutionPlan>,
    config: &FileScanConfig,
    source: &ParquetSource,
) -> Option<&'static str> {
    let filters = source.table_parquet_options().global.pushdown_filters && source.filter().is_some();
    let reasons = [
        (config.limit.is_some(), "a LIMIT is part of the scan"),
        (leaf.output_ordering().is_some(), "the order of the files' rows is relied on"),
        (!config.table_partition_cols().is_empty(), "columns that are in the files' paths"),
        (filters, "filters are part of the scan (datafusion.execution.parquet.pushdown_filters)"),
    ];
    reasons.into_iter().find(|(found, _)| *found).map(|(_, reason)| reason)
}

/// The name of the files in plans.
fn shown(config: &FileScanConfig) -> String {
    let mut files = config.file_groups.iter().flat_map(|group| group.iter());
    let first = files.next().map(|file| file.object_meta.location.to_string()).unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default().to_owned();
    if files.any(|file| file.object_meta.location.to_string() != first) { format!("{name}, ...") } else { name }
}

/// The files in scan order, repeated as often as they are scanned.
fn files(config: &FileScanConfig) -> Result<Vec<Named>, String> {
    let url = config.object_store_url.as_str();
    let remote = is_remote(url);
    if !remote && !url.starts_with("file:") {
        return Err(format!("{url} is neither a local file system nor an object store or a web server"));
    }
    // The ranges of files, where files are split into byte ranges.
    let mut files = Vec::<Named>::new();
    let mut ranged = Vec::<(Named, &str, i64, i64)>::new();
    for file in config.file_groups.iter().flat_map(|group| group.iter()) {
        let location = file.object_meta.location.as_ref();
        let named = match remote {
            true => Named::Remote(file.object_meta.clone()),
            false => Named::Local(Path::new("/").join(location)),
        };
        if let Named::Local(path) = &named
            && !path.is_file()
        {
            return Err(format!("there is no file {}", path.display()));
        }
        let size = file.object_meta.size as i64;
        match (&file.range, ranged.iter_mut().find(|(_, other, ..)| *other == location)) {
            (None, _) => files.push(named),
            (Some(range), Some((_, _, bytes, _))) => *bytes += range.end - range.start,
            (Some(range), None) => ranged.push((named, location, range.end - range.start, size)),
        }
    }
    for (named, location, bytes, size) in ranged {
        if size <= 0 || bytes % size != 0 {
            return Err(format!("only a part of {location} is scanned"));
        }
        files.extend((0..bytes / size).map(|_| named.clone()));
    }
    Ok(files)
}
