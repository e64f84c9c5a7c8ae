//! Loads a program's data into device memory: into the caching region, once; for streamed programs only the items besides segments, into the run's
//! own memory. Some of it comes from other devices.

use std::sync::Arc;
use std::time::Instant;

use crate::data::transfer::TransferProfile;
use crate::device::DevicePtr;
use crate::device::exchange::{Move, Place, Traffic};
use crate::memory::error::Result;
use crate::memory::lane::Lane;

use super::options::Options;
use super::peers::{Origin, PeerPart};
use super::profile::{DeviceProfile, ExchangeProfile};
use crate::compile::prepared::Prepared;
use crate::data::admission::Turn;
use crate::data::items::{Item, Resident, image_bytes};
use crate::data::opened::ResidentRows;
use crate::data::store::Store;
use crate::memory::regions::{KeyMap, Owner, padded};

/// Loads the data of `prepared` into the caching region, or, if its segments are streamed, its other data for this run.
///
/// # Errors
/// [`crate::memory::error::Failure::Memory`] if it does not fit, the device's errors, unreadable files.
pub(super) fn load(
    store: &Store,
    turn: &mut Turn<'_>,
    prepared: &Prepared,
    (options, profile): (&Options, &mut DeviceProfile),
) -> Result<Arc<Resident>> {
    let peers = options.peers.as_ref();
    if prepared.stream.is_some() {
        peers.inspect(|peers| peers.leave());
        return copy_for_run(store, turn.lane(), prepared, profile).map(Arc::new);
    }
    if let Some(resident) = resident(store, prepared) {
        peers.inspect(|peers| peers.loaded());
        turn.loaded();
        return Ok(resident);
    }
    if let Some(peers) = peers {
        exchange(store, turn.lane(), prepared, (peers, options, profile))?;
    }
    // One program at a time, so that shared data is copied once.
    let _loading = store.loading.lock();
    let resident = match resident(store, prepared) {
        Some(resident) => resident,
        None => fill_cache(store, turn.lane(), prepared, profile)?,
    };
    turn.loaded();
    Ok(resident)
}

/// The addresses of data that an earlier run loaded, if it is still there: nothing is dropped while a program runs.
fn resident(store: &Store, prepared: &Prepared) -> Option<Arc<Resident>> {
    let generation = store.cache.lock().generation();
    prepared.resident.lock().clone().filter(|resident| resident.generation == generation)
}

fn fill_cache(
    store: &Store,
    lane: &mut Lane,
    prepared: &Prepared,
    profile: &mut DeviceProfile,
) -> Result<Arc<Resident>> {
    let started = Instant::now();
    let generation = store.cache.lock().generation();
    let mut resident = Resident { generation, ..Resident::default() };
    let (mut copies, mut fresh) = (Copies::default(), vec![]);
    for (&pipeline, scan) in &prepared.scans {
        let rows = match scan.rows.resident(generation) {
            Some(rows) => rows,
            None => {
                let mut rows = ResidentRows::new(generation);
                for item in scan.rows.items() {
                    let (at, image) = copies.bring(store, lane, item)?;
                    rows.add(item, at, &image);
                }
                rows.mirrors.sort();
                let rows = Arc::new(rows);
                fresh.push((scan, rows.clone()));
                rows
            }
        };
        resident.rows.insert(pipeline, rows);
    }
    for item in &prepared.items {
        let (at, image) = copies.bring(store, lane, item)?;
        resident.add(item, at, &image);
    }
    resident.mirrors.sort();
    let described = describe(store, lane, prepared, &mut resident)?;
    if copies.count > 0 || !described.is_empty() {
        // The data is complete before programs on other streams find it.
        store.device.synchronize(lane.stream)?;
    }
    fresh.iter().for_each(|(scan, rows)| scan.rows.keep(rows));
    for kernel in described {
        profile.described_segments += resident.descriptors[kernel].count;
        prepared.keep_described(kernel, &resident);
    }
    copies.publish(store);
    copies.note(started, profile);
    let resident = Arc::new(resident);
    *prepared.resident.lock() = Some(resident.clone());
    Ok(resident)
}

