//! Layouts of sinks in device memory; [`super::planner`] chooses them.

use warpmill_functions::aggregate::Input;
use warpmill_ir::{AggregateFunction, Expr, SinkId, SortKey};

use super::cpp::CType;
use super::keys::{KeyPart, KeyShape};
use super::storage::FlatColumn;
use crate::kernels::library::Library;

/// The layout of a sink.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkLayout {
    /// A hash build.
    Build(BuildLayout),
    /// An aggregation.
    Groups(GroupLayout),
    /// Collected or sorted rows: columns in device memory.
    Rows(RowsLayout),
}

/// Rows appended to columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowsLayout {
    /// The columns.
    pub columns: Vec<FlatColumn>,
    /// Number of rows that fit.
    pub capacity: u64,
    /// Whether warps reserve positions for several rows: then `{owner}.live` marks the positions with a row.
    pub reserves: bool,
    /// Selection of the first rows in a sort order, if only a few are wanted.
    pub top: Option<Box<Top>>,
    /// The sort of the rows (or of the first ones), if the device does it.
    pub sorted: Option<Box<Sorted>>,
    /// Whether rows are flushed to the host when the columns are full.
    pub flushes: bool,
    /// Evaluation of window functions, if the sink is a window.
    pub window: Option<Box<Windowed>>,
    /// Evaluation of group functions, if there are any: then readers of the sink get the groups.
    pub grouped: Option<Box<Grouped>>,
}

/// The lookup structure of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// A bit per possible key; payload at the position of the key. Keys are unique, or duplicates are irrelevant.
    Bitmap,
    /// A head row per possible key; other rows of the key are chained.
    Direct,
    /// Open addressing on the packed key; rows of a key are chained.
    Hash,
    /// Open addressing on a hash of the key columns; rows of a key are chained, after all rows have been appended.
    Wide,
    /// No key: every row matches.
    All,
}

/// A hash build.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildLayout {
    /// The key.
    pub keys: KeyShape,
    /// The lookup structure.
    pub table: Table,
    /// Columns that probes read.
    pub payload: Vec<FlatColumn>,
    /// Key columns of [`Table::Wide`].
    pub key_columns: Vec<FlatColumn>,
    /// Number of rows (for [`Table::Bitmap`]: of keys) that fit.
    pub capacity: u64,
    /// Slots of an open-addressing table, a power of two.
    pub slots: u64,
    /// Whether every build row has a match flag.
    pub track_matches: bool,
    /// Whether probes only ask whether a key exists, so that duplicates are irrelevant.
    pub only_exists: bool,
    /// Whether NULL keys equal each other.
    pub null_equals_null: bool,
    /// Estimated fraction of the source's rows that arrive: the selectivity of a test against the keys.
    pub fraction: f64,
    /// Keys for which there is a bitmap beside the table, to prune scans.
    pub bitmaps: Vec<(usize, KeyPart)>,
    /// Keys whose least and greatest value are recorded, to prune scans; with the expected density of keys between any two if none is missing, by
    /// which kernels decide whether the range can replace the bitmap.
    pub bounds: Vec<(usize, KeyPart, f64)>,
    /// Number of bits, in shared memory, into which a bitmap of the keys may be folded; `None`: too many of them would be set.
    pub folded_bits: Option<u32>,
    /// Whether warps reserve positions for several rows, so that some stay unused.
    pub reserves: bool,
    /// Whether unused positions get a match flag, because rows without one are read.
    pub flags_unused: bool,
    /// Division into parts, if the build does not fit.
    pub partition: Option<Partition>,
    /// Whether the payload, strings included, is in page-locked host memory, which kernels access over the link.
    pub on_host: bool,
    /// Order of the rows of each key, for ASOF joins: then the table has a run for each key.
    pub order: Option<Box<KeyOrder>>,
}

/// The order of the rows of each key of a build.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyOrder {
    /// Whether there are keys; a key's number is its position in the table.
    pub has_keys: bool,
    /// The sorted columns: the key number, if there are keys, and the time. Empty if rows are appended as sort words.
    pub columns: Vec<FlatColumn>,
    /// Sort keys over these columns; empty if rows are appended as sort words.
    pub keys: Vec<SortKey>,
    /// The sort of the row numbers.
    pub sorted: Sorted,
    /// The representation of times that is searched.
    pub search: Search,
}

