//! Arrow arrays into segments: values, statistics, validity, and the choice of encoding.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::bytes::{Header, SectionWriter};
use super::read::{Kind, read, write_stats};
use super::{Encoding, Segment};
use crate::encoding::choose;
use crate::encoding::plain::PlainStrings;
use crate::encoding::word::Value;
use crate::stats::{DistinctCounter, string_bounds};
use crate::{ColumnStats, Dictionary, FormatError, Result, StatValue};

/// The error of a column that cannot be stored; the table layer knows its name.
fn schema(detail: String) -> FormatError {
    FormatError::Schema { column: String::new(), detail }
}

/// Bytes and signedness of an integer-like type; `None` for the others.
pub(crate) fn integer_width(data_type: &DataType) -> Option<(usize, bool)> {
    Some(match data_type {
        DataType::Boolean | DataType::UInt8 => (1, false),
        DataType::Int8 => (1, true),
        DataType::Int16 => (2, true),
        DataType::UInt16 => (2, false),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => (4, true),
        DataType::UInt32 => (4, false),
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => (8, true),
        DataType::Duration(_) | DataType::Decimal64(..) => (8, true),
        DataType::UInt64 => (8, false),
        DataType::Decimal128(..) => (16, true),
        _ => return None,
    })
}

pub(super) fn encode(array: &ArrayRef, dictionary: Option<&Dictionary>, forced: Option<Encoding>) -> Result<Segment> {
    let rows = u32::try_from(array.len()).map_err(|_| schema(format!("{} rows in one segment", array.len())))?;
    let nulls = array.logical_nulls().filter(|n| n.null_count() > 0);
    let mut stats = ColumnStats { rows: u64::from(rows), ..Default::default() };
    stats.nulls = nulls.as_ref().map_or(0, |n| n.null_count() as u64);
    let mut values = SectionWriter::default();
    let (kind, encoding) = match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            encode_strings(array, dictionary, forced, &mut stats, &mut values)?
        }
        DataType::Float32 => {
            let column = array.as_primitive::<Float32Type>();
            float_stats(column.iter().flatten().map(f64::from), 4, &mut stats);
            values.push(&column.values()[..]);
            (Kind::F32, plain_only(array.data_type(), forced)?)
        }
        DataType::Float64 => {
            let column = array.as_primitive::<Float64Type>();
            float_stats(column.iter().flatten(), 8, &mut stats);
            values.push(&column.values()[..]);
            (Kind::F64, plain_only(array.data_type(), forced)?)
        }
        data_type => {
            let width = integer_width(data_type);
            let (bytes, signed) = width.ok_or_else(|| schema(format!("type {data_type} cannot be stored")))?;
            let integers = integers(array)?;
            stats.plain_bytes = if *data_type == DataType::Boolean {
                u64::from(rows).div_ceil(8)
            } else {
                bytes as u64 * u64::from(rows)
            };
            let nulls = nulls.as_ref();
            let encoding = match &integers {
                Values::Narrow(x) => encode_integers(x, nulls, (bytes, signed), forced, &mut stats, &mut values)?,
                Values::Wide(x) => encode_integers(x, nulls, (bytes, signed), forced, &mut stats, &mut values)?,
            };
            (Kind::Integers, encoding)
        }
    };
    finish((kind, encoding), array.len(), nulls.as_ref(), &stats, values, array.data_type())
}

/// A segment of unscaled integers of type `data_type`; those of null rows are ignored.
pub(super) fn encode_values<V: Value>(
    values: &[V],
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
) -> Result<Segment> {
    let width = integer_width(data_type);
    let (bytes, signed) = width.ok_or_else(|| schema(format!("values of type {data_type} are no integers")))?;
    let rows = values.len() as u64;
    let nulls = nulls.filter(|n| n.null_count() > 0);
    let mut stats = ColumnStats { rows, nulls: nulls.map_or(0, |n| n.null_count() as u64), ..Default::default() };
    stats.plain_bytes = if *data_type == DataType::Boolean { rows.div_ceil(8) } else { bytes as u64 * rows };
    let mut out = SectionWriter::default();
    let encoding = encode_integers(values, nulls, (bytes, signed), None, &mut stats, &mut out)?;
    finish((Kind::Integers, encoding), values.len(), nulls, &stats, out, data_type)
}

