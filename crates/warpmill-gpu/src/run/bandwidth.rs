//! The bandwidth at which a device reads its memory.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::{Device, DeviceKind, DevicePtr, Result, Stream};

const TEXT: &str = include_str!("../../kernels/peak.cuh");

/// Threads of a block, and least number of pairs of words that each thread reads.
const THREADS: u32 = 512;
const PAIRS: u64 = 4;

/// Largest number of bytes read, and least number of free bytes: much more than the L2 cache holds.
const BYTES: u64 = 1 << 30;
const LEAST_BYTES: u64 = 256 << 20;

/// Timed runs, after one to warm up.
const RUNS: usize = 5;

/// Measures the read bandwidth in bytes per second with a kernel that reads a buffer from end to end. `None` on the simulated device, whose times
/// mean nothing, and if too little memory is free.
///
/// # Errors
/// The device's.
pub(crate) fn read_bandwidth(device: &Arc<dyn Device>) -> Result<Option<f64>> {
    let bytes = BYTES.min(device.free_memory()? / 4);
    if device.properties().kind == DeviceKind::Sim || bytes < LEAST_BYTES {
        return Ok(None);
    }
    let (ms, _) = read(device, bytes, RUNS)?;
    Ok(Some(bytes as f64 / (ms / 1e3)))
}

/// A stream and buffers for measurements, freed on drop.
struct Bench<'a> {
    device: &'a dyn Device,
    stream: Stream,
    buffers: Vec<DevicePtr>,
}

impl Bench<'_> {
    /// Allocates `bytes` bytes, poisoned.
    fn buffer(&mut self, bytes: u64) -> Result<DevicePtr> {
        let bytes = bytes.max(256).next_multiple_of(256);
        let at = self.device.allocate(bytes)?;
        self.buffers.push(at);
        // SAFETY: just allocated.
        unsafe { self.device.fill(at, 0xA5, bytes, self.stream)? };
        Ok(at)
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        // An error surfaces in the next call; the memory must go back either way.
        let _ = self.device.synchronize(self.stream);
        for at in self.buffers.drain(..) {
            // SAFETY: allocated by `Bench::buffer`; all work is queued on the one stream, which is idle.
            unsafe { self.device.free(at) };
        }
        self.device.destroy_stream(self.stream);
    }
}

/// The shortest time of `runs` runs in milliseconds, and the last sum. Between runs the L2 cache is flushed.
fn read(device: &Arc<dyn Device>, bytes: u64, runs: usize) -> Result<(f64, u64)> {
    let [kernel] = Kernel::compile(device, TEXT.to_string(), [("peak_read", THREADS, 0)])?;
    let mut bench = Bench { device: &**device, stream: device.stream()?, buffers: vec![] };
    let (stream, cached) = (bench.stream, 4 * device.properties().l2_bytes.max(1 << 20));
    let (data, other, sum) = (bench.buffer(bytes)?, bench.buffer(cached)?, bench.buffer(256)?);
    let launch = |at: DevicePtr, bytes: u64| {
        let pairs = bytes / 16;
        let blocks = kernel.resident_blocks(pairs.div_ceil(PAIRS * u64::from(THREADS)).max(1))?;
        // SAFETY: the parameters that the kernel declares, with buffers of the sizes that they state.
        unsafe { kernel.launch(blocks, ParamBytes::new().u64(at).u64(pairs).u64(sum), stream) }
    };
    let mut least = f64::INFINITY;
    for run in 0..=runs {
        launch(other, cached)?;
        // SAFETY: the buffer has more than 8 bytes.
        unsafe { device.fill(sum, 0, 8, stream)? };
        let start = device.record(stream)?;
        launch(data, bytes)?;
        let end = device.record(stream)?;
        device.synchronize(stream)?;
        if run > 0 {
            least = least.min(f64::from(device.elapsed_ms(start, end)?));
        }
        device.destroy_event(start);
        device.destroy_event(end);
    }
    let mut made = [0; 8];
    // SAFETY: the buffer has more than 8 bytes; the copy ends before they are used.
    unsafe { device.copy_to_host(&mut made, sum, stream)? };
    device.synchronize(stream)?;
    Ok((least, u64::from_le_bytes(made)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimOptions};

    #[test]
    fn all_words_are_read() {
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::default()).unwrap());
        // Buffers are filled with 0xA5: each pair of words gives zero, until one is changed.
        let (_, sum) = read(&device, 100 * 16, 1).unwrap();
        assert_eq!(sum, 0);
        assert_eq!(read_bandwidth(&device).unwrap(), None);
    }
}
