//! The bytes of a log: its header, and its records (`docs/format.md`).

use std::ops::Range;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::data_file::{HEADER_BYTES, LOG_MAGIC, header};
use crate::segment::SEGMENT_ALIGN;

/// The first bytes of a record.
const RECORD: &[u8; 8] = b"WMCOMMIT";
/// Bytes of the header of a record.
pub(super) const RECORD_HEADER: usize = SEGMENT_ALIGN;
/// The place of the checksum in the header of a record.
const CHECKSUM: Range<usize> = 40..48;

/// Largest size of a record: others are commits with files of their own.
pub(super) const MOST_RECORD_BYTES: usize = 128 << 10;

/// The header of the log of the manifest of `version`, which begins with `first`.
pub(super) fn file_header(version: u64, first: &[u8; 64]) -> [u8; HEADER_BYTES] {
    let mut bytes = header(LOG_MAGIC);
    bytes[16..24].copy_from_slice(&version.to_le_bytes());
    bytes[24..32].copy_from_slice(&xxh3_64(first).to_le_bytes());
    bytes
}

/// The checksum of a record, but for itself.
fn checksum(record: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&record[..CHECKSUM.start]);
    hasher.update(&record[CHECKSUM.end..]);
    hasher.digest()
}

/// Fills in the header of a record of `version` whose text is at `body`. Returns its checksum.
pub(super) fn complete(record: &mut [u8], version: u64, body: Range<usize>) -> u64 {
    record[..8].copy_from_slice(RECORD);
    let numbers = [version, record.len() as u64, body.start as u64, body.len() as u64];
    for (at, number) in numbers.into_iter().enumerate() {
        record[8 + 8 * at..16 + 8 * at].copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(record);
    record[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// A whole record in the bytes of a log.
pub(super) struct Record<'a> {
    pub version: u64,
    pub bytes: &'a [u8],
    /// Its text.
    pub body: &'a [u8],
    pub sum: u64,
}

impl<'a> Record<'a> {
    /// The record at the beginning of `bytes`; `None`: there is none, or not all of it.
    pub fn at(bytes: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        if bytes.get(..8)? != RECORD {
            return None;
        }
        let all = bytes.get(..usize::try_from(number(16)?).ok()?)?;
        let is_possible = all.len() >= RECORD_HEADER && all.len().is_multiple_of(SEGMENT_ALIGN);
        let sum = number(CHECKSUM.start)?;
        if !is_possible || checksum(all) != sum {
            return None;
        }
        let (start, length) = (usize::try_from(number(24)?).ok()?, usize::try_from(number(32)?).ok()?);
        Some(Self { version: number(8)?, bytes: all, body: all.get(start..start.checked_add(length)?)?, sum })
    }
}

/// Whether there is a whole record of a version after `version` anywhere in `bytes`: then they are no remains of a dead writer, which are the last.
pub(super) fn has_later(bytes: &[u8], version: u64) -> bool {
    let at = |at: usize| Record::at(&bytes[at..bytes.len().min(at + MOST_RECORD_BYTES)]);
    (0..bytes.len()).step_by(SEGMENT_ALIGN).filter_map(at).any(|record| record.version > version)
}
