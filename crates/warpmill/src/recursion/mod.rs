//! Recursive queries: `WITH RECURSIVE`, with and without `USING KEY`.
//!
//! DataFusion's recursion has one reference to its rows, and reads them once. Names are bound such that each recursive query has a marked alias
//! ([`relation`]): it becomes a node of its own ([`Recursion`]) over the query of the first rows and the query of a step, which reads tables of
//! the recursion ([`tables`]): the rows of the last step, or all rows (`recurring.t`). The physical node ([`exec`]) runs steps until there are no
//! new rows. With `USING KEY`, its rows are those of a [`dictionary`]: an aggregation by the key of all rows that were added.

mod dictionary;
mod distinct;
mod exec;
mod physical;
mod relation;
mod small;
mod tables;
mod values;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, TableScan, UserDefinedLogicalNodeCore,
};

pub(crate) use physical::{apart, planned};
pub(crate) use relation::{is_marked, marker, relation};
pub(crate) use small::with_small_steps;
pub(crate) use tables::{Part, StepTable, own_table, table_name};

/// The alias of the derived table that replaces a common table expression with `USING KEY`; no text has this name.
pub(crate) const KEYED: &str = "$ key";

/// The rows of a step that the recursion adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Added {
    /// All rows.
    All,
    /// Rows that are new; with a dictionary, the rows that change in it.
    New,
}

/// The logical node of a recursion.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Recursion {
    /// The number of the recursion within its statement or view.
    number: u64,
    /// The query of the first rows.
    first: Arc<LogicalPlan>,
    /// The query of the rows that a step adds.
    step: Arc<LogicalPlan>,
    /// The aggregation of all rows by the key.
    dictionary: Option<Arc<LogicalPlan>>,
    added: Added,
    /// Whether the step is planned separately, and is no input of the node.
    is_apart: bool,
    schema: DFSchemaRef,
}

/// The queries of a recursion.
pub(crate) struct Queries {
    /// The query of the first rows.
    pub first: LogicalPlan,
    /// The query of the rows that a step adds.
    pub step: LogicalPlan,
    /// The aggregation of all rows by the key.
    pub dictionary: Option<LogicalPlan>,
}

impl Recursion {
    /// The recursion with this number.
    ///
    /// # Errors
    /// Queries with different numbers of columns.
    pub(crate) fn try_new(number: u64, queries: Queries, added: Added) -> Result<Self> {
        let Queries { first, step, dictionary } = queries;
        let (first, step, dictionary) = (Arc::new(first), Arc::new(step), dictionary.map(Arc::new));
        let (columns, of_step) = (first.schema().fields().len(), step.schema().fields().len());
        if columns != of_step {
            return plan_err!(
                "Non-recursive term and recursive term must have the same number of columns ({columns} != {of_step})"
            );
        }
        let fields = result_fields(&first, dictionary.as_deref());
        let schema = Arc::new(DFSchema::from_unqualified_fields(fields, HashMap::new())?);
        Ok(Self { number, first, step, dictionary, added, is_apart: false, schema })
    }

    /// The recursion of `plan`, if the plan is one.
    pub(crate) fn of(plan: &LogicalPlan) -> Option<&Self> {
        let LogicalPlan::Extension(extension) = plan else { return None };
        extension.node.as_any().downcast_ref()
    }

    /// The plan of the node.
    pub(crate) fn plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The number of the recursion within its statement.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The query of the first rows.
    pub(crate) fn first(&self) -> &LogicalPlan {
        &self.first
    }

    /// The query of the rows that a step adds.
    pub(crate) fn step(&self) -> &LogicalPlan {
        &self.step
    }

    /// The aggregation of all rows by the key.
    pub(crate) fn dictionary(&self) -> Option<&LogicalPlan> {
        self.dictionary.as_deref()
    }

    /// The rows of a step that the recursion adds.
    pub(crate) fn added(&self) -> Added {
        self.added
    }

