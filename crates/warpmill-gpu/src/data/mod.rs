//! Data of programs: its location, the form in which it is copied, and the part of it in device memory.
//!
//! - [`chunks`]: columns of row segments as stored; [`segments`]: their descriptors for kernels; [`shape`]: their encodings, as far as kernel texts
//!   depend on them; [`spans`]: the rows that a kernel reads of them; [`items`]: the host objects that are copied to the device;
//! - [`form`]: sources and forms of data; [`paths`]: the choice of the form; [`undone`]: the codecs that the device decompresses, with
//!   [`mod@parquet`] for Parquet pages and [`batch_spec`] for the vendor's library; [`decoding`]: decompression on the host;
//! - `store`: all data in a device's memory: `kept` chunks of streamed data, [`mirror`]: copies chosen by a [`policy`], [`source`]: copies in
//!   page-locked memory; [`admission`]: programs that run at once;
//! - [`stream`]: slots for streamed data, and their layout; `slot`: the chunks of one; [`transfer`]: copies in profiles.

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
