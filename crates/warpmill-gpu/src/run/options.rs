//! Options of a run, and its output.

use std::sync::Arc;

use warpmill_eval::cancel::CancelToken;
use warpmill_eval::queue::{Party, SegmentQueue};
use warpmill_eval::rows::Placed;
use warpmill_ir::Program;

use super::peers::{PeerPart, PeerReads};
use super::profile::DeviceProfile;
use super::shuffle::{Received, ShufflePart};
use crate::compile::hints::Hints;
use crate::compile::join::{JoinPlan, JoinStrategy};
use crate::data::form::{DataSource, Pipelines, Representation, is_scanned};
use crate::data::mirror::MirrorOptions;
use crate::device::cuda::pinned::available_host_memory;
use crate::memory::error::Result;
use crate::memory::regions::Owner;

/// Largest number of programs kept prepared.
pub(crate) const MOST_PREPARED: usize = 512;

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Stops the query between launches.
    pub cancel: CancelToken,
    /// Whether kernels are timed, at a few microseconds each.
    pub profile: bool,
    /// Location of the program's data.
    pub data: DataSource,
    /// Limit of the file read rate in bytes per second; 0: none.
    pub io_bandwidth_limit: u64,
    /// Limit of page-locked memory for copies of data in bytes ([`DataSource::Pinned`]); 0: none.
    pub pinned_memory_limit: u64,
    /// Forms in which columns are streamed.
    pub representation: Representation,
    /// Number of parts of every sink that can have parts, for tests; 0: only as many as memory requires.
    pub partitions: u32,
    /// Strategy for joins whose hash builds do not fit.
    pub join: JoinStrategy,
    /// Threads of the CPU back end for work that the device does not do; 0: it may not do any.
    pub cpu_threads: usize,
    /// Threads of the CPU back end, for estimates of times on the CPU.
    pub host_threads: usize,
    /// Limit of the bytes of rows that the CPU back end continues with if the program is split; `None`: no limit.
    pub host_bytes: Option<u64>,
    /// For a piece of a split program: limit of the bytes of rows that it returns.
    pub piece_bytes: Option<u64>,
    /// Amount of streamed data in flight.
    pub pipelines: Pipelines,
    /// Whether batches are prepared while kernels run; otherwise each waits for the kernels (for measurements).
    pub overlap: bool,
    /// Options of mirrored data.
    pub mirror: MirrorOptions,
    /// The pipeline whose scan is shared with other sites.
    pub shared: Option<SharedPart>,
    /// The exchange of data with devices that run parts of the same query.
    pub peers: Option<PeerPart>,
    /// Reads of mirrored copies on devices that run parts of the same query.
    pub reads: Option<PeerReads>,
    /// Shuffle of the result rows to other devices, instead of the host.
    pub shuffle: Option<ShuffleEnd>,
    /// Whether another program of the same query holds memory of the device: this one then does not wait for memory.
    pub nested: bool,
}

impl Options {
    /// Whether a program that sends the rows of sink `sink` to other devices has sent none yet, and was laid out for the largest possible number.
    pub(super) fn may_send_fewer(&self, hints: &Hints, sink: usize) -> bool {
        self.shuffle.as_ref().is_some_and(|end| !end.part.has_sent()) && !hints.capacity.contains_key(&sink)
    }
}

/// A pipeline of which the device runs the row segments that it claims.
#[derive(Debug, Clone)]
pub struct SharedPart {
    /// The row segments.
    pub queue: Arc<SegmentQueue>,
    /// The device's number among the sites.
    pub party: Party,
    /// The pipeline.
    pub pipeline: usize,
    /// The unit of a claim.
    pub unit: ClaimUnit,
}

/// The unit that a device claims of a shared scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ClaimUnit {
    /// Row segments; those that need no copy form one launch.
    #[default]
    Groups,
    /// Row segments with one launch each (for measurements: thesis, section 4.4.3).
    Segments,
    /// All row segments if all data is in device memory, otherwise none: data-driven placement of operators (Breß et al.).
    OperatorByData,
    /// All row segments if that is predicted to be faster than on the CPU, otherwise none.
    OperatorByCost,
}

/// The output of a program.
pub struct DeviceOutput {
    /// The program that was run: the requested one, possibly with deferred sorts.
    pub program: Arc<Program>,
    /// How each pipeline was run, with the rows that the host continues with.
    pub placed: Vec<Placed>,
    /// Owners of the memory that strings in the rows point into.
    pub owners: Vec<Owner>,
    /// Bytes of the rows, if the program was split.
    pub host_bytes: u64,
    /// The profile of the run.
    pub profile: DeviceProfile,
}

impl DeviceOutput {
    /// The output of a program that was not run, because all of its rows are on another device.
    pub(super) fn without_rows(program: &Arc<Program>) -> Self {
        let (placed, owners, profile) = (vec![], vec![], DeviceProfile::default());
        Self { program: program.clone(), placed, owners, host_bytes: 0, profile }
    }
}

/// Cache key of prepared programs: requested options, independent of available memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// The data source, which determines how much pruning is worth.
    source: DataSource,
    /// Whether segments must be streamed; otherwise they may be cached.
    pub(crate) streamed: bool,
    /// Requested number of parts of every sink that can have parts.
    partitions: u32,
    /// Requested join strategy.
    join: JoinStrategy,
    /// Requested amount of streamed data in flight.
    pipelines: Pipelines,
}

impl Asked {
    /// The key of `program` and `options`. Parquet pages are always streamed.
    pub(crate) fn of(program: &Program, options: &Options) -> Self {
        let streamed = options.data != DataSource::Cache || is_scanned(program);
        let Options { data: source, partitions, join, pipelines, .. } = *options;
        Self { source, streamed, partitions, join, pipelines }
    }

    /// The hints of the first layout.
    pub(crate) fn hints(self) -> Hints {
        let parts = self.partitions > 1;
        let forced_partitions = if parts { self.partitions } else { 0 };
        let join = (self.partitions > 0 && self.join == JoinStrategy::Hybrid).then(JoinPlan::all_hybrid);
        let streamed = self.streamed || parts || join.is_some();
        // A single part may use all memory.
        let partitioned = (join.is_some() && !parts).then_some(u64::MAX);
        Hints { streamed, forced_partitions, join, partitioned, pipelines: self.pipelines, ..Hints::default() }
    }
}

/// Bytes of rows for the CPU back end that host memory allows: half of the free memory, as its operators need memory, too.
pub(crate) fn most_host_rows() -> u64 {
    available_host_memory().map_or(u64::MAX, |free| free / 2)
}

/// The outcome of a run.
pub(crate) enum Outcome {
    Done(Box<DeviceOutput>),
    Again(Box<Hints>),
}

/// The end of a program whose rows are sent to other devices.
#[derive(Clone)]
pub struct ShuffleEnd {
    pub(super) part: ShufflePart,
    /// Runs the second program on the received rows.
    pub(super) go_on: Arc<dyn Fn(Received) -> Result<DeviceOutput> + Send + Sync>,
}

impl std::fmt::Debug for ShuffleEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShuffleEnd").field("part", &self.part).finish_non_exhaustive()
    }
}
