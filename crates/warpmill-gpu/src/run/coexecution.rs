//! Runs split programs ([`crate::compile::split`]): the device runs its pieces one after the other, then the CPU back end continues with their rows,
//! all of which are on the host by then. A piece that is run again, because a size was guessed too small, discards its earlier rows, so the CPU never
//! continues with rows of an incomplete run.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use warpmill_eval::rows::{Placed, RowSet};
use warpmill_eval::{Data, Vector};
use warpmill_ir::{Program, Sink};

use super::options::{Asked, DeviceOutput, MOST_PREPARED, Options, most_host_rows};
use crate::compile::join::{JoinPlan, JoinStrategy, Side};
use crate::memory::error::{Failure, Result};

use super::executor::Executor;
use super::profile::DeviceProfile;
use crate::compile::split::{Piece, Split};

/// A split program, and the reason for the split.
pub(super) struct Known {
    split: Split,
    plan: JoinPlan,
    /// The input row counts and the limit of host bytes that the decision is valid for.
    inputs: Vec<u64>,
    host_bytes: Option<u64>,
}

/// Split programs by program address and requested options.
pub(super) type Splits = Mutex<HashMap<(usize, Asked), (Weak<Program>, Arc<Known>)>>;

impl Executor {
    /// The known split of `program`: decided by an earlier run, or requested by the join strategy whatever the sizes.
    pub(super) fn known_split(
        &self,
        program: &Arc<Program>,
        inputs: &[u64],
        options: &Options,
    ) -> Result<Option<Arc<Known>>> {
        let key = (Arc::as_ptr(program) as usize, Asked::of(program, options));
        if let Some((held, known)) = self.splits.lock().get(&key)
            && held.upgrade().is_some_and(|held| Arc::ptr_eq(&held, program))
            && known.inputs == inputs
            && known.host_bytes == options.host_bytes
            && (options.cpu_threads > 0 || options.join.splits())
        {
            return Ok(Some(known.clone()));
        }
        if !options.join.splits() || options.partitions == 0 {
            return Ok(None);
        }
        let deferred = crate::compile::defer::defer_sorts(program).map_or_else(|| program.clone(), Arc::new);
        let is_build = |(id, sink): (usize, &Sink)| matches!(sink, Sink::HashBuild { .. }).then_some(id);
        let builds: Vec<usize> = deferred.sinks.iter().enumerate().filter_map(is_build).collect();
        if builds.is_empty() {
            return Ok(None);
        }
        let plan = JoinPlan::forced(options.join, builds);
        self.split(program, (&deferred, plan), inputs, options).map(Some)
    }

    /// Splits `program`, whose lowered form is `deferred`, by `plan`; later runs find the split.
    pub(super) fn split(
        &self,
        program: &Arc<Program>,
        (deferred, plan): (&Arc<Program>, JoinPlan),
        inputs: &[u64],
        options: &Options,
    ) -> Result<Arc<Known>> {
        let split = Split::new(deferred, &plan.builds, plan.strategy)?;
        let plan = JoinPlan { sides: split.sides.clone(), ..plan };
        let known = Arc::new(Known { split, plan, inputs: inputs.to_vec(), host_bytes: options.host_bytes });
        let mut all = self.splits.lock();
        if all.len() >= MOST_PREPARED {
            all.retain(|_, (program, _)| program.strong_count() > 0);
        }
        if all.len() >= MOST_PREPARED {
            all.clear();
        }
        let key = (Arc::as_ptr(program) as usize, Asked::of(program, options));
        all.insert(key, (Arc::downgrade(program), known.clone()));
        Ok(known)
    }

    /// Runs the device's part of a split program. If more rows come back than the host may hold, and the split was not requested, runs the whole
    /// program in another way.
    pub(super) fn split_or_other(
        &self,
        program: &Arc<Program>,
        known: &Known,
        inputs: &[Vec<RecordBatch>],
        options: &Options,
    ) -> Result<DeviceOutput> {
        match self.execute_split(known, inputs, options) {
            Err(Failure::HostRows { .. }) if !options.join.splits() => {
                self.splits.lock().remove(&(Arc::as_ptr(program) as usize, Asked::of(program, options)));
                self.execute(program, inputs, &Options { host_bytes: Some(0), ..options.clone() })
            }
            other => other,
        }
    }

    /// Runs the device's part of a split program.
    fn execute_split(&self, known: &Known, inputs: &[Vec<RecordBatch>], options: &Options) -> Result<DeviceOutput> {
        let Known { split, plan, .. } = known;
        let placed = |side: &Side| if *side == Side::Cpu { Placed::Here } else { Placed::Elsewhere };
        let mut output = DeviceOutput {
            program: split.program.clone(),
            placed: split.sides.iter().map(placed).collect(),
            owners: vec![],
            host_bytes: 0,
            profile: DeviceProfile::default(),
        };
        let limit = options.host_bytes.unwrap_or(u64::MAX).min(most_host_rows());
        for (number, piece) in split.pieces.iter().enumerate() {
            options.cancel.check()?;
            // Joins within a piece run on the device.
            let join = JoinStrategy::Auto;
            let left = limit.saturating_sub(output.host_bytes);
            let own = Options { join, cpu_threads: 0, piece_bytes: Some(left), ..options.clone() };
            let done = self.execute(&piece.program, inputs, &own)?;
            let rows = rows_of(piece, done.placed)?;
            output.host_bytes += bytes(&rows);
            if output.host_bytes > limit {
                return Err(Failure::HostRows { bytes: output.host_bytes, limit });
            }
            let (last, operators) = *piece.cut.last().expect("a piece has a cut");
            output.placed[last] = Placed::Resumed { rows: Arc::new(piece.spread(rows)), operators };
            output.owners.extend(done.owners);
            let profile = done.profile.renumbered(&piece.pipelines, &piece.sinks);
            if number == 0 { output.profile = profile } else { output.profile.add(profile) }
        }
        output.profile.join = Some(plan.clone());
        Ok(output)
    }
}

/// The rows that a piece returned.
fn rows_of(piece: &Piece, placed: Vec<Placed>) -> Result<RowSet> {
    let mut all = RowSet::default();
    for placed in placed {
        match placed {
            Placed::Elsewhere => {}
            Placed::Arrived(rows) | Placed::Finished(rows) => {
                all.batches.extend(rows.batches.iter().cloned());
            }
            Placed::Here | Placed::Resumed { .. } | Placed::Shared(_) => {
                let reason = format!("pipelines {:?} would need the host in between", piece.pipelines);
                return Err(warpmill_ir::Unsupported::new("joins larger than device memory", reason).into());
            }
        }
    }
    Ok(all)
}

/// Bytes of rows, including strings.
fn bytes(rows: &RowSet) -> u64 {
    let of = |vector: &Arc<Vector>| {
        let text = match &vector.data {
            Data::Str(views) => views.iter().map(|view| view.len()).sum(),
            _ => 0,
        };
        (vector.bytes() + text) as u64
    };
    rows.batches.iter().flat_map(|(vectors, _)| vectors).map(of).sum()
}
