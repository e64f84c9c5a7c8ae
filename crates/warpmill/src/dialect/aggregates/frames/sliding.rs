//! Functions of DataFusion with other accumulators for frames that slide.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};

use super::{moving, recomputed};

/// The function that computes a call of `func` anew for each frame of a window.
pub(in crate::dialect) fn anew(func: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    sliding(func, How::Recomputed)
}

/// The function that computes a call of `func` with an argument of a type in a window without subtraction of floats.
pub(in crate::dialect) fn without_subtraction(func: Arc<AggregateUDF>, ty: &DataType) -> Arc<AggregateUDF> {
    match moving::Of::inexact(func.name(), ty) {
        Some(of) => sliding(func, How::Moving(of)),
        None => func,
    }
}

/// The functions that [`anew`] and [`without_subtraction`] make of `func`, and what they do.
pub(in crate::dialect) fn forms(func: &Arc<AggregateUDF>) -> Vec<(&'static str, Arc<AggregateUDF>)> {
    let moving = moving::Of::named(func.name()).map(How::Moving);
    let moving = moving.map(|how| ("without subtraction", sliding(Arc::clone(func), how)));
    moving.into_iter().chain([("of each frame anew", anew(Arc::clone(func)))]).collect()
}

/// Whether a function is one of these.
pub(in crate::dialect) fn is_sliding(func: &AggregateUDF) -> bool {
    func.inner().downcast_ref::<Sliding>().is_some()
}

fn sliding(func: Arc<AggregateUDF>, how: How) -> Arc<AggregateUDF> {
    if is_sliding(&func) { func } else { Arc::new(AggregateUDF::from(Sliding { plain: func, how })) }
}

/// The accumulator for frames that slide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum How {
    Moving(moving::Of),
    Recomputed,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sliding {
    plain: Arc<AggregateUDF>,
    how: How,
}

impl AggregateUDFImpl for Sliding {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.plain.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.plain.is_nullable()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(ty)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.plain.coerce_types(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(match self.how {
            How::Moving(of) => moving::accumulator(of),
            How::Recomputed => recomputed::accumulator(&self.plain, &args),
        })
    }
}