/// Lays out statistics, validity and values, and reads the result back as a segment.
fn finish(
    (kind, encoding): (Kind, Encoding),
    rows: usize,
    nulls: Option<&NullBuffer>,
    stats: &ColumnStats,
    values: SectionWriter,
    data_type: &DataType,
) -> Result<Segment> {
    let mut sections = SectionWriter::default();
    sections.push(&write_stats(stats));
    if let Some(nulls) = nulls {
        sections.push(&nulls.inner().bit_chunks().iter_padded().take(rows.div_ceil(64)).collect::<Vec<u64>>());
    }
    sections.append(values);
    let header = Header { encoding: encoding as u8, kind: kind as u8, rows: rows as u32, nulls: stats.nulls as u32 };
    read(sections.finish(header), data_type, rows, None)
}

/// The rows of `segment`, whose integers or codes are `values`, in another encoding.
pub(super) fn recode(segment: &Segment, values: Vec<u128>, codes: bool, encoding: Encoding) -> Result<Segment> {
    let nulls = segment.validity(0, segment.rows()).map(|valid| {
        let buffer = arrow::buffer::Buffer::from_vec(valid.words().to_vec());
        NullBuffer::new(arrow::buffer::BooleanBuffer::new(buffer, 0, segment.rows()))
    });
    let (mut stats, mut out) = (segment.stats().clone(), SectionWriter::default());
    // The type only says how wide a value may be: every integer that is stored fits the widest.
    let (kind, data_type) = match codes {
        true => (Kind::Codes, DataType::Utf8),
        false => (Kind::Integers, DataType::Decimal128(38, 0)),
    };
    let values: Vec<i128> = values.into_iter().map(|x| x as i128).collect();
    let plain = narrowest(&values);
    let narrow: Option<Vec<i64>> = values.iter().map(|&x| i64::try_from(x).ok()).collect();
    match narrow {
        Some(values) => encode_integers(&values, nulls.as_ref(), plain, Some(encoding), &mut stats, &mut out)?,
        None => encode_integers(&values, nulls.as_ref(), plain, Some(encoding), &mut stats, &mut out)?,
    };
    finish((kind, encoding), segment.rows(), nulls.as_ref(), segment.stats(), out, &data_type)
}

/// Bytes and signedness of the smallest integers that hold `values`.
fn narrowest(values: &[i128]) -> (usize, bool) {
    let (min, max) = values.iter().fold((0, 0), |(lo, hi), &x| (x.min(lo), x.max(hi)));
    let width = |bytes: usize| {
        let bits = 8 * bytes as u32;
        let unsigned = min >= 0 && max < 1 << bits;
        let signed = min >= -(1 << (bits - 1)) && max < 1 << (bits - 1);
        if unsigned { Some((bytes, false)) } else { signed.then_some((bytes, true)) }
    };
    [1, 2, 4, 8].into_iter().find_map(width).unwrap_or((16, true))
}

/// A segment of `codes`, each an entry of `dictionary` unless its row is null.
pub(super) fn encode_codes(codes: &[u32], nulls: Option<&NullBuffer>, dictionary: &Dictionary) -> Result<Segment> {
    let nulls = nulls.filter(|n| n.null_count() > 0);
    let mut stats = ColumnStats { rows: codes.len() as u64, ..Default::default() };
    stats.nulls = nulls.map_or(0, |n| n.null_count() as u64);
    let valid = |row: usize| nulls.is_none_or(|n| n.is_valid(row));
    let codes: Vec<i64> = codes.iter().map(|&code| code.into()).collect();
    let lengths: Vec<u32> = dictionary.iter().map(|entry| entry.len() as u32).collect();
    let mut bytes = 0;
    for (_, &code) in codes.iter().enumerate().filter(|&(row, _)| valid(row)) {
        let Some(&length) = lengths.get(code as usize) else {
            return Err(schema(format!("code {code} of a dictionary of {} entries", dictionary.len())));
        };
        bytes += u64::from(length);
    }
    stats.plain_bytes = bytes + 4 * stats.rows;
    let mut values = SectionWriter::default();
    let encoding = encode_integers(&codes, nulls, (4, false), None, &mut stats, &mut values)?;
    if let Some((min, max)) = stats.int_range() {
        (stats.min, stats.max) = string_bounds([min, max].map(|code| dictionary.get(code as u32)).into_iter());
    }
    finish((Kind::Codes, encoding), codes.len(), nulls, &stats, values, &DataType::Utf8)
}

