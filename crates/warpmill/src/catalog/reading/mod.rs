//! `read_csv(path, option = value)` and similar functions: calls as table names, and their tables.

mod by_name;
mod compressed;
mod csv;
mod json;
mod own_columns;
mod parquet;
mod stream;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::execution::SessionState;
use serde::{Deserialize, Serialize};

use super::files;
use crate::planning::bound;
use crate::{Error, Result};

pub(super) use compressed::Compression;
pub(crate) use csv::{Declared, Options as CsvGiven, table as csv_table};
pub(super) use json::{is_array, json_options};

/// Prefix of a table name that contains a call to read files.
const READING: &str = "\u{1}reading ";

/// A value of an option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Given {
    /// A number, a truth value or a text.
    One(String),
    /// A list of texts.
    List(Vec<String>),
    /// A struct of texts.
    Map(Vec<(String, String)>),
}

/// A call of a function that reads files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Name of the function, in lower case.
    pub function: String,
    /// Paths and patterns.
    pub paths: Vec<String>,
    /// Names, in lower case, and values of the options.
    pub options: Vec<(String, Given)>,
}

impl Call {
    /// The name of the table that it is.
    pub(crate) fn name(&self) -> String {
        format!("{READING}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// The call that `name` is the name of.
    pub(super) fn named(name: &str) -> Option<Self> {
        serde_json::from_str(name.strip_prefix(READING)?).ok()
    }

    /// An error that names the function.
    fn refused(&self, what: impl std::fmt::Display) -> Error {
        Error::NotImplemented(format!("{}: {what}", self.function))
    }

    /// The error for an invalid value of an option.
    fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::Plan(format!("{}: {what}", self.function))
    }

    /// The error for an option that is not in `known`, or has an unsupported value.
    fn unknown(&self, option: &str, known: &[&str]) -> Error {
        match known.contains(&option) {
            true => self.refused(format!("this value of the option {option}")),
            false => self.refused(format!("the option {option}; the options are {}", known.join(", "))),
        }
    }

    /// The column name for the option `filename`; `None` if it is disabled.
    fn name_of_column(&self, option: &str, given: &Given) -> Result<Option<String>> {
        match (self.truth(option, given), given) {
            (Ok(wanted), _) => Ok(wanted.then(|| option.to_string())),
            (Err(_), Given::One(name)) if !name.is_empty() => Ok(Some(name.clone())),
            (Err(error), _) => Err(error),
        }
    }

    /// The compression of the option `compression`; `None`: by file extension.
    fn compression(&self, kind: &str) -> Result<Option<Compression>> {
        match kind.to_ascii_lowercase().as_str() {
            "auto" | "auto_detect" => Ok(None),
            "none" | "uncompressed" => Ok(Some(Compression::None)),
            "gzip" => Ok(Some(Compression::Gzip)),
            "zstd" => Ok(Some(Compression::Zstd)),
            other => Err(self.refused(format!("compression is auto, none, gzip or zstd, not {other}"))),
        }
    }

    /// A truth value.
    fn truth(&self, option: &str, given: &Given) -> Result<bool> {
        match given {
            Given::One(text) if text.eq_ignore_ascii_case("true") || text == "1" => Ok(true),
            Given::One(text) if text.eq_ignore_ascii_case("false") || text == "0" => Ok(false),
            _ => Err(Error::Plan(format!("{}: option {option} is either true or false", self.function))),
        }
    }

    /// The files, in order.
    ///
    /// # Errors
    /// A path or a pattern without files; remote locations.
    pub(crate) fn files(&self) -> Result<Vec<String>> {
        let mut found = vec![];
        for path in &self.paths {
            if path.contains("://") {
                return Err(self.refused(format!("{path}: options are for files of this machine")));
            }
            let files = files::matching(path).into_iter().filter(|file| file.is_file());
            let before = found.len();
            found.extend(files.map(|file| file.to_string_lossy().into_owned()));
            if found.len() == before && self.function != "glob" {
                return Err(Error::Io(format!("no such file: {path}")));
            }
        }
        Ok(found)
    }

    /// The table.
    pub(in crate::catalog) async fn table(&self, state: SessionState) -> Result<Arc<dyn TableProvider>> {
        let owned = self.clone();
        match self.function.as_str() {
            "read_csv" | "read_csv_auto" => {
                let options = csv::Options::of(self)?;
                csv::table(&state, self.files()?, options).await
            }
            "read_json" | "read_json_auto" | "read_ndjson" | "read_ndjson_auto" => json::table(self, &state).await,
            "read_parquet" | "parquet_scan" => parquet::table(self, &state).await,
            "glob" => {
                let files = StringArray::from(self.files()?);
                table_of(vec![("file", Arc::new(files) as ArrayRef)])
            }
            "read_text" | "read_blob" => {
                let read = tokio::task::spawn_blocking(move || contents(&owned)).await;
                read.map_err(|error| Error::Other(error.to_string()))?
            }
            _ => Err(self.refused("a function that reads no files")),
        }
    }
}

/// The type that SQL calls `ty`.
async fn type_called(state: &SessionState, function: &str, ty: &str) -> Result<DataType> {
    let plan = bound(&Arc::new(state.clone()), &format!("SELECT CAST(NULL AS {ty}) AS x"), &[]).await;
    let plan = plan.map_err(|error| Error::Plan(format!("{function}: the type {ty}: {error}")))?;
    Ok(plan.schema().field(0).data_type().clone())
}

fn table_of(columns: Vec<(&str, ArrayRef)>) -> Result<Arc<dyn TableProvider>> {
    let fields = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, values)| values).collect())?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// A table of whole files, for `read_text` or `read_blob`.
fn contents(call: &Call) -> Result<Arc<dyn TableProvider>> {
    if let Some((option, _)) = call.options.first() {
        return Err(call.unknown(option, &["none"]));
    }
    let files = call.files()?;
    let (mut bytes, mut sizes, mut changed) = (vec![], vec![], vec![]);
    for file in &files {
        let failed = |error: std::io::Error| Error::Io(format!("{file}: {error}"));
        let content = std::fs::read(file).map_err(failed)?;
        let modified = std::fs::metadata(file).and_then(|about| about.modified()).map_err(failed)?;
        let micros = modified.duration_since(std::time::UNIX_EPOCH).map(|since| since.as_micros() as i64);
        sizes.push(content.len() as i64);
        changed.push(micros.unwrap_or_default());
        bytes.push(content);
    }
    let content: ArrayRef = match call.function.as_str() {
        "read_blob" => Arc::new(BinaryArray::from_iter_values(&bytes)),
        _ => {
            let text = |(file, bytes): (&String, Vec<u8>)| {
                String::from_utf8(bytes).map_err(|_| Error::Execution(format!("{file}: its bytes are no UTF-8 text")))
            };
            let texts = files.iter().zip(bytes).map(text).collect::<Result<Vec<_>>>()?;
            Arc::new(StringArray::from(texts))
        }
    };
    let moments = TimestampMicrosecondArray::from(changed)
        .with_data_type(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    table_of(vec![
        ("filename", Arc::new(StringArray::from(files)) as ArrayRef),
        ("content", content),
        ("size", Arc::new(Int64Array::from(sizes))),
        ("last_modified", Arc::new(moments)),
    ])
}
