//! Joins.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::keys::{needs_partners, with_partners};
use super::spread_key::On;
use super::{Cutter, Part, Rows, SpreadKey, estimate, may_shuffle, over};

/// The ways a join of spread rows is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Broadcast the left rows to every task.
    CopyLeft,
    /// Broadcast the right rows to every task.
    CopyRight,
    /// Shuffle both sides by key.
    Shuffle,
    /// In one place.
    Gather,
}

/// Whether a join of this type returns each row once if every task has all left rows and some of the right rows: rows of the left side, and rows
/// without a partner, must not be returned by several tasks.
pub(super) fn copies_left(ty: JoinType) -> bool {
    use JoinType::{Inner, Right, RightAnti, RightMark, RightSemi};
    matches!(ty, Inner | Right | RightSemi | RightAnti | RightMark)
}

/// [`copies_left`] with the sides exchanged.
pub(super) fn copies_right(ty: JoinType) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi};
    matches!(ty, Inner | Left | LeftSemi | LeftAnti | LeftMark)
}

impl Cutter {
    pub(super) fn hash_join(&self, plan: &Arc<dyn ExecutionPlan>, node: &HashJoinExec) -> Result<Part> {
        let (left, right) = (self.part(node.left())?, self.part(node.right())?);
        if left.rows == Rows::Here && right.rows == Rows::Here {
            return over(plan, vec![left, right]);
        }
        if self.meet(node, &left, &right) {
            let key = SpreadKey::of_join(node, left.key.as_ref(), right.key.as_ref());
            return Ok(Part { key, ..over(plan, vec![left, right])? });
        }
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = shuffle_keys(node, &left, &right).into_iter().unzip();
        // NOT IN depends on whether the right side has any NULL at all.
        let shuffles = !node.null_aware
            && may_shuffle(&left_keys, &left.plan.schema())?
            && may_shuffle(&right_keys, &right.plan.schema())?;
        let sent = self.shuffling(&left, &left_keys) + self.shuffling(&right, &right_keys);
        match self.way((&left, &right), *node.join_type(), shuffles.then_some(sent), !node.null_aware) {
            Way::Shuffle => self.shuffled_join(plan, node, (left, left_keys), (right, right_keys)),
            way => {
                let key = match way {
                    Way::CopyLeft => SpreadKey::of_join(node, None, right.key.as_ref()),
                    Way::CopyRight => SpreadKey::of_join(node, left.key.as_ref(), None),
                    Way::Shuffle | Way::Gather => None,
                };
                Ok(Part { key, ..self.copied_join(plan, (left, right), way)? })
            }
        }
    }

    /// Whether rows that join are in the same task.
    fn meet(&self, node: &HashJoinExec, left: &Part, right: &Part) -> bool {
        let (Some(left), Some(right)) = (&left.key, &right.key) else { return false };
        !node.null_aware && left.meets(right, node)
    }

    /// A join without keys.
    pub(super) fn loop_join(&self, plan: &Arc<dyn ExecutionPlan>, ty: JoinType) -> Result<Part> {
        let (left, right) = (self.part(plan.children()[0])?, self.part(plan.children()[1])?);
        if left.rows == Rows::Here && right.rows == Rows::Here {
            return over(plan, vec![left, right]);
        }
        let way = self.way((&left, &right), ty, None, true);
        self.copied_join(plan, (left, right), way)
    }

    /// The strategy that sends the fewest bytes; `shuffle`: those of a shuffle, if it is possible.
    fn way(&self, (left, right): (&Part, &Part), ty: JoinType, shuffle: Option<f64>, may_copy_left: bool) -> Way {
        let spread = |part: &Part| part.rows == Rows::Spread;
        let ways = [
            (Way::CopyLeft, may_copy_left && copies_left(ty) && spread(right), self.copying(left)),
            (Way::CopyRight, copies_right(ty) && spread(left), self.copying(right)),
            (Way::Shuffle, shuffle.is_some(), shuffle.unwrap_or_default()),
        ];
        let possible = ways.into_iter().filter(|(_, possible, _)| *possible);
        possible.min_by(|(.., a), (.., b)| a.total_cmp(b)).map_or(Way::Gather, |(way, ..)| way)
    }

