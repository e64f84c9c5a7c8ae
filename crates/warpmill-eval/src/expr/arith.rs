//! Arithmetic: one loop per representation, operation and shape of operands (column or constant).

use arrow::datatypes::DataType;
use warpmill_format::Bitmap;
use warpmill_ir::{ArithOp, ColType, Phys};

use super::value::{Native, Side, Value, both, map};
use crate::error::{ExecError, Result};
use crate::vector::Vector;

/// Integers of the three widths.
pub(super) trait Int: Native + Ord + TryFrom<i128> + Into<i128> + std::fmt::Display {
    fn overflowing(op: ArithOp, a: Self, b: Self) -> (Self, bool);
    fn wrapping(op: ArithOp, a: Self, b: Self) -> Self;
    fn clamped(value: i128) -> Self;
    fn truncated(value: i128) -> Self;
    const ZERO: Self;
}

macro_rules! int {
    ($($type:ty),*) => {$(
        impl Int for $type {
            const ZERO: Self = 0;
            #[inline(always)]
            fn overflowing(op: ArithOp, a: Self, b: Self) -> (Self, bool) {
                match op {
                    ArithOp::Add => a.overflowing_add(b),
                    ArithOp::Sub => a.overflowing_sub(b),
                    ArithOp::Mul => a.overflowing_mul(b),
                    // Zero divisors have been reported already, except in NULL rows.
                    ArithOp::Div => a.overflowing_div(if b == 0 { 1 } else { b }),
                    ArithOp::Mod => (a.wrapping_rem(if b == 0 { 1 } else { b }), false),
                }
            }
            #[inline(always)]
            fn wrapping(op: ArithOp, a: Self, b: Self) -> Self {
                match op {
                    ArithOp::Add => a.wrapping_add(b),
                    ArithOp::Sub => a.wrapping_sub(b),
                    ArithOp::Mul => a.wrapping_mul(b),
                    ArithOp::Div => a.wrapping_div(if b == 0 { 1 } else { b }),
                    ArithOp::Mod => a.wrapping_rem(if b == 0 { 1 } else { b }),
                }
            }
            fn clamped(value: i128) -> Self {
                value.clamp(<$type>::MIN.into(), <$type>::MAX.into()) as $type
            }
            #[inline(always)]
            fn truncated(value: i128) -> Self {
                value as $type
            }
        }
    )*};
}

int!(i32, i64, i128);

/// Properties of an arithmetic node.
#[derive(Debug, Clone)]
pub(super) struct Arith {
    pub op: ArithOp,
    pub checked: bool,
    /// Bounds that the result must keep when `checked`; `None` where the representation is the bound.
    pub bounds: Option<(i128, i128)>,
    /// For decimal division: the factor of the dividend.
    pub dividend_scale: i128,
    /// Whether the scaled dividend and the divisor are proven to fit 64 bits.
    pub narrow_dividend: bool,
    /// Type of the result, for messages.
    pub logical: DataType,
}

/// The scale of a decimal type, zero for other types.
pub(super) fn scale_of(logical: &DataType) -> i32 {
    match logical {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => i32::from(*s),
        _ => 0,
    }
}

impl Arith {
    /// The properties of `left op right` with the result type `ty`.
    pub fn new(op: ArithOp, checked: bool, ty: &ColType, left: &ColType, right: &ColType) -> Result<Self> {
        let natural = ColType::of(&ty.logical, true).filter(|t| t.phys.is_int());
        let bounds = natural.and_then(|t| t.range).filter(|range| checked && outside(ty.phys, *range));
        let exponent = scale_of(&ty.logical) - scale_of(&left.logical) + scale_of(&right.logical);
        let dividend_scale = match op {
            ArithOp::Div if ty.phys.is_int() => u32::try_from(exponent).ok().and_then(|e| 10i128.checked_pow(e)),
            _ => Some(1),
        };
        let dividend_scale = dividend_scale
            .ok_or_else(|| ExecError::Unsupported(format!("division to {} by 10^{exponent}", ty.logical)))?;
        let fits = |bound: i128| bound.checked_mul(dividend_scale).is_some_and(|b| i64::try_from(b).is_ok());
        let narrow = |bound: i128| i64::try_from(bound).is_ok();
        let narrow_divisor = right.phys != Phys::I128 || right.range.is_some_and(|(lo, hi)| narrow(lo) && narrow(hi));
        let narrow_dividend = narrow_divisor && left.range.is_some_and(|(lo, hi)| fits(lo) && fits(hi));
        Ok(Self { op, checked, bounds, dividend_scale, narrow_dividend, logical: ty.logical.clone() })
    }

