//! One SUM per group over 1 billion rows of a 4-byte key and a 4-byte value.

use warpmill_gpu::device::kernel::{Kernel, ParamBytes};
use warpmill_gpu::device::{DevicePtr, Result};

use super::harness::{Bench, Buffer};
use super::report::{Measurement, Report, Target};
use crate::algorithm::sort::{Key, Options, RadixSort, Rows};
use crate::kernels;

const DATA: &str = include_str!("../../kernels/measure/data.cuh");
const GROUP_DATA: &str = include_str!("../../kernels/measure/group_by.cuh");

const ROWS: u64 = 1_000_000_000;
const SLOT_BYTES: u64 = 16;
const SEED: u64 = 21;
const FEW: u32 = 10;

struct Kernels {
    make: Kernel,
    expect: Kernel,
    check: Kernel,
    clear: Kernel,
    private: Kernel,
    dense: Kernel,
    hash: Kernel,
}

/// The members of `GroupData`.
#[derive(Clone, Copy)]
struct Groups {
    keys: DevicePtr,
    values: DevicePtr,
    out: DevicePtr,
    slots: DevicePtr,
    slot_count: u64,
    full: DevicePtr,
    n: u64,
    groups: u32,
    scatter: bool,
}

impl Groups {
    fn table(&self, params: ParamBytes) -> ParamBytes {
        params.u64(self.slots).u64(self.slot_count).u64(self.full)
    }

    fn params(&self) -> ParamBytes {
        let params = self.table(ParamBytes::new().u64(self.keys).u64(self.values).u64(self.out));
        params.u64(self.n).u64(SEED).u32(self.groups).u32(self.scatter.into())
    }
}

pub(super) fn run(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let text = [kernels::HASH, kernels::GROUP_BY, DATA, GROUP_DATA].concat();
    let private_shared = FEW * 256 * 8;
    let entries = [
        ("group_make", 256, 0),
        ("group_expect", 256, 0),
        ("group_check", 256, 0),
        ("group_clear", 256, 0),
        ("group_private", 256, private_shared),
        ("group_dense", 256, 0),
        ("group_hash_table", 256, 0),
    ];
    let [make, expect, check, clear, private, dense, hash] = kernels::compile(&bench.device, text, entries)?;
    let kernels = Kernels { make, expect, check, clear, private, dense, hash };
    let n = bench.rows(ROWS, 4);
    let (keys, values, flags) = (bench.buffer(4 * n)?, bench.buffer(4 * n)?, bench.buffer(16)?);
    let cases = [(FEW, 60.0), (bench.rows(1_000_000, 1) as u32, 15.0), (bench.rows(100_000_000, 1) as u32, 3.0)];
    for (i, (groups, target)) in cases.into_iter().enumerate() {
        let (out, expected) = (bench.buffer(8 * u64::from(groups))?, bench.buffer(8 * u64::from(groups))?);
        // Load factor 0.6; no table for few groups.
        let slot_count = if i == 0 { 0 } else { u64::from(groups) * 5 / 3 + 1 };
        let slots = bench.buffer(SLOT_BYTES * (slot_count + 1))?;
        let groups = Groups {
            keys: keys.ptr,
            values: values.ptr,
            out: out.ptr,
            slots: slots.ptr,
            slot_count,
            full: flags.ptr,
            n,
            groups,
            scatter: false,
        };
        let suite = Case { bench, kernels: &kernels, groups, expected: &expected, flags: &flags, target };
        if i == 0 {
            suite.direct(report, &out, &kernels.private, "private tables")?;
        } else {
            suite.direct(report, &out, &kernels.dense, "dense keys, atomics")?;
            suite.hashed(report)?;
        }
        if i == 2 {
            suite.partitioned(report)?;
        }
    }
    Ok(())
}

/// One number of groups.
struct Case<'a> {
    bench: &'a Bench,
    kernels: &'a Kernels,
    groups: Groups,
    expected: &'a Buffer,
    /// Whether a table was too small, and the number of wrong sums.
    flags: &'a Buffer,
    target: f64,
}

