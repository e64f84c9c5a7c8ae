//! The texts of device functions that only benchmarks use, and of the query kernels' functions on which they depend. Each lists its dependencies,
//! which have to precede it.

use std::sync::Arc;

use warpmill_gpu::device::kernel::Kernel;
use warpmill_gpu::device::{Device, Result};
pub use warpmill_gpu::kernels::{HASH, LANE, LANE_DELTA, LOOK_BACK, RADIX_SORT};

/// Lane-packed run lengths. Needs [`LANE`].
pub const LANE_RLE: &str = include_str!("../kernels/lane_rle.cuh");

/// The published GPU-FOR, GPU-DFOR and GPU-RFOR.
pub const GPU_FOR: &str = include_str!("../kernels/gpu_for.cuh");

/// Exclusive prefix sums. Needs [`LOOK_BACK`].
pub const PREFIX_SUM: &str = include_str!("../kernels/prefix_sum.cuh");

/// Hash join with buckets of one memory sector. Needs [`HASH`].
pub const BUCKET_TABLE: &str = include_str!("../kernels/bucket_table.cuh");

/// Grouping with private and global hash tables. Needs [`HASH`].
pub const GROUP_BY: &str = include_str!("../kernels/group_by.cuh");

/// Substring search over many strings at once.
pub const SUBSTRING: &str = include_str!("../kernels/substring.cuh");

/// Compiles `text`, as [`Kernel::compile`] does. Tests check that it also is CUDA C++, if NVRTC is installed.
pub(crate) fn compile<const N: usize>(
    device: &Arc<dyn Device>,
    text: String,
    entries: [(&str, u32, u32); N],
) -> Result<[Kernel; N]> {
    #[cfg(test)]
    {
        use warpmill_gpu::device::{KernelSource, cuda::nvrtc};
        if nvrtc::available().is_ok() {
            let names = entries.iter().map(|(name, ..)| (*name).to_owned()).collect();
            let source = KernelSource { text: text.clone(), entries: names };
            nvrtc::compile_cubin(&source, "sm_90").unwrap_or_else(|error| panic!("{error}"));
        }
    }
    Kernel::compile(device, text, entries)
}
