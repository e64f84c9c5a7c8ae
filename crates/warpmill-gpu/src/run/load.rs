//! Brings a program's data into device memory: into the caching region, once, or, where segments pass through, what else it reads into
//! the run's own memory.

use std::sync::Arc;
use std::time::Instant;

use crate::data::transfer::TransferProfile;
use crate::device::DevicePtr;
use crate::memory::error::Result;
use crate::memory::lane::Lane;

use super::profile::DeviceProfile;
use crate::compile::prepared::Prepared;
use crate::data::admission::Turn;
use crate::data::items::{Descriptors, Resident, image_bytes};
use crate::data::store::Store;
use crate::memory::regions::padded;

/// The place where the data of `prepared` is: in the caching region, or, of a program whose segments pass through, copied for this run.
///
/// # Errors
/// [`crate::memory::error::Failure::Memory`] where it does not fit, the device's errors, unreadable files.
pub(super) fn load(
    store: &Store,
    turn: &mut Turn<'_>,
    prepared: &Prepared,
    profile: &mut DeviceProfile,
) -> Result<Arc<Resident>> {
    if prepared.stream.is_some() {
        return copy_for_run(store, turn.lane(), prepared, profile).map(Arc::new);
    }
    if let Some(resident) = resident(store, prepared) {
        turn.loaded();
        return Ok(resident);
    }
    // One program at a time: what two need is copied once.
    let _loading = store.loading.lock();
    let resident = match resident(store, prepared) {
        Some(resident) => resident,
        None => fill_cache(store, turn.lane(), prepared, profile)?,
    };
    turn.loaded();
    Ok(resident)
}

/// The data that an earlier run loaded, if it is still there: nothing is dropped while a program runs.
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
    let mut resident = Resident { generation: store.cache.lock().generation(), ..Resident::default() };
    let (mut fresh, mut bytes, mut count) = (vec![], 0, 0);
    for item in &prepared.items {
        let known = store.cache.lock().get(&item.key()).cloned();
        let (at, image) = match known {
            Some(known) => known,
            None => {
                let at = store.cache.lock().reserve(item.bytes())?;
                let image = item.image(at);
                // SAFETY: reserved with the size of the image and the padding behind it.
                unsafe {
                    store.device.copy_to_device(at, image_bytes(&image), lane.stream)?;
                    let end = item.bytes();
                    store.device.fill(at + end, 0, padded(end) - end, lane.stream)?;
                }
                fresh.push((item.key(), at, image.clone()));
                (bytes, count) = (bytes + item.bytes(), count + 1);
                (at, image)
            }
        };
        resident.add(item, at, &image);
    }
    describe(store, lane, prepared, &mut resident, |_, bytes| store.cache.lock().reserve(bytes))?;
    resident.mirrors.sort();
    // Other programs find the data in the cache from here on, whatever their stream.
    store.device.synchronize(lane.stream)?;
    let mut cache = store.cache.lock();
    for (key, at, image) in fresh {
        cache.insert(key, at, image);
    }
    drop(cache);
    if count > 0 {
        let nanos = started.elapsed().as_nanos() as u64;
        profile.transfers.push(TransferProfile { what: "segments to the device", bytes, count, nanos });
    }
    let resident = Arc::new(resident);
    *prepared.resident.lock() = Some(resident.clone());
    Ok(resident)
}

/// Copies what kernels read beside the segments, which pass through, into the lane's own region.
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

/// Makes the descriptors of all kernels' segments, in memory that `reserve` gives.
fn describe(
    store: &Store,
    lane: &mut Lane,
    prepared: &Prepared,
    resident: &mut Resident,
    mut reserve: impl FnMut(&mut Lane, u64) -> Result<DevicePtr>,
) -> Result<()> {
    for kernel in 0..prepared.lowered.kernels.len() {
        let Some(segments) = prepared.row_segments(kernel) else {
            resident.descriptors.push(Descriptors::default());
            continue;
        };
        let (mut made, columns, rows) = prepared.describe(kernel, &segments, &resident.places)?;
        made.columns = reserve(lane, columns.len() as u64)?;
        made.rows = reserve(lane, rows.len() as u64)?;
        // SAFETY: just reserved with these sizes.
        unsafe {
            store.device.copy_to_device(made.columns, &columns, lane.stream)?;
            store.device.copy_to_device(made.rows, &rows, lane.stream)?;
        }
        resident.descriptors.push(made);
    }
    Ok(())
}
