//! The supported version of nvCOMP, and whether it is disabled.

use std::path::PathBuf;

/// The supported major version.
pub const MAJOR: u32 = 6;

/// Version and location of the process's nvCOMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvcompVersion {
    /// `6.0.0`.
    pub version: String,
    /// Its file, if known.
    pub path: Option<PathBuf>,
    /// The CUDA release that it was built with: `13.4`.
    pub cuda: String,
}

/// Whether `WARPMILL_NVCOMP` disables it.
pub fn is_off() -> bool {
    std::env::var_os("WARPMILL_NVCOMP").is_some_and(|value| value == "off")
}
