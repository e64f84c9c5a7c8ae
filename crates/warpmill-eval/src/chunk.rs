//! Chunks: up to 2048 rows of columns stored elsewhere, accessed through selection vectors.
//!
//! Columns of one origin (one scan, one build side, one projection) form a *group* and share a selection: the physical row of each logical row.
//! Filters and joins compose selections and copy no values (chunk compaction paper, section 5.1). Operators that need values call [`Chunk::dense`]
//! for a dense vector, which is cached until rows change.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use warpmill_format::{Segment, StrView};
use warpmill_ir::Phys;

use crate::decode;
use crate::memory::QueryMemory;
use crate::vector::{Data, Vector};

/// The physical row of each logical row of a chunk, for the columns of one group.
#[derive(Debug, Clone)]
pub enum Selection {
    /// Logical row `i` is physical row `start + i`.
    Range {
        /// The first physical row.
        start: u32,
    },
    /// Logical row `i` is physical row `rows[i]`.
    Rows(Arc<Vec<u32>>),
    /// As `Rows`; [`crate::vector::NULL_ROW`] represents a row of NULLs.
    RowsOrNull(Arc<Vec<u32>>),
}

/// The storage of a column's values.
#[derive(Debug, Clone)]
pub enum Values {
    /// In memory.
    Vector(Arc<Vector>),
    /// In an encoded segment, decoded at the first access.
    Lazy(Arc<LazyColumn>),
}

/// A column of a chunk.
#[derive(Debug, Clone)]
pub struct Column {
    /// The values, by physical row.
    pub values: Values,
    /// Index of the group whose selection applies.
    pub group: usize,
}

/// A run of rows of an encoded segment, decoded on demand.
pub struct LazyColumn {
    /// Set by the scan before the first access to values.
    segment: OnceLock<Arc<Segment>>,
    start: usize,
    rows: usize,
    phys: Phys,
    decoded: OnceLock<Decoded>,
    /// The bytes of strings of single rows, if the segment does not contain them decoded.
    picked: Mutex<Vec<Vec<u8>>>,
    /// Set if strings have to outlive the segment, or are decoded: keeps the bytes, with a vector of all rows.
    keeper: OnceLock<Arc<QueryMemory>>,
    owned: OnceLock<Arc<Vector>>,
    /// Counter of encoded bytes read.
    bytes_read: Arc<AtomicU64>,
}

/// Decoded rows of a segment.
struct Decoded {
    vector: Arc<Vector>,
    /// The bytes of decoded strings.
    text: Vec<u8>,
}

impl std::fmt::Debug for LazyColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LazyColumn({} rows from {})", self.rows, self.start)
    }
}

/// The least number of rows per needed row at which values are extracted one by one; otherwise the whole run is decoded.
pub const SPARSE: usize = 8;
/// The same for encoded strings, whose cost per row is about the same either way.
const SPARSE_STRINGS: usize = 2;

