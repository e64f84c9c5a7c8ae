//! Scans of Parquet files that devices decode themselves.
//!
//! A program gets such files as an input, whose rows DataFusion decodes. For devices the same part of the plan is translated once more,
//! with scans of the files' row groups ([`warpmill_format::parquet_file`]) in place of DataFusion's. That is done for every run: files may
//! have changed, and what is known of them (footers, pages) is kept by the files' identity, not by plans.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use object_store::ObjectMeta;
use warpmill_engine::{CancelToken, DeviceProgram};
use warpmill_format::parquet_file::{KeptBytes, ParquetFile, Unreadable, table_of};
use warpmill_ir::Source;
use warpmill_ir::pruning::leave_out_pages;
use warpmill_translate::scan_exec::WarpmillScanExec;
use warpmill_translate::{Options, translate};

use super::UnprovenSums;
use crate::Error;
use crate::remote::{RemoteParquet, is_remote};
use crate::settings::WarpmillOptions;

/// Bytes of column chunks of remote files that a query keeps on the host, at most; what is more is read each time that it is scanned.
const KEPT: u64 = 1 << 30;

/// The plan that devices run instead of a program with inputs of Parquet files.
#[derive(Debug, Default)]
pub struct ForDevices {
    /// The program; `None` where there is no such input, or none that devices decode.
    pub program: Option<DeviceProgram>,
    /// The files that the CPU decodes all the same, and why.
    pub notes: Vec<String>,
    /// The parts of remote files that are kept meanwhile.
    pub held: Held,
}

/// Remote files, of which nothing is kept once this is dropped.
#[derive(Debug, Default)]
pub struct Held(Vec<Arc<ParquetFile>>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.iter().for_each(|file| file.release());
    }
}

/// The means to read files.
pub(super) struct Readers<'a> {
    /// The session's settings.
    pub options: &'a WarpmillOptions,
    /// The place where stores are found.
    pub runtime: &'a RuntimeEnv,
    /// Ends requests.
    pub cancel: CancelToken,
    room: Arc<KeptBytes>,
}

impl<'a> Readers<'a> {
    /// For a query that `cancel` stops.
    pub fn new(options: &'a WarpmillOptions, runtime: &'a RuntimeEnv, cancel: CancelToken) -> Self {
        let room = KeptBytes::new(KEPT.min(options.memory_limit as u64 / 2));
        Self { options, runtime, cancel, room }
    }
}

/// The scan in place of a leaf, or the reason why there is none.
type Found = Result<Arc<dyn ExecutionPlan>, String>;

/// The plan that devices run instead of the program of `source`, whose inputs are `leaves`. Not for threads that run asynchronous work: footers
/// are waited for.
///
/// # Errors
/// Files that cannot be read.
pub(super) fn for_devices(
    source: &Arc<dyn ExecutionPlan>,
    leaves: &[Arc<dyn ExecutionPlan>],
    sums: UnprovenSums,
    readers: &Readers<'_>,
) -> Result<ForDevices, Error> {
    let (mut scans, mut notes, mut held) = (HashMap::new(), vec![], Held::default());
    for leaf in leaves {
        match scan(leaf, readers, &mut held)? {
            Some(Ok(scan)) => drop(scans.insert(address(leaf), scan)),
            Some(Err(reason)) => notes.push(reason),
            None => {}
        }
    }
    if scans.is_empty() {
        return Ok(ForDevices { program: None, notes, held });
    }
    let scan = |leaf: &Arc<dyn ExecutionPlan>| scans.get(&address(leaf)).cloned();
    let wide_sums = sums == UnprovenSums::Wide;
    let pruning = readers.options.pruning;
    let translated =
        translate(source, &Options { fallback: true, wide_sums, pruning, scans: &scan, ..Options::default() });
    let translated = match translated {
        Ok(mut translated) => {
            for pipeline in &mut translated.program.pipelines {
                if let Source::Scan(scan) = &mut pipeline.source {
                    leave_out_pages(scan)?;
                }
            }
            Ok(translated)
        }
        refused => refused,
    };
    let position = |input: &Arc<dyn ExecutionPlan>| leaves.iter().position(|leaf| address(leaf) == address(input));
    let program = translated.map_err(|reason| reason.to_string()).and_then(|translated| {
        let inputs: Option<Vec<usize>> = translated.inputs.iter().map(position).collect();
        let inputs = inputs.ok_or("the plan falls apart in another way")?;
        Ok(DeviceProgram { program: Arc::new(translated.program), inputs })
    });
    Ok(match program {
        Ok(program) => ForDevices { program: Some(program), notes, held },
        Err(reason) => {
            notes.push(format!("Parquet files: {reason}"));
            ForDevices { program: None, notes, held }
        }
    })
}

