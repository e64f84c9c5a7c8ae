//! States of numbers that depend on each other: variances, functions of pairs, higher moments, sums with carried errors.

use warpmill_ir::PairFunction;
use warpmill_ir::pairs::Pairs;

use super::kind::Shape;

/// The aggregate of such a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Moments {
    Variance(Variance),
    Pairs(PairFunction),
    Skewness,
    Kurtosis { sample: bool },
    CarriedSum,
    CarriedAverage,
}

/// A function of a variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Variance {
    Population,
    Sample,
    PopulationDeviation,
    SampleDeviation,
    StandardError,
}

/// Numbers that are combined together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    Count,
    SumX,
    SumY,
    /// The number of pairs, the means of x and y, the sum of products of their deviations.
    Covariance,
    /// The number of values x, their mean, the sum of squares of their deviations.
    X,
    /// The number of values y, their mean, the sum of squares of their deviations.
    Y,
    /// The number of values, their mean, the sums of the second and third powers of their deviations.
    Third,
    /// [`Block::Third`] and the sum of the fourth powers of the deviations.
    Fourth,
    /// A sum, and its compensation: the amount by which it is too large.
    Carried,
}

const COVARIANCE: &[Shape] =
    &[Shape::Part("count"), Shape::Part("meanx"), Shape::Part("meany"), Shape::Part("co_moment")];
const VARIANCE: &[Shape] = &[Shape::Part("count"), Shape::Part("mean"), Shape::Part("dsquared")];
const CORRELATION: &[Shape] =
    &[Shape::Struct("cov_pop", COVARIANCE), Shape::Struct("dev_pop_x", VARIANCE), Shape::Struct("dev_pop_y", VARIANCE)];
const SLOPE: &[Shape] = &[Shape::Struct("cov_pop", COVARIANCE), Shape::Struct("var_pop", VARIANCE)];
const SQUARES: &[Shape] = &[Shape::Part("count"), Shape::Struct("var_pop", VARIANCE)];

impl Moments {
    /// The aggregate of this lower-case name; aggregates of pairs are found elsewhere.
    pub(super) fn named(function: &str) -> Option<Self> {
        Some(match function {
            "var_pop" => Self::Variance(Variance::Population),
            "var_samp" | "variance" => Self::Variance(Variance::Sample),
            "stddev_pop" => Self::Variance(Variance::PopulationDeviation),
            "stddev_samp" | "stddev" => Self::Variance(Variance::SampleDeviation),
            "sem" => Self::Variance(Variance::StandardError),
            "skewness" => Self::Skewness,
            "kurtosis" => Self::Kurtosis { sample: true },
            "kurtosis_pop" => Self::Kurtosis { sample: false },
            "fsum" | "kahan_sum" | "sumkahan" => Self::CarriedSum,
            "favg" => Self::CarriedAverage,
            _ => return None,
        })
    }

