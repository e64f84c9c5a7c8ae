//! Substring search over many strings at once: the rows that LIKE '%a%b%' selects.

use std::sync::Arc;

use super::launch::{Kernel, ParamBytes};
use crate::device::{Device, DevicePtr, Result, Stream};
use crate::kernels;

/// Most pieces of one search, as in `kernels/substring.cuh`.
pub const MOST_PIECES: usize = 4;

const THREADS: u32 = 256;

/// Strings in device memory.
#[derive(Debug, Clone, Copy)]
pub struct Strings {
    /// The concatenated bytes, 16-byte aligned. Their last 16-byte block is read in full.
    pub bytes: DevicePtr,
    /// Where each row's bytes begin (u32, rows + 1 of them, ascending).
    pub offsets: DevicePtr,
    /// Rows.
    pub rows: u64,
}

/// Finds the rows that contain pieces in a given order without overlap.
#[derive(Debug)]
pub struct SubstringSearch {
    device: Arc<dyn Device>,
    /// By number of pieces, less one.
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
        Ok(Self {
            device: device.clone(),
            kernels: Kernel::compile(device, text, names.map(|name| (name, THREADS, 0)))?,
        })
    }

    /// Bytes of scratch memory that a search for `pieces` needs.
    pub fn scratch_bytes(&self, pieces: &[&[u8]]) -> u64 {
        pieces.iter().map(|piece| piece.len() as u64).sum::<u64>().max(1)
    }

    /// Queues the search: bit `r` of `out` (u32 words, one for 32 rows) says whether row `r` contains all of `pieces`, 1 to
    /// [`MOST_PIECES`] of them, none empty, in this order. Bits past the rows are 0.
    ///
    /// # Safety
    /// `strings` is as described, `out` has a bit per row rounded up to words, `scratch` [`SubstringSearch::scratch_bytes`].
    pub unsafe fn search(
        &self,
        stream: Stream,
        strings: Strings,
        pieces: &[&[u8]],
        out: DevicePtr,
        scratch: DevicePtr,
    ) -> Result<()> {
        assert!((1..=MOST_PIECES).contains(&pieces.len()), "1 to {MOST_PIECES} pieces");
        assert!(pieces.iter().all(|piece| !piece.is_empty()), "an empty piece is everywhere");
        let mut params =
            ParamBytes::new().u64(strings.bytes).u64(strings.offsets).u64(scratch).u64(out).u64(strings.rows);
        let mut at = 0;
        for piece in pieces {
            let mut head = [0u8; 4];
            let known = piece.len().min(4);
            head[..known].copy_from_slice(&piece[..known]);
            let mask = u32::MAX >> (32 - 8 * known as u32);
            params = params.u32(u32::from_le_bytes(head)).u32(mask).u32(piece.len() as u32).u32(at);
            at += piece.len() as u32;
        }
        for _ in pieces.len()..MOST_PIECES {
            params = params.u32(0).u32(0).u32(0).u32(0);
        }
        let kernel = &self.kernels[pieces.len() - 1];
        // SAFETY: the caller's promise; the piece's bytes are copied before this returns.
        unsafe {
            self.device.copy_to_device(scratch, &pieces.concat(), stream)?;
            let blocks = kernel.resident_blocks(strings.rows.div_ceil(u64::from(THREADS)))?;
            kernel.launch(blocks, params, stream)
        }
    }
}
