//! Floating-point results to DuckDB's last digit.
//!
//! DuckDB divides the exact sum of an average in 80-bit floats. Averages are few values, after an aggregation: they are computed
//! by a function of DataFusion's here if they are values of the query's result. Elsewhere plain arithmetic is used, which differs in
//! the last bit at most. DuckDB casts large decimals in two parts.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Case, ColumnarValue, Expr, Operator, Volatility, cast, create_udf, lit};

use super::expr::binary;

/// The average of values with `scale` digits after the point, from their sum and number.
pub(super) fn average(sum: Expr, count: Expr, scale: u8, sum_type: DataType) -> Expr {
    let unit = 10u128.pow(scale.into());
    let divide = move |args: &[ColumnarValue]| -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(args)?;
        let (sums, counts) = (arrays[0].as_primitive::<Decimal128Type>(), arrays[1].as_primitive::<Int64Type>());
        let averages = (0..sums.len()).map(|row| {
            let known = sums.is_valid(row) && counts.is_valid(row) && counts.value(row) > 0;
            known.then(|| quotient(sums.value(row), counts.value(row).unsigned_abs().into(), unit))
        });
        Ok(ColumnarValue::Array(Arc::new(averages.collect::<Float64Array>()) as ArrayRef))
    };
    let name = format!("duckdb_average_{scale}");
    let types = vec![sum_type, DataType::Int64];
    create_udf(&name, types, DataType::Float64, Volatility::Immutable, Arc::new(divide)).call(vec![sum, count])
}

/// A decimal of `width` digits, `scale` of them after the point, as a float. If the integer of all digits is not a float exactly, the
/// whole part and the fractional part are converted separately.
pub(super) fn decimal_to_float(value: Expr, width: u8, scale: u8) -> Expr {
    /// Decimals of at most this many digits are exact floats, divided by a power of ten.
    const DIGITS: u8 = 15;
    let simple = cast(value.clone(), DataType::Float64);
    let Ok(digits) = i8::try_from(scale) else { return simple };
    if width <= DIGITS {
        return simple;
    }
    if scale == 0 {
        return integer_to_float(value, width, 0);
    }
    let constant = |unscaled: i128| lit(ScalarValue::Decimal128(Some(unscaled), width, digits));
    let exact = value.clone().between(constant(-(1 << 53)), constant(1 << 53));
    let Some(one) = 10i128.checked_pow(scale.into()).filter(|_| scale < width) else { return simple };
    let fraction = binary(value.clone(), Operator::Modulo, constant(one));
    let whole = cast(binary(value, Operator::Minus, fraction.clone()), DataType::Decimal128(38, 0));
    let whole = integer_to_float(whole, width, 0);
    let parts = binary(whole, Operator::Plus, integer_to_float(fraction, width, scale));
    Expr::Case(Case::new(None, vec![(Box::new(exact), Box::new(simple))], Some(Box::new(parts))))
}

/// A decimal as the float of its integer, divided by a power of ten. DuckDB converts integers of 64 bits as processors do, and integers of
/// 128 bits (more than 18 digits) in two halves; of a negative one whose upper half has no bits it converts `-1 - x`.
fn integer_to_float(value: Expr, width: u8, digits: u8) -> Expr {
    /// Largest number of digits of decimals in 64 bits.
    const NARROW: u8 = 18;
    if width <= NARROW {
        return cast(value, DataType::Float64);
    }
    let whole = |n: i128| lit(ScalarValue::Decimal128(Some(n), 38, 0));
    let integer = match 10i128.checked_pow(digits.into()) {
        Some(unit) if digits > 0 => cast(binary(value, Operator::Multiply, whole(unit)), DataType::Decimal128(38, 0)),
        _ => value,
    };
    let float = |e: Expr| cast(e, DataType::Float64);
    let half = 1i128 << 64;
    let rest = |e: Expr| binary(e, Operator::Modulo, whole(half));
    let lower = rest(binary(rest(integer.clone()), Operator::Plus, whole(half)));
    let upper = binary(integer.clone(), Operator::Minus, lower.clone());
    let halves = binary(float(lower), Operator::Plus, float(upper));
    let opposite = binary(whole(-1), Operator::Minus, integer.clone());
    let negative = binary(Expr::Negative(Box::new(float(opposite))), Operator::Minus, lit(1.0));
    let is_negative = integer.clone().lt(whole(0)).and(integer.gt_eq(whole(-half)));
    let branches = vec![(Box::new(is_negative), Box::new(negative))];
    let result = Expr::Case(Case::new(None, branches, Some(Box::new(halves))));
    match format!("1e{digits}").parse::<f64>() {
        Ok(unit) if digits > 0 => binary(result, Operator::Divide, lit(unit)),
        _ => result,
    }
}

