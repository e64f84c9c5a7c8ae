//! The way each sink of a program lies in device memory; [`super::planner`] decides.

use warpmill_functions::aggregate::Input;
use warpmill_ir::{AggregateFunction, Expr, SinkId, SortKey};

use super::cpp::CType;
use super::keys::{KeyPart, KeyShape};
use super::storage::FlatColumn;
use crate::kernels::library::Library;

/// The place where a sink's rows are.
#[derive(Debug, Clone, PartialEq)]
pub enum SinkLayout {
    /// Of a hash build.
    Build(BuildLayout),
    /// Of an aggregation.
    Groups(GroupLayout),
    /// Of collected or sorted rows: columns in device memory.
    Rows(RowsLayout),
}

/// Rows appended to columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowsLayout {
    /// The columns.
    pub columns: Vec<FlatColumn>,
    /// The number of rows that fit.
    pub capacity: u64,
    /// Whether warps reserve positions for several rows at once: then `{owner}.live` says which positions hold a row.
    pub reserves: bool,
    /// The way the first rows in a sort order are found, where only those are wanted and they are few.
    pub top: Option<Box<Top>>,
    /// The way the device sorts them (or those first ones), where it does.
    pub sorted: Option<Box<Sorted>>,
    /// Whether rows go to the host when the columns are full.
    pub flushes: bool,
    /// The way window functions of them are computed, where they are a window's.
    pub window: Option<Box<Windowed>>,
    /// The way functions of groups of them are computed, where they are those of one: then who reads the sink gets the groups.
    pub grouped: Option<Box<Grouped>>,
}

/// The way probes find a build's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// A bit per possible key; payload at the key's own position. Keys do not repeat (or nobody minds).
    Bitmap,
    /// A row per possible key, further rows of the key chained.
    Direct,
    /// Open addressing on the packed key, rows chained.
    Hash,
    /// Open addressing on a hash of the key columns, rows chained; linked after all rows have been appended.
    Wide,
    /// There is no key: all rows.
    All,
}

/// A hash build.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildLayout {
    /// The key.
    pub keys: KeyShape,
    /// The way rows are found.
    pub table: Table,
    /// The columns that probes read.
    pub payload: Vec<FlatColumn>,
    /// The key columns of [`Table::Wide`].
    pub key_columns: Vec<FlatColumn>,
    /// Rows (or, for [`Table::Bitmap`], keys) that fit.
    pub capacity: u64,
    /// Slots of an open-addressing table: a power of two.
    pub slots: u64,
    /// Whether every build row has a match flag.
    pub track_matches: bool,
    /// Whether probes ask for nothing but whether a key exists: rows of equal keys are as good as one.
    pub only_exists: bool,
    /// Whether NULL keys equal each other.
    pub null_equals_null: bool,
    /// The part of its source's rows that is expected to arrive: what a test of its keys lets pass.
    pub fraction: f64,
    /// Keys of which there is a bitmap beside the table, because scans are pruned by them.
    pub bitmaps: Vec<(usize, KeyPart)>,
    /// Keys whose least and greatest value are kept, because scans are pruned by them; and the part of the values between
    /// any two that exist in their table, so that a build can tell whether it has nearly all of these.
    pub bounds: Vec<(usize, KeyPart, f64)>,
    /// Whether warps reserve positions for several rows at once, so that some stay unused.
    pub reserves: bool,
    /// The way it is made in parts, where all of it does not fit.
    pub partition: Option<Partition>,
    /// Whether the payload, strings included, is in page-locked memory of the host, which kernels write to and read from over the link.
    pub on_host: bool,
    /// The way the rows of each key are put into order, where ASOF joins look for the nearest: then the table has a run for each key.
    pub order: Option<Box<KeyOrder>>,
}