/// Carries out the planned exchange: loads the device's part from the host, makes it available to others, and copies the rest from them. Data that
/// others fail to provide stays missing.
fn exchange(
    store: &Store,
    lane: &mut Lane,
    prepared: &Prepared,
    (peers, options, profile): (&PeerPart, &Options, &mut DeviceProfile),
) -> Result<()> {
    let items: Vec<(&Item, Origin)> = prepared
        .scans
        .values()
        .flat_map(|scan| scan.rows.items())
        .chain(&prepared.items)
        .filter_map(|item| Some((item, peers.origin(&item.key())?)))
        .collect();
    let started = Instant::now();
    peers.begin();
    let own = items.iter().filter(|(_, origin)| *origin == Origin::Host).map(|(item, _)| *item);
    // On failure, the others must not wait for this device.
    let copies = load_own(store, lane, own).inspect_err(|_| peers.leave())?;
    peers.loaded();
    copies.note(started, profile);
    let devices = peers.planned().rows().len();
    let mut traffic = Traffic::new(devices);
    let deadline = PeerPart::deadline();
    // Each device starts with its successor, to spread the load.
    for source in (1..devices).map(|next| (peers.number() + next) % devices) {
        let own = items.iter().filter(|(_, origin)| *origin == Origin::Peer(source)).map(|(item, _)| *item).collect();
        traffic.add_all(&fetch(store, lane, own, (peers, source, deadline), (options, profile))?);
    }
    profile.exchange =
        Some(ExchangeProfile { planned: peers.planned(), traffic, staged_links: peers.group().staged_links() });
    Ok(())
}

/// Copies `items` from the host, and makes them available.
fn load_own<'a>(store: &Store, lane: &mut Lane, items: impl Iterator<Item = &'a Item>) -> Result<Copies> {
    let _loading = store.loading.lock();
    let mut copies = Copies::default();
    for item in items {
        copies.bring(store, lane, item)?;
    }
    store.device.synchronize(lane.stream)?;
    copies.publish(store);
    Ok(copies)
}

/// Copies `items` from device `source`, after waiting until it has loaded its part or the deadline passes. Items that it does not have are skipped;
/// those that cannot be copied come from the host. Returns the traffic.
fn fetch(
    store: &Store,
    lane: &mut Lane,
    items: Vec<&Item>,
    (peers, source, deadline): (&PeerPart, usize, Instant),
    (options, profile): (&Options, &mut DeviceProfile),
) -> Result<Traffic> {
    let (started, devices) = (Instant::now(), peers.planned().rows().len());
    let is_there = |item: &&Item| peers.find(source, &item.key()).is_some();
    if items.is_empty() {
        return Ok(Traffic::new(devices));
    }
    // No wait if the data was there before the run.
    if !items.iter().all(is_there) {
        peers.wait(source, deadline, &options.cancel)?;
    }
    let _loading = store.loading.lock();
    let _lent = peers.group().member(source).admission.lend();
    let (mut copies, mut moves, mut moved) = (Copies::default(), vec![], vec![]);
    for item in items {
        let known = copies.made.contains_key(&item.key()) || store.cache.lock().get(&item.key()).is_some();
        let Some((from, owner)) = peers.find(source, &item.key()).filter(|_| !known) else { continue };
        let (at, bytes) = (store.cache.lock().reserve(item.bytes())?, item.bytes());
        // SAFETY: reserved with the padding behind the data.
        unsafe { store.device.fill(at + bytes, 0, padded(bytes) - bytes, lane.stream)? };
        moves.push(Move { from, to: Place { device: peers.number(), at }, bytes });
        moved.push(item);
        copies.made.insert(item.key(), (at, owner));
    }
    // SAFETY: just reserved; the source's data was complete before it was found, and stays while it is lent.
    let pulled = unsafe { peers.group().devices().pull(&moves, peers.number(), lane.stream) };
    // Also after an error: queued copies read memory that is only lent.
    store.device.synchronize(lane.stream)?;
    if let Err(error) = pulled {
        tracing::warn!(source, %error, "data of another device could not be copied, and is read from the host");
        for (item, Move { to, .. }) in moved.into_iter().zip(&moves) {
            copies.copy(store, lane, item, to.at)?;
        }
        store.device.synchronize(lane.stream)?;
        copies.note(started, profile);
        moves.clear();
    }
    copies.publish(store);
    let traffic = Traffic::of(devices, &moves);
    let (bytes, count, nanos) = (traffic.total(), moves.len() as u64, started.elapsed().as_nanos() as u64);
    profile.add_transfer(TransferProfile { what: "data from other devices", bytes, count, nanos });
    Ok(traffic)
}

