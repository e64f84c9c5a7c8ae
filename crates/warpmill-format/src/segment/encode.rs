//! Encodes Arrow arrays as segments: values, statistics, validity, and the choice of encoding.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use super::bytes::{Header, SectionWriter, corrupt};
use super::nested::{self, is_nested};
use super::read::{Kind, read, write_stats};
use super::{Encoding, Segment};
use crate::encoding::choose;
use crate::encoding::outline::Outline;
use crate::encoding::plain::PlainStrings;
use crate::encoding::symbols::{self, SymbolStrings};
use crate::encoding::word::Value;
use crate::pruning::{STRING_RANK_BYTES, string_rank};
use crate::stats::{DistinctCounter, SampleCounter, string_bounds};
use crate::{ColumnStats, Dictionary, FormatError, Result, StatValue};

/// An error for a column that cannot be stored; the table layer adds its name.
fn schema(detail: String) -> FormatError {
    FormatError::Schema { column: String::new(), detail }
}

/// Bytes and signedness of an integer-like type; `None` for other types.
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
        data_type if is_nested(data_type) => {
            if let Some(other) = forced.filter(|&forced| forced != Encoding::Nested) {
                return Err(schema(format!("{data_type} values cannot be encoded as {other:?}")));
            }
            stats.plain_bytes = nested::encode(array, &mut values)?;
            (Kind::Nested, Encoding::Nested)
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
                Values::Narrow(x) => encode_integers((x, nulls), (bytes, signed), forced, &mut stats, &mut values)?,
                Values::Wide(x) => encode_integers((x, nulls), (bytes, signed), forced, &mut stats, &mut values)?,
            };
            (Kind::Integers, encoding)
        }
    };
    finish((kind, encoding), array.len(), nulls.as_ref(), &stats, values, array.data_type())
}

/// The bounds of each vector of a segment without NULLs.
pub(crate) type VectorBounds = Vec<(i128, i128)>;

fn bounds_of<V: Value>(outline: &Outline<V>) -> VectorBounds {
    outline.bounds.iter().map(|&(least, most)| (least.to_i128(), most.to_i128())).collect()
}

/// A segment of unscaled integers of type `data_type`; values of NULL rows are ignored. The distinct count is estimated from a sample. Also returns
/// the bounds of its vectors if there are no NULLs.
pub(super) fn encode_values<V: Value>(
    values: &[V],
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
) -> Result<(Segment, Option<VectorBounds>)> {
    let width = integer_width(data_type);
    let (bytes, signed) = width.ok_or_else(|| schema(format!("values of type {data_type} are no integers")))?;
    let rows = values.len() as u64;
    let nulls = nulls.filter(|n| n.null_count() > 0);
    let mut stats = ColumnStats { rows, nulls: nulls.map_or(0, |n| n.null_count() as u64), ..Default::default() };
    stats.plain_bytes = if *data_type == DataType::Boolean { rows.div_ceil(8) } else { bytes as u64 * rows };
    let mut out = SectionWriter::default();
    let filled = fill_nulls(values, nulls);
    let outline = Outline::of(&filled);
    let encoding =
        encode_outlined((&filled, &outline), Counted::Sample, (bytes, signed), None, (&mut stats, &mut out))?;
    let segment = finish((Kind::Integers, encoding), values.len(), nulls, &stats, out, data_type)?;
    Ok((segment, nulls.is_none().then(|| bounds_of(&outline))))
}

