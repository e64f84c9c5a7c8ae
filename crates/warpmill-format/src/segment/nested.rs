//! Values of nested types: segments within a segment.
//!
//! A list is the lengths of its rows and the elements of all rows, a map a list of its entries, a struct its fields, bytes are their lengths and
//! themselves, an interval its months, days and nanoseconds. Each part is a segment of its own, encoded as a column of its type is (`docs/format.md`,
//! section 5). Null rows have no elements and no bytes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeListArray, Int32Array, Int64Array, ListArray,
    MapArray, MutableArrayData, PrimitiveArray, StructArray, UInt32Array, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, UInt32Type};

use super::bytes::{SEGMENT_ALIGN, SectionReader, SectionWriter, View, corrupt};
use super::{Segment, arrays};
use crate::{FormatError, Result, VECTOR_ROWS};

/// The parts of the values of a nested type.
pub(crate) struct NestedValues {
    parts: Vec<Segment>,
    /// Whether the parts are fields of structs.
    are_fields: bool,
    /// The bytes of all rows, of a type of bytes.
    bytes: Option<View<u8>>,
}

/// The rows of a part.
enum PartRows {
    /// So many.
    Known(usize),
    /// As many as the lengths before it add up to.
    Elements,
}

/// The type and the rows of each part of `rows` values of type `data_type`; `None` where that is no nested type.
fn part_types(data_type: &DataType, rows: usize) -> Option<Vec<(&DataType, PartRows)>> {
    let own = PartRows::Known;
    Some(match data_type {
        DataType::List(element) | DataType::Map(element, _) => {
            vec![(&DataType::UInt32, own(rows)), (element.data_type(), PartRows::Elements)]
        }
        DataType::FixedSizeList(element, length) => {
            vec![(element.data_type(), own(rows.saturating_mul(usize::try_from(*length).unwrap_or(0))))]
        }
        DataType::Struct(fields) => fields.iter().map(|field| (field.data_type(), own(rows))).collect(),
        DataType::Binary => vec![(&DataType::UInt32, own(rows))],
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            [&DataType::Int32, &DataType::Int32, &DataType::Int64].map(|part| (part, own(rows))).into()
        }
        _ => return None,
    })
}

/// Whether values of type `data_type` are stored in parts.
pub(crate) fn is_nested(data_type: &DataType) -> bool {
    part_types(data_type, 0).is_some()
}

/// Stores `array`, which is of a nested type; gives its size before encoding.
pub(super) fn encode(array: &ArrayRef, out: &mut SectionWriter) -> Result<u64> {
    let (parts, bytes) = parts_of(array)?;
    let mut plain_bytes = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    let (mut directory, mut all) = (vec![], vec![]);
    for part in &parts {
        let segment = Segment::encode(part, None, None)?;
        let segment = segment.to_symbols()?.unwrap_or(segment);
        plain_bytes += segment.stats().plain_bytes;
        let stored = segment.as_bytes();
        directory.push(stored.len() as u64);
        all.extend_from_slice(stored);
        all.resize(all.len().next_multiple_of(SEGMENT_ALIGN), 0);
    }
    out.push(&directory);
    out.push_bytes(all);
    if let Some(bytes) = bytes {
        out.push_bytes(bytes);
    }
    Ok(plain_bytes)
}

/// The parts of `array`, and the bytes of all its rows where it is of a type of bytes.
fn parts_of(array: &ArrayRef) -> Result<(Vec<ArrayRef>, Option<Vec<u8>>)> {
    let nulls = array.nulls();
    Ok(match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            (lists_of(lists.offsets(), lists.values(), nulls)?, None)
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            (lists_of(maps.offsets(), &entries, nulls)?, None)
        }
        DataType::FixedSizeList(_, length) => {
            let lists = array.as_fixed_size_list();
            let (start, length) = (lists.value_offset(0) as usize, *length as usize);
            (vec![lists.values().slice(start, lists.len() * length)], None)
        }
        DataType::Struct(_) => {
            (array.as_struct().columns().iter().map(|field| masked(field, nulls)).collect::<Result<_>>()?, None)
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            let mut bytes = vec![];
            let lengths = values.iter().map(|value| value.map_or(0, <[u8]>::len) as u32);
            let lengths: ArrayRef = Arc::new(UInt32Array::from_iter_values(lengths));
            values.iter().flatten().for_each(|value| bytes.extend_from_slice(value));
            (vec![lengths], Some(bytes))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>().values();
            let months = Int32Array::from_iter_values(values.iter().map(|value| value.months));
            let days = Int32Array::from_iter_values(values.iter().map(|value| value.days));
            let nanos = Int64Array::from_iter_values(values.iter().map(|value| value.nanoseconds));
            (vec![Arc::new(months), Arc::new(days), Arc::new(nanos)], None)
        }
        other => return Err(FormatError::schema("", format!("type {other} cannot be stored"))),
    })
}

/// `field` of a struct with these nulls, null where the struct is: a column by itself.
fn masked(field: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(field.clone()) };
    Ok(nullif(field, &BooleanArray::new(!nulls.inner(), None))?)
}

