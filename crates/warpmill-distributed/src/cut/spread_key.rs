//! Keys by which rows are spread over tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::HashJoinExec;

use super::join::{copies_left, copies_right, equal_columns, output_columns};

/// The key by which the rows of a part are spread, by ranges or by its hash: rows with equal keys are in one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SpreadKey {
    by: By,
    /// The columns that contain each value of the key.
    values: Vec<BTreeSet<usize>>,
}

/// The relation of keys to tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// The hash of the values, in their order.
    Hash,
    /// The ranges of this number.
    Ranges(usize),
}

/// A pair of expressions that a join compares.
pub(super) type On = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

impl SpreadKey {
    /// The key of rows that are spread by ranges number `number` of a column.
    pub fn of_ranges(number: usize, column: usize) -> Self {
        Self { by: By::Ranges(number), values: vec![BTreeSet::from([column])] }
    }

    /// The key of rows that are shuffled by `keys`, if they are columns.
    pub fn of_hash(keys: &[Arc<dyn PhysicalExpr>]) -> Option<Self> {
        let values = keys.iter().map(|key| column(key).map(|column| BTreeSet::from([column])));
        Self { by: By::Hash, values: values.collect::<Option<_>>()? }.usable()
    }

    /// `None` if a value is in no column.
    fn usable(self) -> Option<Self> {
        (!self.values.is_empty() && self.values.iter().all(|columns| !columns.is_empty())).then_some(self)
    }

    /// Whether the rows are spread by the hash of `keys`.
    pub fn is_hash_of(&self, keys: &[Arc<dyn PhysicalExpr>]) -> bool {
        let has = |(columns, key): (&BTreeSet<usize>, _)| column(key).is_some_and(|column| columns.contains(&column));
        self.by == By::Hash && self.values.len() == keys.len() && self.values.iter().zip(keys).all(has)
    }

    /// Whether all values are among `columns`: rows that are equal in these are in one task.
    pub fn is_within(&self, columns: &[usize]) -> bool {
        self.values.iter().all(|of| columns.iter().any(|column| of.contains(column)))
    }

    /// The key of rows whose columns are these of the part.
    pub fn of_columns(&self, from: &[Option<usize>]) -> Option<Self> {
        let of = |columns: &BTreeSet<usize>| {
            let is_key = |from: &Option<usize>| from.is_some_and(|column| columns.contains(&column));
            from.iter().enumerate().filter(|(_, from)| is_key(from)).map(|(at, _)| at).collect()
        };
        Self { by: self.by, values: self.values.iter().map(of).collect() }.usable()
    }

    /// Whether rows that the join compares as equal are in one task, if this is the key of its left side, and `right` that of the other.
    pub fn meets(&self, right: &Self, node: &HashJoinExec) -> bool {
        let pairs: Vec<_> = equal_columns(node).collect();
        let meets = |(left, right): (&BTreeSet<usize>, &BTreeSet<usize>)| {
            pairs.iter().any(|(a, b)| left.contains(a) && right.contains(b))
        };
        self.by == right.by
            && self.values.len() == right.values.len()
            && self.values.iter().zip(&right.values).all(meets)
    }

    /// The pairs of `on` by which the other side of a join must be shuffled if a side, with this key, is not: `None` if it is not spread by the hash of
    /// columns that the join compares. `own`: the expression of this side.
    pub fn hashed_pairs(&self, on: &[On], own: fn(&On) -> &Arc<dyn PhysicalExpr>) -> Option<Vec<On>> {
        let pair = |columns: &BTreeSet<usize>| {
            on.iter().find(|pair| column(own(pair)).is_some_and(|column| columns.contains(&column))).cloned()
        };
        if self.by == By::Hash { self.values.iter().map(pair).collect() } else { None }
    }

    /// The key of a join's rows if those of its sides are spread by `left` and `right`, which are the same, or one by its key and the other is copied.
    pub fn of_join(node: &HashJoinExec, left: Option<&Self>, right: Option<&Self>) -> Option<Self> {
        let ty = *node.join_type();
        // Columns of a side without partners are NULL.
        let (left, right) = (left.filter(|_| copies_right(ty)), right.filter(|_| copies_left(ty)));
        let of = left.or(right)?;
        let (pairs, outputs): (Vec<_>, _) = (equal_columns(node).collect(), output_columns(node));
        let values = (0..of.values.len()).map(|at| {
            let columns = |key: Option<&Self>| key.map(|key| key.values[at].clone()).unwrap_or_default();
            let (mut lefts, mut rights) = (columns(left), columns(right));
            for (a, b) in pairs.iter().filter(|_| ty == JoinType::Inner) {
                if lefts.contains(a) || rights.contains(b) {
                    lefts.insert(*a);
                    rights.insert(*b);
                }
            }
            let is_key = |side: JoinSide, column: &usize| match side {
                JoinSide::Left => lefts.contains(column),
                JoinSide::Right => rights.contains(column),
                JoinSide::None => false,
            };
            let columns = outputs.iter().enumerate().filter(|(_, column)| is_key(column.side, &column.index));
            columns.map(|(at, _)| at).collect()
        });
        Self { by: of.by, values: values.collect() }.usable()
    }
}

fn column(key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    key.downcast_ref::<Column>().map(Column::index)
}