/// The order of the rows of each key of a build.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyOrder {
    /// Whether there are keys: each has a number, which is its place in the table.
    pub has_keys: bool,
    /// The columns that are sorted: the number of a row's key, where there are keys, and its time, last. None where rows arrive as words.
    pub columns: Vec<FlatColumn>,
    /// The keys of the sort, over these columns; none where rows are words.
    pub keys: Vec<SortKey>,
    /// The way the numbers of the rows are put into that order.
    pub sorted: Sorted,
    /// The numbers that are searched.
    pub search: Search,
}

/// The numbers that stand for times in order, among which the place of a value is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Distances from the least time: rows are sorted by a word, the number of the key times the span, and the distance.
    Distances {
        /// The least time.
        least: i128,
        /// The greatest time.
        most: i128,
        /// Times from one to the other.
        span: u64,
    },
    /// `order_bits`.
    Images,
    /// None: times that are no numbers of 64 bits are compared where they were appended.
    Values,
}

impl BuildLayout {
    /// Strings of a row that are in the host's memory.
    pub fn host_strings(&self) -> u64 {
        let strings = self.payload.iter().filter(|column| column.ty == CType::Str);
        if self.on_host { strings.count() as u64 } else { 0 }
    }

    /// The bounds of key `key` of this build, `id`: their name, and how dense keys are where none is missing.
    pub fn key_bounds(&self, id: SinkId, key: usize) -> Option<(String, f64)> {
        let (_, _, density) = self.bounds.iter().find(|(other, ..)| *other == key)?;
        Some((format!("sink{id}.bounds{key}"), *density))
    }

    /// The bitmap of key `key` of this build, `id`: its name, and which values its bits stand for.
    pub fn key_bits(&self, id: SinkId, key: usize) -> Option<(String, KeyPart)> {
        match &self.keys {
            // NULL keys find each other, and have no bit.
            _ if self.null_equals_null => None,
            // Its bits stand for other values in every part.
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

/// The way rows find their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupTable {
    /// There is one group: accumulators in registers.
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

/// An accumulator: 64-bit words of a group's record, zero at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulator {
    /// Rows.
    Count,
    /// Whether there is a row: 1, or 0.
    Presence,
    /// A sum that is proven to fit 64 bits.
    SumI64,
    /// A sum that is proven to fit 128 bits.
    SumI128,
    /// A sum that may leave 128 bits.
    SumWide,
    /// A sum of floats.
    SumF64,
    /// The greatest complement of `order_bits`.
    Min,
    /// The greatest `order_bits`.
    Max,
    /// As `Min`, of 128 bits, with a lock.
    MinWide,
    /// As `Max`, of 128 bits, with a lock.
    MaxWide,
    /// The least string (kernels/best_string.cuh).
    MinText,
    /// The greatest string.
    MaxText,
    /// The sums that variances follow from (kernels/moments.cuh).
    Moments,
    /// The sums that functions of pairs follow from (kernels/pairs.cuh).
    Pairs,
}

impl Accumulator {
    /// Words of a record.
    pub fn words(self) -> usize {
        match self {
            Accumulator::SumI128 => 2,
            Accumulator::SumWide | Accumulator::MinWide | Accumulator::MaxWide | Accumulator::Moments => 3,
            Accumulator::MinText | Accumulator::MaxText => 4,
            Accumulator::Pairs => 8,
            _ => 1,
        }
    }

    /// Words of those that matter to a thread that shares them with no other: the rest are locks.
    pub fn own_words(self) -> usize {
        match self {
            Accumulator::MinWide | Accumulator::MaxWide => 2,
            Accumulator::MinText | Accumulator::MaxText => 3,
            _ => self.words(),
        }
    }

    /// Whether a thread may keep it in registers: one or two words, without a lock or a string.
    pub fn is_plain(self) -> bool {
        use Accumulator as A;
        matches!(self, A::Count | A::SumI64 | A::SumI128 | A::SumF64 | A::Min | A::Max)
    }

    /// The parts of the device library that it needs.
    pub fn library(self) -> Option<Library> {
        match self {
            Accumulator::MinText | Accumulator::MaxText => Some(Library::BestString),
            Accumulator::Moments => Some(Library::Moments),
            Accumulator::Pairs => Some(Library::Pairs),
            _ => None,
        }
    }
}

/// An accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Its computation.
    pub accumulator: Accumulator,
    /// The rows that it takes in.
    pub input: Input,
    /// First word of the record.
    pub word: usize,
}

/// The way an aggregate's result follows from accumulators.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The function.
    pub function: AggregateFunction,
    /// Its accumulator.
    pub slot: usize,
    /// The count without which there is no value.
    pub count: Option<usize>,
    /// Index of the argument.
    pub argument: Option<usize>,
}

