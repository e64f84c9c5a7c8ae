//! Tables in memory with separately encoded columns: row segments by any thread in any order; columns at different times, combined to a table.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Float32Array, Float64Array, NullBufferBuilder, StringArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Schema};
use parking_lot::Mutex;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::chunk::{Chunk, Source};
use super::column_dictionary::ColumnDictionary;
use super::conform::conform_column;
use super::encoder::in_column;
use super::pieces::{Piece, Values};
use super::pruning::{ColumnMap, Stored, ZoneMap};
use super::strings::{Candidate, HeldCodes, NarrowCodes};
use super::version::{RowSegment, Version};
use super::{Home, Identity, Table, TableSnapshot};
use crate::pruning::{ColumnZones, Metadata, ZONE_ROWS, Zone, Zones, of_bounds, of_segment};
use crate::segment::{SegmentBytes, VectorBounds};
use crate::{Bitmap, FormatError, Result, SEGMENT_ROWS, Segment, VECTOR_ROWS};

/// Rows of a piece.
pub type Part<'a> = (&'a Piece, Range<usize>);

/// Encodes one column of a table that is being read, a row segment at a time.
pub struct ColumnWriter {
    field: FieldRef,
    /// Whether its strings have too many distinct values for a dictionary.
    plain: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Encoded row segments by position.
    made: BTreeMap<usize, Made>,
    /// Strings that may get a dictionary, whose codes are final only at the end.
    candidate: Option<Candidate>,
}

/// An encoded row segment.
struct Made {
    rows: usize,
    chunk: Arc<Chunk>,
    zones: Vec<Zone>,
}

/// One column of a table in memory, encoded.
#[derive(Debug)]
pub struct EncodedColumn {
    field: FieldRef,
    segments: Vec<(usize, Arc<Chunk>)>,
    dictionary: Option<ColumnDictionary>,
    zones: Arc<Stored>,
}

thread_local! {
    /// A reusable buffer for a row segment's values: allocating fresh memory of this size would cost as much as encoding.
    static NARROW: RefCell<Vec<i64>> = const { RefCell::new(vec![]) };
}

impl ColumnWriter {
    /// An empty column `field`.
    ///
    /// Errors: [`FormatError::Schema`] for a type that is stored as another one, except other text types.
    pub fn new(field: FieldRef) -> Result<Self> {
        let stored = stored_text(field.data_type());
        Piece::new(stored, true).map_err(|error| in_column(error, field.name()))?;
        let candidate = (*stored == DataType::Utf8).then(|| Candidate::new(None, 0));
        Ok(Self { field, plain: AtomicBool::new(false), state: Mutex::new(State { candidate, ..State::default() }) })
    }

    /// An empty piece for rows of this column.
    pub fn piece(&self) -> Piece {
        let stored = stored_text(self.field.data_type());
        Piece::new(stored, self.plain.load(Ordering::Relaxed)).expect("the type has been looked at")
    }

    /// Clears a piece whose rows are encoded, for reuse.
    pub fn again(&self, mut piece: Piece) -> Piece {
        piece.clear();
        let numbered = matches!(piece.parts().0, Values::Strings(strings) if !strings.is_plain());
        if numbered && self.plain.load(Ordering::Relaxed) { self.piece() } else { piece }
    }

    /// Learns properties for the next pieces from a full piece.
    pub fn learn(&self, piece: &Piece) {
        if matches!(piece.parts().0, Values::Strings(strings) if strings.is_plain()) {
            self.plain.store(true, Ordering::Relaxed);
        }
    }

