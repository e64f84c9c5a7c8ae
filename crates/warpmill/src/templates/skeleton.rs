//! Physical plans with parameters: a template's program is retranslated for each statement, without planning.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{DFSchema, Result as DataFusionResult};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, and, binary_expr, or};
use datafusion::optimizer::simplify_expressions::expr_simplifier::THRESHOLD_INLINE_INLIST;
use datafusion::physical_plan::ExecutionPlan;
use warpmill_translate::parameters::{metadata, numbers};

use super::computed::Computed;
use super::parameters::{is_comparison, narrowed, number, numbered, reads_rows, with_numbered, without_number};
use crate::join_order::{ProviderStatistics, TableFilter, filters_of_tables, members};
use crate::offload::{WarpmillExec, is_one_program};
use crate::settings::WarpmillOptions;
use crate::{Result, ScalarValue};

/// A program whose constants are slots.
#[derive(Debug)]
pub(super) struct Skeleton {
    slots: Vec<Slot>,
    /// The filters directly above tables, with numbered literals for slots.
    filters: Vec<TableFilter>,
    /// The program for the slots of one statement. Its plan has numbered literals for slots.
    program: Arc<dyn ExecutionPlan>,
    /// Whether its translation needs neither a deep stack nor long.
    pub is_small: bool,
}

/// Largest number of nodes of a small plan, with the levels of its deepest expression.
const MOST_LEVELS: usize = 100;
/// Largest number of nodes of a small plan's expressions.
const MOST_NODES: usize = 1000;

/// A constant in a condition.
#[derive(Debug)]
struct Slot {
    /// Its value, computed from a template's parameters.
    computed: Computed,
    /// The type of the column that it is compared with, where the column would have to be cast: the value is cast instead, if that is lossless.
    narrowed: Option<DataType>,
}

impl Slot {
    /// The value; `None` where evaluation fails or gives NULL.
    fn value(&self, values: &[ScalarValue]) -> Option<ScalarValue> {
        let value = self.computed.value(values).filter(|value| !value.is_null())?;
        match &self.narrowed {
            Some(ty) => narrowed(&value, ty),
            None => Some(value),
        }
    }
}

impl Skeleton {
    /// The skeleton of the optimized plan `plan`; `values` belong to a statement, whose own optimized plan is `own`. `None` where the skeleton would
    /// give another plan for them, or no program.
    pub async fn of(
        plan: &LogicalPlan,
        values: &[ScalarValue],
        own: &LogicalPlan,
        state: &SessionState,
    ) -> Result<Option<Self>> {
        // Branches of a UNION with equal constants give it a sort order that other constants would not.
        let mut unites = false;
        plan.apply_with_subqueries(|node| {
            unites |= matches!(node, LogicalPlan::Union(_));
            Ok(TreeNodeRecursion::Continue)
        })?;
        if unites {
            return Ok(None);
        }
        let Some((plan, slots)) = Slots::taken(plan, values)? else { return Ok(None) };
        if without_numbers(&plan)? != *own {
            return Ok(None);
        }
        let filters = filters_of_tables(&plan)?;
        let filters = filters.into_iter().map(|filter| TableFilter::of(filter, &ProviderStatistics)).collect();
        let program = state.query_planner().create_physical_plan(&plan, state).await?;
        let Some(source) = program.downcast_ref::<WarpmillExec>().filter(|_| is_one_program(&*program)) else {
            return Ok(None);
        };
        // A condition that its values decide is missing from the plan.
        let has_all = numbers(source.source())?.into_iter().eq(0..slots.len());
        let is_small = is_small(&plan)?;
        Ok(has_all.then_some(Self { slots, filters, program, is_small }))
    }

    /// The values of the slots; `None` where one has none.
    pub fn slots(&self, values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
        self.slots.iter().map(|slot| slot.value(values)).collect()
    }

    /// The rows that each filter directly above a table keeps.
    pub fn kept_rows(&self, slots: &[ScalarValue]) -> Option<Vec<f64>> {
        let kept =
            |known: &TableFilter| Some(known.rows(&with_numbered(known.filter.predicate.clone(), slots).ok()?.data));
        self.filters.iter().map(kept).collect()
    }

    /// The program for these slot values.
    pub fn program(&self, slots: Vec<ScalarValue>, options: &WarpmillOptions) -> Option<WarpmillExec> {
        self.program.downcast_ref::<WarpmillExec>()?.with_values(slots, options)
    }
}

