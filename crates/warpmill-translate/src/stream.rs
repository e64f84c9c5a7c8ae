//! The rows of a plan node during translation: pipelines without a sink.

use std::sync::Arc;

use crate::expr::SubqueryKey;
use warpmill_ir::{ColType, Expr, ExprKind, Field, Operator, SinkId, Source};

/// The pipelines that together return the rows of a plan node. All branches have the same columns (`fields`). A union has several branches, as does a
/// join that also returns unmatched build rows.
#[derive(Debug)]
pub(crate) struct Stream {
    pub branches: Vec<Branch>,
    /// Columns at the end of every branch.
    pub fields: Vec<Field>,
    /// Estimated distinct values of each of `fields`.
    pub distinct: Vec<Option<u64>>,
    /// Column of `fields` that holds each column of the plan node's schema.
    pub columns: Vec<usize>,
    pub rows: Rows,
    /// Columns of `fields` that hold the values of scalar subqueries.
    pub subqueries: Vec<(SubqueryKey, usize)>,
}

/// The number of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rows {
    /// Proven upper bound.
    pub bound: Option<u128>,
    /// Estimated upper bound, from distinct counts of join keys.
    pub likely: f64,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub source: Source,
    pub operators: Vec<Operator>,
    /// For each column at the end of the branch: the scan columns that it equals, directly or by inner joins, if dropping the scan rows that a join
    /// further up drops anyway has no other effect.
    pub origin: Vec<Vec<Origin>>,
}

/// A scan's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub scan: ScanPlace,
    pub column: usize,
    /// Whether the scan's rows are grouped on the way. If the scan is pruned, groups that a join further up drops may have lost some of their rows:
    /// expressions evaluated on them before that join must not fail.
    pub grouped: bool,
}

/// The pipeline of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanPlace {
    /// The branch itself.
    Own,
    /// Pipeline number `.1` among those that feed sink `.0`: a hash build that the branch probes, the aggregation whose groups are its rows, or one
    /// below these.
    Below(SinkId, usize),
}

impl Branch {
    /// The origins of a column at the end of the branch that may be pruned.
    pub fn origins(&self, column: usize) -> impl Iterator<Item = Origin> {
        let origins = &self.origin[column];
        // Checks the operators only if rows are grouped.
        let total = !origins.iter().any(|origin| origin.grouped) || self.operators.iter().all(is_total);
        origins.iter().copied().filter(move |origin| total || !origin.grouped)
    }

    /// The origins of a column for pipelines that read or probe `sink`; the branch is its feeder number `index`.
    pub fn origins_below(&self, column: usize, sink: SinkId, index: usize) -> impl Iterator<Item = Origin> {
        self.origins(column).map(move |origin| match origin.scan {
            ScanPlace::Own => Origin { scan: ScanPlace::Below(sink, index), ..origin },
            ScanPlace::Below(..) => origin,
        })
    }
}

/// Whether an operator cannot fail for any row.
fn is_total(operator: &Operator) -> bool {
    match operator {
        Operator::Filter(predicate) => predicate.is_total(),
        Operator::Project(list) => list.iter().all(|(_, expr)| expr.is_total()),
        Operator::Probe(probe) => probe.expressions().all(Expr::is_total),
        Operator::Limit { .. } => true,
    }
}

impl Stream {
    /// A stream of one branch without operators, with exactly the plan node's columns.
    pub fn of_source(source: Source, rows: Rows) -> Self {
        let fields = source.fields().to_vec();
        let origin = match &source {
            Source::Scan(_) => {
                (0..fields.len()).map(|column| vec![Origin { scan: ScanPlace::Own, column, grouped: false }]).collect()
            }
            _ => vec![vec![]; fields.len()],
        };
        Self {
            columns: (0..fields.len()).collect(),
            distinct: vec![None; fields.len()],
            fields,
            rows,
            subqueries: Vec::new(),
            branches: vec![Branch { source, operators: Vec::new(), origin }],
        }
    }

    /// Reads the rows of a finished sink again; the stream must consist of just that source.
    pub fn again(&self) -> Self {
        let source = self.branches[0].source.clone();
        Self { distinct: self.distinct.clone(), ..Self::of_source(source, self.rows) }
    }

    /// The type of the node's column `column`.
    pub fn ty(&self, column: usize) -> &ColType {
        &self.fields[self.columns[column]].ty
    }

