//! The state of a run.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use warpmill_eval::rows::RowSet;
use warpmill_ir::Program;

use super::claims::Claims;
use crate::compile::prepared::Prepared;
use crate::data::items::Resident;
use crate::memory::lane::Lane;
use crate::memory::mirrors::Mirrors;
use crate::memory::regions::Owner;
use crate::run::options::Options;
use crate::run::profile::DeviceProfile;
use crate::run::shared::Shared;
use crate::run::shuffle::Texts;

/// One run of a program.
pub(crate) struct Run<'a> {
    pub(super) shared: &'a Shared,
    pub(super) lane: &'a mut Lane,
    pub(super) program: &'a Arc<Program>,
    /// The program as it was asked for.
    pub(super) asked: &'a Arc<Program>,
    pub(super) prepared: &'a Arc<Prepared>,
    pub(super) resident: Arc<Resident>,
    pub(super) options: &'a Options,
    /// The memory that strings may point into, beside what `resident` has.
    pub(super) mirrors: Mirrors,
    /// The memory of other devices that strings of received rows point into.
    pub(super) texts: Vec<Arc<Texts>>,
    pub(super) profile: DeviceProfile,
    /// The place in the profile where each kernel is that was launched.
    pub(super) profiled: HashMap<usize, usize>,
    /// Rows that went to the host while others were still made.
    pub(super) flushed: Vec<Flushed>,
    pub(super) flushed_bytes: u64,
    /// Of a scan that other sites read, too.
    pub(super) claims: Claims,
    pub(super) started: Instant,
}

/// Rows of a result on the host.
pub(super) enum Flushed {
    /// Without strings: decoded.
    Decoded { result: usize, rows: RowSet },
    /// As they were on the device.
    Copied(Copied),
}

/// Rows of a result as they were on the device.
pub(super) struct Copied {
    /// The result of the plan.
    pub result: usize,
    pub rows: u64,
    pub bytes: Vec<u8>,
    /// The place in `bytes` where each array is.
    pub offsets: Vec<u64>,
    /// Their strings, which were made again after that.
    pub text: Mirrors,
}

impl Flushed {
    /// The owners of memory that its strings point into.
    pub(super) fn owners(self) -> Vec<Owner> {
        match self {
            Flushed::Decoded { .. } => vec![],
            Flushed::Copied(copied) => copied.text.owners,
        }
    }
}

/// A sink's state.
pub(super) struct SinkWords {
    pub(super) count: u64,
    pub(super) duplicate: bool,
    pub(super) overflow: bool,
    pub(super) input: u64,
    pub(super) taken: u64,
}