/// The representation of ordered times in which a probe's value is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Distances from the least time; rows are sorted by one word: key number times span, plus distance.
    Distances {
        /// The least time.
        least: i128,
        /// The greatest time.
        most: i128,
        /// Number of times from `least` to `most`.
        span: u64,
    },
    /// `order_bits` of the times.
    Images,
    /// The times themselves, where they were appended: they do not fit 64 bits.
    Values,
}

impl BuildLayout {
    /// Whether rows are linked to lists, one for each key, when they arrive.
    pub fn is_linked(&self) -> bool {
        self.order.is_none() && matches!(self.table, Table::Direct | Table::Hash)
    }

    /// Number of string columns of the payload in host memory.
    pub fn host_strings(&self) -> u64 {
        let strings = self.payload.iter().filter(|column| column.ty == CType::Str);
        if self.on_host { strings.count() as u64 } else { 0 }
    }

    /// The bounds of key `key` of this build, `id`: buffer name, and density if no key is missing.
    pub fn key_bounds(&self, id: SinkId, key: usize) -> Option<(String, f64)> {
        let (_, _, density) = self.bounds.iter().find(|(other, ..)| *other == key)?;
        Some((format!("sink{id}.bounds{key}"), *density))
    }

    /// The bitmap of key `key` of this build, `id`: buffer name, and the key range of its bits.
    pub fn key_bits(&self, id: SinkId, key: usize) -> Option<(String, KeyPart)> {
        match &self.keys {
            // NULL keys match each other, but have no bit.
            _ if self.null_equals_null => None,
            // The bits stand for other values in each part.
            _ if self.partition.is_some() => None,
            KeyShape::Packed { parts, .. } if self.table == Table::Bitmap && parts.len() == 1 => {
                Some((format!("sink{id}.bits"), parts[0]))
            }
            _ => {
                let (_, part) = self.bitmaps.iter().find(|(other, _)| *other == key)?;
                Some((format!("sink{id}.bits{key}"), *part))
            }
        }
    }
}

/// The lookup structure of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupTable {
    /// A single group: accumulators in registers.
    One,
    /// A record per possible key and thread, in shared memory.
    Private,
    /// A record per possible key and block, in shared memory.
    Shared,
    /// A record per possible key, in global memory.
    Dense,
    /// Open addressing on the packed key.
    Hash,
    /// Open addressing on a hash of the key columns.
    Wide,
}

/// An accumulator: 64-bit words of a group's record, initially zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulator {
    /// Number of rows.
    Count,
    /// 1 if there is a row, otherwise 0.
    Presence,
    /// A sum that is proven to fit 64 bits.
    SumI64,
    /// A sum that is proven to fit 128 bits.
    SumI128,
    /// A sum that may exceed 128 bits.
    SumWide,
    /// A sum of floats.
    SumF64,
    /// The maximum of the complement of `order_bits`.
    Min,
    /// The maximum of `order_bits`.
    Max,
    /// Like `Min`, for 128 bits, with a lock.
    MinWide,
    /// Like `Max`, for 128 bits, with a lock.
    MaxWide,
    /// The least string (kernels/best_string.cuh).
    MinText,
    /// The greatest string.
    MaxText,
    /// Sums for variances (kernels/moments.cuh).
    Moments,
    /// Sums for functions of pairs (kernels/pairs.cuh).
    Pairs,
}

impl Accumulator {
    /// Words in a record.
    pub fn words(self) -> usize {
        match self {
            Accumulator::SumI128 => 2,
            Accumulator::SumWide | Accumulator::MinWide | Accumulator::MaxWide | Accumulator::Moments => 3,
            Accumulator::MinText | Accumulator::MaxText => 4,
            Accumulator::Pairs => 8,
            _ => 1,
        }
    }

    /// Words that a single thread needs; the others are locks.
    pub fn own_words(self) -> usize {
        match self {
            Accumulator::MinWide | Accumulator::MaxWide => 2,
            Accumulator::MinText | Accumulator::MaxText => 3,
            _ => self.words(),
        }
    }

