//! The reasons why queries fail while they run.

use std::path::PathBuf;

use warpmill_format::FormatError;

/// The reason why a query failed while it ran.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The query would need more memory than its limit.
    #[error(
        "out of memory: {operator} needs {requested} more bytes, {used} of {limit} in use (raise warpmill.memory_limit)"
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    OutOfMemory { operator: &'static str, requested: usize, used: usize, limit: usize },
    /// A temporary file failed.
    #[error(
        "cannot {action} {}, a temporary file for what exceeds warpmill.memory_limit: {reason} (see warpmill.temp_directory; warpmill.spill = off uses none)",
        path.display()
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    Spill { action: &'static str, path: PathBuf, reason: String },
    /// The query would need more room on disk than its limit.
    #[error(
        "temporary files are full: {} needs {requested} more bytes, {used} of {limit} in use (raise warpmill.temp_directory_limit or warpmill.memory_limit)",
        path.display()
    )]
    #[allow(missing_docs, reason = "fields are named in the message")]
    SpillLimit { path: PathBuf, requested: u64, used: u64, limit: u64 },
    /// The query was cancelled.
    #[error("query cancelled")]
    Cancelled,
    /// Overflow, division by zero, an impossible cast: the SQL-level error text.
    #[error("{0}")]
    Value(String),
    /// A segment could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// More rows reached an aggregation than its 64-bit sums are proven for. The program has to be translated again with
    /// 128-bit sums (`warpmill_translate::Options::wide_sums`); nothing overflowed.
    #[error("more than the expected {safe} rows reached sums of 64 bits")]
    NeedsWideSums {
        /// Number of rows up to which the sums cannot overflow.
        safe: u64,
    },
    /// Only devices run group functions as part of a program, and none does now. The plan has to be placed again without them
    /// (`warpmill_translate::Options::group_functions`): the host calls them.
    #[error("no device runs functions of groups")]
    NeedsHost {
        /// Whether a device has tried and would fail again, for example because a function has given up on a group.
        given_up: bool,
    },
    /// An input from outside failed.
    #[error("{0}")]
    Input(String),
    /// The program needs a feature that this back end lacks. The planner should have fallen back.
    #[error("not supported by the CPU back end: {0}")]
    Unsupported(String),
}

/// The result of running anything.
pub type Result<T, E = ExecError> = std::result::Result<T, E>;
