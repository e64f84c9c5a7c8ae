//! Options of CSV files.

use std::io::{BufRead, BufReader};
use std::path::Path;

use arrow::datatypes::DataType;

use super::super::{Call, Compression, Given};
use super::clean::Cleaning;
use crate::{Error, Result};

/// The names of options, as errors list them.
const KNOWN: [&str; 36] = [
    "delim",
    "sep",
    "delimiter",
    "quote",
    "escape",
    "comment",
    "header",
    "skip",
    "columns",
    "types",
    "dtypes",
    "column_types",
    "names",
    "column_names",
    "all_varchar",
    "nullstr",
    "null",
    "allow_quoted_nulls",
    "force_not_null",
    "dateformat",
    "date_format",
    "timestampformat",
    "timestamp_format",
    "decimal_separator",
    "ignore_errors",
    "null_padding",
    "compression",
    "filename",
    "union_by_name",
    "hive_partitioning",
    "auto_detect",
    "sample_size",
    "max_line_size",
    "new_line",
    "parallel",
    "buffer_size",
];

/// The text that replaces fields which mean NULL because they have no quotes.
pub(super) const UNQUOTED: &str = "\u{1}null";

/// The declared type of a column.
#[derive(Debug, Clone)]
pub(crate) enum Declared {
    /// A type in SQL notation.
    Sql(String),
    /// The type of a table's column.
    Known(DataType),
}

/// Options of CSV files.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The separator of fields.
    pub delimiter: Option<u8>,
    /// The path, folder or pattern of the files, evaluated when they are read.
    pub place: Option<String>,
    pub header: Option<bool>,
    /// Quote character of fields; `None`: no quoting.
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    /// The byte that begins a comment, which ends with the line.
    pub comment: Option<u8>,
    /// Number of lines to skip before the first record.
    pub skip: usize,
    /// All columns with their types.
    pub columns: Option<Vec<(String, Declared)>>,
    /// Types by column name; types without a name belong to the first columns, in order.
    pub types: Vec<(Option<String>, Declared)>,
    pub names: Vec<String>,
    pub all_text: bool,
    /// The texts that mean NULL.
    pub nulls: Option<Vec<String>>,
    /// The texts that mean NULL only without quotes; `nulls` is then the text that replaces them ([`UNQUOTED`]).
    pub(super) unquoted: Option<Vec<String>>,
    /// Columns in which a text that means NULL is an empty text.
    pub not_null: Vec<String>,
    /// The `strptime` format of DATE columns.
    pub date_format: Option<String>,
    /// The `strptime` format of TIMESTAMP columns.
    pub timestamp_format: Option<String>,
    /// Whether numbers have a decimal comma.
    pub decimal_comma: bool,
    /// Whether to drop records with a wrong number of fields, and rows with invalid values.
    pub ignore_errors: bool,
    /// Whether to pad records with too few fields with NULLs.
    pub null_padding: bool,
    /// The compression; `None`: by file extension.
    pub(in crate::catalog) compression: Option<Compression>,
    /// The name of an additional column for the path of the file.
    pub filename: Option<String>,
    pub union_by_name: bool,
    pub hive: Option<bool>,
    /// Whether to inspect files before reading them; otherwise `columns` and `header` are given.
    pub sniffs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            delimiter: None,
            place: None,
            header: None,
            quote: Some(b'"'),
            escape: None,
            comment: None,
            skip: 0,
            columns: None,
            types: vec![],
            names: vec![],
            all_text: false,
            nulls: None,
            unquoted: None,
            not_null: vec![],
            date_format: None,
            timestamp_format: None,
            decimal_comma: false,
            ignore_errors: false,
            null_padding: false,
            compression: None,
            filename: None,
            union_by_name: false,
            hive: None,
            sniffs: true,
        }
    }
}

impl Options {
    /// Options for files, of which only the delimiter is given.
    pub(in crate::catalog) fn delimited(delimiter: Option<u8>, place: &str) -> Self {
        Self { delimiter, place: Some(place.to_string()), ..Self::default() }
    }

    /// Parses the options of a call.
    ///
    /// # Errors
    /// Unknown options and values, by name.
    pub(crate) fn of(call: &Call) -> Result<Self> {
        let mut own = Self::default();
        for (option, given) in &call.options {
            own.add(call, option, given)?;
        }
        let detects = call.options.iter().find(|(option, _)| option == "auto_detect");
        if let Some((option, given)) = detects
            && !call.truth(option, given)?
        {
            if own.columns.is_none() {
                return Err(call.wrong("auto_detect = false takes columns = {'name': 'TYPE', ...}"));
            }
            own.header = Some(own.header.unwrap_or(false));
            own.delimiter = Some(own.delimiter.unwrap_or(b','));
        }
        let quoted = call.options.iter().find(|(option, _)| option == "allow_quoted_nulls");
        if let Some((option, given)) = quoted
            && !call.truth(option, given)?
        {
            own.unquoted = Some(own.nulls.take().unwrap_or_else(|| vec![String::new()]));
            own.nulls = Some(vec![UNQUOTED.to_string()]);
        }
        if own.ignore_errors && own.null_padding {
            return Err(call.refused("ignore_errors and null_padding at once"));
        }
        if own.union_by_name && (own.columns.is_some() || !own.names.is_empty()) {
            return Err(call.refused("union_by_name with names of columns"));
        }
        Ok(own)
    }

