//! The bandwidth at which a device reads its memory.

use std::sync::Arc;

use super::{Bench, Options};
use crate::algorithm::launch::{Kernel, ParamBytes};
use crate::device::{Device, DeviceKind, Result};

const TEXT: &str = include_str!("../../kernels/bench/peak.cuh");

/// The bytes that are read at most, and must be free at least: much more than the L2 cache has.
const BYTES: u64 = 1 << 30;
const LEAST_BYTES: u64 = 256 << 20;

/// Bytes per second, measured by a kernel that reads a buffer from end to end; `None` on the simulated device, whose times mean
/// nothing, and where not enough memory is free.
///
/// # Errors
/// The device's.
pub fn read_bandwidth(device: &Arc<dyn Device>) -> Result<Option<f64>> {
    let bytes = BYTES.min(device.free_memory()? / 4);
    if device.properties().kind == DeviceKind::Sim || bytes < LEAST_BYTES {
        return Ok(None);
    }
    let bench = Bench::new(device, &Options::default())?;
    let (ms, _) = read(&bench, bytes)?;
    Ok(Some(bytes as f64 / (ms / 1e3)))
}

/// Least milliseconds, and the sum that was made last.
fn read(bench: &Bench, bytes: u64) -> Result<(f64, u64)> {
    let [kernel] = Kernel::compile(&bench.device, TEXT.to_string(), [("peak_read", 512, 0)])?;
    let (data, sum) = (bench.buffer(bytes)?, bench.buffer(256)?);
    let pairs = bytes / 16;
    let clear = || bench.fill(&sum, 0, 8);
    let params = || ParamBytes::new().u64(data.ptr).u64(pairs).u64(sum.ptr);
    let times = bench.measure_kernel(&kernel, pairs.div_ceil(4 * 512), clear, params)?;
    Ok((times.min_ms, bench.read(sum.ptr, 1)?[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimOptions};

    #[test]
    fn all_words_are_read() {
        let device: Arc<dyn Device> = Arc::new(SimDevice::new(SimOptions::default()).unwrap());
        let bench = Bench::new(&device, &Options { runs: 1, ..Options::default() }).unwrap();
        // Buffers are filled with 0xA5: each pair of words gives zero, until one is changed.
        let (_, sum) = read(&bench, 100 * 16).unwrap();
        assert_eq!(sum, 0);
        assert_eq!(read_bandwidth(&device).unwrap(), None);
    }
}
