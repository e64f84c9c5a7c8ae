//! Joins.

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::{Cutter, Part, Rows, estimate, may_shuffle, over};

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
fn copies_left(ty: JoinType) -> bool {
    use JoinType::{Inner, Right, RightAnti, RightMark, RightSemi};
    matches!(ty, Inner | Right | RightSemi | RightAnti | RightMark)
}

/// [`copies_left`] with the sides exchanged.
fn copies_right(ty: JoinType) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi};
    matches!(ty, Inner | Left | LeftSemi | LeftAnti | LeftMark)
}

impl Cutter {
    pub(super) fn hash_join(&self, plan: &Arc<dyn ExecutionPlan>, node: &HashJoinExec) -> Result<Part> {
        let (left, right) = (self.part(node.left())?, self.part(node.right())?);
        if left.rows == Rows::Here && right.rows == Rows::Here {
            return over(plan, vec![left, right]);
        }
        let (left_keys, right_keys): (Vec<_>, Vec<_>) = node.on().iter().cloned().unzip();
        // NOT IN depends on whether the right side has any NULL at all.
        let shuffles = !node.null_aware
            && may_shuffle(&left_keys, &left.plan.schema())?
            && may_shuffle(&right_keys, &right.plan.schema())?;
        match self.way((&left, &right), *node.join_type(), shuffles, !node.null_aware) {
            Way::Shuffle => self.shuffled_join(plan, node, (left, left_keys), (right, right_keys)),
            way => self.copied_join(plan, (left, right), way),
        }
    }

    /// A join without keys.
    pub(super) fn loop_join(&self, plan: &Arc<dyn ExecutionPlan>, ty: JoinType) -> Result<Part> {
        let (left, right) = (self.part(plan.children()[0])?, self.part(plan.children()[1])?);
        if left.rows == Rows::Here && right.rows == Rows::Here {
            return over(plan, vec![left, right]);
        }
        let way = self.way((&left, &right), ty, false, true);
        self.copied_join(plan, (left, right), way)
    }

    /// The strategy that sends the fewest bytes.
    fn way(&self, (left, right): (&Part, &Part), ty: JoinType, shuffles: bool, may_copy_left: bool) -> Way {
        let spread = |part: &Part| part.rows == Rows::Spread;
        let ways = [
            (Way::CopyLeft, may_copy_left && copies_left(ty) && spread(right), self.copying(left)),
            (Way::CopyRight, copies_right(ty) && spread(left), self.copying(right)),
            (Way::Shuffle, shuffles, self.shuffling(left) + self.shuffling(right)),
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
        let inputs = vec![self.shuffled(left, left_keys)?.plan, self.shuffled(right, right_keys)?.plan];
        let joined = node.builder().with_partition_mode(PartitionMode::Partitioned).with_new_children(inputs)?;
        let joined: Arc<dyn ExecutionPlan> = Arc::new(joined.build()?);
        Ok(Part { plan: joined, rows: Rows::Spread, exchanged: true, bytes: estimate(plan).bytes })
    }
}