    fn copied_join(&self, plan: &Arc<dyn ExecutionPlan>, (left, right): (Part, Part), way: Way) -> Result<Part> {
        let inputs = match way {
            Way::CopyLeft => vec![self.copied(left)?, right],
            Way::CopyRight => vec![left, self.copied(right)?],
            Way::Shuffle | Way::Gather => vec![self.gathered(left)?, self.gathered(right)?],
        };
        over(plan, inputs)
    }

    fn shuffled_join(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        node: &HashJoinExec,
        (left, left_keys): (Part, Vec<Arc<dyn PhysicalExpr>>),
        (right, right_keys): (Part, Vec<Arc<dyn PhysicalExpr>>),
    ) -> Result<Part> {
        let left = reduced(node, left, &right, true)?;
        let right = reduced(node, right, &left, false)?;
        let (left, right) = (self.shuffled(left, left_keys)?, self.shuffled(right, right_keys)?);
        let key = SpreadKey::of_join(node, left.key.as_ref(), right.key.as_ref());
        let (sent, inputs) = (left.sent + right.sent, vec![left.plan, right.plan]);
        let joined = node.builder().with_partition_mode(PartitionMode::Partitioned).with_new_children(inputs)?;
        let joined: Arc<dyn ExecutionPlan> = Arc::new(joined.build()?);
        let bytes = estimate(plan).bytes;
        Ok(Part { plan: joined, rows: Rows::Spread, exchanged: true, bytes, sent, key })
    }
}

/// The pairs of keys by which the sides of a join are shuffled: some of those that it compares if a side is spread by the hash of its own already.
fn shuffle_keys(node: &HashJoinExec, left: &Part, right: &Part) -> Vec<On> {
    let own = left.key.as_ref().and_then(|key| key.hashed_pairs(node.on(), |(left, _)| left));
    let other = || right.key.as_ref().and_then(|key| key.hashed_pairs(node.on(), |(_, right)| right));
    own.or_else(other).unwrap_or_else(|| node.on().to_vec())
}

/// A side of a join before its rows are sent, without rows that have no partner, if every task can find the keys of `other`, the other side, by
/// itself, and they are few. `left`: whether it is the left side.
fn reduced(node: &HashJoinExec, side: Part, other: &Part, left: bool) -> Result<Part> {
    let is_other_everywhere = other.rows == Rows::Here && !other.exchanged;
    if side.rows == Rows::Here || !is_other_everywhere || !needs_partners(*node.join_type(), left) {
        return Ok(side);
    }
    if node.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(side);
    }
    let pairs = node.on().iter().map(|(a, b)| if left { (a, b) } else { (b, a) });
    let pairs = pairs.filter_map(|(own, of)| Some((Arc::clone(own), of.downcast_ref::<Column>()?.index())));
    let (own, of) = pairs.unzip();
    match with_partners(&side.plan, own, &other.plan, of)? {
        Some(plan) => Ok(Part { bytes: estimate(&plan).bytes, plan, ..side }),
        None => Ok(side),
    }
}

/// The pairs of columns that the join compares.
pub(super) fn equal_columns(node: &HashJoinExec) -> impl Iterator<Item = (usize, usize)> {
    let column = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().map(Column::index);
    node.on().iter().filter_map(move |(left, right)| column(left).zip(column(right)))
}

/// The column of a side that each output column is.
pub(super) fn output_columns(node: &HashJoinExec) -> Vec<ColumnIndex> {
    let (_, columns) = build_join_schema(&node.left().schema(), &node.right().schema(), node.join_type());
    match &node.projection {
        Some(projection) => projection.iter().map(|&column| columns[column].clone()).collect(),
        None => columns,
    }
}