/// Different values of an argument.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctSet {
    /// Index of the argument.
    pub argument: usize,
    /// Index of the filter.
    pub filter: Option<usize>,
    /// The columns of group and value, which are compared where a value does not pack into 64 bits with its group.
    pub columns: Vec<FlatColumn>,
}

/// An aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLayout {
    /// The group keys.
    pub keys: KeyShape,
    /// The way rows find their group.
    pub table: GroupTable,
    /// The key columns of [`GroupTable::Wide`].
    pub key_columns: Vec<FlatColumn>,
    /// The key columns whose hash says where a group is looked for first ([`super::keys::quick_columns`]).
    pub quick: Option<Vec<usize>>,
    /// Distinct arguments.
    pub arguments: Vec<Expr>,
    /// Distinct filters.
    pub filters: Vec<Expr>,
    /// Sets of different values.
    pub distinct: Vec<DistinctSet>,
    /// Slots of each distinct set's table: a power of two.
    pub distinct_slots: u64,
    /// The accumulators.
    pub slots: Vec<Slot>,
    /// One per aggregate.
    pub outputs: Vec<Output>,
    /// Index of the slot that counts all rows of a group: groups without rows do not exist.
    pub presence: Option<usize>,
    /// Whether a bitmap beside the records, `sink{id}.marks`, says which of them have rows: records are a word smaller then.
    pub marked: bool,
    /// Whether each thread adds up consecutive rows of a group before it updates the group's record.
    pub combined: bool,
    /// Words of a record.
    pub words: usize,
    /// Records (slots of an open-addressing table).
    pub cells: u64,
    /// The result's columns.
    pub rows: RowsLayout,
    /// The way it is made in parts, where all of it does not fit.
    pub partition: Option<Partition>,
}

impl SinkLayout {
    /// The way the sink is made in parts; `None`: as a whole.
    pub fn partition(&self) -> Option<&Partition> {
        match self {
            SinkLayout::Build(build) => build.partition.as_ref(),
            SinkLayout::Groups(groups) => groups.partition.as_ref(),
            SinkLayout::Rows(_) => None,
        }
    }
}

/// Values that a hash can have.
pub const HASHES: u64 = 1 << 63;

/// The way a sink is made in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Values of keys: `0 .. total`.
    pub total: u64,
    /// Values that a part has at most: tables that are indexed by keys have no room for more.
    pub most: u64,
    /// Parts that are expected to suffice.
    pub parts: u64,
    /// Rows or groups that a part has room for.
    pub room: u64,
}

/// The executors' names of the least value of the part of sink `id` that there is, and how many values it has.
pub fn names(id: SinkId) -> [String; 2] {
    [format!("sink{id}.part.from"), format!("sink{id}.part.size")]
}

/// The way the first rows of a sort are found.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// The number of rows that are wanted, with those that are skipped.
    pub limit: u64,
    /// No further bits are looked at when so few rows are left.
    pub enough: u64,
    /// The image of each row's first sort key.
    pub order: FlatColumn,
    /// Upper bits of the images in which rows differ.
    pub bits: u32,
    /// The rows that can be in the result.
    pub rows: RowsLayout,
    pub(super) owner: String,
}

