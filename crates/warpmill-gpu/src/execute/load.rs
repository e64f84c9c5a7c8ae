//! Brings a program's data into device memory: into the caching region, once, or into the run's own memory, for every run.

use std::sync::Arc;
use std::time::Instant;

use crate::device::DevicePtr;

use super::admission::{Lane, Turn};
use super::executor::{Executor, Options};
use super::items::{Descriptors, Item, Resident, image_bytes};
use super::memory::padded;
use super::prepared::Prepared;
use super::profile::{DeviceProfile, TransferProfile};
use super::source::{DataSource, disk};
use super::{Result, memory};

impl Executor {
    /// Where the data of `prepared` is: in the caching region, or copied for this run from where `options` say.
    ///
    /// # Errors
    /// [`super::Failure::Memory`] where it does not fit, the device's errors, unreadable files.
    pub(super) fn load(
        &self,
        turn: &mut Turn<'_>,
        prepared: &Prepared,
        options: &Options,
        profile: &mut DeviceProfile,
    ) -> Result<Arc<Resident>> {
        if options.data != DataSource::Cache {
            return self.copy_for_run(turn.lane(), prepared, options.data, profile).map(Arc::new);
        }
        if let Some(resident) = self.resident(prepared) {
            turn.loaded();
            return Ok(resident);
        }
        // One program at a time: what two need is copied once.
        let _loading = self.loading.lock();
        let resident = match self.resident(prepared) {
            Some(resident) => resident,
            None => self.fill_cache(turn.lane(), prepared, profile)?,
        };
        turn.loaded();
        Ok(resident)
    }

    /// What an earlier run loaded, if it is still there: nothing is dropped while a program runs.
    fn resident(&self, prepared: &Prepared) -> Option<Arc<Resident>> {
        let generation = self.cache.lock().generation();
        prepared.resident.lock().clone().filter(|resident| resident.generation == generation)
    }

    fn fill_cache(&self, lane: &mut Lane, prepared: &Prepared, profile: &mut DeviceProfile) -> Result<Arc<Resident>> {
        let started = Instant::now();
        let mut resident = Resident { generation: self.cache.lock().generation(), ..Resident::default() };
        let (mut fresh, mut bytes, mut count) = (vec![], 0, 0);
        for item in &prepared.items {
            let known = self.cache.lock().get(&item.key()).cloned();
            let (at, image) = match known {
                Some(known) => known,
                None => {
                    let at = self.cache.lock().reserve(item.bytes())?;
                    let image = item.image(at);
                    // SAFETY: reserved with the size of the image and the padding behind it.
                    unsafe {
                        self.device.copy_to_device(at, image_bytes(&image), lane.stream)?;
                        let end = item.bytes();
                        self.device.fill(at + end, 0, padded(end) - end, lane.stream)?;
                    }
                    fresh.push((item.key(), at, image.clone()));
                    (bytes, count) = (bytes + item.bytes(), count + 1);
                    (at, image)
                }
            };
            resident.add(item, at, &image);
        }
        self.describe(lane, prepared, &mut resident, |_, bytes| self.cache.lock().reserve(bytes))?;
        resident.mirrors.sort();
        // Other programs find the data in the cache from here on, whatever their stream.
        self.device.synchronize(lane.stream)?;
        let mut cache = self.cache.lock();
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

    /// Copies all data into the lane's own region.
    fn copy_for_run(
        &self,
        lane: &mut Lane,
        prepared: &Prepared,
        data: DataSource,
        profile: &mut DeviceProfile,
    ) -> Result<Resident> {
        let mut resident = Resident::default();
        let pinned = match data {
            DataSource::Pinned => self.pinned.copies(&*self.device, &prepared.items)?,
            _ => vec![],
        };
        self.device.synchronize(lane.stream)?;
        let started = Instant::now();
        let (mut bytes, mut count, mut files) = (0, 0, vec![]);
        for (index, item) in prepared.items.iter().enumerate() {
            let at = lane.region.allocate(padded(item.bytes()))?;
            let image = item.image(at);
            resident.add(item, at, &image);
            (bytes, count) = (bytes + item.bytes(), count + 1);
            let segment = matches!(item, Item::Segment(_));
            if data == DataSource::Disk && segment && disk::is_file(&image) {
                files.push((at, image));
                continue;
            }
            let bytes = match pinned.get(index) {
                Some(Some(copy)) => copy.bytes(),
                _ => image_bytes(&image),
            };
            // SAFETY: allocated with this size; what is read lives as long as `resident`, which the run keeps.
            unsafe { self.device.copy_to_device(at, bytes, lane.stream)? };
            resident.sources.push(image);
        }
        disk::copy(&*self.device, lane.stream, &files)?;
        resident.sources.extend(pinned.into_iter().flatten().map(|copy| copy.owner()));
        self.describe(lane, prepared, &mut resident, |lane, bytes| lane.region.allocate(padded(bytes)))?;
        resident.mirrors.sort();
        // The time of the copies alone is asked for: nothing else runs meanwhile.
        self.device.synchronize(lane.stream)?;
        let nanos = started.elapsed().as_nanos() as u64;
        profile.transfers.push(TransferProfile { what: data.transfer(), bytes, count, nanos });
        Ok(resident)
    }

    /// Makes the descriptors of all kernels' segments, in memory that `reserve` gives.
    fn describe(
        &self,
        lane: &mut Lane,
        prepared: &Prepared,
        resident: &mut Resident,
        mut reserve: impl FnMut(&mut Lane, u64) -> Result<DevicePtr>,
    ) -> Result<()> {
        for kernel in 0..prepared.lowered.kernels.len() {
            let Some((mut made, columns, rows)) = prepared.describe(kernel, &resident.places)? else {
                resident.descriptors.push(Descriptors::default());
                continue;
            };
            made.columns = reserve(lane, columns.len() as u64)?;
            made.rows = reserve(lane, rows.len() as u64)?;
            // SAFETY: just reserved with these sizes.
            unsafe {
                self.device.copy_to_device(made.columns, &columns, lane.stream)?;
                self.device.copy_to_device(made.rows, &rows, lane.stream)?;
            }
            resident.descriptors.push(made);
        }
        Ok(())
    }
}

/// What data and descriptors of a program take of a region.
pub(super) fn data_bytes(items: &[Item], descriptors: impl Iterator<Item = u64>) -> u64 {
    items.iter().map(Item::allocated).sum::<u64>()
        + descriptors.map(|bytes| memory::aligned(padded(bytes))).sum::<u64>()
}
