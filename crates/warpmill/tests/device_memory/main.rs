//! Queries of many threads at once on one simulated device with little memory, and data that passes through it.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs them on a GPU instead.

mod concurrent;
mod parts;
mod paths;
mod streamed;
#[path = "../support/mod.rs"]
mod support;

use warpmill::QueryProfile;

fn device() -> String {
    std::env::var("WARPMILL_TEST_DEVICE").unwrap_or_else(|_| "sim".to_string())
}

fn reasons(profile: &QueryProfile) -> Vec<String> {
    profile.programs.iter().filter_map(|program| program.not_on_device.clone()).collect()
}
