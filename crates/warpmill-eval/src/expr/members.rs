//! IN lists of constants: a few comparisons, a bitmap over a narrow range of integers, or a hash set.

use hashbrown::HashSet;
use warpmill_format::{Bitmap, StrView};
use warpmill_ir::{CompareOp, Phys, Scalar};

use super::call::Compute;
use super::compare;
use super::value::{Bits, Native, Side, Value, bits_of};
use crate::error::Result;
use crate::memory::Worker;

/// Lists up to this long are compared one by one.
const FEW: usize = 6;
/// The widest range of integers kept as a bitmap.
const WIDEST: i128 = 1 << 20;

/// `input [NOT] IN (list)`.
#[derive(Debug)]
pub(super) struct InList {
    members: Members,
    has_null: bool,
    negated: bool,
}

#[derive(Debug)]
enum Members {
    /// Constants of the input's representation.
    Few(Vec<Value>),
    /// Bit `i` represents `low + i`.
    Narrow {
        low: i128,
        bits: Bitmap,
    },
    Ints(HashSet<i128>),
    /// Bit patterns of doubles with one NaN and one zero.
    Floats(HashSet<u64>),
    Strings(HashSet<Box<str>>),
}

fn float_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

impl InList {
    /// Prepares `list`; `constants` are its values as operands.
    pub fn new(list: &[Scalar], constants: Vec<Value>, phys: Phys, has_null: bool, negated: bool) -> Self {
        let members = match phys {
            _ if constants.len() <= FEW => Members::Few(constants),
            Phys::I32 | Phys::I64 | Phys::I128 | Phys::Code => integers(list),
            Phys::F32 => {
                let value = |v: &Scalar| if let Scalar::Float(v) = v { Some(f64::from(*v as f32)) } else { None };
                Members::Floats(list.iter().filter_map(value).map(float_bits).collect())
            }
            Phys::F64 => {
                let value = |v: &Scalar| if let Scalar::Float(v) = v { Some(*v) } else { None };
                Members::Floats(list.iter().filter_map(value).map(float_bits).collect())
            }
            Phys::Str => {
                let value = |v: &Scalar| if let Scalar::Str(v) = v { Some(Box::from(&**v)) } else { None };
                Members::Strings(list.iter().filter_map(value).collect())
            }
            Phys::Bool => Members::Few(constants),
        };
        Self { members, has_null, negated }
    }

    fn found(&self, input: &Value, len: usize) -> Bitmap {
        match (&self.members, input.vector().data.phys()) {
            (Members::Few(list), _) => list.iter().fold(Bitmap::new(len, false), |mut found, value| {
                found.or_assign(&compare::compare(CompareOp::Eq, input, value, len).truth);
                found
            }),
            (Members::Narrow { low, bits }, Phys::I32) => {
                narrow(input.side::<i32>(), *low as i64, bits, len, i64::from)
            }
            (Members::Narrow { low, bits }, Phys::Code) => {
                narrow(input.side::<u32>(), *low as i64, bits, len, i64::from)
            }
            (Members::Narrow { low, bits }, Phys::I64) if i64::try_from(*low).is_ok() => {
                narrow(input.side::<i64>(), *low as i64, bits, len, |v| v)
            }
            (Members::Narrow { low, bits }, phys) => {
                let hit = |v: i128| usize::try_from(v.wrapping_sub(*low)).is_ok_and(|i| i < bits.len() && bits.get(i));
                match phys {
                    Phys::I64 => each(input.side::<i64>(), len, |v| hit(v.into())),
                    _ => each(input.side::<i128>(), len, hit),
                }
            }
            (Members::Ints(set), Phys::I32) => each(input.side::<i32>(), len, |v| set.contains(&i128::from(v))),
            (Members::Ints(set), Phys::I64) => each(input.side::<i64>(), len, |v| set.contains(&i128::from(v))),
            (Members::Ints(set), Phys::Code) => each(input.side::<u32>(), len, |v| set.contains(&i128::from(v))),
            (Members::Ints(set), _) => each(input.side::<i128>(), len, |v| set.contains(&v)),
            (Members::Floats(set), Phys::F32) => {
                each(input.side::<f32>(), len, |v| set.contains(&float_bits(f64::from(v))))
            }
            (Members::Floats(set), _) => each(input.side::<f64>(), len, |v| set.contains(&float_bits(v))),
            (Members::Strings(set), _) => each(input.side::<StrView>(), len, |v| set.contains(v.as_str())),
        }
    }
}

fn integers(list: &[Scalar]) -> Members {
    let values: Vec<i128> = list.iter().filter_map(|v| if let Scalar::Int(v) = v { Some(*v) } else { None }).collect();
    let (low, high) = values.iter().fold((i128::MAX, i128::MIN), |(lo, hi), &v| (lo.min(v), hi.max(v)));
    match high.checked_sub(low) {
        Some(width) if width < WIDEST && i64::try_from(low).is_ok() => {
            let mut bits = Bitmap::new(width as usize + 1, false);
            values.iter().for_each(|v| bits.set((v - low) as usize, true));
            Members::Narrow { low, bits }
        }
        _ => Members::Ints(values.into_iter().collect()),
    }
}

fn each<T: Native>(side: Side<'_, T>, len: usize, f: impl Fn(T) -> bool) -> Bitmap {
    match side {
        Side::One(value) => Bitmap::new(len, f(value)),
        Side::Many(values) => bits_of(values, f),
    }
}

fn narrow<T: Native>(side: Side<'_, T>, low: i64, bits: &Bitmap, len: usize, wide: impl Fn(T) -> i64) -> Bitmap {
    let members = bits.len() as u64;
    each(side, len, |value| {
        let at = wide(value).wrapping_sub(low) as u64;
        // Values out of range read bit 0 and are discarded.
        (at < members) & bits.get(if at < members { at as usize } else { 0 })
    })
}

impl Compute for InList {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let input = &args[0];
        if input.is_null_const() {
            return Ok(Value::null(Phys::Bool));
        }
        let found = self.found(input, len);
        let mut bits = Bits::new(found, input.validity().cloned());
        if self.has_null {
            // A value that is not in a list with a NULL compares as unknown.
            bits.valid = Some(bits.truth.clone());
        }
        let bits = if self.negated { bits.not() } else { bits };
        Ok(Value::rows(bits.into_vector()))
    }

    fn fallible(&self) -> bool {
        false
    }

    fn heavy(&self) -> bool {
        matches!(self.members, Members::Strings(_) | Members::Ints(_) | Members::Floats(_))
    }
}
