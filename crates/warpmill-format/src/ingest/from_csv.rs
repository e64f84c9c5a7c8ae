//! CSV files, a few megabytes of whole records a piece.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatchOptions, StringBuilder};
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use regex::Regex;

use super::csv_records::{Piece, Pieces, lines, record_starts};
use super::parallel::{ordered, thread_count};
use super::{Progress, Progressed, input, name};
use crate::{FormatError, Result, TableSnapshot, TableWriter};

/// Number of rows of a parsed batch.
const BATCH_ROWS: usize = 1 << 14;

/// Options for reading CSV.
#[derive(Debug, Clone)]
pub struct CsvOptions {
    /// Between fields.
    pub delimiter: u8,
    /// Quotes fields with delimiters, quotes (doubled) or newlines.
    pub quote: u8,
    /// Makes the byte after it, inside quotes, an ordinary one.
    pub escape: Option<u8>,
    /// Whether the first record is column names; columns are then matched by name, otherwise by position.
    pub has_header: bool,
    /// Fields that represent NULL, besides the empty field. (An empty field of a NOT NULL string column is the empty string.)
    pub null_values: Vec<String>,
    /// Number of parsing threads (0: all cores).
    pub threads: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: b',', quote: b'"', escape: None, has_header: true, null_values: Vec::new(), threads: 0 }
    }
}

impl CsvOptions {
    pub(super) fn format(&self, header: bool) -> Format {
        let format = Format::default().with_header(header).with_delimiter(self.delimiter).with_quote(self.quote);
        let format = format.with_null_regex(self.null_regex());
        match self.escape {
            Some(escape) => format.with_escape(escape),
            None => format,
        }
    }

    fn null_regex(&self) -> Regex {
        let values: Vec<String> = self.null_values.iter().map(|v| regex::escape(v)).collect();
        Regex::new(&format!("^(?:{})$", [vec![String::new()], values].concat().join("|")))
            .expect("escaped alternatives")
    }
}

/// Parses the records of one file.
pub(super) struct Parser<'a> {
    path: &'a Path,
    options: &'a CsvOptions,
    /// The columns of the file in their order; nullable, so that NULLs are detected here, where their line is known.
    schema: SchemaRef,
    /// Position in the file by column of the table.
    columns: Vec<usize>,
    table: SchemaRef,
}

/// Writes the rows of all files, in order, and commits. `writer`'s schema gives the types of the fields; see `csv_schema`.
///
/// Errors contain file, line and column: values that do not fit the column's type, NULLs in a NOT NULL column, records with too many or too few
/// fields, columns missing or unknown to the table.
pub fn ingest_csv<P: AsRef<Path>>(
    mut writer: TableWriter,
    paths: &[P],
    options: &CsvOptions,
    progress: &mut dyn Progress,
) -> Result<Arc<TableSnapshot>> {
    let mut total = 0;
    for path in paths.iter().map(AsRef::as_ref) {
        total += std::fs::metadata(path).map_err(FormatError::io("cannot open", path))?.len();
    }
    let mut done = Progressed { total_bytes: Some(total), ..Default::default() };
    let threads = thread_count(options.threads);
    for path in paths.iter().map(AsRef::as_ref) {
        let parser = Parser::new(path, options, writer.schema())?;
        let file = File::open(path).map_err(FormatError::io("cannot open", path))?;
        let work = |piece: Piece| Ok((parser.parse(&piece)?, piece.bytes.len()));
        ordered(threads, threads + 1, parser.pieces(file), work, |(batches, bytes)| {
            for batch in &batches {
                writer.write(batch)?;
                done.rows += batch.num_rows() as u64;
            }
            done.bytes += bytes as u64;
            progress.update(done);
            Ok(())
        })?;
    }
    done.bytes = total;
    progress.update(done);
    writer.commit()
}

impl<'a> Parser<'a> {
    /// A parser of a file of text columns with these names.
    pub(super) fn of_text(path: &'a Path, options: &'a CsvOptions, names: &[String]) -> Self {
        let fields: Vec<Field> = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let schema = Arc::new(Schema::new(fields));
        Self { path, options, schema: schema.clone(), columns: (0..names.len()).collect(), table: schema }
    }

