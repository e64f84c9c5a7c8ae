//! Chunks from the encoded segments of a table: segments that cannot qualify are skipped by their statistics, the first
//! filters run on encoded values, everything else is decoded when an operator asks for it.

mod filter;
mod open;
mod pruning;
mod table;

pub use filter::{KeyPrune, ScanFilter};
pub use pruning::BYTES_PER_NANO;
pub use table::TableSource;
