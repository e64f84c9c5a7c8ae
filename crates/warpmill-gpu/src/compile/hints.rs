//! Hints and limits: the sizes that earlier runs found, and the limits of the device, by which layouts are chosen besides the program.

use std::collections::HashMap;

use warpmill_ir::SinkId;

use super::join::JoinPlan;
use crate::data::form::Pipelines;

/// The lessons of an earlier run of the program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hints {
    /// Hash builds whose keys turned out to repeat.
    pub repeated_keys: Vec<SinkId>,
    /// Rows or groups that a sink must have room for.
    pub capacity: HashMap<SinkId, u64>,
    /// Sinks in parts whose capacity is what was counted, or is likely by that: less than had been expected.
    pub counted: Vec<SinkId>,
    /// Sorts of which the first rows are not told apart well enough by their first key.
    pub all_rows: Vec<SinkId>,
    /// The number of words of strings that sorts look at.
    pub text_words: HashMap<SinkId, u32>,
    /// Sorts that are left to the host.
    pub host_sorts: Vec<SinkId>,
    /// Sinks get room for few rows until their sizes are known: guesses did not fit.
    pub frugal: bool,
    /// The segments of scans pass through device memory, because they do not fit or are not to stay there.
    pub streamed: bool,
    /// Bytes that the buffers of all sinks may take: those that would take more are made in parts, one after the other.
    pub partitioned: Option<u64>,
    /// Parts that every sink is made in which can be, whatever its size; 0: as few as fit (for tests).
    pub forced_partitions: u32,
    /// Rows or groups that a part of a sink must have room for: they have one key.
    pub least_part: HashMap<SinkId, u64>,
    /// Bytes of strings of a row of a sink that is made in parts, where they were counted.
    pub row_text: HashMap<SinkId, u64>,
    /// The way joins are done of which hash builds do not fit, once that has been decided.
    pub join: Option<JoinPlan>,
    /// Bytes of strings of a row of a hash build on the host, where they were counted.
    pub host_text: HashMap<SinkId, u64>,
    /// The way data passes through.
    pub pipelines: Pipelines,
    /// The number of times that remote files were not what their footers let expect.
    pub unforeseen: u32,
}

impl Hints {
    /// Whether they differ from `first`, with which programs begin, by sizes and repeated keys only: such is worth trying for a program with
    /// other constants. All else was learnt where memory did not suffice.
    pub(crate) fn are_sizes(&self, first: &Self) -> bool {
        let Self { repeated_keys, capacity, all_rows, text_words, .. } = first.clone();
        self != first && Self { repeated_keys, capacity, all_rows, text_words, ..self.clone() } == *first
    }

    /// Whether sinks may be made in parts.
    pub fn makes_parts(&self) -> bool {
        self.partitioned.is_some() || self.forced_partitions > 1
    }

    /// Whether columns of remote files may be read while the program runs. A file of which one was not what was expected is read before; where
    /// several are such, all are.
    pub fn may_read_later(&self) -> bool {
        self.unforeseen < 2
    }

    /// The way the program is split between device and CPU, where it is to be.
    pub fn split(&self) -> Option<JoinPlan> {
        self.join.clone().filter(|plan| plan.strategy.splits())
    }

    /// Whether the payload of build `id` is on the host.
    pub fn is_on_host(&self, id: SinkId) -> bool {
        self.join.as_ref().is_some_and(|plan| plan.is_on_host(id))
    }
}

/// Limits that follow from the device.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of device memory that one table may take.
    pub table_bytes: u64,
    /// Bytes of shared memory that a block may use for groups.
    pub shared_bytes: u32,
    /// Bytes of device memory that segments pass through.
    pub stream_bytes: u64,
    /// Room for so many rows is made without looking at estimates.
    pub few_rows: u64,
}

impl Limits {
    /// For a device of which `memory` bytes may be used, and whose blocks may use `shared_bytes` bytes of shared memory.
    pub fn new(memory: u64, shared_bytes: u32) -> Self {
        let few_rows = (memory >> 12).clamp(1 << 10, 1 << 20);
        Self { table_bytes: memory / 5, shared_bytes, stream_bytes: memory / 4, few_rows }
    }
}
