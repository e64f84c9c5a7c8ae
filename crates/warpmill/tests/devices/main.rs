//! The duties of a device, beyond SQL files and benchmarks: every operator on every type, and little memory. Apart from `suite`, whose
//! kernels are also compiled for GPUs.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs them on a GPU instead of the simulated device.

mod matrix;
mod memory;
#[path = "../suite/quick.rs"]
mod quick;
#[path = "../suite/support.rs"]
mod support;

use warpmill::QueryProfile;

/// What statements share of kernels is made anew each time, too, and compared.
fn device() -> String {
    warpmill_engine::warpmill_gpu::compile::shapes::verify();
    std::env::var("WARPMILL_TEST_DEVICE").unwrap_or_else(|_| "sim".into())
}

/// By how much more rows and memory a test takes whose sizes are those of the simulated device: kernels take room for every multiprocessor.
fn size_factor() -> u64 {
    if device() == "sim" { 1 } else { 16 }
}

/// The reason why programs did not run on the device.
fn reasons(profile: &QueryProfile) -> Vec<String> {
    profile.programs.iter().filter_map(|program| program.not_on_device.clone()).collect()
}