    fn overflow(&self) -> ExecError {
        let name = match self.op {
            ArithOp::Add => "addition",
            ArithOp::Sub => "subtraction",
            ArithOp::Mul => "multiplication",
            ArithOp::Div => "division",
            ArithOp::Mod => "remainder",
        };
        ExecError::Value(format!("overflow in {name} of {}", self.logical))
    }

    /// Computes `left op right` for `len` rows, in representation `phys`.
    pub fn eval(&self, phys: Phys, left: &Value, right: &Value, len: usize) -> Result<Value> {
        if left.is_null_const() || right.is_null_const() {
            return Ok(Value::null(phys));
        }
        let validity = both(left.validity(), right.validity());
        let valid = validity.as_ref();
        let data = match phys {
            Phys::I32 => i32::wrap(self.ints(left.side(), right.side(), valid, len)?),
            Phys::I64 => i64::wrap(self.ints(left.side(), right.side(), valid, len)?),
            Phys::I128 => i128::wrap(self.ints(left.side(), right.side(), valid, len)?),
            Phys::F32 => f32::wrap(self.floats(left.side(), right.side(), len)),
            Phys::F64 => f64::wrap(self.floats(left.side(), right.side(), len)),
            other => return Err(ExecError::Unsupported(format!("arithmetic on {other:?}"))),
        };
        Ok(Value::rows(Vector::with_validity(data, validity)))
    }

    fn floats<T>(&self, left: Side<'_, T>, right: Side<'_, T>, len: usize) -> Vec<T>
    where
        T: Native
            + std::ops::Add<Output = T>
            + std::ops::Sub<Output = T>
            + std::ops::Mul<Output = T>
            + std::ops::Div<Output = T>
            + std::ops::Rem<Output = T>,
    {
        match self.op {
            ArithOp::Add => binary(left, right, len, |a, b| a + b),
            ArithOp::Sub => binary(left, right, len, |a, b| a - b),
            ArithOp::Mul => binary(left, right, len, |a, b| a * b),
            ArithOp::Div => binary(left, right, len, |a, b| a / b),
            ArithOp::Mod => binary(left, right, len, |a, b| a % b),
        }
    }

    fn ints<T: Int>(
        &self,
        left: Side<'_, T>,
        right: Side<'_, T>,
        valid: Option<&Bitmap>,
        len: usize,
    ) -> Result<Vec<T>> {
        if matches!(self.op, ArithOp::Div | ArithOp::Mod) {
            let zero = match right {
                Side::One(b) => b == T::ZERO && valid.map_or(len, Bitmap::count_ones) > 0,
                Side::Many(b) => {
                    b.contains(&T::ZERO) && b.iter().enumerate().any(|(i, b)| *b == T::ZERO && is_set(valid, i))
                }
            };
            if zero {
                return Err(ExecError::Value("division by zero".into()));
            }
        }
        match self.op {
            ArithOp::Div if self.dividend_scale != 1 => self.scaled_division(left, right, valid, len),
            ArithOp::Add => self.run(left, right, valid, len, |a, b| T::overflowing(ArithOp::Add, a, b)),
            ArithOp::Sub => self.run(left, right, valid, len, |a, b| T::overflowing(ArithOp::Sub, a, b)),
            ArithOp::Mul => self.run(left, right, valid, len, |a, b| T::overflowing(ArithOp::Mul, a, b)),
            ArithOp::Div => self.run(left, right, valid, len, |a, b| T::overflowing(ArithOp::Div, a, b)),
            ArithOp::Mod => self.run(left, right, valid, len, |a, b| T::overflowing(ArithOp::Mod, a, b)),
        }
    }

