//! Aggregates that DataFusion cannot compute over frames that slide: of distinct values, of texts, of bits. They are computed anew for each frame.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use datafusion::physical_expr::PhysicalExpr;

use super::rows::Rows;
use super::{Frame, accumulator};

/// The function that computes calls of `func` in windows.
pub(in crate::dialect) fn recomputed(func: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    if is_recomputed(&func) { func } else { Arc::new(AggregateUDF::from(Recomputed(func))) }
}

/// Whether a function is one of [`recomputed`].
pub(in crate::dialect) fn is_recomputed(func: &AggregateUDF) -> bool {
    func.inner().downcast_ref::<Recomputed>().is_some()
}

/// A function with another accumulator for frames that slide.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Recomputed(Arc<AggregateUDF>);

impl AggregateUDFImpl for Recomputed {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.0.default_value(ty)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let call = Call {
            function: Arc::clone(&self.0),
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            ignore_nulls: args.ignore_nulls,
            is_distinct: args.is_distinct,
            name: args.name.into(),
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        };
        Ok(accumulator(Again { call, rows: Rows::default() }))
    }
}

/// A call, for as many accumulators as are needed.
#[derive(Debug)]
struct Call {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    ignore_nulls: bool,
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
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// The rows of a frame.
#[derive(Debug)]
struct Again {
    call: Call,
    rows: Rows,
}

impl Frame for Again {
    fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.rows.push(columns);
        Ok(())
    }

    fn remove(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.rows.pop(columns[0].len());
        Ok(())
    }

    fn value(&mut self) -> Result<ScalarValue> {
        let mut accumulator = self.call.accumulator()?;
        if self.rows.count() > 0 {
            accumulator.update_batch(self.rows.settled()?)?;
        }
        accumulator.evaluate()
    }

    fn size(&self) -> usize {
        self.rows.size()
    }
}
