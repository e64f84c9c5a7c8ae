//! Relations that keep, order, cut and put together rows.

use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::builder::project;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_substrait::substrait::proto::fetch_rel::{CountMode, OffsetMode};
use datafusion_substrait::substrait::proto::rel::RelType;
use datafusion_substrait::substrait::proto::rel_common::EmitKind;
use datafusion_substrait::substrait::proto::set_rel::SetOp;
use datafusion_substrait::substrait::proto::sort_field::{SortDirection, SortKind};
use datafusion_substrait::substrait::proto::{
    Expression, FetchRel, ProjectRel, Rel, RelCommon, SetRel, SortField, plan_rel,
};

use super::{Reader, Rows, Scope, Slot};
use crate::error::{Result, invalid, required, unsupported};

impl Reader<'_> {
    /// The rows of a relation after its output mapping.
    pub(super) fn relation(&mut self, relation: &Rel) -> Result<Rows> {
        match self.relations_left.checked_sub(1) {
            Some(left) => self.relations_left = left,
            None => return unsupported(format!("plan of more than {} relations", super::MAX_RELATIONS)),
        }
        let (rows, common) = match required(relation.rel_type.as_ref(), "the kind of a relation")? {
            RelType::Read(read) => (self.read(read)?, &read.common),
            RelType::Filter(filter) => {
                let rows = self.input(filter.input.as_deref(), "filter")?;
                let condition = required(filter.condition.as_deref(), "the condition of a filter")?;
                (self.filtered(rows, condition)?, &filter.common)
            }
            RelType::Fetch(fetch) => (self.fetch(fetch)?, &fetch.common),
            RelType::Aggregate(aggregate) => (self.aggregate(aggregate)?, &aggregate.common),
            RelType::Sort(sort) => {
                let rows = self.input(sort.input.as_deref(), "sort")?;
                let keys = self.sort_keys(&sort.sorts, &rows.scope())?;
                let plan = LogicalPlanBuilder::from(rows.plan).sort(keys)?.build()?;
                (Rows { plan, slots: rows.slots }, &sort.common)
            }
            RelType::Project(project) => (self.project(project)?, &project.common),
            RelType::Set(set) => (self.set(set)?, &set.common),
            RelType::Join(join) => (self.join(join)?, &join.common),
            RelType::Cross(cross) => (self.cross(cross.left.as_deref(), cross.right.as_deref())?, &cross.common),
            RelType::HashJoin(join) => (self.hash_join(join)?, &join.common),
            RelType::MergeJoin(join) => (self.merge_join(join)?, &join.common),
            RelType::NestedLoopJoin(join) => (self.nested_loop_join(join)?, &join.common),
            RelType::Window(window) => (self.window_relation(window)?, &window.common),
            // How rows are spread over workers is ours to decide.
            RelType::Exchange(exchange) => (self.input(exchange.input.as_deref(), "exchange")?, &exchange.common),
            RelType::Reference(reference) => (self.referred(reference.subtree_ordinal)?, &None),
            RelType::ExtensionLeaf(other) => return extension("leaf", other.detail.as_ref().map(|any| &any.type_url)),
            RelType::ExtensionSingle(other) => {
                return extension("single", other.detail.as_ref().map(|any| &any.type_url));
            }
            RelType::ExtensionMulti(other) => {
                return extension("multi", other.detail.as_ref().map(|any| &any.type_url));
            }
            RelType::Expand(_) => return unsupported("relation 'expand'"),
            RelType::Write(_) => return unsupported("relation 'write'"),
            RelType::Ddl(_) => return unsupported("relation 'ddl'"),
            RelType::Update(_) => return unsupported("relation 'update'"),
        };
        emitted(rows, common.as_ref())
    }

    /// The rows of a relation's input.
    pub(super) fn input(&mut self, input: Option<&Rel>, of: &str) -> Result<Rows> {
        match input {
            Some(input) => self.relation(input),
            None => invalid(format!("the input of a relation '{of}' is missing")),
        }
    }

    fn referred(&mut self, ordinal: i32) -> Result<Rows> {
        let relation = usize::try_from(ordinal).ok().and_then(|ordinal| self.relations.get(ordinal));
        match relation.and_then(|relation| relation.rel_type.as_ref()) {
            Some(plan_rel::RelType::Rel(relation)) => self.relation(relation),
            Some(plan_rel::RelType::Root(_)) => invalid("a reference to the root"),
            None => invalid(format!("relation {ordinal} is referred to, of {}", self.relations.len())),
        }
    }

    pub(super) fn filtered(&mut self, rows: Rows, condition: &Expression) -> Result<Rows> {
        let condition = self.expression(condition, &rows.scope())?;
        let plan = LogicalPlanBuilder::from(rows.plan).filter(condition)?.build()?;
        Ok(Rows { plan, slots: rows.slots })
    }

    fn project(&mut self, relation: &ProjectRel) -> Result<Rows> {
        let rows = self.input(relation.input.as_deref(), "project")?;
        let scope = rows.scope();
        let added = relation.expressions.iter().map(|expression| {
            let chars = self.longest(expression, &scope);
            Ok((self.expression(expression, &scope)?, chars))
        });
        let added = added.collect::<Result<Vec<_>>>()?;
        let rows = self.with_windows(rows, &added)?;
        self.extended(rows, added)
    }

    fn fetch(&mut self, fetch: &FetchRel) -> Result<Rows> {
        let rows = self.input(fetch.input.as_deref(), "fetch")?;
        #[allow(deprecated, reason = "plans of earlier versions hold numbers instead of expressions")]
        let offset = match &fetch.offset_mode {
            Some(OffsetMode::Offset(offset)) => Some(*offset),
            Some(OffsetMode::OffsetExpr(expression)) => self.count(expression)?,
            None => None,
        };
        #[allow(deprecated, reason = "plans of earlier versions hold numbers instead of expressions")]
        let count = match &fetch.count_mode {
            // -1 stands for all rows.
            Some(CountMode::Count(count)) => Some(*count).filter(|count| *count != -1),
            Some(CountMode::CountExpr(expression)) => self.count(expression)?,
            None => None,
        };
        let size = |rows: i64| usize::try_from(rows).or_else(|_| invalid(format!("a fetch of {rows} rows")));
        let (skip, count) = (offset.map(size).transpose()?.unwrap_or(0), count.map(size).transpose()?);
        let plan = match (skip, count) {
            (0, None) => rows.plan,
            (skip, count) => LogicalPlanBuilder::from(rows.plan).limit(skip, count)?.build()?,
        };
        Ok(Rows { plan, slots: rows.slots })
    }

    /// A number of rows; `None` for NULL, which is no limit.
    fn count(&mut self, expression: &Expression) -> Result<Option<i64>> {
        let nothing = Scope {
            slots: vec![],
            schema: datafusion::common::DFSchemaRef::new(datafusion::common::DFSchema::empty()),
        };
        let Expr::Literal(value, _) = self.expression(expression, &nothing)? else {
            return unsupported("fetch with a count that is no literal");
        };
        match value.cast_to(&arrow::datatypes::DataType::Int64)? {
            datafusion::common::ScalarValue::Int64(count) => Ok(count),
            other => invalid(format!("a fetch of {other} rows")),
        }
    }

    pub(super) fn sort_keys(&mut self, sorts: &[SortField], scope: &Scope) -> Result<Vec<Sort>> {
        let key = |sort: &SortField| {
            let expr = self.expression(required(sort.expr.as_ref(), "the expression of a sort key")?, scope)?;
            let (asc, nulls_first) = match required(sort.sort_kind.as_ref(), "the direction of a sort key")? {
                SortKind::Direction(direction) => match SortDirection::try_from(*direction) {
                    Ok(SortDirection::AscNullsFirst) => (true, true),
                    Ok(SortDirection::AscNullsLast) => (true, false),
                    Ok(SortDirection::DescNullsFirst) => (false, true),
                    Ok(SortDirection::DescNullsLast) => (false, false),
                    // Any order that keeps equal values together.
                    Ok(SortDirection::Clustered) => (true, false),
                    Ok(SortDirection::Unspecified) | Err(_) => return invalid(format!("sort direction {direction}")),
                },
                SortKind::ComparisonFunctionReference(anchor) => {
                    let name = self.declarations.function(*anchor)?.named("comparison", *anchor);
                    return unsupported(format!("sort by {name}"));
                }
            };
            Ok(Sort { expr, asc, nulls_first })
        };
        sorts.iter().map(key).collect()
    }

    fn set(&mut self, set: &SetRel) -> Result<Rows> {
        let Some((first, others)) = set.inputs.split_first().filter(|(_, others)| !others.is_empty()) else {
            return invalid(format!("a set operation on {} inputs", set.inputs.len()));
        };
        let first = self.relation(first)?;
        let names: Vec<_> = first.slots.iter().map(|_| self.column_name()).collect();
        let first = aligned(first, &names)?;
        let mut inputs = Vec::with_capacity(others.len());
        for other in others {
            let rows = self.relation(other)?;
            if rows.slots.len() != names.len() {
                return invalid(format!("a set operation on {} and {} columns", names.len(), rows.slots.len()));
            }
            inputs.push(aligned(rows, &names)?);
        }
        let op = SetOp::try_from(set.op).unwrap_or_default();
        let plan = self.combined(op, first, inputs, &names)?;
        let slots = names.iter().map(|name| Slot { column: Column::new_unqualified(name), chars: None }).collect();
        Ok(Rows { plan, slots })
    }

    fn combined(
        &mut self,
        op: SetOp,
        first: LogicalPlan,
        others: Vec<LogicalPlan>,
        names: &[String],
    ) -> Result<LogicalPlan> {
        let union = |all: LogicalPlan, next| LogicalPlanBuilder::from(all).union(next)?.build();
        let plan = match op {
            SetOp::UnionAll => others.into_iter().try_fold(first, union)?,
            SetOp::UnionDistinct => {
                let all = others.into_iter().try_fold(first, union)?;
                LogicalPlanBuilder::from(all).distinct()?.build()?
            }
            SetOp::MinusPrimary => {
                others.into_iter().try_fold(first, |rows, next| LogicalPlanBuilder::except(rows, next, false))?
            }
            // Rows of the first input that any other has.
            SetOp::IntersectionPrimary => {
                let mut others = others.into_iter();
                let second = required(others.next(), "the second input of a set operation")?;
                LogicalPlanBuilder::intersect(first, others.try_fold(second, union)?, false)?
            }
            SetOp::IntersectionMultiset => {
                others.into_iter().try_fold(first, |rows, next| LogicalPlanBuilder::intersect(rows, next, false))?
            }
            SetOp::MinusPrimaryAll | SetOp::MinusMultiset | SetOp::IntersectionMultisetAll => {
                return unsupported(format!("set operation '{}'", op.as_str_name()));
            }
            SetOp::Unspecified => return invalid("a set operation of no kind"),
        };
        // The operation's own column names are replaced by the set's.
        let columns = plan.schema().columns().into_iter().zip(names);
        let columns: Vec<_> =
            columns.map(|(column, name)| Expr::Column(column).alias_qualified(None::<TableReference>, name)).collect();
        Ok(project(plan, columns)?)
    }
}

/// The columns of `rows` under `names`.
fn aligned(rows: Rows, names: &[String]) -> Result<LogicalPlan> {
    let named = rows.slots.iter().zip(names).map(|(slot, name)| Expr::Column(slot.column.clone()).alias(name));
    Ok(project(rows.plan, named)?)
}

fn emitted(rows: Rows, common: Option<&RelCommon>) -> Result<Rows> {
    let Some(EmitKind::Emit(emit)) = common.and_then(|common| common.emit_kind.as_ref()) else { return Ok(rows) };
    let scope = rows.scope();
    let slots = emit.output_mapping.iter().map(|&position| Ok(scope.field(position)?.clone()));
    Ok(Rows { slots: slots.collect::<Result<_>>()?, plan: rows.plan })
}

fn extension(kind: &str, url: Option<&String>) -> Result<Rows> {
    unsupported(format!("extension relation '{}' ({kind})", url.map_or("", String::as_str)))
}