/// A digit of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digit {
    /// Its lowest bit.
    pub shift: u32,
    /// Its bits.
    pub bits: u32,
    /// Whether rows do not differ in lower bits.
    pub last: bool,
}

/// The way a sort's rows are put into order.
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted {
    /// Rows that are dropped first.
    pub skip: u64,
    /// Rows that are kept after them.
    pub fetch: Option<u64>,
    /// The words, most significant first.
    pub words: Vec<Word>,
    /// The rows in order.
    pub rows: RowsLayout,
    /// Rows that there is room for before the sort.
    pub capacity: u64,
    pub(super) owner: String,
}

/// The way functions of the rows of groups are computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouped {
    /// The groups, as partitions of a window; its operands are the columns that rows are appended to.
    pub partitions: Windowed,
    /// The operand of each group key.
    pub keys: Vec<usize>,
    /// The operands of each call.
    pub calls: Vec<Vec<usize>>,
    /// The groups with the results.
    pub rows: RowsLayout,
    /// The prefix of the names of its buffers.
    pub owner: String,
}

/// The way window functions are computed. Rows stay where they are: functions are computed in the order of partitions, and their values
/// go to the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Windowed {
    /// The expressions of keys and arguments, each once.
    pub operands: Vec<Operand>,
    /// The keys of partitions, then those of the order, over the operands.
    pub keys: Vec<SortKey>,
    /// The number of keys of partitions.
    pub partition: usize,
    /// The way rows are put into order; `None`: there are no keys.
    pub sorted: Option<Sorted>,
    /// Whether a function asks for the partition of a row: without keys there is only one.
    pub has_partitions: bool,
    /// Whether a function asks for groups of peers.
    pub has_groups: bool,
    /// The arrays that frames are summed over.
    pub series: Vec<Series>,
    /// Operands of which NULLs are passed over: the positions of their values are listed.
    pub listed: Vec<usize>,
    /// Rows that there is room for.
    pub capacity: u64,
    pub(super) owner: String,
}

/// A key or an argument of window functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// Over the columns that arrive.
    pub expr: Expr,
    /// Where its values are kept.
    pub column: FlatColumn,
    /// Whether that is a column of its own, none of the output.
    pub own: bool,
}

/// The values of an operand that an accumulator takes in, by position.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The operand.
    pub operand: usize,
    /// `Count` (of values), a sum or an extreme.
    pub accumulator: Accumulator,
    /// The way frames are summed.
    pub way: Way,
}

/// The way sums of frames follow from a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Differences of sums from the first position on, which are exact.
    Differences,
    /// Sums from a partition's first position on, of frames that begin there.
    Running,
    /// Sums of 16, 256, ... values, of so many levels.
    Tree(u32),
    /// None: the series has numbers that order as a key does, among which ends of frames are searched.
    Search {
        /// Whether the key descends: then the numbers are complements.
        descending: bool,
    },
}

/// Images that are sorted together.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// Most significant first.
    pub images: Vec<Image>,
    /// Bits of all of them.
    pub bits: u32,
}

/// An image of a sort key, in its lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// The key.
    pub key: usize,
    /// The way it follows from the value.
    pub kind: ImageKind,
    /// Its bits.
    pub bits: u32,
}

/// The way an image follows from a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// Whether there is a value.
    Null,
    /// The distance from the first value in order. With `null` NULL is one more value, before or behind all others.
    Distance {
        /// The least value.
        least: i128,
        /// The greatest value.
        most: i128,
        /// Whether NULL is one of the values.
        null: bool,
    },
    /// Bits from `shift` on of a distance of up to 128 bits.
    Wide {
        /// The least value.
        least: i128,
        /// The greatest value.
        most: i128,
        /// Its lowest bit.
        shift: u32,
    },
    /// `order_bits`; NULL is beyond those of all values.
    Float,
    /// 8 bytes of a string.
    Text {
        /// The first.
        from: u32,
    },
    /// Bytes of a string, up to 255: tells apart strings of which one is the other with zeros behind it.
    Length,
}
