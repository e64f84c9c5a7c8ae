//! Facts for planning exchanges: the data that a device lacks or holds.

use std::sync::Arc;

use warpmill_ir::Program;

use super::executor::Executor;
use super::options::Options;
use super::peers::PeerGroup;
use crate::memory::error::Result;
use crate::memory::regions::{Key, KeyMap, Owner};

/// Data of a program that is not in the device's caching region, and that other devices can provide.
pub struct Lacking {
    /// Keys and bytes of the items.
    pub items: Vec<(Key, u64)>,
    /// Keeps the keys unique.
    pub owner: Owner,
}

impl Executor {
    /// The data that `program` has to load into the caching region; `None` if its data is streamed.
    ///
    /// # Errors
    /// Operations that the device cannot do, unreadable data.
    pub fn lacking(&self, program: &Arc<Program>, options: &Options) -> Result<Option<Lacking>> {
        let prepared = self.prepared(program, &[], options)?;
        if prepared.stream.is_some() {
            return Ok(None);
        }
        let cache = self.shared.store.cache.lock();
        let generation = cache.generation();
        let is_there = prepared.resident.lock().as_ref().is_some_and(|resident| resident.generation == generation);
        // Order by pipeline, the same on every device.
        let mut scans: Vec<_> = prepared.scans.iter().collect();
        scans.sort_by_key(|(pipeline, _)| **pipeline);
        let scans = scans.into_iter().map(|(_, scan)| scan);
        let scans = scans.filter(|scan| scan.rows.resident(generation).is_none());
        let all = scans.flat_map(|scan| scan.rows.items()).chain(&prepared.items).filter(|_| !is_there);
        let mut seen = KeyMap::default();
        let missing = all.filter(|item| item.is_same_everywhere() && cache.get(&item.key()).is_none());
        let items = missing.filter(|item| seen.insert(item.key(), ()).is_none());
        let items = items.map(|item| (item.key(), item.bytes())).collect();
        drop(cache);
        Ok(Some(Lacking { items, owner: prepared }))
    }

    /// Whether `program` is known to have all data that other devices could provide. Answers from what earlier runs recorded, without preparing the
    /// program.
    pub fn has_data(&self, program: &Arc<Program>, options: &Options) -> bool {
        let Some(prepared) = self.last_prepared(program, options) else { return false };
        let generation = self.shared.store.cache.lock().generation();
        let is_there = || prepared.resident.lock().as_ref().is_some_and(|it| it.generation == generation);
        prepared.stream.is_some() || is_there()
    }

    /// Whether the caching region has the data of `key`.
    pub fn holds(&self, key: &Key) -> bool {
        self.shared.store.cache.lock().get(key).is_some()
    }

    /// A group of executors, numbered in order, over direct links, or, if `staged`, through the host.
    pub fn group(executors: &[Arc<Executor>], staged: bool) -> Arc<PeerGroup> {
        Arc::new(PeerGroup::new(executors.iter().map(|executor| executor.shared.clone()).collect(), staged))
    }
}
