//! Data that devices which run parts of one query bring to each other, in the place of reading it from the host each for itself.
//!
//! The planned exchange of data before the parts begin. A device loads what is planned to come from the host, lets others find it, and only
//! then waits for what is planned to come from them: nobody waits for a device that waits itself. What does not come (a device that failed,
//! has not begun, or has dropped it) is read from the host.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpmill_eval::cancel::CancelToken;
use warpmill_format::TableSnapshot;

use super::shared::Shared;
use crate::device::exchange::{Place, Traffic};
use crate::device::group::{DeviceGroup, Link};
use crate::memory::error::Result;
use crate::memory::regions::{Key, KeyMap, Owner};

/// The time that a device waits for those that have not begun: they may wait for their turn behind a program that waits for this one.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which a device that waits looks whether its query was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(10);

/// Executors of one process that bring data to each other.
pub struct PeerGroup {
    members: Vec<Arc<Shared>>,
    devices: DeviceGroup,
}

impl std::fmt::Debug for PeerGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerGroup").field("devices", &self.devices).finish_non_exhaustive()
    }
}

impl PeerGroup {
    /// Of these members, over direct links, or, if it is to be `staged`, through the host.
    pub(super) fn new(members: Vec<Arc<Shared>>, staged: bool) -> Self {
        let devices = members.iter().map(|member| member.store.device.clone()).collect();
        Self { devices: if staged { DeviceGroup::staged(devices) } else { DeviceGroup::new(devices) }, members }
    }

    /// The devices, with their links.
    pub fn devices(&self) -> &DeviceGroup {
        &self.devices
    }

    /// The number of devices.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn member(&self, number: usize) -> &Shared {
        &self.members[number]
    }

    /// The links that are not direct, in words.
    pub fn staged_links(&self) -> Vec<String> {
        let count = self.members.len();
        let pairs = (0..count).flat_map(|source| (0..count).map(move |destination| (source, destination)));
        let staged = |(source, destination)| match self.devices.link(source, destination) {
            Link::Own | Link::Direct => None,
            link @ Link::Staged(_) => Some(format!("{source} to {destination}: {link}")),
        };
        pairs.filter_map(staged).collect()
    }
}

/// Copies of mirrored data on other devices of a group, of which a device reads what it has no copy of itself.
#[derive(Debug, Clone)]
pub struct PeerReads {
    group: Arc<PeerGroup>,
    number: usize,
    staged: bool,
    /// Addresses of the tables that every device reads as a whole.
    whole: Arc<HashSet<usize>>,
}

impl PeerReads {
    /// Of device `number`; if they may be `staged`, over links that are not direct, too.
    pub fn new(group: Arc<PeerGroup>, number: usize, (whole, staged): (Arc<HashSet<usize>>, bool)) -> Self {
        Self { group, number, staged, whole }
    }

    pub(super) fn group(&self) -> &PeerGroup {
        &self.group
    }

    /// The device's number in the group.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Devices of the group.
    pub(super) fn devices(&self) -> usize {
        self.group.members.len()
    }

    /// Whether the device may read copies on device `source`.
    pub(super) fn reaches(&self, source: usize) -> bool {
        self.staged || self.group.devices.link(source, self.number).is_direct()
    }

    /// Whether every device reads all of `table`.
    pub(super) fn is_whole(&self, table: &Arc<TableSnapshot>) -> bool {
        self.whole.contains(&(Arc::as_ptr(table) as usize))
    }
}

/// The place where a device gets data from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host.
    Host,
    /// Another device, by its number in the group.
    Peer(usize),
}

/// How far a device is with its part of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Coming,
    Loading,
    Loaded,
    Gone,
}

