//! The join graph of a region: relations, predicates as (hyper)edges, and the estimated size of every join.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::utils::can_hash;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator};
use std::collections::HashMap;
use std::sync::Arc;

use super::estimate::{Estimate, estimate, key_domain};
use super::region::{Predicate, Region};
use super::selectivity::{ColumnEstimate, distinct, selectivity};
use super::statistics::TableStatistics;
use super::tree::{JoinTree, members};

/// Columns that the region's predicates make equal: any two of them may be a join key.
#[derive(Debug)]
pub(super) struct Class {
    /// At most one column per leaf: further ones are equated by a filter on their leaf.
    pub members: Vec<(usize, Column)>,
    /// The pairs that the query wrote, preferred as keys.
    pub written: Vec<(usize, usize)>,
    pub leaves: u64,
    /// Distinct values, one per member.
    distinct: Vec<f64>,
}

/// An equality of two expressions that is in no class.
#[derive(Debug)]
pub(super) struct Equality {
    pub left: Expr,
    pub right: Expr,
    pub left_leaves: u64,
    pub right_leaves: u64,
    selectivity: f64,
}

/// Any other predicate over several leaves.
#[derive(Debug)]
pub(super) struct Residual {
    pub expr: Expr,
    pub leaves: u64,
    selectivity: f64,
}

/// Two leaves with several keys between them, and the factor that undoes their assumed independence.
#[derive(Debug)]
struct Correlation {
    left: usize,
    right: usize,
    factor: f64,
}

/// A predicate's two sides, each to be complete on its side of a join.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HyperEdge {
    pub left: u64,
    pub right: u64,
}

#[derive(Debug)]
pub(super) struct JoinGraph {
    pub classes: Vec<Class>,
    pub equalities: Vec<Equality>,
    pub residuals: Vec<Residual>,
    /// Predicates over one leaf.
    pub leaf_filters: Vec<Vec<Expr>>,
    /// Per leaf, the leaves that it shares a two-sided predicate with.
    pub neighbors: Vec<u64>,
    pub hyper_edges: Vec<HyperEdge>,
    correlations: Vec<Correlation>,
    rows: Vec<f64>,
}

impl JoinGraph {
    /// Builds the graph; `None` when a predicate names a column that no leaf has.
    pub fn new(region: &Region, owners: &HashMap<Column, usize>, tables: &dyn TableStatistics) -> Result<Option<Self>> {
        let count = region.leaves.len();
        let all = if count == 64 { u64::MAX } else { (1 << count) - 1 };
        let mut graph = Self {
            classes: vec![],
            equalities: vec![],
            residuals: vec![],
            leaf_filters: vec![vec![]; count],
            neighbors: vec![0; count],
            hyper_edges: vec![],
            correlations: vec![],
            rows: vec![],
        };
        let mut equal_columns: Vec<(Column, Column)> = vec![];
        for predicate in &region.predicates {
            let (left, right) = match as_equality(predicate, region, owners)? {
                Ok(sides) => sides,
                Err(expr) => {
                    let Some(leaves) = leaves_of(&expr, owners) else { return Ok(None) };
                    graph.add_residual(expr, if leaves == 0 { all } else { leaves });
                    continue;
                }
            };
            let (Some(l), Some(r)) = (leaves_of(&left, owners), leaves_of(&right, owners)) else { return Ok(None) };
            if l & r != 0 || l == 0 || r == 0 {
                graph.add_residual(left.eq(right), if l | r == 0 { all } else { l | r });
                continue;
            }
            match (left, right) {
                (Expr::Column(a), Expr::Column(b)) if is_transitive(&a, &b, region, owners)? => {
                    equal_columns.push((a, b));
                }
                (left, right) => {
                    graph.equalities.push(Equality { left, right, left_leaves: l, right_leaves: r, selectivity: 1.0 })
                }
            }
        }
        graph.add_classes(&equal_columns, owners);
        graph.estimate(region, owners, tables)?;
        graph.connect();
        Ok(Some(graph))
    }

