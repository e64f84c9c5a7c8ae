//! Where a program's data is before it runs: already on the device, or on the host or on disk, from where every run copies it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warpmill_format::Segment;

use crate::device::{Device, PinnedBuffer};

use super::Result;
use super::items::Item;
use super::memory::{Key, aligned, padded};

/// Where data is when a program starts. What does not stay in device memory passes through it ([`super::stream`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DataSource {
    /// In the device's caching region: copied there by the first program that reads it. What a program needs and does not fit there
    /// comes from pageable host memory.
    #[default]
    Cache,
    /// In page-locked host memory; copied for every run.
    Pinned,
    /// In pageable host memory (a memory-mapped table: the page cache); copied for every run.
    Host,
    /// In the table's files; read past the page cache, and copied, for every run.
    Disk,
}

impl DataSource {
    /// What profiles call the copies.
    pub(super) fn transfer(self) -> &'static str {
        match self {
            DataSource::Cache => "segments to the device",
            DataSource::Pinned => "segments from pinned memory",
            DataSource::Host => "segments from host memory",
            DataSource::Disk => "segments from disk",
        }
    }

    /// What they call what the host does before.
    pub(super) fn filling(self) -> &'static str {
        match self {
            DataSource::Disk => "segments read into pinned memory",
            DataSource::Cache | DataSource::Pinned | DataSource::Host => "segments copied to pinned memory",
        }
    }
}

/// Copies of segments in page-locked memory, kept until [`PinnedCopies::clear`].
#[derive(Debug, Default)]
pub(super) struct PinnedCopies(Mutex<HashMap<Key, PinnedCopy>>);

/// Where a segment's copy is.
#[derive(Debug, Clone)]
pub(super) struct PinnedCopy {
    memory: Arc<PinnedBuffer>,
    offset: usize,
    /// Keeps its address, which is the key, its own.
    segment: Arc<Segment>,
}

impl PinnedCopy {
    /// How far behind `other` it lies in the same allocation.
    pub(super) fn offset_from(&self, other: &PinnedCopy) -> Option<u64> {
        let same = Arc::ptr_eq(&self.memory, &other.memory);
        same.then(|| self.offset.checked_sub(other.offset).map(|distance| distance as u64)).flatten()
    }

    /// The bytes from its first to the last of `last`, which lies in the same allocation, and the zeros behind them.
    pub(super) fn through(&self, last: &PinnedCopy) -> &[u8] {
        &self.memory[self.offset..last.offset + padded(last.segment.as_bytes().len() as u64) as usize]
    }
}

impl PinnedCopies {
    /// The copies of those of `items` that are segments, made now where there is none.
    pub(super) fn copies(&self, device: &dyn Device, items: &[Item]) -> Result<Vec<Option<PinnedCopy>>> {
        let mut copies = self.0.lock();
        let missing = |item: &&Item| matches!(item, Item::Segment(_)) && !copies.contains_key(&item.key());
        let missing: Vec<&Item> = items.iter().filter(missing).collect();
        let room = |item: &&Item| aligned(padded(item.bytes())) as usize;
        if !missing.is_empty() {
            // One allocation: each takes the driver a while.
            let mut memory = device.pinned(missing.iter().map(room).sum::<usize>().max(1))?;
            let mut offset = 0;
            let mut places = vec![];
            for item in &missing {
                let Item::Segment(segment) = item else { continue };
                let bytes = segment.as_bytes();
                memory[offset..offset + bytes.len()].copy_from_slice(bytes);
                places.push((item.key(), offset, segment.clone()));
                offset += room(item);
            }
            let memory = Arc::new(memory);
            for (key, offset, segment) in places {
                copies.insert(key, PinnedCopy { memory: memory.clone(), offset, segment });
            }
        }
        Ok(items.iter().map(|item| copies.get(&item.key()).cloned()).collect())
    }

    /// Forgets all copies.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Reading table files past the page cache.
pub(super) mod disk {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    use rayon::prelude::*;
    use warpmill_format::Segment;
    use warpmill_plan::Unsupported;

    use super::super::memory::padded;
    use super::super::stream::Ready;
    use super::super::{Failure, Result};

    /// What offsets, lengths and addresses of direct reads are multiples of.
    const BLOCK: usize = 4096;

    /// Bytes more than its own that a segment takes of the memory that it is read into.
    pub const SLACK: u64 = 3 * BLOCK as u64;

    /// Linux's `O_DIRECT`.
    const O_DIRECT: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0x10000 } else { 0x4000 };

    /// Reads segments into `memory` behind its first `head` bytes, several at a time: those that are in files from there, the others,
    /// which were made in memory, from where they are. Each comes with where it is wanted.
    ///
    /// # Errors
    /// Files that cannot be read, or whose file system has no direct reads.
    pub fn read_all(memory: &mut [u8], head: u64, segments: &[(u64, &Segment)]) -> Result<Ready> {
        let skipped = head as usize + memory[head as usize..].as_ptr().align_offset(BLOCK);
        let mut rest = &mut memory[skipped..];
        let mut start = skipped;
        let mut rooms = vec![];
        for &(to, segment) in segments {
            let room = segment.as_bytes().len().next_multiple_of(BLOCK) + 2 * BLOCK;
            let (own, others) = rest.split_at_mut(room);
            rooms.push((start, own, to, segment));
            (start, rest) = (start + room, others);
        }
        let pieces = rooms.into_par_iter().map(|(start, room, to, segment)| {
            let skip = read(segment, room)?;
            let end = skip + segment.as_bytes().len();
            let wanted = padded(segment.as_bytes().len() as u64) as usize;
            room[end..skip + wanted].fill(0);
            Ok((start + skip..start + skip + wanted, to))
        });
        Ok(Ready::Pieces(pieces.collect::<Result<Vec<_>>>()?))
    }

    /// Reads the blocks that hold a segment; gives where in `room` it begins.
    fn read(segment: &Segment, room: &mut [u8]) -> Result<usize> {
        let bytes = segment.as_bytes();
        let Some(place) = bytes.file() else {
            room[..bytes.len()].copy_from_slice(bytes);
            return Ok(0);
        };
        let failed = |path: &Path, error: std::io::Error| {
            Failure::Unsupported(Unsupported::new(
                "disk",
                format!("{} cannot be read directly: {error}", path.display()),
            ))
        };
        let file = File::options().read(true).custom_flags(O_DIRECT).open(&place.path);
        let file = file.map_err(|error| failed(&place.path, error))?;
        let skip = place.offset as usize % BLOCK;
        let (start, wanted) = (place.offset - skip as u64, skip + bytes.len());
        let blocks = wanted.next_multiple_of(BLOCK);
        let mut done = 0;
        // The last block of a file is short.
        while done < wanted {
            match file.read_at(&mut room[done..blocks], start + done as u64) {
                Ok(0) => return Err(failed(&place.path, std::io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&place.path, error)),
            }
        }
        Ok(skip)
    }
}
