//! Encodes row segments to chunks, columns in parallel, and passes them to memory or to data files.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::changes::{Changes, Coded, Rewrite};
use super::chunk::Chunk;
use super::column_dictionary::{ColumnDictionary, Remap};
use super::deletions::{Deletions, stay_marked};
use super::pruning::ZoneMap;
use super::regroup::{Origin, Regroup};
use super::rows::{Rows, Written, hold, placed, row_segment};
use super::sink::{Sink, Storage};
use super::snapshot::TableSnapshot;
use super::strings::{Candidate, HeldCodes, OwnStrings, concatenate, strings_of};
use super::threads::Threads;
use super::version::{RowSegment, Version};
use super::waiting::Waiting;
use super::zone_writer::{ZoneOptions, ZoneWriter};
use crate::codec::{ColumnChoice, Stored};
use crate::pruning::Zone;
use crate::{Bitmap, Dictionary, FormatError, Result, Segment};

/// How a column is encoded.
enum Column {
    /// Each row segment at once: not a string column, or one without a dictionary.
    Direct,
    /// At the end, if its strings turn out few enough.
    Candidate(Candidate),
}

/// A column of a row segment, as far as it can be encoded without the other row segments.
enum Made {
    Chunk(Box<Stored>, Vec<Zone>),
    /// Strings that may get a dictionary.
    Strings(Option<OwnStrings>),
    /// Codes of the base version's dictionary, and of new strings.
    Codes(Coded),
    /// Unchanged from the base version.
    Same,
}

/// The encoder of chunks, side by side.
struct ChunkEncoder<'a> {
    schema: &'a SchemaRef,
    storage: &'a Storage,
    zones: ZoneOptions,
}

impl ChunkEncoder<'_> {
    /// Encodes a column of a row segment, with its metadata.
    fn encode(&self, column: usize, array: &ArrayRef) -> Result<(Stored, Vec<Zone>)> {
        let segment = Segment::encode(array, None, None).map_err(|e| self.in_column(e, column))?;
        let zones = self.zones.of(&segment);
        Ok((self.storage.prepare(column, segment)?, zones))
    }

    /// The same for a column in parts.
    fn encode_parts(&self, column: usize, arrays: &[ArrayRef]) -> Result<(Stored, Vec<Zone>)> {
        self.encode(column, &concatenate(arrays, self.schema.field(column).name())?)
    }

    fn in_column(&self, error: FormatError, column: usize) -> FormatError {
        in_column(error, self.schema.field(column).name())
    }
}

/// The encoder of one version.
pub(crate) struct Encoder {
    schema: SchemaRef,
    /// The version that is appended to.
    base: Option<Arc<TableSnapshot>>,
    columns: Vec<Column>,
    /// Chunks by row segment and column; `None` for those kept as provisional codes.
    segments: Vec<Written>,
    /// Rewritten row segments of the base version: the first one's position, their number, and the position among those written; `None`: their rows
    /// are deleted.
    places: BTreeMap<usize, (usize, Option<usize>)>,
    /// Row segments of the base version with other deletions.
    marked: BTreeMap<usize, Arc<Deletions>>,
    /// Rewritten chunks of the base version by column, for columns whose dictionary was given up.
    rewritten: Vec<Option<Vec<Arc<Chunk>>>>,
    threads: Threads,
    storage: Storage,
    zones: ZoneWriter,
    waiting: Waiting,
    sink: Sink,
}

/// The result of an encoder: all parts of the new version.
pub(crate) struct Encoded {
    pub segments: Vec<RowSegment>,
    pub dictionaries: Vec<Option<ColumnDictionary>>,
    pub codecs: Vec<Option<ColumnChoice>>,
    pub pruning: Vec<ZoneMap>,
    pub sink: Sink,
}

