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
    /// The program that was requested; `program` may defer its sorts.
    pub(super) asked: &'a Arc<Program>,
    pub(super) prepared: &'a Arc<Prepared>,
    pub(super) resident: Arc<Resident>,
    pub(super) options: &'a Options,
    /// Host originals of strings, besides those of `resident`.
    pub(super) mirrors: Mirrors,
    /// Memory of other devices that strings of received rows point into.
    pub(super) texts: Vec<Arc<Texts>>,
    pub(super) profile: DeviceProfile,
    /// The index in the profile of each launched kernel.
    pub(super) profiled: HashMap<usize, usize>,
    /// Rows that were flushed to the host while others were still made.
    pub(super) flushed: Vec<Flushed>,
    pub(super) flushed_bytes: u64,
    /// Claims of a shared scan.
    pub(super) claims: Claims,
    pub(super) started: Instant,
}

/// Flushed rows of a result.
pub(super) enum Flushed {
    /// Rows without strings, decoded.
    Decoded { result: usize, rows: RowSet },
    /// Rows with strings, in the device's format.
    Copied(Copied),
}

/// Rows of a result in the device's format.
pub(super) struct Copied {
    /// The result's index in the plan.
    pub result: usize,
    pub rows: u64,
    pub bytes: Vec<u8>,
    /// Offset of each array in `bytes`.
    pub offsets: Vec<u64>,
    /// Their strings, as the device reuses the memory.
    pub text: Mirrors,
}

impl Flushed {
    /// Owners of the memory that strings point into.
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