    /// `plan`, a part of this recursion, with the columns of its tables replaced by `columns`.
    pub(crate) fn with_tables(&self, plan: LogicalPlan, columns: &[(Part, SchemaRef)]) -> Result<LogicalPlan> {
        let is_other = |plan: &LogicalPlan| Self::of(plan).is_some_and(|other| other.number == self.number);
        let replaced = |scan: &TableScan| -> Result<Option<LogicalPlan>> {
            let Some(part) = scanned(scan, self.number) else { return Ok(None) };
            let Some((_, schema)) = columns.iter().find(|(of, _)| *of == part) else { return Ok(None) };
            let table = Arc::new(StepTable::new(self.number, part, Arc::clone(schema)));
            let scan =
                LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(table), scan.projection.clone())?;
            scan.build().map(Some)
        };
        let plan = plan.transform_down_up_with_subqueries(
            // A recursion of the same number, from a view, has tables of its own.
            |plan| match is_other(&plan) {
                true => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
                false => Ok(Transformed::no(plan)),
            },
            |plan| {
                if let LogicalPlan::TableScan(scan) = &plan
                    && let Some(scan) = replaced(scan)?
                {
                    return Ok(Transformed::yes(scan));
                }
                plan.recompute_schema().map(Transformed::yes)
            },
        );
        Ok(plan?.data)
    }
}

/// The table of the recursion `number` that a scan reads, if it reads one.
fn scanned(scan: &TableScan, number: u64) -> Option<Part> {
    StepTable::of(scan).filter(|table| table.number() == number).map(|table| table.part())
}

/// Whether `plan` reads rows of the recursion `number`.
pub(crate) fn reads(plan: &LogicalPlan, number: u64) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if scanned(scan, number).is_some());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The columns of `plan`; all of them may have NULLs.
pub(crate) fn nullable(plan: &LogicalPlan) -> SchemaRef {
    let fields = plan.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns of the rows of a recursion.
pub(crate) fn result_fields(first: &LogicalPlan, dictionary: Option<&LogicalPlan>) -> Fields {
    let names = first.schema().fields().iter();
    let types = dictionary.unwrap_or(first).schema().fields().iter();
    let field = |(name, ty): (&FieldRef, &FieldRef)| ty.as_ref().clone().with_name(name.name()).with_nullable(true);
    names.zip(types).map(field).collect()
}

impl PartialOrd for Recursion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let parts = |of: &Self| (of.number, Arc::clone(&of.first), Arc::clone(&of.step), of.added);
        parts(self).partial_cmp(&parts(other)).filter(|order| order.is_ne())
    }
}

impl UserDefinedLogicalNodeCore for Recursion {
    fn name(&self) -> &str {
        "Recursion"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        let step = (!self.is_apart).then_some(&self.step);
        std::iter::once(&self.first).chain(step).chain(&self.dictionary).map(AsRef::as_ref).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recursion: number={}", self.number)?;
        if self.added == Added::New {
            write!(f, ", distinct")?;
        }
        if self.dictionary.is_some() { write!(f, ", by key") } else { Ok(()) }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut inputs = inputs.into_iter();
        let Some(first) = inputs.next().filter(|_| exprs.is_empty()) else {
            return internal_err!("a recursion has a query of its first rows, and no expressions");
        };
        let step = match self.is_apart {
            true => Some(self.step.as_ref().clone()),
            false => inputs.next(),
        };
        let (Some(step), dictionary, None) = (step, inputs.next(), inputs.next()) else {
            return internal_err!("a recursion has a query of first rows and a step");
        };
        if dictionary.is_some() != self.dictionary.is_some() {
            return internal_err!("a recursion with a key has an aggregation by it");
        }
        let node = Self::try_new(self.number, Queries { first, step, dictionary }, self.added)?;
        Ok(Self { is_apart: self.is_apart, ..node })
    }
}
