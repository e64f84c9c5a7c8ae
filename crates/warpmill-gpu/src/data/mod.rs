//! The data of programs: where it is, in which form it comes, and what of it is in device memory.
//!
//! - [`chunks`]: columns of row segments as they are stored; [`segments`]: as kernels see them; [`shape`]: as their texts depend on them;
//!   [`spans`] of their rows, and `row_segment`: what a kernel reads; [`items`]: what of them, and of dictionaries, is copied to the
//!   device;
//! - [`form`]: where data comes from, and how; [`paths`] chooses the form; [`undone`]: what the device decompresses, with [`mod@parquet`]
//!   where pages of Parquet are decoded, and [`batch_spec`] where the vendor's library does; [`decoding`]: what the host does;
//! - `store`: the data in a device's memory: `kept` of what passes through, [`mirror`]: copies that a [`policy`] chooses, [`source`] for copies in page-locked memory; [`admission`]:
//!   which programs run at once with it;
//! - [`stream`]: slots for what passes through, and their layout; `slot`: the chunks of one; [`transfer`]: copies as profiles show them.

pub mod admission;
pub mod batch_spec;
pub mod chunks;
pub mod decoding;
pub mod form;
pub mod items;
pub(crate) mod kept;
pub mod mirror;
pub mod opened;
pub mod parquet;
pub mod paths;
pub mod policy;
pub(crate) mod row_segment;
pub mod segments;
pub mod shape;
pub(crate) mod slot;
pub mod source;
pub mod spans;
pub(crate) mod store;
pub mod stream;
pub mod transfer;
pub mod undone;
