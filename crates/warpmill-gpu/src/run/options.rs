//! The options of a run, and its outcome.

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

/// Programs that are kept prepared.
pub(crate) const MOST_PREPARED: usize = 512;

/// The way a program is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Stops the query between launches.
    pub cancel: CancelToken,
    /// Whether kernels are timed, which takes a few microseconds each.
    pub profile: bool,
    /// The place where the program's data is.
    pub data: DataSource,
    /// Bytes per second that files are read with at most; 0: as fast as drives are.
    pub io_bandwidth_limit: u64,
    /// Bytes of page-locked memory that copies of data may take ([`DataSource::Pinned`]); 0: as many as there are.
    pub pinned_memory_limit: u64,
    /// In which form columns pass through.
    pub representation: Representation,
    /// Parts in which every sink is made that can be, whatever its size (for tests); 0: only as far as memory does not suffice.
    pub partitions: u32,
    /// The way joins are done whose hash builds do not fit.
    pub join: JoinStrategy,
    /// Threads of the CPU back end, where it may run what the device does not; 0: it may not.
    pub cpu_threads: usize,
    /// Threads of the CPU back end, whatever it may run: what it would take on the CPU depends on them.
    pub host_threads: usize,
    /// Bytes of rows that the CPU back end may go on with where the program is split between both; `None`: any number.
    pub host_bytes: Option<u64>,
    /// Of a program that is a piece of such a one: bytes of rows that it may give.
    pub piece_bytes: Option<u64>,
    /// The share of the data that passes through which is on its way at once.
    pub pipelines: Pipelines,
    /// Whether a batch is made ready while kernels work on others; otherwise it waits for them (for measurements).
    pub overlap: bool,
    /// The part of mirrored data that has copies in device memory.
    pub mirror: MirrorOptions,
    /// The pipeline whose scan other sites read, too.
    pub shared: Option<SharedPart>,
    /// The devices that the program's data comes from, where others run parts of the same query.
    pub peers: Option<PeerPart>,
    /// The copies of mirrored data that others have, of which they read parts of the same query.
    pub reads: Option<PeerReads>,
    /// Where the rows of the result go to other devices, in the place of the host.
    pub shuffle: Option<ShuffleEnd>,
    /// Whether the program runs while another one of the same query holds memory of the device: it does not wait for memory then.
    pub nested: bool,
}

impl Options {
    /// Whether a program whose result `sink` has rows for other devices has sent nothing yet, and was laid out for as many rows as there may be.
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
    /// The unit that is claimed.
    pub unit: ClaimUnit,
}

/// The unit that a device claims of a shared scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ClaimUnit {
    /// Row segments, of which those that need not travel are one launch.
    #[default]
    Groups,
    /// Row segments, each a launch of its own (for measurements: thesis, section 4.4.3).
    Segments,
    /// All of them where all of their data is in device memory, otherwise none: data-driven placement of operators (Breß et al.).
    OperatorByData,
    /// All of them where that is predicted to be faster than on the CPU, otherwise none.
    OperatorByCost,
}

/// The result of a program.
pub struct DeviceOutput {
    /// The program that was run: the one asked for, but for the place of a sort.
    pub program: Arc<Program>,
    /// The place where each pipeline was run, with the rows that the host goes on with.
    pub placed: Vec<Placed>,
    /// The owners of memory that strings in those rows point into.
    pub owners: Vec<Owner>,
    /// Bytes of those rows, where the program was split.
    pub host_bytes: u64,
    /// The profile of the run.
    pub profile: DeviceProfile,
}

impl DeviceOutput {
    /// Of a program that was not run, because all its rows are on another device.
    pub(super) fn without_rows(program: &Arc<Program>) -> Self {
        let (placed, owners, profile) = (vec![], vec![], DeviceProfile::default());
        Self { program: program.clone(), placed, owners, host_bytes: 0, profile }
    }
}

/// The demand of a user, whatever memory there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// The place where data comes from: what is worth finding out about it before depends on that.
    source: DataSource,
    /// Segments must not stay in device memory; otherwise they may.
    pub(crate) streamed: bool,
    /// Every sink that can be is made in so many parts.
    partitions: u32,
    /// The way joins are done.
    join: JoinStrategy,
    /// The way data passes through.
    pipelines: Pipelines,
}

impl Asked {
    /// Pages of Parquet are decoded where they pass through.
    pub(crate) fn of(program: &Program, options: &Options) -> Self {
        let streamed = options.data != DataSource::Cache || is_scanned(program);
        let Options { data: source, partitions, join, pipelines, .. } = *options;
        Self { source, streamed, partitions, join, pipelines }
    }

    /// The hints that a program is laid out with at first.
    pub(crate) fn hints(self) -> Hints {
        let parts = self.partitions > 1;
        let forced_partitions = if parts { self.partitions } else { 0 };
        let join = (self.partitions > 0 && self.join == JoinStrategy::Hybrid).then(JoinPlan::all_hybrid);
        let streamed = self.streamed || parts || join.is_some();
        // One part has all the room that there is.
        let partitioned = (join.is_some() && !parts).then_some(u64::MAX);
        Hints { streamed, forced_partitions, join, partitioned, pipelines: self.pipelines, ..Hints::default() }
    }
}

/// Bytes of rows for the CPU back end that the host has memory for, besides what becomes of them.
pub(crate) fn most_host_rows() -> u64 {
    available_host_memory().map_or(u64::MAX, |free| free / 2)
}

/// The way a run ended.
pub(crate) enum Outcome {
    Done(Box<DeviceOutput>),
    Again(Box<Hints>),
}

/// The end of a program whose rows are sent to other devices.
#[derive(Clone)]
pub struct ShuffleEnd {
    pub(super) part: ShufflePart,
    /// Goes on with the rows that have come.
    pub(super) go_on: Arc<dyn Fn(Received) -> Result<DeviceOutput> + Send + Sync>,
}

impl std::fmt::Debug for ShuffleEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShuffleEnd").field("part", &self.part).finish_non_exhaustive()
    }
}
