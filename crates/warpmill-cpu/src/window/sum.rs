//! Counts, sums and averages of frames. Integer sums are differences of exact prefix sums; float sums are aggregated frame by frame.

use std::ops::Range;

use rayon::prelude::*;
use warpmill_ir::{AggregateFunction, ColType};

use super::frame::Bounds;
use super::pick::Counted;
use super::slide::{self, Monoid};
use crate::aggregate::output::{Sums, of_sums};
use crate::aggregate::wide::Wide;
use crate::context::{ExecError, Result};
use crate::vector::{Data, Vector};

/// Number of rows per task of a prefix sum.
const PART_ROWS: usize = 1 << 16;

/// The prepared argument of a sum, for all of its frames.
pub(super) enum Prepared {
    /// Prefix sums, including the total; none exceeds 64 bits.
    I64(Vec<i64>),
    /// Prefix sums that fit 128 bits.
    I128(Vec<i128>),
    /// Prefix sums that may exceed 128 bits.
    Wide(Vec<Wide>),
    /// The values themselves, 0 for NULL.
    Float(Added),
}

impl Prepared {
    /// Prepares an argument of type `ty`, by position.
    pub fn new(values: &Vector, ty: &ColType) -> Result<Self> {
        let most = ty.range.map(|(lo, hi)| lo.unsigned_abs().max(hi.unsigned_abs()));
        let most = most.and_then(|most| most.checked_mul(values.len() as u128));
        let valid = |row: usize| values.is_valid(row);
        macro_rules! ints {
            ($v:ident) => {{
                let value = |row: usize| if valid(row) { $v[row] } else { 0 };
                match most {
                    Some(most) if most <= i64::MAX as u128 => {
                        Self::I64(running($v.len(), |row| value(row) as i64, |a, b| a + b))
                    }
                    Some(most) if most <= i128::MAX as u128 => {
                        Self::I128(running($v.len(), |row| i128::from(value(row)), |a, b| a + b))
                    }
                    _ => Self::Wide(running(
                        $v.len(),
                        |row| Wide { low: value(row).into(), wraps: 0 },
                        |mut sum: Wide, value| {
                            sum.merge(value);
                            sum
                        },
                    )),
                }
            }};
        }
        let float = |value: &dyn Fn(usize) -> f64| {
            Self::Float(Added((0..values.len()).map(|row| if valid(row) { value(row) } else { 0.0 }).collect()))
        };
        Ok(match &values.data {
            Data::I32(v) => ints!(v),
            Data::I64(v) => ints!(v),
            Data::I128(v) => ints!(v),
            Data::F32(v) => float(&|row| v[row].into()),
            Data::F64(v) => float(&|row| v[row]),
            data => return Err(ExecError::Unsupported(format!("sums of {:?} in windows", data.phys()))),
        })
    }

    /// Whether frames are aggregated by sliding.
    pub fn slides(&self) -> bool {
        matches!(self, Self::Float(_))
    }

    /// The sums or averages of frames.
    pub fn of_frames(
        &self,
        (function, ty): (AggregateFunction, &ColType),
        argument: &ColType,
        counted: &Counted,
        parts: &[Bounds],
    ) -> Result<Vector> {
        let counts = counts(counted, parts);
        let sums = match self {
            Self::I64(sums) => Sums::I64(added(parts, |frame| sums[frame.end] - sums[frame.start], |a, b| a + b)),
            Self::I128(sums) => Sums::I128(added(parts, |frame| sums[frame.end] - sums[frame.start], |a, b| a + b)),
            Self::Wide(sums) => Sums::Wide(added(
                parts,
                |frame| sums[frame.end].without(sums[frame.start]),
                |mut a, b| {
                    a.merge(b);
                    a
                },
            )),
            Self::Float(values) => Sums::F64(slide::of_frames(values, parts)),
        };
        of_sums((function, ty), argument, sums, counts)
    }
}

/// Number of counted rows of each frame.
pub(super) fn counts(counted: &Counted, parts: &[Bounds]) -> Vec<i64> {
    added(parts, |frame| counted.count(&frame) as i64, |a, b| a + b)
}

/// The values of the parts of each frame, by `of`, added up.
fn added<T>(parts: &[Bounds], of: impl Fn(Range<usize>) -> T, add: impl Fn(T, T) -> T) -> Vec<T> {
    let [first, others @ ..] = parts else { return vec![] };
    let with_others = |(row, frame)| others.iter().fold(of(frame), |sum, part| add(sum, of(part.of(row))));
    first.iter().enumerate().map(with_others).collect()
}

/// The monoid of float addition.
pub(super) struct Added(Vec<f64>);

impl Monoid for Added {
    type Item = f64;

    fn identity(&self) -> f64 {
        0.0
    }

    #[inline(always)]
    fn item(&self, position: usize) -> f64 {
        self.0[position]
    }

    #[inline(always)]
    fn combine(&self, first: f64, second: f64) -> f64 {
        first + second
    }
}

/// Prefix sums of `len` values, including the total.
fn running<T: Copy + Default + Send + Sync>(
    len: usize,
    value: impl Fn(usize) -> T + Sync,
    add: impl Fn(T, T) -> T + Sync,
) -> Vec<T> {
    let part = |from: usize| from..len.min(from + PART_ROWS);
    let total = |from: usize| part(from).fold(T::default(), |sum, row| add(sum, value(row)));
    let totals: Vec<T> = (0..len).into_par_iter().step_by(PART_ROWS).map(total).collect();
    let starts = totals.iter().scan(T::default(), |sum, &total| Some(std::mem::replace(sum, add(*sum, total))));
    let starts: Vec<T> = starts.collect();
    let mut sums = vec![T::default(); len + 1];
    sums[1..].par_chunks_mut(PART_ROWS).zip(starts).enumerate().for_each(|(index, (sums, start))| {
        let mut sum = start;
        for (row, place) in part(index * PART_ROWS).zip(sums) {
            sum = add(sum, value(row));
            *place = sum;
        }
    });
    sums
}
