//! ASOF joins: each row of the left side is joined with one row of the right side: among the rows with equal keys, the nearest one by an inequality.
//!
//! DataFusion has no such join. FROM clauses with one are planned here ([`relation`]) as a separate node ([`AsofJoin`]); filters on the left side are
//! pushed through it ([`pushdown`]), others are not. It becomes a physical node ([`physical`]), which `warpmill_translate` converts to a hash build
//! and a probe.

mod physical;
mod pushdown;
mod relation;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, UserDefinedLogicalNodeCore};
use warpmill_ir::Nearest;

pub(crate) use physical::Planner;
pub(crate) use pushdown::{PushDownLeftFilters, is_above_asof};
pub(crate) use relation::{INNER, LEFT, POSITIONAL, Relations, marker};

/// The logical node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AsofJoin {
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    /// Pairs of keys, left and right. The last pair is the inequality's.
    keys: Vec<(Expr, Expr)>,
    nearest: Nearest,
    /// The join type: [`JoinType::Inner`] or [`JoinType::Left`].
    join_type: JoinType,
    schema: DFSchemaRef,
}

impl AsofJoin {
    fn try_new(
        left: Arc<LogicalPlan>,
        right: Arc<LogicalPlan>,
        keys: Vec<(Expr, Expr)>,
        nearest: Nearest,
        join_type: JoinType,
    ) -> Result<Self> {
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        Ok(Self { left, right, keys, nearest, join_type, schema })
    }

    /// The node of `plan`, if it is one.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&Self> {
        let LogicalPlan::Extension(extension) = plan else { return None };
        extension.node.as_any().downcast_ref()
    }

    /// The same join with converted keys: `convert` gets a pair, and whether it is an equality.
    pub(crate) fn with_keys(&self, convert: impl Fn(Expr, Expr, bool) -> Result<(Expr, Expr)>) -> Result<Self> {
        let last = self.keys.len() - 1;
        let keys = self.keys.iter().cloned().enumerate();
        let keys = keys.map(|(at, (left, right))| convert(left, right, at < last)).collect::<Result<_>>()?;
        Ok(Self { keys, ..self.clone() })
    }

    fn op(&self) -> &'static str {
        match self.nearest {
            Nearest::AtMost => ">=",
            Nearest::Below => ">",
            Nearest::AtLeast => "<=",
            Nearest::Above => "<",
        }
    }
}

impl PartialOrd for AsofJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let by_parts = (&self.left, &self.right, &self.keys).partial_cmp(&(&other.left, &other.right, &other.keys));
        by_parts.filter(|order| order.is_ne())
    }
}

impl UserDefinedLogicalNodeCore for AsofJoin {
    fn name(&self) -> &str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.iter().flat_map(|(left, right)| [left.clone(), right.clone()]).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.join_type == JoinType::Left { "Left AsofJoin" } else { "Inner AsofJoin" };
        let conditions: Vec<String> = self
            .keys
            .iter()
            .enumerate()
            .map(|(at, (left, right))| {
                let op = if at + 1 < self.keys.len() { "=" } else { self.op() };
                format!("{left} {op} {right}")
            })
            .collect();
        write!(f, "{kind}: {}", conditions.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok([left, right]) = <[_; 2]>::try_from(inputs) else {
            return internal_err!("an ASOF join has two inputs");
        };
        if exprs.len() != 2 * self.keys.len() {
            return internal_err!("an ASOF join of {} keys was given {} expressions", self.keys.len(), exprs.len());
        }
        let mut exprs = exprs.into_iter().map(Expr::unalias);
        let keys = std::iter::from_fn(|| exprs.next().zip(exprs.next())).collect();
        Self::try_new(Arc::new(left), Arc::new(right), keys, self.nearest, self.join_type)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let columns = self.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) = output_columns.iter().partition(|&&column| column < columns);
        Some(vec![left, right.into_iter().map(|column| column - columns).collect()])
    }
}
