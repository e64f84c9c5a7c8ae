//! Attributes of other tables, looked up for the rows of a table during writing.

use std::sync::Arc;

use arrow::datatypes::DataType;
use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3;

use super::build::of_ranks;
use super::{Metadata, Zone, float_rank, string_rank};
use crate::{FormatError, Result, Segment, StrView, TableSnapshot, VECTOR_ROWS};

/// A table referenced by a key, and its attributes for which metadata are stored: `column = name.key : attributes`.
#[derive(Debug, Clone)]
pub struct Sideways {
    /// The column of the table that is written.
    pub column: String,
    /// The name of the other table.
    pub name: String,
    /// The version that provides the attributes: the metadata are valid for this version only.
    pub table: Arc<TableSnapshot>,
    /// The key column. If several rows have the same key, all count.
    pub key: String,
    /// The attribute columns.
    pub attributes: Vec<String>,
}

/// No row.
const NONE: u32 = u32::MAX;

/// Attributes by key.
pub(crate) struct Lookup {
    /// The column of the table that is written.
    pub column: usize,
    pub sideways: Sideways,
    /// The key's position in the other table.
    pub key: usize,
    pub attributes: Vec<AttributeValues>,
    rows: Rows,
    /// The next row with the same key.
    next: Vec<u32>,
}

/// The last row of each key.
enum Rows {
    Dense { least: i128, rows: Vec<u32> },
    Hashed(HashMap<i128, u32>),
}

/// The ranks of a column, by row.
pub(crate) struct AttributeValues {
    /// Its position in the other table.
    pub column: usize,
    pub name: String,
    ranks: Vec<Option<i128>>,
    /// Whether they are of strings without a dictionary.
    text: bool,
}

impl Lookup {
    /// Reads the other table.
    ///
    /// # Errors
    /// [`FormatError::Schema`] for missing columns or non-integer keys; errors of reading.
    pub fn new(sideways: &Sideways, column: usize) -> Result<Self> {
        let table = &sideways.table;
        let find = |name: &str| {
            let missing = || FormatError::schema(name, format!("table {:?} has no such column", sideways.name));
            table.column_index(name).ok_or_else(missing)
        };
        let key = find(&sideways.key)?;
        if u32::try_from(table.stored_rows()).is_err() {
            return Err(FormatError::schema(&sideways.key, format!("table {:?} has too many rows", sideways.name)));
        }
        if !is_key(table.schema().field(key).data_type()) {
            let detail =
                format!("keys of type {} cannot be followed: integers can", table.schema().field(key).data_type());
            return Err(FormatError::schema(&sideways.key, detail));
        }
        let mut keys = ranks(table, key)?;
        leave_out_deleted(table, &mut keys)?;
        let attributes = sideways.attributes.iter().map(|name| {
            let column = find(name)?;
            let strings = table.schema().field(column).data_type() == &DataType::Utf8;
            let text = strings && table.dictionary(column).is_none();
            Ok(AttributeValues { column, name: name.clone(), ranks: ranks(table, column)?, text })
        });
        let attributes = attributes.collect::<Result<_>>()?;
        let (rows, next) = index(&keys);
        Ok(Self { column, sideways: sideways.clone(), key, attributes, rows, next })
    }

    fn row(&self, key: i128) -> u32 {
        match &self.rows {
            Rows::Dense { least, rows } => {
                let at = usize::try_from(key.wrapping_sub(*least)).unwrap_or(usize::MAX);
                rows.get(at).copied().unwrap_or(NONE)
            }
            Rows::Hashed(rows) => rows.get(&key).copied().unwrap_or(NONE),
        }
    }

    /// The zones of one attribute, for rows that reference it by the keys of `segment`. Rows without a referenced row are ignored: no join finds them
    /// a partner.
    pub fn zones(&self, segment: &Segment, attribute: usize, zone_rows: usize, metadata: Metadata) -> Vec<Zone> {
        let AttributeValues { ranks: values, text, .. } = &self.attributes[attribute];
        // Filters contain whole strings.
        let metadata = match metadata {
            Metadata::Auto | Metadata::All if *text => Metadata::Histogram,
            Metadata::Bloom if *text => Metadata::MinMax,
            other => other,
        };
        of_ranks(segment.rows(), zone_rows, metadata, |start, len| {
            let (mut ranks, mut nulls) = (Vec::with_capacity(len), false);
            for key in integers(segment, start, len).into_iter().flatten() {
                let mut row = self.row(key);
                while row != NONE {
                    match values[row as usize] {
                        Some(rank) => ranks.push(rank),
                        None => nulls = true,
                    }
                    row = self.next[row as usize];
                }
            }
            (ranks, nulls)
        })
    }

    /// The number of distinct ranks of an attribute.
    pub fn distinct(&self, attribute: usize) -> u64 {
        let ranks: hashbrown::HashSet<i128> = self.attributes[attribute].ranks.iter().copied().flatten().collect();
        ranks.len() as u64
    }

