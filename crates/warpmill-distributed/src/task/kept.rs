//! The programs that a worker has made of tasks.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use warpmill::WarpmillOptions;
use warpmill_translate::scan_exec::{RowsOfPart, WarpmillScanExec};

use super::{decode_apart, is_exchange};
use crate::stage::accelerated;

/// Largest number of tasks with cached programs.
const CAPACITY: usize = 512;

/// Cache of programs of tasks that have run; evicts the least recently used.
///
/// The key of a program is the plan's bytes, the session's time zone and the versions of the tables that its scans read. Tasks that read other
/// sources (Parquet files) are translated each time.
#[derive(Debug, Default)]
pub(crate) struct KeptTasks {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    tasks: HashMap<Key, Kept>,
    clock: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    bytes: Box<[u8]>,
    time_zone: Option<String>,
    /// The rows of each scan: a worker may run several tasks of a stage.
    rows: Vec<Option<RowsOfPart>>,
}

/// A plan with programs, and its inputs.
#[derive(Debug)]
struct Kept {
    plan: Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    used: u64,
}

impl KeptTasks {
    /// The plan of a task, with programs, over `inputs`.
    ///
    /// # Errors
    /// Bytes that are not a plan; [`warpmill::Error::Fallback`], if the settings refuse fallbacks.
    pub fn plan(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = context.session_config().options();
        let key = Key::of(bytes, inputs, options.execution.time_zone.clone());
        if let Some(plan) = key.as_ref().and_then(|key| self.known.lock().find(key, inputs)) {
            return reset_plan_states(plan?);
        }
        let plan = decode_apart(bytes, inputs, context)?;
        let (plan, _) = accelerated(plan, &WarpmillOptions::of(options))?;
        if let Some(key) = key.filter(|_| exchanges(inputs).all(|input| reads(&plan, input))) {
            self.known.lock().keep(key, Arc::clone(&plan), inputs);
        }
        Ok(plan)
    }
}

impl Key {
    /// `None` for inputs that are neither scans of tables nor exchanges.
    fn of(bytes: &[u8], inputs: &[Arc<dyn ExecutionPlan>], time_zone: Option<String>) -> Option<Self> {
        let rows = |input: &Arc<dyn ExecutionPlan>| match input.downcast_ref::<WarpmillScanExec>() {
            Some(scan) => Some(scan.part().map(|part| part.rows.clone())),
            None => is_exchange(input).then_some(None),
        };
        let rows = inputs.iter().map(rows).collect::<Option<_>>()?;
        Some(Self { bytes: bytes.into(), time_zone, rows })
    }
}

impl Known {
    /// The cached plan for `key` that reads the same versions of tables, with these exchanges.
    fn find(&mut self, key: &Key, inputs: &[Arc<dyn ExecutionPlan>]) -> Option<Result<Arc<dyn ExecutionPlan>>> {
        self.clock += 1;
        let kept = self.tasks.get_mut(key)?;
        if !kept.inputs.iter().zip(inputs).all(|(kept, input)| reads_the_same(kept, input)) {
            self.tasks.remove(key);
            return None;
        }
        kept.used = self.clock;
        Some(with_exchanges(Arc::clone(&kept.plan), &kept.inputs, inputs))
    }

    fn keep(&mut self, key: Key, plan: Arc<dyn ExecutionPlan>, inputs: &[Arc<dyn ExecutionPlan>]) {
        if self.tasks.len() >= CAPACITY && !self.tasks.contains_key(&key) {
            let oldest = self.tasks.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            oldest.map(|key| self.tasks.remove(&key));
        }
        self.tasks.insert(key, Kept { plan, inputs: inputs.to_vec(), used: self.clock });
    }
}

fn exchanges(inputs: &[Arc<dyn ExecutionPlan>]) -> impl Iterator<Item = &Arc<dyn ExecutionPlan>> {
    inputs.iter().filter(|input| is_exchange(input))
}

/// Whether programs that read `one`, a scan or an exchange, may read `other` instead: scans of the same row segments (compared by `Key`) return the
/// same rows.
fn reads_the_same(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    match (one.downcast_ref::<WarpmillScanExec>(), other.downcast_ref::<WarpmillScanExec>()) {
        (Some(one), Some(other)) => {
            Arc::ptr_eq(one.table(), other.table())
                && one.projection() == other.projection()
                && one.table_name() == other.table_name()
        }
        (None, None) => {
            one.name() == other.name()
                && one.schema() == other.schema()
                && one.output_partitioning() == other.output_partitioning()
                && one.output_ordering() == other.output_ordering()
        }
        _ => false,
    }
}

/// Whether `plan` has `input` as a node.
fn reads(plan: &Arc<dyn ExecutionPlan>, input: &Arc<dyn ExecutionPlan>) -> bool {
    let mut found = false;
    let visited = plan.apply(|node| {
        found |= Arc::ptr_eq(node, input);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_ok() && found
}

/// Replaces the exchanges of `before` in `plan` by those of `now`.
fn with_exchanges(
    plan: Arc<dyn ExecutionPlan>,
    before: &[Arc<dyn ExecutionPlan>],
    now: &[Arc<dyn ExecutionPlan>],
) -> Result<Arc<dyn ExecutionPlan>> {
    if exchanges(before).next().is_none() {
        return Ok(plan);
    }
    let replaced = plan.transform_down(|node| {
        let number = before.iter().position(|input| is_exchange(&node) && Arc::ptr_eq(input, &node));
        Ok(match number {
            Some(number) => Transformed::new(Arc::clone(&now[number]), true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    })?;
    Ok(replaced.data)
}
