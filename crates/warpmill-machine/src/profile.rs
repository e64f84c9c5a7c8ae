//! The rates of a machine's parts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Curve, Machine};

/// The rates of a machine: of its processor, the drive that tables are on, and its devices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareProfile {
    /// The machine of the measurements.
    pub machine: Machine,
    /// Rates of the CPU back end, by thread.
    pub cpu: CpuRates,
    /// Bandwidth of file reads that bypass the page cache.
    pub storage: Curve,
    /// Rates of measured devices.
    pub devices: Vec<DeviceRates>,
    /// The measured rates of processor and drive; the others are assumptions.
    pub measured: BTreeSet<Rate>,
}

/// A rate that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// [`CpuRates::values`].
    Values,
    /// [`CpuRates::near`].
    Near,
    /// [`CpuRates::far`].
    Far,
    /// [`CpuRates::merge`].
    Merge,
    /// [`CpuRates::copy`] and [`CpuRates::copy_limit`].
    Copy,
    /// [`CpuRates::codecs`].
    HostCodecs,
    /// [`HardwareProfile::storage`].
    Storage,
    /// [`DeviceRates::link`].
    Link,
    /// [`DeviceRates::back`].
    Back,
    /// [`DeviceRates::memory`].
    Memory,
    /// [`DeviceRates::codecs`].
    DeviceCodecs,
}

/// The CPU back end's rates, per thread and second unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuRates {
    /// Values decoded and filtered.
    pub values: f64,
    /// Rows looked up in, or inserted into, a hash table that fits the processor's caches.
    pub near: f64,
    /// The same for larger tables.
    pub far: f64,
    /// Bytes of the largest table that fits the caches.
    pub cache_bytes: u64,
    /// Number of threads up to which building a large table scales: more threads wait for memory (16 threads built one of 10M rows in about 130 ms,
    /// two threads in about 170 ms).
    pub builders: usize,
    /// Seconds to merge the states of a group.
    pub merge: f64,
    /// Bytes copied from memory to memory.
    pub copy: f64,
    /// Largest number of bytes that all threads together copy.
    pub copy_limit: f64,
    /// Decompressed bytes, by codec.
    pub codecs: CodecRates,
}

/// Average encoded bytes of a value in the columns that TPC-H and SSB read.
const ENCODED_VALUE: f64 = 1.2;

/// Average plain bytes of a value in the same columns.
const PLAIN_VALUE: f64 = 2.4;

impl CpuRates {
    /// Encoded bytes per second that a thread decodes and processes.
    pub fn encoded_bytes(&self) -> f64 {
        self.values * ENCODED_VALUE
    }

    /// Plain bytes per second that a thread processes.
    pub fn plain_bytes(&self) -> f64 {
        self.values * PLAIN_VALUE
    }

    /// Bytes per second that `threads` threads copy.
    pub fn copying(&self, threads: usize) -> f64 {
        (self.copy * threads.max(1) as f64).min(self.copy_limit)
    }
}

/// Decompressed bytes per second, by codec.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecRates {
    /// LZ4.
    pub lz4: f64,
    /// Snappy.
    pub snappy: f64,
    /// Zstandard.
    pub zstd: f64,
    /// Deflate.
    pub deflate: f64,
    /// GDeflate, the GPU-friendly format of Deflate.
    pub gdeflate: f64,
}

/// The rates of a device and of its link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRates {
    /// The device's name: devices of one name are assumed to be alike.
    pub name: String,
    /// Bandwidth of copies from the host's page-locked memory to the device.
    pub link: Curve,
    /// Bandwidth of copies back to the host.
    pub back: Curve,
    /// Bytes per second that kernels read from device memory.
    pub memory: f64,
    /// Plain bytes per second that a query's kernels process.
    pub plain_bytes: f64,
    /// Share of the link's bandwidth that kernels reach for scattered single values in host memory.
    pub scattered: f64,
    /// Decompressed bytes per second, by codec.
    pub codecs: CodecRates,
    /// Bytes per second that a single warp decompresses.
    pub warp: f64,
    /// The measured rates of the device.
    pub measured: BTreeSet<Rate>,
}

impl DeviceRates {
    /// Assumed rates of a GPU with this name: an H200's.
    pub fn assumed(name: &str) -> Self {
        Self {
            name: name.to_string(),
            link: Curve::flat(50e9),
            back: Curve::flat(50e9),
            memory: 2e12,
            plain_bytes: 1e12,
            scattered: 1.0 / 3.0,
            codecs: CodecRates { lz4: 40e9, snappy: 40e9, zstd: 30e9, deflate: 30e9, gdeflate: 60e9 },
            // A page of a megabyte took 60 to 90 ms on an H200.
            warp: 15e6,
            measured: BTreeSet::new(),
        }
    }

    /// Assumed rates of the simulated device: threads of the host with slow kernels; library calls run at the host's rate.
    pub fn simulated() -> Self {
        Self {
            link: Curve::flat(5e9),
            back: Curve::flat(5e9),
            plain_bytes: 40e6,
            codecs: CodecRates { lz4: 20e6, snappy: 20e6, zstd: 0.9e9, deflate: 0.5e9, gdeflate: 0.3e9 },
            warp: f64::INFINITY,
            ..Self::assumed("simulated device")
        }
    }
}

