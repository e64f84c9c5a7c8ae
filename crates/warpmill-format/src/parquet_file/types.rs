//! Types of columns that a device decodes, and conversion of their statistics.

use arrow::datatypes::{DataType, TimeUnit};
use parquet::basic::Type as Physical;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use crate::pruning::{float_rank, string_rank};
use crate::segment::integer_width;
use crate::{ColumnStats, StatValue};

/// The conversion of a stored value; the numbers are defined in `kernels/parquet.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Signed = 0,
    Unsigned = 1,
    Float = 2,
    Bool = 3,
    BigEndian = 4,
    Text = 5,
}

/// How a column's values are stored, and the type that a device decodes them to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredType {
    pub kind: Kind,
    /// Bytes of a stored value; 0 for variable sizes and bits.
    pub width: u32,
    /// Bytes of a decoded value.
    pub made: u32,
    /// Bounds of the integer type.
    pub range: Option<(i128, i128)>,
    /// Whether the column can be NULL.
    pub optional: bool,
}

impl StoredType {
    /// The type of a file's column that is `natural` in Arrow's terms, for a table column of type `wanted`.
    ///
    /// # Errors
    /// The reason why a device does not decode it.
    pub fn of(column: &ColumnDescriptor, natural: &DataType, wanted: &DataType) -> Result<Self, String> {
        if column.max_rep_level() > 0 || column.max_def_level() > 1 || column.path().parts().len() > 1 {
            return Err("it is nested".into());
        }
        let physical = column.physical_type();
        if physical == Physical::INT96 {
            return Err("it is stored as INT96".into());
        }
        if !reads_as(natural, wanted) {
            return Err(format!("it is stored as {natural}, the table has {wanted}"));
        }
        let unsigned = integer_width(natural).is_some_and(|(_, signed)| !signed);
        let integers = if unsigned { Kind::Unsigned } else { Kind::Signed };
        let (kind, width, made) = match physical {
            Physical::BOOLEAN => (Kind::Bool, 0, 1),
            Physical::INT32 => (integers, 4, 4),
            Physical::INT64 => (integers, 8, 8),
            Physical::FLOAT => (Kind::Float, 4, 4),
            Physical::DOUBLE => (Kind::Float, 8, 8),
            Physical::BYTE_ARRAY if is_text(wanted) => (Kind::Text, 0, 16),
            Physical::FIXED_LEN_BYTE_ARRAY if matches!(wanted, DataType::Decimal128(..)) => {
                match u32::try_from(column.type_length()) {
                    Ok(bytes @ 1..=8) => (Kind::BigEndian, bytes, 8),
                    Ok(bytes @ 9..=16) => (Kind::BigEndian, bytes, 16),
                    _ => return Err(format!("decimals of {} bytes", column.type_length())),
                }
            }
            other => return Err(format!("{other} as {wanted}")),
        };
        let range = type_range(natural).zip(type_range(wanted));
        let range = range.map(|((a, b), (c, d))| (a.max(c), b.min(d)));
        Ok(Self { kind, width, made, range, optional: column.max_def_level() > 0 })
    }

    /// Whether values that are made are signed.
    pub fn is_signed(&self) -> bool {
        !matches!(self.kind, Kind::Unsigned | Kind::Bool)
    }