    fn add_residual(&mut self, expr: Expr, leaves: u64) {
        if leaves.count_ones() == 1 {
            self.leaf_filters[leaves.trailing_zeros() as usize].push(expr);
        } else {
            self.residuals.push(Residual { expr, leaves, selectivity: 1.0 });
        }
    }

    /// Groups columns into classes; two columns of one leaf become a filter on it.
    fn add_classes(&mut self, pairs: &[(Column, Column)], owners: &HashMap<Column, usize>) {
        let mut groups: Vec<Vec<Column>> = vec![];
        for (a, b) in pairs {
            let mut merged = vec![];
            groups.retain_mut(|group| {
                let hit = group.contains(a) || group.contains(b);
                if hit {
                    merged.append(group);
                }
                !hit
            });
            for column in [a, b] {
                if !merged.contains(column) {
                    merged.push(column.clone());
                }
            }
            groups.push(merged);
        }
        for group in groups {
            let mut class = Class { members: vec![], written: vec![], leaves: 0, distinct: vec![] };
            for column in group {
                let leaf = owners[&column];
                match class.members.iter().find(|(other, _)| *other == leaf) {
                    Some((_, first)) => {
                        self.leaf_filters[leaf].push(Expr::Column(first.clone()).eq(Expr::Column(column)))
                    }
                    None => {
                        class.leaves |= 1 << leaf;
                        class.members.push((leaf, column));
                    }
                }
            }
            let place = |c: &Column| class.members.iter().position(|(_, member)| member == c);
            class.written = pairs.iter().filter_map(|(a, b)| Some((place(a)?, place(b)?))).collect();
            self.classes.push(class);
        }
    }

    /// Fills in rows and selectivities.
    fn estimate(
        &mut self,
        region: &Region,
        owners: &HashMap<Column, usize>,
        tables: &dyn TableStatistics,
    ) -> Result<()> {
        let mut leaves: Vec<Estimate> = vec![];
        for (i, leaf) in region.leaves.iter().enumerate() {
            leaves.push(estimate(&self.filtered_leaf(i, (*leaf).clone())?, tables));
        }
        let resolve = |column: &Column| -> Option<ColumnEstimate> {
            let leaf = *owners.get(column)?;
            let index = region.leaves[leaf].schema().maybe_index_of_column(column)?;
            leaves[leaf].columns.get(index).cloned()
        };
        let values = |expr: &Expr| distinct(expr, &resolve).unwrap_or(1.0);
        for class in &mut self.classes {
            class.distinct = class.members.iter().map(|(_, c)| values(&Expr::Column(c.clone()))).collect();
        }
        for equality in &mut self.equalities {
            equality.selectivity = 1.0 / values(&equality.left).max(values(&equality.right));
        }
        for residual in &mut self.residuals {
            residual.selectivity = selectivity(&residual.expr, &resolve);
        }
        self.rows = leaves.iter().map(|e| e.rows).collect();
        self.correlate(&leaves, &values);
        Ok(())
    }

