//! Types of columns that depend on options: dates in a given format, numbers with a comma, empty texts.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use regex::Regex;

use super::clean::Cleaning;
use super::options::Options;
use crate::{Error, Result, dialect};

/// Properties of all values of a column that have been inspected.
#[derive(Debug, Clone)]
struct Values {
    any: bool,
    empty: bool,
    dates: bool,
    moments: bool,
    /// Whether all values are numbers with a comma.
    numbers: bool,
    /// Whether a value has a point.
    points: bool,
}

/// Whether there are options with an effect on types.
pub(super) fn is_needed(options: &Options) -> bool {
    options.keeps_empty()
        || options.date_format.is_some()
        || options.timestamp_format.is_some()
        || options.decimal_comma
}

/// Replaces the types of `fields`, found by the plain rules, by the types that follow from the options.
///
/// # Errors
/// Invalid date formats.
pub(super) fn retype(
    files: &[PathBuf],
    fields: &mut [Field],
    options: &Options,
    format: &Format,
    cleaning: &Cleaning,
) -> Result<()> {
    let texts: Vec<Field> = fields.iter().map(|field| Field::new(field.name(), DataType::Utf8, true)).collect();
    let schema = Arc::new(Schema::new(texts));
    let format = format.clone().with_null_regex(null_regex(options)?);
    let start = Values { any: false, empty: false, dates: true, moments: true, numbers: true, points: false };
    let mut columns = vec![start; fields.len()];
    for path in files {
        let failed = |error| Error::Execution(format!("{}: {error}", path.display()));
        let reader = ReaderBuilder::new(Arc::clone(&schema)).with_format(format.clone());
        for batch in reader.build(cleaning.open(path)?).map_err(failed)? {
            for (column, values) in columns.iter_mut().zip(batch.map_err(failed)?.columns()) {
                for text in values.as_string::<i32>().iter().flatten() {
                    column.add(text, options)?;
                }
            }
        }
    }
    for (field, column) in fields.iter_mut().zip(&columns) {
        if let Some(ty) = column.data_type(field.data_type(), options) {
            *field = field.clone().with_data_type(ty);
        }
    }
    Ok(())
}

/// A pattern of the fields that mean NULL: empty fields by default.
fn null_regex(options: &Options) -> Result<Regex> {
    let texts = options.nulls.iter().flatten().map(|text| regex::escape(text)).collect::<Vec<_>>().join("|");
    Regex::new(&format!("^(?:{texts})$")).map_err(|error| Error::Plan(format!("read_csv: nullstr: {error}")))
}

impl Values {
    fn add(&mut self, text: &str, options: &Options) -> Result<()> {
        self.any = true;
        self.empty |= text.is_empty();
        if let Some(format) = options.date_format.as_ref().filter(|_| self.dates) {
            self.dates = dialect::moment_of(text, format)?.is_some();
        }
        if let Some(format) = options.timestamp_format.as_ref().filter(|_| self.moments) {
            self.moments = dialect::moment_of(text, format)?.is_some();
        }
        if options.decimal_comma {
            self.points |= text.contains('.');
            self.numbers = self.numbers && is_number(text);
        }
        Ok(())
    }

    /// The type of the column, with `plain` as the type by the plain rules; `None` if it remains.
    fn data_type(&self, plain: &DataType, options: &Options) -> Option<DataType> {
        let is_written = matches!(plain, DataType::Utf8 | DataType::Date32 | DataType::Timestamp(_, None));
        if !self.any {
            return None;
        }
        if is_written && self.dates && options.date_format.is_some() {
            return Some(DataType::Date32);
        }
        if is_written && self.moments && options.timestamp_format.is_some() {
            return Some(DataType::Timestamp(TimeUnit::Microsecond, None));
        }
        if *plain == DataType::Utf8 && self.numbers && options.decimal_comma {
            return Some(DataType::Float64);
        }
        // Dates in ISO format, although another format is given.
        if *plain == DataType::Date32 && options.date_format.is_some() {
            return Some(DataType::Timestamp(TimeUnit::Microsecond, None));
        }
        let is_moment = matches!(plain, DataType::Timestamp(_, None)) && options.timestamp_format.is_some();
        let is_text = is_moment || self.empty && options.keeps_empty() || *plain == DataType::Float64 && self.points;
        is_text.then_some(DataType::Utf8)
    }
}

/// Whether a text is a number with a decimal comma and without leading zeros.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let named = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    let plain = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b',' | b'e' | b'E' | b'-' | b'+'));
    plain && !named && digits.starts_with(|c: char| c.is_ascii_digit() || c == ',') && {
        digits.replace(',', ".").parse::<f64>().is_ok_and(f64::is_finite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        for text in ["1,5", "-2,25", "3", ",5", "1e5", "1,5E-3"] {
            assert!(is_number(text), "{text}");
        }
        for text in ["1.5", "1,5,6", "", "-", "007,5", "x", "inf", "1e999", "+1"] {
            assert!(!is_number(text), "{text}");
        }
    }
}
