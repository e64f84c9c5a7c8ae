//! State of a run with sinks in parts.

use std::collections::{HashMap, HashSet};

use warpmill_ir::SinkId;

use crate::compile::hints::Hints;
use crate::compile::layout::Partition;
use crate::compile::ranges::Range;
use crate::compile::replay::Places;
use crate::compile::shares::Structure;
use crate::data::stream::plan::StreamPlan;
use crate::device::DeviceError;
use crate::memory::error::{Failure, Result};
use crate::run::feed::Feed;
use crate::run::once::state::Run;
use crate::run::once::timings::Timings;
use crate::run::profile::PartProfile;

/// Estimated bytes of strings per row, with some spare, if `rows` rows have `bytes` bytes.
pub(super) fn row_text(bytes: u64, rows: u64) -> u64 {
    let each = bytes / rows.max(1);
    each + each / 8 + 1
}

/// The reason why a run ends early.
pub(super) enum Stop {
    /// Run again with these hints.
    Again(Box<Hints>),
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failed(failure)
    }
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Stop::Failed(error.into())
    }
}

pub(super) type Step<T = ()> = Result<T, Stop>;

/// A sink that is built in parts.
pub(super) struct Divided {
    pub(super) partition: Partition,
    pub(super) ranges: Vec<Range>,
    /// Number of leading ranges that pipelines have used; they are not split any more.
    pub(super) seen: usize,
    /// The part in memory.
    pub(super) held: Option<Range>,
    /// The part being built.
    pub(super) making: Option<Range>,
    /// Rows or groups of the parts built so far.
    pub(super) counts: Vec<(Range, u64)>,
    pub(super) profile: PartProfile,
}

/// A run with sinks in parts.
pub(super) struct Parts<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) places: &'r Places,
    pub(super) plan: &'r StreamPlan,
    pub(super) feed: Feed<'a>,
    /// Values of the names of kernel parameters, the bounds of parts included.
    pub(super) names: HashMap<String, u64>,
    pub(super) divided: HashMap<SinkId, Divided>,
    pub(super) structure: Structure<'a>,
    /// By pipeline: sinks whose key is a column of the pipeline's source, with that column.
    pub(super) keys: Vec<Vec<(SinkId, usize)>>,
    pub(super) timings: Timings<'a>,
    /// Pairs of kernel and row segment that have been read.
    pub(super) read: HashSet<(usize, usize)>,
    /// Number of rows in sinks that flush.
    pub(super) filled: HashMap<SinkId, u64>,
    /// Number of parts built.
    pub(super) made: u64,
    /// Bytes of segments read by kernels, repeated reads included.
    pub(super) passed: u64,
    /// Bytes of segments copied for repeated reads.
    pub(super) again: u64,
}
