//! Exchange of cached data between devices that run parts of one query, instead of each reading it from the host.
//!
//! The exchange is planned before the parts begin. A device loads its part from the host, makes it available to others, and only then waits for their
//! parts, so that no device waits for one that waits itself. Data that does not come (the device failed, has not begun, or dropped it) is read from
//! the host.

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

/// Limit of the wait for devices that have not begun: they may queue behind a program that waits for this one.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval at which a waiting device checks for cancellation.
const CANCEL_POLL: Duration = Duration::from_millis(10);

/// Executors of one process that exchange data.
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
    /// A group of `members`, over direct links, or, if `staged`, through the host.
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

    /// Whether the group is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(super) fn member(&self, number: usize) -> &Shared {
        &self.members[number]
    }

    /// Descriptions of the links that are not direct.
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

/// Access to mirrored copies on other devices of a group, for data of which the device has no copy.
#[derive(Debug, Clone)]
pub struct PeerReads {
    group: Arc<PeerGroup>,
    number: usize,
    staged: bool,
    /// Addresses of the tables that every device reads completely.
    whole: Arc<HashSet<usize>>,
}

impl PeerReads {
    /// Reads of device `number`; `staged`: also over links that are not direct.
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

    /// Number of devices in the group.
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

/// The source of data for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host.
    Host,
    /// Another device, by number in the group.
    Peer(usize),
}

/// Progress of a device in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Coming,
    Loading,
    Loaded,
    Gone,
}

/// The exchange before one run of a query.
pub struct RunExchange {
    group: Arc<PeerGroup>,
    /// Sources of the data that each device lacks.
    origins: Vec<KeyMap<Origin>>,
    /// Planned bytes between devices.
    planned: Traffic,
    progress: Mutex<Vec<Progress>>,
    changed: Condvar,
    /// Keep the keys unique.
    _keeps: Vec<Owner>,
}

impl std::fmt::Debug for RunExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunExchange").field("planned", &self.planned).finish_non_exhaustive()
    }
}

impl RunExchange {
    /// An exchange in which each device gets the data that it lacks from `origins`, with `planned` bytes between devices. `keeps` keeps the keys
    /// unique.
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
        // Loaded data stays available.
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

    /// The planned source of data; `None` if it was not planned: then it comes from the host.
    pub(super) fn origin(&self, key: &Key) -> Option<Origin> {
        self.exchange.origins[self.number].get(key).copied()
    }

    /// Planned bytes from other devices.
    pub(super) fn planned(&self) -> Traffic {
        let rows = self.exchange.planned.rows();
        let mut own = Traffic::new(rows.len());
        rows.iter().enumerate().for_each(|(source, row)| own.add(source, self.number, row[self.number]));
        own
    }

    /// Reports that the device has begun to load its part from the host, which waits for no other device.
    pub(super) fn begin(&self) {
        self.exchange.set(self.number, Progress::Loading);
    }

    /// Reports that the device's part is available to others.
    pub(super) fn loaded(&self) {
        self.exchange.set(self.number, Progress::Loaded);
    }

    /// Reports that the device provides nothing more.
    pub fn leave(&self) {
        self.exchange.set(self.number, Progress::Gone);
    }

    /// The deadline for devices that have not begun, if the wait starts now; one for all of them.
    pub(super) fn deadline() -> Instant {
        Instant::now() + PATIENCE
    }

    /// Waits until device `source` has loaded its part, has left, or has not begun by `deadline`.
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

    /// The address of the data of `key` in the caching region of device `source`, and its owner.
    pub(super) fn find(&self, source: usize, key: &Key) -> Option<(Place, Owner)> {
        let cache = self.group().member(source).store.cache.lock();
        cache.get(key).map(|(at, owner)| (Place { device: source, at: *at }, owner.clone()))
    }
}

#[cfg(test)]
mod tests;
