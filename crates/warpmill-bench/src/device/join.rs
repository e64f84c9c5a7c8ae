//! Joins: 100 million unique build keys, 1 billion probes drawn evenly from them.

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{DevicePtr, Result};

use super::harness::{Bench, Buffer};
use super::report::{Measurement, Report, Target};
use crate::algorithm::sort::{Key, Options, RadixSort, Rows};
use crate::kernels;

const DATA: &str = include_str!("../../kernels/measure/data.cuh");
const JOIN_DATA: &str = include_str!("../../kernels/measure/join.cuh");

const BUILD: u64 = 100_000_000;
const PROBES: u64 = 1_000_000_000;
const BUCKET_BYTES: u64 = 32;
const SEED: u64 = 9;

struct Kernels {
    build: Kernel,
    make: Kernel,
    dense_build: Kernel,
    dense_make: Kernel,
    expect: Kernel,
    probes: [Kernel; 2],
    dense_probe: Kernel,
}

impl Kernels {
    fn compile(bench: &Bench) -> Result<Self> {
        let text = [kernels::HASH, kernels::BUCKET_TABLE, DATA, JOIN_DATA].concat();
        let names = [
            "join_build",
            "join_make",
            "dense_build",
            "dense_make",
            "join_expect",
            "join_probe_4",
            "join_probe_8",
            "dense_probe",
        ];
        let [build, make, dense_build, dense_make, expect, probe_4, probe_8, dense_probe] =
            kernels::compile(&bench.device, text, names.map(|name| (name, 256, 0)))?;
        Ok(Self { build, make, dense_build, dense_make, expect, probes: [probe_4, probe_8], dense_probe })
    }
}

/// The members of `JoinData`.
struct Join {
    keys: DevicePtr,
    buckets: DevicePtr,
    bucket_count: u64,
    no_key: DevicePtr,
    payloads: DevicePtr,
    n: u64,
    build: u64,
}

impl Join {
    fn params(&self, out: DevicePtr) -> ParamBytes {
        let table = ParamBytes::new().u64(self.keys).u64(self.buckets).u64(self.bucket_count).u64(self.no_key);
        table.u64(self.payloads).u64(out).u64(self.n).u64(self.build).u64(SEED)
    }
}

pub(super) fn run(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let kernels = Kernels::compile(bench)?;
    let sums = bench.buffer(32)?;
    hash(bench, report, &kernels, &sums)?;
    dense(bench, report, &kernels, &sums)
}

fn hash(bench: &Bench, report: &mut Report, kernels: &Kernels, sums: &Buffer) -> Result<()> {
    let (build, n) = (bench.rows(BUILD, 4), bench.rows(PROBES, 4));
    // 0.8 entries a bucket of two: a probe reads 1.06 sectors.
    let count = build * 5 / 4;
    let (buckets, no_key) = (bench.buffer(BUCKET_BYTES * count)?, bench.buffer(8)?);
    let keys = bench.buffer(8 * n)?;
    let join =
        Join { keys: keys.ptr, buckets: buckets.ptr, bucket_count: count, no_key: no_key.ptr, payloads: 0, n, build };
    let times = bench.measure_kernel(
        &kernels.build,
        build.div_ceil(256),
        || {
            bench.fill(&buckets, 0xFF, BUCKET_BYTES * count)?;
            bench.fill(&no_key, 0, 8)
        },
        || join.params(sums.ptr),
    )?;
    // A row's sector is read and written; whether the table is right shows in the probes.
    let built = Measurement::new("join", "build hash table, 8-byte keys", build, 2 * BUCKET_BYTES * build, times);
    bench.prepare(&kernels.make, n, join.params(sums.ptr))?;
    let mut right = true;
    let mut probes = vec![];
    for (kernel, group) in kernels.probes.iter().zip([4, 8]) {
        let zero = || bench.fill(sums, 0, 32);
        let times = bench.measure_kernel(kernel, n.div_ceil(256), zero, || join.params(sums.ptr))?;
        let verified = check(bench, kernels, &join, sums)?;
        right &= verified;
        let name = format!("probe hash table, {group} at a time");
        let measurement = Measurement::new("join", name, n, n * (8 + BUCKET_BYTES), times);
        probes.push(measurement.kernel(kernel).verified(verified).target(Target::GigaItems(15.0)));
    }
    report.add(built.kernel(&kernels.build).verified(right));
    probes.into_iter().for_each(|probe| report.add(probe));
    partitioned_hash(bench, report, kernels, &join, sums)
}