impl Encoder {
    pub fn new(
        schema: SchemaRef,
        base: Option<Arc<TableSnapshot>>,
        threads: Threads,
        storage: Storage,
        zones: ZoneWriter,
        sink: Sink,
    ) -> Self {
        let base_rows = base.as_ref().map_or(0, |b| b.stored_rows());
        let column = |(c, field): (usize, &arrow::datatypes::FieldRef)| {
            let dictionary = base.as_ref().and_then(|b| b.dictionary(c));
            if field.data_type() == &DataType::Utf8 && (base_rows == 0 || dictionary.is_some()) {
                Column::Candidate(Candidate::new(dictionary, base_rows))
            } else {
                Column::Direct
            }
        };
        let columns: Vec<Column> = schema.fields().iter().enumerate().map(column).collect();
        let rewritten = columns.iter().map(|_| None).collect();
        let waiting = Waiting::new(columns.len(), storage.extent);
        let (segments, places, marked) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { schema, base, columns, segments, places, marked, rewritten, threads, storage, zones, waiting, sink }
    }

    fn base_version(&self) -> Option<&Version> {
        self.base.as_ref().map(|b| b.parts())
    }

    /// The number of row segments that keep all threads busy at once.
    pub fn at_once(&self) -> usize {
        (2 * self.threads.number()).div_ceil(self.columns.len().max(1))
    }

    /// Encodes row segments, each given in parts.
    pub fn push(&mut self, segments: &[Vec<RecordBatch>]) -> Result<()> {
        self.push_rows(&segments.iter().map(|parts| Rows::Parts(parts)).collect::<Vec<_>>())
    }