    /// The bytes of `reader`, in pieces.
    pub(super) fn pieces<R: Read + 'a>(&'a self, reader: R) -> impl Iterator<Item = Result<Piece>> + use<'a, R> {
        let mut pieces = Pieces::new(reader, self.options);
        std::iter::from_fn(move || pieces.next().map_err(|e| self.read_error(e)).transpose())
    }

    fn new(path: &'a Path, options: &'a CsvOptions, table: &SchemaRef) -> Result<Self> {
        let nullable = |field: &Field| field.clone().with_nullable(true);
        let by_position =
            || (table.fields().iter().map(|f| nullable(f)).collect(), (0..table.fields().len()).collect());
        let (fields, columns): (Vec<Field>, Vec<usize>) = if options.has_header {
            let file = File::open(path).map_err(FormatError::io("cannot open", path))?;
            let (header, _) =
                options.format(true).infer_schema(file, Some(0)).map_err(|e| input(name(path), None, e.to_string()))?;
            let at = |column: &str, detail: &str| Err(input(name(path), format!("line 1, column {column:?}"), detail));
            let mut fields = Vec::with_capacity(header.fields().len());
            for column in header.fields() {
                match table.field_with_name(column.name()) {
                    Ok(field) => fields.push(nullable(field)),
                    Err(_) => return at(column.name(), "the table has no such column"),
                }
            }
            let mut columns = Vec::with_capacity(table.fields().len());
            for field in table.fields() {
                match fields.iter().position(|f| f.name() == field.name()) {
                    Some(position) => columns.push(position),
                    None => return at(field.name(), "missing in the header"),
                }
            }
            (fields, columns)
        } else {
            by_position()
        };
        if fields.len() != columns.len() {
            return Err(input(name(path), "line 1".to_owned(), "a column name is there twice"));
        }
        Ok(Self { path, options, schema: Arc::new(Schema::new(fields)), columns, table: table.clone() })
    }

    fn read_error(&self, (line, error): (Option<u64>, std::io::Error)) -> FormatError {
        match line {
            Some(line) => input(name(self.path), format!("line {line}"), error.to_string()),
            None => FormatError::io("cannot read", self.path)(error),
        }
    }

    /// The rows of a piece in the table's types.
    pub(super) fn parse(&self, piece: &Piece) -> Result<Vec<RecordBatch>> {
        let batches = self.read(&piece.bytes, None).map_err(|e| self.explain(piece, &e))?;
        let mut first_row = 0;
        let mut rows = Vec::with_capacity(batches.len());
        for batch in batches {
            let fields = self.table.fields().iter().zip(&self.columns);
            let columns = fields.map(|(field, &c)| self.without_nulls(batch.column(c), field, piece, first_row));
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            rows.push(RecordBatch::try_new_with_options(
                self.table.clone(),
                columns.collect::<Result<_>>()?,
                &options,
            )?);
            first_row += batch.num_rows();
        }
        Ok(rows)
    }

    /// `array` if `field` is nullable; otherwise it must not have NULLs, except empty strings read as NULL.
    fn without_nulls(&self, array: &ArrayRef, field: &Field, piece: &Piece, first_row: usize) -> Result<ArrayRef> {
        if field.is_nullable() || array.null_count() == 0 {
            return Ok(array.clone());
        }
        if field.data_type() == &DataType::Utf8 && self.options.null_values.is_empty() {
            let strings = array.as_string::<i32>();
            let mut filled = StringBuilder::with_capacity(strings.len(), strings.values().len());
            strings.iter().for_each(|s| filled.append_value(s.unwrap_or("")));
            return Ok(Arc::new(filled.finish()));
        }
        let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or(0);
        let place = format!("line {}, column {:?}", self.line(piece, first_row + row), field.name());
        Err(input(name(self.path), place, "no value in a column that is NOT NULL"))
    }

    /// Parses records: all columns, or one.
    fn read(&self, bytes: &[u8], column: Option<usize>) -> std::result::Result<Vec<RecordBatch>, ArrowError> {
        let builder = ReaderBuilder::new(self.schema.clone()).with_format(self.options.format(false));
        let builder = match column {
            Some(column) => builder.with_projection(vec![column]),
            None => builder,
        };
        builder.with_batch_size(BATCH_ROWS).build_buffered(Cursor::new(bytes))?.collect()
    }

    /// The line of row `row` of a piece.
    fn line(&self, piece: &Piece, row: usize) -> u64 {
        let starts = record_starts(&piece.bytes, self.options);
        piece.first_line + lines(&piece.bytes[..starts.get(row).copied().unwrap_or(piece.bytes.len())])
    }

    /// Finds the row and the column of `error` by parsing fewer and fewer rows.
    fn explain(&self, piece: &Piece, error: &ArrowError) -> FormatError {
        let starts = record_starts(&piece.bytes, self.options);
        let end = |row: usize| starts.get(row).copied().unwrap_or(piece.bytes.len());
        // Rows 0 .. good parse, rows 0 .. bad do not.
        let (mut good, mut bad) = (0, starts.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if self.read(&piece.bytes[..end(middle)], None).is_ok() { good = middle } else { bad = middle }
        }
        let record = &piece.bytes[end(good)..end(bad)];
        let place = format!("line {}", piece.first_line + lines(&piece.bytes[..end(good)]));
        let strings = self.schema.fields().iter().map(|f| Field::new(f.name(), DataType::Utf8, true));
        let as_text = Parser {
            path: self.path,
            options: self.options,
            schema: Arc::new(Schema::new(strings.collect::<Vec<_>>())),
            columns: self.columns.clone(),
            table: self.table.clone(),
        };
        let well_formed = as_text.read(record, None).is_ok();
        let bad_column = (0..self.schema.fields().len())
            .filter(|_| well_formed)
            .find_map(|c| self.read(record, Some(c)).err().map(|error| (self.schema.field(c).name(), error)));
        match bad_column {
            Some((column, error)) => input(name(self.path), format!("{place}, column {column:?}"), detail(&error)),
            None => input(name(self.path), place, detail(self.read(record, None).as_ref().err().unwrap_or(error))),
        }
    }
}

/// The parser's message without its line numbers, which are relative to a piece.
fn detail(error: &ArrowError) -> String {
    let text = match error {
        ArrowError::ParseError(text) | ArrowError::CsvError(text) => text.clone(),
        other => other.to_string(),
    };
    let text = text.split_once(" for column ").map_or(&text[..], |(head, _)| head);
    match text.split_once(" for line ") {
        Some((head, tail)) => head.to_owned() + tail.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => text.to_owned(),
    }
}