/// Lays out statistics, validity and values, and reads the result back as a segment.
pub(super) fn finish(
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

/// Re-encodes the rows of `segment`, whose integers or codes are `values`.
pub(super) fn recode(segment: &Segment, values: Vec<u128>, codes: bool, encoding: Encoding) -> Result<Segment> {
    let nulls = nulls_of(segment);
    let (mut stats, mut out) = (segment.stats().clone(), SectionWriter::default());
    // The type only limits the width: every stored integer fits the widest.
    let (kind, data_type) = match codes {
        true => (Kind::Codes, DataType::Utf8),
        false => (Kind::Integers, DataType::Decimal128(38, 0)),
    };
    let values: Vec<i128> = values.into_iter().map(|x| x as i128).collect();
    let plain = narrowest(&values);
    let narrow: Option<Vec<i64>> = values.iter().map(|&x| i64::try_from(x).ok()).collect();
    match narrow {
        Some(values) => encode_integers((&values, nulls.as_ref()), plain, Some(encoding), &mut stats, &mut out)?,
        None => encode_integers((&values, nulls.as_ref()), plain, Some(encoding), &mut stats, &mut out)?,
    };
    finish((kind, encoding), segment.rows(), nulls.as_ref(), segment.stats(), out, &data_type)
}

/// Bytes and signedness of the smallest integer type that fits `values`.
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

/// A segment of `codes`, which are entries of `dictionary` except in NULL rows, and the bounds of its vectors if there are no NULLs.
pub(super) fn encode_codes(
    codes: &[i32],
    nulls: Option<&NullBuffer>,
    dictionary: &Dictionary,
) -> Result<(Segment, Option<VectorBounds>)> {
    let nulls = nulls.filter(|n| n.null_count() > 0);
    let mut stats = ColumnStats { rows: codes.len() as u64, ..Default::default() };
    stats.nulls = nulls.map_or(0, |n| n.null_count() as u64);
    let filled = fill_nulls(codes, nulls);
    let outline = Outline::of(&filled);
    let most = outline.range().filter(|_| stats.nulls < stats.rows);
    if let Some((least, most)) = most
        && (least < 0 || most as usize >= dictionary.len())
    {
        return Err(schema(format!("codes {least} to {most} of a dictionary of {} entries", dictionary.len())));
    }
    let counts = count_codes(&filled, most.map_or(0, |(_, most)| most as usize + 1));
    let lengths = (0u32..).zip(&counts).map(|(code, &count)| count * dictionary.get(code).len() as u64);
    // NULL rows repeat others, but have no bytes.
    let repeated = nulls.map_or(0, |n| {
        let null_rows = (0..codes.len()).filter(|&row| n.is_null(row) && !counts.is_empty());
        null_rows.map(|row| dictionary.get(filled[row] as u32).len() as u64).sum()
    });
    stats.plain_bytes = lengths.sum::<u64>() - repeated + 4 * stats.rows;
    let distinct = Counted::Known(counts.iter().filter(|&&count| count > 0).count() as u64);
    let mut values = SectionWriter::default();
    let encoding = encode_outlined((&filled, &outline), distinct, (4, false), None, (&mut stats, &mut values))?;
    if let Some((min, max)) = stats.int_range() {
        (stats.min, stats.max) = string_bounds([min, max].map(|code| dictionary.get(code as u32)).into_iter());
    }
    let segment = finish((Kind::Codes, encoding), codes.len(), nulls, &stats, values, &DataType::Utf8)?;
    Ok((segment, nulls.is_none().then(|| bounds_of(&outline))))
}

/// Counts each of `codes` codes in `values`.
fn count_codes(values: &[i32], codes: usize) -> Vec<u64> {
    if codes == 0 {
        return vec![];
    }
    // Several counters for each code: neighbours may have the same one, and would have to wait for each other's update.
    let mut counts = vec![[0u32; 4]; codes];
    let (fours, rest) = values.as_chunks::<4>();
    for four in fours {
        (0..4).for_each(|i| counts[four[i] as usize][i] += 1);
    }
    rest.iter().for_each(|&code| counts[code as usize][0] += 1);
    counts.iter().map(|four| four.iter().map(|&count| u64::from(count)).sum()).collect()
}

/// The rank of `bytes[start..end]`, see [`string_rank`].
#[inline(always)]
fn rank_at(bytes: &[u8], start: usize, end: usize) -> i128 {
    let Some(first) = bytes.get(start..start + 16) else { return string_rank(&bytes[start..end]) };
    let word = u128::from_be_bytes(first.try_into().expect("16 bytes"));
    let len = (end - start).min(STRING_RANK_BYTES) as u32;
    ((word & !(u128::MAX >> (8 * len))) >> 8) as i128
}

/// Bounds of the ranks of a zone's rows; `None`: all are NULL.
pub(crate) type RankBounds = Option<(i128, i128)>;

/// A segment of strings: row `i` is `bytes[offsets[i]..offsets[i + 1]]`, empty if NULL. Also returns the bounds of every `zone_rows` rows.
pub(super) fn encode_plain_strings(
    (offsets, bytes): (Vec<u32>, Vec<u8>),
    nulls: Option<&NullBuffer>,
    zone_rows: usize,
) -> Result<(Segment, Vec<RankBounds>)> {
    let rows = offsets.len() - 1;
    let nulls = nulls.filter(|n| n.null_count() > 0);
    let place = |row: usize| (offsets[row] as usize, offsets[row + 1] as usize);
    let text = |row: usize| &bytes[place(row).0..place(row).1];
    let valid = |row: usize| nulls.is_none_or(|n| n.is_valid(row));
    // The least and the greatest of all rows: rank and row.
    let (mut first, mut last) = (None::<(i128, usize)>, None::<(i128, usize)>);
    let zone = |start: usize| {
        let mut bounds: RankBounds = None;
        for row in (start..rows.min(start + zone_rows)).filter(|&row| valid(row)) {
            let rank = rank_at(&bytes, place(row).0, place(row).1);
            bounds = Some(bounds.map_or((rank, rank), |(lo, hi)| (lo.min(rank), hi.max(rank))));
            if first.is_none_or(|(least, at)| rank < least || rank == least && text(row) < text(at)) {
                first = Some((rank, row));
            }
            if last.is_none_or(|(most, at)| rank > most || rank == most && text(row) > text(at)) {
                last = Some((rank, row));
            }
        }
        bounds
    };
    let zones = (0..rows).step_by(zone_rows).map(zone).collect();
    let mut stats = ColumnStats { rows: rows as u64, ..Default::default() };
    stats.nulls = nulls.map_or(0, |n| n.null_count() as u64);
    stats.plain_bytes = bytes.len() as u64 + 4 * stats.rows;
    stats.distinct = Some(distinct_strings(rows, text, valid));
    if let (Some((_, first)), Some((_, last))) = (first, last) {
        let [first, last] = [first, last].map(|row| std::str::from_utf8(text(row)));
        let not_text = |error: std::str::Utf8Error| corrupt(format!("strings are not UTF-8: {error}"));
        (stats.min, stats.max) = string_bounds([first.map_err(not_text)?, last.map_err(not_text)?].into_iter());
    }
    let mut values = SectionWriter::default();
    values.push_words(offsets);
    values.push_bytes(bytes);
    Ok((finish((Kind::Strings, Encoding::Plain), rows, nulls, &stats, values, &DataType::Utf8)?, zones))
}

/// Converts `segment`, whose values are `strings`, to plain strings.
pub(super) fn to_plain_strings(segment: &Segment, strings: &SymbolStrings) -> Result<Segment> {
    let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(segment.rows() + 1));
    strings.expand(0, segment.rows(), &mut bytes, &mut places);
    let mut values = SectionWriter::default();
    values.push_words(places.into_iter().map(|place| place as u32).collect());
    values.push_bytes(bytes);
    finish(
        (Kind::Strings, Encoding::Plain),
        segment.rows(),
        nulls_of(segment).as_ref(),
        segment.stats(),
        values,
        &DataType::Utf8,
    )
}

