//! Reading table files past the page cache.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use warpmill_format::{FilePlace, FileState};
use warpmill_ir::Unsupported;

use super::copies::Ready;
use crate::data::chunks::Chunk;
use crate::data::decoding::Decoding;
use crate::memory::error::{Failure, Result};
use crate::memory::regions::{aligned, padded};

/// The alignment of offsets, lengths and addresses of direct reads.
const BLOCK: usize = 4096;

/// Bytes more than its own that a chunk takes of the memory that it is read into.
pub const SLACK: u64 = 3 * BLOCK as u64;

/// Bytes between chunks that are read with them: a request of its own takes a disk longer. Within [`SLACK`].
const GAP: u64 = 2 * BLOCK as u64;

/// Bytes of a request: enough for a disk's full speed, few enough for several at a time.
const REQUEST: usize = 1 << 20;

/// Files that a run keeps open. Others are opened for each request: tables of many small appends have more than a process may open, 1024
/// mostly, and several programs run at once.
const MOST_FILES: usize = 32;

/// Linux's `O_DIRECT`.
const O_DIRECT: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0x10000 } else { 0x4000 };

/// The files that a run reads, open for direct reads.
#[derive(Default)]
pub struct Files(HashMap<PathBuf, File>);

/// Chunks next to each other in a file.
struct Run<'a> {
    /// The place where the first is.
    place: &'a FilePlace,
    /// From the first block of the first to the end of the last.
    bytes: Range<u64>,
    /// The place where each begins in the file, where it is wanted, and what it is.
    chunks: Vec<(u64, u64, &'a Chunk)>,
}

impl<'a> Run<'a> {
    /// A chunk of `bytes` bytes at `place` alone, wanted at `to`.
    fn of(place: &'a FilePlace, bytes: u64, to: u64, chunk: &'a Chunk) -> Self {
        let first = place.offset - place.offset % BLOCK as u64;
        Self { place, bytes: first..place.offset + bytes, chunks: vec![(place.offset, to, chunk)] }
    }

    /// Whether `next`, which does not begin before this, is so near that it is read with it.
    fn reaches(&self, next: &Self) -> bool {
        self.file() == next.file() && next.chunks[0].0 <= self.bytes.end + GAP
    }

    /// What tells files apart: their names, and which of those that have had one.
    fn file(&self) -> (&Path, FileState) {
        (&self.place.path, self.place.state)
    }

    /// The memory that it takes: its blocks, and what may be read past the last chunk's end.
    fn room(&self) -> usize {
        padded(self.bytes.end - self.bytes.start).next_multiple_of(BLOCK as u64) as usize
    }

    /// The requests that read it into `room`.
    fn requests<'r>(&self, room: &'r mut [u8]) -> Vec<Request<'r>>
    where
        'a: 'r,
    {
        let needed = (self.bytes.end - self.bytes.start) as usize;
        let request = |(number, room): (usize, &'r mut [u8])| {
            let first = number * REQUEST;
            let needed = needed.saturating_sub(first).min(room.len());
            Request { place: self.place, start: self.bytes.start + first as u64, needed, room }
        };
        room.chunks_mut(REQUEST).enumerate().map(request).collect()
    }
}

/// Chunks in files, neighbours together.
fn runs<'a>(chunks: &[(u64, &'a Chunk)]) -> Vec<Run<'a>> {
    let run = |&(to, chunk): &(u64, &'a Chunk)| Some(Run::of(chunk.file()?, chunk.stored_bytes(), to, chunk));
    let mut alone: Vec<Run<'a>> = chunks.iter().filter_map(run).collect();
    alone.sort_by(|a, b| (a.file(), a.chunks[0].0).cmp(&(b.file(), b.chunks[0].0)));
    let mut runs: Vec<Run<'a>> = vec![];
    for mut next in alone {
        match runs.last_mut() {
            Some(last) if last.reaches(&next) => {
                last.bytes.end = last.bytes.end.max(next.bytes.end);
                last.chunks.append(&mut next.chunks);
            }
            _ => runs.push(next),
        }
    }
    runs
}

/// Blocks that are read at once.
struct Request<'a> {
    /// A place in the file.
    place: &'a FilePlace,
    start: u64,
    /// At the end of a file there are fewer than there is room for: so many bytes are needed.
    needed: usize,
    room: &'a mut [u8],
}

