//! The ASOF join as a node of DataFusion's physical plans.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Result, internal_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use warpmill_ir::Nearest;

/// The inequality of an ASOF join.
#[derive(Debug, Clone)]
pub struct AsofMatch {
    /// Value expression, over the left side.
    pub value: PhysicalExprRef,
    /// Order expression, over the right side, of the same type.
    pub order: PhysicalExprRef,
    /// The row of the right side that is selected.
    pub nearest: Nearest,
}

/// A join that matches every row of its left side with at most one of its right side: among the rows with equal keys, the one with the nearest order.
///
/// It is never executed: the translator turns it into a hash build with an order and a probe.
#[derive(Debug)]
pub struct AsofJoinExec {
    left: Arc<dyn ExecutionPlan>,
    right: Arc<dyn ExecutionPlan>,
    on: Vec<(PhysicalExprRef, PhysicalExprRef)>,
    nearest: AsofMatch,
    join_type: JoinType,
    properties: Arc<PlanProperties>,
}

impl AsofJoinExec {
    /// An ASOF join of these sides. Rows of the left side without a partner are dropped ([`JoinType::Inner`]) or padded with NULLs
    /// ([`JoinType::Left`]).
    ///
    /// # Errors
    /// Other types of joins.
    pub fn try_new(
        left: Arc<dyn ExecutionPlan>,
        right: Arc<dyn ExecutionPlan>,
        on: Vec<(PhysicalExprRef, PhysicalExprRef)>,
        nearest: AsofMatch,
        join_type: JoinType,
    ) -> Result<Self> {
        let optional = match join_type {
            JoinType::Inner => false,
            JoinType::Left => true,
            other => return not_impl_err!("{other} ASOF joins"),
        };
        let own = left.schema().fields().iter().cloned().collect::<Vec<_>>();
        let others = right.schema();
        let others = others
            .fields()
            .iter()
            .map(|field| if optional { Arc::new(Field::clone(field).with_nullable(true)) } else { Arc::clone(field) });
        let schema: SchemaRef = Arc::new(Schema::new(own.into_iter().chain(others).collect::<Vec<_>>()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { left, right, on, nearest, join_type, properties: Arc::new(properties) })
    }

    /// The probe side.
    pub fn left(&self) -> &Arc<dyn ExecutionPlan> {
        &self.left
    }

    /// The side from which the nearest row is taken.
    pub fn right(&self) -> &Arc<dyn ExecutionPlan> {
        &self.right
    }

    /// Pairs of equal keys, left and right.
    pub fn on(&self) -> &[(PhysicalExprRef, PhysicalExprRef)] {
        &self.on
    }

    /// The inequality.
    pub fn nearest(&self) -> &AsofMatch {
        &self.nearest
    }

    /// The type of the join: [`JoinType::Inner`] or [`JoinType::Left`].
    pub fn join_type(&self) -> JoinType {
        self.join_type
    }

    fn with_children(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([left, right]) = <[_; 2]>::try_from(children) else {
            return internal_err!("AsofJoinExec has two children");
        };
        Ok(Arc::new(Self::try_new(left, right, self.on.clone(), self.nearest.clone(), self.join_type)?))
    }
}

impl DisplayAs for AsofJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.nearest.nearest {
            Nearest::AtMost => ">=",
            Nearest::Below => ">",
            Nearest::AtLeast => "<=",
            Nearest::Above => "<",
        };
        let on: Vec<String> = self.on.iter().map(|(left, right)| format!("({left}, {right})")).collect();
        let AsofMatch { value, order, .. } = &self.nearest;
        write!(f, "AsofJoinExec: join_type={}, on=[{}], match={value} {op} {order}", self.join_type, on.join(", "))
    }
}

impl ExecutionPlan for AsofJoinExec {
    fn name(&self) -> &str {
        "AsofJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.left, &self.right]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(children)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let on = self.on.iter().flat_map(|(left, right)| [left, right]);
        for expr in on.chain([&self.nearest.value, &self.nearest.order]) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        not_impl_err!("an ASOF join that Warpmill does not run: EXPLAIN names the reason")
    }
}