    /// The rank of an attribute in the first row with each key; `None` if there is no row, or it is NULL.
    pub fn ranks_of(&self, attribute: usize, keys: impl Iterator<Item = Option<i128>>) -> Vec<Option<i128>> {
        let values = &self.attributes[attribute].ranks;
        let rank = |key: Option<i128>| key.map(|key| self.row(key)).filter(|&row| row != NONE);
        keys.map(|key| rank(key).and_then(|row| values[row as usize])).collect()
    }
}

/// Whether columns of this type can be followed: their values are integers or dates.
pub(crate) fn is_key(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_temporal()
}

fn index(keys: &[Option<i128>]) -> (Rows, Vec<u32>) {
    let mut next = vec![NONE; keys.len()];
    let valid = || keys.iter().enumerate().filter_map(|(row, key)| Some((row, (*key)?)));
    let bounds =
        valid().fold(None, |b: Option<(i128, i128)>, (_, k)| Some(b.map_or((k, k), |(l, h)| (l.min(k), h.max(k)))));
    let dense = bounds.filter(|(lo, hi)| hi.abs_diff(*lo) < 8 * keys.len() as u128 + 1024);
    let rows = match dense {
        Some((least, greatest)) => {
            let mut rows = vec![NONE; greatest.abs_diff(least) as usize + 1];
            for (row, key) in valid() {
                next[row] = std::mem::replace(&mut rows[(key - least) as usize], row as u32);
            }
            Rows::Dense { least, rows }
        }
        None => {
            let mut rows = HashMap::with_capacity(keys.len());
            for (row, key) in valid() {
                next[row] = rows.insert(key, row as u32).unwrap_or(NONE);
            }
            Rows::Hashed(rows)
        }
    };
    (rows, next)
}

/// Removes the ranks of deleted rows.
fn leave_out_deleted(table: &TableSnapshot, ranks: &mut [Option<i128>]) -> Result<()> {
    let mut first = 0;
    for segment in 0..table.num_segments() {
        if let Some(deleted) = table.deleted(segment)? {
            (0..deleted.len()).filter(|&row| deleted.get(row)).for_each(|row| ranks[first + row] = None);
        }
        first += table.segment_rows(segment);
    }
    Ok(())
}

/// The ranks of a whole column.
fn ranks(table: &TableSnapshot, column: usize) -> Result<Vec<Option<i128>>> {
    let mut out = Vec::with_capacity(table.stored_rows() as usize);
    for s in 0..table.num_segments() {
        let segment = table.segment(s, column)?;
        for start in (0..segment.rows()).step_by(VECTOR_ROWS) {
            let len = VECTOR_ROWS.min(segment.rows() - start);
            if segment.is_string() {
                let mut views = vec![StrView::default(); len];
                let mut text = Vec::new();
                segment.decode_str(start, &mut text, &mut views);
                let strings = views.iter().map(|view| string_rank(view.as_bytes()));
                out.extend(masked(&segment, start, strings));
            } else if segment.is_float() {
                let mut floats = vec![0f64; len];
                segment.decode_floats(start, &mut floats);
                out.extend(masked(&segment, start, floats.into_iter().map(float_rank)));
            } else {
                out.extend(integers(&segment, start, len));
            }
        }
    }
    Ok(out)
}

/// Integers or codes, `None` for nulls.
fn integers(segment: &Segment, start: usize, len: usize) -> Vec<Option<i128>> {
    let mut out = vec![0i128; len];
    if segment.is_dictionary() {
        let mut codes = vec![0u32; len];
        segment.decode_codes(start, &mut codes);
        out = codes.into_iter().map(i128::from).collect();
    } else {
        segment.decode_i128(start, &mut out);
    }
    masked(segment, start, out.into_iter()).collect()
}

fn masked(
    segment: &Segment,
    start: usize,
    ranks: impl ExactSizeIterator<Item = i128>,
) -> impl Iterator<Item = Option<i128>> {
    let validity = segment.validity(start, ranks.len());
    ranks.enumerate().map(move |(i, rank)| validity.as_ref().is_none_or(|v| v.get(i)).then_some(rank))
}

impl TableSnapshot {
    /// A fingerprint of the rows of two columns: as long as it is the same, metadata of `attribute` by `key` are valid. Does not read tables on disk,
    /// whose checksums are known.
    pub fn fingerprint(&self, key: usize, attribute: usize) -> u64 {
        *self.fingerprints.lock().entry((key, attribute)).or_insert_with(|| self.hash_of(key, attribute))
    }

    fn hash_of(&self, key: usize, attribute: usize) -> u64 {
        let mut hash = Xxh3::new();
        for segment in 0..self.num_segments() {
            hash.update(&(self.segment_rows(segment) as u64).to_le_bytes());
            for column in [key, attribute] {
                hash.update(&self.parts().checksum(segment, column).to_le_bytes());
            }
            if let Some(deletions) = self.parts().deletions_checksum(segment) {
                hash.update(&deletions.to_le_bytes());
            }
        }
        for column in [key, attribute] {
            hash.update(&self.parts().dictionary_checksum(column).to_le_bytes());
        }
        hash.digest()
    }
}
