//! Where a program's data is before it runs: already on the device, or on the host or on disk, from where every run copies it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warpmill_format::Segment;

use crate::device::{Device, PinnedBuffer};

use super::Result;
use super::items::Item;
use super::memory::{Key, Owner};

/// Where data is when a program starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum DataSource {
    /// In the device's caching region: copied there by the first program that reads it.
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
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.offset..self.offset + self.segment.as_bytes().len()]
    }

    /// What keeps the copy.
    pub(super) fn owner(self) -> Owner {
        self.memory
    }
}

impl PinnedCopies {
    /// The copies of those of `items` that are segments, made now where there is none.
    pub(super) fn copies(&self, device: &dyn Device, items: &[Item]) -> Result<Vec<Option<PinnedCopy>>> {
        let mut copies = self.0.lock();
        let missing = |item: &&Item| matches!(item, Item::Segment(_)) && !copies.contains_key(&item.key());
        let missing: Vec<&Item> = items.iter().filter(missing).collect();
        let padded = |item: &&Item| (item.bytes() as usize).next_multiple_of(256);
        if !missing.is_empty() {
            // One allocation: each takes the driver a while.
            let mut memory = device.pinned(missing.iter().map(padded).sum::<usize>().max(1))?;
            let mut offset = 0;
            let mut places = vec![];
            for item in &missing {
                let Item::Segment(segment) = item else { continue };
                let bytes = segment.as_bytes();
                memory[offset..offset + bytes.len()].copy_from_slice(bytes);
                places.push((item.key(), offset, segment.clone()));
                offset += padded(item);
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
    use std::path::{Path, PathBuf};

    use rayon::prelude::*;
    use warpmill_format::Segment;
    use warpmill_plan::Unsupported;

    use super::super::memory::Owner;
    use super::super::{Failure, Result};
    use crate::device::{Device, DevicePtr, PinnedBuffer, Stream};

    /// What offsets, lengths and addresses of direct reads are multiples of.
    const BLOCK: usize = 4096;

    /// What is read at once, by several threads.
    const PIECE: usize = 4 << 20;
    const PIECES: usize = 4;

    /// Linux's `O_DIRECT`.
    const O_DIRECT: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0x10000 } else { 0x4000 };

    /// Whether the data is in a file as it is.
    pub fn is_file(image: &Owner) -> bool {
        segment(image).is_some_and(|segment| segment.as_bytes().file().is_some())
    }

    fn segment(image: &Owner) -> Option<&Segment> {
        image.downcast_ref::<Segment>()
    }

    /// A part of a file that goes to the device.
    struct Piece {
        path: PathBuf,
        offset: u64,
        bytes: usize,
        to: DevicePtr,
    }

    /// Copies segments from their files to device memory: while one part travels, the next one is read.
    ///
    /// # Errors
    /// Files that cannot be read, or whose file system has no direct reads; the device's errors.
    pub fn copy(device: &dyn Device, stream: Stream, segments: &[(DevicePtr, Owner)]) -> Result<()> {
        let pieces: Vec<Piece> = segments.iter().flat_map(|(at, image)| pieces(*at, image)).collect();
        if pieces.is_empty() {
            return Ok(());
        }
        let room = PIECE + 2 * BLOCK;
        let mut buffers = [device.pinned(PIECES * room + BLOCK)?, device.pinned(PIECES * room + BLOCK)?];
        let outcome = copy_pieces(device, stream, &pieces, room, &mut buffers);
        // The buffers go now, whatever happened.
        device.synchronize(stream)?;
        outcome
    }

    fn copy_pieces(
        device: &dyn Device,
        stream: Stream,
        pieces: &[Piece],
        room: usize,
        buffers: &mut [PinnedBuffer; 2],
    ) -> Result<()> {
        for (number, group) in pieces.chunks(PIECES).enumerate() {
            let buffer = &mut buffers[number % 2][..];
            let aligned = buffer.as_ptr().align_offset(BLOCK);
            let read = buffer[aligned..]
                .par_chunks_mut(room)
                .zip(group)
                .map(|(memory, piece)| read(piece, memory).map(|bytes| (bytes, piece.to)))
                .collect::<Result<Vec<_>>>()?;
            // What the other buffer held has arrived when this returns: it can be filled again.
            device.synchronize(stream)?;
            for (bytes, to) in read {
                // SAFETY: the range was allocated for the segment; the buffer is not written to before the next
                // synchronization, and dropped after the last.
                unsafe { device.copy_to_device(to, bytes, stream)? };
            }
        }
        Ok(())
    }

    fn pieces(at: DevicePtr, image: &Owner) -> Vec<Piece> {
        let Some(segment) = segment(image) else { return vec![] };
        let Some(file) = segment.as_bytes().file() else { return vec![] };
        let total = segment.as_bytes().len();
        let piece = |start: usize| Piece {
            path: file.path.clone(),
            offset: file.offset + start as u64,
            bytes: PIECE.min(total - start),
            to: at + start as u64,
        };
        (0..total).step_by(PIECE).map(piece).collect()
    }

    /// Reads the blocks that hold a piece; gives the piece.
    fn read<'a>(piece: &Piece, memory: &'a mut [u8]) -> Result<&'a [u8]> {
        let failed = |path: &Path, error: std::io::Error| {
            Failure::Unsupported(Unsupported::new(
                "disk",
                format!("{} cannot be read directly: {error}", path.display()),
            ))
        };
        let file = File::options().read(true).custom_flags(O_DIRECT).open(&piece.path);
        let file = file.map_err(|error| failed(&piece.path, error))?;
        let skip = piece.offset as usize % BLOCK;
        let (start, wanted) = (piece.offset - skip as u64, skip + piece.bytes);
        let blocks = wanted.next_multiple_of(BLOCK);
        let mut done = 0;
        // The last block of a file is short.
        while done < wanted {
            match file.read_at(&mut memory[done..blocks], start + done as u64) {
                Ok(0) => return Err(failed(&piece.path, std::io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&piece.path, error)),
            }
        }
        Ok(&memory[skip..wanted])
    }
}