    /// The blocks of a state, in order.
    pub(super) fn blocks(self) -> &'static [Block] {
        use Block::{Carried, Count, Covariance, Fourth, SumX, SumY, Third, X, Y};
        use PairFunction as F;
        match self {
            Self::Variance(_) => &[X],
            Self::Skewness => &[Third],
            Self::Kurtosis { .. } => &[Fourth],
            Self::CarriedSum => &[Carried],
            Self::CarriedAverage => &[Count, Carried],
            Self::Pairs(function) => match function {
                F::Correlation => &[Covariance, X, Y],
                F::Covariance | F::SampleCovariance => &[Covariance],
                F::Slope => &[Covariance, X],
                F::Intercept => &[Count, SumX, SumY, Covariance, X],
                F::Determination => &[Covariance, X, Y, X, Y],
                F::SquaresX => &[Count, X],
                F::SquaresY => &[Count, Y],
                F::Products => &[Count, Covariance],
                F::Count => &[Count],
                F::AverageX => &[SumX, Count],
                F::AverageY => &[SumY, Count],
            },
        }
    }

    /// The fields of a state.
    pub(super) fn shape(self) -> &'static [Shape] {
        use PairFunction as F;
        match self {
            Self::Variance(_) => VARIANCE,
            Self::Skewness => &[Shape::Part("n"), Shape::Part("mean"), Shape::Part("m2"), Shape::Part("m3")],
            Self::Kurtosis { .. } => {
                &[Shape::Part("n"), Shape::Part("mean"), Shape::Part("m2"), Shape::Part("m3"), Shape::Part("m4")]
            }
            Self::CarriedSum => &[Shape::Part("value"), Shape::Part("err")],
            Self::CarriedAverage => &[Shape::Part("count"), Shape::Part("value"), Shape::Part("err")],
            Self::Pairs(function) => match function {
                F::Correlation => CORRELATION,
                F::Covariance | F::SampleCovariance => COVARIANCE,
                F::Slope => SLOPE,
                F::Intercept => {
                    &[Shape::Part("count"), Shape::Part("sum_x"), Shape::Part("sum_y"), Shape::Struct("slope", SLOPE)]
                }
                F::Determination => &[
                    Shape::Struct("corr", CORRELATION),
                    Shape::Struct("var_pop_x", VARIANCE),
                    Shape::Struct("var_pop_y", VARIANCE),
                ],
                F::SquaresX | F::SquaresY => SQUARES,
                F::Products => &[Shape::Part("count"), Shape::Struct("cov_pop", COVARIANCE)],
                F::Count => &[Shape::Part("count")],
                F::AverageX | F::AverageY => &[Shape::Part("sum"), Shape::Part("count")],
            },
        }
    }

    /// The numbers of a state without rows; `None`: it is NULL.
    pub(super) fn empty(self) -> Option<Vec<f64>> {
        (self != Self::CarriedSum).then(|| self.zeros())
    }

    fn zeros(self) -> Vec<f64> {
        vec![0.0; self.blocks().iter().map(|block| block.len()).sum()]
    }

    /// Combines `other` into `numbers`.
    pub(super) fn combine(self, numbers: &mut Option<Vec<f64>>, other: &[f64]) {
        let numbers = numbers.get_or_insert_with(|| self.zeros());
        let mut at = 0;
        for block in self.blocks() {
            let part = at..at + block.len();
            block.combine(&mut numbers[part.clone()], &other[part]);
            at += block.len();
        }
    }

    /// The numbers of a state that is combined with itself to weight `times`.
    pub(super) fn repeated(self, numbers: &[f64], times: f64) -> Vec<f64> {
        let mut repeated = numbers.to_vec();
        let mut at = 0;
        for block in self.blocks() {
            for part in 0..block.len() {
                if !block.means().contains(&part) {
                    repeated[at + part] *= times;
                }
            }
            at += block.len();
        }
        repeated
    }

    /// The result of the aggregate; `None` for NULL.
    pub(super) fn value(self, numbers: &[f64]) -> Option<f64> {
        match self {
            Self::Variance(function) => function.value(numbers[0], numbers[2]),
            Self::Pairs(function) => self.pairs(numbers).value(function),
            Self::Skewness => skewness(numbers),
            Self::Kurtosis { sample } => kurtosis(numbers, sample),
            Self::CarriedSum => Some(numbers[0]),
            Self::CarriedAverage => (numbers[0] > 0.0).then(|| numbers[1] / numbers[0]),
        }
    }

    /// The statistics of pairs, from the numbers of a state.
    fn pairs(self, numbers: &[f64]) -> Pairs {
        let [mut count, mut mean_x, mut mean_y, mut squares_x, mut squares_y, mut products, mut sum_x, mut sum_y] =
            [0.0; 8];
        let mut rest = numbers;
        for block in self.blocks() {
            let (own, others) = rest.split_at(block.len());
            match block {
                Block::SumX => sum_x = own[0],
                Block::SumY => sum_y = own[0],
                Block::Covariance => [count, mean_x, mean_y, products] = [own[0], own[1], own[2], own[3]],
                Block::X => [count, mean_x, squares_x] = [own[0], own[1], own[2]],
                Block::Y => [count, mean_y, squares_y] = [own[0], own[1], own[2]],
                _ => count = own[0],
            }
            rest = others;
        }
        Pairs::of_parts([count, mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y])
    }
}

impl Variance {
    fn value(self, count: f64, squares: f64) -> Option<f64> {
        let population = || (count > 0.0).then(|| if count > 1.0 { squares / count } else { 0.0 });
        let sample = || (count > 1.0).then(|| squares / (count - 1.0));
        match self {
            Self::Population => population(),
            Self::Sample => sample(),
            Self::PopulationDeviation => population().map(f64::sqrt),
            Self::SampleDeviation => sample().map(f64::sqrt),
            Self::StandardError => population().map(|variance| variance.sqrt() / count.sqrt()),
        }
    }
}

impl Block {
    /// The number of numbers.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Count | Self::SumX | Self::SumY => 1,
            Self::Carried => 2,
            Self::X | Self::Y => 3,
            Self::Covariance | Self::Third => 4,
            Self::Fourth => 5,
        }
    }

    /// The positions of means, which do not change with a weight.
    fn means(self) -> &'static [usize] {
        match self {
            Self::Count | Self::SumX | Self::SumY | Self::Carried => &[],
            Self::X | Self::Y | Self::Third | Self::Fourth => &[1],
            Self::Covariance => &[1, 2],
        }
    }

    fn combine(self, own: &mut [f64], other: &[f64]) {
        match self {
            Self::Count | Self::SumX | Self::SumY => own[0] += other[0],
            Self::Covariance => {
                let [count, mean_x, mean_y, _, _, products, ..] =
                    merged(own, other, |of| Pairs::of_parts([of[0], of[1], of[2], 0.0, 0.0, of[3], 0.0, 0.0]));
                own.copy_from_slice(&[count, mean_x, mean_y, products]);
            }
            Self::X | Self::Y => {
                let [count, mean, _, squares, ..] =
                    merged(own, other, |of| Pairs::of_parts([of[0], of[1], 0.0, of[2], 0.0, 0.0, 0.0, 0.0]));
                own.copy_from_slice(&[count, mean, squares]);
            }
            Self::Third | Self::Fourth => combine_powers(own, other),
            Self::Carried => {
                for value in [other[0], -other[1]] {
                    let value = value - own[1];
                    let sum = own[0] + value;
                    own[1] = (sum - own[0]) - value;
                    own[0] = sum;
                }
            }
        }
    }
}

