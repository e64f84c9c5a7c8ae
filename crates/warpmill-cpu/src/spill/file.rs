//! Temporary files of checksummed blocks.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use warpmill_format::Mapping;

use super::{Fault, SpillSettings, codec};
use crate::context::{ExecError, Result};
use crate::vector::Vector;

/// A temporary file, unlinked as soon as it is open. Any number of threads may append and read.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: File,
    /// Its path before it was unlinked, for messages.
    path: PathBuf,
    end: AtomicU64,
    /// Bytes of all files of the query.
    used: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    limit: u64,
    fault: Option<Fault>,
}

/// A block of columns in a file. Columns may differ in length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    offset: u64,
    len: usize,
    checksum: u64,
    /// Number of rows according to the writer.
    pub rows: usize,
}

impl Block {
    /// Bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.len as u64
    }
}

impl SpillFile {
    /// A new, empty file.
    pub fn create(settings: &SpillSettings, used: Arc<AtomicU64>, written: Arc<AtomicU64>) -> Result<Self> {
        let directory = settings.directory.clone().unwrap_or_else(std::env::temp_dir);
        if !directory.is_dir() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
            made.map_err(|error| failed("make the directory", &directory, &error))?;
        }
        let (file, path) = open(&directory)?;
        let (limit, fault) = (settings.limit, settings.fault);
        Ok(Self { file, path, end: AtomicU64::new(0), used, written, limit, fault })
    }

    /// Appends `columns` as one block of `rows` rows.
    pub fn append(&self, columns: &[&Vector], rows: usize) -> Result<Block> {
        let mut bytes = vec![];
        codec::encode(columns, &mut bytes);
        let offset = self.append_bytes(&bytes)?;
        Ok(Block { offset, len: bytes.len(), checksum: checksum(&bytes), rows })
    }

    /// Appends `bytes`. Returns their offset.
    pub fn append_bytes(&self, bytes: &[u8]) -> Result<u64> {
        let len = bytes.len() as u64;
        let used = self.used.fetch_add(len, Relaxed);
        if used.saturating_add(len) > self.limit {
            self.used.fetch_sub(len, Relaxed);
            return Err(ExecError::SpillLimit { path: self.path.clone(), requested: len, used, limit: self.limit });
        }
        let offset = self.end.fetch_add(len, Relaxed);
        self.write_at(bytes, offset).map_err(|error| failed("write", &self.path, &error))?;
        self.written.fetch_add(len, Relaxed);
        Ok(offset)
    }

    /// Maps the file's first `bytes` bytes, growing it to that size: data appended later become visible in the mapping.
    pub fn map(&self, bytes: usize) -> Result<Mapping> {
        let grown = self.file.set_len(bytes as u64).and_then(|()| Mapping::of(&self.file));
        grown.map_err(|error| failed("map", &self.path, &error))
    }

    /// Reads the columns of `block`, which [`SpillFile::append`] of this file returned.
    pub fn read(&self, block: &Block) -> Result<Vec<Vector>> {
        let mut bytes = vec![0; block.len];
        self.read_at(&mut bytes, block.offset).map_err(|error| failed("read", &self.path, &error))?;
        let damaged = || {
            let text = format!("the {} bytes at {} are not those that were written", block.len, block.offset);
            failed("read", &self.path, &Error::new(ErrorKind::InvalidData, text))
        };
        if checksum(&bytes) != block.checksum {
            return Err(damaged());
        }
        // SAFETY: these are the bytes of `append`: they agree with a checksum that never left memory. The strings that they view
        // live as long as the query, which owns this file.
        unsafe { codec::decode(&bytes) }.ok_or_else(damaged)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        if let Some(Fault::FullAt(end)) = self.fault
            && offset + bytes.len() as u64 > end
        {
            return Err(Error::from(ErrorKind::StorageFull));
        }
        self.file.write_all_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        let end = offset + bytes.len() as u64;
        match self.fault {
            Some(Fault::EndsAt(at)) if end > at => return Err(Error::from(ErrorKind::UnexpectedEof)),
            _ => self.file.read_exact_at(bytes, offset)?,
        }
        if let Some(Fault::FlippedAt(at)) = self.fault
            && (offset..end).contains(&at)
        {
            bytes[(at - offset) as usize] ^= 0x10;
        }
        Ok(())
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.used.fetch_sub(self.end.load(Relaxed), Relaxed);
    }
}

/// A new unlinked file in `directory`, and its former path.
fn open(directory: &Path) -> Result<(File, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!("warpmill-{}-{}.spill", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = directory.join(name);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path).map_err(|error| failed("unlink", &path, &error))?;
                return Ok((file, path));
            }
            // Left by a process with the same id on another machine, or by a killed one.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make", &path, &error)),
        }
    }
}

fn failed(action: &'static str, path: &Path, error: &Error) -> ExecError {
    ExecError::Spill { action, path: path.to_path_buf(), reason: error.to_string() }
}

/// Four interleaved folded multiplications over words.
fn checksum(bytes: &[u8]) -> u64 {
    const K: [u64; 4] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let mut lanes = K;
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for ((lane, bytes), key) in lanes.iter_mut().zip(words).zip(K) {
            // The lane is added after the product, so that a product of zero does not erase it.
            *lane = lane.rotate_left(23).wrapping_add(fold(u64::from_le_bytes(*bytes) ^ key, *lane | 1));
        }
    }
    let rest = rest.chunks(8).fold(bytes.len() as u64, |hash, bytes| fold(hash ^ K[0], word(bytes) ^ K[1]) ^ hash);
    lanes.into_iter().fold(rest, |hash, lane| fold(hash ^ K[2], lane ^ K[3]).wrapping_add(lane))
}
