//! Rows sent between devices in the middle of a query: each device runs a first program on its part of the data, divides the rows by a key, and
//! continues with the rows of its own part of the keys, from all devices, in a second program.
//!
//! A device holds the memory of its first program until all others have copied their rows. It runs the second program meanwhile, for which it
//! requests memory without waiting: if there is none, the device and with it the query's parts fail, since programs that it would wait for may wait
//! for this one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpmill_eval::ExecError;
use warpmill_eval::cancel::CancelToken;
use warpmill_ir::Route;

use super::peers::PeerGroup;
use crate::data::items::Resident;
use crate::device::DevicePtr;
use crate::device::exchange::{Place, Traffic};
use crate::memory::error::{Failure, Result};
use crate::memory::mirrors::Mirrors;

/// Limit of the wait for devices in a queue, perhaps behind a program that waits for this one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval at which a waiting device checks for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(10);

/// Rows of one device, divided into parts.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    /// Address and element bytes of each array.
    pub arrays: Vec<(DevicePtr, u64)>,
    /// The first row of each part, and the number of rows.
    pub starts: Vec<u64>,
    /// Number of input rows of the first program's aggregates.
    pub input: u64,
    /// The memory that strings point into, if there are any: sent rows contain addresses in it.
    pub texts: Option<Arc<Texts>>,
}

/// Memory of a device that strings of its rows point into; other devices read it over their links.
pub(crate) struct Texts {
    /// Host originals of strings made by the run.
    pub own: Mirrors,
    /// Host originals of strings of the data.
    pub resident: Arc<Resident>,
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Texts").finish_non_exhaustive()
    }
}

impl Texts {
    /// All host originals.
    pub fn mirrors(&self) -> impl Iterator<Item = &Mirrors> {
        std::iter::once(&self.own).chain(self.resident.mirrors())
    }
}

/// Progress of a device.
#[derive(Debug, Clone)]
enum Progress {
    Coming,
    /// In the queue since this time.
    Waiting(Instant),
    Running,
    Sent(Arc<Sent>),
    Failed,
}

/// The shuffle of one run of a query.
#[derive(Debug)]
pub struct Shuffle {
    group: Arc<PeerGroup>,
    route: Route,
    /// Number of input rows of all first programs together from which accumulators could overflow.
    safe_rows: Option<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    progress: Vec<Progress>,
    /// By device: whether it has begun to copy from others.
    is_copying: Vec<bool>,
    /// By device: whether it has finished copying.
    is_done: Vec<bool>,
}

