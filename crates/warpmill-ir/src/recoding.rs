//! Strings that depend on dictionary codes only: computed once per combination of codes, as codes of a dictionary of their own.

use std::sync::Arc;

use crate::{ColType, Expr, Phys};

/// The place of NULL in [`Recoding::codes`].
pub const NO_CODE: u32 = u32::MAX;

/// A string as a code, by the codes of other strings.
#[derive(Debug, Clone, PartialEq)]
pub struct Recoding {
    /// Expressions held as codes.
    pub inputs: Vec<Expr>,
    /// The code of the result, or [`NO_CODE`] where it is NULL, for every combination of the inputs' codes and NULL:
    /// combination `i` is the sum of each input's code, or the size of its dictionary for NULL, times its stride ([`Recoding::strides`]).
    pub codes: Arc<[u32]>,
    /// The computation, whose column `i` is input `i`.
    pub source: Arc<Expr>,
}

impl Recoding {
    /// The stride of each input in [`Recoding::codes`], and its number of codes, which stands for NULL.
    pub fn strides(&self) -> Vec<(usize, usize)> {
        strides(&self.inputs).0
    }

    /// Checks that the result, of type `ty`, and the inputs are codes, and that there is one for each combination.
    pub(crate) fn check(&self, ty: &ColType) -> Result<(), String> {
        let entries = ty.dictionary.as_ref().map_or(0, |dictionary| dictionary.len());
        if ty.phys != Phys::Code || self.inputs.is_empty() || self.inputs.iter().any(|e| e.ty.phys != Phys::Code) {
            return Err("only codes are recoded, as codes".to_owned());
        }
        let valid = |code: u32| code == NO_CODE || (code as usize) < entries;
        match strides(&self.inputs).1 {
            Some(combinations) if combinations == self.codes.len() && self.codes.iter().all(|&code| valid(code)) => {
                Ok(())
            }
            combinations => Err(format!("{} of {entries} codes for {combinations:?}", self.codes.len())),
        }
    }
}

/// The stride of each of `inputs` and its number of codes; the number of combinations (`None`: more than there are numbers).
pub fn strides(inputs: &[Expr]) -> (Vec<(usize, usize)>, Option<usize>) {
    let mut combinations = Some(1usize);
    let strides = inputs.iter().map(|input| {
        let codes = input.ty.dictionary.as_ref().map_or(0, |dictionary| dictionary.len());
        let stride = combinations.unwrap_or(usize::MAX);
        combinations = combinations.and_then(|n| n.checked_mul(codes.checked_add(1)?));
        (stride, codes)
    });
    (strides.collect(), combinations)
}
