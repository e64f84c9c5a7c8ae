//! The version of the interface between shim, loader and engine.

/// A checksum (FNV-1a) of the header that declares it: no change can be forgotten. `duckdb/build.py` tells the shim the same.
pub const ABI: u32 = checksum(include_bytes!("engine.h"));

const fn checksum(bytes: &[u8]) -> u32 {
    let (mut sum, mut at) = (0x811c_9dc5_u32, 0);
    while at < bytes.len() {
        sum = (sum ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    sum
}
