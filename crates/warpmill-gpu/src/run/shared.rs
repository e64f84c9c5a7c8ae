//! The state that all runs of an executor share.

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

/// The device that programs are run on, what is in its memory, and what runs leave for the next.
pub struct Shared {
    /// Before the store: idle lanes go before the memory that they worked on.
    pub(crate) admission: Admission,
    pub(crate) store: Store,
    /// The lessons about data that passes through.
    pub(crate) paths: Paths,
    peak: OnceLock<Option<f64>>,
    /// Made when they are first needed.
    openers: Mutex<Option<Openers>>,
    batches: Mutex<Option<Batches>>,
    parquet: Mutex<Option<Decoder>>,
    scatter: Mutex<Option<Scatter>>,
}

impl Shared {
    /// On `device`, of which at most `memory` bytes are used.
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

    /// Bytes per second that kernels can read of the device's memory, measured when first asked for; `None` on the simulated
    /// device, and where measuring fails.
    pub(crate) fn peak_bandwidth(&self) -> Option<f64> {
        *self.peak.get_or_init(|| read_bandwidth(&self.store.device).ok().flatten())
    }

    /// The device's rates in the hardware profile.
    pub(crate) fn device_rates(&self) -> DeviceRates {
        rates_of(self.store.device.properties())
    }

    /// The helpers that make segments readable when they have arrived.
    pub(crate) fn openers(&self) -> Result<Openers> {
        let mut openers = self.openers.lock();
        match &*openers {
            Some(known) => Ok(known.clone()),
            None => Ok(openers.insert(Openers::compile(&self.store.device)?).clone()),
        }
    }

    /// The decompressor through the vendor's library.
    pub(crate) fn batches(&self) -> Result<Batches> {
        let mut batches = self.batches.lock();
        match &*batches {
            Some(known) => Ok(known.clone()),
            None => Ok(batches.insert(Batches::compile(&self.store.device)?).clone()),
        }
    }

    /// The decoder of pages of Parquet that have arrived.
    pub(crate) fn parquet(&self) -> Result<Decoder> {
        let mut decoder = self.parquet.lock();
        match &*decoder {
            Some(known) => Ok(known.clone()),
            None => Ok(decoder.insert(Decoder::compile(&self.store.device)?).clone()),
        }
    }

    /// The kernels that divide rows into the parts of devices.
    pub(crate) fn scatter(&self) -> Result<Scatter> {
        let mut scatter = self.scatter.lock();
        match &*scatter {
            Some(known) => Ok(known.clone()),
            None => Ok(scatter.insert(Scatter::compile(&self.store.device)?).clone()),
        }
    }

    /// Bytes of page-locked memory that kernels may reach: what copies of data leave of `limit`, or, where that is 0, half of what the host
    /// has.
    pub(crate) fn room_on_host(&self, limit: u64) -> u64 {
        match limit {
            0 => available_host_memory().map_or(u64::MAX, |free| free / 2 + self.store.mapped.bytes()),
            limit => limit.saturating_sub(self.store.pinned.bytes()),
        }
    }
}
