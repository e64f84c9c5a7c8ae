//! Joins, logical and physical.

use datafusion::common::{Column, JoinType, TableReference};
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlanBuilder, Operator};
use datafusion_substrait::substrait::proto::comparison_join_key::comparison_type::InnerType;
use datafusion_substrait::substrait::proto::comparison_join_key::{ComparisonType, SimpleComparisonType};
use datafusion_substrait::substrait::proto::expression::FieldReference;
use datafusion_substrait::substrait::proto::{
    ComparisonJoinKey, Expression, HashJoinRel, JoinRel, MergeJoinRel, NestedLoopJoinRel, Rel, hash_join_rel, join_rel,
    merge_join_rel, nested_loop_join_rel,
};

use super::{Reader, Rows, Scope, Slot};
use crate::error::{Result, invalid, required, unsupported};

impl Reader<'_> {
    pub(super) fn join(&mut self, join: &JoinRel) -> Result<Rows> {
        let kind = join_rel::JoinType::try_from(join.r#type).unwrap_or_default().as_str_name();
        let (left, right) = self.sides(join.left.as_deref(), join.right.as_deref(), kind)?;
        let scope = both(&left, &right)?;
        let condition = match &join.expression {
            Some(expression) => Some(self.expression(expression, &scope)?),
            None => None,
        };
        let rows = self.joined(left, right, kind, condition)?;
        match &join.post_join_filter {
            Some(filter) => self.filtered(rows, filter),
            None => Ok(rows),
        }
    }

    pub(super) fn cross(&mut self, left: Option<&Rel>, right: Option<&Rel>) -> Result<Rows> {
        let (left, right) = self.sides(left, right, "JOIN_TYPE_INNER")?;
        self.joined(left, right, "JOIN_TYPE_INNER", None)
    }

    pub(super) fn hash_join(&mut self, join: &HashJoinRel) -> Result<Rows> {
        let kind = hash_join_rel::JoinType::try_from(join.r#type).unwrap_or_default().as_str_name();
        #[allow(deprecated, reason = "plans of earlier versions hold two lists of keys")]
        let keys = Keys { left: &join.left_keys, right: &join.right_keys, pairs: &join.keys };
        let filter = join.post_join_filter.as_deref();
        self.keyed_join((join.left.as_deref(), join.right.as_deref()), kind, &keys, filter)
    }

    pub(super) fn merge_join(&mut self, join: &MergeJoinRel) -> Result<Rows> {
        let kind = merge_join_rel::JoinType::try_from(join.r#type).unwrap_or_default().as_str_name();
        #[allow(deprecated, reason = "plans of earlier versions hold two lists of keys")]
        let keys = Keys { left: &join.left_keys, right: &join.right_keys, pairs: &join.keys };
        let filter = join.post_join_filter.as_deref();
        self.keyed_join((join.left.as_deref(), join.right.as_deref()), kind, &keys, filter)
    }

    pub(super) fn nested_loop_join(&mut self, join: &NestedLoopJoinRel) -> Result<Rows> {
        let kind = nested_loop_join_rel::JoinType::try_from(join.r#type).unwrap_or_default().as_str_name();
        let (left, right) = self.sides(join.left.as_deref(), join.right.as_deref(), kind)?;
        let condition = required(join.expression.as_deref(), "the condition of a nested-loop join")?;
        let condition = self.expression(condition, &both(&left, &right)?)?;
        self.joined(left, right, kind, Some(condition))
    }

    fn keyed_join(
        &mut self,
        (left, right): (Option<&Rel>, Option<&Rel>),
        kind: &str,
        keys: &Keys<'_>,
        filter: Option<&Expression>,
    ) -> Result<Rows> {
        let (left, right) = self.sides(left, right, kind)?;
        let mut condition = self.key_condition(keys, &left.scope(), &right.scope())?;
        if let Some(filter) = filter {
            // Added to the condition: for inner joins that is equivalent to a filter on their rows.
            let filter = self.expression(filter, &both(&left, &right)?)?;
            condition = condition.and(filter);
        }
        self.joined(left, right, kind, Some(condition))
    }

    fn key_condition(&mut self, keys: &Keys<'_>, left: &Scope, right: &Scope) -> Result<Expr> {
        if keys.left.len() != keys.right.len() {
            return invalid(format!("a join of {} left and {} right keys", keys.left.len(), keys.right.len()));
        }
        let mut conditions = vec![];
        for (left_key, right_key) in keys.left.iter().zip(keys.right).filter(|_| keys.pairs.is_empty()) {
            conditions.push(self.field_reference(left_key, left)?.eq(self.field_reference(right_key, right)?));
        }
        for key in keys.pairs {
            let left = self.field_reference(required(key.left.as_ref(), "the left side of a join key")?, left)?;
            let right = self.field_reference(required(key.right.as_ref(), "the right side of a join key")?, right)?;
            let op = comparison(key.comparison.as_ref())?;
            conditions.push(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))));
        }
        required(conditions.into_iter().reduce(Expr::and), "a key of a join")
    }

    /// Both inputs of a join of a kind.
    fn sides(&mut self, left: Option<&Rel>, right: Option<&Rel>, kind: &str) -> Result<(Rows, Rows)> {
        let (left, right) = (self.input(left, "join")?, self.input(right, "join")?);
        // DataFusion qualifies the mark with the table of the build side, as long as all of its columns belong to one table: a rule that removes some
        // of them renames the mark. Unqualified columns avoid that.
        Ok(match kind {
            "JOIN_TYPE_LEFT_MARK" => (left, self.anonymous(right)?),
            "JOIN_TYPE_RIGHT_MARK" => (self.anonymous(left)?, right),
            _ => (left, right),
        })
    }

    /// `rows` with columns of no table.
    fn anonymous(&mut self, rows: Rows) -> Result<Rows> {
        let mut columns = Vec::with_capacity(rows.slots.len());
        let mut slots = Vec::with_capacity(rows.slots.len());
        for slot in rows.slots {
            let name = self.column_name();
            columns.push(Expr::Column(slot.column).alias_qualified(None::<TableReference>, &name));
            slots.push(Slot { column: Column::new_unqualified(name), chars: slot.chars });
        }
        Ok(Rows { plan: project(rows.plan, columns)?, slots })
    }

    /// A join of the given kind, by its common name in the enumerations of all join relations.
    fn joined(&mut self, left: Rows, right: Rows, kind: &str, condition: Option<Expr>) -> Result<Rows> {
        let kind = match kind.trim_start_matches("JOIN_TYPE_") {
            "INNER" => JoinType::Inner,
            "OUTER" => JoinType::Full,
            "LEFT" => JoinType::Left,
            "RIGHT" => JoinType::Right,
            "LEFT_SEMI" => JoinType::LeftSemi,
            "RIGHT_SEMI" => JoinType::RightSemi,
            "LEFT_ANTI" => JoinType::LeftAnti,
            "RIGHT_ANTI" => JoinType::RightAnti,
            "LEFT_MARK" => JoinType::LeftMark,
            "RIGHT_MARK" => JoinType::RightMark,
            "UNSPECIFIED" => return invalid("a join of no type"),
            other => return unsupported(format!("join type '{}'", other.to_lowercase())),
        };
        let (left_slots, right_slots) = (left.slots, right.slots);
        let builder = LogicalPlanBuilder::from(left.plan);
        let plan = match (kind, condition) {
            (JoinType::Inner, None) => builder.cross_join(right.plan)?.build()?,
            (kind, condition) => builder.join_on(right.plan, kind, condition)?.build()?,
        };
        let slots = match kind {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => [left_slots, right_slots].concat(),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => left_slots,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right_slots,
        };
        if !matches!(kind, JoinType::LeftMark | JoinType::RightMark) {
            return Ok(Rows { plan, slots });
        }
        // The mark is the last column; all joins give their marks the same name.
        let mark = required(plan.schema().columns().pop(), "the mark of a join")?;
        let mut columns: Vec<_> = Rows { plan: plan.clone(), slots: slots.clone() }.columns();
        let name = self.column_name();
        columns.push(Expr::Column(mark).alias_qualified(None::<TableReference>, &name));
        let plan = project(plan, columns)?;
        let mark = Slot { column: Column::new_unqualified(name), chars: None };
        Ok(Rows { plan, slots: [slots, vec![mark]].concat() })
    }
}