    /// Writes the row segments that change; of those of at least `least_marked` rows that lose few, only the marks of deleted rows.
    pub fn change(&mut self, changes: &Changes, least_marked: usize) -> Result<()> {
        let (mut rewrites, mut marks): (Vec<Rewrite<'_>>, Vec<(usize, Bitmap)>) = (vec![], vec![]);
        for own in changes.segments() {
            let (segment, rows) = (own.segment(), changes.table().segment_rows(own.segment()));
            let deleted = if own.has_deleted() { changes.deleted(own)? } else { None };
            let count = deleted.as_ref().map_or(0, Bitmap::count_ones);
            if count == rows {
                self.places.insert(segment, (1, None));
                continue;
            }
            let left_out = match deleted {
                Some(deleted) if stay_marked(count, rows, least_marked) => {
                    marks.push((segment, deleted));
                    None
                }
                other => other,
            };
            if left_out.is_some() || own.has_updated() {
                rewrites.push(Rewrite { all: changes, own, left_out });
            }
        }
        self.mark(marks)?;
        let rows: Vec<Rows<'_>> = rewrites.iter().map(Rows::Changed).collect();
        rows.chunks(self.at_once()).try_for_each(|rows| self.push_rows(rows))
    }

    /// Stores the deleted rows of row segments of the base version.
    fn mark(&mut self, marks: Vec<(usize, Bitmap)>) -> Result<()> {
        let rows = marks.iter().map(|(_, deleted)| deleted.len()).sum();
        let encoded = side_by_side(&self.threads, rows, &marks, |(_, deleted)| Segment::marks(&deleted.not()))?;
        for ((segment, deleted), encoded) in marks.into_iter().zip(encoded) {
            self.marked.insert(segment, Deletions::store(deleted, encoded, &mut self.sink)?);
        }
        Ok(())
    }

    /// Merges ranges of row segments of the base version to one each.
    pub fn merge(&mut self, ranges: &[Range<usize>]) -> Result<()> {
        let Some(base) = self.base.clone() else { return Ok(()) };
        let rows: Vec<Rows<'_>> = ranges.iter().map(|range| Rows::Merged(&base, range)).collect();
        rows.chunks(self.at_once()).try_for_each(|rows| self.push_rows(rows))
    }

    fn push_rows(&mut self, segments: &[Rows<'_>]) -> Result<()> {
        let columns = self.columns.len();
        let tasks: Vec<(usize, usize)> = (0..segments.len()).flat_map(|s| (0..columns).map(move |c| (s, c))).collect();
        let mut made = self.make(segments, &tasks)?;
        let too_many = |&c: &usize| (0..segments.len()).any(|s| matches!(made[s * columns + c], Made::Strings(None)));
        let too_many: Vec<usize> = (0..columns).filter(too_many).collect();
        if !too_many.is_empty() {
            too_many.iter().try_for_each(|&c| self.give_up_dictionary(c))?;
            let again: Vec<_> = tasks.into_iter().filter(|(_, c)| too_many.contains(c)).collect();
            for (&(s, c), chunk) in again.iter().zip(self.make(segments, &again)?) {
                made[s * columns + c] = chunk;
            }
        }
        for rows in segments {
            let rest = made.split_off(columns);
            self.add(rows, std::mem::replace(&mut made, rest))?;
        }
        Ok(())
    }

    /// Encodes columns of row segments in parallel: `tasks` are pairs of row segment and column.
    fn make(&self, segments: &[Rows<'_>], tasks: &[(usize, usize)]) -> Result<Vec<Made>> {
        let (columns, chunks) = (&self.columns, self.chunks());
        let make = |&(s, c): &(usize, usize)| {
            let rows = &segments[s];
            if rows.is_same(c) {
                return Ok(Made::Same);
            }
            Ok(match &columns[c] {
                Column::Candidate(_) => match rows.coded(c)? {
                    Some(coded) => Made::Codes(coded),
                    None => Made::Strings(OwnStrings::of(&rows.arrays(c)?)),
                },
                Column::Direct => {
                    let (stored, zones) = chunks.encode_parts(c, &rows.arrays(c)?)?;
                    Made::Chunk(Box::new(stored), zones)
                }
            })
        };
        let rows = segments.iter().map(|rows| rows.rows()).sum();
        side_by_side(&self.threads, rows, tasks, make)
    }

    fn chunks(&self) -> ChunkEncoder<'_> {
        ChunkEncoder { schema: &self.schema, storage: &self.storage, zones: self.zones.options() }
    }

    /// Adds a row segment with encoded columns.
    fn add(&mut self, rows: &Rows<'_>, made: Vec<Made>) -> Result<()> {
        let position = self.segments.len();
        let segment_of = |column: usize| match &made[column] {
            Made::Chunk(stored, _) => Some(&stored.segment),
            Made::Strings(_) | Made::Codes(_) | Made::Same => None,
        };
        let attributes = match self.zones.has_lookups() {
            true => self.threads.run(|| self.zones.attributes(segment_of))?,
            false => vec![],
        };
        self.zones.add_attributes(attributes);
        self.segments.push((rows.rows(), made.iter().map(|_| None).collect()));
        if let Some(place) = rows.place() {
            self.places.insert(place.start, (place.len(), Some(position)));
        }
        for (c, made) in made.into_iter().enumerate() {
            let own = match made {
                Made::Chunk(stored, zones) => {
                    self.put(position, c, *stored, zones)?;
                    continue;
                }
                Made::Same => continue,
                Made::Codes(coded) => {
                    if let Column::Candidate(candidate) = &mut self.columns[c] {
                        hold(candidate, position, coded, self.base.as_ref().and_then(|base| base.dictionary(c)));
                        continue;
                    }
                    None
                }
                Made::Strings(own) => own,
            };
            if let (Column::Candidate(candidate), Some(own)) = (&mut self.columns[c], own) {
                candidate.push(position, own);
                continue;
            }
            // The dictionary was given up at an earlier row segment.
            let (stored, zones) = self.chunks().encode_parts(c, &rows.arrays(c)?)?;
            self.put(position, c, stored, zones)?;
        }
        self.give_up_dictionaries(Candidate::too_large)
    }

    fn put(&mut self, segment: usize, column: usize, stored: Stored, zones: Vec<Zone>) -> Result<()> {
        self.zones.add(segment, column, zones);
        let enough = self.waiting.push(segment, column, stored);
        enough.map_or(Ok(()), |column| self.write_waiting(column, None))
    }

    /// Writes the waiting chunks of column `column` contiguously. `generation`: that of the dictionary of their codes.
    fn write_waiting(&mut self, column: usize, generation: Option<u32>) -> Result<()> {
        let (segments, stored): (Vec<usize>, Vec<Stored>) = self.waiting.take(column).into_iter().unzip();
        let chunks = self.sink.put_all(stored, generation, self.storage.align)?;
        for (segment, chunk) in segments.into_iter().zip(chunks) {
            self.segments[segment].1[column] = Some(chunk);
        }
        Ok(())
    }

    fn give_up_dictionaries(&mut self, unfit: fn(&Candidate) -> bool) -> Result<()> {
        for c in 0..self.columns.len() {
            if matches!(&self.columns[c], Column::Candidate(candidate) if unfit(candidate)) {
                self.give_up_dictionary(c)?;
            }
        }
        Ok(())
    }

    /// Switches column `c` to plain strings: its rows so far, those of the base version, and all that follow.
    fn give_up_dictionary(&mut self, c: usize) -> Result<()> {
        let Column::Candidate(candidate) = std::mem::replace(&mut self.columns[c], Column::Direct) else {
            return Ok(());
        };
        for held in candidate.held.chunks(self.at_once() * self.columns.len()) {
            let chunks = self.chunks();
            let plain: Vec<(Stored, Vec<Zone>)> = self
                .threads
                .run(|| held.par_iter().map(|held| chunks.encode(c, &candidate.plain(held))).collect::<Result<_>>())?;
            for (held, (stored, zones)) in held.iter().zip(plain) {
                self.put(held.segment, c, stored, zones)?;
            }
        }
        if let Some(base) = &self.base {
            let (mut chunks, mut waiting) =
                (Vec::with_capacity(base.num_segments()), Waiting::new(1, self.storage.extent));
            for s in 0..base.num_segments() {
                let dictionary = base.dictionary(c).expect("candidates of a table with rows have one");
                let strings = strings_of(&*base.segment(s, c)?, dictionary);
                let (stored, _) = self.chunks().encode(c, &strings)?;
                let enough = waiting.push(s, 0, stored).is_some() || s + 1 == base.num_segments();
                let stored =
                    if enough { waiting.take(0).into_iter().map(|(_, stored)| stored).collect() } else { vec![] };
                chunks.append(&mut self.sink.put_all(stored, None, self.storage.align)?);
            }
            self.rewritten[c] = Some(chunks);
        }
        Ok(())
    }

    /// Encodes the columns kept as provisional codes and returns the parts of the new version.
    pub fn finish(mut self) -> Result<Encoded> {
        self.give_up_dictionaries(Candidate::repeats_too_little)?;
        let mut held: Vec<(usize, HeldCodes)> = Vec::new();
        let mut orders: Vec<Option<Order>> = Vec::with_capacity(self.columns.len());
        for (c, column) in std::mem::take(&mut self.columns).into_iter().enumerate() {
            let Column::Candidate(candidate) = column else {
                orders.push(None);
                continue;
            };
            let (dictionary, remap, codes) = candidate.finish();
            held.extend(codes.into_iter().map(|codes| (c, codes)));
            let base = self.base_version().and_then(|b| b.dictionaries[c].clone());
            orders.push(Some(Order::new(dictionary, remap, base)));
        }
        (0..orders.len()).try_for_each(|column| self.write_waiting(column, None))?;
        held.sort_by_key(|(c, codes)| (*c, codes.segment));
        self.encode_held(&held, &orders)?;
        let dictionaries: Vec<Option<ColumnDictionary>> = self.stored(orders)?;
        let segments = self.base_segments(&dictionaries);
        let stored = self.segments.iter().flat_map(|(_, chunks)| chunks).flatten().map(|c| c.stats.stored_bytes).sum();
        let generations = |column: usize| dictionaries[column].as_ref().map(|d: &ColumnDictionary| d.generation);
        let rewritten = |column: usize| self.rewritten[column].is_some();
        let own: Vec<Written> = std::mem::take(&mut self.segments);
        let (segments, pruning) = match self.base.as_ref().filter(|_| !self.places.is_empty()) {
            None => {
                let kept =
                    self.base_version().map(|base| base.pruning.iter().map(|map| map.without(rewritten)).collect());
                let mut pruning: Vec<ZoneMap> = kept.unwrap_or_default();
                let (first, count) = (segments.len(), own.len());
                pruning.extend(self.zones.finish(first, count, stored, generations, &mut self.sink)?);
                let written = own.into_iter().map(|written| row_segment(written, None));
                (segments.into_iter().chain(written).collect::<Vec<_>>(), pruning)
            }
            Some(base) => {
                let (count, own) = (own.len(), placed(segments, own, &self.places));
                let (order, segments): (Vec<Origin>, Vec<RowSegment>) = own.into_iter().unzip();
                let regroup = Regroup {
                    base,
                    zones: &self.zones,
                    order: &order,
                    own: self.zones.own(count, stored),
                    rewritten: &rewritten,
                    generation: &generations,
                };
                let pruning = regroup.maps(&mut self.sink)?;
                (segments, pruning)
            }
        };
        // A version without rows has no dictionaries: later strings are free to have one or not.
        let dictionaries = if segments.is_empty() { vec![None; dictionaries.len()] } else { dictionaries };
        let codecs = self.storage.choices();
        Ok(Encoded { segments, dictionaries, codecs, pruning, sink: self.sink })
    }

    /// Stores the dictionaries, with translations from those generations that are still in use.
    fn stored(&mut self, orders: Vec<Option<Order>>) -> Result<Vec<Option<ColumnDictionary>>> {
        let used: Vec<HashSet<u32>> = (0..orders.len()).map(|c| self.generations_in_use(c)).collect();
        let store = |(order, used): (Option<Order>, HashSet<u32>)| {
            order.map(|order| order.store(&used, &mut self.sink)).transpose()
        };
        orders.into_iter().zip(used).map(store).collect()
    }

    /// The generations of column `c`'s dictionary in whose codes chunks and pruning metadata of the base version are that stay.
    fn generations_in_use(&self, c: usize) -> HashSet<u32> {
        let Some(base) = self.base_version().filter(|base| base.dictionaries[c].is_some()) else {
            return HashSet::new();
        };
        let (mut used, mut next) = (HashSet::new(), 0);
        let maps = base.pruning.iter().flat_map(|map| &map.columns).filter(|map| map.column == c);
        used.extend(maps.filter_map(|map| map.generation));
        while next < base.segments.len() {
            let (count, stays) = match self.places.get(&next) {
                None => (1, true),
                // Of a changed row segment, chunks of other columns stay.
                Some(&(count, position)) => (count, position.is_some_and(|at| self.segments[at].1[c].is_none())),
            };
            let chunk = &base.segments[next].columns[c];
            used.extend(chunk.generation.filter(|_| stays));
            next += count;
        }
        used
    }

    fn encode_held(&mut self, held: &[(usize, HeldCodes)], orders: &[Option<Order>]) -> Result<()> {
        let at_once = 2 * self.threads.number();
        let generation = |column: usize| orders[column].as_ref().map(|order| order.generation);
        for group in held.chunks(at_once) {
            let encode = |(c, codes): &(usize, HeldCodes)| {
                let order = orders[*c].as_ref().expect("held codes are of a candidate");
                let segment = codes.encode(&order.remap, &order.dictionary);
                let (segment, _) = segment.map_err(|e| in_column(e, self.schema.field(*c).name()))?;
                let zones = self.zones.options().of(&segment);
                Ok((self.storage.prepare(*c, segment)?, zones))
            };
            let rows = group.iter().map(|(_, codes)| self.segments[codes.segment].0).sum();
            let encoded: Vec<(Stored, Vec<Zone>)> = side_by_side(&self.threads, rows, group, encode)?;
            for ((c, codes), (prepared, zones)) in group.iter().zip(encoded) {
                self.zones.add(codes.segment, *c, zones);
                if let Some(enough) = self.waiting.push(codes.segment, *c, prepared) {
                    self.write_waiting(enough, generation(enough))?;
                }
            }
            // Columns are processed in order: the ones before are complete.
            let last = group.last().map_or(0, |(c, _)| *c);
            (0..last).try_for_each(|c| self.write_waiting(c, generation(c)))?;
        }
        (0..orders.len()).try_for_each(|c| self.write_waiting(c, generation(c)))
    }

    /// The row segments of the base version, in the form for the new version.
    fn base_segments(&self, dictionaries: &[Option<ColumnDictionary>]) -> Vec<RowSegment> {
        let Some(base) = self.base_version() else { return Vec::new() };
        let mut segments = base.segments.clone();
        for (&segment, deletions) in &self.marked {
            segments[segment].deletions = Some(Arc::clone(deletions));
        }
        for (c, dictionary) in dictionaries.iter().enumerate() {
            let generation = |d: &Option<ColumnDictionary>| d.as_ref().map(|d| d.generation);
            let grown = generation(dictionary) != generation(&base.dictionaries[c]);
            for (s, segment) in segments.iter_mut().enumerate() {
                match &self.rewritten[c] {
                    Some(chunks) => segment.columns[c] = chunks[s].clone(),
                    None if grown => segment.columns[c] = segment.columns[c].reopened(),
                    None => {}
                }
            }
        }
        segments
    }
}

/// The final dictionary of a column, and the translation to its codes.
struct Order {
    dictionary: Arc<Dictionary>,
    /// Its code by provisional code; codes of the base dictionary come first.
    remap: Vec<u32>,
    generation: u32,
    base: Option<ColumnDictionary>,
}

impl Order {
    fn new(dictionary: Arc<Dictionary>, remap: Vec<u32>, base: Option<ColumnDictionary>) -> Self {
        match base {
            // No new strings: the provisional codes are those of the base dictionary, which is kept.
            Some(base) if base.dictionary.len() == dictionary.len() => {
                Self { dictionary: base.dictionary.clone(), remap, generation: base.generation, base: Some(base) }
            }
            base => {
                let generation = base.as_ref().map_or(0, |b| b.generation + 1);
                Self { dictionary, remap, generation, base }
            }
        }
    }

    fn store(self, used: &HashSet<u32>, sink: &mut Sink) -> Result<ColumnDictionary> {
        let mut remaps = Vec::new();
        if let Some(mut base) = self.base {
            base.remaps.retain(|old| used.contains(&old.from));
            if base.generation == self.generation {
                return Ok(base);
            }
            let current: Arc<[u32]> = self.remap[..base.dictionary.len()].into();
            for old in &base.remaps {
                let codes: Arc<[u32]> = old.codes.iter().map(|&code| current[code as usize]).collect();
                remaps.push((old.from, codes));
            }
            if used.contains(&base.generation) {
                remaps.push((base.generation, current));
            }
        }
        let store = |(from, codes): (u32, Arc<[u32]>)| {
            let place = sink.put_bytes(|| codes.iter().flat_map(|c| c.to_le_bytes()).collect())?;
            Ok(Remap { from, codes, place })
        };
        let remaps = remaps.into_iter().map(store).collect::<Result<_>>()?;
        let place = sink.put_bytes(|| self.dictionary.to_bytes())?;
        Ok(ColumnDictionary { generation: self.generation, dictionary: self.dictionary, place, remaps })
    }
}

/// Number of rows up to which columns are encoded one after the other: waking threads takes longer.
const FEW_ROWS: usize = 4096;

/// `work` for each of `items`, which are columns of `rows` rows together; in parallel where they are many.
fn side_by_side<I: Sync, T: Send>(
    threads: &Threads,
    rows: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Send + Sync,
) -> Result<Vec<T>> {
    match rows {
        ..=FEW_ROWS => items.iter().map(work).collect(),
        _ => threads.run(|| items.par_iter().map(work).collect()),
    }
}

/// Adds the column's name to an error of a segment.
pub(super) fn in_column(error: FormatError, column: &str) -> FormatError {
    match error {
        FormatError::Schema { column: unknown, detail } if unknown.is_empty() => FormatError::schema(column, detail),
        FormatError::Arrow(error) => FormatError::schema(column, error.to_string()),
        other => other,
    }
}