    /// Whether a thread may keep it in registers: one or two words, no lock, no string.
    pub fn is_plain(self) -> bool {
        use Accumulator as A;
        matches!(self, A::Count | A::SumI64 | A::SumI128 | A::SumF64 | A::Min | A::Max)
    }

    /// The library that it needs.
    pub fn library(self) -> Option<Library> {
        match self {
            Accumulator::MinText | Accumulator::MaxText => Some(Library::BestString),
            Accumulator::Moments => Some(Library::Moments),
            Accumulator::Pairs => Some(Library::Pairs),
            _ => None,
        }
    }
}

/// An accumulator of an aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The kind of accumulator.
    pub accumulator: Accumulator,
    /// The rows that it takes in.
    pub input: Input,
    /// Its first word in the record.
    pub word: usize,
}

/// An aggregate's result, computed from accumulators.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The function.
    pub function: AggregateFunction,
    /// Its accumulator.
    pub slot: usize,
    /// Slot of the count that must be positive for a non-NULL result.
    pub count: Option<usize>,
    /// Index of the argument.
    pub argument: Option<usize>,
}

/// The set of distinct values of an argument, per group.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctSet {
    /// Index of the argument.
    pub argument: usize,
    /// Index of the filter.
    pub filter: Option<usize>,
    /// Columns of group and value, for comparison, if they do not pack into 64 bits together.
    pub columns: Vec<FlatColumn>,
}

/// An aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLayout {
    /// The group keys.
    pub keys: KeyShape,
    /// The lookup structure.
    pub table: GroupTable,
    /// Key columns of [`GroupTable::Wide`].
    pub key_columns: Vec<FlatColumn>,
    /// The key columns by whose hash a group is first looked up ([`super::keys::quick_columns`]).
    pub quick: Option<Vec<usize>>,
    /// Distinct argument expressions.
    pub arguments: Vec<Expr>,
    /// Distinct filter expressions.
    pub filters: Vec<Expr>,
    /// Sets of distinct values.
    pub distinct: Vec<DistinctSet>,
    /// Slots of each distinct set's table, a power of two.
    pub distinct_slots: u64,
    /// The accumulators.
    pub slots: Vec<Slot>,
    /// One output per aggregate.
    pub outputs: Vec<Output>,
    /// The slot that tells whether a group has rows; groups without rows do not exist.
    pub presence: Option<usize>,
    /// Whether the bitmap `sink{id}.marks` tells which records have rows; records are then a word smaller.
    pub marked: bool,
    /// The accumulator of a marked record that has counted each row where its argument is never NULL: such rows need no mark.
    pub counted: Option<usize>,
    /// Whether each thread sums consecutive rows of a group before it updates the group's record.
    pub combined: bool,
    /// Slots of each block's own table for few groups, in shared memory ([`GroupTable::Hash`]); rows of groups without room go to the global table.
    pub own_slots: Option<u64>,
    /// Words of a record.
    pub words: usize,
    /// Number of records (slots of an open-addressing table).
    pub cells: u64,
    /// The result's columns.
    pub rows: RowsLayout,
    /// Division into parts, if the groups do not fit.
    pub partition: Option<Partition>,
}

impl SinkLayout {
    /// The division into parts; `None`: the sink is built as a whole.
    pub fn partition(&self) -> Option<&Partition> {
        match self {
            SinkLayout::Build(build) => build.partition.as_ref(),
            SinkLayout::Groups(groups) => groups.partition.as_ref(),
            SinkLayout::Rows(_) => None,
        }
    }
}

/// Number of values of a hash.
pub const HASHES: u64 = 1 << 63;

/// Division of a sink into parts by ranges of key values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Number of key values, `0 .. total`.
    pub total: u64,
    /// Largest number of values of a part: the size of tables that are indexed by key.
    pub most: u64,
    /// Expected number of parts.
    pub parts: u64,
    /// Capacity of a part in rows or groups.
    pub room: u64,
}

/// Names of the first value and the number of values of the current part of sink `id`.
pub fn names(id: SinkId) -> [String; 2] {
    [format!("sink{id}.part.from"), format!("sink{id}.part.size")]
}

/// Selection of the first rows of a sort.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// Number of wanted rows, skipped ones included.
    pub limit: u64,
    /// Number of remaining rows at which the selection stops early.
    pub enough: u64,
    /// The image of each row's first sort key.
    pub order: FlatColumn,
    /// Number of upper image bits in which rows can differ.
    pub bits: u32,
    /// The rows that may be in the result.
    pub rows: RowsLayout,
    pub(super) owner: String,
}

