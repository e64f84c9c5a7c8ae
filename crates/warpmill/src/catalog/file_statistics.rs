//! Local Parquet files as tables: statistics from their footers and the headers of their dictionaries.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use parking_lot::Mutex;
use warpmill_format::parquet_file::{ParquetFile, distinct_values, table_of};
use warpmill_translate::scan_exec::table_statistics;

use crate::files::CheckedParquet;
use crate::join_order::{ColumnStats, TableStats};

/// Largest number of files of a table for which statistics are collected: each file is checked whenever a statement is planned.
const MOST_FILES: usize = 1024;
/// Largest depth of nested folders that are searched for files: links may form cycles.
const MOST_FOLDERS: usize = 32;
/// Largest number of columns of a table with column statistics.
const MOST_COLUMNS: usize = 256;
/// Largest number of tables with cached statistics.
const MOST_TABLES: usize = 256;

/// Statistics that were made of files as they were then.
struct Known {
    files: Vec<Arc<ParquetFile>>,
    schema: SchemaRef,
    stats: TableStats,
}

static KNOWN: LazyLock<Mutex<HashMap<Vec<PathBuf>, Known>>> = LazyLock::new(Mutex::default);

/// The current files of a table of Parquet files, in order; `None` for other tables, for many files, and for files that cannot be read: a read
/// reports the reason.
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

/// The statistics of a table of Parquet files; `None` if [`files`] returns none.
pub(crate) fn of(table: &ListingTable) -> Option<TableStats> {
    let files = files(table)?;
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_owned()).collect();
    let schema = table.schema();
    let is_same = |known: &&Known| {
        let same_files =
            known.files.len() == files.len() && known.files.iter().zip(&files).all(|(a, b)| Arc::ptr_eq(a, b));
        same_files && known.schema == schema
    };
    if let Some(known) = KNOWN.lock().get(&paths).filter(is_same) {
        return Some(known.stats.clone());
    }
    let stats = made(&files, &schema);
    let mut known = KNOWN.lock();
    if known.len() >= MOST_TABLES {
        known.clear();
    }
    known.insert(paths, Known { files, schema, stats: stats.clone() });
    Some(stats)
}

/// Adds the files of `url`, in order; `None` if they are not local, or too many.
fn collect(url: &ListingTableUrl, extension: &str, paths: &mut Vec<PathBuf>) -> Option<()> {
    if url.scheme() != "file" {
        return None;
    }
    let root = Path::new("/").join(url.prefix().as_ref());
    if url.get_glob().is_none() && !root.is_dir() {
        paths.push(root);
        return Some(());
    }
    let mut found = vec![];
    walk(&root, extension, MOST_FOLDERS, &mut found)?;
    // As in DataFusion's listing, nested folders count if their names are `column=value`.
    let is_named = |path: &PathBuf| {
        let path = path.strip_prefix("/").unwrap_or(path).to_string_lossy();
        object_store::path::Path::parse(path).is_ok_and(|path| url.contains(&path, true))
    };
    paths.extend(found.into_iter().filter(is_named));
    paths.sort();
    Some(())
}

/// Adds the files in a folder, and in nested folders up to `depth` levels.
fn walk(folder: &Path, extension: &str, depth: usize, paths: &mut Vec<PathBuf>) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    for entry in std::fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let path = entry.path();
        // Links are followed, as in listings for scans.
        if std::fs::metadata(&path).ok()?.is_dir() {
            walk(&path, extension, depth, paths)?;
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
    let column = |field: &Arc<Field>| {
        // Partition columns are in no file, and other types' footers have few statistics.
        let Ok(found) = table_of(files, &Arc::new(Schema::new(vec![Arc::clone(field)]))) else {
            return ColumnStats::default();
        };
        let stats = ColumnStats::from(&table_statistics(&found, &[0]).column_statistics[0]);
        ColumnStats { distinct: distinct_values(files, field.name()), ..stats }
    };
    // Very wide tables get row counts only.
    let columns =
        if schema.fields().len() > MOST_COLUMNS { vec![] } else { schema.fields().iter().map(column).collect() };
    TableStats { rows: files.iter().map(groups).sum(), columns }
}