/// Copies that a program makes in the caching region.
#[derive(Default)]
struct Copies {
    made: KeyMap<(DevicePtr, Owner)>,
    bytes: u64,
    count: u64,
}

impl Copies {
    /// The address of `item` in the caching region, and its image; copies it there first if necessary.
    fn bring(&mut self, store: &Store, lane: &mut Lane, item: &Item) -> Result<(DevicePtr, Owner)> {
        let key = item.key();
        let known = store.cache.lock().get(&key).or_else(|| self.made.get(&key)).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let at = store.cache.lock().reserve(item.bytes())?;
        let image = self.copy(store, lane, item, at)?;
        Ok((at, image))
    }

    /// Copies `item` to `at`, which is reserved for it; returns its image.
    fn copy(&mut self, store: &Store, lane: &mut Lane, item: &Item, at: DevicePtr) -> Result<Owner> {
        let (key, image) = (item.key(), item.image(at));
        // SAFETY: reserved with the size of the image and the padding behind it.
        unsafe {
            store.device.copy_to_device(at, image_bytes(&image), lane.stream)?;
            let end = item.bytes();
            store.device.fill(at + end, 0, padded(end) - end, lane.stream)?;
        }
        self.made.insert(key, (at, image.clone()));
        (self.bytes, self.count) = (self.bytes + item.bytes(), self.count + 1);
        Ok(image)
    }

    /// Adds the copies made since `started` to the profile.
    fn note(&self, started: Instant, profile: &mut DeviceProfile) {
        let (bytes, count, nanos) = (self.bytes, self.count, started.elapsed().as_nanos() as u64);
        profile.add_transfer(TransferProfile { what: "segments to the device", bytes, count, nanos });
    }

    /// Makes the completed copies available to other programs.
    fn publish(&mut self, store: &Store) {
        let mut cache = store.cache.lock();
        for (key, (at, image)) in self.made.drain() {
            cache.insert(key, at, image);
        }
    }
}

/// Copies the items other than segments, which are streamed, into the lane's own region.
fn copy_for_run(store: &Store, lane: &mut Lane, prepared: &Prepared, profile: &mut DeviceProfile) -> Result<Resident> {
    let mut resident = Resident::default();
    let (mut bytes, mut count) = (0, 0);
    for item in &prepared.items {
        let at = lane.region.allocate(padded(item.bytes()))?;
        let image = item.image(at);
        resident.add(item, at, &image);
        (bytes, count) = (bytes + item.bytes(), count + 1);
        // SAFETY: allocated with this size; what is read lives as long as `resident`, which the run keeps.
        unsafe { store.device.copy_to_device(at, image_bytes(&image), lane.stream)? };
        resident.sources.push(image);
    }
    resident.mirrors.sort();
    if count > 0 {
        profile.transfers.push(TransferProfile { what: "dictionaries to the device", bytes, count, nanos: 0 });
    }
    Ok(resident)
}

/// Makes the descriptors that are not in the caching region yet, for all kernels; returns the kernels of those made.
fn describe(store: &Store, lane: &mut Lane, prepared: &Prepared, resident: &mut Resident) -> Result<Vec<usize>> {
    let mut fresh = vec![];
    for kernel in 0..prepared.kernels().len() {
        let known = prepared.known_descriptors(kernel, resident);
        let (Some(segments), None) = (prepared.row_segments(kernel), known) else {
            resident.descriptors.push(known.unwrap_or_default());
            continue;
        };
        let places = resident.places_of(prepared.kernels()[kernel].pipeline);
        let (mut made, columns, rows) = prepared.describe(kernel, &segments, places)?;
        made.columns = store.cache.lock().reserve(columns.len() as u64)?;
        made.rows = store.cache.lock().reserve(rows.len() as u64)?;
        // SAFETY: just reserved with these sizes.
        unsafe {
            store.device.copy_to_device(made.columns, &columns, lane.stream)?;
            store.device.copy_to_device(made.rows, &rows, lane.stream)?;
        }
        resident.descriptors.push(made);
        fresh.push(kernel);
    }
    Ok(fresh)
}

#[cfg(test)]
mod tests;
