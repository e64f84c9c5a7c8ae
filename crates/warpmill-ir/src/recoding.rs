//! Strings that depend on dictionary codes and small integers only: computed once per combination of these, as codes of a new dictionary.

use std::sync::Arc;

use crate::{ColType, Expr, Phys};

/// The value for NULL in [`Recoding::codes`].
pub const NO_CODE: u32 = u32::MAX;

/// A string as a code, computed from its inputs by table lookup.
#[derive(Debug, Clone, PartialEq)]
pub struct Recoding {
    /// The inputs: codes, or 32- or 64-bit integers with bounds.
    pub inputs: Vec<Expr>,
    /// The code of the result, or [`NO_CODE`] where it is NULL, for every combination of the inputs' values and NULL:
    /// combination `i` is the sum of each input's [`Digit`] times its stride.
    pub codes: Arc<[u32]>,
    /// The original expression, whose column `i` is input `i`.
    pub source: Arc<Expr>,
}

/// The contribution of an input to the index of a combination: its value minus the lowest one, or the number of values for NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digit {
    /// Factor of the digit.
    pub stride: usize,
    /// The lowest value.
    pub low: i64,
    /// The number of values.
    pub values: usize,
}

impl Digit {
    /// The digit of combination `i`.
    pub fn of(&self, i: usize) -> usize {
        i / self.stride % (self.values + 1)
    }
}

impl Recoding {
    /// The digit of each input.
    pub fn digits(&self) -> Vec<Digit> {
        digits(&self.inputs).map_or_else(Vec::new, |(digits, _)| digits)
    }

    /// Checks that the result, of type `ty`, is a code, and that each combination has one.
    pub(crate) fn check(&self, ty: &ColType) -> Result<(), String> {
        let entries = ty.dictionary.as_ref().map_or(0, |dictionary| dictionary.len());
        if ty.phys != Phys::Code || self.inputs.is_empty() {
            return Err("a string is recoded as a code, by some values".to_owned());
        }
        let valid = |code: u32| code == NO_CODE || (code as usize) < entries;
        match digits(&self.inputs) {
            Some((_, combinations)) if combinations == self.codes.len() && self.codes.iter().all(|&c| valid(c)) => {
                Ok(())
            }
            found => Err(format!("{} of {entries} codes for {found:?}", self.codes.len())),
        }
    }
}

/// The digit of each of `inputs`, and the number of combinations; `None` if they have too many values, or no bounds.
pub fn digits(inputs: &[Expr]) -> Option<(Vec<Digit>, usize)> {
    let mut combinations = 1usize;
    let digits = inputs.iter().map(|input| {
        let (low, values) = values(&input.ty)?;
        let digit = Digit { stride: combinations, low, values };
        combinations = combinations.checked_mul(values.checked_add(1)?).filter(|&n| u32::try_from(n).is_ok())?;
        Some(digit)
    });
    let digits = digits.collect::<Option<_>>()?;
    Some((digits, combinations))
}

/// The lowest value of codes and integers with bounds, and the number of values.
fn values(ty: &ColType) -> Option<(i64, usize)> {
    match ty.phys {
        Phys::Code => Some((0, ty.dictionary.as_ref()?.len())),
        Phys::I32 | Phys::I64 => {
            let (low, high) = ty.range?;
            // An empty range: only NULLs.
            let values = if high < low { 0 } else { high.checked_sub(low)?.checked_add(1)? };
            Some((low.try_into().ok()?, values.try_into().ok()?))
        }
        _ => None,
    }
}