    /// Finds the pairs of leaves with composite keys.
    fn correlate(&mut self, leaves: &[Estimate], values: &dyn Fn(&Expr) -> f64) {
        let mut shared: HashMap<(usize, usize), Vec<(f64, f64)>> = HashMap::new();
        let mut share = |i: usize, j: usize, a: f64, b: f64| {
            let (key, pair) = if i < j { ((i, j), (a, b)) } else { ((j, i), (b, a)) };
            shared.entry(key).or_default().push(pair);
        };
        for class in &self.classes {
            for (x, (i, _)) in class.members.iter().enumerate() {
                for (y, (j, _)) in class.members.iter().enumerate().skip(x + 1) {
                    share(*i, *j, class.distinct[x], class.distinct[y]);
                }
            }
        }
        for e in self.equalities.iter().filter(|e| (e.left_leaves.count_ones(), e.right_leaves.count_ones()) == (1, 1))
        {
            let (i, j) = (e.left_leaves.trailing_zeros() as usize, e.right_leaves.trailing_zeros() as usize);
            share(i, j, values(&e.left), values(&e.right));
        }
        for ((left, right), pairs) in shared {
            let independent: f64 = pairs.iter().map(|(l, r)| l.max(*r)).product();
            let factor = independent / key_domain(&pairs, leaves[left].base_rows, leaves[right].base_rows);
            if factor > 1.0 {
                self.correlations.push(Correlation { left, right, factor });
            }
        }
        self.correlations.sort_by(|a, b| b.factor.total_cmp(&a.factor).then((a.left, a.right).cmp(&(b.left, b.right))));
    }

    /// Turns predicates into edges.
    fn connect(&mut self) {
        for class in &self.classes {
            for leaf in members(class.leaves) {
                self.neighbors[leaf] |= class.leaves & !(1 << leaf);
            }
        }
        let mut edges: Vec<HyperEdge> =
            self.equalities.iter().map(|e| HyperEdge { left: e.left_leaves, right: e.right_leaves }).collect();
        for residual in &self.residuals {
            // Any one leaf against the others: which of them comes last is the enumeration's choice.
            edges.extend(
                members(residual.leaves).map(|i| HyperEdge { left: 1 << i, right: residual.leaves & !(1 << i) }),
            );
        }
        for edge in edges {
            if edge.left.count_ones() == 1 && edge.right.count_ones() == 1 {
                self.neighbors[edge.left.trailing_zeros() as usize] |= edge.right;
                self.neighbors[edge.right.trailing_zeros() as usize] |= edge.left;
            } else {
                self.hyper_edges.push(edge);
            }
        }
    }

    /// The leaf below the filters that belong to it alone.
    pub fn filtered_leaf(&self, leaf: usize, plan: LogicalPlan) -> Result<LogicalPlan> {
        match self.leaf_filters[leaf].iter().cloned().reduce(Expr::and) {
            Some(predicate) => Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?)),
            None => Ok(plan),
        }
    }

    pub fn leaf_count(&self) -> usize {
        self.rows.len()
    }

    /// Whether a predicate connects the two sets.
    pub fn are_connected(&self, left: u64, right: u64) -> bool {
        members(left).any(|i| self.neighbors[i] & right != 0)
            || self.hyper_edges.iter().any(|e| {
                (e.left & !left == 0 && e.right & !right == 0) || (e.left & !right == 0 && e.right & !left == 0)
            })
    }

    /// Whether a hash join of the two sets has a key.
    pub fn has_key(&self, left: u64, right: u64) -> bool {
        self.classes.iter().any(|c| c.leaves & left != 0 && c.leaves & right != 0)
            || self.equalities.iter().any(|e| {
                let (l, r) = (e.left_leaves, e.right_leaves);
                (l & !left == 0 && r & !right == 0) || (l & !right == 0 && r & !left == 0)
            })
    }

    /// Estimated rows of the join of `set`, the same whatever the order.
    pub fn cardinality(&self, set: u64) -> f64 {
        let mut rows: f64 = members(set).map(|i| self.rows[i]).product();
        for class in self.classes.iter().filter(|c| (c.leaves & set).count_ones() > 1) {
            // k equal columns: every column but the least varied one divides by its distinct values.
            let mut least = f64::INFINITY;
            for ((leaf, _), distinct) in class.members.iter().zip(&class.distinct) {
                if set >> leaf & 1 == 1 {
                    rows /= distinct;
                    least = least.min(*distinct);
                }
            }
            rows *= least;
        }
        let inside = |leaves: u64| leaves & !set == 0;
        rows *= self
            .equalities
            .iter()
            .filter(|e| inside(e.left_leaves | e.right_leaves))
            .map(|e| e.selectivity)
            .product::<f64>();
        rows *= self.residuals.iter().filter(|r| inside(r.leaves)).map(|r| r.selectivity).product::<f64>();
        (rows * self.correlation(set)).max(1.0)
    }

    /// The product of the correlations inside `set` along a spanning forest: n leaves have n - 1 joins.
    fn correlation(&self, set: u64) -> f64 {
        let mut groups: Vec<u64> = vec![];
        let mut factor = 1.0;
        for c in self.correlations.iter().filter(|c| (1 << c.left | 1 << c.right) & !set == 0) {
            let ends: u64 = 1 << c.left | 1 << c.right;
            if groups.iter().any(|g| ends & !g == 0) {
                continue;
            }
            let merged = groups.iter().filter(|g| *g & ends != 0).fold(ends, |all, g| all | g);
            groups.retain(|g| g & ends == 0);
            groups.push(merged);
            factor *= c.factor;
        }
        factor
    }

    /// Cost of a hash join that builds on `build` rows: what it writes, builds and probes; without a key every
    /// pair of rows is looked at.
    pub fn join_cost(out: f64, build: f64, probe: f64, has_key: bool) -> f64 {
        out + build + 0.3 * probe + if has_key { 0.0 } else { 0.5 * build * probe }
    }

    /// Cost of all joins of a tree, and its rows.
    pub fn cost(&self, tree: &JoinTree) -> f64 {
        let JoinTree::Join(left, right) = tree else { return 0.0 };
        let (l, r) = (left.leaves(), right.leaves());
        let own =
            Self::join_cost(self.cardinality(l | r), self.cardinality(l), self.cardinality(r), self.has_key(l, r));
        own + self.cost(left) + self.cost(right)
    }
}

