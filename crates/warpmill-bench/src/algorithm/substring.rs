//! Substring search over many strings at once: the rows that LIKE '%a%b%' selects.

use std::sync::Arc;

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{Device, DevicePtr, Result, Stream};

use crate::kernels;

/// Largest number of pieces of a search, as in `kernels/substring.cuh`.
pub const MOST_PIECES: usize = 4;

/// Largest total size of the pieces of a search, in bytes.
pub const MOST_PIECE_BYTES: usize = 256;

const THREADS: u32 = 256;

/// Strings in device memory.
#[derive(Debug, Clone, Copy)]
pub struct Strings {
    /// The concatenated bytes, 16-byte aligned. Their last 16-byte block is read in full.
    pub bytes: DevicePtr,
    /// Offset of each row's bytes (u32, rows + 1 of them, ascending).
    pub offsets: DevicePtr,
    /// Rows.
    pub rows: u64,
}

/// Finds the rows that contain pieces in a given order without overlap.
#[derive(Debug)]
pub struct SubstringSearch {
    /// Kernels by number of pieces, minus one.
    kernels: [Kernel; MOST_PIECES],
}

impl SubstringSearch {
    /// Compiles the kernels.
    pub fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let entry = |n: usize| {
            format!(
                "extern \"C\" __global__ void __launch_bounds__({THREADS}) substring_{n}(Substring p) {{\n    \
                     __shared__ u32 starts[{n} * SCAN_WORDS];\n    substring_rows<{n}>(p, starts);\n}}\n"
            )
        };
        let entries: String = (1..=MOST_PIECES).map(entry).collect();
        let text = [kernels::SUBSTRING, &entries].concat();
        let names = ["substring_1", "substring_2", "substring_3", "substring_4"];
        Ok(Self { kernels: kernels::compile(device, text, names.map(|name| (name, THREADS, 0)))? })
    }

    /// Queues the search: bit `r` of `out` (u32 words, one for 32 rows) says whether row `r` contains all of `pieces`, 1 to
    /// [`MOST_PIECES`] of them, none empty, at most [`MOST_PIECE_BYTES`] together, in this order. Bits past the rows are 0.
    ///
    /// # Safety
    /// `strings` is as described, `out` has a bit per row rounded up to words.
    pub unsafe fn search(&self, stream: Stream, strings: Strings, pieces: &[&[u8]], out: DevicePtr) -> Result<()> {
        assert!((1..=MOST_PIECES).contains(&pieces.len()), "1 to {MOST_PIECES} pieces");
        assert!(pieces.iter().all(|piece| !piece.is_empty()), "an empty piece is everywhere");
        let mut bytes = pieces.concat();
        assert!(bytes.len() <= MOST_PIECE_BYTES, "{} bytes to search for", bytes.len());
        bytes.resize(MOST_PIECE_BYTES, 0);
        let mut params = ParamBytes::new().u64(strings.bytes).u64(strings.offsets).u64(out).u64(strings.rows);
        let mut at = 0;
        for i in 0..MOST_PIECES {
            let piece = pieces.get(i).copied().unwrap_or_default();
            let mut head = [0u8; 4];
            let known = piece.len().min(4);
            head[..known].copy_from_slice(&piece[..known]);
            let mask = (1u64 << (8 * known)) - 1;
            params = params.u32(u32::from_le_bytes(head)).u32(mask as u32).u32(piece.len() as u32).u32(at);
            at += piece.len() as u32;
        }
        let params = bytes.as_chunks().0.iter().fold(params, |params, &word| params.u32(u32::from_ne_bytes(word)));
        let kernel = &self.kernels[pieces.len() - 1];
        // SAFETY: the caller's promise.
        unsafe {
            let blocks = kernel.resident_blocks(strings.rows.div_ceil(u64::from(THREADS)))?;
            kernel.launch(blocks, params, stream)
        }
    }
}
