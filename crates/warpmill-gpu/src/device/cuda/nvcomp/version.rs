//! The version of nvCOMP that is used, and whether it is.

use std::path::PathBuf;

/// The major version whose interface this is.
pub const MAJOR: u32 = 6;

/// The facts about the process's nvCOMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvcompVersion {
    /// `6.0.0`.
    pub version: String,
    /// Its file, where it can be told.
    pub path: Option<PathBuf>,
    /// The release of CUDA that it was built with: `13.4`.
    pub cuda: String,
}

/// Whether somebody wants it not to be used.
pub fn is_off() -> bool {
    std::env::var_os("WARPMILL_NVCOMP").is_some_and(|value| value == "off")
}
