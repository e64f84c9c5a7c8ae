//! Slots in device memory for streamed data.
//!
//! - `plan`: number and size of slots; `head`: the layout of a slot;
//! - `open`, `batches`: decompression and expansion in a slot, with Warpmill's kernels and the vendor's library.

pub(crate) mod batches;
pub(crate) mod head;
pub(crate) mod open;
pub(crate) mod plan;
