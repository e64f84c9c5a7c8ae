//! Segments from their bytes.

use std::sync::Arc;

use arrow::datatypes::DataType;

use super::bytes::{Fetch, SectionReader, SegmentBytes, View, corrupt};
use super::nested::{NestedValues, is_nested};
use super::{Encoding, Segment, Values};
use crate::encoding::column::Integers;
use crate::encoding::gpu::{GpuPacked, Scheme};
use crate::encoding::lane_delta::LaneDelta;
use crate::encoding::lane_for::LaneFor;
use crate::encoding::lane_rle::LaneRle;
use crate::encoding::plain::{PlainIntegers, PlainStrings};
use crate::encoding::symbols::SymbolStrings;
use crate::{ColumnStats, Result, StatValue, VECTOR_ROWS};

/// The kind of a segment's values, as stored in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integers = 0,
    Codes = 1,
    F32 = 2,
    F64 = 3,
    Strings = 4,
    Nested = 5,
}

impl Kind {
    fn of(kind: u8, data_type: &DataType) -> Result<Self> {
        let fits = match (kind, data_type) {
            (1, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Some(Kind::Codes),
            (4, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => Some(Kind::Strings),
            (2, DataType::Float32) => Some(Kind::F32),
            (3, DataType::Float64) => Some(Kind::F64),
            (5, data_type) if is_nested(data_type) => Some(Kind::Nested),
            (0, data_type) if super::encode::integer_width(data_type).is_some() => Some(Kind::Integers),
            _ => None,
        };
        fits.ok_or_else(|| corrupt(format!("values of kind {kind} in a column of {data_type}")))
    }
}

/// Reads the segment in `bytes`. With `fetch`, only bytes in the ranges passed to it are valid: the segment then has sizes and positions, but no
/// values.
pub(super) fn read(
    bytes: SegmentBytes,
    data_type: &DataType,
    rows: usize,
    fetch: Option<Fetch<'_>>,
) -> Result<Segment> {
    let (header, mut reader) = SectionReader::new(bytes.clone(), fetch)?;
    let kind = Kind::of(header.kind, data_type)?;
    if header.rows as usize != rows || header.nulls > header.rows {
        return Err(corrupt(format!("{} rows, {} nulls where {rows} rows belong", header.rows, header.nulls)));
    }
    let encoding = *Encoding::ALL
        .get(header.encoding as usize)
        .ok_or_else(|| corrupt(format!("encoding {} does not exist", header.encoding)))?;
    let mut stats = read_stats(&reader.any::<u8>()?)?;
    (stats.rows, stats.nulls) = (u64::from(header.rows), u64::from(header.nulls));
    stats.stored_bytes = bytes.len() as u64;
    let validity = if header.nulls == 0 { None } else { Some(reader.exactly::<u64>(rows.div_ceil(64))?) };
    let valid = |words: &View<u64>| words.iter().map(|w| w.count_ones() as usize).sum::<usize>();
    if validity.as_ref().is_some_and(|words| valid(words) + header.nulls as usize != rows) {
        return Err(corrupt("the validity bitmap does not match the number of nulls"));
    }
    let values = match (kind, encoding) {
        (Kind::Integers, _) => Values::Integers(Arc::new(read_integers(&mut reader, encoding, rows)?)),
        (Kind::Codes, _) => Values::Codes(Arc::new(read_integers(&mut reader, encoding, rows)?)),
        (Kind::F32, Encoding::Plain) => Values::F32(reader.bulk(rows)?),
        (Kind::F64, Encoding::Plain) => Values::F64(reader.bulk(rows)?),
        (Kind::Strings, Encoding::Plain) => Values::Strings(Arc::new(PlainStrings::read(&mut reader, rows)?)),
        (Kind::Strings, Encoding::Symbols) => Values::Symbols(Arc::new(SymbolStrings::read(&mut reader, rows)?)),
        (Kind::Nested, Encoding::Nested) => Values::Nested(Arc::new(NestedValues::read(&mut reader, data_type, rows)?)),
        _ => return Err(corrupt(format!("{kind:?} in encoding {encoding:?}"))),
    };
    Ok(Segment { bytes, rows, encoding, stats, validity, values, remap: None })
}

/// Reads the sections of `rows` integers in `encoding`.
pub(crate) fn read_integers(reader: &mut SectionReader<'_>, encoding: Encoding, rows: usize) -> Result<Integers> {
    Ok(match encoding {
        Encoding::Constant => Integers::Constant(reader.exactly::<i128>(1)?[0]),
        Encoding::Plain => Integers::Plain(PlainIntegers::read(reader, rows)?),
        Encoding::LaneFor => Integers::LaneFor(LaneFor::read(reader, rows)?),
        Encoding::LaneDelta => Integers::LaneDelta(LaneDelta::read(reader, rows)?),
        Encoding::LaneRle => Integers::LaneRle(Box::new(LaneRle::read(reader, rows)?)),
        Encoding::GpuFor => Integers::Gpu(GpuPacked::read(reader, Scheme::For, rows)?),
        Encoding::GpuDfor => Integers::Gpu(GpuPacked::read(reader, Scheme::Delta, rows)?),
        Encoding::GpuRfor => Integers::Gpu(GpuPacked::read(reader, Scheme::RunLength, rows)?),
        Encoding::Symbols | Encoding::Nested => {
            return Err(corrupt(format!("integers in encoding {encoding:?}")));
        }
    })
}

/// Stored form of statistics: distinct (u64, all ones if unknown), plain bytes (u64), then min and max, each a tag byte (0 none, 1 integer, 2 float,
/// 3 string) and 16 bytes, 8 bytes, or a u32 length and the bytes.
pub(super) fn write_stats(stats: &ColumnStats) -> Vec<u8> {
    let mut out = stats.distinct.unwrap_or(u64::MAX).to_le_bytes().to_vec();
    out.extend_from_slice(&stats.plain_bytes.to_le_bytes());
    for bound in [&stats.min, &stats.max] {
        match bound {
            None => out.push(0),
            Some(StatValue::Int(x)) => {
                out.push(1);
                out.extend_from_slice(&x.to_le_bytes());
            }
            Some(StatValue::Float(x)) => {
                out.push(2);
                out.extend_from_slice(&x.to_le_bytes());
            }
            Some(StatValue::Str(s)) => {
                out.push(3);
                out.extend_from_slice(&(s.len() as u32).to_le_bytes());
                out.extend_from_slice(s.as_bytes());
            }
        }
    }
    out
}

fn read_stats(mut bytes: &[u8]) -> Result<ColumnStats> {
    fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
        let (head, rest) = bytes.split_at_checked(n).ok_or_else(|| corrupt("statistics are cut off"))?;
        *bytes = rest;
        Ok(head)
    }
    fn number<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
        Ok(take(bytes, N)?.try_into().expect("N bytes"))
    }
    fn bound(bytes: &mut &[u8]) -> Result<Option<StatValue>> {
        Ok(match number::<1>(bytes)?[0] {
            0 => None,
            1 => Some(StatValue::Int(i128::from_le_bytes(number(bytes)?))),
            2 => Some(StatValue::Float(f64::from_le_bytes(number(bytes)?))),
            3 => {
                let len = u32::from_le_bytes(number(bytes)?) as usize;
                let text = std::str::from_utf8(take(bytes, len)?).map_err(|_| corrupt("a bound is not UTF-8"))?;
                Some(StatValue::Str(text.to_owned()))
            }
            tag => return Err(corrupt(format!("bound of kind {tag}"))),
        })
    }
    let distinct = u64::from_le_bytes(number(&mut bytes)?);
    let plain_bytes = u64::from_le_bytes(number(&mut bytes)?);
    let (min, max) = (bound(&mut bytes)?, bound(&mut bytes)?);
    Ok(ColumnStats { min, max, distinct: Some(distinct).filter(|&d| d != u64::MAX), plain_bytes, ..Default::default() })
}

pub(super) fn check_codes(segment: &Segment, entries: usize) -> Result<()> {
    let mut codes = [0u32; VECTOR_ROWS];
    for start in (0..segment.rows).step_by(VECTOR_ROWS) {
        let n = (segment.rows - start).min(VECTOR_ROWS);
        segment.decode_codes(start, &mut codes[..n]);
        let wrong = |i: usize| codes[i] as usize >= entries && segment.valid(start + i);
        if codes[..n].iter().any(|&c| c as usize >= entries) && (0..n).any(wrong) {
            return Err(corrupt(format!("a code past the dictionary's {entries} entries")));
        }
    }
    Ok(())
}

impl Segment {
    fn valid(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|words| words[row / 64] >> (row % 64) & 1 != 0)
    }
}
