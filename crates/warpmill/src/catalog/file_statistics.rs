//! The Parquet files of this machine that tables are, and statistics from their footers and the headers of their dictionaries.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use parking_lot::Mutex;
use warpmill_format::parquet_file::{ParquetFile, distinct_values, table_of};
use warpmill_translate::scan_exec::table_statistics;

use crate::files::CheckedParquet;
use crate::join_order::{ColumnStats, TableStats};

/// Files of a table up to which statistics are looked for: each is looked at whenever a statement is planned.
const MOST_FILES: usize = 1024;
/// Tables whose statistics are kept.
const MOST_TABLES: usize = 256;

/// Statistics that were made of files as they were then.
struct Known {
    files: Vec<Arc<ParquetFile>>,
    schema: SchemaRef,
    stats: TableStats,
}

static KNOWN: LazyLock<Mutex<HashMap<Vec<PathBuf>, Known>>> = LazyLock::new(Mutex::default);

/// The files of a table of Parquet files, in order, as they are now; `None` of others, of many files, and of files that cannot be read: reading
/// them says why.
pub(crate) fn files(table: &ListingTable) -> Option<Vec<Arc<ParquetFile>>> {
    let options = table.options();
    let format: &dyn Any = options.format.as_ref();
    if !format.is::<ParquetFormat>() && !format.is::<CheckedParquet>() {
        return None;
    }
    let mut paths = vec![];
    for url in table.table_paths() {
        collect(url, &options.file_extension, &mut paths)?;
    }
    paths.iter().map(|path| ParquetFile::open(path).ok()).collect()
}

/// The statistics of a table of Parquet files; `None` where [`files`] gives none.
pub(crate) fn of(table: &ListingTable) -> Option<TableStats> {
    let files = files(table)?;
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    let schema = table.schema();
    let mut known = KNOWN.lock();
    let is_same = |known: &&Known| {
        let same_files =
            known.files.len() == files.len() && known.files.iter().zip(&files).all(|(a, b)| Arc::ptr_eq(a, b));
        same_files && known.schema == schema
    };
    if let Some(known) = known.get(&paths).filter(is_same) {
        return Some(known.stats.clone());
    }
    let stats = made(&files, &schema);
    if known.len() >= MOST_TABLES {
        known.clear();
    }
    known.insert(paths, Known { files, schema, stats: stats.clone() });
    Some(stats)
}

/// Adds the files that `url` names, in order; `None` where they are not on this machine, or too many.
fn collect(url: &ListingTableUrl, extension: &str, paths: &mut Vec<PathBuf>) -> Option<()> {
    if url.scheme() != "file" {
        return None;
    }
    let root = Path::new("/").join(url.prefix().as_ref());
    if let Some(pattern) = url.get_glob() {
        let pattern = format!("{}/{pattern}", glob::Pattern::escape(&root.to_string_lossy()));
        let found = glob::glob(&pattern).ok()?.filter_map(Result::ok).filter(|path| path.is_file());
        paths.extend(found.take(MOST_FILES + 1));
    } else if root.is_dir() {
        walk(&root, extension, paths)?;
    } else {
        paths.push(root);
    }
    paths.sort();
    (paths.len() <= MOST_FILES).then_some(())
}

fn walk(folder: &Path, extension: &str, paths: &mut Vec<PathBuf>) -> Option<()> {
    for entry in std::fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let (path, kind) = (entry.path(), entry.file_type().ok()?);
        if kind.is_dir() {
            walk(&path, extension, paths)?;
        } else if path.to_string_lossy().ends_with(extension) {
            paths.push(path);
        }
        if paths.len() > MOST_FILES {
            return None;
        }
    }
    Some(())
}

fn made(files: &[Arc<ParquetFile>], schema: &SchemaRef) -> TableStats {
    let groups =
        |file: &Arc<ParquetFile>| file.metadata().row_groups().iter().map(|group| group.num_rows() as f64).sum::<f64>();
    let column = |field: &Arc<arrow::datatypes::Field>| {
        // Columns of folders' names are in no file, and others are stored in ways of which footers say little.
        let Ok(found) = table_of(files, &Arc::new(Schema::new(vec![Arc::clone(field)]))) else {
            return ColumnStats::default();
        };
        let stats = ColumnStats::from(&table_statistics(&found, &[0]).column_statistics[0]);
        ColumnStats { distinct: distinct_values(files, field.name()), ..stats }
    };
    TableStats { rows: files.iter().map(groups).sum(), columns: schema.fields().iter().map(column).collect() }
}