/// Lengths and elements of lists whose rows lie in `values` at `offsets`.
fn lists_of(offsets: &[i32], values: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Vec<ArrayRef>> {
    let rows = offsets.len() - 1;
    let place = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let lengths = (0..rows).map(|row| if valid(row) { place(row).len() as u32 } else { 0 });
    let lengths = UInt32Array::from_iter_values(lengths);
    let (first, last) = (offsets[0] as usize, offsets[rows] as usize);
    let elements = if (0..rows).all(|row| valid(row) || place(row).is_empty()) {
        values.slice(first, last - first)
    } else {
        let data = values.to_data();
        let mut kept = MutableArrayData::new(vec![&data], false, last - first);
        let mut valid = (0..rows).filter(|&row| valid(row));
        valid.try_for_each(|row| kept.try_extend(0, place(row).start, place(row).end))?;
        make_array(kept.freeze())
    };
    Ok(vec![Arc::new(lengths), elements])
}

impl NestedValues {
    /// Reads the parts of `rows` values of type `data_type`, and checks that they fit together.
    pub(super) fn read(reader: &mut SectionReader<'_>, data_type: &DataType, rows: usize) -> Result<Self> {
        let types = part_types(data_type, rows).ok_or_else(|| corrupt(format!("parts of {data_type}")))?;
        let directory = reader.exactly::<u64>(types.len())?;
        let all = reader.section()?;
        let (mut parts, mut start) = (Vec::<Segment>::with_capacity(types.len()), 0usize);
        for ((data_type, rows), &len) in types.iter().zip(directory.iter()) {
            let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len));
            let part = end.and_then(|end| all.slice(start..end)).ok_or_else(|| corrupt("a part lies outside"))?;
            let rows = match rows {
                PartRows::Known(rows) => *rows,
                PartRows::Elements => total(&parts[0])?,
            };
            start = (start + part.len()).next_multiple_of(SEGMENT_ALIGN);
            parts.push(Segment::from_bytes(part, data_type, rows)?);
        }
        let bytes = match data_type {
            DataType::Binary => Some(reader.exactly::<u8>(total(&parts[0])?)?),
            _ => None,
        };
        Ok(Self { parts, are_fields: matches!(data_type, DataType::Struct(_)), bytes })
    }

    /// The fields of structs, each a column by itself; none where other values are.
    pub(super) fn fields(&self) -> &[Segment] {
        if self.are_fields { &self.parts } else { &[] }
    }

    /// All `rows` values, which are of type `data_type`.
    ///
    /// # Errors
    /// Parts that do not fit together, elements beyond what one array holds.
    pub(super) fn array(&self, data_type: &DataType, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let part = |at: usize, data_type: &DataType| arrays::array(&self.parts[at], data_type);
        Ok(match data_type {
            DataType::List(element) => {
                let values = part(1, element.data_type())?;
                Arc::new(ListArray::try_new(element.clone(), self.offsets()?, values, nulls)?)
            }
            DataType::Map(entry, ordered) => {
                let entries = part(1, entry.data_type())?.as_struct().clone();
                let offsets = self.offsets()?;
                Arc::new(MapArray::try_new(entry.clone(), offsets, entries, nulls, *ordered)?)
            }
            DataType::FixedSizeList(element, length) => {
                let values = part(0, element.data_type())?;
                let lists = FixedSizeListArray::try_new_with_length(element.clone(), *length, values, nulls, rows);
                Arc::new(lists?)
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().enumerate().map(|(at, field)| part(at, field.data_type()));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let values = StructArray::try_new_with_length(fields.clone(), columns, nulls, rows);
                Arc::new(values?)
            }
            DataType::Binary => {
                let bytes = self.bytes.as_ref().map(|bytes| Buffer::from(&bytes[..]));
                let bytes = bytes.unwrap_or_default();
                Arc::new(BinaryArray::try_new(self.offsets()?, bytes, nulls)?)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let (months, days) = (part(0, &DataType::Int32)?, part(1, &DataType::Int32)?);
                let nanos = part(2, &DataType::Int64)?;
                let (months, days) = (months.as_primitive::<Int32Type>(), days.as_primitive::<Int32Type>());
                let whole = months.values().iter().zip(days.values()).zip(nanos.as_primitive::<Int64Type>().values());
                let values =
                    whole.map(|((&months, &days), &nanos)| IntervalMonthDayNanoType::make_value(months, days, nanos));
                Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::try_new(values.collect(), nulls)?)
            }
            other => return Err(FormatError::schema("", format!("type {other} is not nested"))),
        })
    }

    /// The place where each row's elements begin.
    fn offsets(&self) -> Result<OffsetBuffer<i32>> {
        let lengths = arrays::array(&self.parts[0], &DataType::UInt32)?;
        let lengths = lengths.as_primitive::<UInt32Type>().values();
        let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        match i32::try_from(total) {
            Ok(_) => Ok(OffsetBuffer::from_lengths(lengths.iter().map(|&length| length as usize))),
            Err(_) => {
                Err(FormatError::schema("", format!("{total} elements in one row segment: 2^31 - 1 are the most")))
            }
        }
    }
}

/// The sum of `lengths`.
fn total(lengths: &Segment) -> Result<usize> {
    let (mut sum, mut some) = (0u64, [0i64; VECTOR_ROWS]);
    for start in (0..lengths.rows()).step_by(VECTOR_ROWS) {
        let some = &mut some[..VECTOR_ROWS.min(lengths.rows() - start)];
        lengths.decode_i64(start, some);
        for &length in &*some {
            sum += u64::from(u32::try_from(length).map_err(|_| corrupt(format!("{length} elements")))?);
        }
    }
    usize::try_from(sum).map_err(|_| corrupt(format!("{sum} elements")))
}
