//! Vectors from and to Arrow arrays.

mod input;
mod output;
#[cfg(test)]
mod tests;

pub use input::from_arrow;
pub use output::to_batches;