impl Default for HardwareProfile {
    /// Assumptions: this machine, an NVMe drive, no device.
    fn default() -> Self {
        let cpu = CpuRates {
            values: 1e9,
            near: 100e6,
            far: 15e6,
            cache_bytes: 32 << 20,
            builders: 6,
            merge: 0.5e-6,
            copy: 4e9,
            copy_limit: 40e9,
            codecs: CodecRates { lz4: 2e9, snappy: 1.5e9, zstd: 0.9e9, deflate: 0.5e9, gdeflate: 0.3e9 },
        };
        let (devices, measured) = (vec![], BTreeSet::new());
        Self { machine: Machine::here(), cpu, storage: Curve::flat(2.2e9), devices, measured }
    }
}

impl HardwareProfile {
    /// The rates of the device with this name, or assumptions.
    pub fn device(&self, name: &str) -> DeviceRates {
        self.devices.iter().find(|rates| rates.name == name).cloned().unwrap_or_else(|| DeviceRates::assumed(name))
    }

    /// Replaces the rates of the device with the same name.
    pub fn put_device(&mut self, rates: DeviceRates) {
        self.devices.retain(|known| known.name != rates.name);
        self.devices.push(rates);
    }

    /// The reason why the rates cannot be used: one is not a positive number.
    pub(crate) fn flaw(&self) -> Option<String> {
        let codecs = |of: &str, rates: &CodecRates| {
            let CodecRates { lz4, snappy, zstd, deflate, gdeflate } = *rates;
            [("lz4", lz4), ("snappy", snappy), ("zstd", zstd), ("deflate", deflate), ("gdeflate", gdeflate)]
                .map(|(codec, rate)| (format!("{of}.codecs.{codec}"), rate))
        };
        let mut all: Vec<(String, f64)> = vec![
            ("cpu.values".into(), self.cpu.values),
            ("cpu.near".into(), self.cpu.near),
            ("cpu.far".into(), self.cpu.far),
            ("cpu.builders".into(), self.cpu.builders as f64),
            ("cpu.merge".into(), self.cpu.merge),
            ("cpu.copy".into(), self.cpu.copy),
            ("cpu.copy_limit".into(), self.cpu.copy_limit),
            ("storage.bandwidth".into(), self.storage.bandwidth),
        ];
        all.extend(codecs("cpu", &self.cpu.codecs));
        for device in &self.devices {
            let name = &device.name;
            all.extend([
                (format!("{name}: link.bandwidth"), device.link.bandwidth),
                (format!("{name}: back.bandwidth"), device.back.bandwidth),
                (format!("{name}: memory"), device.memory),
                (format!("{name}: plain_bytes"), device.plain_bytes),
                (format!("{name}: scattered"), device.scattered),
                (format!("{name}: warp"), device.warp),
            ]);
            all.extend(codecs(name, &device.codecs));
        }
        let wrong = all.into_iter().find(|(_, rate)| !(*rate > 0.0 && rate.is_finite()));
        let halves =
            [self.storage].into_iter().chain(self.devices.iter().flat_map(|device| [device.link, device.back]));
        let mut halves = halves.map(|curve| curve.half);
        match wrong {
            Some((name, rate)) => Some(format!("{name} is {rate}, which is no positive number")),
            None if halves.any(|half| !(half >= 0.0 && half.is_finite())) => Some("a curve's half is negative".into()),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_one_name_are_alike() {
        let mut profile = HardwareProfile::default();
        assert_eq!(profile.device("GPU"), DeviceRates::assumed("GPU"));
        for link in [10e9, 20e9] {
            profile.put_device(DeviceRates { link: Curve::flat(link), ..DeviceRates::assumed("GPU") });
        }
        assert_eq!((profile.device("GPU").link.bandwidth, profile.devices.len()), (20e9, 1));
        assert_eq!(profile.device("other").link.bandwidth, 50e9);
    }

    #[test]
    fn rates_that_are_no_numbers_are_flaws() {
        assert_eq!(HardwareProfile::default().flaw(), None);
        let broken = |change: &dyn Fn(&mut HardwareProfile)| {
            let mut profile = HardwareProfile::default();
            profile.put_device(DeviceRates::assumed("GPU"));
            change(&mut profile);
            profile.flaw().unwrap_or_default()
        };
        assert!(broken(&|profile| profile.cpu.far = 0.0).starts_with("cpu.far is 0"));
        assert!(broken(&|profile| profile.cpu.codecs.zstd = f64::NAN).starts_with("cpu.codecs.zstd"));
        assert!(broken(&|profile| profile.devices[0].memory = -1.0).starts_with("GPU: memory is -1"));
        assert!(broken(&|profile| profile.storage.half = -1.0).contains("half"));
    }

    #[test]
    fn threads_copy_up_to_a_limit() {
        let cpu = HardwareProfile::default().cpu;
        assert_eq!((cpu.copying(0), cpu.copying(2), cpu.copying(100)), (4e9, 8e9, 40e9));
    }
}
