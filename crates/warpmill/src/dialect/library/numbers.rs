//! Functions of numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int8Array};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type};
use datafusion::common::{Result, exec_err};

use super::own::{Call, Is, Own, Typed, number_like, typed};
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{HUGEINT, is_decimal, is_whole};

pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new("even", double, |call| each(call, even)),
        Own::new("gamma", double, |call| {
            call.floats(|row| match call.float(0, row) {
                Some(0.0) => exec_err!("cannot take gamma of zero"),
                x => Ok(x.map(gamma)),
            })
        }),
        Own::new("lgamma", double, |call| {
            call.floats(|row| match call.float(0, row) {
                Some(0.0) => exec_err!("cannot take log gamma of zero"),
                x => Ok(x.map(log_gamma)),
            })
        }),
        Own::new("isinf", finite_types, |call| call.bools(|row| Ok(call.float(0, row).map(f64::is_infinite)))),
        Own::new("isfinite", finite_types, |call| call.bools(|row| Ok(call.float(0, row).map(f64::is_finite)))),
        Own::new(
            "signbit",
            |t| typed(t, &[Is::Number], DataType::Boolean),
            |call| call.bools(|row| Ok(call.float(0, row).map(f64::is_sign_negative))),
        ),
        Own::new(
            "nextafter",
            |t| match t {
                [DataType::Float32, DataType::Float32] => Some((t.to_vec(), DataType::Float32)),
                t => typed(t, &[Is::Number; 2], DataType::Float64),
            },
            next_after,
        ),
        Own::new("sign", sign_types, sign),
        Own::new(
            "fmod",
            |t| typed(t, &[Is::Number; 2], DataType::Float64),
            |call| {
                call.floats(|row| {
                    Ok(Option::zip(call.float(0, row), call.float(1, row)).map(|(x, y)| x - y * (x / y).floor()))
                })
            },
        ),
        Own::new("factorial", |t| typed(t, &[Is::Whole], HUGEINT), factorial),
        Own::new(
            "xor",
            |t| typed(t, &[Is::Whole; 2], DataType::Int64),
            |call| call.integers(|row| Ok(Option::zip(call.integer(0, row), call.integer(1, row)).map(|(x, y)| x ^ y))),
        ),
        Own::new("bit_count", bit_count_types, bit_count),
        Own::new(
            "round_even",
            |t| typed(t, &[Is::Number, Is::Whole], DataType::Float64),
            |call| {
                call.floats(|row| {
                    Ok(Option::zip(call.float(0, row), call.integer(1, row)).map(|(x, n)| round_even(x, n)))
                })
            },
        ),
        Own::new("sin", double, |call| each(call, f64::sin)),
        Own::new("cos", double, |call| each(call, f64::cos)),
        Own::new("tan", double, |call| each(call, f64::tan)),
        Own::new("cot", double, |call| each(call, |x| 1.0 / x.tan())),
        Own::new(
            "power",
            |t| typed(t, &[Is::Number; 2], DataType::Float64),
            |call| call.floats(|row| Ok(Option::zip(call.float(0, row), call.float(1, row)).map(|(x, by)| x.powf(by)))),
        ),
        Own::new("asinh", double, |call| each(call, f64::asinh)),
        Own::new("acosh", double, |call| each(call, f64::acosh)),
        Own::new("atanh", double, |call| {
            call.floats(|row| match call.float(0, row) {
                Some(x) if x.abs() > 1.0 => exec_err!("ATANH is undefined outside [-1,1]"),
                x => Ok(x.map(f64::atanh)),
            })
        }),
        Own::new("to_base", to_base_types, to_base),
    ]
}

fn double(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Number], DataType::Float64)
}

/// For numbers; the dialect calls another function for timestamps.
fn finite_types(types: &[DataType]) -> Option<Typed> {
    typed(types, &[Is::Number], DataType::Boolean).or_else(|| typed(types, &[Is::Moment], DataType::Boolean))
}

fn each(call: &Call, f: fn(f64) -> f64) -> Result<ArrayRef> {
    call.floats(|row| Ok(call.float(0, row).map(f)))
}

/// The next even integer away from zero.
fn even(x: f64) -> f64 {
    let whole = if x >= 0.0 { x.ceil() } else { -(-x).ceil() };
    if whole % 2.0 == 0.0 { whole } else { whole + whole.signum() }
}

/// The next FLOAT or DOUBLE from the first number towards the second.
fn next_after(call: &Call) -> Result<ArrayRef> {
    if call.to == DataType::Float32 {
        let [x, y] = [0, 1].map(|arg: usize| call.args[arg].as_primitive::<Float32Type>());
        return Ok(Arc::new(arrow::compute::binary::<_, _, _, Float32Type>(x, y, |x, y| match () {
            () if x.is_nan() || y.is_nan() => f32::NAN,
            () if x < y => x.next_up(),
            () if x > y => x.next_down(),
            () => y,
        })?));
    }
    call.floats(|row| {
        Ok(Option::zip(call.float(0, row), call.float(1, row)).map(|(x, y)| match () {
            () if x.is_nan() || y.is_nan() => f64::NAN,
            () if x < y => x.next_up(),
            () if x > y => x.next_down(),
            () => y,
        }))
    })
}

