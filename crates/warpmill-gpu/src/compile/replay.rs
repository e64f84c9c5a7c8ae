//! Replay of earlier launches: a repeated query that gets the same addresses only has to launch.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::data::items::Resident;
use crate::device::{DevicePtr, LaunchShape};

/// Largest number of address sets for which a program's launches are kept; concurrent runs alternate among a few.
const MOST_REPLAYS: usize = 4;

/// A launch.
#[derive(Debug)]
pub(crate) struct Launch {
    pub kernel: usize,
    pub shape: LaunchShape,
    /// Bytes of the parameter struct.
    pub params: Vec<u8>,
    /// Bytes of segments read.
    pub bytes: u64,
}

/// Addresses of a run's memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Places {
    /// Constants, followed by states.
    pub block: DevicePtr,
    pub states: DevicePtr,
    pub arena: DevicePtr,
    /// Strings in host memory.
    pub hosted: DevicePtr,
    /// Buffers, in the order of the plan.
    pub buffers: Vec<DevicePtr>,
}

/// A program's launches for one set of addresses.
pub(crate) struct Replay {
    places: Places,
    resident: Arc<Resident>,
    pub launches: Vec<Launch>,
}

/// Launches of earlier runs.
#[derive(Default)]
pub(crate) struct Replays(Mutex<Vec<Arc<Replay>>>);

impl Replays {
    /// The launches for these addresses, if known.
    pub fn find(&self, places: &Places, resident: &Arc<Resident>) -> Option<Arc<Replay>> {
        let same = |replay: &&Arc<Replay>| Arc::ptr_eq(&replay.resident, resident) && replay.places == *places;
        self.0.lock().iter().find(same).cloned()
    }

    /// Records launches.
    pub fn keep(&self, places: Places, resident: Arc<Resident>, launches: Vec<Launch>) -> Arc<Replay> {
        let replay = Arc::new(Replay { places, resident, launches });
        let mut replays = self.0.lock();
        replays.retain(|other| Arc::ptr_eq(&other.resident, &replay.resident));
        if replays.len() >= MOST_REPLAYS {
            replays.remove(0);
        }
        replays.push(replay.clone());
        replay
    }
}
