//! Functions of numbers.

use warpmill_ir::{ColType, Function, Phys};

use super::arith::{Int, binary, scale_of};
use super::call::{Compute, all_valid, rows};
use super::cast::widen;
use super::value::{Native, Value, map};
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::{Data, Vector};

/// A function of numbers.
#[derive(Debug)]
pub(super) struct Math {
    function: Function,
    /// The first argument's type.
    from: ColType,
    ty: ColType,
}

impl Math {
    pub fn new(function: Function, from: &ColType, ty: &ColType) -> Self {
        Self { function, from: from.clone(), ty: ty.clone() }
    }

    fn overflow(&self) -> ExecError {
        ExecError::Value(format!("overflow in {:?} of {}", self.function, self.from.logical).to_lowercase())
    }

    /// Integers and decimals, as 128-bit unscaled integers.
    fn exact(&self, args: &[Value], len: usize) -> Result<Value> {
        let Some(validity) = all_valid(args) else { return Ok(Value::null(self.ty.phys)) };
        let valid = validity.as_ref();
        let places = args.get(1).map(|places| widen(Phys::I64, places.clone()));
        let places = |i: usize| places.as_ref().map_or(0, |p| p.side::<i64>().at(i));
        let (lo, hi) = ColType::range_of(&self.ty.logical).unwrap_or((i128::MIN, i128::MAX));
        let compute = |i: usize, value: i128| {
            self.unscaled(value, places(i)).filter(|v| lo <= *v && *v <= hi).ok_or_else(|| self.overflow())
        };
        let results = match self.from.phys {
            Phys::I32 => rows(len, valid, |i| compute(i, args[0].side::<i32>().at(i).into()))?,
            Phys::I64 => rows(len, valid, |i| compute(i, args[0].side::<i64>().at(i).into()))?,
            _ => rows(len, valid, |i| compute(i, args[0].side::<i128>().at(i)))?,
        };
        let data = match self.ty.phys {
            Phys::I32 => i32::wrap(results.into_iter().map(i32::truncated).collect()),
            Phys::I64 => i64::wrap(results.into_iter().map(i64::truncated).collect()),
            Phys::I128 => i128::wrap(results),
            other => return Err(ExecError::Unsupported(format!("{:?} held as {other:?}", self.function))),
        };
        Ok(Value::rows(Vector::with_validity(data, validity)))
    }

    /// The unscaled result; `None` where it does not fit.
    fn unscaled(&self, value: i128, places: i64) -> Option<i128> {
        let scale = i64::from(scale_of(&self.from.logical));
        let power = |digits: i64| u32::try_from(digits).ok().and_then(|d| 10i128.checked_pow(d));
        match self.function {
            Function::Abs => value.checked_abs(),
            Function::Floor | Function::Ceil | Function::Trunc if scale <= 0 && places >= 0 => Some(value),
            Function::Floor => Some(value - value.rem_euclid(power(scale)?)),
            Function::Ceil => Some(value + (-value).rem_euclid(power(scale)?)),
            Function::Trunc => match scale.saturating_sub(places) {
                ..=0 => Some(value),
                // More digits than the type has.
                digits => Some(power(digits).map_or(0, |unit| value - value % unit)),
            },
            Function::Round => {
                let to_scale = i64::from(scale_of(&self.ty.logical));
                let digits = scale.saturating_sub(places).max(scale - to_scale);
                if digits <= 0 {
                    return Some(value);
                }
                let Some(unit) = power(digits) else { return Some(0) };
                let rest = value % unit;
                let away = if rest.abs() >= unit - rest.abs() { value.signum() } else { 0 };
                // Rounded at `scale - digits` places, in the result's scale.
                (value / unit + away).checked_mul(power(digits - (scale - to_scale))?)
            }
            _ => None,
        }
    }

    fn fails_on_negative(&self) -> bool {
        self.function == Function::Sqrt
    }
}

macro_rules! float_functions {
    ($name:ident, $float:ty) => {
        fn $name(function: Function, args: &[Value], len: usize) -> Result<Value> {
            let places = args.get(1).filter(|_| matches!(function, Function::Round | Function::Trunc));
            let input = &args[0];
            if let Some(places) = places {
                let Some(validity) = all_valid(args) else { return Ok(Value::null(input.vector().data.phys())) };
                let places = widen(Phys::I64, places.clone());
                let (value, places) = (input.side::<$float>(), places.side::<i64>());
                let result = |i: usize| {
                    let factor = (10.0 as $float).powi(places.at(i) as i32);
                    let scaled = value.at(i) * factor;
                    (if function == Function::Round { scaled.round() } else { scaled.trunc() }) / factor
                };
                let data: Data = <$float>::wrap((0..len).map(result).collect());
                return Ok(Value::rows(Vector::with_validity(data, validity)));
            }
            Ok(match function {
                Function::Abs => map::<$float, $float>(input, <$float>::abs),
                Function::Sign => map::<$float, $float>(input, |v| if v == 0.0 { 0.0 } else { v.signum() }),
                Function::Round => map::<$float, $float>(input, <$float>::round),
                Function::Floor => map::<$float, $float>(input, <$float>::floor),
                Function::Ceil => map::<$float, $float>(input, <$float>::ceil),
                Function::Trunc => map::<$float, $float>(input, <$float>::trunc),
                Function::Sqrt => map::<$float, $float>(input, <$float>::sqrt),
                Function::Exp => map::<$float, $float>(input, <$float>::exp),
                Function::Ln => map::<$float, $float>(input, <$float>::ln),
                Function::Log10 => map::<$float, $float>(input, <$float>::log10),
                Function::Power => {
                    let Some(validity) = all_valid(args) else { return Ok(Value::null(input.vector().data.phys())) };
                    let (base, exponent) = (input.side::<$float>(), args[1].side::<$float>());
                    let data = <$float>::wrap(binary(base, exponent, len, <$float>::powf));
                    Value::rows(Vector::with_validity(data, validity))
                }
                other => return Err(ExecError::Unsupported(format!("{other:?} of floats"))),
            })
        }
    };
}

float_functions!(of_f32, f32);
float_functions!(of_f64, f64);

impl Compute for Math {
    fn eval(&self, args: &[Value], len: usize, _worker: &mut Worker) -> Result<Value> {
        let input = &args[0];
        let negative = |i: usize| match self.from.phys {
            Phys::F32 => input.side::<f32>().at(i) < 0.0,
            _ => input.side::<f64>().at(i) < 0.0,
        };
        if self.fails_on_negative() && (0..input.vector().len()).any(|i| negative(i) && input.is_valid(i)) {
            return Err(ExecError::Value("cannot take square root of a negative number".into()));
        }
        match self.from.phys {
            Phys::F32 => of_f32(self.function, args, len),
            Phys::F64 => of_f64(self.function, args, len),
            _ => self.exact(args, len),
        }
    }

    fn fallible(&self) -> bool {
        self.from.phys.is_int() || matches!(self.function, Function::Sqrt | Function::Power)
    }
}
