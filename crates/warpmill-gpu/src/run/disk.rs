//! Direct reads of table files, past the page cache.

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

/// Extra bytes of memory for a chunk that is read, for alignment.
pub const SLACK: u64 = 3 * BLOCK as u64;

/// Largest gap in bytes across which chunks are read by one request: a separate request takes longer. Within [`SLACK`].
const GAP: u64 = 2 * BLOCK as u64;

/// Bytes of a request: enough for a disk's full rate, small enough for several at a time.
const REQUEST: usize = 1 << 20;

/// Largest number of files that a run keeps open. Others are opened per request: tables of many small appends have more files than a process may open
/// (usually 1024), and several programs run at once.
const MOST_FILES: usize = 32;

/// Linux's `O_DIRECT`.
const O_DIRECT: i32 = if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0x10000 } else { 0x4000 };

/// The files that a run reads, open for direct reads.
#[derive(Default)]
pub struct Files(HashMap<PathBuf, File>);

/// Adjacent chunks in a file, read together.
struct Run<'a> {
    /// The range of the first chunk in the file.
    place: &'a FilePlace,
    /// The bytes to read, from a block boundary to the end of the last chunk.
    bytes: Range<u64>,
    /// The chunks, each with its offset in the file and its offset in the slot.
    chunks: Vec<(u64, u64, &'a Chunk)>,
}

impl<'a> Run<'a> {
    /// A run of the chunk at `place` with `bytes` bytes, for offset `to` in the slot.
    fn of(place: &'a FilePlace, bytes: u64, to: u64, chunk: &'a Chunk) -> Self {
        let first = place.offset - place.offset % BLOCK as u64;
        Self { place, bytes: first..place.offset + bytes, chunks: vec![(place.offset, to, chunk)] }
    }

    /// Whether `next`, which does not begin before this run, is close enough to be read with it.
    fn reaches(&self, next: &Self) -> bool {
        self.file() == next.file() && next.chunks[0].0 <= self.bytes.end + GAP
    }

    /// Identity of the file: its path, and its state, which differs when the path names another file.
    fn file(&self) -> (&Path, FileState) {
        (&self.place.path, self.place.state)
    }

    /// Bytes of memory for the run: whole blocks, and padding behind the last chunk.
    fn room(&self) -> usize {
        padded(self.bytes.end - self.bytes.start).next_multiple_of(BLOCK as u64) as usize
    }

    /// The requests that read the run into `room`.
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

/// The runs of chunks in files.
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

/// A read of consecutive blocks.
struct Request<'a> {
    /// A range of the file.
    place: &'a FilePlace,
    start: u64,
    /// Number of bytes that must be read: the file may end within `room`.
    needed: usize,
    room: &'a mut [u8],
}

impl Files {
    /// Reads the bytes of chunks into `memory`, behind its first `head` bytes, several at a time. Each chunk is given with its offset in the slot.
    /// Chunks that are copied as stored are read from their files, neighbours together; the others (made in memory, or decompressed by the host) one
    /// by one. Returns the ranges, and the number of bytes read.
    ///
    /// # Errors
    /// Files that cannot be read, or whose file system has no direct reads; checksum mismatches.
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
            // Aligned like the slot, so that adjacent chunks are one copy.
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

    /// Opens the files of chunks, up to `MOST_FILES`. A file that fails to open is opened again for each request, which reports the error.
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
                // The last block of a file is short, and the rest of it cannot be read at an aligned offset.
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

    /// Writes the bytes of a chunk that are not in its file as copied, and zero padding behind them.
    fn make(&self, chunk: &Chunk, room: &mut [u8], decoding: &Decoding) -> Result<()> {
        let (room, padding) = room.split_at_mut(chunk.copied_bytes() as usize);
        padding.fill(0);
        let Some(place) = chunk.file() else { return chunk.write(None, room, decoding) };
        // The host decompresses the stored bytes.
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

/// Whether the copied bytes of a chunk are those in its file.
fn is_direct(chunk: &Chunk) -> bool {
    chunk.file().is_some() && (chunk.compressed().is_none() || chunk.for_device().is_some())
}

/// Opens the file of `place` for direct reads.
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