/// An exchange before one run of a query.
pub struct RunExchange {
    group: Arc<PeerGroup>,
    /// By device: the origin of what it lacks.
    origins: Vec<KeyMap<Origin>>,
    /// The bytes that are planned to go between devices.
    planned: Traffic,
    progress: Mutex<Vec<Progress>>,
    changed: Condvar,
    /// The owners of the data, for whose lifetime the keys are those of the same data.
    _keeps: Vec<Owner>,
}

impl std::fmt::Debug for RunExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunExchange").field("planned", &self.planned).finish_non_exhaustive()
    }
}

impl RunExchange {
    /// An exchange in which each device gets what it lacks from `origins`, which makes `planned` bytes between devices. `keeps` keeps the
    /// keys those of the same data.
    pub fn new(group: Arc<PeerGroup>, origins: Vec<KeyMap<Origin>>, planned: Traffic, keeps: Vec<Owner>) -> Arc<Self> {
        let progress = Mutex::new(vec![Progress::Coming; origins.len()]);
        Arc::new(Self { group, origins, planned, progress, changed: Condvar::new(), _keeps: keeps })
    }

    /// The part of device `number`.
    pub fn part(self: &Arc<Self>, number: usize) -> PeerPart {
        PeerPart { exchange: self.clone(), number }
    }

    fn set(&self, number: usize, progress: Progress) {
        let mut all = self.progress.lock();
        // Loaded data stays to be found.
        if all[number] != Progress::Loaded {
            all[number] = progress;
        }
        drop(all);
        self.changed.notify_all();
    }
}

/// A device's part of an exchange.
#[derive(Debug, Clone)]
pub struct PeerPart {
    exchange: Arc<RunExchange>,
    number: usize,
}

impl PeerPart {
    /// The device's number in the group.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn group(&self) -> &PeerGroup {
        &self.exchange.group
    }

    /// The origin of data that the device lacks; `None`: it was not planned, and comes from the host.
    pub(super) fn origin(&self, key: &Key) -> Option<Origin> {
        self.exchange.origins[self.number].get(key).copied()
    }

    /// The bytes that are planned to come from other devices.
    pub(super) fn planned(&self) -> Traffic {
        let rows = self.exchange.planned.rows();
        let mut own = Traffic::new(rows.len());
        rows.iter().enumerate().for_each(|(source, row)| own.add(source, self.number, row[self.number]));
        own
    }

    /// The device has begun to load its part from the host, in which it waits for nobody.
    pub(super) fn begin(&self) {
        self.exchange.set(self.number, Progress::Loading);
    }

    /// All that was planned to come from the host is there for others.
    pub(super) fn loaded(&self) {
        self.exchange.set(self.number, Progress::Loaded);
    }

    /// The device brings nothing any more.
    pub fn leave(&self) {
        self.exchange.set(self.number, Progress::Gone);
    }

    /// The time until which the device waits for those that have not begun, if it starts now: for all of them together.
    pub(super) fn deadline() -> Instant {
        Instant::now() + PATIENCE
    }

    /// Waits until device `source` has loaded its part, or is not to be counted on: at `deadline` it has not begun.
    ///
    /// # Errors
    /// Cancellation.
    pub(super) fn wait(&self, source: usize, deadline: Instant, cancel: &CancelToken) -> Result<()> {
        let mut all = self.exchange.progress.lock();
        loop {
            match all[source] {
                Progress::Loaded | Progress::Gone => return Ok(()),
                Progress::Coming if Instant::now() >= deadline => return Ok(()),
                Progress::Coming | Progress::Loading => {}
            }
            cancel.check()?;
            self.exchange.changed.wait_for(&mut all, CANCEL_POLL);
        }
    }

    /// The place where device `source` has the data of `key` in its caching region, and its owner.
    pub(super) fn find(&self, source: usize, key: &Key) -> Option<(Place, Owner)> {
        let cache = self.group().member(source).store.cache.lock();
        cache.get(key).map(|(at, owner)| (Place { device: source, at: *at }, owner.clone()))
    }
}

#[cfg(test)]
mod tests;
