//! Vectors: the values of one column, with validity.

use warpmill_format::{Bitmap, StrView};
use warpmill_ir::Phys;

/// The values of a vector, one variant per [`Phys`]. Values at NULL positions are unspecified but initialized.
#[derive(Debug, Clone)]
pub enum Data {
    /// `Phys::Bool`
    Bool(Vec<bool>),
    /// `Phys::I32`
    I32(Vec<i32>),
    /// `Phys::I64`
    I64(Vec<i64>),
    /// `Phys::I128`
    I128(Vec<i128>),
    /// `Phys::F32`
    F32(Vec<f32>),
    /// `Phys::F64`
    F64(Vec<f64>),
    /// `Phys::Str`; see [`StrView`] for the lifetime of the bytes.
    Str(Vec<StrView>),
    /// `Phys::Code`
    Code(Vec<u32>),
}

/// Runs `$body` with `$values` bound to the typed `Vec` of `$data`, whatever its type.
#[macro_export]
macro_rules! with_data {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            $crate::Data::Bool($values) => $body,
            $crate::Data::I32($values) => $body,
            $crate::Data::I64($values) => $body,
            $crate::Data::I128($values) => $body,
            $crate::Data::F32($values) => $body,
            $crate::Data::F64($values) => $body,
            $crate::Data::Str($values) => $body,
            $crate::Data::Code($values) => $body,
        }
    };
}

/// Runs `$body` as [`with_data!`] does and wraps the resulting `Vec` in the same variant.
#[macro_export]
macro_rules! map_data {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            $crate::Data::Bool($values) => $crate::Data::Bool($body),
            $crate::Data::I32($values) => $crate::Data::I32($body),
            $crate::Data::I64($values) => $crate::Data::I64($body),
            $crate::Data::I128($values) => $crate::Data::I128($body),
            $crate::Data::F32($values) => $crate::Data::F32($body),
            $crate::Data::F64($values) => $crate::Data::F64($body),
            $crate::Data::Str($values) => $crate::Data::Str($body),
            $crate::Data::Code($values) => $crate::Data::Code($body),
        }
    };
}

impl Data {
    /// No values, with room for `capacity`.
    pub fn with_capacity(phys: Phys, capacity: usize) -> Self {
        match phys {
            Phys::Bool => Data::Bool(Vec::with_capacity(capacity)),
            Phys::I32 => Data::I32(Vec::with_capacity(capacity)),
            Phys::I64 => Data::I64(Vec::with_capacity(capacity)),
            Phys::I128 => Data::I128(Vec::with_capacity(capacity)),
            Phys::F32 => Data::F32(Vec::with_capacity(capacity)),
            Phys::F64 => Data::F64(Vec::with_capacity(capacity)),
            Phys::Str => Data::Str(Vec::with_capacity(capacity)),
            Phys::Code => Data::Code(Vec::with_capacity(capacity)),
        }
    }

    /// `len` default values (zero, false, empty).
    pub fn zeros(phys: Phys, len: usize) -> Self {
        match phys {
            Phys::Bool => Data::Bool(vec![false; len]),
            Phys::I32 => Data::I32(vec![0; len]),
            Phys::I64 => Data::I64(vec![0; len]),
            Phys::I128 => Data::I128(vec![0; len]),
            Phys::F32 => Data::F32(vec![0.0; len]),
            Phys::F64 => Data::F64(vec![0.0; len]),
            Phys::Str => Data::Str(vec![StrView::default(); len]),
            Phys::Code => Data::Code(vec![0; len]),
        }
    }

