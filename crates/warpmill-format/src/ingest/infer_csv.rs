//! Inference of the column types of CSV files: types that fit all values.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::kernels::cast_utils::Parser as ParseValue;
use arrow::datatypes::{
    DataType, Date32Type, Field, Float64Type, Int64Type, Schema, SchemaRef, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use arrow::record_batch::RecordBatch;

use super::csv_records::Piece;
use super::from_csv::{CsvOptions, Parser};
use super::parallel::{ordered, thread_count};
use super::{input, name};
use crate::{FormatError, Result};

/// A type that fits all values of a column so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No value yet.
    Nothing,
    Boolean,
    Int64,
    /// Integers of up to 38 digits.
    Integer,
    Float64,
    /// Whether some are outside of the range of nanoseconds.
    Date {
        wide: bool,
    },
    Time,
    /// Whether some need nanoseconds, and whether some are outside of the range of nanoseconds.
    Timestamp {
        nanos: bool,
        wide: bool,
    },
    /// A timestamp with a time zone.
    Instant,
    Text,
}

impl Kind {
    /// The type of one value. Numbers with a leading zero are text: they are names, not quantities.
    fn of(text: &str) -> Self {
        let digits = text.strip_prefix('-').unwrap_or(text);
        match digits.as_bytes() {
            [b'0', second, ..] if second.is_ascii_digit() && is_number(digits) => Kind::Text,
            [b'0'..=b'9' | b'.', ..] if is_number(digits) => Self::of_number(text, digits),
            [b'0'..=b'9', ..] => Self::of_time(text),
            _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") => Kind::Boolean,
            // As accepted by casts, and as written for floats.
            _ if ["nan", "inf", "infinity"].iter().any(|name| digits.eq_ignore_ascii_case(name)) => Kind::Float64,
            _ => Kind::Text,
        }
    }

    fn of_number(text: &str, digits: &str) -> Self {
        if digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return match Int64Type::parse(text) {
                Some(_) => Kind::Int64,
                None if digits.len() <= 38 => Kind::Integer,
                None => Kind::Text,
            };
        }
        match Float64Type::parse(text) {
            Some(number) if number.is_finite() => Kind::Float64,
            _ => Kind::Text,
        }
    }

    fn of_time(text: &str) -> Self {
        if text.as_bytes().get(2) == Some(&b':') {
            let plain = text.len() <= 15 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.'));
            return match Time64MicrosecondType::parse(text).filter(|_| plain) {
                Some(_) => Kind::Time,
                None => Kind::Text,
            };
        }
        if text.as_bytes().get(4) != Some(&b'-') {
            return Kind::Text;
        }
        if text.len() == 10 {
            let wide = TimestampNanosecondType::parse(text).is_none();
            return if Date32Type::parse(text).is_some() { Kind::Date { wide } } else { Kind::Text };
        }
        if TimestampMicrosecondType::parse(text).is_none() || !matches!(text.as_bytes()[10], b'T' | b' ') {
            return Kind::Text;
        }
        let wide = TimestampNanosecondType::parse(text).is_none();
        let time = &text[11..];
        let fraction = time.split_once('.').map_or("", |(_, fraction)| fraction);
        match time.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b':' | b'.')) {
            true if fraction.len() > 9 => Kind::Text,
            true => Kind::Timestamp { nanos: fraction.len() > 6, wide },
            false => Kind::Instant,
        }
    }

    /// The type that has the values of both.
    fn and(self, other: Self) -> Self {
        use Kind::*;
        match (self, other) {
            (a, b) if a == b => a,
            (Nothing, a) | (a, Nothing) => a,
            (Int64, Integer) | (Integer, Int64) => Integer,
            (Float64, Int64 | Integer) | (Int64 | Integer, Float64) => Float64,
            (Date { wide: a }, Date { wide: b }) => Date { wide: a || b },
            (Date { wide: a }, Timestamp { nanos, wide: b }) | (Timestamp { nanos, wide: b }, Date { wide: a }) => {
                Timestamp { nanos, wide: a || b }
            }
            (Timestamp { nanos: a, wide: b }, Timestamp { nanos: c, wide: d }) => {
                Timestamp { nanos: a || c, wide: b || d }
            }
            _ => Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Kind::Nothing | Kind::Text | Kind::Timestamp { nanos: true, wide: true } => DataType::Utf8,
            Kind::Boolean => DataType::Boolean,
            Kind::Int64 => DataType::Int64,
            Kind::Integer => DataType::Decimal128(38, 0),
            Kind::Float64 => DataType::Float64,
            Kind::Date { .. } => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Microsecond),
            Kind::Timestamp { nanos: false, .. } => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Timestamp { nanos: true, .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
            Kind::Instant => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        }
    }
}

/// Whether a text consists of digits, with at most one point and an exponent.
fn is_number(text: &str) -> bool {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = |text: &str| !text.is_empty() && is_digits(text);
    !(whole.is_empty() && fraction.is_empty())
        && is_digits(whole)
        && is_digits(fraction)
        && exponent.is_none_or(is_exponent)
}

/// Properties of CSV files with the same columns.
#[derive(Debug, Clone)]
pub struct CsvColumns {
    names: Vec<String>,
    kinds: Vec<Kind>,
    /// Whether some values span several lines.
    pub multi_line: bool,
}

