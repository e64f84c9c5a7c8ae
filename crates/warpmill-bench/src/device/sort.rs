//! Radix sort of 32- and 64-bit keys, with and without a payload, and prefix sums.

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{DevicePtr, Result};

use super::harness::Bench;
use super::report::{Measurement, Report, Target};
use crate::algorithm::prefix_sum::PrefixSum;
use crate::algorithm::sort::{Geometry, Key, Options, RadixSort, Rows};
use crate::kernels;

const DATA: &str = include_str!("../../kernels/measure/data.cuh");
const SORT_DATA: &str = include_str!("../../kernels/measure/sort.cuh");

/// Shapes that `tune` tries.
const SHAPES: [(u32, u32); 8] =
    [(256, 12), (256, 16), (256, 20), (384, 12), (384, 16), (384, 20), (384, 22), (512, 16)];

/// The kernels that make and check the rows of one key type.
struct Data {
    make: Kernel,
    check: Kernel,
    expect: Kernel,
}

/// The rows to sort.
struct Case {
    key: Key,
    values: bool,
    rows: u64,
    /// Keys are draws and this.
    mask: u64,
    target: Option<Target>,
}

pub(super) fn run(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let text = [DATA, SORT_DATA].concat();
    let names = ["make_u32", "check_u32", "expect_u32", "make_u64", "check_u64", "expect_u64"];
    let [m4, c4, e4, m8, c8, e8] = kernels::compile(&bench.device, text, names.map(|name| (name, 256, 0)))?;
    let data = [Data { make: m4, check: c4, expect: e4 }, Data { make: m8, check: c8, expect: e8 }];
    let case = |key, values, rows, mask, target| Case { key, values, rows: bench.rows(rows, 1), mask, target };
    let cases = [
        case(Key::U32, false, 1_000_000_000, u64::MAX, Some(Target::GigaItems(25.0))),
        case(Key::U32, true, 500_000_000, u64::MAX, None),
        case(Key::U64, false, 1_000_000_000, u64::MAX, Some(Target::GigaItems(8.0))),
        case(Key::U64, true, 500_000_000, u64::MAX, None),
        // Few distinct keys: counters that many lanes hit at once.
        case(Key::U32, true, 500_000_000, 0x0001_0003, None),
    ];
    for case in &cases {
        let data = &data[usize::from(case.key == Key::U64)];
        measure(bench, report, case, data, Geometry::default_for(case.key, case.values), "")?;
        if bench.options.tune && case.mask == u64::MAX {
            for (threads, items) in SHAPES {
                let name = format!(" {threads}x{items}");
                measure(bench, report, case, data, Geometry { threads, items }, &name)?;
            }
        }
    }
    prefix_sums(bench, report, &data[0])
}

fn measure(
    bench: &Bench,
    report: &mut Report,
    case: &Case,
    data: &Data,
    geometry: Geometry,
    suffix: &str,
) -> Result<()> {
    let (n, bytes) = (case.rows, case.key.bytes());
    let sort = RadixSort::new(&bench.device, Options { geometry, ..Options::new(case.key, case.values, n) })?;
    let keys = bench.buffer(n * bytes)?;
    let values = bench.buffer(if case.values { 4 * n } else { 0 })?;
    let scratch = bench.buffer(sort.scratch_bytes(n))?;
    let sums = bench.buffer(32)?;
    let rows = Rows { keys: keys.ptr, values: values.ptr };
    let params = |out: DevicePtr| {
        let values = if case.values { values.ptr } else { 0 };
        ParamBytes::new().u64(keys.ptr).u64(values).u64(out).u64(n).u64(case.mask).u64(1)
    };
    let bits = 0..8 * bytes as u32;
    let times = bench.measure(
        || bench.prepare(&data.make, n, params(sums.ptr)),
        // SAFETY: the buffers have the sizes that the sort requires.
        || unsafe { sort.sort(bench.stream, rows, n, bits.clone(), scratch.ptr) },
    )?;
    bench.fill(&sums, 0, 32)?;
    bench.prepare(&data.check, n, params(sums.ptr))?;
    bench.prepare(&data.expect, n, params(sums.ptr + 16))?;
    let sums = bench.read(sums.ptr, 4)?;
    let verified = sums[0] == 0 && sums[1] == sums[3];
    // Keys are read once to count, then rows are read and written once per place.
    let moved = n * bytes + bytes * 2 * n * (bytes + if case.values { 4 } else { 0 });
    let key = if case.key == Key::U32 { "u32" } else { "u64" };
    let name = format!(
        "{key}{}{}{suffix}",
        if case.values { " + u32" } else { "" },
        if case.mask == u64::MAX { "" } else { ", 8 distinct keys" }
    );
    let mut measurement = Measurement::new("sort", name, n, moved, times).verified(verified);
    (measurement.registers, measurement.local) = sort.resources();
    report.add(match case.target {
        Some(target) if suffix.is_empty() => measurement.target(target),
        _ => measurement,
    });
    Ok(())
}

/// Prefix sums of random items; the last row's sum and the total are compared with the reference.
fn prefix_sums(bench: &Bench, report: &mut Report, data: &Data) -> Result<()> {
    let n = bench.rows(500_000_000, 1);
    let prefix = PrefixSum::new(&bench.device)?;
    let text = [DATA, include_str!("../../kernels/measure/prefix_sum.cuh")].concat();
    let [check, sum_words] = kernels::compile(&bench.device, text, [("check_sums", 256, 0), ("sum_words", 256, 0)])?;
    let (items, out) = (bench.buffer(4 * n)?, bench.buffer(8 * (n + 1))?);
    let (scratch, sums) = (bench.buffer(prefix.scratch_bytes(n))?, bench.buffer(32)?);
    let make = ParamBytes::new().u64(items.ptr).u64(0).u64(0).u64(n).u64(0xFFFF).u64(3);
    bench.prepare(&data.make, n, make)?;
    let times = bench.measure(
        || Ok(()),
        // SAFETY: the buffers have the sizes that the algorithm requires.
        || unsafe { prefix.run(bench.stream, items.ptr, out.ptr, n, scratch.ptr) },
    )?;
    bench.fill(&sums, 0, 32)?;
    bench.prepare(&check, n, ParamBytes::new().u64(items.ptr).u64(out.ptr).u64(sums.ptr).u64(n))?;
    bench.prepare(&sum_words, n, ParamBytes::new().u64(items.ptr).u64(sums.ptr + 8).u64(n))?;
    let total = bench.read(out.ptr + 8 * n, 1)?[0];
    let sums = bench.read(sums.ptr, 2)?;
    let measurement = Measurement::new("sort", "prefix sum u32 to u64", n, 12 * n, times);
    report.add(measurement.verified(sums[0] == 0 && sums[1] == total));
    Ok(())
}