    /// The estimated number of distinct values of `expr`, over `fields`.
    pub fn distinct_of(&self, expr: &Expr) -> Option<u64> {
        let of_column = match &expr.kind {
            ExprKind::Column(index) => self.distinct[*index],
            ExprKind::Widen(inner) => self.distinct_of(inner),
            ExprKind::Recode(recoding) => match &recoding.inputs[..] {
                [input] => self.distinct_of(input),
                _ => None,
            },
            _ => None,
        };
        let entries = expr.ty.dictionary.as_ref().map(|dictionary| dictionary.len() as u64);
        of_column.into_iter().chain(entries).min()
    }

    /// Keeps the rows that satisfy all `conjuncts` (over `fields`), as filters of the scan if no operator is in between.
    pub fn filter(&mut self, conjuncts: Vec<Expr>) {
        for branch in &mut self.branches {
            match (&mut branch.source, branch.operators.as_slice()) {
                (Source::Scan(scan), []) => scan.add_filters(conjuncts.clone()),
                _ => branch.operators.push(Operator::Filter(Expr::all(conjuncts.clone()))),
            }
        }
    }

    /// Replaces the columns by `list`.
    pub fn project(&mut self, list: Vec<(Field, Expr)>) {
        let sources: Vec<Option<usize>> = list
            .iter()
            .map(|(_, expr)| match expr.kind {
                ExprKind::Column(index) => Some(index),
                _ => None,
            })
            .collect();
        for branch in &mut self.branches {
            let origin = |source: &Option<usize>| source.map_or_else(Vec::new, |i| branch.origin[i].clone());
            branch.origin = sources.iter().map(origin).collect();
            branch.operators.push(Operator::Project(list.clone()));
        }
        self.distinct = list.iter().map(|(_, expr)| self.distinct_of(expr)).collect();
        self.columns = (0..list.len()).collect();
        self.fields = list.into_iter().map(|(field, _)| field).collect();
        self.subqueries.clear();
    }

    /// Reduces `fields` to exactly the node's columns, in order.
    pub fn normalize(&mut self) {
        if self.columns.iter().copied().eq(0..self.fields.len()) {
            return;
        }
        let list = self.columns.iter().map(|&i| (self.fields[i].clone(), Expr::column(i, self.fields[i].ty.clone())));
        let list = list.collect();
        self.project(list);
    }

    /// Passes `fetch` rows in each branch after the first `skip`.
    pub fn limit(&mut self, skip: u64, fetch: Option<u64>) {
        for branch in &mut self.branches {
            branch.origin.fill(vec![]);
            branch.operators.push(Operator::Limit { skip, fetch });
        }
        if let Some(fetch) = fetch {
            let fetch = u128::from(fetch) * self.branches.len() as u128;
            self.rows.bound = Some(self.rows.bound.map_or(fetch, |bound| bound.min(fetch)));
            self.rows.likely = self.rows.likely.min(fetch as f64);
        }
    }
}

impl Rows {
    /// A proven bound of `n`.
    pub fn at_most(n: u64) -> Self {
        Self { bound: Some(n.into()), likely: n as f64 }
    }

    /// An unknown number.
    pub fn unknown() -> Self {
        Self { bound: None, likely: f64::INFINITY }
    }

    /// The sum of two streams' numbers.
    pub fn plus(self, other: Self) -> Self {
        let bound = self.bound.zip(other.bound).and_then(|(a, b)| a.checked_add(b));
        Self { bound, likely: self.likely + other.likely }
    }
}

/// The type of a column of `table`, narrowed by its statistics.
pub(crate) fn column_type(table: &Arc<warpmill_format::TableSnapshot>, column: usize) -> Option<ColType> {
    let stats = table.column_stats(column);
    let ty = ColType::of(table.schema().field(column).data_type(), stats.nulls > 0)?;
    if let Some(dictionary) = table.dictionary(column) {
        return Some(ColType { phys: warpmill_ir::Phys::Code, dictionary: Some(Arc::clone(dictionary)), ..ty });
    }
    Some(match stats.int_range() {
        Some(range) if ty.phys.is_int() => ty.narrowed(range),
        None if ty.phys.is_int() && stats.nulls == stats.rows => ty.narrowed((0, 0)),
        _ => ty,
    })
}
