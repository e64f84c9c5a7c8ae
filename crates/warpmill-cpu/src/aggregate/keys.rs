//! Group keys as words: packing of keys of any types, and arithmetic group ids for perfect hashing.
//!
//! An integer key with proven bounds takes only the bits of its span; NULL is code 0 where the key is nullable. Several keys
//! share a word where they fit, so that most group-bys compare and hash one `u64`. Floats are canonical bits (one NaN, no
//! negative zero); strings stay views, their NULL flag is a bit of a word.

use warpmill_format::Bitmap;
use warpmill_ir::{ColType, Phys};

use super::table::{KeyRows, Table};
use super::text::TextKey;
use crate::context::{ExecError, Result};
use crate::vector::{Data, Vector};

/// Largest number of ids for perfect hashing. Accumulators larger than the cache still beat a hash table, which would not fit either.
const MAX_CELLS: u128 = 1 << 18;

/// An integer-like key as codes: `value - lo`, plus 1 where the key is nullable; NULL is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Codes {
    lo: i128,
    /// Number of codes.
    cells: u128,
    nullable: bool,
}

impl Codes {
    /// The codes of a type; `None` for floats and strings.
    fn new(ty: &ColType) -> Option<Self> {
        let (lo, hi) = match ty.phys {
            Phys::Bool => (0, 1),
            Phys::Code => (0, ty.dictionary.as_ref().map_or(i128::from(u32::MAX), |d| d.len().max(1) as i128 - 1)),
            Phys::I32 => ty.range.unwrap_or((i32::MIN.into(), i32::MAX.into())),
            Phys::I64 => ty.range.unwrap_or((i64::MIN.into(), i64::MAX.into())),
            Phys::I128 => ty.range.unwrap_or((i128::MIN, i128::MAX)),
            Phys::F32 | Phys::F64 | Phys::Str => return None,
        };
        // An empty range (no values at all) still has a code.
        let span = hi.max(lo).wrapping_sub(lo) as u128;
        Some(Self { lo, cells: span.saturating_add(1 + u128::from(ty.nullable)), nullable: ty.nullable })
    }

    fn bits(&self) -> u32 {
        (128 - (self.cells - 1).leading_zeros()).max(1)
    }

    /// Calls `put` with every row's element of `out` and code.
    #[inline(always)]
    fn encode<'a, O: 'a>(&self, vector: &Vector, out: impl Iterator<Item = &'a mut O>, put: impl Fn(&mut O, u64)) {
        #[inline(always)]
        fn each<'a, T: Copy, O: 'a>(
            values: &[T],
            validity: Option<&Bitmap>,
            nullable: bool,
            word: impl Fn(T) -> u64,
            out: impl Iterator<Item = &'a mut O>,
            put: impl Fn(&mut O, u64),
        ) {
            let plus = u64::from(nullable);
            let rows = values.iter().zip(out);
            match validity {
                None => rows.for_each(|(&v, out)| put(out, word(v).wrapping_add(plus))),
                Some(valid) => rows
                    .enumerate()
                    .for_each(|(i, (&v, out))| put(out, if valid.get(i) { word(v).wrapping_add(plus) } else { 0 })),
            }
        }
        let (lo, valid, nullable) = (self.lo as u64, vector.validity.as_ref(), self.nullable);
        match &vector.data {
            Data::Bool(v) => each(v, valid, nullable, u64::from, out, put),
            Data::Code(v) => each(v, valid, nullable, u64::from, out, put),
            Data::I32(v) => each(v, valid, nullable, |v| (i64::from(v) as u64).wrapping_sub(lo), out, put),
            Data::I64(v) => each(v, valid, nullable, |v| (v as u64).wrapping_sub(lo), out, put),
            Data::I128(v) => each(v, valid, nullable, |v| (v as u64).wrapping_sub(lo), out, put),
            Data::F32(_) | Data::F64(_) | Data::Str(_) => unreachable!("codes are of integers"),
        }
    }

    fn decode(&self, phys: Phys, codes: impl ExactSizeIterator<Item = u64> + Clone) -> Vector {
        let value = |code: u64| self.lo.wrapping_add(i128::from(code)).wrapping_sub(i128::from(self.nullable));
        let data = match phys {
            Phys::Bool => Data::Bool(codes.clone().map(|c| value(c) == 1).collect()),
            Phys::Code => Data::Code(codes.clone().map(|c| value(c).max(0) as u32).collect()),
            Phys::I32 => Data::I32(codes.clone().map(|c| value(c) as i32).collect()),
            Phys::I64 => Data::I64(codes.clone().map(|c| value(c) as i64).collect()),
            Phys::I128 => Data::I128(codes.clone().map(value).collect()),
            Phys::F32 | Phys::F64 | Phys::Str => unreachable!("codes are of integers"),
        };
        let validity = self.nullable.then(|| {
            let mut codes = codes;
            Bitmap::from_fn(codes.len(), |_| codes.next() != Some(0))
        });
        Vector::with_validity(data, validity)
    }
}

