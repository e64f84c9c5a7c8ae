//! The shim's encoding of a bound plan: JSON, version 1.
//!
//! A plan is the form that DuckDB's binder gives a SELECT, before any rewriting (`duckdb/src/encode.cpp` writes it). Columns are
//! pairs of a table index and a position in that table, unique in the whole statement; types are DuckDB's own names.

use serde::Deserialize;

/// The version that this crate reads.
pub const VERSION: u32 = 1;

/// A column: the table index that the binder gave its node, and the position among that node's columns.
pub type Binding = (u64, u64);

/// A statement with its plan.
#[derive(Debug, Deserialize)]
pub struct Statement {
    /// [`VERSION`].
    pub version: u32,
    /// The DuckDB version that made the plan: 20000 for 2.0.0.
    pub duckdb: u32,
    /// Whether the host may run queries that it answers faster itself.
    #[serde(default)]
    pub may_be_left: bool,
    /// The types of the result's columns.
    pub types: Vec<String>,
    /// The tables that the plan reads; scans name them by position.
    pub inputs: Vec<InputTable>,
    /// The plan.
    pub root: Node,
}

/// A table that the plan reads.
#[derive(Debug, Deserialize)]
pub struct InputTable {
    /// The name of the table in the catalog.
    pub name: String,
    /// Whether it is a table that DuckDB stores; otherwise it is a file or a frame.
    #[serde(default = "yes")]
    pub stored: bool,
    /// Whether it is a table of Warpmill's own. Positions of columns are then those of Warpmill's table.
    #[serde(default)]
    pub own: bool,
    /// The columns that may be read: their positions in the table, names and types.
    pub columns: Vec<(u32, String, String)>,
}

fn yes() -> bool {
    true
}

/// A key of ORDER BY.
#[derive(Debug, Deserialize)]
pub struct Key {
    /// Whether greater values come first.
    pub desc: bool,
    /// Whether NULLs come before all other values, independent of `desc`.
    pub nulls_first: bool,
    /// The expression to order by.
    pub e: Expr,
}

/// A window function; see [`Expr`] for `f`, `t`, `at` and `a`.
#[derive(Debug, Deserialize)]
#[allow(missing_docs, reason = "see Expr")]
pub struct WindowCall {
    pub f: String,
    pub t: String,
    pub at: Vec<String>,
    pub a: Vec<Expr>,
    /// Whether it is an aggregate function.
    pub aggregate: bool,
    /// IGNORE NULLS.
    pub ignore_nulls: bool,
    /// The expressions that are equal within a partition.
    pub partition: Vec<Expr>,
    /// The order of a partition's rows.
    pub by: Vec<Key>,
    /// The start of the frame: DuckDB's name of the boundary, and its number of rows.
    pub start: (String, Option<u64>),
    /// The end of the frame, in the same form.
    pub end: (String, Option<u64>),
}

