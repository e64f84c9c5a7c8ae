//! Types of columns and expressions: logical type, representation, and proven properties.

use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_format::Dictionary;

/// The representation of a value during execution.
///
/// Integer-like logical types (integers, decimals, dates, timestamps) are represented by their unscaled integer in the narrowest of `I32`, `I64`,
/// `I128` that the proven range allows ("types narrow by proof", DESIGN decision 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phys {
    /// A truth value.
    Bool,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 128-bit signed integer.
    I128,
    /// Single-precision float.
    F32,
    /// Double-precision float.
    F64,
    /// A string view.
    Str,
    /// A `u32` code of the ordered dictionary in [`ColType::dictionary`]: codes compare as strings do.
    Code,
}

impl Phys {
    /// Whether values are unscaled integers.
    pub fn is_int(self) -> bool {
        matches!(self, Phys::I32 | Phys::I64 | Phys::I128)
    }

    /// The narrowest integer representation for a range.
    pub fn for_range((lo, hi): (i128, i128)) -> Phys {
        if lo >= i128::from(i32::MIN) && hi <= i128::from(i32::MAX) {
            Phys::I32
        } else if lo >= i128::from(i64::MIN) && hi <= i128::from(i64::MAX) {
            Phys::I64
        } else {
            Phys::I128
        }
    }
}

/// The type of a column or expression.
#[derive(Debug, Clone)]
pub struct ColType {
    /// The meaning of the value (Arrow's type; decimals carry precision and scale).
    pub logical: DataType,
    /// The representation.
    pub phys: Phys,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Proven bounds of every non-null unscaled integer value; `None` for other representations. Always within `phys`.
    pub range: Option<(i128, i128)>,
    /// The dictionary of a `Phys::Code` value.
    pub dictionary: Option<Arc<Dictionary>>,
}

impl ColType {
    /// The type of values of `logical` without further proven properties; `None` for logical types that the engine does not execute (nested types,
    /// intervals, binary).
    pub fn of(logical: &DataType, nullable: bool) -> Option<Self> {
        let (phys, range) = match logical {
            DataType::Boolean => (Phys::Bool, None),
            DataType::Float32 => (Phys::F32, None),
            DataType::Float64 => (Phys::F64, None),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => (Phys::Str, None),
            _ => {
                let range = Self::range_of(logical)?;
                (Phys::for_range(range), Some(range))
            }
        };
        Some(Self { logical: logical.clone(), phys, nullable, range, dictionary: None })
    }

    /// The bounds of an integer-like logical type; `None` for other types.
    pub fn range_of(logical: &DataType) -> Option<(i128, i128)> {
        Some(match logical {
            DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => (i32::MIN.into(), i32::MAX.into()),
            DataType::Int64
            | DataType::Date64
            | DataType::Timestamp(..)
            | DataType::Time64(_)
            | DataType::Duration(_) => (i64::MIN.into(), i64::MAX.into()),
            DataType::UInt8 => (0, u8::MAX.into()),
            DataType::UInt16 => (0, u16::MAX.into()),
            DataType::UInt32 => (0, u32::MAX.into()),
            DataType::UInt64 => (0, u64::MAX.into()),
            DataType::Decimal32(p, _) | DataType::Decimal64(p, _) | DataType::Decimal128(p, _) => {
                let max = 10i128.checked_pow(u32::from(*p)).map_or(i128::MAX, |m| m - 1);
                (-max, max)
            }
            _ => return None,
        })
    }

    /// The same type with integer bounds narrowed to `range`, and the corresponding representation.
    pub fn narrowed(&self, range: (i128, i128)) -> Self {
        debug_assert!(self.phys.is_int());
        let range = match self.range {
            Some((lo, hi)) => (range.0.max(lo), range.1.min(hi)),
            None => range,
        };
        Self { phys: Phys::for_range(range), range: Some(range), ..self.clone() }
    }

    /// The same type in representation `phys` (integers only widen; `Code` becomes `Str`).
    pub fn widened(&self, phys: Phys) -> Self {
        let dictionary = if phys == Phys::Code { self.dictionary.clone() } else { None };
        Self { phys, dictionary, ..self.clone() }
    }

    /// The same type with `nullable` replaced.
    pub fn with_nullable(&self, nullable: bool) -> Self {
        Self { nullable, ..self.clone() }
    }
}

/// Two types are equal if values of one can be used as values of the other without conversion.
impl PartialEq for ColType {
    fn eq(&self, other: &Self) -> bool {
        self.logical == other.logical
            && self.phys == other.phys
            && match (&self.dictionary, &other.dictionary) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
    }
}
