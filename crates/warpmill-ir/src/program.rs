//! Pipelines and sinks.
//!
//! A [`Program`] is a list of pipelines in a valid order of execution and a list of sinks. A pipeline pushes chunks from its
//! [`Source`] through [`Operator`]s into one sink; several pipelines may feed the same sink (UNION ALL, the unmatched rows
//! of an outer join). A sink is finished when the last pipeline that feeds it is; sources and probes refer to finished
//! sinks only. The last sink is the result.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use warpmill_format::TableSnapshot;

use crate::derived::Derived;
use crate::expr::Expr;
use crate::group_function::FunctionCall;
use crate::pairs::PairFunction;
use crate::pruning::{PruningMode, SidewaysFilter};
use crate::types::ColType;
use crate::window::WindowCall;

/// Index of a sink in [`Program::sinks`].
pub type SinkId = usize;

/// A query, or a part of one, for execution by a back end.
#[derive(Debug)]
pub struct Program {
    /// The pipelines, in a valid order of execution.
    pub pipelines: Vec<Pipeline>,
    /// The pipeline breakers; the last is the result ([`Sink::Collect`] or [`Sink::Sort`]).
    pub sinks: Vec<Sink>,
    /// Names and Arrow types of the result's columns.
    pub schema: SchemaRef,
    /// Values derived from it.
    pub derived: Derived,
}

impl Program {
    /// A program without derived values.
    pub fn new(pipelines: Vec<Pipeline>, sinks: Vec<Sink>, schema: SchemaRef) -> Self {
        Self { pipelines, sinks, schema, derived: Derived::default() }
    }

    /// Whether it calls group functions, which only devices run.
    pub fn calls_functions(&self) -> bool {
        self.sinks.iter().any(|sink| matches!(sink, Sink::Functions { .. }))
    }
}

/// Source, streaming operators, sink.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The source of its rows.
    pub source: Source,
    /// The operators, in order.
    pub operators: Vec<Operator>,
    /// The sink that it feeds.
    pub sink: SinkId,
}

/// Name (for display) and type of a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name in EXPLAIN.
    pub name: String,
    /// Type of the column.
    pub ty: ColType,
}

/// The source of a pipeline's rows.
#[derive(Debug, Clone)]
pub enum Source {
    /// Segments of a table.
    Scan(Scan),
    /// The rows of a finished `Aggregate`, `Functions`, `Sort`, `Window` or `Collect` sink, in its order.
    Rows {
        /// The sink.
        sink: SinkId,
        /// Columns of the sink.
        fields: Vec<Field>,
    },
    /// Rows of a finished hash build selected by their match flags, after all probes of it have run. Columns: its payload.
    Build {
        /// The hash build.
        sink: SinkId,
        /// The rows of the build that are read.
        rows: BuildRows,
        /// The build's payload columns, followed by all-NULL columns if `fields` is longer than the payload (the probe side of an outer join's
        /// unmatched rows).
        fields: Vec<Field>,
    },
    /// External Arrow batches: a DataFusion plan that Warpmill does not run itself (a file scan, a fallback operator).
    Input {
        /// Index among the program's inputs.
        input: usize,
        /// Columns of the input.
        fields: Vec<Field>,
    },
    /// Constant rows (`VALUES`, a SELECT without FROM): `rows[r][c]`.
    Values {
        /// The rows.
        rows: Vec<Vec<crate::Scalar>>,
        /// Columns of the rows.
        fields: Vec<Field>,
    },
}

/// The rows of a hash build that a [`Source::Build`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BuildRows {
    /// Rows that matched a probe row (build-side semi join).
    Matched,
    /// Rows without a match (build-side anti join, unmatched rows of right and full joins), including rows with NULL keys.
    Unmatched,
    /// All rows, followed by a Bool column that tells whether the row matched (build-side mark join).
    Marked,
}