/// Encodes `segment`, of plain strings, as symbols; `None` if that does not pay.
///
/// # Errors
/// None expected: the result is checked as after a read.
pub(super) fn to_symbols(segment: &Segment, strings: &PlainStrings) -> Result<Option<Segment>> {
    let (offsets, bytes) = strings.sections();
    let mut values = SectionWriter::default();
    if !symbols::encode(symbols::Strings { offsets, bytes }, &mut values) {
        return Ok(None);
    }
    let nulls = nulls_of(segment);
    let kind = (Kind::Strings, Encoding::Symbols);
    finish(kind, segment.rows(), nulls.as_ref(), segment.stats(), values, &DataType::Utf8).map(Some)
}

/// The rows of `segment` that are null.
fn nulls_of(segment: &Segment) -> Option<NullBuffer> {
    let valid = segment.validity(0, segment.rows())?;
    let buffer = arrow::buffer::Buffer::from_vec(valid.words().to_vec());
    Some(NullBuffer::new(arrow::buffer::BooleanBuffer::new(buffer, 0, segment.rows())))
}

/// Estimated number of distinct strings among `rows`.
fn distinct_strings<'a>(rows: usize, text: impl Fn(usize) -> &'a [u8], valid: impl Fn(usize) -> bool) -> u64 {
    if rows < MANY_ROWS {
        let mut counter = DistinctCounter::hashed();
        (0..rows).filter(|&row| valid(row)).for_each(|row| counter.add_bytes(text(row)));
        return counter.estimate();
    }
    let mut counter = SampleCounter::new(rows);
    for start in (0..rows - SampleCounter::STEP).step_by(SampleCounter::STEP) {
        let row = start + counter.next_row();
        if valid(row) {
            counter.add_bytes(text(row));
        }
    }
    let count = (0..rows).filter(|&row| valid(row)).count() as u64;
    counter.estimate(count, count)
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

/// `values` as `i64` if all valid ones fit (NULL rows may have any value).
fn narrowed(values: impl ExactSizeIterator<Item = i128> + Clone, array: &ArrayRef) -> Values {
    // Without branches: nearly always all fit.
    let wide = |x: i128| x != i128::from(x as i64);
    let fits = values.clone().fold(true, |fits, x| fits & !wide(x))
        || (array.null_count() > 0 && values.clone().enumerate().all(|(row, x)| !wide(x) || array.is_null(row)));
    if fits { Values::Narrow(values.map(|x| x as i64).collect()) } else { Values::Wide(values.collect()) }
}

/// The number of distinct values.
enum Counted {
    /// Count all values.
    All,
    /// Sample, if there are many.
    Sample,
    /// A known number.
    Known(u64),
}

/// Number of rows from which on a sample is used, and range of values up to which all are counted.
const MANY_ROWS: usize = 1 << 16;
const SMALL_RANGE: i128 = 1 << 14;

/// The values with null rows repeating the row before them: inside the bounds, no delta, no new run.
fn fill_nulls<'a, V: Value>(values: &'a [V], nulls: Option<&NullBuffer>) -> Cow<'a, [V]> {
    let Some(nulls) = nulls else { return Cow::Borrowed(values) };
    let mut previous = nulls.valid_indices().next().map_or(V::default(), |first| values[first]);
    let filled = values.iter().enumerate().map(|(row, &x)| {
        previous = if nulls.is_valid(row) { x } else { previous };
        previous
    });
    Cow::Owned(filled.collect())
}

