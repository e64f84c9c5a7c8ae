//! Keys of joins and groups: packed into one integer if their proven ranges allow, otherwise compared column by column.

use warpmill_ir::{ColType, Phys};

/// The representation of several key columns as one key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyShape {
    /// No key columns.
    None,
    /// `sum((key[i] - min[i]) * stride[i])`, below `cells`.
    Packed {
        /// One per key.
        parts: Vec<KeyPart>,
        /// Number of values of the packed key (at most 2^63).
        cells: u64,
    },
    /// Hashed, with column-wise comparison.
    Wide,
}

/// A key in a packed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPart {
    /// Least value.
    pub min: i128,
    /// Number of values, including NULL if `null_slot`.
    pub size: u64,
    /// Product of the sizes of earlier parts.
    pub stride: u64,
    /// Whether the last value stands for NULL.
    pub null_slot: bool,
}

impl KeyShape {
    /// The shape of keys of these types; `nulls`: NULL is a value like any other.
    pub fn of<'a>(types: impl IntoIterator<Item = &'a ColType>, nulls: bool) -> Self {
        let mut parts = vec![];
        let mut cells: u64 = 1;
        for ty in types {
            let range = match (ty.phys, &ty.dictionary) {
                (Phys::Bool, _) => Some((0, 1)),
                (Phys::Code, Some(dictionary)) => Some((0, (dictionary.len() as i128 - 1).max(0))),
                (Phys::I32 | Phys::I64 | Phys::I128, _) => ty.range,
                _ => None,
            };
            let null_slot = nulls && ty.nullable;
            let size = range.and_then(|(lo, hi)| hi.checked_sub(lo)?.checked_add(1 + i128::from(null_slot)));
            let Some(size) = size.and_then(|size| u64::try_from(size).ok()) else { return KeyShape::Wide };
            let stride = cells;
            match cells.checked_mul(size).filter(|&cells| cells <= 1 << 63) {
                Some(product) => cells = product,
                None => return KeyShape::Wide,
            }
            parts.push(KeyPart { min: range.map_or(0, |(lo, _)| lo), size, stride, null_slot });
        }
        if parts.is_empty() { KeyShape::None } else { KeyShape::Packed { parts, cells } }
    }

    /// Number of values of the packed key.
    pub fn cells(&self) -> Option<u64> {
        match self {
            KeyShape::Packed { cells, .. } => Some(*cells),
            KeyShape::None => Some(1),
            KeyShape::Wide => None,
        }
    }
}

/// Least number of combined values of the non-string keys for which groups are first looked up by these keys alone: then few groups differ in strings
/// only.
const QUICK_VALUES: u64 = 1 << 16;

/// The non-string keys among these types, if there are string keys too; `None` if they have few combined values.
pub fn quick_columns<'a>(types: impl Iterator<Item = &'a ColType> + Clone) -> Option<Vec<usize>> {
    let is_string = |ty: &ColType| ty.phys == Phys::Str;
    let others: Vec<usize> = types.clone().enumerate().filter(|(_, ty)| !is_string(ty)).map(|(at, _)| at).collect();
    let many = match KeyShape::of(types.clone().filter(|ty| !is_string(ty)), true) {
        KeyShape::Packed { cells, .. } => cells >= QUICK_VALUES,
        KeyShape::Wide => true,
        KeyShape::None => false,
    };
    (many && types.into_iter().any(is_string)).then_some(others)
}

/// The least and the greatest value of a type as integers; unspecified for floats and strings.
pub fn bounds(ty: &ColType) -> (i128, i128) {
    match ty.phys {
        Phys::Bool => (0, 1),
        Phys::Code => (0, ty.dictionary.as_ref().map_or(u32::MAX.into(), |d| d.len().max(1) as i128 - 1)),
        Phys::I32 => ty.range.unwrap_or((i32::MIN.into(), i32::MAX.into())),
        Phys::I64 => ty.range.unwrap_or((i64::MIN.into(), i64::MAX.into())),
        _ => ty.range.unwrap_or((i128::MIN, i128::MAX)),
    }
}
