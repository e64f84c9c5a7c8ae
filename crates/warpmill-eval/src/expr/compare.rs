//! Comparisons: equality and "less" for every representation, the rest by exchanging and negating.

use warpmill_format::{Bitmap, StrView};
use warpmill_ir::CompareOp;

use super::value::{Bits, Native, Side, Value, bits_of, bits_of_pairs, both, with_native, zip};

/// Total equality and order of a representation: NaN equals itself and is greatest, zeros are equal.
pub(super) trait Ordered: Native {
    fn same(self, other: Self) -> bool;
    fn less(self, other: Self) -> bool;
}

macro_rules! ordered {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn same(self, other: Self) -> bool {
                self == other
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

macro_rules! ordered_float {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            #[inline(always)]
            fn same(self, other: Self) -> bool {
                (self == other) | (self.is_nan() & other.is_nan())
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                (self < other) | (!self.is_nan() & other.is_nan())
            }
        }
    )*};
}

ordered!(i32, i64, i128, u32, StrView);
ordered_float!(f32, f64);

impl Ordered for bool {
    #[inline(always)]
    fn same(self, other: Self) -> bool {
        self == other
    }
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        !self & other
    }
}

/// `left op right` for `len` rows.
pub(super) fn compare(op: CompareOp, left: &Value, right: &Value, len: usize) -> Bits {
    match op {
        CompareOp::IsDistinct => distinct(left, right, len),
        CompareOp::IsNotDistinct => distinct(left, right, len).not(),
        _ if left.is_null_const() || right.is_null_const() => Bits::nulls(len),
        _ => Bits::new(truth(op, left, right, len), both(left.validity(), right.validity())),
    }
}

/// The result of a comparison where both sides are valid; unspecified bits elsewhere.
fn truth(op: CompareOp, left: &Value, right: &Value, len: usize) -> Bitmap {
    let phys = left.vector().data.phys();
    with_native!(phys, T => {
        let (l, r) = (left.side::<T>(), right.side::<T>());
        match op {
            CompareOp::Eq => equal(l, r, len),
            CompareOp::Ne => equal(l, r, len).not(),
            CompareOp::Lt => less(l, r, len),
            CompareOp::Gt => less(r, l, len),
            CompareOp::Ge => less(l, r, len).not(),
            CompareOp::Le => less(r, l, len).not(),
            CompareOp::IsDistinct | CompareOp::IsNotDistinct => unreachable!("handled with NULLs"),
        }
    })
}

fn equal<T: Ordered>(left: Side<'_, T>, right: Side<'_, T>, len: usize) -> Bitmap {
    match (left, right) {
        (Side::Many(a), Side::Many(b)) => bits_of_pairs(a, b, T::same),
        (Side::Many(a), Side::One(b)) | (Side::One(b), Side::Many(a)) => bits_of(a, |a| a.same(b)),
        (Side::One(a), Side::One(b)) => Bitmap::new(len, a.same(b)),
    }
}

fn less<T: Ordered>(left: Side<'_, T>, right: Side<'_, T>, len: usize) -> Bitmap {
    match (left, right) {
        (Side::Many(a), Side::Many(b)) => bits_of_pairs(a, b, T::less),
        (Side::Many(a), Side::One(b)) => bits_of(a, |a| a.less(b)),
        (Side::One(a), Side::Many(b)) => bits_of(b, |b| a.less(b)),
        (Side::One(a), Side::One(b)) => Bitmap::new(len, a.less(b)),
    }
}

/// `IS DISTINCT FROM`: two NULLs are equal, a NULL and a value are not.
fn distinct(left: &Value, right: &Value, len: usize) -> Bits {
    let valid = |value: &Value| match value {
        Value::Rows(vector) => vector.validity.clone().unwrap_or_else(|| Bitmap::new(len, true)),
        Value::Const(one) => Bitmap::new(len, one.is_valid(0)),
    };
    let (l, r) = (valid(left), valid(right));
    let differ = truth(CompareOp::Ne, left, right, len);
    let both_valid_and_differ = zip(&zip(&l, &r, |l, r| l & r), &differ, |valid, differ| valid & differ);
    let truth = zip(&zip(&l, &r, |l, r| l ^ r), &both_valid_and_differ, |a, b| a | b);
    Bits { truth, valid: None }
}
