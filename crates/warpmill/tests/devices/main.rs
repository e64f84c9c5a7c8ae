//! Device tests beyond SQL files and benchmarks: every operator on every type, and limited memory. Separate from `suite`, whose kernels are also
//! compiled for GPUs.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs them on a GPU instead of the simulated device.

mod matrix;
mod memory;
#[path = "../suite/quick.rs"]
mod quick;
#[path = "../suite/support.rs"]
mod support;

use warpmill::QueryProfile;

/// A device that also builds shared kernels anew each time, and compares them.
fn device() -> String {
    warpmill_engine::warpmill_gpu::compile::shapes::verify();
    std::env::var("WARPMILL_TEST_DEVICE").unwrap_or_else(|_| "sim".into())
}

/// The factor for rows and memory of tests whose sizes are chosen for the simulated device: kernels of a GPU need memory per multiprocessor.
fn size_factor() -> u64 {
    if device() == "sim" { 1 } else { 16 }
}

/// The reason why programs did not run on the device.
fn reasons(profile: &QueryProfile) -> Vec<String> {
    profile.programs.iter().filter_map(|program| program.not_on_device.clone()).collect()
}
