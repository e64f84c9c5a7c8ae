//! Compensated (Kahan) sums and averages of floats: `fsum` and `favg`; `fsum_error` returns the final compensation.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::dialect::types::{is_number, type_name};

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    [("fsum", Gives::Sum), ("favg", Gives::Average), ("fsum_error", Gives::Error)].into_iter().map(|(name, gives)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Kahan { name, gives, signature }))
    })
}

/// The result of a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Gives {
    Sum,
    Average,
    /// The excess of the sum.
    Error,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kahan {
    name: &'static str,
    gives: Gives,
    signature: Signature,
}

impl AggregateUDFImpl for Kahan {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if ty.is_null() || is_number(ty) => Ok(vec![DataType::Float64]),
            types => {
                let names: Vec<_> = types.iter().map(type_name).collect();
                plan_err!("No function matches {}({})", self.name, names.join(", "))
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("{}: DISTINCT is not supported", self.name);
        }
        Ok(Box::new(Total { gives: self.gives, sum: Carried::default(), count: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        Ok(vec![field("sum", DataType::Float64), field("error", DataType::Float64), field("count", DataType::UInt64)])
    }
}

/// A sum, and its excess.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    sum: f64,
    error: f64,
}

impl Carried {
    fn add(&mut self, value: f64) {
        let value = value - self.error;
        let sum = self.sum + value;
        self.error = (sum - self.sum) - value;
        self.sum = sum;
    }
}

#[derive(Debug)]
struct Total {
    gives: Gives,
    sum: Carried,
    count: u64,
}

impl Accumulator for Total {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = columns[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.sum.add(value));
        self.count += (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = match self.gives {
            Gives::Sum => self.sum.sum,
            Gives::Average => self.sum.sum / self.count as f64,
            Gives::Error => self.sum.error,
        };
        Ok(ScalarValue::Float64((self.count > 0).then_some(value)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.sum.sum.into(), self.sum.error.into(), self.count.into()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let number = |column: usize, row: usize| states[column].as_primitive::<Float64Type>().value(row);
        let counts = states[2].as_primitive::<UInt64Type>();
        for row in 0..counts.len() {
            self.sum.add(number(0, row));
            self.sum.add(-number(1, row));
            self.count += counts.value(row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_reach_a_large_sum() {
        let mut sum = Carried::default();
        [9_007_199_254_740_992.0, 1.0, 1.0].into_iter().for_each(|value| sum.add(value));
        assert_eq!(sum.sum, 9_007_199_254_740_994.0);
    }
}