/// A table scan.
#[derive(Clone)]
pub struct Scan {
    /// The version of the table that the program was planned for (its statistics prove the types).
    pub table: Arc<TableSnapshot>,
    /// The table's name, for display.
    pub name: String,
    /// Table column of each output column.
    pub columns: Vec<usize>,
    /// Name and type of each output column.
    pub fields: Vec<Field>,
    /// Conjuncts over the output columns, cheapest first: rows that fail one are dropped.
    pub filters: Vec<Expr>,
    /// Hash builds whose key bounds and filters prune rows of this scan before they are decoded.
    pub prune: Vec<PruneKey>,
    /// Filters on other tables in which the scan's rows need a partner.
    pub sideways: Vec<SidewaysFilter>,
    /// The metadata for pruning.
    pub pruning: PruningMode,
}

impl Scan {
    /// Uncompressed bytes of the columns read, including skipped rows.
    pub fn plain_bytes(&self) -> u64 {
        self.columns.iter().map(|&column| self.table.column_stats(column).plain_bytes).sum()
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("name", &self.name).field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// A scan column that must match a key of a hash build: rows outside the build's key bounds or filter make no difference. The join may be further up
/// this scan's pipeline, or in the pipeline that probes the build that this scan feeds; the column may be the join's key, or equal to it by another
/// inner join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneKey {
    /// Output column of the scan.
    pub column: usize,
    /// The hash build.
    pub build: SinkId,
    /// Index of the build's key.
    pub key: usize,
}

/// A streaming operator.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a program has a few operators")]
pub enum Operator {
    /// Keeps the rows for which the predicate is true.
    Filter(Expr),
    /// Replaces the columns.
    Project(Vec<(Field, Expr)>),
    /// Probes a hash build.
    Probe(Probe),
    /// Passes `fetch` rows after the first `skip` (any rows, unless the source is ordered).
    Limit {
        /// Rows to drop first.
        skip: u64,
        /// Number of rows to pass; `None`: all.
        fetch: Option<u64>,
    },
}

/// How a probe treats matches. "Probe" is the streaming side, "build" the side in the hash table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinKind {
    /// Every pair.
    Inner,
    /// Every pair, and probe rows without a match with NULL payload.
    ProbeOuter,
    /// Probe rows with a match, once.
    ProbeSemi,
    /// Probe rows without a match.
    ProbeAnti,
    /// Every probe row, with a Bool mark column: whether it has a match. With `null_aware`, the mark is NULL where `IN` is.
    ProbeMark,
    /// Every pair; the build's match flags are set, so that a `Source::Build { Unmatched }` can follow.
    BuildOuter,
    /// `ProbeOuter` and `BuildOuter` combined.
    Full,
    /// No output at all: only sets the build's match flags (a `Source::Build` follows).
    BuildOnly,
}

/// The one build row, among those with equal keys, that an ASOF join selects by comparing its order with the probe row's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nearest {
    /// The greatest order that is not above the value (`value >= order`).
    AtMost,
    /// The greatest order below the value (`value > order`).
    Below,
    /// The least order that is not below the value (`value <= order`).
    AtLeast,
    /// The least order above the value (`value < order`).
    Above,
}

/// The selection of an ASOF join's probe.
#[derive(Debug, Clone)]
pub struct Asof {
    /// The value to compare, over the input columns, in the representation of the build's order. NULL matches nothing.
    pub value: Expr,
    /// The row to select; any of several with the same order.
    pub nearest: Nearest,
}

/// An end of a range.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The value, over the input columns, in the representation of the build's order. NULL matches nothing.
    pub value: Expr,
    /// Whether the range includes the value itself.
    pub inclusive: bool,
}

/// The part of a probe's `residual` that compares the build's order with bounds: an aid for back ends that sort.
#[derive(Debug, Clone)]
pub struct Range {
    /// Lower bound of the order.
    pub lower: Option<Bound>,
    /// Upper bound of the order.
    pub upper: Option<Bound>,
    /// The rest of the residual.
    pub rest: Option<Expr>,
}

impl Range {
    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.lower.iter().chain(&self.upper).map(|bound| &bound.value).chain(&self.rest)
    }

    fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.lower.iter_mut().chain(&mut self.upper).map(|bound| &mut bound.value).chain(&mut self.rest)
    }
}