/// Probes ordered by the highest bits of their keys' hash, so that those that run together share a part of the table.
fn partitioned_hash(bench: &Bench, report: &mut Report, kernels: &Kernels, join: &Join, sums: &Buffer) -> Result<()> {
    let n = join.n;
    let sort = RadixSort::new(&bench.device, Options { hashed: true, ..Options::new(Key::U64, false, n) })?;
    let (parted, state) = (bench.buffer(8 * n)?, bench.buffer(sort.state_bytes(n))?);
    let kernel = &kernels.probes[0];
    let blocks = kernel.resident_blocks(n.div_ceil(256))?;
    let from = Rows { keys: join.keys, values: 0 };
    let to = Rows { keys: parted.ptr, values: 0 };
    let probe = Join { keys: parted.ptr, ..*join };
    let times = bench.measure(
        || bench.fill(sums, 0, 32),
        // SAFETY: the buffers have the sizes that the partition requires and the kernel's parameters state.
        || unsafe {
            sort.partition(bench.stream, from, to, n, 56..64, state.ptr)?;
            kernel.launch(blocks, probe.params(sums.ptr), bench.stream)
        },
    )?;
    let verified = check(bench, kernels, join, sums)?;
    let bytes = n * (8 + 8 + 8 + 8) + BUCKET_BYTES * join.bucket_count;
    let measurement = Measurement::new("join", "probe hash table, 256 partitions", n, bytes, times);
    report.add(measurement.verified(verified).target(Target::GigaItems(15.0)));
    Ok(())
}

fn dense(bench: &Bench, report: &mut Report, kernels: &Kernels, sums: &Buffer) -> Result<()> {
    let (build, n) = (bench.rows(BUILD, 4), bench.rows(PROBES, 4));
    let (payloads, keys) = (bench.buffer(4 * build)?, bench.buffer(4 * n)?);
    let join = Join { keys: keys.ptr, buckets: 0, bucket_count: 0, no_key: 0, payloads: payloads.ptr, n, build };
    bench.prepare(&kernels.dense_build, build, join.params(sums.ptr))?;
    bench.prepare(&kernels.dense_make, n, join.params(sums.ptr))?;
    let kernel = &kernels.dense_probe;
    let zero = || bench.fill(sums, 0, 32);
    let times = bench.measure_kernel(kernel, n.div_ceil(1024), zero, || join.params(sums.ptr))?;
    let verified = check(bench, kernels, &join, sums)?;
    let measurement = Measurement::new("join", "probe direct-address table, 4-byte keys", n, n * (4 + 32), times);
    report.add(measurement.kernel(kernel).verified(verified).target(Target::GigaItems(50.0)));

    let sort = RadixSort::new(&bench.device, Options::new(Key::U32, false, n))?;
    let (parted, state) = (bench.buffer(4 * n)?, bench.buffer(sort.state_bytes(n))?);
    let blocks = kernel.resident_blocks(n.div_ceil(1024))?;
    let (from, to) = (Rows { keys: keys.ptr, values: 0 }, Rows { keys: parted.ptr, values: 0 });
    let probe = Join { keys: parted.ptr, ..join };
    let key_bits = 64 - (build - 1).leading_zeros();
    let times = bench.measure(
        || bench.fill(sums, 0, 32),
        // SAFETY: the buffers have the sizes that the partition requires and the kernel's parameters state.
        || unsafe {
            sort.partition(bench.stream, from, to, n, key_bits.saturating_sub(8)..key_bits.max(1), state.ptr)?;
            kernel.launch(blocks, probe.params(sums.ptr), bench.stream)
        },
    )?;
    let verified = check(bench, kernels, &join, sums)?;
    let bytes = n * (4 + 4 + 4 + 4) + 4 * build;
    let measurement = Measurement::new("join", "probe direct-address table, 256 partitions", n, bytes, times);
    report.add(measurement.verified(verified).target(Target::GigaItems(50.0)));
    Ok(())
}

/// Whether the last probe's sums match the distribution of the keys.
fn check(bench: &Bench, kernels: &Kernels, join: &Join, sums: &Buffer) -> Result<bool> {
    bench.prepare(&kernels.expect, join.n, join.params(sums.ptr + 16))?;
    let sums = bench.read(sums.ptr, 4)?;
    Ok(sums[..2] == sums[2..])
}
