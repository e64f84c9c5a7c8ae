//! Functions of pairs of numbers, `f(y, x)`: correlation, covariances, linear regression. Rows with a NULL on either side do not count.

/// A function of pairs of numbers. NULL over no pairs, except the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PairFunction {
    /// Pearson's correlation; NaN where one of the two is constant.
    Correlation,
    /// Covariance of a population.
    Covariance,
    /// Covariance of a sample; NULL for one pair.
    SampleCovariance,
    /// Slope of the regression line; NaN where `x` is constant.
    Slope,
    /// Intercept of the regression line; NULL where `x` is constant.
    Intercept,
    /// Coefficient of determination; NULL where `x` is constant, 1 where only `y` is.
    Determination,
    /// Number of pairs.
    Count,
    /// Average of `x`.
    AverageX,
    /// Average of `y`.
    AverageY,
    /// Sum of squared deviations of `x`.
    SquaresX,
    /// Sum of squared deviations of `y`.
    SquaresY,
    /// Sum of products of the deviations.
    Products,
}

impl PairFunction {
    /// All functions.
    pub const ALL: [Self; 12] = [
        Self::Correlation,
        Self::Covariance,
        Self::SampleCovariance,
        Self::Slope,
        Self::Intercept,
        Self::Determination,
        Self::Count,
        Self::AverageX,
        Self::AverageY,
        Self::SquaresX,
        Self::SquaresY,
        Self::Products,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correlation => "corr",
            Self::Covariance => "covar_pop",
            Self::SampleCovariance => "covar_samp",
            Self::Slope => "regr_slope",
            Self::Intercept => "regr_intercept",
            Self::Determination => "regr_r2",
            Self::Count => "regr_count",
            Self::AverageX => "regr_avgx",
            Self::AverageY => "regr_avgy",
            Self::SquaresX => "regr_sxx",
            Self::SquaresY => "regr_syy",
            Self::Products => "regr_sxy",
        }
    }

    /// The function of this name in SQL.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

/// The number, means and sums of squared deviations of some pairs, updated and merged in a numerically stable way
/// (Welford 1962; merge: Chan, Golub, LeVeque 1979).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pairs {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    squares_x: f64,
    squares_y: f64,
    products: f64,
    sum_x: f64,
    sum_y: f64,
}

impl Pairs {
    /// Names of [`Pairs::parts`].
    pub const PARTS: [&'static str; 8] =
        ["count", "mean_x", "mean_y", "squares_x", "squares_y", "products", "sum_x", "sum_y"];

    /// The state as numbers.
    pub fn parts(&self) -> [f64; 8] {
        let Self { count, mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y } = *self;
        [count, mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y]
    }

    /// The inverse of [`Pairs::parts`].
    pub fn of_parts(parts: [f64; 8]) -> Self {
        let [count, mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y] = parts;
        Self { count, mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y }
    }

    /// The number of pairs.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// The sum of `x`.
    pub fn sum_x(&self) -> f64 {
        self.sum_x
    }

    /// Adds a pair.
    #[inline(always)]
    pub fn add(&mut self, y: f64, x: f64) {
        self.count += 1.0;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += from_x / self.count;
        self.mean_y += from_y / self.count;
        self.squares_x += from_x * (x - self.mean_x);
        self.squares_y += from_y * (y - self.mean_y);
        self.products += from_x * (y - self.mean_y);
        self.sum_x += x;
        self.sum_y += y;
    }

    /// Adds all pairs of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.count == 0.0 || other.count == 0.0 {
            if self.count == 0.0 {
                *self = *other;
            }
            return;
        }
        let (own, others) = (self.count, other.count);
        let all = own + others;
        let (apart_x, apart_y) = (self.mean_x - other.mean_x, self.mean_y - other.mean_y);
        let by = others * own / all;
        self.products += other.products + apart_x * apart_y * by;
        self.squares_x += other.squares_x + apart_x * apart_x * by;
        self.squares_y += other.squares_y + apart_y * apart_y * by;
        self.mean_x = (others * other.mean_x + own * self.mean_x) / all;
        self.mean_y = (others * other.mean_y + own * self.mean_y) / all;
        self.sum_x += other.sum_x;
        self.sum_y += other.sum_y;
        self.count = all;
    }

    /// The value of a function; `None` for NULL.
    pub fn value(&self, function: PairFunction) -> Option<f64> {
        use PairFunction as F;
        let n = self.count;
        if n == 0.0 {
            return (function == F::Count).then_some(0.0);
        }
        let variance = |squares: f64| if n > 1.0 { squares / n } else { 0.0 };
        let (of_x, of_y, covariance) = (variance(self.squares_x), variance(self.squares_y), self.products / n);
        let spread = of_x.sqrt() * of_y.sqrt();
        let correlation = if spread == 0.0 { f64::NAN } else { covariance / spread };
        let slope = covariance / of_x;
        Some(match function {
            F::Count => n,
            F::Correlation => correlation,
            F::Covariance => covariance,
            F::SampleCovariance if n < 2.0 => return None,
            F::SampleCovariance => self.products / (n - 1.0),
            F::Slope => slope,
            F::Intercept if slope.is_nan() => return None,
            F::Intercept => self.sum_y / n - slope * (self.sum_x / n),
            F::Determination if of_x == 0.0 => return None,
            F::Determination if of_y == 0.0 => 1.0,
            F::Determination => correlation * correlation,
            F::AverageX => self.sum_x / n,
            F::AverageY => self.sum_y / n,
            F::SquaresX => n * of_x,
            F::SquaresY => n * of_y,
            F::Products => n * covariance,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(f64, f64)]) -> Pairs {
        let mut pairs = Pairs::default();
        list.iter().for_each(|&(y, x)| pairs.add(y, x));
        pairs
    }

    #[test]
    fn parts_merge() {
        let list = [(1.0, 2.0), (4.0, 3.0), (2.0, 7.0), (9.0, 8.0)];
        let all = pairs(&list);
        let mut merged = pairs(&list[..1]);
        merged.merge(&pairs(&list[1..]));
        merged.merge(&Pairs::default());
        for function in PairFunction::ALL {
            let expected = all.value(function).unwrap();
            assert!((merged.value(function).unwrap() - expected).abs() < 1e-9, "{function:?}");
            assert_eq!(PairFunction::named(function.name()), Some(function));
        }
        assert_eq!(Pairs::of_parts(all.parts()), all);
    }

    #[test]
    fn constants_have_no_slope() {
        let one = pairs(&[(1.0, 1.0)]);
        assert!(one.value(PairFunction::Correlation).unwrap().is_nan());
        assert!(one.value(PairFunction::Slope).unwrap().is_nan());
        for function in [PairFunction::Intercept, PairFunction::Determination, PairFunction::SampleCovariance] {
            assert_eq!(one.value(function), None, "{function:?}");
        }
        assert_eq!(pairs(&[(0.0, 1.0), (0.0, 2.0)]).value(PairFunction::Determination), Some(1.0));
    }

    #[test]
    fn no_pairs_have_a_count_only() {
        for function in PairFunction::ALL {
            let expected = (function == PairFunction::Count).then_some(0.0);
            assert_eq!(Pairs::default().value(function), expected, "{function:?}");
        }
    }
}
