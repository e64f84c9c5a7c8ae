//! Aggregates that DataFusion cannot compute over frames that slide: of distinct values, of texts, of bits. They are computed anew for each frame.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::PhysicalExpr;

use super::rows::{Anew, OfRows, distinct};

/// The accumulator of a call of a function.
pub(super) fn accumulator(function: &Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Box<dyn Accumulator> {
    super::accumulator(Anew::of(Call {
        function: Arc::clone(function),
        return_field: Arc::clone(&args.return_field),
        schema: args.schema.clone(),
        ignore_nulls: args.ignore_nulls,
        is_distinct: args.is_distinct,
        name: args.name.into(),
        exprs: args.exprs.to_vec(),
        expr_fields: args.expr_fields.to_vec(),
    }))
}

/// A call, for as many accumulators as are needed.
#[derive(Debug)]
struct Call {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
    /// Whether rows count whose first values are different.
    is_distinct: bool,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Call {
    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

impl OfRows for Call {
    fn of_nothing(&self) -> Result<ScalarValue> {
        self.accumulator()?.evaluate()
    }

    fn of(&self, columns: &[ArrayRef]) -> Result<ScalarValue> {
        let mut accumulator = self.accumulator()?;
        match self.is_distinct {
            true => accumulator.update_batch(&distinct(columns)?)?,
            false => accumulator.update_batch(columns)?,
        }
        accumulator.evaluate()
    }
}
