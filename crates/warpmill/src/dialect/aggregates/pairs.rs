//! Aggregates of pairs of numbers, `f(y, x)`: `corr`, `covar_pop`, `covar_samp` and `regr_*`.
//!
//! DataFusion's give NULL where DuckDB gives NaN, and NaN where DuckDB gives NULL or a number.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::dialect::types::{is_number, type_name};

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    let own = [
        ("corr", Of::Correlation),
        ("covar_pop", Of::Covariance),
        ("covar_samp", Of::SampleCovariance),
        ("regr_slope", Of::Slope),
        ("regr_intercept", Of::Intercept),
        ("regr_r2", Of::Determination),
        ("regr_count", Of::Count),
        ("regr_avgx", Of::AverageX),
        ("regr_avgy", Of::AverageY),
        ("regr_sxx", Of::SquaresX),
        ("regr_syy", Of::SquaresY),
        ("regr_sxy", Of::Products),
    ];
    let signature = || Signature::user_defined(Volatility::Immutable);
    own.into_iter().map(move |(name, of)| Arc::new(AggregateUDF::from(OfPairs { name, of, signature: signature() })))
}

/// Whether a function of this name is of pairs of numbers.
pub(super) fn is_of_pairs(name: &str) -> bool {
    matches!(name, "corr" | "covar_pop" | "covar_samp") || name.starts_with("regr_")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Correlation,
    Covariance,
    SampleCovariance,
    Slope,
    Intercept,
    Determination,
    Count,
    AverageX,
    AverageY,
    SquaresX,
    SquaresY,
    Products,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPairs {
    name: &'static str,
    of: Of,
    signature: Signature,
}

impl AggregateUDFImpl for OfPairs {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() == 2 && types.iter().all(|ty| ty.is_null() || is_number(ty)) {
            return Ok(vec![DataType::Float64; 2]);
        }
        let names: Vec<_> = types.iter().map(type_name).collect();
        plan_err!("No function matches {}({})", self.name, names.join(", "))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.of == Of::Count { DataType::UInt32 } else { DataType::Float64 })
    }

    fn is_nullable(&self) -> bool {
        self.of != Of::Count
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        if self.of == Of::Count { Ok(ScalarValue::UInt32(Some(0))) } else { ScalarValue::try_from(ty) }
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Pairs { of: self.of, sums: Sums::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let mut fields = vec![field("count", DataType::UInt64)];
        fields.extend(PARTS.map(|part| field(part, DataType::Float64)));
        Ok(fields)
    }
}

/// Names of [`Sums::parts`].
const PARTS: [&str; 7] = ["mean_x", "mean_y", "squares_x", "squares_y", "products", "sum_x", "sum_y"];

/// The number, means and sums of squared deviations of some pairs.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: u64,
    mean_x: f64,
    mean_y: f64,
    squares_x: f64,
    squares_y: f64,
    products: f64,
    sum_x: f64,
    sum_y: f64,
}

impl Sums {
    fn parts(&self) -> [f64; 7] {
        [self.mean_x, self.mean_y, self.squares_x, self.squares_y, self.products, self.sum_x, self.sum_y]
    }

    fn of_parts(count: u64, [mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y]: [f64; 7]) -> Self {
        Self { count, mean_x, mean_y, squares_x, squares_y, products, sum_x, sum_y }
    }

    fn add(&mut self, y: f64, x: f64) {
        self.count += 1;
        let n = self.count as f64;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += from_x / n;
        self.mean_y += from_y / n;
        self.squares_x += from_x * (x - self.mean_x);
        self.squares_y += from_y * (y - self.mean_y);
        self.products += from_x * (y - self.mean_y);
        self.sum_x += x;
        self.sum_y += y;
    }

    fn remove(&mut self, y: f64, x: f64) {
        if self.count <= 1 {
            *self = Self::default();
            return;
        }
        self.count -= 1;
        let n = self.count as f64;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x -= from_x / n;
        self.mean_y -= from_y / n;
        self.squares_x -= from_x * (x - self.mean_x);
        self.squares_y -= from_y * (y - self.mean_y);
        self.products -= from_x * (y - self.mean_y);
        self.sum_x -= x;
        self.sum_y -= y;
    }

