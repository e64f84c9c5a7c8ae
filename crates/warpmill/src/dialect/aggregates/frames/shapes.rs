//! Skewness and kurtosis of a frame.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};

use super::Frame;
use super::queue::{Queue, Total};
use crate::dialect::library::Shape;
use crate::dialect::operators::strict_cast;
use crate::dialect::states;

/// The number of values, their mean, and the sums of the second to fourth powers of their deviations.
#[derive(Debug, Clone, Copy, Default)]
struct Powers([f64; 5]);

impl Total for Powers {
    type Row = f64;

    fn add(&mut self, x: &f64) {
        self.merge(&Self([1.0, *x, 0.0, 0.0, 0.0]));
    }

    fn merge(&mut self, later: &Self) {
        states::combine_powers(&mut self.0, &later.0);
    }
}

/// The values of a frame.
#[derive(Debug)]
pub(super) struct Shaped {
    shape: Shape,
    values: Queue<Powers>,
}

impl Shaped {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, values: Queue::default() }
    }
}

impl Frame for Shaped {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = strict_cast(&columns[0], &DataType::Float64)?;
        values.as_primitive::<Float64Type>().iter().flatten().for_each(|x| self.values.push(x));
        Ok(())
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        (columns[0].null_count()..columns[0].len()).for_each(|_| self.values.pop());
        Ok(())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.shape.value(&self.values.total().0)?))
    }

    fn size(&self) -> usize {
        self.values.size()
    }
}