impl LazyColumn {
    /// Rows `start .. start + rows` of a segment (`start` a multiple of 1024) in representation `phys`. [`LazyColumn::open`] sets the segment. Adds
    /// the number of encoded bytes decoded to `bytes_read`.
    pub fn new(start: usize, rows: usize, phys: Phys, bytes_read: Arc<AtomicU64>) -> Self {
        let (segment, decoded, keeper, owned) = (OnceLock::new(), OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { segment, start, rows, phys, decoded, picked: Mutex::default(), keeper, owned, bytes_read }
    }

    /// Sets the segment; only the first call has an effect.
    pub fn open(&self, segment: &Arc<Segment>) {
        self.segment.get_or_init(|| segment.clone());
    }

    /// From now on `memory` keeps strings, so that they outlive the segment and this column. Returns whether the column has strings.
    pub fn own_strings(&self, memory: &Arc<QueryMemory>) -> bool {
        let strings = self.phys == Phys::Str;
        if strings {
            self.keeper.get_or_init(|| memory.clone());
        }
        strings
    }

    /// Whether accesses have to decode strings.
    pub fn decodes_strings(&self) -> bool {
        self.phys == Phys::Str && self.segment().decodes_strings()
    }

    fn segment(&self) -> &Segment {
        self.segment.get().expect("the scan opens columns before their rows are used")
    }

    fn count(&self, rows: usize) {
        let stats = self.segment().stats();
        self.bytes_read.fetch_add(stats.stored_bytes * rows as u64 / stats.rows.max(1), Ordering::Relaxed);
    }

    /// All rows as a decoded vector.
    pub fn vector(&self) -> &Arc<Vector> {
        match self.keeper.get() {
            Some(memory) => self.owned.get_or_init(|| self.owned(memory)),
            None => &self.decoded().vector,
        }
    }

    /// All rows, decoded; strings are views into the segment, or into text owned by this column.
    fn decoded(&self) -> &Decoded {
        self.decoded.get_or_init(|| {
            self.count(self.rows);
            let mut text = Vec::new();
            let vector = decode::run(self.segment(), self.start, self.rows, self.phys, &mut text);
            Decoded { vector: Arc::new(vector), text }
        })
    }

    /// All rows, with strings owned by `memory`.
    fn owned(&self, memory: &QueryMemory) -> Arc<Vector> {
        let Decoded { vector, text } = self.decoded();
        let vector = Vector::clone(vector);
        Arc::new(if self.decodes_strings() { kept(vector, text, memory) } else { owned(vector, memory) })
    }

    fn gather(&self, rows: &[u32]) -> Vector {
        let keeper = self.keeper.get();
        let sparse = if self.decodes_strings() { SPARSE_STRINGS } else { SPARSE };
        if self.decoded.get().is_none() && rows.len() * sparse < self.rows {
            let mut text = Vec::new();
            let vector = decode::rows(self.segment(), self.start, rows, self.phys, &mut text);
            self.count(rows.len());
            return match keeper {
                None => {
                    if self.decodes_strings() {
                        self.picked.lock().push(text);
                    }
                    vector
                }
                Some(memory) if self.decodes_strings() => kept(vector, &text, memory),
                Some(memory) => owned(vector, memory),
            };
        }
        let gathered = self.decoded().vector.gather(rows);
        match keeper {
            Some(memory) => owned(gathered, memory),
            None => gathered,
        }
    }
}

/// `vector` with its strings copied to where they live as long as `memory`.
fn owned(mut vector: Vector, memory: &QueryMemory) -> Vector {
    if let Data::Str(views) = &mut vector.data {
        let mut bytes = Vec::with_capacity(views.iter().map(|view| view.len()).sum());
        for view in views.iter_mut() {
            let start = bytes.len();
            bytes.extend_from_slice(view.as_bytes());
            // SAFETY: the bytes of a string; there is room for all, so they are not moved, and the query keeps them.
            *view = StrView::new(unsafe { std::str::from_utf8_unchecked(&bytes[start..]) });
        }
        memory.keep_text(views, &bytes);
    }
    vector
}

/// `vector`, whose strings are views into `text`, with views of a copy owned by `memory`.
fn kept(mut vector: Vector, text: &[u8], memory: &QueryMemory) -> Vector {
    if let Data::Str(views) = &mut vector.data {
        memory.keep_text(views, text);
    }
    vector
}

/// Rows on their way through a pipeline.
#[derive(Debug, Clone)]
pub struct Chunk {
    len: usize,
    columns: Vec<Column>,
    groups: Vec<Selection>,
    dense: Vec<OnceCell<Arc<Vector>>>,
    /// Position in the source's order: sinks that keep order sort by it.
    pub sequence: u64,
}

impl Chunk {
    /// A chunk of dense vectors of equal length (at least one column; see [`Chunk::without_columns`]).
    pub fn from_vectors(vectors: Vec<Arc<Vector>>) -> Self {
        let len = vectors.first().map_or(0, |v| v.len());
        debug_assert!(vectors.iter().all(|v| v.len() == len));
        let dense = vectors.iter().map(|v| OnceCell::from(v.clone())).collect();
        let columns = vectors.into_iter().map(|v| Column { values: Values::Vector(v), group: 0 }).collect();
        Self { len, columns, groups: vec![Selection::Range { start: 0 }], dense, sequence: 0 }
    }

    /// `len` rows without any columns (`count(*)` over a scan).
    pub fn without_columns(len: usize) -> Self {
        Self { len, columns: vec![], groups: vec![Selection::Range { start: 0 }], dense: vec![], sequence: 0 }
    }

    /// A chunk of `len` rows from its parts; every column's group must exist and its selection cover `len` rows.
    pub fn from_parts(len: usize, columns: Vec<Column>, groups: Vec<Selection>) -> Self {
        debug_assert!(columns.iter().all(|c| c.group < groups.len()));
        let dense = vec![OnceCell::new(); columns.len()];
        Self { len, columns, groups, dense, sequence: 0 }
    }

    /// Number of logical rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The columns.
    #[inline]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The selections of the column groups.
    #[inline]
    pub fn groups(&self) -> &[Selection] {
        &self.groups
    }