    /// The representation.
    #[inline]
    pub fn phys(&self) -> Phys {
        match self {
            Data::Bool(_) => Phys::Bool,
            Data::I32(_) => Phys::I32,
            Data::I64(_) => Phys::I64,
            Data::I128(_) => Phys::I128,
            Data::F32(_) => Phys::F32,
            Data::F64(_) => Phys::F64,
            Data::Str(_) => Phys::Str,
            Data::Code(_) => Phys::Code,
        }
    }

    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        with_data!(self, values => values.len())
    }

    /// Whether there are no values.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the values themselves, without the bytes of strings.
    pub fn bytes(&self) -> usize {
        with_data!(self, values => std::mem::size_of_val(values.as_slice()))
    }

    /// Values `start .. start + len`.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        map_data!(self, values => values[start..start + len].to_vec())
    }

    /// Value `rows[i]` as value `i`.
    pub fn gather(&self, rows: &[u32]) -> Self {
        map_data!(self, values => rows.iter().map(|&row| values[row as usize]).collect())
    }

    /// Value `rows[i]` becomes value `i`; [`NULL_ROW`] becomes an unspecified value.
    pub fn gather_or_null(&self, rows: &[u32]) -> Self {
        map_data!(self, values => rows.iter().map(|&row| values.get(row as usize).copied().unwrap_or_default()).collect())
    }

    /// Appends all values of `other`, which has the same representation.
    pub fn extend(&mut self, other: &Data) {
        match (self, other) {
            (Data::Bool(a), Data::Bool(b)) => a.extend_from_slice(b),
            (Data::I32(a), Data::I32(b)) => a.extend_from_slice(b),
            (Data::I64(a), Data::I64(b)) => a.extend_from_slice(b),
            (Data::I128(a), Data::I128(b)) => a.extend_from_slice(b),
            (Data::F32(a), Data::F32(b)) => a.extend_from_slice(b),
            (Data::F64(a), Data::F64(b)) => a.extend_from_slice(b),
            (Data::Str(a), Data::Str(b)) => a.extend_from_slice(b),
            (Data::Code(a), Data::Code(b)) => a.extend_from_slice(b),
            (a, b) => unreachable!("vectors of {:?} and {:?} in one column", a.phys(), b.phys()),
        }
    }
}

/// The row number for a row of NULLs in a nullable selection (an outer join's missing side).
pub const NULL_ROW: u32 = u32::MAX;

/// The values of one column.
#[derive(Debug, Clone)]
pub struct Vector {
    /// The values.
    pub data: Data,
    /// A set bit marks a valid row; `None`: all rows are valid.
    pub validity: Option<Bitmap>,
}

impl Vector {
    /// A vector without nulls.
    pub fn new(data: Data) -> Self {
        Self { data, validity: None }
    }

    /// A vector with validity (dropped when all rows are valid).
    pub fn with_validity(data: Data, validity: Option<Bitmap>) -> Self {
        debug_assert!(validity.as_ref().is_none_or(|v| v.len() == data.len()));
        Self { data, validity: validity.filter(|v| !v.all()) }
    }

    /// `len` NULLs.
    pub fn nulls(phys: Phys, len: usize) -> Self {
        Self { data: Data::zeros(phys, len), validity: (len > 0).then(|| Bitmap::new(len, false)) }
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether row `row` is not NULL.
    #[inline(always)]
    pub fn is_valid(&self, row: usize) -> bool {
        self.validity.as_ref().is_none_or(|v| v.get(row))
    }

    /// Rows `start .. start + len`.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        Self::with_validity(self.data.slice(start, len), self.validity.as_ref().map(|v| v.slice(start, len)))
    }

    /// Row `rows[i]` as row `i`.
    pub fn gather(&self, rows: &[u32]) -> Self {
        Self::with_validity(self.data.gather(rows), self.validity.as_ref().map(|v| v.gather(rows)))
    }

    /// Row `rows[i]` as row `i`, NULL where `rows[i]` is [`NULL_ROW`].
    pub fn gather_or_null(&self, rows: &[u32]) -> Self {
        let validity = Bitmap::from_fn(rows.len(), |i| rows[i] != NULL_ROW && self.is_valid(rows[i] as usize));
        Self::with_validity(self.data.gather_or_null(rows), Some(validity))
    }

    /// Appends all rows of `other`, which has the same representation.
    pub fn extend(&mut self, other: &Vector) {
        let len = self.len();
        self.data.extend(&other.data);
        match (&mut self.validity, &other.validity) {
            (None, None) => {}
            (Some(a), Some(b)) => a.extend(b),
            (Some(a), None) => a.extend(&Bitmap::new(other.len(), true)),
            (a @ None, Some(b)) => {
                let mut validity = Bitmap::new(len, true);
                validity.extend(b);
                *a = Some(validity);
            }
        }
    }

    /// Bytes allocated, without the bytes of strings.
    pub fn bytes(&self) -> usize {
        self.data.bytes() + self.validity.as_ref().map_or(0, |v| v.words().len() * 8)
    }
}
