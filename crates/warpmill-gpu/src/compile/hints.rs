//! Hints and limits: sizes found by earlier runs, and limits of the device. Together with the program they determine layouts.

use std::collections::HashMap;

use warpmill_ir::SinkId;

use super::join::JoinPlan;
use crate::data::form::Pipelines;

/// Hints from earlier runs of the program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hints {
    /// Hash builds in which a key was found to repeat.
    pub repeated_keys: Vec<SinkId>,
    /// Required capacity of sinks, in rows or groups.
    pub capacity: HashMap<SinkId, u64>,
    /// Sinks whose capacity was reduced from the estimate to a counted or likely number, once for each time.
    pub counted: Vec<SinkId>,
    /// Top-k sorts whose first key does not separate enough rows: all rows must be sorted.
    pub all_rows: Vec<SinkId>,
    /// Number of words of strings that sorts compare.
    pub text_words: HashMap<SinkId, u32>,
    /// Sorts that the host does.
    pub host_sorts: Vec<SinkId>,
    /// Whether sinks start with a small capacity, because guesses did not fit.
    pub frugal: bool,
    /// Whether segments are streamed, because they do not fit or may not be cached.
    pub streamed: bool,
    /// Limit of bytes for the buffers of all sinks; larger sinks are built in parts, one after the other.
    pub partitioned: Option<u64>,
    /// Number of parts of every sink that can have parts, for tests; 0: as few as fit.
    pub forced_partitions: u32,
    /// Required capacity of one part of a sink, whose rows or groups cannot be separated by key.
    pub least_part: HashMap<SinkId, u64>,
    /// Counted bytes of strings per row, for sinks in parts.
    pub row_text: HashMap<SinkId, u64>,
    /// Strategy for joins whose hash builds do not fit, once decided.
    pub join: Option<JoinPlan>,
    /// Counted bytes of strings per row, for hash builds on the host.
    pub host_text: HashMap<SinkId, u64>,
    /// Amount of streamed data in flight.
    pub pipelines: Pipelines,
    /// Number of times that a remote file differed from what its footer promised.
    pub unforeseen: u32,
}

impl Hints {
    /// Whether the hints differ from the initial ones, `first`, only in sizes and repeated keys: such hints also suit a program with other constants.
    /// All others were learnt because memory did not suffice.
    pub(crate) fn are_sizes(&self, first: &Self) -> bool {
        let Self { repeated_keys, capacity, counted, all_rows, text_words, .. } = first.clone();
        self != first && Self { repeated_keys, capacity, counted, all_rows, text_words, ..self.clone() } == *first
    }

    /// Whether sinks may be built in parts.
    pub fn makes_parts(&self) -> bool {
        self.partitioned.is_some() || self.forced_partitions > 1
    }

    /// Whether columns of remote files may be read while the program runs. After the first surprise that file is read before the run; after the
    /// second, all are.
    pub fn may_read_later(&self) -> bool {
        self.unforeseen < 2
    }

    /// The plan for splitting the program between device and CPU, if it is to be split.
    pub fn split(&self) -> Option<JoinPlan> {
        self.join.clone().filter(|plan| plan.strategy.splits())
    }

    /// Whether the payload of build `id` is in host memory.
    pub fn is_on_host(&self, id: SinkId) -> bool {
        self.join.as_ref().is_some_and(|plan| plan.is_on_host(id))
    }
}

/// Largest number of bytes of shared memory per block for groups.
const MOST_SHARED: u32 = 80 << 10;

/// Bytes of shared memory per block that a kernel with a folded bitmap may need for queues, other bitmaps and small groups.
const BESIDE_FOLDED: u32 = 84 << 10;

/// Limits of the device.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest number of bytes of one table.
    pub table_bytes: u64,
    /// Bytes of shared memory per block for groups.
    pub shared_bytes: u32,
    /// Bytes of shared memory per block for a folded bitmap.
    pub folded_bytes: u32,
    /// Bytes of device memory for streamed segments.
    pub stream_bytes: u64,
    /// Capacity that sinks get without regard to estimates.
    pub few_rows: u64,
}

impl Limits {
    /// Limits for a device with `memory` bytes in use and `shared` bytes of shared memory per block.
    pub fn new(memory: u64, shared: u32) -> Self {
        Self {
            table_bytes: memory / 5,
            shared_bytes: shared.min(MOST_SHARED),
            folded_bytes: shared.saturating_sub(BESIDE_FOLDED),
            stream_bytes: memory / 4,
            few_rows: (memory >> 12).clamp(1 << 10, 1 << 20),
        }
    }
}
