//! Chunks from encoded segments.

pub mod decode;
