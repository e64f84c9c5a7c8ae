//! Files into tables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use futures::StreamExt;
use warpmill_format::FormatError;
use warpmill_format::ingest::{
    CsvOptions, ParquetOptions, Progressed, csv_schema, ingest_csv, ingest_parquet, parquet_schema,
};

use super::{Progress, ProgressFn, Session};
use crate::catalog::Existing;
use crate::dialect::{self, Form};
use crate::{Error, Result, WriteOptions};

/// File formats with a native reader, whose errors name row group or line, and column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Parquet,
    Csv,
}

impl Session {
    /// Reads files (a path, a directory or a glob of Parquet, CSV or JSON) into table `table`, which is replaced if it
    /// exists.
    ///
    /// # Errors
    /// Errors name the file and the position in it; the table is then unchanged.
    pub fn import(&self, source: &str, table: &str, options: WriteOptions, progress: Option<ProgressFn>) -> Result<()> {
        match source_files(source) {
            Some((format, files)) => self.import_files(format, &files, table, options, progress),
            None => self.import_query(source, table, options, progress),
        }
    }

    fn import_files(
        &self,
        format: Format,
        files: &[PathBuf],
        table: &str,
        options: WriteOptions,
        progress: Option<ProgressFn>,
    ) -> Result<()> {
        let (place, table) = self.place_of(table)?;
        let options = self.layout(&table, options)?;
        let threads = options.threads;
        let schema = schema_of(format, files)?;
        let query = self.inner.running.start();
        let mut writer = place.build(&table, schema, options, Existing::Goes)?;
        let gate = query.handle.commit.clone();
        writer.commit_only_if(move || gate.pass());
        let written = Arc::clone(writer.table());
        let mut report = |progressed: Progressed| {
            if let Some(progress) = &progress {
                progress(Progress { rows: progressed.rows, total: None });
            }
        };
        match format {
            Format::Csv => {
                let options = CsvOptions { threads, ..CsvOptions::default() };
                ingest_csv(writer, files, &options, &mut report)?
            }
            Format::Parquet => {
                let options = ParquetOptions { threads, ..ParquetOptions::default() };
                ingest_parquet(writer, files, &options, &mut report)?
            }
        };
        drop(query);
        place.committed(&table, written, Existing::Goes)
    }

    /// Imports by a query: files that only DataFusion reads, object stores, and globs in folder names.
    fn import_query(
        &self,
        source: &str,
        table: &str,
        options: WriteOptions,
        progress: Option<ProgressFn>,
    ) -> Result<()> {
        let name_source = |error: Error| match error {
            error @ (Error::Cancelled | Error::Remote(_) | Error::Io(_)) => error,
            Error::Catalog(_) => Error::Io(format!("{source}: no such file, or not Parquet, CSV or JSON")),
            error => Error::Execution(format!("{source}: {error}")),
        };
        let read = async {
            let frame = self.inner.context.table(TableReference::bare(source)).await?;
            frame.execute_stream().await
        };
        let mut stream = self.block_on(read).map_err(|error| name_source(error.into()))?;
        let schema = dialect::given_schema(&stream.schema(), Form::Exact);
        let batches = std::iter::from_fn(|| {
            let next = self.block_on(stream.next());
            let given = |batch| Ok(dialect::with_schema(batch, &schema)?);
            next.map(|batch| batch.map_err(|error| name_source(error.into())).and_then(given))
        });
        self.create_table(table, Arc::clone(&schema), batches, options, true, progress)
    }
}

fn schema_of(format: Format, files: &[PathBuf]) -> Result<SchemaRef, FormatError> {
    match format {
        Format::Csv => csv_schema(files, &CsvOptions::default()),
        Format::Parquet => parquet_schema(&files[0]),
    }
}

/// The files that `source` names, in order, if all have one format with a native reader.
fn source_files(source: &str) -> Option<(Format, Vec<PathBuf>)> {
    let path = Path::new(source);
    let files = if path.is_file() {
        vec![path.to_path_buf()]
    } else if path.is_dir() {
        listed(path, "*")
    } else {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        listed(parent, path.file_name()?.to_str()?)
    };
    let format = |file: &PathBuf| match file.extension()?.to_str()? {
        "parquet" => Some(Format::Parquet),
        "csv" => Some(Format::Csv),
        _ => None,
    };
    let first = format(files.first()?)?;
    files.iter().all(|file| format(file) == Some(first)).then_some((first, files))
}

/// The files of `folder` whose names match `pattern`, sorted by name; hidden files only if the pattern includes them.
fn listed(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            matches(pattern.as_bytes(), name.as_bytes()) && (pattern.starts_with('.') || !name.starts_with('.'))
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// Whether `name` matches a pattern of `*` (any bytes) and `?` (one byte).
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => matches(rest, name),
        (Some((b'*', rest)), Some((_, shorter))) => matches(rest, name) || matches(pattern, shorter),
        (Some((p, rest)), Some((n, shorter))) => (*p == b'?' || p == n) && matches(rest, shorter),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs() {
        assert!(matches(b"*.csv", b"a.csv") && matches(b"a?c*", b"abcd") && matches(b"*", b""));
        assert!(!matches(b"*.csv", b"a.csv2") && !matches(b"?", b"") && !matches(b"a*b", b"acx"));
    }
}
