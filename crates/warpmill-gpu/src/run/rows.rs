//! Rows to and from device memory.

use std::sync::Arc;

use warpmill_eval::rows::RowSet;
use warpmill_eval::{Data, Vector};
use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{Field, Phys};

use crate::compile::cpp::CType;
use crate::compile::storage::{FlatColumn, Storage};
use crate::device::{Device, DevicePtr, Stream};
use crate::memory::error::{Failure, Result};
use crate::memory::mirrors::Mirrors;

use crate::memory::regions::{self, Region};

/// Decodes rows of `columns` to the representations of `fields`. `arrays` has the bytes of each column's values and validity; strings point into one
/// of `mirrors`.
///
/// # Errors
/// [`Failure::Value`] if a string points into none of them.
pub fn decode(
    columns: &[FlatColumn],
    fields: &[Field],
    rows: usize,
    arrays: &[(&[u8], &[u8])],
    mirrors: &[&Mirrors],
) -> Result<RowSet> {
    let vectors = columns
        .iter()
        .zip(fields)
        .zip(arrays)
        .map(|((column, field), (data, valid))| {
            let validity = column.nullable.then(|| Bitmap::from_fn(rows, |row| valid[row] != 0));
            let data = values(column, field.ty.phys, data, validity.as_ref(), mirrors)?;
            Ok(Arc::new(Vector::with_validity(data, validity)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(RowSet { batches: vec![(vectors, rows)] })
}

/// Little-endian values of `N` bytes each.
fn words<const N: usize, T>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|word| from(*word)).collect()
}

fn values(column: &FlatColumn, phys: Phys, bytes: &[u8], valid: Option<&Bitmap>, mirrors: &[&Mirrors]) -> Result<Data> {
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
                true => mirrors.iter().find_map(|mirrors| mirrors.view(at, len)).ok_or(Failure::Value(0)),
                false => Ok(StrView::default()),
            };
            Data::Str(views.into_iter().enumerate().map(view).collect::<Result<_>>()?)
        }
    })
}

/// An array in host memory, to be copied to device memory.
pub struct HostArray {
    /// Buffer name.
    pub name: String,
    bytes: Vec<u8>,
    /// For strings: the text that `bytes`, with offsets instead of addresses, refers to.
    text: Option<Arc<Vec<u8>>>,
}

impl HostArray {
    /// Bytes of a region.
    pub fn allocated(&self) -> u64 {
        let text = self.text.as_ref().map_or(0, |text| regions::aligned(text.len() as u64));
        regions::aligned(self.bytes.len() as u64) + text
    }

    /// Bytes to copy.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64 + self.text.as_ref().map_or(0, |text| text.len() as u64)
    }

    /// Copies the array to the device, and returns its address there.
    ///
    /// # Errors
    /// The device's, and [`Failure::Memory`] if the region is full.
    pub fn upload(
        &self,
        device: &dyn Device,
        stream: Stream,
        region: &mut Region,
        mirrors: &mut Mirrors,
    ) -> Result<DevicePtr> {
        let mut addressed = None;
        if let Some(text) = &self.text {
            let base = region.allocate(text.len() as u64)?;
            let bytes = addressed.insert(self.bytes.clone());
            for word in bytes.chunks_exact_mut(16) {
                let offset = u64::from_le_bytes(word[..8].try_into().expect("8 bytes"));
                word[..8].copy_from_slice(&(base + offset).to_le_bytes());
            }
            // SAFETY: just allocated with this size.
            unsafe { device.copy_to_device(base, text, stream)? };
            mirrors.add(base, text, text.clone());
        }
        let at = region.allocate(self.bytes.len() as u64)?;
        // SAFETY: just allocated with this size.
        unsafe { device.copy_to_device(at, addressed.as_ref().unwrap_or(&self.bytes), stream)? };
        Ok(at)
    }
}

/// Encodes the columns of `rows` for device memory, under the names that [`FlatColumn::all`] gives the columns of `owner`.
pub fn encode(owner: &str, fields: &[Field], rows: &RowSet) -> Vec<HostArray> {
    let mut arrays = vec![];
    for (index, column) in FlatColumn::all(owner, fields).iter().enumerate() {
        let (mut bytes, mut valid, mut text) = (vec![], vec![], vec![]);
        for (columns, len) in &rows.batches {
            let vector = &columns[index];
            bytes_of(&vector.data, column.storage, &mut bytes, &mut text);
            valid.extend((0..*len).map(|row| u8::from(vector.is_valid(row))));
        }
        let text = (column.storage == Storage::Whole(CType::Str)).then(|| Arc::new(text));
        arrays.push(HostArray { name: column.buffer.clone(), bytes, text });
        if column.nullable {
            arrays.push(HostArray { name: column.valid_buffer(), bytes: valid, text: None });
        }
    }
    arrays
}

/// Appends values in the format of `storage`; strings as offset and length in `text`.
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