    /// Computes all rows, without checks if none are needed; otherwise with one overflow flag for all rows, and a search for the row if it is set.
    #[inline(always)]
    fn run<T: Int>(
        &self,
        left: Side<'_, T>,
        right: Side<'_, T>,
        valid: Option<&Bitmap>,
        len: usize,
        f: impl Fn(T, T) -> (T, bool) + Copy,
    ) -> Result<Vec<T>> {
        if !self.checked {
            return Ok(binary(left, right, len, |a, b| f(a, b).0));
        }
        let (lo, hi) = self.bounds.unwrap_or((i128::MIN, i128::MAX));
        let (lo, hi) = (T::clamped(lo), T::clamped(hi));
        let bad = move |(value, overflow): (T, bool)| overflow | (value < lo) | (value > hi);
        let mut flag = false;
        let out = binary(left, right, len, |a, b| {
            let result = f(a, b);
            flag |= bad(result);
            result.0
        });
        if flag && (0..len).any(|i| is_set(valid, i) && bad(f(left.at(i), right.at(i)))) {
            return Err(self.overflow());
        }
        Ok(out)
    }

    fn scaled_division<T: Int>(
        &self,
        left: Side<'_, T>,
        right: Side<'_, T>,
        valid: Option<&Bitmap>,
        len: usize,
    ) -> Result<Vec<T>> {
        let scale = self.dividend_scale;
        if self.narrow_dividend && !self.checked {
            let scale = scale as i64;
            return Ok(binary(left, right, len, |a, b| {
                let (a, b) = (i64::truncated(a.into()), i64::truncated(b.into()));
                T::truncated(i64::wrapping(ArithOp::Div, a.wrapping_mul(scale), b).into())
            }));
        }
        let mut lost = false;
        let bounds = self.bounds.unwrap_or((i128::MIN, i128::MAX));
        let divide = |a: T, b: T| {
            let (dividend, overflow) = a.into().overflowing_mul(scale);
            let quotient = i128::wrapping(ArithOp::Div, dividend, b.into());
            let result = T::truncated(quotient);
            let kept = !overflow && result.into() == quotient && bounds.0 <= quotient && quotient <= bounds.1;
            (result, !kept)
        };
        let out = binary(left, right, len, |a, b| {
            let (result, bad) = divide(a, b);
            lost |= bad;
            result
        });
        if lost && (0..len).any(|i| is_set(valid, i) && divide(left.at(i), right.at(i)).1) {
            return Err(self.overflow());
        }
        Ok(out)
    }
}

/// Whether a representation has values outside of a range.
pub(super) fn outside(phys: Phys, (lo, hi): (i128, i128)) -> bool {
    match phys {
        Phys::I32 => lo > i32::MIN.into() || hi < i32::MAX.into(),
        Phys::I64 => lo > i64::MIN.into() || hi < i64::MAX.into(),
        Phys::I128 => true,
        _ => false,
    }
}

#[inline(always)]
pub(super) fn is_set(valid: Option<&Bitmap>, i: usize) -> bool {
    valid.is_none_or(|v| v.get(i))
}

/// `f(left, right)` for `len` rows, with a separate loop for each combination of columns and constants.
#[inline(always)]
pub(super) fn binary<T: Copy, U: Clone>(
    left: Side<'_, T>,
    right: Side<'_, T>,
    len: usize,
    mut f: impl FnMut(T, T) -> U,
) -> Vec<U> {
    match (left, right) {
        (Side::Many(a), Side::Many(b)) => a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect(),
        (Side::Many(a), Side::One(b)) => a.iter().map(|&a| f(a, b)).collect(),
        (Side::One(a), Side::Many(b)) => b.iter().map(|&b| f(a, b)).collect(),
        (Side::One(a), Side::One(b)) => vec![f(a, b); len],
    }
}

/// `-input`.
pub(super) fn negate(phys: Phys, checked: bool, logical: &DataType, input: &Value) -> Result<Value> {
    let ty = ColType::of(logical, true)
        .ok_or_else(|| ExecError::Unsupported(format!("negation of {logical}")))?
        .widened(phys);
    let zero = match phys {
        Phys::F32 => return Ok(map::<f32, f32>(input, |a| -a)),
        Phys::F64 => return Ok(map::<f64, f64>(input, |a| -a)),
        Phys::I32 => i32::wrap(vec![0]),
        Phys::I64 => i64::wrap(vec![0]),
        Phys::I128 => i128::wrap(vec![0]),
        other => return Err(ExecError::Unsupported(format!("negation of {other:?}"))),
    };
    let arith = Arith::new(ArithOp::Sub, checked, &ty, &ty, &ty)?;
    let negated = arith.eval(phys, &Value::Const(Vector::new(zero).into()), input, input.vector().len())?;
    Ok(match input {
        Value::Rows(_) => negated,
        Value::Const(_) => Value::Const(negated.into_vector(1)),
    })
}