/// A probe of a hash build.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The hash build.
    pub build: SinkId,
    /// The kind of join.
    pub kind: JoinKind,
    /// Keys over the input columns, in the representation of the build's keys.
    pub keys: Vec<Expr>,
    /// A further condition on each pair, over input columns followed by payload columns.
    pub residual: Option<Expr>,
    /// Selects at most one build row with equal keys; the build must have an order (`Inner` and `ProbeOuter` without `residual`).
    pub asof: Option<Asof>,
    /// The part of `residual` that the build's order decides; `residual` is complete without it.
    pub range: Option<Range>,
    /// `NOT IN` semantics for `ProbeAnti` (and NULL marks for `ProbeMark`): a NULL key on either side is "unknown".
    pub null_aware: bool,
    /// Output columns as indices into: input columns, then payload columns, then the mark.
    pub output: Vec<usize>,
    /// Name and type of each output column.
    pub fields: Vec<Field>,
}

/// A pipeline breaker.
#[derive(Debug, Clone)]
pub enum Sink {
    /// A hash table of the rows on `keys` (none: a cross join or a join on the residual only, every row matches).
    HashBuild {
        /// Keys over the input columns.
        keys: Vec<Expr>,
        /// Columns of the input kept for probes.
        payload: Vec<usize>,
        /// Their names and types.
        fields: Vec<Field>,
        /// NULL keys equal each other (IS NOT DISTINCT FROM joins); otherwise they match nothing.
        null_equals_null: bool,
        /// Whether match flags are needed (some probe is `BuildOuter`, `Full` or `BuildOnly`).
        track_matches: bool,
        /// The order of the rows of each key, over the input columns, for ASOF joins and ranges. Rows with a NULL order match nothing.
        order: Option<Expr>,
    },
    /// Groups and aggregates. Output: the groups, then the aggregates. Without groups: exactly one row.
    Aggregate {
        /// Group keys over the input columns.
        groups: Vec<Expr>,
        /// Aggregates over the input columns.
        aggregates: Vec<AggregateExpr>,
        /// Names and types of the output.
        fields: Vec<Field>,
    },
    /// Functions of all rows of each group. Output: the groups, then the results. Without groups: exactly one row. Only devices run it, and may give
    /// up: then the host calls the functions.
    Functions {
        /// Group keys over the input columns; NULLs equal each other.
        groups: Vec<Expr>,
        /// The calls.
        calls: Vec<FunctionCall>,
        /// Names and types of the output.
        fields: Vec<Field>,
    },
    /// All rows in order, or the first `fetch` after `skip`. Output: the columns of the input.
    Sort {
        /// Sort keys, most significant first.
        keys: Vec<SortKey>,
        /// Rows to drop first.
        skip: u64,
        /// Number of rows to keep after them; `None`: all.
        fetch: Option<u64>,
        /// Names and types of the columns.
        fields: Vec<Field>,
    },
    /// Window functions. Output: the payload, then one column per call, for all rows, in the source's order if it has one.
    Window {
        /// Partition keys: rows with equal values are a partition (NULLs equal each other); without keys all rows are one.
        partition: Vec<Expr>,
        /// The order within partitions, most significant key first. Rows with equal keys are peers, in the source's order.
        order: Vec<SortKey>,
        /// The calls, over the input columns.
        calls: Vec<WindowCall>,
        /// Input columns in the output.
        payload: Vec<usize>,
        /// Names and types of the output.
        fields: Vec<Field>,
    },
    /// All rows, in the source's order if it has one.
    Collect {
        /// Names and types of the columns.
        fields: Vec<Field>,
    },
}

/// A sort key.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// The key, over the input columns.
    pub expr: Expr,
    /// Whether the largest value comes first.
    pub descending: bool,
    /// Whether NULLs come before all values.
    pub nulls_first: bool,
}

/// Aggregate functions. NULL inputs are ignored (except by `CountStar`); over no rows counts are 0, all others NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is the SQL function of its name")]
pub enum AggregateFunction {
    CountStar,
    Count,
    Sum,
    Min,
    Max,
    Avg,
    StddevSamp,
    StddevPop,
    VarSamp,
    VarPop,
    BoolAnd,
    BoolOr,
    /// Any non-NULL value of the group: on the CPU, the first one that a worker adds.
    AnyValue,
    /// `f(y, x)` of pairs of floats without NULL.
    OfPairs(PairFunction),
}