/// Group ids computed from the codes of all keys as digits of a mixed-radix number.
#[derive(Debug, Clone)]
pub(super) struct PerfectLayout {
    keys: Vec<(Codes, Phys, u64)>,
    /// Number of ids.
    pub cells: usize,
}

impl PerfectLayout {
    /// The layout; `None` where the keys have too many combinations, in all or for an input of at most `rows` rows.
    pub fn new(types: &[ColType], rows: Option<u64>) -> Option<Self> {
        let mut cells = 1u128;
        let mut keys = vec![];
        for ty in types {
            let codes = Codes::new(ty)?;
            keys.push((codes, ty.phys, cells as u64));
            cells = cells.checked_mul(codes.cells).filter(|&cells| cells <= MAX_CELLS)?;
        }
        let most = rows.map_or(MAX_CELLS, |rows| (u128::from(rows) * 4).max(1024));
        (cells <= most).then_some(Self { keys, cells: cells as usize })
    }

    /// Adds each row's id to `ids` (one element per row).
    pub fn encode(&self, keys: &[&Vector], ids: &mut [u32]) -> Result<()> {
        for ((codes, _, stride), vector) in self.keys.iter().zip(keys) {
            check_nulls(codes.nullable, vector)?;
            let stride = *stride as u32;
            codes.encode(vector, ids.iter_mut(), |id, code| *id = id.wrapping_add((code as u32).wrapping_mul(stride)));
        }
        Ok(())
    }

    /// The keys of groups `ids`.
    pub fn decode(&self, ids: &[u32]) -> Vec<Vector> {
        self.keys
            .iter()
            .map(|(codes, phys, stride)| {
                let cells = codes.cells as u64;
                codes.decode(*phys, ids.iter().map(|&id| u64::from(id) / stride % cells))
            })
            .collect()
    }
}

