//! Aggregates of pairs of numbers, `f(y, x)`: `corr`, `covar_pop`, `covar_samp` and `regr_*`.
//!
//! DataFusion's functions return NULL where DuckDB returns NaN, and NaN where DuckDB returns NULL or a number. Programs have them, too; these are
//! used for statements that are not programs, and in windows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use warpmill_ir::PairFunction;
use warpmill_ir::pairs::Pairs;

use super::frames::moving;
use crate::dialect::types::{is_number, type_name};

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<AggregateUDF>> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    let own = PairFunction::ALL.into_iter();
    own.map(move |function| Arc::new(AggregateUDF::from(OfPairs { function, signature: signature() })))
}

/// Whether a function of this name is of pairs of numbers.
pub(super) fn is_of_pairs(name: &str) -> bool {
    PairFunction::named(name).is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfPairs {
    function: PairFunction,
    signature: Signature,
}

impl AggregateUDFImpl for OfPairs {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() == 2 && types.iter().all(|ty| ty.is_null() || is_number(ty)) {
            return Ok(vec![DataType::Float64; 2]);
        }
        let names: Vec<_> = types.iter().map(type_name).collect();
        plan_err!("No function matches {}({})", self.name(), names.join(", "))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.function == PairFunction::Count { DataType::UInt32 } else { DataType::Float64 })
    }

    fn is_nullable(&self) -> bool {
        self.function != PairFunction::Count
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        if self.function == PairFunction::Count { Ok(ScalarValue::UInt32(Some(0))) } else { ScalarValue::try_from(ty) }
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(State { function: self.function, pairs: Pairs::default() }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(moving::of_pairs(self.function))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part| Arc::new(Field::new(format!("{}[{part}]", args.name), DataType::Float64, true));
        Ok(Pairs::PARTS.map(field).to_vec())
    }
}

#[derive(Debug)]
struct State {
    function: PairFunction,
    pairs: Pairs,
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

impl Accumulator for State {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        each(columns, |y, x| self.pairs.add(y, x));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.function {
            PairFunction::Count => ScalarValue::UInt32(Some(self.pairs.count() as u32)),
            function => ScalarValue::Float64(self.pairs.value(function)),
        })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.pairs.parts().map(ScalarValue::from).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states: Vec<_> = states.iter().map(|part| part.as_primitive::<Float64Type>()).collect();
        for row in 0..states[0].len() {
            self.pairs.merge(&Pairs::of_parts(std::array::from_fn(|part| states[part].value(row))));
        }
        Ok(())
    }
}
