//! Kernels that decompress and expand segments in a slot.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels;
use crate::kernels::library::Library;
use crate::memory::error::Result;

/// Kernels that decompress and expand segments in a slot.
#[derive(Clone)]
pub struct Openers {
    /// Decompresses blocks of chunks.
    decompress: Kernel,
    /// Expands segments.
    expand: Kernel,
}

impl Openers {
    /// Compiles the kernels for `device`.
    ///
    /// # Errors
    /// The compiler's.
    pub fn compile(device: &Arc<dyn Device>) -> Result<Self> {
        let parts = [Library::Value, Library::Lane, Library::LaneFilter, Library::Scan].map(Library::text);
        let own = [kernels::LANE_DELTA, kernels::EXPAND, kernels::DECOMPRESS];
        let text = parts.into_iter().chain(own).collect::<Vec<_>>().join("\n");
        let [decompress, expand] = Kernel::compile(device, text, [("decompress", 128, 0), ("expand", 256, 0)])?;
        Ok(Self { decompress, expand })
    }

    /// Queues the decompression of `count` chunks, described at `chunks`, with `blocks` blocks in total.
    ///
    /// # Safety
    /// The descriptors name stored chunks and memory for their segments; `state` is a `QueryState`.
    pub unsafe fn decompress(
        &self,
        (chunks, count, blocks): (DevicePtr, u32, u32),
        state: DevicePtr,
        stream: Stream,
    ) -> Result<()> {
        let params = ParamBytes::new().u64(state).u64(chunks).u32(count).u32(blocks);
        let grid = u64::from(blocks.div_ceil(self.decompress.threads() / 32));
        // SAFETY: the caller's promise.
        unsafe { self.decompress.launch(grid, params, stream)? };
        Ok(())
    }

    /// Queues the expansion of `count` segments, described at `expansions`, with `vectors` vectors in total.
    ///
    /// # Safety
    /// The descriptors name segments and memory for their values.
    pub unsafe fn expand(&self, (expansions, count, vectors): (DevicePtr, u32, u32), stream: Stream) -> Result<()> {
        let params = ParamBytes::new().u64(expansions).u32(count).u32(vectors);
        let grid = u64::from(vectors.div_ceil(self.expand.threads() / 32));
        // SAFETY: the caller's promise.
        unsafe { self.expand.launch(grid, params, stream)? };
        Ok(())
    }
}
