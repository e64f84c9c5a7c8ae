//! JSON files: one value per line, or an array.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema;
use datafusion::catalog::TableProvider;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::execution::SessionState;
use serde::de::IgnoredAny;

use super::by_name::{ByName, listing};
use super::own_columns::OwnColumns;
use super::stream::{self, Batches, Format};
use super::{Call, Compression, Given, type_called};
use crate::{Error, Result};

const KNOWN: [&str; 13] = [
    "columns",
    "format",
    "records",
    "compression",
    "filename",
    "union_by_name",
    "ignore_errors",
    "hive_partitioning",
    "auto_detect",
    "maximum_object_size",
    "sample_size",
    "maximum_depth",
    "maximum_sample_files",
];

/// Options of JSON files.
#[derive(Default)]
struct Options {
    /// Whether a file is an array; `None`: detected by its first byte.
    array: Option<bool>,
    columns: Option<Vec<(String, String)>>,
    compression: Option<Compression>,
    filename: Option<String>,
    ignore_errors: bool,
    hive: Option<bool>,
}

impl Options {
    fn of(call: &Call) -> Result<Self> {
        let lines = call.function.starts_with("read_ndjson");
        let mut own = Self { array: lines.then_some(false), hive: Some(false), ..Self::default() };
        for (option, given) in &call.options {
            match (option.as_str(), given) {
                ("format", Given::One(format)) => match format.to_ascii_lowercase().as_str() {
                    "auto" => {}
                    "array" => own.array = Some(true),
                    "newline_delimited" | "nd" => own.array = Some(false),
                    other => return Err(call.refused(format!("the format {other}"))),
                },
                ("records", Given::One(records))
                    if ["auto", "true"].contains(&records.to_ascii_lowercase().as_str()) => {}
                ("auto_detect", given) if call.truth(option, given)? => {}
                ("columns", Given::Map(columns)) => own.columns = Some(columns.clone()),
                ("compression", Given::One(kind)) => own.compression = call.compression(kind)?,
                ("filename", given) => own.filename = call.name_of_column(option, given)?,
                ("ignore_errors", given) => own.ignore_errors = call.truth(option, given)?,
                ("hive_partitioning", given) => own.hive = Some(call.truth(option, given)?),
                // Columns are joined by their names anyway.
                ("union_by_name", given) => call.truth(option, given).map(|_| ())?,
                ("maximum_object_size" | "sample_size" | "maximum_depth" | "maximum_sample_files", _) => {}
                _ => return Err(call.unknown(option, &KNOWN)),
            }
        }
        Ok(own)
    }
}

/// The table for a call.
pub(super) async fn table(call: &Call, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
    let options = Options::of(call)?;
    let files = call.files()?;
    let own = OwnColumns::of(&call.function, &files, options.filename.as_deref(), options.hive)?;
    let is_plain = |file: &String| {
        !options.ignore_errors && Compression::of(options.compression, Path::new(file)) == Compression::None
    };
    if let [file] = &files[..]
        && own.is_empty()
        && options.columns.is_none()
        && is_plain(file)
    {
        let array = options.array.map_or_else(|| is_array(file), Ok)?;
        return listing(files, json_options(state, array), state).await;
    }
    own.check_count("JSON", files.len())?;
    let mut tables = vec![];
    for file in &files {
        tables.push(match is_plain(file) {
            true => {
                let array = options.array.map_or_else(|| is_array(file), Ok)?;
                listing(vec![file.clone()], json_options(state, array), state).await?
            }
            false => lines(call, file, &options).await?,
        });
    }
    let declared = match &options.columns {
        None => None,
        Some(columns) => {
            let mut declared = vec![];
            for (name, ty) in columns {
                declared.push((name.clone(), type_called(state, &call.function, ty).await?));
            }
            Some(declared)
        }
    };
    ByName { tables, own, declared, ignore_errors: options.ignore_errors }.table()
}

/// The values of a file that is compressed, or has invalid lines.
async fn lines(call: &Call, file: &str, options: &Options) -> Result<Arc<dyn TableProvider>> {
    let compression = Compression::of(options.compression, Path::new(file));
    let format = Lines { compression, ignore_errors: options.ignore_errors };
    let (path, own, wanted) = (file.to_string(), format.clone(), options.array);
    let schema = tokio::task::spawn_blocking(move || -> Result<Option<SchemaRef>> {
        let mut reader = BufReader::new(own.compression.open(Path::new(&path))?);
        let failed = |error: std::io::Error| Error::Io(format!("{path}: {error}"));
        let array = wanted.map_or_else(|| begins_array(&mut reader).map_err(failed), Ok)?;
        if array {
            return Ok(None);
        }
        let reader = BufReader::new(own.reader(Path::new(&path))?);
        let found = infer_json_schema(reader, None).map_err(|error| Error::Execution(format!("{path}: {error}")))?;
        Ok(Some(Arc::new(found.0)))
    });
    let schema = schema.await.map_err(|error| Error::Other(error.to_string()))??;
    let what = || call.refused(format!("{file}: an array that is compressed, or may have errors; lines of values may"));
    stream::table(&[file.to_string()], &schema.ok_or_else(what)?, &(Arc::new(format) as Arc<dyn Format>))
}

/// Values in lines.
#[derive(Debug, Clone)]
struct Lines {
    compression: Compression,
    /// Whether lines that are no objects are rows of NULLs.
    ignore_errors: bool,
}

impl Lines {
    fn reader(&self, path: &Path) -> Result<Box<dyn Read + Send>> {
        let bytes = self.compression.open(path)?;
        Ok(match self.ignore_errors {
            true => Box::new(Valid { lines: BufReader::new(bytes), line: vec![], at: 0 }),
            false => bytes,
        })
    }
}

impl Format for Lines {
    fn open(&self, path: &Path, schema: &SchemaRef, rows: usize) -> Result<Batches> {
        let reader = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(rows);
        let failed = |error| Error::Execution(format!("{}: {error}", path.display()));
        Ok(Box::new(reader.build(BufReader::new(self.reader(path)?)).map_err(failed)?))
    }
}

/// Lines in which non-objects are replaced by empty objects.
struct Valid<R> {
    lines: BufReader<R>,
    line: Vec<u8>,
    /// Bytes of `line` that have been handed out.
    at: usize,
}

impl<R: Read> Read for Valid<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            if self.lines.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(0);
            }
            let text = self.line.trim_ascii();
            let is_object = text.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(text).is_ok();
            if !text.is_empty() && !is_object {
                self.line = b"{}\n".to_vec();
            }
        }
        let count = buffer.len().min(self.line.len() - self.at);
        buffer[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Options of JSON files with one value per line, or with an array.
pub(in crate::catalog) fn json_options(state: &SessionState, array: bool) -> ListingOptions {
    let format = JsonFormat::default().with_options(state.default_table_options().json);
    ListingOptions::new(Arc::new(format.with_newline_delimited(!array))).with_file_extension("")
}

/// Whether a file of JSON is one array.
pub(in crate::catalog) fn is_array(path: &str) -> Result<bool> {
    let failed = |error: std::io::Error| Error::Io(format!("{path}: {error}"));
    let file = std::fs::File::open(path).map_err(failed)?;
    begins_array(&mut BufReader::new(file)).map_err(failed)
}

fn begins_array(reader: &mut impl BufRead) -> std::io::Result<bool> {
    for byte in reader.bytes() {
        match byte? {
            byte if byte.is_ascii_whitespace() => {}
            byte => return Ok(byte == b'['),
        }
    }
    Ok(false)
}