/// An operator.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of DuckDB's operators of these names")]
pub enum Node {
    /// A scan; a column is a position among the input's columns, or `None` for one that only counts rows.
    Get {
        table: u64,
        input: usize,
        columns: Vec<Option<usize>>,
    },
    Project {
        table: u64,
        exprs: Vec<Expr>,
        child: Box<Node>,
    },
    Filter {
        exprs: Vec<Expr>,
        child: Box<Node>,
    },
    Aggregate {
        group: u64,
        agg: u64,
        #[serde(default)]
        groupings: Option<u64>,
        groups: Vec<Expr>,
        sets: Vec<Vec<usize>>,
        grouping_functions: Vec<Vec<usize>>,
        aggs: Vec<Expr>,
        child: Box<Node>,
    },
    /// The rows of `child` with a column for each call.
    Window {
        table: u64,
        calls: Vec<WindowCall>,
        child: Box<Node>,
    },
    Order {
        by: Vec<Key>,
        child: Box<Node>,
    },
    Limit {
        limit: Option<u64>,
        offset: Option<u64>,
        child: Box<Node>,
    },
    Distinct {
        child: Box<Node>,
    },
    Join {
        r#type: String,
        #[serde(default)]
        mark: Option<u64>,
        conds: Vec<Expr>,
        left: Box<Node>,
        right: Box<Node>,
    },
    AnyJoin {
        r#type: String,
        cond: Expr,
        left: Box<Node>,
        right: Box<Node>,
    },
    Cross {
        left: Box<Node>,
        right: Box<Node>,
    },
    /// A subquery: the right side is evaluated for every row of the left. Its result is column 0 of `mark` (EXISTS, or
    /// membership if there is a `cond`) or the column `value` of its single row.
    Dependent {
        r#type: String,
        #[serde(default)]
        mark: Option<u64>,
        #[serde(default)]
        value: Option<Binding>,
        #[serde(default)]
        cond: Option<Expr>,
        left: Box<Node>,
        right: Box<Node>,
    },
    Setop {
        kind: String,
        all: bool,
        table: u64,
        children: Vec<Node>,
    },
    Cte {
        index: u64,
        body: Box<Node>,
        child: Box<Node>,
    },
    CteRef {
        table: u64,
        cte: u64,
    },
    /// One row without columns.
    Dummy,
}

impl Node {
    /// The nodes whose rows this one reads, without those of subqueries in its expressions.
    pub fn children(&self) -> Vec<&Node> {
        match self {
            Node::Project { child, .. }
            | Node::Filter { child, .. }
            | Node::Aggregate { child, .. }
            | Node::Window { child, .. }
            | Node::Order { child, .. }
            | Node::Limit { child, .. }
            | Node::Distinct { child } => vec![child],
            Node::Join { left, right, .. }
            | Node::AnyJoin { left, right, .. }
            | Node::Cross { left, right }
            | Node::Dependent { left, right, .. }
            | Node::Cte { body: left, child: right, .. } => vec![left, right],
            Node::Setop { children, .. } => children.iter().collect(),
            Node::Get { .. } | Node::CteRef { .. } | Node::Dummy => vec![],
        }
    }
}

/// An expression. `t` is its type, `at` those of its arguments, `a` its arguments, `f` its function.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "k", rename_all = "lowercase")]
#[allow(missing_docs, reason = "see the enum")]
pub enum Expr {
    Col {
        b: Binding,
        t: String,
    },
    /// `v` is text: dates are days, timestamps microseconds since 1970, intervals `months,days,microseconds`.
    Const {
        t: String,
        v: Option<String>,
    },
    Cmp {
        f: String,
        a: Box<(Expr, Expr)>,
    },
    And {
        a: Vec<Expr>,
    },
    Or {
        a: Vec<Expr>,
    },
    Not {
        a: Vec<Expr>,
    },
    IsNull {
        a: Vec<Expr>,
    },
    IsNotNull {
        a: Vec<Expr>,
    },
    In {
        a: Vec<Expr>,
    },
    NotIn {
        a: Vec<Expr>,
    },
    Coalesce {
        t: String,
        a: Vec<Expr>,
    },
    /// Conditions and values in turn, then the value of ELSE.
    Case {
        t: String,
        a: Vec<Expr>,
    },
    Cast {
        r#try: bool,
        t: String,
        from: String,
        a: Vec<Expr>,
    },
    Fn {
        f: String,
        t: String,
        at: Vec<String>,
        a: Vec<Expr>,
    },
    Agg {
        f: String,
        t: String,
        distinct: bool,
        at: Vec<String>,
        a: Vec<Expr>,
        #[serde(default)]
        filter: Option<Box<Expr>>,
    },
    /// `f`: scalar, exists, not exists, or any (membership: `a` compared with `cmp`).
    Subquery {
        f: String,
        t: String,
        #[serde(default)]
        cmp: Option<String>,
        #[serde(default)]
        a: Vec<Expr>,
        child: std::sync::Arc<Node>,
    },
}
