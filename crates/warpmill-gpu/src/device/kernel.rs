//! Launches of hand-written kernels: text, parameter, shape.

use std::sync::Arc;

use crate::device::{Device, Function, KernelSource, LaunchShape, Result, Stream};

/// The bytes of a kernel's parameter: members in order, each at its natural alignment, as C++ lays out a struct.
#[derive(Debug, Default, Clone)]
pub struct ParamBytes {
    bytes: Vec<u8>,
    align: usize,
}

impl ParamBytes {
    /// A parameter without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an address or another 64-bit member.
    pub fn u64(self, value: u64) -> Self {
        self.push(&value.to_ne_bytes())
    }

    /// Appends a 32-bit member.
    pub fn u32(self, value: u32) -> Self {
        self.push(&value.to_ne_bytes())
    }

    fn push(mut self, value: &[u8]) -> Self {
        self.align = self.align.max(value.len());
        self.bytes.resize(self.bytes.len().next_multiple_of(value.len()), 0);
        self.bytes.extend_from_slice(value);
        self
    }

    /// The struct's bytes, padded at the end.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(self.align.max(1)), 0);
        self.bytes
    }
}

/// An entry point, loaded on a device.
#[derive(Debug, Clone)]
pub struct Kernel {
    device: Arc<dyn Device>,
    function: Function,
    threads: u32,
    shared: u32,
}

impl Kernel {
    /// Compiles `text` and returns its entry points `entries`, each given with threads per block and dynamic shared bytes.
    pub fn compile<const N: usize>(
        device: &Arc<dyn Device>,
        text: String,
        entries: [(&str, u32, u32); N],
    ) -> Result<[Kernel; N]> {
        let names = entries.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let source = KernelSource { text, entries: names };
        #[cfg(test)]
        tests::assert_compiles_for_gpus(&source);
        let module = device.compile(&source)?;
        let kernels: Result<Vec<Kernel>> = entries
            .iter()
            .map(|&(name, threads, shared)| {
                Ok(Kernel { device: device.clone(), function: module.function(name)?, threads, shared })
            })
            .collect();
        Ok(kernels?.try_into().expect("as many kernels as entries"))
    }

    /// Registers per thread.
    pub fn registers(&self) -> u32 {
        self.function.registers
    }

    /// Bytes of local memory per thread, for spilled registers and indexed arrays.
    pub fn local(&self) -> u32 {
        self.function.local
    }

    /// Threads per block.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// Launches `blocks` blocks; none if `blocks` is 0.
    ///
    /// # Safety
    /// See [`Device::launch`].
    pub unsafe fn launch(&self, blocks: u64, params: ParamBytes, stream: Stream) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let blocks = u32::try_from(blocks).expect("a grid of fewer than 2^32 blocks");
        let shape = LaunchShape { blocks, threads: self.threads, shared: self.shared };
        // SAFETY: the caller's promise.
        unsafe { self.device.launch(&self.function, shape, &params.finish(), stream) }
    }

    /// Launches one thread per item.
    ///
    /// # Safety
    /// See [`Device::launch`].
    pub unsafe fn launch_items(&self, items: u64, params: ParamBytes, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(items.div_ceil(u64::from(self.threads)), params, stream) }
    }

    /// Number of blocks that run concurrently, at most `most`: for kernels that stride over their input.
    pub fn resident_blocks(&self, most: u64) -> Result<u64> {
        let per_processor = self.device.occupancy(&self.function, self.threads, self.shared)?;
        let resident = u64::from(per_processor) * u64::from(self.device.properties().multiprocessors.max(1));
        Ok(resident.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::ParamBytes;
    use crate::device::{KernelSource, cuda::nvrtc};

    /// Checks that a source for the simulated device also compiles as CUDA C++. Does nothing without NVRTC.
    pub(super) fn assert_compiles_for_gpus(source: &KernelSource) {
        if nvrtc::available().is_ok() {
            nvrtc::compile_cubin(source, "sm_90").unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn members_lie_as_in_a_struct() {
        let bytes = ParamBytes::new().u32(1).u64(2).u32(3).finish();
        assert_eq!(bytes.len(), 24);
        assert_eq!((bytes[0], bytes[8], bytes[16]), (1, 2, 3));
    }
}