/// The address that tells a plan from others as long as it is held.
fn address(plan: &Arc<dyn ExecutionPlan>) -> usize {
    Arc::as_ptr(plan).cast::<()>() as usize
}

/// The scan that `leaf` stands for; `None` where it is none of Parquet files.
fn scan(leaf: &Arc<dyn ExecutionPlan>, readers: &Readers<'_>, held: &mut Held) -> Result<Option<Found>, Error> {
    let Some(node) = leaf.downcast_ref::<DataSourceExec>() else { return Ok(None) };
    let Some((config, source)) = node.downcast_to_file_source::<ParquetSource>() else { return Ok(None) };
    let name = shown(config);
    let refused = |reason: String| Ok(Some(Err(format!("{name}: {reason}"))));
    if let Some(reason) = unlike_a_table(leaf, config, source) {
        return refused(reason.into());
    }
    let named = match files(config) {
        Ok(files) => files,
        Err(reason) => return refused(reason),
    };
    let files = named.iter().map(|file| file.open(config, readers)).collect::<Result<Vec<_>, Error>>()?;
    held.0.extend(files.iter().cloned());
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
        return refused("a column that is not in the files".into());
    }
    let fields: Vec<_> = columns.iter().map(|&column| schema.fields()[column].clone()).collect();
    let found = match table_of(&files, &Arc::new(Schema::new(fields))) {
        Ok(found) => found,
        Err(Unreadable::Format(error)) => return Err(error.into()),
        Err(unreadable @ Unreadable::Column { .. }) => return Ok(Some(Err(unreadable.to_string()))),
    };
    let scan = WarpmillScanExec::try_new(found, name.clone(), None)?;
    let list = list.into_iter().map(|item| {
        let moved = item.expr.transform(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let index = columns.binary_search(&column.index()).expect("it was collected");
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), index))))
        });
        Ok(ProjectionExpr { expr: moved?.data, alias: item.alias })
    });
    let list = list.collect::<Result<Vec<_>, Error>>()?;
    Ok(Some(Ok(Arc::new(ProjectionExec::try_new(list, Arc::new(scan))?))))
}

fn expression(schema: &SchemaRef, index: usize) -> ProjectionExpr {
    let name = schema.field(index).name();
    ProjectionExpr { expr: Arc::new(Column::new(name, index)), alias: name.clone() }
}

/// The work of a scan beyond giving the rows of files.
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

/// A file that is scanned.
#[derive(Clone)]
enum Named {
    Local(PathBuf),
    Remote(ObjectMeta),
}

impl Named {
    fn open(&self, config: &FileScanConfig, readers: &Readers<'_>) -> Result<Arc<ParquetFile>, Error> {
        match self {
            Named::Local(path) => Ok(ParquetFile::open(path)?),
            Named::Remote(object) => {
                let (url, cancel) = (&config.object_store_url, readers.cancel.clone());
                let file = RemoteParquet::new(readers.runtime, url, object.clone(), cancel)?;
                Ok(ParquetFile::open_remote(Arc::new(file), &readers.room)?)
            }
        }
    }
}

/// The files that are scanned, each as often as it is.
fn files(config: &FileScanConfig) -> Result<Vec<Named>, String> {
    let url = config.object_store_url.as_str();
    let remote = is_remote(url);
    if !remote && !url.starts_with("file:") {
        return Err(format!("{url} is neither a local file system nor an object store or a web server"));
    }
    // The parts of files that are scanned, where files are cut into ranges of bytes.
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
            return Err(format!("{} cannot be found by its path", path.display()));
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
