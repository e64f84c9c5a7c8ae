//! The dictionary of a column, with translations of earlier dictionaries' codes.

use std::sync::Arc;

use super::data_file::Place;
use super::manifest::{Blob, DictionaryEntry};
use super::version::place_error;
use crate::segment::SegmentBytes;
use crate::{Dictionary, FormatError, Result};

/// The dictionary of a column; its generation grows with each new dictionary of the column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnDictionary {
    pub generation: u32,
    pub dictionary: Arc<Dictionary>,
    /// The position of its bytes; `None` in memory.
    pub place: Option<Place>,
    /// Translations from earlier generations that segments still use.
    pub remaps: Vec<Remap>,
}

/// Largest size of a dictionary in bytes: 4 GiB of distinct strings, and an offset for each.
const MOST_BYTES: u64 = 9 << 30;

/// Code of the column's dictionary by code of generation `from`.
#[derive(Debug, Clone)]
pub(crate) struct Remap {
    pub from: u32,
    pub codes: Arc<[u32]>,
    pub place: Option<Place>,
}

impl ColumnDictionary {
    /// The number of entries of this or an earlier generation.
    pub(super) fn entries_of(&self, generation: u32) -> usize {
        match self.remaps.iter().find(|r| r.from == generation) {
            Some(remap) => remap.codes.len(),
            None => self.dictionary.len(),
        }
    }

    /// Whether `other` is the same dictionary: one of a commit that failed may have the same generation.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.generation == other.generation && Arc::ptr_eq(&self.dictionary, &other.dictionary)
    }

    /// Loads the dictionary of `entry`; returns `known` if it is the same.
    pub(super) fn load(
        entry: &DictionaryEntry,
        place: &dyn Fn(&Blob) -> Place,
        known: Option<&ColumnDictionary>,
        column: &str,
    ) -> Result<Self> {
        let at = place(&entry.blob);
        let dictionary = match known.filter(|k| k.place.as_ref().is_some_and(|p| p.same(&at))) {
            Some(known) => known.dictionary.clone(),
            None => {
                let what = format!("dictionary of column {column:?}");
                check_bytes(&at, MOST_BYTES, &what)?;
                let bytes = at.read(&what)?;
                Arc::new(Dictionary::from_bytes(&bytes).map_err(|e| place_error(e, &at, what))?)
            }
        };
        let remaps = entry.remaps.iter().map(|remap| {
            let at = place(&remap.blob);
            let what = format!("dictionary remap of column {column:?}");
            check_bytes(&at, 4 * dictionary.len() as u64, &what)?;
            let codes = remap_from_bytes(&at.read(&what)?, dictionary.len());
            let codes = codes.map_err(|detail| FormatError::Corrupt {
                path: at.file.path(),
                segment: Some(what),
                detail: detail.into(),
            })?;
            Ok(Remap { from: remap.from, codes, place: Some(at) })
        });
        let remaps = remaps.collect::<Result<_>>()?;
        Ok(Self { generation: entry.generation, dictionary, place: Some(at), remaps })
    }
}

/// Refuses to read more than `most` bytes.
fn check_bytes(at: &Place, most: u64, what: &str) -> Result<()> {
    match at.bytes > most {
        true => Err(FormatError::Corrupt {
            path: at.file.path(),
            segment: Some(what.to_owned()),
            detail: format!("{} bytes, more than {most}", at.bytes),
        }),
        false => Ok(()),
    }
}

/// Reads little-endian codes, strictly ascending and below `entries`.
fn remap_from_bytes(bytes: &SegmentBytes, entries: usize) -> Result<Arc<[u32]>, &'static str> {
    if !bytes.len().is_multiple_of(4) {
        return Err("not a whole number of codes");
    }
    let codes: Arc<[u32]> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
    if !codes.is_sorted_by(|a, b| a < b) || codes.last().is_some_and(|&code| code as usize >= entries) {
        return Err("codes out of order or out of range");
    }
    Ok(codes)
}