impl AggregateFunction {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::CountStar | Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::StddevSamp => "stddev_samp",
            Self::StddevPop => "stddev_pop",
            Self::VarSamp => "var_samp",
            Self::VarPop => "var_pop",
            Self::BoolAnd => "bool_and",
            Self::BoolOr => "bool_or",
            Self::AnyValue => "any_value",
            Self::OfPairs(function) => function.name(),
        }
    }
}

/// An aggregate.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateExpr {
    /// The function.
    pub function: AggregateFunction,
    /// The argument (none for `CountStar`).
    pub argument: Option<Expr>,
    /// The second argument of functions of pairs.
    pub second: Option<Expr>,
    /// FILTER (WHERE ...).
    pub filter: Option<Expr>,
    /// DISTINCT.
    pub distinct: bool,
    /// The type of the result. For `Sum` over integers and decimals, `phys` also is the accumulator's type: the translator proves from ranges and row
    /// counts that it cannot overflow, or uses `I128`: then the sum is exact in any order of rows, and an error if it exceeds the result's type. If
    /// the row count behind joins is an estimate, execution compares the number of rows with [`AggregateExpr::safe_rows`]. `Avg` of decimals: the
    /// exact sum, scaled up to the result's scale, divided by the count, truncated toward zero. `Avg` of integers: the exact sum divided by the
    /// count, as floats.
    pub ty: ColType,
}

impl AggregateExpr {
    /// The arguments and the filter.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.argument.iter().chain(&self.second).chain(&self.filter)
    }

    /// The arguments and the filter.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.argument.iter_mut().chain(&mut self.second).chain(&mut self.filter)
    }

    /// The largest number of rows for which its accumulator cannot overflow; `None`: any number.
    ///
    /// Execution counts the rows that reach the sink and fails if there are more (then the query is translated again with `wide_sums` of
    /// `warpmill_translate::Options`).
    pub fn safe_rows(&self) -> Option<u64> {
        let argument = self.argument.as_ref().filter(|_| self.function == AggregateFunction::Sum)?;
        let (least, greatest) = match self.ty.phys {
            crate::Phys::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            crate::Phys::I64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
            _ => return None,
        };
        let (lo, hi) = argument.ty.range?;
        // Both bounds separately: sums are extreme if all rows have the least or the greatest value.
        let (below, above) = (least / lo.min(-1), greatest / hi.max(1));
        Some(u64::try_from(below.min(above)).unwrap_or(u64::MAX))
    }
}

impl Probe {
    /// The expressions over its input columns, and over pairs.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let of_range = self.range.iter().flat_map(Range::expressions);
        self.keys.iter().chain(&self.residual).chain(self.asof.iter().map(|asof| &asof.value)).chain(of_range)
    }

    /// As [`Probe::expressions`].
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let of_range = self.range.iter_mut().flat_map(Range::expressions_mut);
        let of_asof = self.asof.iter_mut().map(|asof| &mut asof.value);
        self.keys.iter_mut().chain(&mut self.residual).chain(of_asof).chain(of_range)
    }
}

impl Sink {
    /// The columns of a source that reads this sink: payload for hash builds.
    pub fn fields(&self) -> &[Field] {
        match self {
            Sink::HashBuild { fields, .. }
            | Sink::Aggregate { fields, .. }
            | Sink::Functions { fields, .. }
            | Sink::Sort { fields, .. }
            | Sink::Window { fields, .. }
            | Sink::Collect { fields } => fields,
        }
    }
}

impl Source {
    /// The columns of the source.
    pub fn fields(&self) -> &[Field] {
        match self {
            Source::Scan(scan) => &scan.fields,
            Source::Rows { fields, .. }
            | Source::Build { fields, .. }
            | Source::Input { fields, .. }
            | Source::Values { fields, .. } => fields,
        }
    }
}

impl Pipeline {
    /// The columns at the pipeline's sink.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = self.source.fields().to_vec();
        for operator in &self.operators {
            match operator {
                Operator::Project(list) => fields = list.iter().map(|(field, _)| field.clone()).collect(),
                Operator::Probe(probe) => fields = probe.fields.clone(),
                Operator::Filter(_) | Operator::Limit { .. } => {}
            }
        }
        fields
    }
}