/// Whether the translation of `plan` needs neither a deep stack nor long.
fn is_small(plan: &LogicalPlan) -> DataFusionResult<bool> {
    let (mut nodes, mut size) = (0, Size::default());
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        node.apply_expressions(|expr| expr.visit(&mut size))
    })?;
    Ok(nodes + size.most_levels <= MOST_LEVELS && size.nodes <= MOST_NODES)
}

/// Counts the nodes of expressions, and their levels.
#[derive(Default)]
struct Size {
    nodes: usize,
    levels: usize,
    most_levels: usize,
}

impl TreeNodeVisitor<'_> for Size {
    type Node = Expr;

    fn f_down(&mut self, _: &Expr) -> DataFusionResult<TreeNodeRecursion> {
        self.nodes += 1;
        self.levels += 1;
        self.most_levels = self.most_levels.max(self.levels);
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, _: &Expr) -> DataFusionResult<TreeNodeRecursion> {
        self.levels -= 1;
        Ok(TreeNodeRecursion::Continue)
    }
}

/// The slots of a plan found so far.
struct Slots<'a> {
    slots: Vec<Slot>,
    values: &'a [ScalarValue],
    /// Whether a slot has no value.
    missing: bool,
}

impl Slots<'_> {
    /// `plan` with numbered literals in place of the largest constant expressions with parameters, which become the slots. `None` where one of them
    /// has no value.
    fn taken(plan: &LogicalPlan, values: &[ScalarValue]) -> DataFusionResult<Option<(LogicalPlan, Vec<Slot>)>> {
        let mut slots = Slots { slots: vec![], values, missing: false };
        let plan = plan.clone().transform_down_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            node.map_expressions(|expr| {
                let expr = expr.transform_down(|expr| slots.literal(expr))?;
                let expr = expr.transform_data(|expr| expr.transform_up(|expr| Ok(listed(expr))))?;
                expr.transform_data(|expr| expr.transform_up(|expr| slots.uncast(expr, &schema)))
            })
        })?;
        Ok((!slots.missing).then_some((plan.data, slots.slots)))
    }

    /// A constant expression with parameters as a numbered literal.
    fn literal(&mut self, expr: Expr) -> DataFusionResult<Transformed<Expr>> {
        if reads_rows(&expr) || !expr.exists(|expr| Ok(number(expr).is_some()))? {
            return Ok(Transformed::no(expr));
        }
        let slot = Slot { computed: Computed::of(expr.clone(), number, self.values), narrowed: None };
        let Some(value) = slot.value(self.values) else {
            self.missing = true;
            return Ok(Transformed::no(expr));
        };
        let literal = Expr::Literal(value, Some(metadata(self.slots.len())));
        self.slots.push(slot);
        Ok(Transformed::new(literal, true, TreeNodeRecursion::Jump))
    }

    /// Rewrites a comparison of a cast column with a slot to one of the column itself, as the simplification of conditions does.
    fn uncast(&mut self, expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else { return Ok(Transformed::no(expr)) };
        let (Expr::Cast(cast), Expr::Literal(value, Some(_)), Some(slot)) = (&**left, &**right, numbered(right)) else {
            return Ok(Transformed::no(expr));
        };
        let ty = cast.expr.get_type(schema)?;
        match narrowed(value, &ty) {
            Some(value) if is_comparison(*op) => {
                self.slots[slot].narrowed = Some(ty);
                let literal = Expr::Literal(value, Some(metadata(slot)));
                let column = cast.expr.as_ref().clone();
                Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(column), *op, Box::new(literal)))))
            }
            _ => Ok(Transformed::no(expr)),
        }
    }
}

/// Rewrites a list of slots as the simplification of conditions does: short lists become comparisons.
fn listed(expr: Expr) -> Transformed<Expr> {
    let Some(list) = members::list(&expr) else { return Transformed::no(expr) };
    let is_short = list.list.len() <= THRESHOLD_INLINE_INLIST && list.expr.try_as_col().is_some();
    if !is_short && list.list.len() > 1 {
        return Transformed::yes(Expr::InList(list));
    }
    let InList { expr: of, list, negated } = list;
    let (op, all): (_, fn(Expr, Expr) -> Expr) = if negated { (Operator::NotEq, and) } else { (Operator::Eq, or) };
    let compared = list.into_iter().map(|member| binary_expr(of.as_ref().clone(), op, member));
    Transformed::yes(compared.reduce(all).unwrap_or(expr))
}

/// `plan` with plain literals for numbered ones.
fn without_numbers(plan: &LogicalPlan) -> DataFusionResult<LogicalPlan> {
    let plan = plan.clone().transform_down_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform(|expr| Ok(without_number(expr))))
    })?;
    Ok(plan.data)
}
