//! Measures rates of a device for the hardware profile.

use std::sync::Arc;
use std::time::Instant;

use warpmill_machine::{Curve, DeviceRates, Rate};

use super::bandwidth::read_bandwidth;
use crate::device::{Device, DeviceKind, DevicePtr, PinnedBuffer, Result, Stream};

/// Sizes of the copies in bytes.
const COPIES: [usize; 7] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

/// Timed copies of each size. The fastest counts: other work only makes copies slower.
const RUNS: usize = 7;

/// The direction of a copy.
#[derive(Clone, Copy)]
enum Way {
    ToDevice,
    ToHost,
}

/// Measures the rates of a device: copies between its memory and page-locked host memory, as a function of size, call overhead included; and reads of
/// its memory. Other rates stay assumptions.
///
/// # Errors
/// The device's: no memory, a lost device.
pub fn device_rates(device: &Arc<dyn Device>) -> Result<DeviceRates> {
    let properties = device.properties();
    if properties.kind == DeviceKind::Sim {
        return Ok(DeviceRates::simulated());
    }
    let mut rates = DeviceRates::assumed(&properties.name);
    let largest = COPIES[COPIES.len() - 1];
    let mut copier = Copier { device: &**device, stream: device.stream()?, at: None, host: device.pinned(largest)? };
    copier.at = Some(device.allocate(largest as u64)?);
    for (way, curve, rate) in [(Way::ToDevice, &mut rates.link, Rate::Link), (Way::ToHost, &mut rates.back, Rate::Back)]
    {
        let times = COPIES.iter().map(|&bytes| Ok((bytes as f64, copier.fastest(way, bytes)?)));
        if let Some(found) = Curve::fit(&times.collect::<Result<Vec<_>>>()?) {
            *curve = found;
            rates.measured.insert(rate);
        }
    }
    drop(copier);
    if let Some(found) = read_bandwidth(device)? {
        rates.memory = found;
        rates.measured.insert(Rate::Memory);
    }
    Ok(rates)
}

/// A stream and memory on both sides of the link, freed on drop.
struct Copier<'a> {
    device: &'a dyn Device,
    stream: Stream,
    at: Option<DevicePtr>,
    host: PinnedBuffer,
}

impl Copier<'_> {
    /// Seconds of the fastest copy of `bytes` bytes, after one to warm up.
    fn fastest(&mut self, way: Way, bytes: usize) -> Result<f64> {
        let Some(at) = self.at else { return Ok(f64::INFINITY) };
        let mut least = f64::INFINITY;
        for run in 0..=RUNS {
            let begun = Instant::now();
            // SAFETY: both sides have as many bytes, and live until the stream is synchronized below.
            unsafe {
                match way {
                    Way::ToDevice => self.device.copy_to_device(at, &self.host[..bytes], self.stream)?,
                    Way::ToHost => self.device.copy_to_host(&mut self.host[..bytes], at, self.stream)?,
                }
            }
            self.device.synchronize(self.stream)?;
            if run > 0 {
                least = least.min(begun.elapsed().as_secs_f64());
            }
        }
        Ok(least)
    }
}

impl Drop for Copier<'_> {
    fn drop(&mut self) {
        // An error surfaces in the next call; the memory must go back either way.
        let _ = self.device.synchronize(self.stream);
        if let Some(at) = self.at.take() {
            // SAFETY: allocated by `device_rates`; the one stream that used it is idle.
            unsafe { self.device.free(at) };
        }
        self.device.destroy_stream(self.stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimOptions};

    fn simulated() -> Arc<dyn Device> {
        Arc::new(SimDevice::new(SimOptions::default()).unwrap())
    }

    #[test]
    fn times_of_the_simulated_device_mean_nothing() {
        assert_eq!(device_rates(&simulated()).unwrap(), DeviceRates::simulated());
    }

    #[test]
    fn copies_are_timed_in_both_directions() {
        let device = simulated();
        let mut copier =
            Copier { device: &*device, stream: device.stream().unwrap(), at: None, host: device.pinned(4096).unwrap() };
        copier.at = Some(device.allocate(4096).unwrap());
        copier.host.fill(7);
        assert!(copier.fastest(Way::ToDevice, 4096).unwrap() < 1.0);
        copier.host.fill(0);
        assert!(copier.fastest(Way::ToHost, 4096).unwrap() < 1.0);
        assert!(copier.host.iter().all(|&byte| byte == 7));
    }
}