    /// The statistics of a column chunk of `rows` rows: bounds of integers and strings only. Bounds of floats ignore NaN.
    pub fn stats(&self, chunk: &ColumnChunkMetaData, rows: u64) -> ColumnStats {
        let made = if self.kind == Kind::Text {
            u64::try_from(chunk.uncompressed_size()).unwrap_or(0)
        } else {
            rows * u64::from(self.made)
        };
        let stored_bytes = u64::try_from(chunk.compressed_size()).unwrap_or(0);
        let mut stats = ColumnStats { rows, plain_bytes: made, stored_bytes, ..ColumnStats::default() };
        let found = chunk.statistics();
        if self.optional {
            // Without a count there may be NULLs, but not all values need be NULL, even for a single row.
            match found.and_then(Statistics::null_count_opt) {
                Some(nulls) => stats.nulls = nulls.min(rows),
                None => (stats.nulls, stats.rows) = (1, rows.max(2)),
            }
        }
        if let Some(found) = found
            && stats.nulls < stats.rows
        {
            let (least, greatest) = (found.min_bytes_opt(), found.max_bytes_opt());
            let trusted = !found.is_min_max_deprecated() || self.kind == Kind::Signed;
            let bounds = least.zip(greatest).filter(|_| trusted);
            let bounds = bounds.and_then(|(least, greatest)| Some((self.bound(least)?, self.bound(greatest)?)));
            (stats.min, stats.max) = bounds.unzip();
        }
        stats
    }

    /// The rank ([`crate::pruning`]) of a stored bound; `None` for invalid bytes, and for NaN.
    pub fn rank(&self, bytes: &[u8]) -> Option<i128> {
        let width = if self.kind == Kind::Bool { 1 } else { self.width as usize };
        if self.kind == Kind::Text {
            return Some(string_rank(bytes));
        }
        if bytes.len() != width {
            return None;
        }
        match (self.kind, bytes) {
            (Kind::Bool, [bit @ (0 | 1)]) => Some((*bit).into()),
            (Kind::Float, _) => {
                let value = match bytes.try_into() {
                    Ok(word) => f64::from_le_bytes(word),
                    Err(_) => f32::from_le_bytes(bytes.try_into().ok()?).into(),
                };
                Some(value).filter(|value| !value.is_nan()).map(float_rank)
            }
            _ => match self.bound(bytes)? {
                StatValue::Int(value) => Some(value),
                StatValue::Float(_) | StatValue::Str(_) => None,
            },
        }
    }

    fn bound(&self, bytes: &[u8]) -> Option<StatValue> {
        let integer = |signed: bool| {
            let fill = if signed && bytes.last()? & 0x80 != 0 { 0xFF } else { 0 };
            let mut word = [fill; 16];
            word.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(i128::from_le_bytes(word))
        };
        Some(match self.kind {
            Kind::Signed => StatValue::Int(integer(true)?),
            Kind::Unsigned => StatValue::Int(integer(false)?),
            Kind::BigEndian => {
                let fill = if bytes.first()? & 0x80 != 0 { 0xFF } else { 0 };
                let mut word = [fill; 16];
                word.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
                StatValue::Int(i128::from_be_bytes(word))
            }
            Kind::Text => StatValue::Str(std::str::from_utf8(bytes).ok()?.to_owned()),
            Kind::Float | Kind::Bool => return None,
        })
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether values of the file's type (`natural`) have the same bits as type `wanted`, from a table or from the Arrow schema that the writer stored in
/// the file.
fn reads_as(natural: &DataType, wanted: &DataType) -> bool {
    use DataType::*;
    match (natural, wanted) {
        (Binary, wanted) if is_text(wanted) => true,
        (natural, wanted) if is_text(natural) && is_text(wanted) => true,
        (Timestamp(a, _), Timestamp(b, _)) => a == b,
        (Int64, Timestamp(TimeUnit::Second, _) | Duration(_) | Date64) | (Int32, Time32(TimeUnit::Second)) => true,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (Decimal128(digits, a), Decimal128(most, b)) => digits <= most && a == b,
        (natural, wanted) => natural == wanted,
    }
}

/// The bounds of an integer-like type.
fn type_range(data_type: &DataType) -> Option<(i128, i128)> {
    if let DataType::Decimal128(digits, _) = data_type {
        let most = 10i128.checked_pow(u32::from(*digits)).map_or(i128::MAX, |most| most - 1);
        return Some((-most, most));
    }
    if *data_type == DataType::Boolean {
        return None;
    }
    let (bytes, signed) = integer_width(data_type)?;
    let bits = 8 * bytes as u32;
    Some(if signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) })
}
