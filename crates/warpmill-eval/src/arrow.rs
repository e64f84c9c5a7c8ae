//! Vectors from and to Arrow arrays.

mod input;
mod output;
#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};

pub use input::from_arrow;
pub(crate) use output::array;
pub use output::to_batches;

/// Converts to the same type: `Err` with the values if `T` is not `U`.
fn same<T: 'static, U: 'static>(values: Vec<T>) -> Result<Vec<U>, Vec<T>> {
    if TypeId::of::<T>() != TypeId::of::<U>() {
        return Err(values);
    }
    let values: Box<dyn Any> = Box::new(values);
    Ok(*values.downcast().expect("types are equal"))
}
