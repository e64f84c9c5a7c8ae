//! Detection of unspecified properties of CSV files.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use warpmill_format::FormatError;
use warpmill_format::ingest::{CsvColumns, CsvOptions};

use super::clean::{Cleaning, Uneven};
use super::options::Options;
use super::{numbered, survey};
use crate::catalog::files::looks_like_data;
use crate::{Error, Result};

/// Candidates for the delimiter, preferred ones first.
const DELIMITERS: [u8; 4] = [b',', b'|', b';', b'\t'];
/// Number of records in which the delimiter is detected.
const SNIFFED: usize = 100;

/// The detected properties of CSV files.
pub(super) struct Found {
    pub delimiter: u8,
    pub header: bool,
    pub multi_line: bool,
    /// The columns of all files together.
    pub schema: SchemaRef,
    /// The columns of each file, if they are different.
    pub own: Option<Vec<SchemaRef>>,
    pub cleaning: Cleaning,
}

impl Found {
    /// The format for the reader of records.
    pub(super) fn format(&self, options: &Options) -> Format {
        format(options, self.delimiter).with_header(self.header)
    }
}

fn format(options: &Options, delimiter: u8) -> Format {
    let format = Format::default().with_delimiter(delimiter).with_quote(options.quote_byte());
    match options.escape_byte() {
        Some(escape) => format.with_escape(escape),
        None => format,
    }
}

/// The properties of files that are not inspected, from the options.
pub(super) fn said(options: &Options) -> Found {
    let names = options.columns.iter().flatten().map(|(name, _)| Field::new(name, DataType::Utf8, true));
    let schema = Arc::new(Schema::new(names.collect::<Vec<_>>()));
    let (delimiter, width) = (options.delimiter.unwrap_or(b','), schema.fields().len());
    let (header, mut cleaning) = (options.header.unwrap_or(false), Cleaning::of(options, delimiter));
    cleaning.uneven = uneven(options, width, header);
    Found { delimiter, header, multi_line: true, schema, own: None, cleaning }
}

fn uneven(options: &Options, width: usize, header: bool) -> Uneven {
    match (options.null_padding, options.ignore_errors) {
        (true, _) => Uneven::Padded { width, header },
        (false, true) => Uneven::LeftOut { width },
        (false, false) => Uneven::Kept,
    }
}

/// Detects the columns of `files`.
///
/// # Errors
/// Files that are not CSV, or that have other columns than the first one.
pub(super) fn sniff(files: &[PathBuf], options: &Options) -> Result<Found> {
    let Some(first) = files.first() else { return Err(Error::Io("no CSV file is there".into())) };
    let delimiter = match options.delimiter {
        Some(delimiter) => delimiter,
        None => delimiter_of(first, options)?,
    };
    let mut cleaning = Cleaning::of(options, delimiter);
    if options.null_padding || options.ignore_errors {
        let widths = files.iter().map(|path| cleaning.widths(path)).collect::<Result<Vec<_>>>()?;
        let named = options.columns.as_ref().map(Vec::len);
        let found = match options.null_padding {
            true => widths.iter().map(|(most, _)| *most).max(),
            false => widths.first().map(|(_, first)| *first),
        };
        cleaning.uneven = uneven(options, named.or(found).unwrap_or(1), options.header.unwrap_or(true));
    }
    let mut looking = Looking { files, options, delimiter, cleaning };
    let (mut columns, header) = looking.with_header()?;
    let mut fields = fields_of(&columns.schema);
    if fields.is_empty() {
        if options.skip > 0 {
            return Err(Error::Execution(format!("{}: no record after {} lines", first.display(), options.skip)));
        }
        fields.push(Field::new(numbered(0, 1), DataType::Utf8, true));
    }
    let mut fields = named(fields, options, first)?;
    if survey::is_needed(options) && columns.own.is_none() {
        let format = format(options, delimiter).with_header(header);
        survey::retype(files, &mut fields, options, &format, &looking.cleaning)?;
    }
    if let Some(own) = &mut columns.own {
        for (schema, file) in own.iter_mut().zip(files) {
            let mut fields = fields_of(schema);
            if survey::is_needed(options) {
                let format = format(options, delimiter).with_header(header);
                survey::retype(std::slice::from_ref(file), &mut fields, options, &format, &looking.cleaning)?;
            }
            *schema = Arc::new(Schema::new(fields));
        }
        fields = by_name(own);
    }
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name().to_lowercase())) {
        return Err(Error::Plan(format!("{}: column {:?} is there twice", first.display(), twice.name())));
    }
    let schema = Arc::new(Schema::new(Fields::from(fields)));
    let (multi_line, own, cleaning) = (columns.multi_line, columns.own, looking.cleaning);
    Ok(Found { delimiter, header, multi_line, schema, own, cleaning })
}

