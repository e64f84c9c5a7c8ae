//! Common table expressions whose rows differ from run to run (`random()`, samples): they run once for all their readers.
//!
//! DataFusion copies a common table expression to each place that names it. One that varies and is named several times is wrapped in a derived table
//! with a reserved alias ([`mod@mark`]), which becomes a node of its own ([`Once`]): rules do not see through it, and all copies of a run return the
//! rows of the first ([`physical`]).

mod mark;
mod physical;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU64};

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

pub(crate) use mark::{Names, is_marked, mark};
pub(crate) use physical::{OnceExec, Results};

/// The logical node. Copies have its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Once {
    input: Arc<LogicalPlan>,
    number: u64,
}

impl Once {
    /// A node over `input` with a number of its own.
    pub(crate) fn plan(input: LogicalPlan) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(Self { input: Arc::new(input), number: next() }) })
    }

    /// The plan of a view for one of its readers: each reader has its own rows. `None` where nothing in it runs once.
    pub(crate) fn renumbered(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let mut numbers: HashMap<u64, u64> = HashMap::new();
        let renumbered = plan.clone().transform_up_with_subqueries(|node| {
            let LogicalPlan::Extension(extension) = &node else { return Ok(Transformed::no(node)) };
            let Some(once) = extension.node.as_any().downcast_ref::<Self>() else { return Ok(Transformed::no(node)) };
            let number = *numbers.entry(once.number).or_insert_with(next);
            let node = Arc::new(Self { input: Arc::clone(&once.input), number });
            Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
        })?;
        Ok(renumbered.transformed.then_some(renumbered.data))
    }

    /// The number that all copies have.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

/// A number that no other node has.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, atomic::Ordering::Relaxed)
}

impl PartialOrd for Once {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.number, &self.input).partial_cmp(&(other.number, &other.input))
    }
}

impl UserDefinedLogicalNodeCore for Once {
    fn name(&self) -> &str {
        "Once"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once: number={}", self.number)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (exprs.is_empty(), <[_; 1]>::try_from(inputs)) {
            (true, Ok([input])) => Ok(Self { input: Arc::new(input), number: self.number }),
            _ => internal_err!("a common table expression has one input and no expressions"),
        }
    }
}
