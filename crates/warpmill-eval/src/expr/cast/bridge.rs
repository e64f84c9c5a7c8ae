//! Conversions by Arrow's kernels, with DataFusion's semantics, for casts that do not justify a specialized loop.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::DataType;
use arrow::util::display::FormatOptions;
use warpmill_ir::{ColType, Phys};

use crate::arrow::{array, from_arrow as vector};
use crate::error::{ExecError, Result};
use crate::memory::Worker;
use crate::vector::{Data, Vector};

/// The Arrow type for values of type `ty`: strings are `Utf8`, whatever the plan's string type.
fn arrow_type(ty: &ColType) -> &DataType {
    if ty.phys == Phys::Str { &DataType::Utf8 } else { &ty.logical }
}

/// `input`, of type `ty`, as an array.
pub(in crate::expr) fn to_arrow(input: &Vector, ty: &ColType) -> Result<ArrayRef> {
    array(input.clone(), ty, arrow_type(ty))
}

/// An array as values of type `ty`; strings are copied to the worker's arena.
pub(in crate::expr) fn from_arrow(array: &dyn Array, ty: &ColType, worker: &mut Worker) -> Result<Vector> {
    let mut vector = vector(array, ty)?;
    if let Data::Str(views) = &mut vector.data {
        // The views refer to the array, which is dropped here.
        for view in views {
            *view = worker.text(view.as_str())?;
        }
    }
    Ok(vector)
}

/// `input` of type `from` as type `to`.
pub(super) fn cast(
    input: &Vector,
    from: &ColType,
    to: &ColType,
    try_cast: bool,
    worker: &mut Worker,
) -> Result<Vector> {
    let options = CastOptions { safe: try_cast, format_options: FormatOptions::default() };
    let converted = cast_with_options(&to_arrow(input, from)?, arrow_type(to), &options)
        .map_err(|error| ExecError::Value(format!("cannot cast to {}: {error}", to.logical)))?;
    from_arrow(&converted, to, worker)
}