    fn merge(&mut self, other: &Self) {
        if self.count == 0 || other.count == 0 {
            if self.count == 0 {
                *self = *other;
            }
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
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
        self.count += other.count;
    }

    /// The value of a function of one pair at least; `None` for NULL.
    fn value(&self, of: Of) -> Option<f64> {
        let n = self.count as f64;
        let variance = |squares: f64| if self.count > 1 { squares / n } else { 0.0 };
        let (of_x, of_y, covariance) = (variance(self.squares_x), variance(self.squares_y), self.products / n);
        let correlation = covariance / (of_x.sqrt() * of_y.sqrt());
        let slope = covariance / of_x;
        Some(match of {
            Of::Count => n,
            Of::Correlation => correlation,
            Of::Covariance => covariance,
            Of::SampleCovariance if self.count < 2 => return None,
            Of::SampleCovariance => self.products / (n - 1.0),
            Of::Slope => slope,
            Of::Intercept if slope.is_nan() => return None,
            Of::Intercept => self.sum_y / n - slope * (self.sum_x / n),
            Of::Determination if of_x == 0.0 => return None,
            Of::Determination if of_y == 0.0 => 1.0,
            Of::Determination => correlation * correlation,
            Of::AverageX => self.sum_x / n,
            Of::AverageY => self.sum_y / n,
            Of::SquaresX => n * of_x,
            Of::SquaresY => n * of_y,
            Of::Products => n * covariance,
        })
    }
}

#[derive(Debug)]
struct Pairs {
    of: Of,
    sums: Sums,
}

/// Calls `f` with the numbers of each row that has both.
fn each(columns: &[ArrayRef], mut f: impl FnMut(f64, f64)) {
    let (ys, xs) = (columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>());
    ys.iter().zip(xs).for_each(|(y, x)| {
        if let (Some(y), Some(x)) = (y, x) {
            f(y, x);
        }
    });
}

impl Accumulator for Pairs {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        each(columns, |y, x| self.sums.add(y, x));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        each(columns, |y, x| self.sums.remove(y, x));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.sums.count;
        Ok(match self.of {
            Of::Count => ScalarValue::UInt32(Some(count as u32)),
            of => ScalarValue::Float64(if count == 0 { None } else { self.sums.value(of) }),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let parts = self.sums.parts().map(ScalarValue::from);
        Ok(std::iter::once(ScalarValue::from(self.sums.count)).chain(parts).collect())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<UInt64Type>();
        for row in 0..counts.len() {
            let parts = std::array::from_fn(|part| states[part + 1].as_primitive::<Float64Type>().value(row));
            self.sums.merge(&Sums::of_parts(counts.value(row), parts));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(pairs: &[(f64, f64)]) -> Sums {
        let mut sums = Sums::default();
        pairs.iter().for_each(|&(y, x)| sums.add(y, x));
        sums
    }

    #[test]
    fn parts_merge_and_pairs_are_taken_off_again() {
        let pairs = [(1.0, 2.0), (4.0, 3.0), (2.0, 7.0), (9.0, 8.0)];
        let all = sums(&pairs);
        let mut merged = sums(&pairs[..1]);
        merged.merge(&sums(&pairs[1..]));
        merged.merge(&Sums::default());
        let mut less = sums(&[&pairs[..], &[(5.0, 5.0)]].concat());
        less.remove(5.0, 5.0);
        for of in [Of::Correlation, Of::Slope, Of::Intercept, Of::Determination, Of::SampleCovariance, Of::SquaresX] {
            let expected = all.value(of).unwrap();
            assert!((merged.value(of).unwrap() - expected).abs() < 1e-9, "{of:?}");
            assert!((less.value(of).unwrap() - expected).abs() < 1e-9, "{of:?}");
        }
    }

    #[test]
    fn constants_have_no_slope() {
        let one = sums(&[(1.0, 1.0)]);
        assert!(one.value(Of::Correlation).unwrap().is_nan() && one.value(Of::Slope).unwrap().is_nan());
        assert_eq!(one.value(Of::Intercept), None);
        assert_eq!(one.value(Of::Determination), None);
        assert_eq!(one.value(Of::SampleCovariance), None);
        assert_eq!(sums(&[(0.0, 1.0), (0.0, 2.0)]).value(Of::Determination), Some(1.0));
    }
}