fn fields_of(schema: &Schema) -> Vec<Field> {
    schema.fields().iter().map(|field| field.as_ref().clone()).collect()
}

/// The columns with the names of the options.
fn named(mut fields: Vec<Field>, options: &Options, first: &Path) -> Result<Vec<Field>> {
    let given: Vec<&String> = match &options.columns {
        Some(columns) => columns.iter().map(|(name, _)| name).collect(),
        None => options.names.iter().collect(),
    };
    if given.len() > fields.len() || options.columns.is_some() && given.len() != fields.len() {
        let (found, wanted) = (fields.len(), given.len());
        return Err(Error::Plan(format!(
            "{}: the file has {found} columns, but {wanted} names were given",
            first.display()
        )));
    }
    for (field, name) in fields.iter_mut().zip(given) {
        *field = field.clone().with_name(name);
    }
    Ok(fields)
}

/// The columns of all files, in the order of their first occurrence, with types for the values of all files.
fn by_name(own: &[SchemaRef]) -> Vec<Field> {
    let mut all: Vec<Field> = vec![];
    for field in own.iter().flat_map(|schema| schema.fields()) {
        match all.iter_mut().find(|known| crate::catalog::same(known.name(), field.name())) {
            Some(known) => {
                let ty = common(known.data_type(), field.data_type());
                *known = known.clone().with_data_type(ty);
            }
            None => all.push(field.as_ref().clone()),
        }
    }
    all
}

/// The type for values of both types.
fn common(a: &DataType, b: &DataType) -> DataType {
    use DataType::{Date32, Decimal128, Float64, Int64, Timestamp, Utf8};
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (Int64, Decimal128(..)) | (Decimal128(..), Int64) => Decimal128(38, 0),
        (Float64, Int64 | Decimal128(..)) | (Int64 | Decimal128(..), Float64) => Float64,
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) => Timestamp(*unit, None),
        _ => Utf8,
    }
}

/// Detected columns.
struct Columns {
    schema: SchemaRef,
    multi_line: bool,
    /// The columns of each file, if the files are combined by column name.
    own: Option<Vec<SchemaRef>>,
}

/// Files under inspection.
struct Looking<'a> {
    files: &'a [PathBuf],
    options: &'a Options,
    delimiter: u8,
    cleaning: Cleaning,
}

