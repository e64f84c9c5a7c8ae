//! Functions translated from the host's language to C++ texts, generic over the team of threads that processes a group of rows, for the host and for
//! devices.
//!
//! A translation is `namespace udf { ... }` with `run<P>(const Launch&, i64 group)`; this module adds the text before and after it.

use super::library::Library;
use crate::device::KernelSource;

/// Values, with failures where Python would raise an exception. Needs [`Library::Arith`].
const VALUE: &str = include_str!("../../kernels/udf/value.cuh");
/// Columns, and reductions of them. Needs [`VALUE`].
const ROWS: &str = include_str!("../../kernels/udf/rows.cuh");
/// Keywords and types for the host.
const HOST: &str = include_str!("../../kernels/udf/host.h");

/// Entry points of a text on devices: a thread, a warp, or a block per group.
pub const ENTRIES: [&str; 3] = ["udf_thread", "udf_warp", "udf_block"];

/// The function defined by [`on_host`]: `void warpmill_udf(const Launch*, i64 first, i64 last)`.
pub const HOST_ENTRY: &str = "warpmill_udf";

/// Whether a translation has loops, which run sequentially.
pub fn has_loop(translation: &str) -> bool {
    translation.contains("goes_on()")
}

/// Whether a translation has reductions, which the threads of a group share.
pub fn has_reduction(translation: &str) -> bool {
    const REDUCTIONS: [&str; 9] =
        ["template ", "sum_", "product_f64(", "mean(", "var(", "std(", "count(", "any(", "every("];
    REDUCTIONS.iter().any(|reduction| translation.contains(&format!("g.{reduction}")))
}

/// The text for the host, with one thread per group.
pub fn on_host(translation: &str) -> String {
    format!(
        "{HOST}\n{}\n{VALUE}\n{ROWS}\n{translation}\n\
         extern \"C\" __attribute__((visibility(\"default\"))) void {HOST_ENTRY}(const udf::Launch* k, i64 first, i64 last) {{\n\
         \x20   for (i64 group = first; group < last; group++) udf::run<udf::OneThread>(*k, group);\n}}\n",
        Library::Arith.text()
    )
}

/// The text for devices, with an entry point for each size of team.
pub fn on_device(translation: &str) -> KernelSource {
    let text = format!(
        "{}\n{VALUE}\n{ROWS}\n{translation}\n\
         extern \"C\" __global__ void udf_thread(udf::Launch k) {{\n\
         \x20   const i64 group = (i64)blockIdx.x * blockDim.x + threadIdx.x;\n\
         \x20   if (group < k.groups) udf::run<udf::OneThread>(k, group);\n}}\n\
         extern \"C\" __global__ void udf_warp(udf::Launch k) {{\n\
         \x20   const i64 group = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;\n\
         \x20   if (group < k.groups) udf::run<udf::OneWarp>(k, group);\n}}\n\
         extern \"C\" __global__ void udf_block(udf::Launch k) {{\n\
         \x20   if (blockIdx.x < k.groups) udf::run<udf::OneBlock>(k, blockIdx.x);\n}}\n",
        Library::Arith.text()
    );
    KernelSource { text, entries: ENTRIES.map(String::from).to_vec() }
}