impl CsvColumns {
    /// Reads all records of a file, named `path` in errors.
    pub fn read(
        path: &Path,
        mut open: impl FnMut() -> Result<Box<dyn Read + Send>>,
        options: &CsvOptions,
    ) -> Result<Self> {
        let failed = |error: arrow::error::ArrowError| input(name(path), None, error.to_string());
        // Blank lines before the header are passed over, a first record is read for the number of columns.
        let records = if options.has_header { 0 } else { 1 };
        let format = options.format(options.has_header);
        let (header, _) = format.infer_schema(BufReader::new(open()?), Some(records)).map_err(failed)?;
        let names: Vec<String> = header.fields().iter().map(|field| field.name().clone()).collect();
        let parser = Parser::of_text(path, options, &names);
        let mut columns = Self { kinds: vec![Kind::Nothing; names.len()], names: names.clone(), multi_line: false };
        let threads = thread_count(options.threads);
        let work = |piece: Piece| {
            let batches = parser.parse(&piece)?;
            Ok(batches.iter().map(of_batch).reduce(and))
        };
        ordered(threads, threads + 1, parser.pieces(open()?), work, |found| {
            if let Some((kinds, multi_line)) = found {
                (columns.kinds, columns.multi_line) =
                    and((std::mem::take(&mut columns.kinds), columns.multi_line), (kinds, multi_line));
            }
            Ok(())
        })?;
        Ok(columns)
    }

    /// The combined types of two files; `None` if their columns differ.
    pub fn and(self, other: Self) -> Option<Self> {
        if self.names != other.names {
            return None;
        }
        let (kinds, multi_line) = and((self.kinds, self.multi_line), (other.kinds, other.multi_line));
        Some(Self { names: self.names, kinds, multi_line })
    }

    /// The schema of their rows: types that fit all values, text for columns without values; all columns are nullable.
    ///
    /// Errors: a duplicate name.
    pub fn schema(&self, path: &Path) -> Result<SchemaRef> {
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = self.names.iter().find(|name| !seen.insert(*name)) {
            let place = format!("line 1, column {twice:?}");
            return Err(input(name(path), place, "a column name is there twice"));
        }
        let fields = self.names.iter().zip(&self.kinds).map(|(name, kind)| Field::new(name, kind.data_type(), true));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }
}

type Found = (Vec<Kind>, bool);

fn and(a: Found, b: Found) -> Found {
    (a.0.into_iter().zip(b.0).map(|(a, b)| a.and(b)).collect(), a.1 || b.1)
}

fn of_batch(batch: &RecordBatch) -> Found {
    let mut multi_line = false;
    let mut kind = |column: &arrow::array::ArrayRef| {
        let strings = column.as_string::<i32>();
        multi_line |= memchr::memchr2(b'\n', b'\r', strings.value_data()).is_some();
        let mut kind = Kind::Nothing;
        for text in strings.iter().flatten() {
            if kind == Kind::Text {
                break;
            }
            kind = kind.and(Kind::of(text));
        }
        kind
    };
    let kinds = batch.columns().iter().map(&mut kind).collect();
    (kinds, multi_line)
}

/// The schema of a table of the rows of CSV files: types that fit all values; all columns are nullable.
///
/// Errors: a file that cannot be read, or whose columns differ from the first one's.
pub fn csv_schema<P: AsRef<Path>>(paths: &[P], options: &CsvOptions) -> Result<SchemaRef> {
    let mut paths = paths.iter().map(AsRef::as_ref);
    let of_file = |path: &Path| {
        let open = || {
            let file = std::fs::File::open(path).map_err(FormatError::io("cannot open", path))?;
            Ok(Box::new(file) as Box<dyn Read + Send>)
        };
        CsvColumns::read(path, open, options)
    };
    let first = paths.next().ok_or_else(|| FormatError::Catalog("no CSV file is given".into()))?;
    let mut columns = of_file(first)?;
    for path in paths {
        let others = of_file(path)?;
        let differ = || input(name(path), "line 1".to_owned(), format!("other columns than {}", first.display()));
        columns = columns.and(others).ok_or_else(differ)?;
    }
    columns.schema(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_types() {
        for (text, kind) in [
            ("0", Kind::Int64),
            ("-17", Kind::Int64),
            ("01234", Kind::Text),
            ("-01", Kind::Text),
            ("00.5", Kind::Text),
            ("0.5", Kind::Float64),
            (".5", Kind::Float64),
            ("5.", Kind::Float64),
            (".", Kind::Text),
            ("-", Kind::Text),
            ("1e5", Kind::Float64),
            ("1e", Kind::Text),
            ("1e999", Kind::Text),
            ("9223372036854775807", Kind::Int64),
            ("9223372036854775808", Kind::Integer),
            ("-99999999999999999999999999999999999999", Kind::Integer),
            ("999999999999999999999999999999999999999", Kind::Text),
            ("TRUE", Kind::Boolean),
            ("NaN", Kind::Float64),
            ("-inf", Kind::Float64),
            ("Infinity", Kind::Float64),
            ("info", Kind::Text),
            ("2020-02-29", Kind::Date { wide: false }),
            ("9999-12-31", Kind::Date { wide: true }),
            ("2021-02-29", Kind::Text),
            ("12:34:56", Kind::Time),
            ("12:34:56.123456", Kind::Time),
            ("25:00:00", Kind::Text),
            ("2020-01-01 10:00:00", Kind::Timestamp { nanos: false, wide: false }),
            ("2020-01-01T10:00:00.123", Kind::Timestamp { nanos: false, wide: false }),
            ("2020-01-01T10:00:00.123456789", Kind::Timestamp { nanos: true, wide: false }),
            ("2020-01-01T10:00:00Z", Kind::Instant),
            ("2020-01-01 10:00:00+02:00", Kind::Instant),
            ("2020-01-01 ten", Kind::Text),
            ("12 apples", Kind::Text),
            ("+5", Kind::Text),
            ("\u{fc}", Kind::Text),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }
}