    fn add(&mut self, call: &Call, option: &str, given: &Given) -> Result<()> {
        let byte = || match given {
            Given::One(text) if text == "\\t" => Ok(b'\t'),
            Given::One(text) if text.len() == 1 => Ok(text.as_bytes()[0]),
            _ => Err(call.refused(format!("{option} is one byte"))),
        };
        let or_none = || match given {
            Given::One(text) if text.is_empty() => Ok(None),
            _ => byte().map(Some),
        };
        let sql = |ty: &String| Declared::Sql(ty.clone());
        match (option, given) {
            ("delim" | "sep" | "delimiter", _) => self.delimiter = Some(byte()?),
            ("quote", _) => self.quote = or_none()?,
            ("escape", _) => self.escape = or_none()?,
            ("comment", _) => self.comment = or_none()?,
            ("header", given) => self.header = Some(call.truth(option, given)?),
            ("skip", Given::One(count)) => {
                self.skip = count.parse().map_err(|_| call.wrong(format!("skip is a number of lines, not {count}")))?;
            }
            ("columns", Given::Map(columns)) => {
                self.columns = Some(columns.iter().map(|(name, ty)| (name.clone(), sql(ty))).collect());
            }
            ("types" | "dtypes" | "column_types", Given::Map(types)) => {
                self.types = types.iter().map(|(name, ty)| (Some(name.clone()), sql(ty))).collect();
            }
            ("types" | "dtypes" | "column_types", Given::List(types)) => {
                self.types = types.iter().map(|ty| (None, sql(ty))).collect();
            }
            ("names" | "column_names", Given::List(names)) => self.names.clone_from(names),
            ("all_varchar", given) => self.all_text = call.truth(option, given)?,
            ("nullstr" | "null", Given::One(text)) => self.nulls = Some(vec![text.clone()]),
            ("nullstr" | "null", Given::List(texts)) => self.nulls = Some(texts.clone()),
            ("dateformat" | "date_format", Given::One(format)) => self.date_format = Some(format.clone()),
            ("timestampformat" | "timestamp_format", Given::One(format)) => {
                self.timestamp_format = Some(format.clone());
            }
            ("decimal_separator", Given::One(text)) => match text.as_str() {
                "." => self.decimal_comma = false,
                "," => self.decimal_comma = true,
                other => return Err(call.wrong(format!("decimal_separator is '.' or ',', not {other:?}"))),
            },
            ("ignore_errors", given) => self.ignore_errors = call.truth(option, given)?,
            ("null_padding", given) => self.null_padding = call.truth(option, given)?,
            ("compression", Given::One(kind)) => self.compression = call.compression(kind)?,
            ("filename", given) => self.filename = call.name_of_column(option, given)?,
            ("union_by_name", given) => self.union_by_name = call.truth(option, given)?,
            ("hive_partitioning", given) => self.hive = Some(call.truth(option, given)?),
            ("auto_detect", given) => call.truth(option, given).map(|_| ())?,
            // This option is evaluated after all others.
            ("allow_quoted_nulls", given) => call.truth(option, given).map(|_| ())?,
            ("force_not_null", Given::List(columns)) => self.not_null.clone_from(columns),
            ("store_rejects" | "normalize_names" | "force_not_null", given)
                if call.truth(option, given).is_ok_and(|wanted| !wanted) => {}
            // No effect: all rows are always inspected, and all line endings are accepted.
            ("sample_size" | "parallel" | "buffer_size" | "max_line_size" | "maximum_line_size" | "new_line", _) => {}
            _ => return Err(call.unknown(option, &KNOWN)),
        }
        Ok(())
    }

    /// The first line of a file after the skipped lines.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn first_line(&self, path: &str) -> Result<String> {
        let failed = |error: std::io::Error| Error::Io(format!("{path}: {error}"));
        let reader = Cleaning::of(self, self.delimiter.unwrap_or(b',')).open(Path::new(path))?;
        let mut line = vec![];
        BufReader::new(reader).read_until(b'\n', &mut line).map_err(failed)?;
        Ok(String::from_utf8_lossy(&line).trim_start_matches('\u{feff}').to_string())
    }

    /// Whether an empty field is an empty text instead of NULL.
    pub(super) fn keeps_empty(&self) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| !nulls.iter().any(String::is_empty))
    }

    /// The quote byte; if there is none, a byte that does not occur in texts.
    pub(super) fn quote_byte(&self) -> u8 {
        self.quote.unwrap_or(0)
    }

    /// The byte that escapes a quote within quotes, if it is not the quote itself.
    pub(super) fn escape_byte(&self) -> Option<u8> {
        self.escape.filter(|escape| Some(*escape) != self.quote)
    }
}
