//! Every suite on the simulated device, small.

use std::sync::Arc;

use warpmill_gpu::device::Device;
use warpmill_gpu::device::sim::{SimDevice, SimOptions};

use super::Suite;
use super::harness::Options;
use super::report::Report;

fn check(suite: Suite, scale: f64) {
    let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
    let sim = SimDevice::new(SimOptions { sanitize, ..SimOptions::default() }).expect("a C++ compiler");
    let device: Arc<dyn Device> = Arc::new(sim);
    let mut report = Report::default();
    let options = Options { scale, runs: 1, tune: false };
    super::run(&device, suite, &options, &mut report).unwrap();
    assert!(!report.measurements.is_empty());
    assert!(report.all_verified(), "{report}");
}

#[test]
fn decoders_give_back_what_was_packed() {
    check(Suite::Decode, 9.0 * 1024.0 / 250e6 + 1e-9);
}

#[test]
fn joins_find_every_key() {
    check(Suite::Join, 2e-5);
}

#[test]
fn groups_have_their_sums() {
    check(Suite::GroupBy, 3e-5);
}

#[test]
fn sorts_are_stable_and_complete() {
    check(Suite::Sort, 3e-5);
}

#[test]
fn searches_agree_with_a_naive_one() {
    check(Suite::Like, 1e-4);
}
