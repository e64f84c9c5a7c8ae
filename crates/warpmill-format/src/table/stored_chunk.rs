//! The compressed form of a chunk: described by the manifest, read at the first use.

use std::sync::Arc;

use super::chunk::Chunk;
use super::version::place_error;
use crate::codec::CompressedChunk;
use crate::segment::bytes::corrupt;
use crate::segment::{Encoding, FilePlace};
use crate::{Codec, FileAccess, FormatError, Result};

/// One column of one row segment, compressed by a codec. Everything except [`StoredChunk::open`] and [`StoredChunk::check`] is known from the
/// manifest, without I/O.
#[derive(Debug, Clone)]
pub struct StoredChunk {
    chunk: Arc<Chunk>,
    file: Arc<FilePlace>,
}

impl StoredChunk {
    /// The compressed form of `chunk`, described as `what` in errors; `None` if it has none.
    pub(crate) fn new(chunk: &Arc<Chunk>, what: &str) -> Option<Self> {
        let file = chunk.compressed()?.0.in_file(what)?;
        Some(Self { chunk: chunk.clone(), file: Arc::new(file) })
    }

    fn form(&self) -> (&super::data_file::Place, Encoding, super::manifest::CodecEntry) {
        self.chunk.compressed().expect("made of a chunk that has one")
    }

    /// The encoding of its segment.
    pub fn encoding(&self) -> Encoding {
        self.form().1
    }

    /// The codec of all its blocks.
    pub fn codec(&self) -> Codec {
        self.form().2.name
    }

    /// Uncompressed bytes of every block but the last, which may have fewer.
    pub fn block_bytes(&self) -> u64 {
        self.form().2.block as u64
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        let codec = self.form().2;
        (codec.bytes as usize).div_ceil(codec.block)
    }

    /// Bytes of the segment.
    pub fn uncompressed_bytes(&self) -> u64 {
        self.form().2.bytes
    }

    /// Bytes as stored.
    pub fn bytes(&self) -> u64 {
        self.form().0.bytes
    }

    /// Its position.
    pub fn file(&self) -> &FilePlace {
        &self.file
    }

    /// An address that is unique while this object lives.
    pub fn address(&self) -> usize {
        self.form().0.address()
    }

    /// The stored bytes: mapped, with the checksum verified at the first use; or read and verified now.
    ///
    /// Errors: [`FormatError::Corrupt`] and [`FormatError::Codec`], with file, column and segment.
    pub fn open(&self) -> Result<CompressedChunk> {
        if let Some(verified) = self.chunk.verified.get() {
            return Ok(verified.clone());
        }
        let read = self.form().0.read(&self.file.what).and_then(CompressedChunk::read);
        let read = read.and_then(|read| self.accept(read)).map_err(|error| self.named(error))?;
        Ok(match self.form().0.file.access() {
            FileAccess::Map => self.chunk.verified.get_or_init(|| read).clone(),
            FileAccess::Read => read,
        })
    }

    /// The same with unverified bytes, which may be anything.
    pub(crate) fn unverified(&self) -> Result<CompressedChunk> {
        self.accept(CompressedChunk::read(self.form().0.unverified(&self.file.what)?)?)
    }

    fn accept(&self, read: CompressedChunk) -> Result<CompressedChunk> {
        let codec = self.form().2;
        let found = (read.codec(), read.block_bytes(), read.uncompressed_bytes() as u64);
        match found == (codec.name, codec.block, codec.bytes) {
            true => Ok(read),
            false => Err(corrupt("its codec, blocks or bytes are not the manifest's")),
        }
    }

    /// Checks that `bytes`, read from the file, are as they were written, and consistent.
    ///
    /// Errors: those of [`StoredChunk::open`].
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        self.file.check(bytes)?;
        if self.chunk.verified.get().is_none() && self.chunk.sound.get().is_none() {
            self.with_bytes(bytes)?;
            // Bytes with the same checksum need not be checked again.
            self.chunk.sound.get_or_init(|| ());
        }
        Ok(())
    }

    /// The stored form in other memory: `bytes` were read from the file and [checked](StoredChunk::check).
    ///
    /// Errors: those of [`StoredChunk::open`].
    pub fn with_bytes(&self, bytes: &[u8]) -> Result<CompressedChunk> {
        let read = CompressedChunk::read(crate::SegmentBytes::copy_from(bytes));
        read.and_then(|read| self.accept(read)).map_err(|error| self.named(error))
    }

    /// Adds file and chunk to `error`.
    pub fn named(&self, error: FormatError) -> FormatError {
        place_error(error, self.form().0, self.file.what.clone())
    }
}
