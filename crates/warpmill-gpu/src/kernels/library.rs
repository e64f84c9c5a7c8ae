//! The device library: hand-written CUDA C++ (`kernels/*.cuh`). A kernel's text includes the parts that it uses.

/// A part of the library: one file, one concept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Library {
    /// Strings, errors, the state of a query. Included in every kernel.
    Value,
    /// Arithmetic without undefined behaviour.
    Arith,
    /// Total order of floats, search in sorted lists.
    Compare,
    /// Comparison and search of strings.
    Strings,
    /// LIKE patterns.
    Like,
    /// Functions that make strings or count characters.
    Text,
    /// Conversions between numbers.
    Cast,
    /// Functions of numbers.
    Math,
    /// The calendar.
    Dates,
    /// Values as text.
    Format,
    /// Text as values.
    Parse,
    /// Vectors in the lane layout.
    Lane,
    /// Predicates on packed vectors.
    LaneFilter,
    /// Encoded segments.
    Scan,
    /// Rows, hash tables.
    Table,
    /// Accumulators.
    Aggregate,
    /// Variances.
    Moments,
    /// Correlations, covariances, regressions.
    Pairs,
    /// The least and greatest of strings.
    BestString,
    /// The first rows of a sort.
    TopK,
    /// Sorts.
    Sort,
    /// Window functions.
    Window,
    /// ASOF joins.
    Asof,
    /// Groups by their sizes.
    Groups,
    /// Values and columns of functions of the host's language.
    Functions,
}

impl Library {
    /// All parts, each after those that it uses.
    pub const ALL: [Library; 25] = [
        Library::Value,
        Library::Arith,
        Library::Compare,
        Library::Strings,
        Library::Like,
        Library::Text,
        Library::Cast,
        Library::Math,
        Library::Dates,
        Library::Format,
        Library::Parse,
        Library::Lane,
        Library::LaneFilter,
        Library::Scan,
        Library::Table,
        Library::Aggregate,
        Library::Moments,
        Library::Pairs,
        Library::BestString,
        Library::TopK,
        Library::Sort,
        Library::Window,
        Library::Asof,
        Library::Groups,
        Library::Functions,
    ];

    /// The text of the part.
    pub fn text(self) -> &'static str {
        match self {
            Library::Value => include_str!("../../kernels/value.cuh"),
            Library::Arith => include_str!("../../kernels/arith.cuh"),
            Library::Compare => include_str!("../../kernels/compare.cuh"),
            Library::Strings => include_str!("../../kernels/strings.cuh"),
            Library::Like => include_str!("../../kernels/like.cuh"),
            Library::Text => include_str!("../../kernels/text.cuh"),
            Library::Cast => include_str!("../../kernels/cast.cuh"),
            Library::Math => include_str!("../../kernels/math.cuh"),
            Library::Dates => include_str!("../../kernels/dates.cuh"),
            Library::Format => include_str!("../../kernels/format.cuh"),
            Library::Parse => include_str!("../../kernels/parse.cuh"),
            Library::Lane => include_str!("../../kernels/lane.cuh"),
            Library::LaneFilter => include_str!("../../kernels/lane_filter.cuh"),
            Library::Scan => include_str!("../../kernels/scan.cuh"),
            Library::Table => include_str!("../../kernels/table.cuh"),
            Library::Aggregate => include_str!("../../kernels/aggregate.cuh"),
            Library::Moments => include_str!("../../kernels/moments.cuh"),
            Library::Pairs => include_str!("../../kernels/pairs.cuh"),
            Library::BestString => include_str!("../../kernels/best_string.cuh"),
            Library::TopK => include_str!("../../kernels/topk.cuh"),
            Library::Window => include_str!("../../kernels/window.cuh"),
            Library::Asof => include_str!("../../kernels/asof.cuh"),
            Library::Groups => include_str!("../../kernels/groups.cuh"),
            Library::Functions => {
                concat!(include_str!("../../kernels/udf/value.cuh"), include_str!("../../kernels/udf/rows.cuh"))
            }
            Library::Sort => concat!(
                include_str!("../../kernels/look_back.cuh"),
                include_str!("../../kernels/hash.cuh"),
                include_str!("../../kernels/radix_sort.cuh"),
                include_str!("../../kernels/sort_rows.cuh")
            ),
        }
    }

    /// The parts that it uses directly.
    pub fn uses(self) -> &'static [Library] {
        match self {
            Library::Value | Library::Lane => &[],
            Library::Functions => &[Library::Arith],
            Library::Groups => &[Library::Table],
            Library::LaneFilter => &[Library::Lane],
            Library::Scan => &[Library::Value, Library::LaneFilter],
            Library::Table | Library::Aggregate => &[Library::Value, Library::Lane],
            Library::Arith | Library::Compare => &[Library::Value],
            Library::TopK | Library::Moments | Library::Window => &[Library::Aggregate],
            Library::Pairs => &[Library::Moments],
            Library::Asof => &[Library::Table, Library::Aggregate],
            Library::BestString => &[Library::Aggregate, Library::Text],
            Library::Sort => &[Library::Table, Library::Aggregate, Library::Strings],
            Library::Strings => &[Library::Compare],
            Library::Like | Library::Text => &[Library::Strings],
            Library::Cast | Library::Math | Library::Dates => &[Library::Arith],
            Library::Format | Library::Parse => &[Library::Strings, Library::Cast, Library::Dates],
        }
    }
}