/// A digit of the images in radix selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digit {
    /// Lowest bit.
    pub shift: u32,
    /// Number of bits.
    pub bits: u32,
    /// Whether rows do not differ in lower bits.
    pub last: bool,
}

/// The sort of a sink's rows on the device.
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted {
    /// Number of leading rows to drop.
    pub skip: u64,
    /// Number of rows to keep after them.
    pub fetch: Option<u64>,
    /// Sort words, most significant first.
    pub words: Vec<Word>,
    /// The ordered rows.
    pub rows: RowsLayout,
    /// Capacity before the sort, in rows.
    pub capacity: u64,
    pub(super) owner: String,
}

/// Evaluation of group functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouped {
    /// The groups, as partitions of a window, whose operands are the appended columns.
    pub partitions: Windowed,
    /// The operand of each group key.
    pub keys: Vec<usize>,
    /// The operands of each call.
    pub calls: Vec<Vec<usize>>,
    /// The groups with the results.
    pub rows: RowsLayout,
    /// Prefix of its buffer names.
    pub owner: String,
}

/// Evaluation of window functions. Rows are not moved: functions are computed in the order of partitions, and their values are written to the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Windowed {
    /// Distinct key and argument expressions.
    pub operands: Vec<Operand>,
    /// Partition keys, then order keys, as columns over the operands.
    pub keys: Vec<SortKey>,
    /// Number of partition keys.
    pub partition: usize,
    /// The sort; `None`: there are no keys.
    pub sorted: Option<Sorted>,
    /// Whether a function needs the partition of a row; without keys there is only one.
    pub has_partitions: bool,
    /// Whether a function needs groups of peers.
    pub has_groups: bool,
    /// Argument series over which frames are summed.
    pub series: Vec<Series>,
    /// Operands whose NULLs are ignored: the positions of their values are listed.
    pub listed: Vec<usize>,
    /// Capacity in rows.
    pub capacity: u64,
    pub(super) owner: String,
}

/// A key or an argument of window functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// The expression over the input columns.
    pub expr: Expr,
    /// The column with its values.
    pub column: FlatColumn,
    /// Whether the column is separate, not an output column.
    pub own: bool,
}

/// Values of an operand in order of position, as input of an accumulator.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The operand.
    pub operand: usize,
    /// `Count` (of values), a sum or an extreme.
    pub accumulator: Accumulator,
    /// The method by which frames are summed.
    pub way: Way,
}

/// A method of computing sums of frames from a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Differences of exact prefix sums from the first position.
    Differences,
    /// Prefix sums from the partition's first position, for frames that begin there.
    Running,
    /// A tree of partial sums of 16, 256, ... values, with this number of levels.
    Tree(u32),
    /// No sums: the series holds ordered images of a key, in which frame ends are searched.
    Search {
        /// Whether the key is descending: then the images are complements.
        descending: bool,
    },
}

/// Images that are sorted as one word.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// Images, most significant first.
    pub images: Vec<Image>,
    /// Number of bits in total.
    pub bits: u32,
}

/// An ordered unsigned image of a sort key, in its lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Index of the sort key.
    pub key: usize,
    /// The mapping from the value.
    pub kind: ImageKind,
    /// Number of bits.
    pub bits: u32,
}

/// The mapping of a value to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// Whether there is a value.
    Null,
    /// The distance from the first value in order. With `null`, NULL is one more value, before or after all others.
    Distance {
        /// The least value.
        least: i128,
        /// The greatest value.
        most: i128,
        /// Whether NULL is among the values.
        null: bool,
    },
    /// The bits from `shift` of a distance of up to 128 bits.
    Wide {
        /// The least value.
        least: i128,
        /// The greatest value.
        most: i128,
        /// Lowest bit.
        shift: u32,
    },
    /// `order_bits`; NULL is beyond all values.
    Float,
    /// A word of 8 bytes of a string.
    Text {
        /// Offset of the first byte.
        from: u32,
    },
    /// Length of a string in bytes, up to 255: separates strings that differ in trailing zero bytes.
    Length,
}