fn plain_only(data_type: &DataType, forced: Option<Encoding>) -> Result<Encoding> {
    match forced {
        None | Some(Encoding::Plain) => Ok(Encoding::Plain),
        Some(other) => Err(schema(format!("{data_type} values cannot be encoded as {other:?}"))),
    }
}

/// Unscaled integers; wide only where a value needs it.
enum Values {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

fn integers(array: &ArrayRef) -> Result<Values> {
    fn narrow<P: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> Values {
        Values::Narrow(array.as_primitive::<P>().values().iter().map(|&x| x.into()).collect())
    }
    Ok(match array.data_type() {
        DataType::Boolean => Values::Narrow(array.as_boolean().values().iter().map(i64::from).collect()),
        DataType::Int8 => narrow::<Int8Type>(array),
        DataType::Int16 => narrow::<Int16Type>(array),
        DataType::Int32 => narrow::<Int32Type>(array),
        DataType::Int64 => narrow::<Int64Type>(array),
        DataType::UInt8 => narrow::<UInt8Type>(array),
        DataType::UInt16 => narrow::<UInt16Type>(array),
        DataType::UInt32 => narrow::<UInt32Type>(array),
        DataType::UInt64 => {
            let column = array.as_primitive::<UInt64Type>();
            narrowed(column.values().iter().map(|&x| i128::from(x)), array)
        }
        DataType::Date32 => narrow::<Date32Type>(array),
        DataType::Date64 => narrow::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => narrow::<Time32SecondType>(array),
        DataType::Time32(_) => narrow::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => narrow::<Time64MicrosecondType>(array),
        DataType::Time64(_) => narrow::<Time64NanosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => narrow::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => narrow::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => narrow::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => narrow::<TimestampNanosecondType>(array),
        DataType::Duration(TimeUnit::Second) => narrow::<DurationSecondType>(array),
        DataType::Duration(TimeUnit::Millisecond) => narrow::<DurationMillisecondType>(array),
        DataType::Duration(TimeUnit::Microsecond) => narrow::<DurationMicrosecondType>(array),
        DataType::Duration(TimeUnit::Nanosecond) => narrow::<DurationNanosecondType>(array),
        DataType::Decimal32(..) => narrow::<Decimal32Type>(array),
        DataType::Decimal64(..) => narrow::<Decimal64Type>(array),
        DataType::Decimal128(..) => narrowed(array.as_primitive::<Decimal128Type>().values().iter().copied(), array),
        other => return Err(schema(format!("type {other} cannot be stored"))),
    })
}

/// `values` as `i64` where every valid one fits (null rows hold anything).
fn narrowed(values: impl ExactSizeIterator<Item = i128> + Clone, array: &ArrayRef) -> Values {
    // Without branches: nearly always all fit.
    let wide = |x: i128| x != i128::from(x as i64);
    let fits = values.clone().fold(true, |fits, x| fits & !wide(x))
        || (array.null_count() > 0 && values.clone().enumerate().all(|(row, x)| !wide(x) || array.is_null(row)));
    if fits { Values::Narrow(values.map(|x| x as i64).collect()) } else { Values::Wide(values.collect()) }
}

/// Encodes integers, filling `stats` (all but plain bytes).
fn encode_integers<V: Value>(
    values: &[V],
    nulls: Option<&NullBuffer>,
    plain: (usize, bool),
    forced: Option<Encoding>,
    stats: &mut ColumnStats,
    out: &mut SectionWriter,
) -> Result<Encoding> {
    let Some((min, max)) = bounds(values, nulls) else {
        stats.distinct = Some(0);
        return choose::encode(&vec![V::default(); values.len()], plain, forced, out).map_err(schema);
    };
    (stats.min, stats.max) = (Some(StatValue::Int(min.to_i128())), Some(StatValue::Int(max.to_i128())));
    let mut distinct = DistinctCounter::new(min.to_i128(), max.to_i128());
    let Some(nulls) = nulls else {
        distinct.add_all(values, min);
        stats.distinct = Some(distinct.estimate());
        return choose::encode(values, plain, forced, out).map_err(schema);
    };
    let valid = |row: usize| nulls.is_valid(row);
    values.iter().enumerate().filter(|&(row, _)| valid(row)).for_each(|(_, x)| distinct.add(x.to_i128()));
    stats.distinct = Some(distinct.estimate());
    // A null row repeats the row before it: inside the bounds, no delta, no new run.
    let mut previous = values.iter().enumerate().find(|&(row, _)| valid(row)).map_or(min, |(_, &x)| x);
    let filled = values.iter().enumerate().map(|(row, &x)| {
        previous = if valid(row) { x } else { previous };
        previous
    });
    choose::encode(&filled.collect::<Vec<V>>(), plain, forced, out).map_err(schema)
}

/// The least and the greatest valid value.
fn bounds<V: Value>(values: &[V], nulls: Option<&NullBuffer>) -> Option<(V, V)> {
    let both = |(lo, hi): (V, V), x: V| (lo.min(x), hi.max(x));
    let Some(nulls) = nulls else {
        let &first = values.first()?;
        return Some(values.iter().fold((first, first), |bounds, &x| both(bounds, x)));
    };
    let mut valid = nulls.valid_indices().map(|row| values[row]);
    let first = valid.next()?;
    Some(valid.fold((first, first), both))
}

fn float_stats(values: impl Iterator<Item = f64>, width: u64, stats: &mut ColumnStats) {
    stats.plain_bytes = width * stats.rows;
    let mut distinct = DistinctCounter::hashed();
    let (mut min, mut max, mut nan, mut any) = (f64::INFINITY, f64::NEG_INFINITY, false, false);
    for x in values {
        // -0 equals 0.
        distinct.add(i128::from((x + 0.0).to_bits()));
        (min, max, nan, any) = (min.min(x), max.max(x), nan | x.is_nan(), true);
    }
    if any && !nan {
        (stats.min, stats.max) = (Some(StatValue::Float(min)), Some(StatValue::Float(max)));
    }
    stats.distinct = Some(distinct.estimate());
}

fn encode_strings(
    array: &ArrayRef,
    dictionary: Option<&Dictionary>,
    forced: Option<Encoding>,
    stats: &mut ColumnStats,
    out: &mut SectionWriter,
) -> Result<(Kind, Encoding)> {
    let strings: Vec<Option<&str>> = crate::dictionary::strings(array).expect("a string type");
    stats.plain_bytes = strings.iter().flatten().map(|s| s.len() as u64).sum::<u64>() + 4 * stats.rows;
    let Some(dictionary) = dictionary else {
        let encoding = plain_only(array.data_type(), forced)?;
        let mut distinct = DistinctCounter::hashed();
        strings.iter().flatten().for_each(|s| distinct.add_bytes(s.as_bytes()));
        stats.distinct = Some(distinct.estimate());
        (stats.min, stats.max) = string_bounds(strings.iter().flatten().copied());
        let filled = strings.iter().map(|s| s.unwrap_or(""));
        PlainStrings::encode(filled, out)
            .ok_or_else(|| schema("4 GiB or more of strings in one segment".to_owned()))?;
        return Ok((Kind::Strings, encoding));
    };
    let code = |s: &str| dictionary.code(s).ok_or_else(|| schema(format!("the dictionary lacks {s:?}")));
    let codes = strings.iter().map(|s| s.map_or(Ok(0), code).map(i64::from)).collect::<Result<Vec<i64>>>()?;
    let nulls = array.logical_nulls().filter(|n| n.null_count() > 0);
    let encoding = encode_integers(&codes, nulls.as_ref(), (4, false), forced, stats, out)?;
    if let Some((min, max)) = stats.int_range() {
        (stats.min, stats.max) = string_bounds([min, max].map(|code| dictionary.get(code as u32)).into_iter());
    }
    Ok((Kind::Codes, encoding))
}