fn merged(own: &[f64], other: &[f64], pairs: impl Fn(&[f64]) -> Pairs) -> [f64; 8] {
    let mut all = pairs(own);
    all.merge(&pairs(other));
    all.parts()
}

/// Combines numbers of values, means and sums of powers of deviations, from the second on (Pébay 2008).
pub(in crate::dialect) fn combine_powers(own: &mut [f64], other: &[f64]) {
    if own[0] == 0.0 || other[0] == 0.0 {
        if own[0] == 0.0 {
            own.copy_from_slice(other);
        }
        return;
    }
    let (a, b) = (own[0], other[0]);
    let n = a + b;
    let apart = other[1] - own[1];
    let by = apart / n;
    if let [_, _, m2, m3, m4] = own {
        *m4 += other[4]
            + apart * by * by * by * a * b * (a * a - a * b + b * b)
            + 6.0 * by * by * (a * a * other[2] + b * b * *m2)
            + 4.0 * by * (a * other[3] - b * *m3);
    }
    own[3] += other[3] + apart * by * by * a * b * (a - b) + 3.0 * by * (a * other[2] - b * own[2]);
    own[2] += other[2] + apart * by * a * b;
    own[1] += by * b;
    own[0] = n;
}

pub(in crate::dialect) fn skewness(numbers: &[f64]) -> Option<f64> {
    let (n, m2, m3) = (numbers[0], numbers[2], numbers[3]);
    let cubed = (m2 / n).powi(3);
    let is_spread = n > 2.0 && cubed > 0.0;
    is_spread.then(|| (n * (n - 1.0)).sqrt() / (n - 2.0) * (m3 / n) / cubed.sqrt())
}

pub(in crate::dialect) fn kurtosis(numbers: &[f64], sample: bool) -> Option<f64> {
    let (n, m2, m4) = (numbers[0], numbers[2] / numbers[0], numbers[4] / numbers[0]);
    let is_spread = n > if sample { 3.0 } else { 1.0 } && m2 > 0.0;
    is_spread.then(|| match sample {
        true => (n - 1.0) * ((n + 1.0) * m4 / (m2 * m2) - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0)),
        false => m4 / (m2 * m2) - 3.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn powers(values: &[f64]) -> Vec<f64> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let power = |k| values.iter().map(|x| (x - mean).powi(k)).sum();
        vec![n, mean, power(2), power(3), power(4)]
    }

    #[test]
    fn parts_of_values_give_what_all_of_them_do() {
        let values = [1.0, 5.0, 2.0, 8.0, 8.5, -3.0, 0.25];
        let kurtosis = Moments::Kurtosis { sample: true };
        for split in 1..values.len() {
            let mut combined = kurtosis.empty();
            kurtosis.combine(&mut combined, &powers(&values[..split]));
            kurtosis.combine(&mut combined, &powers(&values[split..]));
            let (combined, all) = (combined.unwrap(), powers(&values));
            assert!(combined.iter().zip(&all).all(|(a, b)| (a - b).abs() < 1e-9), "{combined:?} {all:?}");
        }
        let twice = powers(&[values, values].concat());
        let repeated = kurtosis.repeated(&powers(&values), 2.0);
        assert!(repeated.iter().zip(&twice).all(|(a, b)| (a - b).abs() < 1e-9), "{repeated:?} {twice:?}");
    }

    #[test]
    fn shapes_have_as_many_parts_as_blocks() {
        fn count(shape: &[Shape]) -> usize {
            let parts = |field: &Shape| match field {
                Shape::Part(_) => 1,
                Shape::Struct(_, inner) => count(inner),
            };
            shape.iter().map(parts).sum()
        }
        let pairs = PairFunction::ALL.into_iter().map(Moments::Pairs);
        let others = ["var_pop", "skewness", "kurtosis", "fsum", "favg"].into_iter().filter_map(Moments::named);
        for moments in pairs.chain(others) {
            assert_eq!(count(moments.shape()), moments.zeros().len(), "{moments:?}");
        }
    }
}
