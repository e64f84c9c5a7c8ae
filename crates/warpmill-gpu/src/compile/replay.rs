//! Launches of earlier runs: a query that runs again finds its memory where it was, and only has to launch.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::data::items::Resident;
use crate::device::{DevicePtr, LaunchShape};

/// Places in memory for which a program's launches are kept: programs that run at once take turns with a few.
const MOST_REPLAYS: usize = 4;

/// A launch.
#[derive(Debug)]
pub(crate) struct Launch {
    pub kernel: usize,
    pub shape: LaunchShape,
    /// The bytes of the parameter.
    pub params: Vec<u8>,
    /// Bytes of the segments that it reads.
    pub bytes: u64,
}

/// The place where a run's memory is.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Places {
    /// Constants, and behind them the states.
    pub block: DevicePtr,
    pub states: DevicePtr,
    pub arena: DevicePtr,
    /// Strings in the host's memory.
    pub hosted: DevicePtr,
    /// As in the plan.
    pub buffers: Vec<DevicePtr>,
}

/// The launches of a program for one place of its memory.
pub(crate) struct Replay {
    places: Places,
    resident: Arc<Resident>,
    pub launches: Vec<Launch>,
}

/// The launches of earlier runs.
#[derive(Default)]
pub(crate) struct Replays(Mutex<Vec<Arc<Replay>>>);

impl Replays {
    /// The launches for `places` and `resident`, if there are some.
    pub fn find(&self, places: &Places, resident: &Arc<Resident>) -> Option<Arc<Replay>> {
        let same = |replay: &&Arc<Replay>| Arc::ptr_eq(&replay.resident, resident) && replay.places == *places;
        self.0.lock().iter().find(same).cloned()
    }

    /// Keeps launches.
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