impl Case<'_> {
    fn make(&self, groups: &Groups) -> Result<()> {
        let bytes = 8 * u64::from(groups.groups);
        self.bench.prepare(&self.kernels.make, groups.n, groups.params())?;
        self.bench.fill(self.expected, 0, bytes)?;
        let expect = Groups { out: self.expected.ptr, ..*groups };
        self.bench.prepare(&self.kernels.expect, groups.n, expect.params())
    }

    /// Whether all sums are right: those at `sums`, or (0) those in the table.
    fn check(&self, groups: &Groups, sums: DevicePtr) -> Result<bool> {
        // SAFETY: the second word of the flags.
        unsafe { self.bench.device.fill(self.flags.ptr + 8, 0, 8, self.bench.stream)? };
        let params = groups.table(ParamBytes::new().u64(self.expected.ptr).u64(sums));
        let params = params.u64(self.flags.ptr + 8).u32(groups.groups).u32(groups.scatter.into());
        self.bench.prepare(&self.kernels.check, u64::from(groups.groups), params)?;
        let flags = self.bench.read(self.flags.ptr, 2)?;
        Ok(flags[1] == 0 && (sums != 0 || flags[0] as u32 == 0))
    }

    fn name(&self, how: &str) -> String {
        match self.groups.groups {
            g if g % 1_000_000 == 0 => format!("{}M groups, {how}", g / 1_000_000),
            g => format!("{g} groups, {how}"),
        }
    }

    /// Keys are group numbers.
    fn direct(&self, report: &mut Report, out: &Buffer, kernel: &Kernel, how: &str) -> Result<()> {
        let (groups, n) = (&self.groups, self.groups.n);
        self.make(groups)?;
        let clear = || self.bench.fill(out, 0, 8 * u64::from(groups.groups));
        let times = self.bench.measure_kernel(kernel, n.div_ceil(1024), clear, || groups.params())?;
        let verified = self.check(groups, out.ptr)?;
        let measurement = Measurement::new("groupby", self.name(how), n, 8 * n, times).kernel(kernel);
        report.add(measurement.verified(verified).target(Target::GigaItems(self.target)));
        Ok(())
    }

    fn clear(&self, groups: &Groups) -> Result<()> {
        self.bench.fill(self.flags, 0, 16)?;
        self.bench.prepare(&self.kernels.clear, groups.slot_count, groups.table(ParamBytes::new()))
    }

    /// Keys are scattered: a hash table.
    fn hashed(&self, report: &mut Report) -> Result<()> {
        let groups = Groups { scatter: true, ..self.groups };
        let (n, kernel) = (groups.n, &self.kernels.hash);
        self.make(&groups)?;
        let times = self.bench.measure_kernel(kernel, n.div_ceil(1024), || self.clear(&groups), || groups.params())?;
        let verified = self.check(&groups, 0)?;
        let measurement = Measurement::new("groupby", self.name("hash table"), n, 8 * n, times).kernel(kernel);
        report.add(measurement.verified(verified).target(Target::GigaItems(self.target)));
        Ok(())
    }

    /// Scattered keys, ordered by the highest bits of their hash first, so that each part of the table stays in the L2 cache.
    fn partitioned(&self, report: &mut Report) -> Result<()> {
        let groups = Groups { scatter: true, ..self.groups };
        let (bench, n) = (self.bench, groups.n);
        self.make(&groups)?;
        let sort = RadixSort::new(&bench.device, Options { hashed: true, ..Options::new(Key::U32, true, n) })?;
        let (keys, values) = (bench.buffer(4 * n)?, bench.buffer(4 * n)?);
        let state = bench.buffer(sort.state_bytes(n))?;
        let parted = Groups { keys: keys.ptr, values: values.ptr, ..groups };
        let blocks = self.kernels.hash.resident_blocks(n.div_ceil(1024))?;
        let from = Rows { keys: groups.keys, values: groups.values };
        let to = Rows { keys: keys.ptr, values: values.ptr };
        let times = bench.measure(
            || self.clear(&groups),
            // SAFETY: the buffers have the sizes that the partition requires and the kernel's parameters state.
            || unsafe {
                sort.partition(bench.stream, from, to, n, 24..32, state.ptr)?;
                self.kernels.hash.launch(blocks, parted.params(), bench.stream)
            },
        )?;
        let verified = self.check(&groups, 0)?;
        let name = self.name("hash table, 256 partitions");
        let measurement = Measurement::new("groupby", name, n, 4 * n + 3 * 8 * n, times).verified(verified);
        report.add(measurement.target(Target::GigaItems(self.target)));
        Ok(())
    }
}
