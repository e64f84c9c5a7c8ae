//! Slots in device memory that data passes through.
//!
//! - `plan`: how many there are, and how large; `head`: the layout of one;
//! - `open`, `batches`: what makes segments readable that have arrived, by own kernels and by the vendor's library.

pub(crate) mod batches;
pub(crate) mod head;
pub(crate) mod open;
pub(crate) mod plan;