    /// Column `index` as a dense vector of [`Chunk::len`] rows.
    #[inline]
    pub fn dense(&self, index: usize) -> &Arc<Vector> {
        self.dense[index].get_or_init(|| {
            let column = &self.columns[index];
            match (&self.groups[column.group], &column.values) {
                (Selection::Range { start: 0 }, Values::Vector(v)) if v.len() == self.len => v.clone(),
                (Selection::Range { start: 0 }, Values::Lazy(lazy)) if lazy.rows == self.len => lazy.vector().clone(),
                (Selection::Range { start }, Values::Vector(v)) => Arc::new(v.slice(*start as usize, self.len)),
                (Selection::Range { start }, Values::Lazy(lazy)) => {
                    Arc::new(lazy.vector().slice(*start as usize, self.len))
                }
                (Selection::Rows(rows), Values::Vector(v)) => Arc::new(v.gather(rows)),
                (Selection::Rows(rows), Values::Lazy(lazy)) => Arc::new(lazy.gather(rows)),
                (Selection::RowsOrNull(rows), Values::Vector(v)) => Arc::new(v.gather_or_null(rows)),
                (Selection::RowsOrNull(rows), Values::Lazy(lazy)) => Arc::new(lazy.vector().gather_or_null(rows)),
            }
        })
    }

    /// Drops cached dense vectors, which no longer match the columns.
    pub fn forget_dense(&mut self) {
        self.dense = vec![OnceCell::new(); self.columns.len()];
    }

    /// Keeps logical rows `rows` (any order, repeats allowed), composing every group's selection.
    pub fn select(&mut self, rows: &[u32]) {
        self.groups = compose(&self.groups, rows);
        self.len = rows.len();
        self.dense = vec![OnceCell::new(); self.columns.len()];
    }

    /// As [`Chunk::select`], on a copy.
    pub fn selected(&self, rows: &[u32]) -> Chunk {
        let mut chunk = Self::from_parts(self.len, self.columns.clone(), self.groups.clone());
        chunk.sequence = self.sequence;
        chunk.select(rows);
        chunk
    }

    /// Keeps only columns `columns`, in that order (repeats allowed).
    pub fn project(&self, columns: &[usize]) -> Chunk {
        let mut chunk = Chunk {
            len: self.len,
            columns: columns.iter().map(|&i| self.columns[i].clone()).collect(),
            groups: self.groups.clone(),
            dense: columns.iter().map(|&i| self.dense[i].clone()).collect(),
            sequence: self.sequence,
        };
        chunk.drop_unused_groups();
        chunk
    }

    /// The same rows with other columns: `Err(i)` is column `i` of this chunk, `Ok` a dense vector with [`Chunk::len`] rows.
    pub fn rebuild(&self, columns: impl Iterator<Item = std::result::Result<Arc<Vector>, usize>>) -> Chunk {
        let mut chunk = Chunk {
            len: self.len,
            columns: vec![],
            groups: self.groups.clone(),
            dense: vec![],
            sequence: self.sequence,
        };
        chunk.groups.push(Selection::Range { start: 0 });
        for column in columns {
            match column {
                Err(i) => {
                    chunk.columns.push(self.columns[i].clone());
                    chunk.dense.push(self.dense[i].clone());
                }
                Ok(vector) => {
                    debug_assert_eq!(vector.len(), self.len);
                    chunk.dense.push(OnceCell::from(vector.clone()));
                    chunk.columns.push(Column { values: Values::Vector(vector), group: self.groups.len() });
                }
            }
        }
        chunk.drop_unused_groups();
        chunk
    }

    /// All columns as dense vectors.
    pub fn to_dense(&self) -> Vec<Arc<Vector>> {
        (0..self.columns.len()).map(|i| self.dense(i).clone()).collect()
    }

    fn drop_unused_groups(&mut self) {
        let mut used = vec![usize::MAX; self.groups.len()];
        let mut kept = Vec::with_capacity(self.groups.len());
        for column in &mut self.columns {
            if used[column.group] == usize::MAX {
                used[column.group] = kept.len();
                kept.push(self.groups[column.group].clone());
            }
            column.group = used[column.group];
        }
        if kept.is_empty() {
            kept.push(Selection::Range { start: 0 });
        }
        self.groups = kept;
    }
}

/// Composes selections: row `rows[i]` of `groups` becomes row `i`.
pub fn compose(groups: &[Selection], rows: &[u32]) -> Vec<Selection> {
    let pick = |old: &Arc<Vec<u32>>| Arc::new(rows.iter().map(|&row| old[row as usize]).collect::<Vec<u32>>());
    groups
        .iter()
        .map(|group| match group {
            Selection::Range { start: 0 } => Selection::Rows(Arc::new(rows.to_vec())),
            Selection::Range { start } => Selection::Rows(Arc::new(rows.iter().map(|row| start + row).collect())),
            Selection::Rows(old) => Selection::Rows(pick(old)),
            Selection::RowsOrNull(old) => Selection::RowsOrNull(pick(old)),
        })
        .collect()
}