impl Shuffle {
    /// A shuffle among all devices of a group.
    pub fn new(group: Arc<PeerGroup>, route: Route, safe_rows: Option<u64>) -> Arc<Self> {
        let devices = group.len();
        let state = State {
            progress: vec![Progress::Coming; devices],
            is_copying: vec![false; devices],
            is_done: vec![false; devices],
        };
        Arc::new(Self { group, route, safe_rows, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The part of device `number` of the group.
    pub fn part(self: &Arc<Self>, number: usize) -> ShufflePart {
        ShufflePart { shuffle: self.clone(), number }
    }
}

/// A device's part of a shuffle.
#[derive(Debug, Clone)]
pub struct ShufflePart {
    shuffle: Arc<Shuffle>,
    number: usize,
}

/// Rows on several devices, to be copied to one.
#[derive(Debug)]
pub(crate) struct Received {
    /// The group of devices.
    pub group: Arc<PeerGroup>,
    /// Number in the group of the receiving device.
    pub number: usize,
    /// Number of rows.
    pub rows: u64,
    /// By array: its pieces, with their bytes.
    pub arrays: Vec<Vec<(Place, u64)>>,
    /// By array: bytes of an element.
    pub widths: Vec<u64>,
    /// Memory that strings point into.
    pub texts: Vec<Arc<Texts>>,
}

impl Received {
    /// Bytes from each device.
    pub fn traffic(&self) -> Traffic {
        let mut traffic = Traffic::new(self.group.len());
        for (place, bytes) in self.arrays.iter().flatten().filter(|(place, _)| place.device != self.number) {
            traffic.add(place.device, self.number, *bytes);
        }
        traffic
    }
}

impl ShufflePart {
    /// Whether every device can read the memory of all others.
    pub(crate) fn is_direct(&self) -> bool {
        self.shuffle.group.staged_links().is_empty()
    }

    pub(crate) fn route(&self) -> &Route {
        &self.shuffle.route
    }

    /// Whether the device receives rows: under `Route::First` only the first does.
    pub(super) fn goes_on(&self) -> bool {
        self.shuffle.route != Route::First || self.number == 0
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.shuffle.group.len()
    }

    fn set(&self, progress: Progress) {
        self.shuffle.state.lock().progress[self.number] = progress;
        self.shuffle.changed.notify_all();
    }

    /// Whether others may have seen rows of this device, or its failure.
    pub(super) fn has_sent(&self) -> bool {
        matches!(self.shuffle.state.lock().progress[self.number], Progress::Sent(_) | Progress::Failed)
    }

    /// Reports that the device waits for its turn.
    pub(super) fn wait_for_turn(&self) {
        self.set(Progress::Waiting(Instant::now()));
    }

    /// Reports that the device runs, and so will end without waiting.
    pub(super) fn begin(&self) {
        self.set(Progress::Running);
    }

    /// Offers the device's rows, which others copy until [`Self::wait_until_copied`] returns.
    pub(super) fn send(&self, sent: Sent) {
        self.set(Progress::Sent(Arc::new(sent)));
    }

    /// Waits for the rows of all devices, and returns the places of this device's part; they stay valid until it leaves.
    ///
    /// # Errors
    /// A failure of another device, or one that is not admitted; too many rows for the accumulators; cancellation.
    pub(super) fn receive(&self, cancel: &CancelToken) -> Result<Received> {
        let sent = self.wait_for_all(cancel)?;
        let input: u64 = sent.iter().map(|sent| sent.input).sum();
        if let Some(safe) = self.shuffle.safe_rows.filter(|safe| input > *safe) {
            return Err(ExecError::NeedsWideSums { safe }.into());
        }
        let rows_of = |sent: &Sent| (sent.starts[self.number], sent.starts[self.number + 1]);
        let rows = sent.iter().map(|sent| rows_of(sent)).map(|(start, end)| end - start).sum();
        let piece = |(device, sent): (usize, &Arc<Sent>), array: usize| {
            let ((at, width), (start, end)) = (sent.arrays[array], rows_of(sent));
            (Place { device, at: at + start * width }, (end - start) * width)
        };
        let count = sent.first().map_or(0, |sent| sent.arrays.len());
        let arrays = (0..count).map(|array| sent.iter().enumerate().map(|it| piece(it, array)).collect()).collect();
        let widths = sent.first().map_or(vec![], |sent| sent.arrays.iter().map(|(_, width)| *width).collect());
        let texts = sent.iter().filter_map(|sent| sent.texts.clone()).collect();
        Ok(Received { group: self.shuffle.group.clone(), number: self.number, rows, arrays, widths, texts })
    }

    fn wait_for_all(&self, cancel: &CancelToken) -> Result<Vec<Arc<Sent>>> {
        let mut state = self.shuffle.state.lock();
        loop {
            let mut all = vec![];
            for progress in &state.progress {
                match progress {
                    Progress::Sent(sent) => all.push(sent.clone()),
                    Progress::Failed => return Err(Failure::Peer("another device has failed")),
                    Progress::Waiting(since) if since.elapsed() >= PATIENCE => {
                        return Err(Failure::Peer("another device is busy with other queries"));
                    }
                    Progress::Coming | Progress::Waiting(_) | Progress::Running => {}
                }
            }
            if all.len() == state.progress.len() {
                state.is_copying[self.number] = true;
                return Ok(all);
            }
            cancel.check()?;
            self.shuffle.changed.wait_for(&mut state, CANCEL_POLL);
        }
    }

    /// Leaves the shuffle, and waits until no device copies the rows any more: their memory must not be reused before.
    ///
    /// Once a device has received, all others have sent, and end without waiting. A device that has not received withdraws its rows: others may still
    /// queue behind programs that wait for this one.
    pub(super) fn wait_until_copied(&self) {
        self.leave();
        let mut state = self.shuffle.state.lock();
        if !state.is_copying[self.number] {
            state.progress[self.number] = Progress::Failed;
        }
        let has_received = state.is_copying[self.number];
        let may_copy =
            |state: &State, device: usize| !state.is_done[device] && (has_received || state.is_copying[device]);
        while (0..state.is_done.len()).any(|device| may_copy(&state, device)) {
            self.shuffle.changed.wait(&mut state);
        }
    }

    /// Reports that the device copies nothing more, and, if it has sent nothing, will send nothing.
    pub fn leave(&self) {
        let mut state = self.shuffle.state.lock();
        if !matches!(state.progress[self.number], Progress::Sent(_)) {
            state.progress[self.number] = Progress::Failed;
        }
        state.is_done[self.number] = true;
        drop(state);
        self.shuffle.changed.notify_all();
    }
}

/// A guard for rows that others may copy: drop waits for them.
pub(super) struct Lent<'a>(pub &'a ShufflePart);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.wait_until_copied();
    }
}

#[cfg(test)]
mod tests;
