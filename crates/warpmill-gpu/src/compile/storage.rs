//! Storage of sink columns in device memory: one array of values per column, as narrow as the column's proven range allows, and one byte per row for
//! validity.

use warpmill_ir::{ColType, Field, Phys};

use super::cpp::CType;

/// The type of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the C++ type of its name")]
pub enum Storage {
    U8,
    I8,
    U16,
    I16,
    /// The type of the values themselves.
    Whole(CType),
}

impl Storage {
    /// The narrowest storage for values of a type.
    pub fn of(ty: &ColType) -> Self {
        let range = match (ty.phys, &ty.dictionary) {
            // NULL rows may hold any code of the narrow type; it is never read.
            (Phys::Code, Some(dictionary)) => Some((0, dictionary.len() as i128)),
            (Phys::I32 | Phys::I64, _) => ty.range,
            _ => None,
        };
        let Some((lo, hi)) = range else { return Storage::Whole(CType::of(ty.phys)) };
        if lo >= 0 && hi <= 0xFF {
            Storage::U8
        } else if lo >= -0x80 && hi <= 0x7F {
            Storage::I8
        } else if lo >= 0 && hi <= 0xFFFF {
            Storage::U16
        } else if lo >= -0x8000 && hi <= 0x7FFF {
            Storage::I16
        } else {
            Storage::Whole(CType::of(ty.phys))
        }
    }

    /// The C++ type.
    pub fn name(self) -> &'static str {
        match self {
            Storage::U8 => "u8",
            Storage::I8 => "i8",
            Storage::U16 => "u16",
            Storage::I16 => "i16",
            Storage::Whole(ty) => ty.name(),
        }
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Storage::U8 | Storage::I8 => 1,
            Storage::U16 | Storage::I16 => 2,
            Storage::Whole(ty) => ty.size(),
        }
    }
}

/// A column of a sink (or of uploaded rows) in device memory.
#[derive(Debug, Clone, PartialEq)]
pub struct FlatColumn {
    /// Buffer name of the array; the validity array is `{name}.valid`.
    pub buffer: String,
    /// The type of values.
    pub ty: CType,
    /// The type of the array's elements.
    pub storage: Storage,
    /// Whether there is a validity array.
    pub nullable: bool,
}

impl FlatColumn {
    /// Column `index`, with buffer names prefixed by `owner`.
    pub fn new(owner: &str, index: usize, ty: &ColType) -> Self {
        Self {
            buffer: format!("{owner}.{index}"),
            ty: CType::of(ty.phys),
            storage: Storage::of(ty),
            nullable: ty.nullable,
        }
    }

    /// The columns of `fields`.
    pub fn all(owner: &str, fields: &[Field]) -> Vec<Self> {
        fields.iter().enumerate().map(|(i, field)| Self::new(owner, i, &field.ty)).collect()
    }

    /// Name of the validity array.
    pub fn valid_buffer(&self) -> String {
        format!("{}.valid", self.buffer)
    }

    /// Bytes per row, validity included.
    pub fn row_bytes(&self) -> usize {
        self.storage.size() + usize::from(self.nullable)
    }
}