impl Files {
    /// Reads what travels of chunks into `memory` behind its first `head` bytes, several at a time: those that are in files from there,
    /// neighbours together, the others, which were made in memory or which the host decompresses, one by one. Each comes with where it
    /// is wanted; with the bytes that were read.
    ///
    /// # Errors
    /// Files that cannot be read, or whose file system has no direct reads; bytes that are not what was written.
    pub fn read_all(
        &mut self,
        memory: &mut [u8],
        head: u64,
        chunks: &[(u64, &Chunk)],
        decoding: &Decoding,
    ) -> Result<(Ready, u64)> {
        self.open(chunks);
        let files = &*self;
        let (direct, others): (Vec<_>, Vec<_>) = chunks.iter().copied().partition(|(_, chunk)| is_direct(chunk));
        let mut start = head as usize + memory[head as usize..].as_ptr().align_offset(BLOCK);
        let mut rest = &mut memory[start..];
        let (mut requests, mut made, mut read, mut pieces) = (vec![], vec![], vec![], vec![]);
        for run in runs(&direct) {
            let room = take(&mut rest, run.room());
            read.extend(run.chunks.iter().map(|&(at, to, chunk)| (start + (at - run.bytes.start) as usize, to, chunk)));
            start += room.len();
            requests.extend(run.requests(room));
        }
        let mut bytes: usize = requests.iter().map(|request: &Request<'_>| request.needed).sum();
        for &(to, chunk) in &others {
            // As in the slot, so that neighbours there are one copy.
            let wanted = padded(chunk.copied_bytes());
            let room = take(&mut rest, aligned(wanted) as usize);
            pieces.push((start..start + wanted as usize, to));
            start += room.len();
            bytes += chunk.file().map_or(0, |_| chunk.stored_bytes() as usize);
            made.push((chunk, room));
        }
        let (got, written) = rayon::join(
            || requests.into_par_iter().try_for_each(|request| files.read(request)),
            || made.into_par_iter().try_for_each(|(chunk, room)| files.make(chunk, room, decoding)),
        );
        got.and(written)?;
        let memory = &*memory;
        read.par_iter().try_for_each(|(at, _, chunk)| chunk.check(&memory[*at..at + chunk.stored_bytes() as usize]))?;
        pieces.extend(read.iter().map(|&(at, to, chunk)| (at..at + padded(chunk.stored_bytes()) as usize, to)));
        Ok((Ready::Pieces(pieces), bytes as u64))
    }

    /// Opens the files of chunks, as far as so many are kept open. What cannot be opened now is opened for each request, which says why not.
    fn open(&mut self, chunks: &[(u64, &Chunk)]) {
        let mut wanted: Vec<&FilePlace> = chunks.iter().filter_map(|(_, chunk)| chunk.file()).collect();
        wanted.sort_unstable_by_key(|place| &place.path);
        wanted.dedup_by_key(|place| &place.path);
        let new = wanted.iter().filter(|place| !self.0.contains_key(&place.path)).count();
        if self.0.len() + new > MOST_FILES && new > 0 {
            self.0.retain(|path, _| wanted.binary_search_by_key(&path, |place| &place.path).is_ok());
        }
        for place in wanted {
            if self.0.len() >= MOST_FILES {
                break;
            }
            if !self.0.contains_key(&place.path)
                && let Ok(file) = open(place)
            {
                self.0.insert(place.path.clone(), file);
            }
        }
    }

    fn read(&self, request: Request<'_>) -> Result<()> {
        let Request { place, start, needed, room } = request;
        let path = &place.path;
        let own;
        let file = match self.0.get(path).filter(|file| place.is_in(file)) {
            Some(kept) => kept,
            None => {
                own = open(place)?;
                &own
            }
        };
        let mut done = 0;
        while done < room.len() {
            match file.read_at(&mut room[done..], start + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // The last block of a file is short: what follows it does not begin at a block.
                Err(_) if done >= needed => break,
                Err(error) => return Err(failed(path, error)),
            }
        }
        if done < needed {
            return Err(failed(path, std::io::ErrorKind::UnexpectedEof.into()));
        }
        room[done..].fill(0);
        Ok(())
    }

    /// Writes what travels of a chunk that does not lie in its file as it travels, and zeros behind it.
    fn make(&self, chunk: &Chunk, room: &mut [u8], decoding: &Decoding) -> Result<()> {
        let (room, padding) = room.split_at_mut(chunk.copied_bytes() as usize);
        padding.fill(0);
        let Some(place) = chunk.file() else { return chunk.write(None, room, decoding) };
        // The host decompresses it on the way.
        let stored = chunk.stored_bytes();
        let run = Run::of(place, stored, 0, chunk);
        let mut scratch = vec![0; run.room() + BLOCK];
        let aligned = scratch.as_ptr().align_offset(BLOCK);
        let blocks = &mut scratch[aligned..aligned + run.room()];
        run.requests(blocks).into_iter().try_for_each(|request| self.read(request))?;
        let skip = (place.offset - run.bytes.start) as usize;
        let stored = &blocks[skip..skip + stored as usize];
        chunk.check(stored)?;
        chunk.write(Some(stored), room, decoding)
    }
}

/// Whether what travels is what is in a file.
fn is_direct(chunk: &Chunk) -> bool {
    chunk.file().is_some() && (chunk.compressed().is_none() || chunk.for_device().is_some())
}

/// Opens the file that a place is in for direct reads.
fn open(place: &FilePlace) -> Result<File> {
    let path = &place.path;
    let file = File::options().read(true).custom_flags(O_DIRECT).open(path).map_err(|error| failed(path, error))?;
    if place.is_in(&file) {
        Ok(file)
    } else {
        Err(failed(path, std::io::Error::other("another file has its name by now")))
    }
}

fn take<'a>(rest: &mut &'a mut [u8], bytes: usize) -> &'a mut [u8] {
    let (room, tail) = std::mem::take(rest).split_at_mut(bytes);
    *rest = tail;
    room
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    let detail = format!("{} cannot be read directly: {error}", path.display());
    Failure::Unsupported(Unsupported::new("disk", detail))
}