    /// Encodes row segment `segment`, the concatenation of `parts` (at most [`SEGMENT_ROWS`] rows). Each segment must be encoded once.
    ///
    /// Errors: text that is not UTF-8, 4 GiB or more of strings.
    pub fn encode(&self, segment: usize, parts: &[Part<'_>]) -> Result<()> {
        let rows = parts.iter().map(|(_, range)| range.len()).sum::<usize>();
        assert!((1..=SEGMENT_ROWS).contains(&rows), "{rows} rows in one segment");
        let nulls = nulls(parts, rows);
        if let Some(codes) = self.number(parts) {
            let mut state = self.state.lock();
            if let Some(candidate) = &mut state.candidate {
                candidate.hold(segment, codes, nulls);
            }
            return Ok(());
        }
        let made = made(values(parts, nulls, self.field.data_type())?, None);
        self.state.lock().made.insert(segment, made);
        Ok(())
    }

    /// Disables the dictionary for strings that are known to have too many distinct values.
    pub fn make_plain(&self) {
        self.plain.store(true, Ordering::Relaxed);
    }

    /// [`ColumnWriter::encode`] for the concatenation of `arrays`, whose values must convert to the column's type exactly. Returns their approximate
    /// size in bytes.
    ///
    /// Errors: values that do not convert, NULLs in a NOT NULL column; those of [`ColumnWriter::encode`].
    pub fn encode_arrays(&self, segment: usize, arrays: &[ArrayRef]) -> Result<u64> {
        let in_column = |error| in_column(error, self.field.name());
        let stored = stored_text(self.field.data_type());
        let field = Field::new(self.field.name(), stored.clone(), self.field.is_nullable());
        let converted = |array: &ArrayRef| conform_column(array, &field);
        let made = if *stored == DataType::Utf8 && self.plain.load(Ordering::Relaxed) {
            let texts = arrays.iter().map(converted).collect::<Result<Vec<_>>>()?;
            let texts: Vec<&StringArray> = texts.iter().map(|text| text.as_string::<i32>()).collect();
            plain_texts(&texts).map_err(in_column)?
        } else if *stored == DataType::Utf8 {
            let mut piece = self.piece();
            for array in arrays {
                match array.as_dictionary_opt::<Int32Type>() {
                    Some(coded) if field.is_nullable() || coded.null_count() == 0 => add_coded(&mut piece, coded),
                    _ => add_strings(&mut piece, converted(array)?.as_string::<i32>()),
                }
                .map_err(in_column)?;
            }
            self.learn(&piece);
            let rows = piece.len();
            self.encode(segment, &[(&piece, 0..rows)])?;
            return Ok(2 * rows as u64);
        } else {
            let arrays = arrays.iter().map(converted).collect::<Result<Vec<_>>>()?;
            let parts: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
            let array = concat(&parts).map_err(|error| in_column(FormatError::schema("", error.to_string())))?;
            let encoded = Segment::encode(&array, None, None).map_err(in_column)?;
            let zones = of_segment(&encoded, ZONE_ROWS, Metadata::MinMax);
            (encoded, zones)
        };
        let bytes = made.0.as_bytes().len() as u64;
        self.state.lock().made.insert(segment, self::made(made, None));
        Ok(bytes)
    }

    /// The rows of `parts` as codes of the column; `None` if it has no dictionary.
    fn number(&self, parts: &[Part<'_>]) -> Option<NarrowCodes> {
        if self.plain.load(Ordering::Relaxed) {
            return None;
        }
        let strings = parts.iter().map(|(piece, range)| match piece.parts().0 {
            Values::Strings(strings) => Some((strings.numbered(), range)),
            _ => None,
        });
        let strings: Vec<_> = strings.collect::<Option<_>>()?;
        let entries: Option<Vec<Vec<u32>>> = {
            let mut state = self.state.lock();
            let candidate = state.candidate.as_mut()?;
            let entries = strings.iter().map(|(numbered, _)| Some(candidate.intern(numbered.as_ref()?.1))).collect();
            if candidate.too_large() { None } else { entries }
        };
        let Some(entries) = entries else {
            self.plain.store(true, Ordering::Relaxed);
            return None;
        };
        let most = entries.iter().flatten().copied().max().unwrap_or(0);
        let mut all = NarrowCodes::with_capacity(most, strings.iter().map(|(_, range)| range.len()).sum());
        for ((numbered, range), entries) in strings.into_iter().zip(&entries) {
            all.extend(&numbered.expect("looked at above").0[range.clone()], entries);
        }
        Some(all)
    }

    /// The column, after all of its row segments have been encoded.
    ///
    /// Errors: as [`ColumnWriter::encode`].
    pub fn finish(self) -> Result<EncodedColumn> {
        let (plain, mut state) = (self.plain.load(Ordering::Relaxed), std::mem::take(&mut *self.state.lock()));
        let mut dictionary = None;
        if let Some(candidate) = state.candidate.take() {
            let made: Vec<(usize, Made)> = if plain || candidate.too_large() || candidate.repeats_too_little() {
                let make = |held: &HeldCodes| {
                    let segment = Segment::encode(&candidate.plain(held), None, None)?;
                    let zones = of_segment(&segment, ZONE_ROWS, Metadata::MinMax);
                    Ok((held.segment, made((segment, zones), None)))
                };
                candidate.held.par_iter().map(make).collect::<Result<_>>()
            } else {
                let (entries, remap, held) = candidate.finish();
                let make =
                    |held: &HeldCodes| Ok((held.segment, made(with_zones(held.encode(&remap, &entries)?), Some(0))));
                if !held.is_empty() {
                    let dictionary_of =
                        |dictionary| ColumnDictionary { generation: 0, dictionary, place: None, remaps: vec![] };
                    dictionary = Some(dictionary_of(Arc::clone(&entries)));
                }
                held.par_iter().map(make).collect::<Result<_>>()
            }
            .map_err(|error| in_column(error, self.field.name()))?;
            state.made.extend(made);
        }
        let mut zones = ColumnZones::default();
        let segments = state.made.into_values().map(|made| {
            zones.append(made.zones);
            (made.rows, made.chunk)
        });
        let segments = segments.collect();
        let zones = Zones::from_bytes(SegmentBytes::copy_from(&zones.to_bytes(ZONE_ROWS, false, false)))?;
        Ok(EncodedColumn { field: self.field, segments, dictionary, zones: Stored::in_memory(zones) })
    }
}

/// The text type in which values of `declared` are stored, if it is a text type; otherwise `declared` itself.
fn stored_text(declared: &DataType) -> &DataType {
    match declared {
        DataType::LargeUtf8 | DataType::Utf8View => &DataType::Utf8,
        other => other,
    }
}

fn add_strings(piece: &mut Piece, strings: &StringArray) -> Result<()> {
    let Values::Strings(values) = piece.values() else { unreachable!("a piece for text") };
    for string in strings {
        match string {
            Some(text) => values.push(text.as_bytes())?,
            None => values.push_null(),
        }
    }
    let valid = |row: usize| strings.is_valid(row);
    piece.added(strings.len(), (strings.null_count() > 0).then_some(&valid));
    Ok(())
}

/// Adds strings given as dictionary codes; looks up each dictionary entry once.
fn add_coded(piece: &mut Piece, coded: &DictionaryArray<Int32Type>) -> Result<()> {
    let dictionary = coded.values().as_string_opt::<i32>();
    let dictionary = dictionary.ok_or_else(|| FormatError::schema("", "a dictionary that is not of text"))?;
    let Values::Strings(values) = piece.values() else { unreachable!("a piece for text") };
    values.extend_coded(&|code| dictionary.value(code), dictionary.len(), coded.keys())?;
    let valid = |row: usize| coded.keys().is_valid(row);
    piece.added(coded.len(), (coded.keys().null_count() > 0).then_some(&valid));
    Ok(())
}

/// Nulls among the rows of `parts`.
fn nulls(parts: &[Part<'_>], rows: usize) -> Option<NullBuffer> {
    parts.iter().find(|(piece, _)| piece.parts().1.is_some())?;
    let mut valid = Bitmap::new(0, true);
    for (piece, range) in parts {
        match piece.parts().1 {
            Some(bits) => valid.extend(&bits.slice(range.start, range.len())),
            None => valid.extend(&Bitmap::new(range.len(), true)),
        }
    }
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(valid.words()), 0, rows));
    (nulls.null_count() > 0).then_some(nulls)
}

/// A segment and its zones.
type Zoned = (Segment, Vec<Zone>);

fn made((segment, zones): Zoned, generation: Option<u32>) -> Made {
    let mut stats = segment.stats().clone();
    stats.stored_bytes = segment.as_bytes().len() as u64;
    let (rows, encoding) = (segment.rows(), segment.encoding());
    let chunk = Chunk::new(stats, encoding, generation, Source::Memory(Arc::new(segment)), None);
    Made { rows, chunk, zones }
}

/// Adds zones to a segment, from the bounds of its vectors if they are known.
fn with_zones((segment, bounds): (Segment, Option<VectorBounds>)) -> Zoned {
    const VECTORS: usize = ZONE_ROWS / VECTOR_ROWS;
    let zones = match bounds {
        Some(bounds) => {
            let zone = |vectors: &[(i128, i128)]| vectors.iter().copied().reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
            of_bounds(bounds.chunks(VECTORS).map(|vectors| (zone(vectors), false)))
        }
        None => of_segment(&segment, ZONE_ROWS, Metadata::MinMax),
    };
    (segment, zones)
}

/// The rows of `parts` as a segment without a dictionary.
fn values(parts: &[Part<'_>], nulls: Option<NullBuffer>, data_type: &DataType) -> Result<Zoned> {
    /// All values of one kind together.
    macro_rules! all {
        ($kind:ident, $into:expr) => {
            for (piece, range) in parts {
                let Values::$kind(values) = piece.parts().0 else { unreachable!("pieces of one column are alike") };
                $into.extend_from_slice(&values[range.clone()]);
            }
        };
    }
    let array: ArrayRef = match parts.first().map(|(piece, _)| piece.parts().0) {
        None | Some(Values::Narrow(_)) => {
            let encode = |all: &mut Vec<i64>| {
                all.clear();
                all!(Narrow, all);
                Segment::encode_integers(all, nulls.as_ref(), data_type)
            };
            return NARROW.with_borrow_mut(encode).map(with_zones);
        }
        Some(Values::Wide(_)) => {
            let mut all = vec![];
            all!(Wide, all);
            let fits = |row: usize| i64::try_from(all[row]).is_ok() || nulls.as_ref().is_some_and(|n| n.is_null(row));
            let segment = if (0..all.len()).all(fits) {
                let narrow: Vec<i64> = all.iter().map(|&x| x as i64).collect();
                Segment::encode_integers(&narrow, nulls.as_ref(), data_type)
            } else {
                Segment::encode_integers(&all, nulls.as_ref(), data_type)
            };
            return segment.map(with_zones);
        }
        Some(Values::F32(_)) => {
            let mut all = vec![];
            all!(F32, all);
            Arc::new(Float32Array::new(all.into(), nulls))
        }
        Some(Values::F64(_)) => {
            let mut all = vec![];
            all!(F64, all);
            Arc::new(Float64Array::new(all.into(), nulls))
        }
        Some(Values::Strings(_)) => return plain_strings(parts, nulls.as_ref()),
    };
    let segment = Segment::encode(&array, None, None)?;
    let zones = of_segment(&segment, ZONE_ROWS, Metadata::MinMax);
    Ok((segment, zones))
}

/// The same for strings in arrays.
fn plain_texts(texts: &[&StringArray]) -> Result<Zoned> {
    let rows = texts.iter().map(|text| text.len()).sum();
    let (mut offsets, mut bytes) = (Vec::with_capacity(rows + 1), Vec::new());
    offsets.push(0);
    let mut nulls = NullBufferBuilder::new(rows);
    for text in texts {
        let own = text.value_offsets();
        let (first, last) = (own[0], own[text.len()]);
        let base = bytes.len() as u64;
        u32::try_from(base + (last - first) as u64).map_err(|_| too_many_bytes())?;
        bytes.extend_from_slice(&text.value_data()[first as usize..last as usize]);
        offsets.extend(own[1..].iter().map(|end| (base + (end - first) as u64) as u32));
        match text.nulls() {
            Some(own) => nulls.append_buffer(own),
            None => nulls.append_n_non_nulls(text.len()),
        }
    }
    with_text_zones((offsets, bytes), nulls.finish().as_ref())
}

fn too_many_bytes() -> FormatError {
    FormatError::schema("", "4 GiB or more of strings in one segment")
}

fn with_text_zones(strings: (Vec<u32>, Vec<u8>), nulls: Option<&NullBuffer>) -> Result<Zoned> {
    let rows = strings.0.len() - 1;
    let (segment, bounds) = Segment::encode_plain_strings(strings, nulls, ZONE_ROWS)?;
    let any_null =
        |start: usize| nulls.is_some_and(|nulls| nulls.slice(start, ZONE_ROWS.min(rows - start)).null_count() > 0);
    let zones = of_bounds((0..rows).step_by(ZONE_ROWS).zip(bounds).map(|(start, bounds)| (bounds, any_null(start))));
    Ok((segment, zones))
}

fn plain_strings(parts: &[Part<'_>], nulls: Option<&NullBuffer>) -> Result<Zoned> {
    let rows = parts.iter().map(|(_, range)| range.len()).sum::<usize>();
    let (mut offsets, mut bytes) = (Vec::with_capacity(rows + 1), Vec::new());
    offsets.push(0);
    for (piece, range) in parts {
        let Values::Strings(strings) = piece.parts().0 else { unreachable!("pieces of one column are alike") };
        let copied = strings.copy_to(range.clone(), &mut offsets, &mut bytes);
        copied.ok_or_else(too_many_bytes)?;
    }
    with_text_zones((offsets, bytes), nulls)
}

impl EncodedColumn {
    /// Name and type.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Rows.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|(rows, _)| *rows as u64).sum()
    }

    /// Bytes of its segments and of its dictionary.
    pub fn stored_bytes(&self) -> u64 {
        let dictionary = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.dictionary.plain_bytes());
        self.segments.iter().map(|(_, chunk)| chunk.stats.stored_bytes).sum::<u64>() + dictionary
    }
}

impl Table {
    /// A table in memory that shares existing columns.
    ///
    /// Errors: [`FormatError::Schema`] with the name of a column that occurs twice, or whose row segments differ from the first column's.
    pub fn of_columns(columns: &[Arc<EncodedColumn>]) -> Result<Arc<Self>> {
        // Text may be declared as another type than the stored one; all other types are stored unchanged.
        let schema = Schema::new(columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>());
        super::stored_schema(&schema)?;
        let schema = Arc::new(schema);
        let rows = |column: &EncodedColumn| column.segments.iter().map(|(rows, _)| *rows).collect::<Vec<_>>();
        let first = columns.first().map(|column| rows(column)).unwrap_or_default();
        if let Some(other) = columns.iter().find(|column| rows(column) != first) {
            return Err(FormatError::schema(other.field.name(), "it has other rows than the columns before it"));
        }
        let segment = |(s, &rows): (usize, &usize)| {
            let columns = columns.iter().map(|column| Arc::clone(&column.segments[s].1)).collect();
            RowSegment { rows, columns, deletions: None }
        };
        let segments: Vec<RowSegment> = first.iter().enumerate().map(segment).collect();
        let zones = |(c, column): (usize, &Arc<EncodedColumn>)| ColumnMap {
            column: c,
            generation: column.dictionary.as_ref().map(|dictionary| dictionary.generation),
            stored: Arc::clone(&column.zones),
        };
        let zones = ZoneMap {
            first: 0,
            segments: segments.len(),
            zone_rows: ZONE_ROWS,
            columns: columns.iter().enumerate().map(zones).collect(),
            attributes: vec![],
            starts: OnceLock::new(),
        };
        let pruning = if segments.is_empty() { vec![] } else { vec![zones] };
        let dictionaries = columns.iter().map(|column| column.dictionary.clone()).collect();
        let identity = Some(Identity::new());
        let (codecs, constraints) = (vec![], Arc::default());
        let version = Version { number: 1, identity, schema, constraints, dictionaries, codecs, segments, pruning };
        let home = Home::Memory { writing: Arc::default() };
        Ok(Arc::new(Self::at(home, Some(TableSnapshot::new(None, version)))))
    }
}

#[cfg(test)]
mod tests;
