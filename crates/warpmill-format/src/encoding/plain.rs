//! Unencoded values: integers at their type's width, and strings as offsets + bytes.

use super::word::Word;
use crate::segment::bytes::{Pod, SectionReader, SectionWriter, View, corrupt};
use crate::{Result, StrView, VECTOR_ROWS};

/// A plain integer type.
pub(crate) trait Plain: Pod {
    fn word<T: Word>(self) -> T;
}

macro_rules! plain {
    ($($t:ty => $via:ident as $wide:ty),*) => { $(
        impl Plain for $t {
            #[inline(always)]
            fn word<T: Word>(self) -> T {
                T::$via(<$wide>::from(self))
            }
        }
    )* };
}
plain!(i8 => from_i64 as i64, i16 => from_i64 as i64, i32 => from_i64 as i64, i64 => from_i64 as i64,
    i128 => from_i128 as i128, u8 => from_u32 as u32, u16 => from_u32 as u32, u32 => from_u32 as u32,
    u64 => from_u64 as u64);

/// Integers at a fixed width in row order: a section of parameters (`[bytes, signed]`, u32 each), a section of values.
pub(crate) enum PlainIntegers {
    I8(View<i8>),
    I16(View<i16>),
    I32(View<i32>),
    I64(View<i64>),
    I128(View<i128>),
    U8(View<u8>),
    U16(View<u16>),
    U32(View<u32>),
    U64(View<u64>),
}

/// Runs `$body` with `$values` bound to the typed view.
macro_rules! typed {
    ($self:expr, $values:ident => $body:expr) => {
        match $self {
            PlainIntegers::I8($values) => $body,
            PlainIntegers::I16($values) => $body,
            PlainIntegers::I32($values) => $body,
            PlainIntegers::I64($values) => $body,
            PlainIntegers::I128($values) => $body,
            PlainIntegers::U8($values) => $body,
            PlainIntegers::U16($values) => $body,
            PlainIntegers::U32($values) => $body,
            PlainIntegers::U64($values) => $body,
        }
    };
}

/// Bytes of each value.
fn width_of<T>(_: &[T]) -> usize {
    size_of::<T>()
}

impl PlainIntegers {
    /// Bytes per value, whether they are signed, and their address.
    pub(crate) fn raw(&self) -> (usize, bool, *const u8) {
        let signed = matches!(self, Self::I8(_) | Self::I16(_) | Self::I32(_) | Self::I64(_) | Self::I128(_));
        typed!(self, values => (width_of(values), signed, values.as_ptr().cast()))
    }

    /// Stores `values`, which fit `bytes` bytes each (signed or not).
    pub(crate) fn encode(values: impl Iterator<Item = i128>, bytes: usize, signed: bool, out: &mut SectionWriter) {
        out.push(&[bytes as u32, u32::from(signed)]);
        out.push_bytes(values.flat_map(|x| x.to_le_bytes().into_iter().take(bytes)).collect());
    }

    pub(crate) fn read(reader: &mut SectionReader<'_>, rows: usize) -> Result<Self> {
        let params = reader.exactly::<u32>(2)?;
        Ok(match (params[0], params[1]) {
            (1, 1) => Self::I8(reader.bulk(rows)?),
            (2, 1) => Self::I16(reader.bulk(rows)?),
            (4, 1) => Self::I32(reader.bulk(rows)?),
            (8, 1) => Self::I64(reader.bulk(rows)?),
            (16, 1) => Self::I128(reader.bulk(rows)?),
            (1, 0) => Self::U8(reader.bulk(rows)?),
            (2, 0) => Self::U16(reader.bulk(rows)?),
            (4, 0) => Self::U32(reader.bulk(rows)?),
            (8, 0) => Self::U64(reader.bulk(rows)?),
            (bytes, signed) => return Err(corrupt(format!("plain integers of {bytes} bytes, signed {signed}"))),
        })
    }

    /// Decodes vector `v`; rows past the end are not written.
    #[inline]
    pub(crate) fn vector<T: Word>(&self, v: usize, out: &mut [T; VECTOR_ROWS]) {
        typed!(self, values => out.iter_mut().zip(&values[v * VECTOR_ROWS..]).for_each(|(x, y)| *x = y.word()));
    }

    #[inline]
    pub(crate) fn gather<T: Word>(&self, rows: &[u32], out: &mut [T]) {
        typed!(self, values => out.iter_mut().zip(rows).for_each(|(x, &row)| *x = values[row as usize].word()));
    }
}

/// Strings as offsets (u32, rows + 1) and bytes, a section each.
pub(crate) struct PlainStrings {
    offsets: View<u32>,
    bytes: View<u8>,
}

impl PlainStrings {
    /// Offsets and bytes.
    pub(crate) fn sections(&self) -> (&View<u32>, &View<u8>) {
        (&self.offsets, &self.bytes)
    }

    /// Stores `values`; null rows are empty. `None` when they take 4 GiB or more.
    pub(crate) fn encode<'a>(values: impl Iterator<Item = &'a str>, out: &mut SectionWriter) -> Option<()> {
        let (mut offsets, mut bytes) = (vec![0u32], Vec::new());
        for value in values {
            bytes.extend_from_slice(value.as_bytes());
            offsets.push(u32::try_from(bytes.len()).ok()?);
        }
        out.push_words(offsets);
        out.push_bytes(bytes);
        Some(())
    }

    /// Reads and validates: offsets ascend, end with the bytes, and are at character boundaries.
    pub(crate) fn read(reader: &mut SectionReader<'_>, rows: usize) -> Result<Self> {
        let offsets = reader.exactly::<u32>(rows + 1)?;
        let bytes = reader.any::<u8>()?;
        validate_strings(&offsets, &bytes)?;
        Ok(Self { offsets, bytes })
    }

    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> StrView {
        let (start, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        // Checked in case a mapped file has been changed, which is detected after the read.
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        // SAFETY: `read` checked that the bytes are UTF-8 and that every pair of offsets cuts whole characters in order.
        StrView::new(unsafe { std::str::from_utf8_unchecked(bytes) })
    }
}

/// Checks that `offsets` start at 0, ascend, end with `bytes`, and are at character boundaries of the UTF-8 in `bytes`.
pub(crate) fn validate_strings(offsets: &[u32], bytes: &[u8]) -> Result<()> {
    let text = std::str::from_utf8(bytes).map_err(|e| corrupt(format!("strings are not UTF-8: {e}")))?;
    let bounded = offsets.first() == Some(&0) && offsets.last().copied().map(|e| e as usize) == Some(bytes.len());
    if !bounded || !offsets.is_sorted() || !offsets.iter().all(|&o| text.is_char_boundary(o as usize)) {
        return Err(corrupt("string offsets do not fit the bytes"));
    }
    Ok(())
}
