//! Columns as bytes: per column its representation, length, values (little endian, back to back) and validity words.

use warpmill_format::{Bitmap, StrView};

use crate::vector::{Data, Vector};

/// A value as bytes.
trait Raw<const N: usize>: Copy {
    fn to_bytes(self) -> [u8; N];
    fn of_bytes(bytes: [u8; N]) -> Self;
}

macro_rules! raw {
    ($($t:ty: $n:literal),*) => {$(
        impl Raw<$n> for $t {
            #[inline(always)]
            fn to_bytes(self) -> [u8; $n] {
                self.to_le_bytes()
            }
            #[inline(always)]
            fn of_bytes(bytes: [u8; $n]) -> Self {
                Self::from_le_bytes(bytes)
            }
        }
    )*};
}
raw!(i32: 4, i64: 8, i128: 16, u32: 4, u64: 8, f32: 4, f64: 8);

/// The 16 bytes of a string view. Only [`Viewed::view`] converts them back.
#[derive(Clone, Copy)]
struct Viewed([u8; 16]);

impl Viewed {
    fn new(view: StrView) -> Self {
        const { assert!(size_of::<StrView>() == 16) };
        // SAFETY: a view is 16 bytes of plain data without padding (length, prefix, pointer: `repr(C)`).
        Self(unsafe { std::mem::transmute::<StrView, [u8; 16]>(view) })
    }

    /// # Safety
    /// The bytes must be those of [`Viewed::new`], of a view whose bytes still live.
    unsafe fn view(self) -> StrView {
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute::<[u8; 16], StrView>(self.0) }
    }
}

impl Raw<16> for Viewed {
    fn to_bytes(self) -> [u8; 16] {
        self.0
    }
    fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

fn put<const N: usize, T: Raw<N>>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = T>) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let (slots, _) = out[start..].as_chunks_mut::<N>();
    slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value.to_bytes());
}

/// Appends `columns` to `out`.
pub(super) fn encode(columns: &[&Vector], out: &mut Vec<u8>) {
    out.reserve(columns.iter().map(|column| column.bytes() + 16).sum());
    put(out, std::iter::once(columns.len() as u32));
    for Vector { data, validity } in columns {
        out.push(tag(data));
        out.push(u8::from(validity.is_some()));
        put(out, std::iter::once(data.len() as u64));
        match data {
            Data::Bool(v) => out.extend(v.iter().map(|&v| u8::from(v))),
            Data::I32(v) => put(out, v.iter().copied()),
            Data::I64(v) => put(out, v.iter().copied()),
            Data::I128(v) => put(out, v.iter().copied()),
            Data::F32(v) => put(out, v.iter().copied()),
            Data::F64(v) => put(out, v.iter().copied()),
            Data::Str(v) => put(out, v.iter().copied().map(Viewed::new)),
            Data::Code(v) => put(out, v.iter().copied()),
        }
        if let Some(validity) = validity {
            put(out, validity.words().iter().copied());
        }
    }
}

fn tag(data: &Data) -> u8 {
    match data {
        Data::Bool(_) => 0,
        Data::I32(_) => 1,
        Data::I64(_) => 2,
        Data::I128(_) => 3,
        Data::F32(_) => 4,
        Data::F64(_) => 5,
        Data::Str(_) => 6,
        Data::Code(_) => 7,
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn one<const N: usize, T: Raw<N>>(&mut self) -> Option<T> {
        self.bytes(N)?.first_chunk().map(|bytes| T::of_bytes(*bytes))
    }

    fn many<const N: usize, T: Raw<N>>(&mut self, len: usize) -> Option<Vec<T>> {
        let (values, _) = self.bytes(len.checked_mul(N)?)?.as_chunks::<N>();
        Some(values.iter().map(|bytes| T::of_bytes(*bytes)).collect())
    }
}

/// Decodes the columns in `bytes`; `None` where they do not hold columns.
///
/// # Safety
/// `bytes` must be what [`encode`] gave, and the strings of its columns still live.
pub(super) unsafe fn decode(bytes: &[u8]) -> Option<Vec<Vector>> {
    let mut reader = Reader(bytes);
    let columns: u32 = reader.one()?;
    let column = |_| {
        let &[tag, nullable] = reader.bytes(2)? else { return None };
        let len = usize::try_from(reader.one::<8, u64>()?).ok()?;
        let data = match tag {
            0 => Data::Bool(reader.bytes(len)?.iter().map(|&byte| byte != 0).collect()),
            1 => Data::I32(reader.many(len)?),
            2 => Data::I64(reader.many(len)?),
            3 => Data::I128(reader.many(len)?),
            4 => Data::F32(reader.many(len)?),
            5 => Data::F64(reader.many(len)?),
            // SAFETY: the caller's promise.
            6 => Data::Str(reader.many::<16, Viewed>(len)?.into_iter().map(|v| unsafe { v.view() }).collect()),
            7 => Data::Code(reader.many(len)?),
            _ => return None,
        };
        let validity = match nullable {
            0 => None,
            _ => Some(Bitmap::from_words(reader.many(len.div_ceil(64))?, len)),
        };
        Some(Vector { data, validity })
    };
    (0..columns).map(column).collect()
}
