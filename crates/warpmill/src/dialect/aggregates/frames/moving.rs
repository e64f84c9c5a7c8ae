//! Aggregates of DOUBLE values over frames that slide: sums, averages, variances and functions of pairs.
//!
//! DataFusion subtracts the rows that leave a frame, after which rounding errors of large values remain, and NaN of infinite ones. Here rows are added
//! only ([`Queue`]).

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use warpmill_ir::PairFunction;
use warpmill_ir::pairs::Pairs;

use super::Frame;
use super::queue::{Queue, Total};
use crate::dialect::operators::strict_cast;
use crate::dialect::types::{is_float, is_number};

/// Whether DataFusion subtracts the rows that leave the frames of an aggregate of numbers.
pub(in crate::dialect) fn is_known(name: &str) -> bool {
    Of::named(name).is_some()
}

/// An accumulator of a function of pairs.
pub(in crate::dialect) fn of_pairs(function: PairFunction) -> Box<dyn Accumulator> {
    accumulator(Of::Pairs(function))
}

/// An accumulator of a value.
pub(super) fn accumulator(of: Of) -> Box<dyn Accumulator> {
    super::accumulator(Slid { of, rows: Queue::default() })
}

/// The value that is computed from a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Sum,
    Average,
    /// A variance of a sample or of a population, or its root.
    Variance {
        sample: bool,
        root: bool,
    },
    Pairs(PairFunction),
}

impl Of {
    /// The value of a call of a function with an argument of a type; `None` where nothing is subtracted, or exactly.
    pub(super) fn inexact(function: &str, ty: &DataType) -> Option<Self> {
        let of = Self::named(function)?;
        (is_float(ty) || is_number(ty) && matches!(of, Self::Variance { .. })).then_some(of)
    }

    /// The aggregate of numbers that DataFusion calls so.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Self::Sum,
            "avg" => Self::Average,
            "var" | "var_samp" => Self::Variance { sample: true, root: false },
            "var_pop" => Self::Variance { sample: false, root: false },
            "stddev" | "stddev_samp" => Self::Variance { sample: true, root: true },
            "stddev_pop" => Self::Variance { sample: false, root: true },
            _ => return None,
        })
    }

    fn value(self, rows: &Pairs) -> ScalarValue {
        let squares = || rows.value(PairFunction::SquaresX);
        let number = match self {
            Self::Sum => (rows.count() > 0.0).then(|| rows.sum_x()),
            Self::Average => rows.value(PairFunction::AverageX),
            Self::Variance { sample, root } => {
                let count = rows.count() - f64::from(sample);
                let variance = squares().filter(|_| count > 0.0).map(|squares| squares / count);
                if root { variance.map(f64::sqrt) } else { variance }
            }
            Self::Pairs(PairFunction::Count) => return ScalarValue::UInt32(Some(rows.count() as u32)),
            Self::Pairs(function) => rows.value(function),
        };
        // NaN of one kind: Arrow tells those with a sign apart.
        ScalarValue::Float64(number.map(|x| if x.is_nan() { f64::NAN } else { x }))
    }
}

/// The rows of a frame.
#[derive(Debug)]
struct Slid {
    of: Of,
    rows: Queue<Pairs>,
}

impl Slid {
    /// Calls `f` with the numbers of each row that has all of them, as a pair.
    fn each(&mut self, columns: &[ArrayRef], mut f: impl FnMut(&mut Queue<Pairs>, [f64; 2])) -> Result<()> {
        let columns = columns.iter().map(|column| strict_cast(column, &DataType::Float64));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let (first, last) = (&columns[0], &columns[columns.len() - 1]);
        let numbers = [first, last].map(|column| column.as_primitive::<Float64Type>());
        for row in 0..first.len() {
            if numbers.iter().all(|column| column.is_valid(row)) {
                f(&mut self.rows, numbers.map(|column| column.value(row)));
            }
        }
        Ok(())
    }
}

impl Frame for Slid {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.each(columns, Queue::push)
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.each(columns, |rows, _| rows.pop())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        Ok(self.of.value(&self.rows.total()))
    }

    fn size(&self) -> usize {
        self.rows.size()
    }
}

impl Total for Pairs {
    type Row = [f64; 2];

    fn add(&mut self, &[y, x]: &[f64; 2]) {
        Pairs::add(self, y, x);
    }

    fn merge(&mut self, later: &Self) {
        Pairs::merge(self, later);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Float64Array;

    use super::*;

    fn frame(of: Of) -> Slid {
        Slid { of, rows: Queue::default() }
    }

    #[test]
    fn values_that_leave_leave_no_error() {
        let column = |values: Vec<Option<f64>>| -> [ArrayRef; 1] { [Arc::new(Float64Array::from(values))] };
        let values =
            [Some(1e20), None, Some(f64::INFINITY), Some(3.0), Some(0.1), Some(f64::NAN), Some(-7.5), Some(2.0)];
        for width in 1..=values.len() {
            let names = ["sum", "avg", "var_samp", "var_pop", "stddev", "stddev_pop"];
            for of in names.map(|name| Of::named(name).unwrap()) {
                let mut moving = frame(of);
                for end in 0..values.len() {
                    moving.add(&column(vec![values[end]])).unwrap();
                    if end >= width {
                        moving.remove(&column(vec![values[end - width]])).unwrap();
                    }
                    let start = (end + 1).saturating_sub(width);
                    let mut expected = frame(of);
                    expected.add(&column(values[start..=end].to_vec())).unwrap();
                    let [ScalarValue::Float64(found), ScalarValue::Float64(expected)] =
                        [&mut moving, &mut expected].map(|frame| frame.value().unwrap())
                    else {
                        panic!("numbers");
                    };
                    let near = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-12 * b.abs();
                    let equal = found.is_none() && expected.is_none() || near(found.unwrap(), expected.unwrap());
                    assert!(equal, "{of:?} {start}..={end}: {found:?}, not {expected:?}");
                }
            }
        }
    }
}