/// The set of leaves that an expression names; `None` when a column belongs to none.
fn leaves_of(expr: &Expr, owners: &HashMap<Column, usize>) -> Option<u64> {
    expr.column_refs().into_iter().try_fold(0, |set, column| Some(set | 1 << owners.get(column)?))
}

/// The two sides of an equality that may be a hash key, or the predicate as one expression.
fn as_equality(
    predicate: &Predicate,
    region: &Region,
    owners: &HashMap<Column, usize>,
) -> Result<std::result::Result<(Expr, Expr), Expr>> {
    let (left, right) = match predicate {
        Predicate::Equality(left, right) => return Ok(Ok((left.clone(), right.clone()))),
        Predicate::Other(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })) => (left, right),
        Predicate::Other(expr) => return Ok(Err(expr.clone())),
    };
    let side = |expr: &Expr| -> Result<Option<DataType>> {
        let Some(set) = leaves_of(expr, owners) else { return Ok(None) };
        match set.count_ones() {
            1 => expr.get_type(region.leaves[set.trailing_zeros() as usize].schema()).map(Some),
            _ => Ok(None),
        }
    };
    Ok(match (side(left)?, side(right)?) {
        (Some(l), Some(r)) if l == r && can_hash(&l) => Ok(((**left).clone(), (**right).clone())),
        _ => Err((**left).clone().eq((**right).clone())),
    })
}

/// Whether the columns have one type on which equality is transitive under every comparison that may be used for
/// it (floats have two zeros, nested types have floats).
fn is_transitive(a: &Column, b: &Column, region: &Region, owners: &HashMap<Column, usize>) -> Result<bool> {
    let kind = |column: &Column| region.leaves[owners[column]].schema().data_type(column);
    let shared = kind(a)?;
    Ok(shared == kind(b)?
        && (shared.is_integer()
            || shared.is_decimal()
            || matches!(
                shared,
                DataType::Boolean
                    | DataType::Utf8
                    | DataType::LargeUtf8
                    | DataType::Utf8View
                    | DataType::Date32
                    | DataType::Date64
                    | DataType::Timestamp(..)
            )))
}