impl Looking<'_> {
    /// The columns, and whether the first record is a header.
    fn with_header(&mut self) -> Result<(Columns, bool)> {
        if let Some(header) = self.options.header {
            return Ok((self.columns(self.read(header)?, header)?, header));
        }
        self.expect_header(true);
        let found = match self.columns(self.read(true)?, true) {
            Ok(found) => found,
            // Duplicate names may be values of the first row.
            Err(error) => {
                self.expect_header(false);
                let found = self.columns(self.read(false)?, false)?;
                let is_text = |field: &Arc<Field>| field.data_type() == &DataType::Utf8;
                return if found.schema.fields().iter().all(is_text) { Err(error) } else { Ok((found, false)) };
            }
        };
        if found.own.is_some() || looks_like_data(&found.schema).is_none() {
            return Ok((found, true));
        }
        self.expect_header(false);
        Ok((self.columns(self.read(false)?, false)?, false))
    }

    fn expect_header(&mut self, expected: bool) {
        if let Uneven::Padded { header, .. } = &mut self.cleaning.uneven {
            *header = expected;
        }
    }

    /// Inspects the files: all together, or each separately if they are combined by column name.
    fn read(&self, header: bool) -> Result<Vec<CsvColumns>> {
        let csv = CsvOptions {
            delimiter: self.delimiter,
            quote: self.options.quote_byte(),
            escape: self.options.escape_byte(),
            has_header: header,
            null_values: self.options.nulls.clone().unwrap_or_default(),
            ..CsvOptions::default()
        };
        let mut all: Vec<CsvColumns> = vec![];
        for path in self.files {
            let found = CsvColumns::read(path, || self.open(path), &csv)?;
            match all.pop() {
                Some(before) if !self.options.union_by_name => all.push(before.and(found).ok_or_else(|| {
                    let text = format!("{}: other columns than {}", path.display(), self.files[0].display());
                    Error::Execution(text)
                })?),
                before => all.extend(before.into_iter().chain([found])),
            }
        }
        Ok(all)
    }

    /// The columns of files.
    ///
    /// # Errors
    /// A name occurs twice.
    fn columns(&self, found: Vec<CsvColumns>, header: bool) -> Result<Columns> {
        let multi_line = found.iter().any(|found| found.multi_line);
        let schema = |(found, path): (&CsvColumns, &PathBuf)| -> Result<SchemaRef> {
            Ok(with_all_names(found.schema(path)?, header))
        };
        let mut own = found.iter().zip(self.files).map(schema).collect::<Result<Vec<_>>>()?;
        Ok(match self.options.union_by_name {
            true => Columns { schema: Arc::new(Schema::new(by_name(&own))), multi_line, own: Some(own) },
            false => Columns { schema: own.remove(0), multi_line, own: None },
        })
    }

    fn open(&self, path: &Path) -> warpmill_format::Result<Box<dyn Read + Send>> {
        let failed = |error: Error| FormatError::Io {
            action: "cannot open",
            path: path.to_owned(),
            source: std::io::Error::other(error.to_string()),
        };
        self.cleaning.open(path).map_err(failed)
    }
}

/// Columns with numbered names if they have none, or if there is no header.
fn with_all_names(schema: SchemaRef, header: bool) -> SchemaRef {
    let width = schema.fields().len();
    let fields = schema.fields().iter().enumerate().map(|(at, field)| match header && !field.name().is_empty() {
        true => field.as_ref().clone(),
        false => field.as_ref().clone().with_name(numbered(at, width)),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Detects the delimiter of a file: the candidate that gives the most columns, among those with the same number of occurrences in each record.
fn delimiter_of(path: &Path, options: &Options) -> Result<u8> {
    let extension = path.to_string_lossy().to_ascii_lowercase();
    let mut order = DELIMITERS;
    if extension.ends_with(".tsv") || extension.contains(".tsv.") {
        order.rotate_right(1);
    } else if options.decimal_comma {
        order.rotate_left(1);
    }
    let candidates = if options.decimal_comma { 3 } else { 4 };
    let cleaning = Cleaning::of(options, 0);
    let mut reader = BufReader::new(cleaning.open(path)?);
    let mut counts: Vec<[usize; 4]> = vec![];
    let (mut quoted, mut count, mut any) = (false, [0usize; 4], false);
    let mut line = vec![];
    while counts.len() < SNIFFED {
        line.clear();
        let length =
            reader.read_until(b'\n', &mut line).map_err(|error| Error::Io(format!("{}: {error}", path.display())))?;
        if length == 0 {
            break;
        }
        for byte in &line {
            if Some(*byte) == options.quote {
                quoted = !quoted;
            }
            if !quoted && let Some(at) = order.iter().position(|other| other == byte) {
                count[at] += 1;
            }
            any |= !matches!(byte, b'\r' | b'\n');
        }
        if !quoted {
            if any {
                counts.push(count);
            }
            (count, any) = ([0; 4], false);
        }
    }
    let Some(first) = counts.first() else { return Ok(order[0]) };
    let uneven = options.null_padding || options.ignore_errors;
    let steady = |at: &usize| first[*at] > 0 && (uneven || counts.iter().all(|count| count[*at] == first[*at]));
    let mut best: Option<usize> = None;
    for at in (0..candidates).filter(steady) {
        if best.is_none_or(|best| first[at] > first[best]) {
            best = Some(at);
        }
    }
    Ok(best.map_or(order[0], |at| order[at]))
}
