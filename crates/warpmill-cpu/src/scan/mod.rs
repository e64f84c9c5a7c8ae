//! Chunks from the encoded segments of a table: segments whose statistics rule them out are skipped, the first filters run on encoded values,
//! everything else is decoded when an operator requests it.

mod filter;
mod open;
mod pruning;
mod table;

pub use filter::{KeyPrune, ScanFilter};
pub use pruning::BYTES_PER_NANO;
pub use table::TableSource;
