//! Exclusive prefix sums in one pass over the data.

use std::sync::Arc;

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{Device, DevicePtr, Result, Stream};

use crate::kernels;

/// Items per thread block, as in `kernels/prefix_sum.cuh`.
const TILE: u64 = 256 * 16;

/// Adds up u32 items: `out[i]` (u64) is the sum of the items before `i`, `out[n]` that of all.
#[derive(Debug)]
pub struct PrefixSum {
    device: Arc<dyn Device>,
    kernel: Kernel,
}

impl PrefixSum {
    /// Compiles the kernel.
    pub fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let entry = "extern \"C\" __global__ void __launch_bounds__(256) prefix_sum_tiles(PrefixSum p) {\n    \
                     __shared__ PrefixSumShared shared;\n    prefix_sum(p, shared);\n}\n";
        let text = [kernels::LOOK_BACK, kernels::PREFIX_SUM, entry].concat();
        let [kernel] = kernels::compile(device, text, [("prefix_sum_tiles", 256, 0)])?;
        Ok(Self { device: device.clone(), kernel })
    }

    /// Bytes of scratch memory for `n` items.
    pub fn scratch_bytes(&self, n: u64) -> u64 {
        8 * n.div_ceil(TILE) + 8
    }

    /// Queues the sums of the `n` items (u32) at `items` into `out` (u64, n + 1).
    ///
    /// # Safety
    /// The ranges are allocated, do not overlap, are 8-byte aligned, and `scratch` has [`PrefixSum::scratch_bytes`].
    pub unsafe fn run(
        &self,
        stream: Stream,
        items: DevicePtr,
        out: DevicePtr,
        n: u64,
        scratch: DevicePtr,
    ) -> Result<()> {
        let tiles = n.div_ceil(TILE);
        // SAFETY: the caller's promise; the counter follows the tiles' state words.
        unsafe {
            if n == 0 {
                return self.device.fill(out, 0, 8, stream);
            }
            self.device.fill(scratch, 0, self.scratch_bytes(n), stream)?;
            let params = ParamBytes::new().u64(items).u64(out).u64(scratch).u64(scratch + 8 * tiles).u64(n);
            self.kernel.launch(tiles, params, stream)
        }
    }
}
