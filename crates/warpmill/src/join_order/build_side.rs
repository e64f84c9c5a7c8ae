//! The build side of joins that cannot be reordered.
//!
//! A hash join builds on its left input, so that outer, semi and anti joins are turned around when their right
//! input is the smaller one.

use std::mem::swap;

use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Join, LogicalPlan};

use super::estimate::estimate;
use super::rebuild::with_schema;
use super::statistics::TableStatistics;

/// Building on the side that a semi join keeps costs a mark per row and a final scan, and gives up filtering that
/// side's scan by the keys of the other: it has to be smaller by this factor.
const KEPT_SIDE_FACTOR: f64 = 4.0;

/// Turns `join` around if that makes the smaller input the build side; `Err` gives it back unchanged.
pub(super) fn choose(join: Join, tables: &dyn TableStatistics) -> Result<std::result::Result<LogicalPlan, Join>> {
    let Some(turned) = turned_type(&join) else { return Ok(Err(join)) };
    let left = estimate(&join.left, tables).rows;
    let right = estimate(&join.right, tables).rows;
    let turn = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti => right <= left * KEPT_SIDE_FACTOR,
        JoinType::RightSemi | JoinType::RightAnti => left > right * KEPT_SIDE_FACTOR,
        _ => right < left,
    };
    if !turn {
        return Ok(Err(join));
    }
    let schema = join.schema.clone();
    let Join { mut left, mut right, mut on, filter, join_constraint, null_equality, null_aware, .. } = join;
    swap(&mut left, &mut right);
    on.iter_mut().for_each(|(l, r)| swap(l, r));
    let join = Join::try_new(left, right, on, filter, turned, join_constraint, null_equality, null_aware)?;
    Ok(Ok(with_schema(LogicalPlan::Join(join), &schema)?))
}

/// The type of the same join with its inputs exchanged; `None` where that is not safe. A null-aware anti join is
/// only defined one way around, and a join without keys is no hash join.
fn turned_type(join: &Join) -> Option<JoinType> {
    if join.null_aware || join.on.is_empty() {
        return None;
    }
    match join.join_type {
        JoinType::Left
        | JoinType::Right
        | JoinType::LeftSemi
        | JoinType::RightSemi
        | JoinType::LeftAnti
        | JoinType::RightAnti => Some(join.join_type.swap()),
        _ => None,
    }
}
