//! Values of nested types: child segments within a segment.
//!
//! A list consists of the lengths of its rows and the elements of all rows, a map is a list of entries, a struct has its fields, binary values are
//! lengths and bytes, an interval has months, days and nanoseconds, a UUID its first and last eight bytes. Each child is a separate segment, encoded
//! like a column of its type (`docs/format.md`, section 5). NULL rows have no elements and no bytes.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, Int32Array,
    Int64Array, ListArray, MapArray, MutableArrayData, PrimitiveArray, StructArray, UInt32Array, UInt64Array,
    make_array, new_empty_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::{concat, nullif};
use arrow::datatypes::{
    DataType, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, UInt32Type, UInt64Type,
};

use super::bytes::{SEGMENT_ALIGN, SectionReader, SectionWriter, View, corrupt};
use super::{Segment, arrays};
use crate::{FormatError, Result, SEGMENT_ROWS, VECTOR_ROWS};

/// Number of bytes of a UUID, stored in the order of its text.
pub(crate) const UUID_BYTES: i32 = 16;

/// The children of a nested type's values.
pub(crate) struct NestedValues {
    parts: Vec<Segment>,
    /// The bytes of all rows, for binary types.
    bytes: Option<View<u8>>,
}

/// The child types of a nested type.
pub(crate) struct PartTypes<'a> {
    /// Children with a fixed number of values per row: type and number of values.
    pub own: Vec<(&'a DataType, usize)>,
    /// The elements of lists, stored after the lengths, at most [`SEGMENT_ROWS`] per child.
    pub elements: Option<&'a DataType>,
}

/// The child types of `rows` values of type `data_type`; `None` for other types.
pub(crate) fn part_types(data_type: &DataType, rows: usize) -> Option<PartTypes<'_>> {
    let of = |own: &[&'static DataType]| own.iter().map(|&part| (part, rows)).collect();
    let (own, elements) = match data_type {
        DataType::List(element) | DataType::Map(element, _) => (of(&[&DataType::UInt32]), Some(element.data_type())),
        DataType::FixedSizeList(element, length) => {
            let length = usize::try_from(*length).unwrap_or(0);
            (vec![(element.data_type(), rows.saturating_mul(length))], None)
        }
        DataType::Struct(fields) => (fields.iter().map(|field| (field.data_type(), rows)).collect(), None),
        DataType::Binary => (of(&[&DataType::UInt32]), None),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            (of(&[&DataType::Int32, &DataType::Int32, &DataType::Int64]), None)
        }
        DataType::FixedSizeBinary(UUID_BYTES) => (of(&[&DataType::UInt64, &DataType::UInt64]), None),
        _ => return None,
    };
    Some(PartTypes { own, elements })
}

/// Whether values of type `data_type` are stored in parts.
pub(crate) fn is_nested(data_type: &DataType) -> bool {
    part_types(data_type, 0).is_some()
}

/// Stores `array`, which is of a nested type. Returns its size before encoding.
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

/// The children of `array`, and for binary types the bytes of all its rows.
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
            let lengths = values.iter().map(|value| value.map(|value| value.len() as u32));
            let lengths: ArrayRef = Arc::new(UInt32Array::from_iter(lengths));
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
        DataType::FixedSizeBinary(UUID_BYTES) => {
            let values = array.as_fixed_size_binary();
            let half = |at: usize| -> ArrayRef {
                let number = |value: &[u8]| value[8 * at..][..8].try_into().map_or(0, u64::from_be_bytes);
                Arc::new(
                    (0..values.len())
                        .map(|row| values.is_valid(row).then(|| number(values.value(row))))
                        .collect::<UInt64Array>(),
                )
            };
            (vec![half(0), half(1)], None)
        }
        other => return Err(FormatError::schema("", format!("type {other} cannot be stored"))),
    })
}

/// `field` of a struct as a separate column: NULL where the struct is.
fn masked(field: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(field.clone()) };
    Ok(nullif(field, &BooleanArray::new(!nulls.inner(), None))?)
}

