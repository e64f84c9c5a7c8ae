//! The entries of a manifest for the parts of a version.

use std::collections::HashMap;

use super::chunk::Chunk;
use super::column_dictionary::ColumnDictionary;
use super::data_file::Place;
use super::manifest::{
    Blob, ChunkEntry, DeletionsEntry, DictionaryEntry, FileEntry, HeavyEntry, RemapEntry, RowSegmentEntry, StatsEntry,
};
use super::version::RowSegment;

/// The files that a manifest names, collected as parts are described.
#[derive(Default)]
pub(super) struct Files {
    pub entries: Vec<FileEntry>,
    index: HashMap<String, usize>,
}

impl Files {
    /// A stored range.
    pub fn blob(&mut self, place: &Place) -> Blob {
        let (entries, end) = (&mut self.entries, place.file.bytes());
        let file = *self.index.entry(place.file.name().to_owned()).or_insert_with(|| {
            entries.push(FileEntry { name: place.file.name().to_owned(), bytes: end });
            entries.len() - 1
        });
        // Pieces of a log that are in memory end where they end.
        entries[file].bytes = entries[file].bytes.max(end);
        Blob { file, offset: place.offset, bytes: place.bytes, xxh3: place.xxh3 }
    }

    /// The dictionary of a column.
    pub fn dictionary(&mut self, dictionary: &ColumnDictionary) -> DictionaryEntry {
        let stored = "dictionaries of a table on disk are in files";
        let blob = self.blob(dictionary.place.as_ref().expect(stored));
        let remaps = dictionary.remaps.iter();
        let remaps = remaps.map(|r| RemapEntry { from: r.from, blob: self.blob(r.place.as_ref().expect(stored)) });
        let remaps = remaps.collect();
        DictionaryEntry { generation: dictionary.generation, blob, remaps }
    }

    /// A row segment.
    pub fn segment(&mut self, segment: &RowSegment) -> RowSegmentEntry {
        let columns = segment.columns.iter().map(|chunk| self.chunk(chunk)).collect();
        RowSegmentEntry { rows: segment.rows, columns, deletions: self.deletions(segment) }
    }

    /// The deletions of a row segment.
    pub fn deletions(&mut self, segment: &RowSegment) -> Option<DeletionsEntry> {
        segment.deletions.as_ref().map(|deletions| deletions.entry(self.chunk(&deletions.kept)))
    }

    fn chunk(&mut self, chunk: &Chunk) -> ChunkEntry {
        ChunkEntry {
            blob: self.blob(chunk.place().expect("chunks of a table on disk are in files")),
            encoding: chunk.encoding,
            generation: chunk.generation,
            codec: chunk.codec(),
            heavy: chunk.heavy.as_ref().map(|heavy| HeavyEntry {
                blob: self.blob(&heavy.place),
                encoding: heavy.encoding,
                codec: heavy.codec,
            }),
            stats: StatsEntry::of(&chunk.stats),
            parts: chunk.nested.clone(),
        }
    }
}