/// `sum / (count * unit)` as x87 computes it: both sides and the quotient are rounded to 64 bits, then to 53.
fn quotient(sum: i128, count: u128, unit: u128) -> f64 {
    if sum == 0 {
        return 0.0;
    }
    let (dividend, up) = to_64_bits(sum.unsigned_abs());
    let (divisor, down) = to_64_bits(count.saturating_mul(unit));
    // Digits of base 2^64: the quotient of two 64-bit numbers has 64 significant bits in the first two.
    let mut digits = [0u128; 3];
    let mut rest = u128::from(dividend);
    for digit in &mut digits {
        *digit = rest / u128::from(divisor);
        rest = (rest % u128::from(divisor)) << 64;
    }
    let (high, exponent, below) = match digits[0] {
        0 => (digits[1] << 64 | digits[2], -128, rest != 0),
        first => (first << 64 | digits[1], -64, digits[2] != 0 || rest != 0),
    };
    // Of the digits below the last one it only matters whether they are zero.
    let shift = high.leading_zeros();
    let (mantissa, more) = round(high << shift | u128::from(below), 64);
    let value = scaled(mantissa, exponent - shift as i32 + more + up - down);
    if sum < 0 { -value } else { value }
}

/// The 64 leading bits of a number, rounded to even, and the number of bits by which it was shifted right.
fn to_64_bits(value: u128) -> (u64, i32) {
    let excess = 64 - (value.leading_zeros() as i32).min(64);
    if excess <= 0 {
        return (value as u64, 0);
    }
    round(value, excess as u32)
}

/// Shifts right with rounding half to even; a carry out of 64 bits shifts once more.
fn round(value: u128, shift: u32) -> (u64, i32) {
    let (kept, rest) = (value >> shift, value & ((1u128 << shift) - 1));
    let half = 1u128 << (shift - 1);
    let up = rest > half || rest == half && kept & 1 == 1;
    match u64::try_from(kept + u128::from(up)) {
        Ok(kept) => (kept, shift as i32),
        Err(_) => (1 << 63, shift as i32 + 1),
    }
}

/// `mantissa * 2^exponent`: the conversion rounds to 53 bits, the rest is exact for the sizes of averages.
fn scaled(mantissa: u64, exponent: i32) -> f64 {
    mantissa as f64 * 2f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_round_as_duckdb_does() {
        // The values of TPC-H's first query in DuckDB.
        assert_eq!(quotient(76_525_100, 30_049, 100), 25.4667709407967);
        assert_eq!(quotient(150_038, 30_049, 100), 0.0499311125162235);
        assert_eq!(quotient(-300, 4, 100), -0.75);
        assert_eq!(quotient(1, 3, 1), 1.0 / 3.0);
        assert_eq!(quotient(i128::from(i64::MAX), 1, 1), i64::MAX as f64);
        assert_eq!(quotient(10i128.pow(30), 7, 1), 1.4285714285714285e29);
        assert_eq!(quotient(0, 5, 1), 0.0);
        // Quotients that are different with one rounding, computed on an x87.
        assert_eq!(quotient(35_605_560_193_158_697, 17_747_281_427, 1), 2_006_254.329_127_267_5);
        assert_eq!(quotient(23_875_649_069_813_850, 23_596_696_258, 1), 1_011_821.689_306_157_6);
        assert_eq!(quotient(8_362_107_216_039_035, 33_325_651_670, 1), 250_921.041_210_025_78);
        assert_eq!(quotient(15_792_235_072_429_448, 30_612_309_447, 1), 515_878.591_250_066_06);
    }

    #[test]
    fn ordinary_quotients_are_those_of_floats() {
        let mut state = 12345u64;
        let mut next = |bits: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> (64 - bits)
        };
        let mut equal = 0;
        for _ in 0..10_000 {
            let (a, b) = (next(50) as i128, u128::from(next(30) + 1));
            let exact = a as f64 / b as f64;
            let found = quotient(a, b, 1);
            // Rounding twice changes a value that lies almost half-way by one unit in the last place, which is rare.
            assert!((exact - found).abs() <= exact * f64::EPSILON, "{a} / {b}");
            equal += u32::from(exact.to_bits() == found.to_bits());
        }
        assert!(equal > 9_950, "{equal}");
    }
}