/// Lengths and elements of lists whose rows are in `values` at `offsets`.
fn lists_of(offsets: &[i32], values: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Vec<ArrayRef>> {
    let rows = offsets.len() - 1;
    let place = |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let lengths = UInt32Array::from_iter((0..rows).map(|row| valid(row).then(|| place(row).len() as u32)));
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
    let mut parts: Vec<ArrayRef> = vec![Arc::new(lengths)];
    let starts = (0..elements.len()).step_by(SEGMENT_ROWS);
    parts.extend(starts.map(|start| elements.slice(start, SEGMENT_ROWS.min(elements.len() - start))));
    Ok(parts)
}

impl NestedValues {
    /// Reads the children of `rows` values of type `data_type`, and checks their consistency.
    pub(super) fn read(reader: &mut SectionReader<'_>, data_type: &DataType, rows: usize) -> Result<Self> {
        let PartTypes { own, elements } =
            part_types(data_type, rows).ok_or_else(|| corrupt(format!("parts of {data_type}")))?;
        let directory = reader.any::<u64>()?;
        let all = reader.section()?;
        let (mut parts, mut start) = (Vec::<Segment>::with_capacity(directory.len()), 0usize);
        let mut read = |data_type: &DataType, rows: usize, parts: &mut Vec<Segment>| {
            let len = directory.get(parts.len()).and_then(|&len| usize::try_from(len).ok());
            let end = len.and_then(|len| start.checked_add(len));
            let part = end.and_then(|end| all.slice(start..end)).ok_or_else(|| corrupt("a part lies outside"))?;
            start = (start + part.len()).next_multiple_of(SEGMENT_ALIGN);
            parts.push(Segment::from_bytes(part, data_type, rows)?);
            Ok::<_, FormatError>(())
        };
        for (data_type, rows) in own {
            read(data_type, rows, &mut parts)?;
        }
        if let Some(data_type) = elements {
            let mut left = total(&parts[0])?;
            while left > 0 {
                let rows = left.min(SEGMENT_ROWS);
                read(data_type, rows, &mut parts)?;
                left -= rows;
            }
        }
        if parts.len() != directory.len() {
            return Err(corrupt(format!("{} parts where {} belong", directory.len(), parts.len())));
        }
        let bytes = match data_type {
            DataType::Binary => Some(reader.exactly::<u8>(total(&parts[0])?)?),
            _ => None,
        };
        Ok(Self { parts, bytes })
    }

    /// The parts: fields of structs and lengths of lists are columns by themselves.
    pub(super) fn parts(&self) -> &[Segment] {
        &self.parts
    }

    /// All `rows` values, which are of type `data_type`.
    ///
    /// # Errors
    /// Inconsistent children, more elements than fit one array.
    pub(super) fn array(&self, data_type: &DataType, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let part = |at: usize, data_type: &DataType| arrays::array(&self.parts[at], data_type);
        Ok(match data_type {
            DataType::List(element) => {
                let values = self.elements(element.data_type())?;
                Arc::new(ListArray::try_new(element.clone(), self.offsets()?, values, nulls)?)
            }
            DataType::Map(entry, ordered) => {
                let entries = self.elements(entry.data_type())?.as_struct().clone();
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
            DataType::FixedSizeBinary(UUID_BYTES) => {
                let halves = [part(0, &DataType::UInt64)?, part(1, &DataType::UInt64)?];
                let [first, last] = halves.each_ref().map(|half| half.as_primitive::<UInt64Type>().values());
                let bytes = first.iter().zip(last).flat_map(|(first, last)| [first.to_be_bytes(), last.to_be_bytes()]);
                let bytes: Vec<u8> = bytes.flatten().collect();
                Arc::new(FixedSizeBinaryArray::try_new(UUID_BYTES, bytes.into(), nulls)?)
            }
            other => return Err(FormatError::schema("", format!("type {other} is not nested"))),
        })
    }

    /// The elements of all lists.
    fn elements(&self, data_type: &DataType) -> Result<ArrayRef> {
        let parts = self.parts[1..].iter().map(|part| arrays::array(part, data_type)).collect::<Result<Vec<_>>>()?;
        match &parts[..] {
            [] => Ok(new_empty_array(data_type)),
            [only] => Ok(only.clone()),
            several => Ok(concat(&several.iter().map(|part| &**part).collect::<Vec<_>>())?),
        }
    }

    /// The offsets of the rows' elements.
    fn offsets(&self) -> Result<OffsetBuffer<i32>> {
        let lengths = arrays::array(&self.parts[0], &DataType::UInt32)?;
        let lengths = || lengths.as_primitive::<UInt32Type>().iter().map(|length| length.unwrap_or(0) as usize);
        let total: usize = lengths().sum();
        match i32::try_from(total) {
            Ok(_) => Ok(OffsetBuffer::from_lengths(lengths())),
            Err(_) => {
                let detail = format!("{total} elements in one row segment: 2^31 - 1 are the most");
                Err(FormatError::schema("", detail))
            }
        }
    }
}

/// The sum of `lengths`.
fn total(lengths: &Segment) -> Result<usize> {
    let valid = lengths.validity(0, lengths.rows());
    let (mut sum, mut some) = (0u64, [0i64; VECTOR_ROWS]);
    for start in (0..lengths.rows()).step_by(VECTOR_ROWS) {
        let some = &mut some[..VECTOR_ROWS.min(lengths.rows() - start)];
        lengths.decode_i64(start, some);
        let all = (start..).zip(&*some).filter(|(row, _)| valid.as_ref().is_none_or(|valid| valid.get(*row)));
        for (_, &length) in all {
            sum += u64::from(u32::try_from(length).map_err(|_| corrupt(format!("{length} elements")))?);
        }
    }
    usize::try_from(sum).map_err(|_| corrupt(format!("{sum} elements")))
}
