//! The state of a run with sinks that are made in parts.

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

/// Bytes of strings to make room for in each row, where those of `rows` rows take `bytes`.
pub(super) fn row_text(bytes: u64, rows: u64) -> u64 {
    let each = bytes / rows.max(1);
    each + each / 8 + 1
}

/// The reason why a run ends before its end.
pub(super) enum Stop {
    /// Another one, with what was learnt, may get further.
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

/// A sink that is made in parts.
pub(super) struct Divided {
    pub(super) partition: Partition,
    pub(super) ranges: Vec<Range>,
    /// The number of first ranges that somebody has seen: they stay as they are.
    pub(super) seen: usize,
    /// The part that there is.
    pub(super) held: Option<Range>,
    /// The part that is being made.
    pub(super) making: Option<Range>,
    /// Rows or groups of parts that were there.
    pub(super) counts: Vec<(Range, u64)>,
    pub(super) profile: PartProfile,
}

/// A run with sinks in parts.
pub(super) struct Parts<'r, 'a> {
    pub(super) run: &'r mut Run<'a>,
    pub(super) places: &'r Places,
    pub(super) plan: &'r StreamPlan,
    pub(super) feed: Feed<'a>,
    /// The names that kernels give addresses and counts, and the bounds of parts.
    pub(super) names: HashMap<String, u64>,
    pub(super) divided: HashMap<SinkId, Divided>,
    pub(super) structure: Structure<'a>,
    /// By pipeline: the sinks whose parts may be told apart by a column of its source, and which.
    pub(super) keys: Vec<Vec<(SinkId, usize)>>,
    pub(super) timings: Timings<'a>,
    /// The row segments that each kernel has read.
    pub(super) read: HashSet<(usize, usize)>,
    /// Rows in sinks that are flushed.
    pub(super) filled: HashMap<SinkId, u64>,
    /// Parts that were made.
    pub(super) made: u64,
    /// Bytes of segments that kernels were run over.
    pub(super) passed: u64,
    /// Bytes of segments that were read again.
    pub(super) again: u64,
}