/// Encodes integers, filling `stats` (all but plain bytes).
fn encode_integers<V: Value>(
    (values, nulls): (&[V], Option<&NullBuffer>),
    plain: (usize, bool),
    forced: Option<Encoding>,
    stats: &mut ColumnStats,
    out: &mut SectionWriter,
) -> Result<Encoding> {
    let filled = fill_nulls(values, nulls);
    encode_outlined((&filled, &Outline::of(&filled)), Counted::All, plain, forced, (stats, out))
}

/// Encodes integers, null rows being filled.
fn encode_outlined<V: Value>(
    (values, outline): (&[V], &Outline<V>),
    distinct: Counted,
    plain: (usize, bool),
    forced: Option<Encoding>,
    (stats, out): (&mut ColumnStats, &mut SectionWriter),
) -> Result<Encoding> {
    let range = outline.range().filter(|_| stats.nulls < stats.rows);
    stats.distinct = Some(0);
    if let Some((min, max)) = range {
        (stats.min, stats.max) = (Some(StatValue::Int(min.to_i128())), Some(StatValue::Int(max.to_i128())));
        stats.distinct = Some(match distinct {
            Counted::Known(distinct) => distinct,
            _ if outline.descents == 0 => outline.changes as u64 + 1,
            Counted::Sample if values.len() >= MANY_ROWS => sampled(values, outline, (min, max)),
            _ => counted(values, (min, max)),
        });
    }
    choose::encode((values, outline), plain, forced, out).map_err(schema)
}

fn counted<V: Value>(values: &[V], (min, max): (V, V)) -> u64 {
    let mut counter = DistinctCounter::new(min.to_i128(), max.to_i128());
    counter.add_all(values, min);
    counter.estimate()
}

fn sampled<V: Value>(values: &[V], outline: &Outline<V>, (min, max): (V, V)) -> u64 {
    let span = max.to_i128().saturating_sub(min.to_i128());
    if span < SMALL_RANGE {
        return counted(values, (min, max));
    }
    let mut counter = SampleCounter::new(values.len());
    counter.add_all(values);
    // Every value but the first of a kind follows another one, or an equal one.
    let most = (outline.changes as u64 + 1).min(u64::try_from(span).unwrap_or(u64::MAX).saturating_add(1));
    counter.estimate(values.len() as u64, most)
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
    let encoding = encode_integers((&codes, nulls.as_ref()), (4, false), forced, stats, out)?;
    if let Some((min, max)) = stats.int_range() {
        (stats.min, stats.max) = string_bounds([min, max].map(|code| dictionary.get(code as u32)).into_iter());
    }
    Ok((Kind::Codes, encoding))
}