/// The keys of a physical join, in earlier and in current versions.
struct Keys<'a> {
    left: &'a [FieldReference],
    right: &'a [FieldReference],
    pairs: &'a [ComparisonJoinKey],
}

fn comparison(comparison: Option<&ComparisonType>) -> Result<Operator> {
    match comparison.and_then(|comparison| comparison.inner_type.as_ref()) {
        Some(InnerType::Simple(simple)) => match SimpleComparisonType::try_from(*simple).unwrap_or_default() {
            SimpleComparisonType::Eq => Ok(Operator::Eq),
            SimpleComparisonType::IsNotDistinctFrom => Ok(Operator::IsNotDistinctFrom),
            SimpleComparisonType::MightEqual => unsupported("join key comparison 'might equal'"),
            SimpleComparisonType::Unspecified => invalid("a join key without a comparison"),
        },
        Some(InnerType::CustomFunctionReference(anchor)) => {
            unsupported(format!("join key comparison by a function (anchor {anchor})"))
        }
        None => invalid("a join key without a comparison"),
    }
}

/// The columns of both sides, in the order of a join's condition.
fn both(left: &Rows, right: &Rows) -> Result<Scope> {
    let schema = left.plan.schema().join(right.plan.schema())?;
    Ok(Scope { slots: [left.slots.clone(), right.slots.clone()].concat(), schema: schema.into() })
}