/// Lanczos' approximation with `g = 7` and nine terms.
fn lanczos(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    TERMS[1..].iter().zip(1..).fold(TERMS[0], |sum, (term, i)| sum + term / (x + f64::from(i)))
}

fn gamma(x: f64) -> f64 {
    if x > 172.0 {
        return f64::INFINITY;
    }
    if x <= 0.0 && x == x.trunc() {
        return f64::NAN;
    }
    if x == x.trunc() && (1.0..=171.0).contains(&x) {
        return (1..x as i64).map(|i| i as f64).product();
    }
    if x < 0.5 {
        return std::f64::consts::PI / ((std::f64::consts::PI * x).sin() * gamma(1.0 - x));
    }
    let x = x - 1.0;
    let t = x + 7.5;
    (2.0 * std::f64::consts::PI).sqrt() * t.powf(x + 0.5) * (-t).exp() * lanczos(x)
}

fn log_gamma(x: f64) -> f64 {
    if x.is_infinite() || x <= 0.0 && x == x.trunc() {
        return f64::INFINITY;
    }
    if x < 0.5 {
        let sine = (std::f64::consts::PI * x).sin().abs();
        return (std::f64::consts::PI / sine).ln() - log_gamma(1.0 - x);
    }
    if x == x.trunc() && x <= 171.0 {
        return gamma(x).ln();
    }
    let x = x - 1.0;
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + lanczos(x).ln()
}

fn sign_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [ty] if is_whole(ty) || is_decimal(ty) => Some((vec![ty.clone()], DataType::Int8)),
        [ty] if number_like(ty) => Some((vec![DataType::Float64], DataType::Int8)),
        _ => None,
    }
}

fn sign(call: &Call) -> Result<ArrayRef> {
    let values = strict_cast(&call.args[0], &DataType::Float64)?;
    let values = values.as_primitive::<arrow::datatypes::Float64Type>();
    let sign = |x: f64| {
        if x > 0.0 {
            1
        } else if x < 0.0 {
            -1
        } else {
            0
        }
    };
    Ok(Arc::new(values.iter().map(|x| x.map(sign)).collect::<Int8Array>()))
}

fn factorial(call: &Call) -> Result<ArrayRef> {
    let one = |n: i64| match (1..=i128::from(n)).try_fold(1i128, i128::checked_mul) {
        Some(product) if product < 10i128.pow(38) => Ok(product),
        _ => exec_err!("value out of range: factorial({n})"),
    };
    let rows = (0..call.rows).map(|row| call.integer(0, row).map(one).transpose());
    Ok(Arc::new(rows.collect::<Result<Decimal128Array>>()?.with_precision_and_scale(38, 0)?))
}

fn bit_count_types(types: &[DataType]) -> Option<Typed> {
    match types {
        [ty] if ty.is_integer() => Some((vec![ty.clone()], DataType::Int8)),
        [ty] if ty.is_null() => Some((vec![DataType::Int64], DataType::Int8)),
        _ => None,
    }
}

fn bit_count(call: &Call) -> Result<ArrayRef> {
    let bits = call.args[0].data_type().primitive_width().unwrap_or(8) * 8;
    let values = strict_cast(&call.args[0], &HUGEINT)?;
    let mask = if bits >= 64 { u128::from(u64::MAX) } else { (1u128 << bits) - 1 };
    let count = |x: i128| (x as u128 & mask).count_ones() as i8;
    Ok(Arc::new(values.as_primitive::<Decimal128Type>().iter().map(|x| x.map(count)).collect::<Int8Array>()))
}

/// `x` with `places` digits, half to even.
fn round_even(x: f64, places: i64) -> f64 {
    let by = 10f64.powi(places.clamp(-400, 400) as i32);
    let rounded = (x * by).round_ties_even() / by;
    if rounded.is_finite() { rounded } else { x }
}

fn to_base_types(types: &[DataType]) -> Option<Typed> {
    let kinds = [Is::Whole; 3];
    (types.len() == 2 || types.len() == 3).then(|| typed(types, &kinds[..types.len()], DataType::Utf8))?
}

fn to_base(call: &Call) -> Result<ArrayRef> {
    call.texts(|row| {
        if !call.all(row) {
            return Ok(None);
        }
        let (Some(number), Some(base)) = (call.integer(0, row), call.integer(1, row)) else { return Ok(None) };
        let least = call.integer(2, row).unwrap_or(0);
        if number < 0 {
            return exec_err!("'to_base' number must be greater than or equal to 0");
        }
        if !(2..=36).contains(&base) || !(0..=64).contains(&least) {
            return exec_err!("'to_base' radix must be between 2 and 36, and the length between 0 and 64");
        }
        Ok(Some(in_base(number as u64, base as u64, least as usize)))
    })
}

/// The digits of a number in a base of at most 36.
pub(super) fn in_base(mut number: u64, base: u64, least: usize) -> String {
    let mut digits = vec![];
    while number > 0 || digits.is_empty() && least == 0 {
        digits.push(char::from_digit((number % base) as u32, base as u32).unwrap_or('0').to_ascii_uppercase());
        number /= base;
    }
    while digits.len() < least {
        digits.push('0');
    }
    digits.iter().rev().collect()
}