/// A NULL in a key that the planner proved to be non-NULL would be taken for a value: refuse it.
fn check_nulls(nullable: bool, vector: &Vector) -> Result<()> {
    if !nullable && vector.validity.is_some() {
        return Err(ExecError::Unsupported("a NULL group key in a column declared NOT NULL".into()));
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Part {
    /// The codes of an integer key, in as many bits as they need.
    Codes(Codes),
    /// Whether the key is NULL.
    Null,
    /// Canonical bits of a float, or 64 bits of an integer: bits `64 * half ..`.
    Bits { half: u32 },
}

#[derive(Debug, Clone, Copy)]
struct Field {
    key: usize,
    part: Part,
    word: usize,
    shift: u32,
    bits: u32,
}

/// How keys are laid out in the words of [`KeyRows`].
#[derive(Debug, Clone)]
pub(super) struct KeyLayout {
    types: Vec<(Phys, bool)>,
    fields: Vec<Field>,
    /// Indices of the string keys.
    strings: Vec<usize>,
    width: usize,
}

impl KeyLayout {
    /// A layout for keys of `types`.
    pub fn new(types: &[ColType]) -> Self {
        let mut parts = vec![];
        let mut strings = vec![];
        for (key, ty) in types.iter().enumerate() {
            if let Some(codes) = Codes::new(ty).filter(|codes| codes.bits() <= 64) {
                parts.push((key, Part::Codes(codes), codes.bits()));
                continue;
            }
            if ty.nullable {
                parts.push((key, Part::Null, 1));
            }
            match ty.phys {
                Phys::Str => strings.push(key),
                Phys::F32 => parts.push((key, Part::Bits { half: 0 }, 32)),
                Phys::I128 => {
                    parts.push((key, Part::Bits { half: 0 }, 64));
                    parts.push((key, Part::Bits { half: 1 }, 64));
                }
                _ => parts.push((key, Part::Bits { half: 0 }, 64)),
            }
        }
        let mut used: Vec<u32> = vec![];
        let fields = parts.into_iter().map(|(key, part, bits)| {
            let word = used.iter().position(|used| used + bits <= 64).unwrap_or_else(|| {
                used.push(0);
                used.len() - 1
            });
            let shift = used[word];
            used[word] += bits;
            Field { key, part, word, shift, bits }
        });
        let fields = fields.collect();
        let types = types.iter().map(|ty| (ty.phys, ty.nullable)).collect();
        Self { types, fields, strings, width: used.len() }
    }

    /// Words per row and number of string columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.width, self.strings.len())
    }

    /// An empty table for keys of this layout with room for `groups`.
    pub fn table(&self, groups: usize) -> Table {
        Table::new(self.width, self.strings.len(), groups)
    }

    /// Encodes the keys of `rows` rows.
    pub fn encode(&self, keys: &[&Vector], rows: usize) -> Result<KeyRows> {
        let width = self.width;
        let mut out = KeyRows::new(width, 0);
        out.words.resize(rows * width, 0);
        for field in &self.fields {
            let vector = keys[field.key];
            check_nulls(self.types[field.key].1, vector)?;
            let (word, shift) = (field.word, field.shift);
            let words = &mut out.words;
            match field.part {
                Part::Codes(codes) if width == 1 => {
                    codes.encode(vector, words.iter_mut(), |word, code| *word |= code << shift);
                }
                Part::Codes(codes) => {
                    let words = words.iter_mut().skip(word).step_by(width);
                    codes.encode(vector, words, |word, code| *word |= code << shift);
                }
                Part::Null => (0..rows).for_each(|row| {
                    words[row * width + word] |= u64::from(!vector.is_valid(row)) << shift;
                }),
                Part::Bits { half } => {
                    put_bits(vector, half, |row, bits| words[row * width + word] |= bits << shift);
                }
            }
        }
        for &key in &self.strings {
            let vector = keys[key];
            check_nulls(self.types[key].1, vector)?;
            let Data::Str(strings) = &vector.data else { unreachable!("a string key") };
            out.strings.push(match &vector.validity {
                None => strings.iter().map(|&string| TextKey::new(string)).collect(),
                Some(valid) => {
                    let key = |i: usize| if valid.get(i) { TextKey::new(strings[i]) } else { TextKey::default() };
                    (0..rows).map(key).collect()
                }
            });
        }
        Ok(out)
    }

    /// Decodes keys (`rows` rows) to vectors.
    pub fn decode(&self, keys: KeyRows, rows: usize) -> Vec<Vector> {
        let KeyRows { width, words, strings } = keys;
        let mut strings = strings.into_iter();
        let field = |field: &Field| {
            let (word, shift) = (field.word, field.shift);
            let mask = if field.bits == 64 { u64::MAX } else { (1 << field.bits) - 1 };
            let words = &words;
            (0..rows).map(move |row| words[row * width + word] >> shift & mask)
        };
        let mut vectors = vec![];
        for (key, &(phys, _)) in self.types.iter().enumerate() {
            let mut fields = self.fields.iter().filter(|field| field.key == key).peekable();
            if let Some(&&Field { part: Part::Codes(codes), .. }) = fields.peek() {
                vectors.push(codes.decode(phys, field(fields.next().expect("peeked"))));
                continue;
            }
            let validity = fields.next_if(|field| matches!(field.part, Part::Null)).map(|null| {
                let mut flags = field(null);
                Bitmap::from_fn(rows, |_| flags.next() == Some(0))
            });
            let data = match phys {
                Phys::Str => {
                    let strings = strings.next().expect("a column per string key");
                    Data::Str(strings.iter().map(|key| key.view).collect())
                }
                Phys::I128 => {
                    let [low, high] = [fields.next(), fields.next()].map(|f| field(f.expect("two halves")));
                    Data::I128(low.zip(high).map(|(low, high)| (i128::from(high) << 64) | i128::from(low)).collect())
                }
                _ => from_bits(phys, field(fields.next().expect("a field per key"))),
            };
            vectors.push(Vector::with_validity(data, validity));
        }
        vectors
    }
}

/// Calls `put` with every row and 64 bits of its value; 0 for NULL.
fn put_bits(vector: &Vector, half: u32, mut put: impl FnMut(usize, u64)) {
    let mut each = |len: usize, bits: &dyn Fn(usize) -> u64| {
        (0..len).filter(|&row| vector.is_valid(row)).for_each(|row| put(row, bits(row)));
    };
    match &vector.data {
        Data::F32(v) => each(v.len(), &|i| u64::from(if v[i].is_nan() { f32::NAN } else { v[i] + 0.0 }.to_bits())),
        Data::F64(v) => each(v.len(), &|i| if v[i].is_nan() { f64::NAN } else { v[i] + 0.0 }.to_bits()),
        Data::I64(v) => each(v.len(), &|i| v[i] as u64),
        Data::I128(v) => each(v.len(), &|i| (v[i] >> (64 * half)) as u64),
        data => unreachable!("{:?} is packed as codes or kept as strings", data.phys()),
    }
}

fn from_bits(phys: Phys, bits: impl Iterator<Item = u64>) -> Data {
    match phys {
        Phys::F32 => Data::F32(bits.map(|b| f32::from_bits(b as u32)).collect()),
        Phys::F64 => Data::F64(bits.map(f64::from_bits).collect()),
        Phys::I64 => Data::I64(bits.map(|b| b as i64).collect()),
        phys => unreachable!("{phys:?} is packed as codes or kept as strings"),
    }
}
