//! An aggregation prepared for the CPU: its expressions as operands, and its grouping method.

use warpmill_functions::Aggregation;
pub(super) use warpmill_functions::aggregate::{DistinctSet, Input, Output, Slot, decimal_scale};
use warpmill_ir::{AggregateExpr, ColType, Expr, Field};

use super::keys::{KeyLayout, PerfectLayout};
use super::operand::Operand;
use crate::context::{ExecError, Result};

/// How rows find their group.
#[derive(Debug)]
pub(super) enum Grouping {
    /// There are no keys: one group.
    One,
    /// By arithmetic on key codes.
    Perfect(PerfectLayout),
    /// By a hash table.
    Hash(KeyLayout),
}

impl Grouping {
    fn new(keys: &[ColType], slots: usize, plan: &Plan) -> Self {
        if keys.is_empty() {
            return Self::One;
        }
        let perfect = if plan.equal_hashes { None } else { PerfectLayout::new(keys, plan.max_rows) };
        // About 16 bytes per accumulator, and a flag.
        match perfect.filter(|perfect| perfect.cells.saturating_mul(1 + 16 * slots) <= plan.perfect_bytes) {
            Some(perfect) => Self::Perfect(perfect),
            None => Self::Hash(KeyLayout::new(keys)),
        }
    }
}

/// Groups and accumulators, without the expressions they are fed from.
#[derive(Debug)]
pub(super) struct Layout {
    pub grouping: Grouping,
    pub slots: Vec<Slot>,
    /// Whether all keys hash alike (see [`crate::context::Settings::equal_hashes`]).
    pub equal_hashes: bool,
}

impl Layout {
    fn new(keys: &[ColType], slots: Vec<Slot>, plan: &Plan) -> Self {
        Self { grouping: Grouping::new(keys, slots.len(), plan), slots, equal_hashes: plan.equal_hashes }
    }
}

/// An aggregation's plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub groups: Vec<Operand>,
    pub arguments: Vec<Operand>,
    pub argument_types: Vec<ColType>,
    pub filters: Vec<Operand>,
    pub slots: Vec<Slot>,
    pub distinct: Vec<DistinctSet>,
    pub outputs: Vec<Output>,
    pub group_types: Vec<ColType>,
    /// Types of the output columns.
    pub field_types: Vec<ColType>,
    pub max_rows: Option<u64>,
    /// Whether all rows find their group by hash, and all hashes are equal (for tests).
    pub equal_hashes: bool,
    /// Largest number of bytes for the arrays of perfect hashing, which cannot be spilled.
    pub perfect_bytes: usize,
}

impl Plan {
    pub fn new(groups: &[Expr], aggregates: &[AggregateExpr], fields: &[Field], max_rows: Option<u64>) -> Result<Self> {
        let aggregation = Aggregation::new(groups, aggregates, fields, max_rows)
            .map_err(|reason| ExecError::Unsupported(reason.to_string()))?;
        let Aggregation { groups, arguments, filters, slots, distinct, outputs, .. } = aggregation;
        let operands = |list: &[Expr]| list.iter().map(Operand::new).collect::<Result<_>>();
        Ok(Self {
            groups: operands(&groups)?,
            arguments: operands(&arguments)?,
            argument_types: arguments.into_iter().map(|argument| argument.ty).collect(),
            filters: operands(&filters)?,
            slots,
            distinct,
            outputs,
            group_types: groups.into_iter().map(|group| group.ty).collect(),
            field_types: fields.iter().map(|field| field.ty.clone()).collect(),
            max_rows,
            equal_hashes: false,
            perfect_bytes: usize::MAX,
        })
    }

    /// The layout of the aggregation itself.
    pub fn layout(&self) -> Layout {
        Layout::new(&self.group_types, self.slots.clone(), self)
    }

    /// The layout of a distinct set.
    pub fn distinct_layout(&self, set: &DistinctSet) -> Layout {
        let mut keys = self.group_types.clone();
        keys.push(self.argument_types[set.argument].clone());
        Layout::new(&keys, vec![], self)
    }
}
