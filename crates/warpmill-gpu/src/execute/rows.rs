//! Rows to and from device memory.

use std::sync::Arc;

use warpmill_cpu::operator::RowSet;
use warpmill_cpu::{Data, Vector};
use warpmill_format::{Bitmap, Dictionary, Segment, StrView};
use warpmill_plan::{Field, Phys};

use crate::codegen::storage::{FlatColumn, Storage};
use crate::device::{Device, DevicePtr, Stream};

use super::memory::{Cache, Owner, Region};
use super::segments;
use super::{Failure, Result};

/// The kind of a dictionary's strings in the cache.
const DICTIONARY: u8 = 2;

/// A dictionary's strings as they are in device memory: bytes behind an array of `Str`.
struct DictionaryImage {
    _dictionary: Arc<Dictionary>,
    bytes: Vec<u8>,
}

/// Where the `Str`s of a dictionary are, if they are in the cache.
pub fn dictionary_at(dictionary: &Arc<Dictionary>, cache: &Cache) -> Option<DevicePtr> {
    cache.get(Arc::as_ptr(dictionary) as usize, DICTIONARY)
}

/// Puts the strings of a dictionary into the cache: one `Str` per code, and one empty one.
pub fn upload_dictionary(dictionary: &Arc<Dictionary>, cache: &mut Cache, stream: Stream) -> Result<()> {
    if dictionary_at(dictionary, cache).is_some() {
        return Ok(());
    }
    let strings: Vec<&str> = dictionary.iter().chain([""]).collect();
    let mut at = 16 * strings.len();
    let total = at + strings.iter().map(|text| text.len()).sum::<usize>();
    let base = cache.reserve(total as u64)?;
    let mut bytes = Vec::with_capacity(total);
    for text in &strings {
        bytes.extend_from_slice(&(base + at as u64).to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        at += text.len();
    }
    strings.iter().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
    let image = Arc::new(DictionaryImage { _dictionary: dictionary.clone(), bytes });
    cache.fill(base, Arc::as_ptr(dictionary) as usize, DICTIONARY, image.clone(), &image.bytes, stream)
}

/// Which host memory is the original of which device memory: what strings in device memory point into.
#[derive(Default)]
pub struct Mirrors {
    ranges: Vec<(DevicePtr, u64, *const u8)>,
    /// Keeps the host memory where it is.
    pub owners: Vec<Owner>,
}

impl Mirrors {
    /// The cached segments and dictionaries.
    pub fn of_cache(cache: &Cache) -> Self {
        let mut mirrors = Self::default();
        for (at, _, kind, owner) in cache.entries() {
            if let Some(segment) = owner.downcast_ref::<Segment>().filter(|_| segments::is_segment_bytes(kind)) {
                mirrors.add(at, segment.as_bytes(), owner.clone());
            } else if let Some(image) = owner.downcast_ref::<DictionaryImage>() {
                mirrors.add(at, &image.bytes, owner.clone());
            }
        }
        mirrors
    }

    /// Device memory at `at` is a copy of `bytes`, which `owner` keeps.
    pub fn add(&mut self, at: DevicePtr, bytes: &[u8], owner: Owner) {
        self.ranges.push((at, bytes.len() as u64, bytes.as_ptr()));
        self.owners.push(owner);
    }

    /// Takes over the ranges of `other`.
    pub fn append(&mut self, mut other: Self) {
        self.ranges.append(&mut other.ranges);
        self.owners.append(&mut other.owners);
    }

    /// Makes lookups possible.
    pub fn sort(&mut self) {
        self.ranges.sort_unstable_by_key(|range| range.0);
    }

    fn view(&self, at: DevicePtr, len: u32) -> Option<StrView> {
        if len == 0 {
            return Some(StrView::default());
        }
        let index = self.ranges.partition_point(|range| range.0 <= at).checked_sub(1)?;
        let (base, size, host) = self.ranges[index];
        let offset = at - base;
        if offset + u64::from(len) > size {
            return None;
        }
        // SAFETY: inside the mirrored range, which its owner keeps.
        let bytes = unsafe { std::slice::from_raw_parts(host.add(offset as usize), len as usize) };
        std::str::from_utf8(bytes).ok().map(StrView::new)
    }
}

/// Names and addresses of arrays in device memory.
pub type Addresses = std::collections::HashMap<String, DevicePtr>;

/// Fetches the first `rows` rows of `columns`, held as `fields` say.
pub fn fetch(
    device: &dyn Device,
    stream: Stream,
    columns: &[FlatColumn],
    fields: &[Field],
    rows: usize,
    addresses: &Addresses,
    mirrors: &Mirrors,
) -> Result<RowSet> {
    let mut raw = vec![];
    for column in columns {
        let mut data = vec![0u8; rows * column.storage.size()];
        let mut valid = vec![0u8; if column.nullable { rows } else { 0 }];
        if rows > 0 {
            // SAFETY: the arrays have room for their capacity, of which `rows` is at most; both buffers live past the
            // synchronization below.
            unsafe {
                device.copy_to_host(&mut data, addresses[&column.buffer], stream)?;
                if column.nullable {
                    device.copy_to_host(&mut valid, addresses[&column.valid_buffer()], stream)?;
                }
            }
        }
        raw.push((data, valid));
    }
    device.synchronize(stream)?;
    let vectors = columns
        .iter()
        .zip(fields)
        .zip(raw)
        .map(|((column, field), (data, valid))| {
            let validity = column.nullable.then(|| Bitmap::from_fn(rows, |row| valid[row] != 0));
            let data = values(column, field.ty.phys, &data, validity.as_ref(), mirrors)?;
            Ok(Arc::new(Vector::with_validity(data, validity)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(RowSet { batches: vec![(vectors, rows)] })
}

/// Little-endian values of `N` bytes each.
fn words<const N: usize, T>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|word| from(*word)).collect()
}

fn values(column: &FlatColumn, phys: Phys, bytes: &[u8], valid: Option<&Bitmap>, mirrors: &Mirrors) -> Result<Data> {
    let narrow: Option<Vec<i64>> = match column.storage {
        Storage::U8 => Some(bytes.iter().map(|&x| x.into()).collect()),
        Storage::I8 => Some(bytes.iter().map(|&x| (x as i8).into()).collect()),
        Storage::U16 => Some(words(bytes, |word| u16::from_le_bytes(word).into())),
        Storage::I16 => Some(words(bytes, |word| i16::from_le_bytes(word).into())),
        Storage::Whole(_) => None,
    };
    if let Some(values) = narrow {
        return Ok(match phys {
            Phys::I32 => Data::I32(values.into_iter().map(|x| x as i32).collect()),
            Phys::Code => Data::Code(values.into_iter().map(|x| x as u32).collect()),
            _ => Data::I64(values),
        });
    }
    Ok(match phys {
        Phys::Bool => Data::Bool(bytes.iter().map(|&x| x != 0).collect()),
        Phys::I32 => Data::I32(words(bytes, i32::from_le_bytes)),
        Phys::I64 => Data::I64(words(bytes, i64::from_le_bytes)),
        Phys::I128 => Data::I128(words(bytes, i128::from_le_bytes)),
        Phys::F32 => Data::F32(words(bytes, f32::from_le_bytes)),
        Phys::F64 => Data::F64(words(bytes, f64::from_le_bytes)),
        Phys::Code => Data::Code(words(bytes, u32::from_le_bytes)),
        Phys::Str => {
            let views = words(bytes, |word: [u8; 16]| {
                let at = u64::from_le_bytes(word[..8].try_into().expect("8 bytes"));
                (at, u32::from_le_bytes(word[8..12].try_into().expect("4 bytes")))
            });
            let view = |(row, (at, len)): (usize, (u64, u32))| match valid.is_none_or(|valid| valid.get(row)) {
                true => mirrors.view(at, len).ok_or(Failure::Value(0)),
                false => Ok(StrView::default()),
            };
            Data::Str(views.into_iter().enumerate().map(view).collect::<Result<_>>()?)
        }
    })
}

/// Where rows are uploaded to.
pub struct Uploads<'a> {
    /// The device.
    pub device: &'a dyn Device,
    /// Takes the copies.
    pub stream: Stream,
    /// Gives the memory.
    pub region: &'a mut Region,
    /// Takes names and addresses of the arrays.
    pub addresses: &'a mut Addresses,
    /// Takes the bytes of strings.
    pub mirrors: &'a mut Mirrors,
}

/// Uploads columns of `rows`, under the names that [`FlatColumn::all`] gives the columns of `owner`.
pub fn upload(to: Uploads<'_>, owner: &str, fields: &[Field], rows: &RowSet) -> Result<u64> {
    let Uploads { device, stream, region, addresses, mirrors } = to;
    let mut total = 0;
    for (index, column) in FlatColumn::all(owner, fields).iter().enumerate() {
        let (mut data, mut valid, mut text) = (vec![], vec![], vec![]);
        for (columns, len) in &rows.batches {
            let vector = &columns[index];
            bytes_of(&vector.data, column.storage, &mut data, &mut text);
            valid.extend((0..*len).map(|row| u8::from(vector.is_valid(row))));
        }
        if column.storage == Storage::Whole(crate::codegen::CType::Str) {
            let base = region.allocate(text.len() as u64)?;
            for word in data.chunks_exact_mut(16) {
                let offset = u64::from_le_bytes(word[..8].try_into().expect("8 bytes"));
                word[..8].copy_from_slice(&(base + offset).to_le_bytes());
            }
            let text = Arc::new(text);
            // SAFETY: just allocated with this size.
            unsafe { device.copy_to_device(base, &text, stream)? };
            mirrors.add(base, &text, text.clone());
        }
        let mut arrays = vec![(column.buffer.clone(), data)];
        if column.nullable {
            arrays.push((column.valid_buffer(), valid));
        }
        for (name, bytes) in arrays {
            let at = region.allocate(bytes.len() as u64)?;
            // SAFETY: just allocated with this size.
            unsafe { device.copy_to_device(at, &bytes, stream)? };
            total += bytes.len() as u64;
            addresses.insert(name, at);
        }
    }
    Ok(total)
}

/// Appends values as an array of `storage` holds them; strings as offset and length of what is appended to `text`.
fn bytes_of(data: &Data, storage: Storage, out: &mut Vec<u8>, text: &mut Vec<u8>) {
    let integers: Option<Vec<i64>> = match (storage, data) {
        (Storage::Whole(_), _) => None,
        (_, Data::I32(values)) => Some(values.iter().map(|&x| x.into()).collect()),
        (_, Data::I64(values)) => Some(values.clone()),
        (_, Data::Code(values)) => Some(values.iter().map(|&x| x.into()).collect()),
        _ => None,
    };
    if let Some(values) = integers {
        let size = storage.size();
        values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes()[..size]));
        return;
    }
    match data {
        Data::Bool(values) => out.extend(values.iter().map(|&x| u8::from(x))),
        Data::I32(values) => values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Data::I64(values) => values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Data::I128(values) => values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Data::F32(values) => values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Data::F64(values) => values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Data::Code(values) => values.iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Data::Str(values) => {
            for view in values {
                out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                out.extend_from_slice(&(view.len() as u64).to_le_bytes());
                text.extend_from_slice(view.as_bytes());
            }
        }
    }
}
