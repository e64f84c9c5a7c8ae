//! State that all runs of an executor share.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use warpmill_machine::DeviceRates;

use super::bandwidth::read_bandwidth;
use super::scatter::Scatter;
use crate::data::admission::Admission;
use crate::data::parquet::Decoder;
use crate::data::paths::Paths;
use crate::data::store::Store;
use crate::data::stream::batches::Batches;
use crate::data::stream::open::Openers;
use crate::device::cuda::pinned::available_host_memory;
use crate::device::{Device, DeviceKind, DeviceProperties};
use crate::memory::error::Result;

/// The rates of a device in the hardware profile.
fn rates_of(properties: &DeviceProperties) -> DeviceRates {
    match properties.kind {
        DeviceKind::Cuda => warpmill_machine::current().device(&properties.name),
        DeviceKind::Sim => DeviceRates::simulated(),
    }
}

/// A device, the data in its memory, and objects that runs reuse.
pub struct Shared {
    /// Declared before the store: idle lanes are dropped before the memory that they worked on.
    pub(crate) admission: Admission,
    pub(crate) store: Store,
    /// Measurements of streamed data.
    pub(crate) paths: Paths,
    peak: OnceLock<Option<f64>>,
    /// Kernels compiled at first use.
    openers: Mutex<Option<Openers>>,
    batches: Mutex<Option<Batches>>,
    parquet: Mutex<Option<Decoder>>,
    scatter: Mutex<Option<Scatter>>,
}

impl Shared {
    /// State for `device`, using at most `memory` bytes.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn new(device: Arc<dyn Device>, memory: u64) -> Result<Self> {
        let properties = device.properties().clone();
        Ok(Self {
            admission: Admission::default(),
            store: Store::new(device, memory)?,
            paths: Paths::new(properties.kind, &rates_of(&properties)),
            peak: OnceLock::new(),
            openers: Mutex::default(),
            batches: Mutex::default(),
            parquet: Mutex::default(),
            scatter: Mutex::default(),
        })
    }

    /// Measured read bandwidth of device memory in bytes per second, measured at the first call; `None` on the simulated device, and if the
    /// measurement fails.
    pub(crate) fn peak_bandwidth(&self) -> Option<f64> {
        *self.peak.get_or_init(|| read_bandwidth(&self.store.device).ok().flatten())
    }

    /// The device's rates in the hardware profile.
    pub(crate) fn device_rates(&self) -> DeviceRates {
        rates_of(self.store.device.properties())
    }

    /// The kernels that decompress and expand segments in a slot.
    pub(crate) fn openers(&self) -> Result<Openers> {
        let mut openers = self.openers.lock();
        match &*openers {
            Some(known) => Ok(known.clone()),
            None => Ok(openers.insert(Openers::compile(&self.store.device)?).clone()),
        }
    }

    /// The kernels and library for batch decompression.
    pub(crate) fn batches(&self) -> Result<Batches> {
        let mut batches = self.batches.lock();
        match &*batches {
            Some(known) => Ok(known.clone()),
            None => Ok(batches.insert(Batches::compile(&self.store.device)?).clone()),
        }
    }

    /// The kernels that decode Parquet pages.
    pub(crate) fn parquet(&self) -> Result<Decoder> {
        let mut decoder = self.parquet.lock();
        match &*decoder {
            Some(known) => Ok(known.clone()),
            None => Ok(decoder.insert(Decoder::compile(&self.store.device)?).clone()),
        }
    }

    /// The kernels that divide rows into parts for devices.
    pub(crate) fn scatter(&self) -> Result<Scatter> {
        let mut scatter = self.scatter.lock();
        match &*scatter {
            Some(known) => Ok(known.clone()),
            None => Ok(scatter.insert(Scatter::compile(&self.store.device)?).clone()),
        }
    }

    /// Bytes of page-locked memory that kernels may access: `limit` less the copies of data, or, without a limit, half of the host's free memory.
    pub(crate) fn room_on_host(&self, limit: u64) -> u64 {
        match limit {
            0 => available_host_memory().map_or(u64::MAX, |free| free / 2 + self.store.mapped.bytes()),
            limit => limit.saturating_sub(self.store.pinned.bytes()),
        }
    }
}
