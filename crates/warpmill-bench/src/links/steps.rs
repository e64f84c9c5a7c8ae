//! The steps of the benchmark.

use std::time::Instant;

use warpmill_gpu::device::exchange::Exchange;
use warpmill_gpu::device::group::{DeviceGroup, Link};
use warpmill_gpu::device::kernel::ParamBytes;
use warpmill_gpu::device::{DeviceError, DeviceKind, DevicePtr, Stream};

use super::nccl::{Nccl, NcclError, Ranks};
use super::report::{Figure, LinkReport};
use super::rig::{Rig, Times};
use super::{LinkOptions, pairs};

type Outcome = Result<(Times, bool), Box<dyn std::error::Error>>;

/// How data are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Engine,
    Read,
    Write,
}

impl Means {
    const ALL: [Self; 3] = [Self::Engine, Self::Read, Self::Write];

    fn name(self) -> &'static str {
        match self {
            Self::Engine => "copy engine, pull",
            Self::Read => "kernel reads peer",
            Self::Write => "kernel writes peer",
        }
    }

    /// The device whose stream executes the work.
    fn worker(self, (source, destination): (usize, usize)) -> usize {
        if self == Self::Write { source } else { destination }
    }
}

/// Runs all steps. Returns whether the time was sufficient.
pub(super) fn run(rig: &Rig, options: &LinkOptions, report: &mut LinkReport) -> bool {
    let in_time = || options.until.is_none_or(|until| Instant::now() < until);
    // Exchanges first: they matter most for queries.
    for devices in [2, rig.members.len()].into_iter().filter(|&n| n <= rig.members.len()).take(rig.members.len() - 1) {
        if !in_time() {
            return false;
        }
        exchanges(rig, devices, options, report, &in_time);
    }
    for pair in pairs(rig.members.len()) {
        for means in Means::ALL {
            for &bytes in &options.copies {
                for both in [false, true] {
                    if !in_time() {
                        return false;
                    }
                    // A pair in both directions is measured once.
                    if !both || pair.0 < pair.1 {
                        copy_step(rig, pair, means, bytes, both, report);
                    }
                }
            }
        }
        if !in_time() {
            return false;
        }
        read_step(rig, pair, options, report);
    }
    // Last, because nothing can be said of its time where it hangs.
    nccl_steps(rig, options, report, &in_time);
    in_time()
}

/// Adds a step to the report. `gb_per_s` is computed from `moved`.
fn add(report: &mut LinkReport, figure: Figure, moved: u64, outcome: Outcome) {
    let figure = match outcome {
        Ok((times, verified)) => Figure {
            runs: times.runs,
            median_us: times.median_us,
            min_us: times.min_us,
            gb_per_s: moved as f64 / times.median_us.max(1e-3) / 1e3,
            verified: Some(verified),
            ..figure
        },
        Err(error) => Figure { error: Some(error.to_string()), ..figure },
    };
    report.add(figure);
}

/// The error of kernels that have no access to the memory of `of`.
fn access(rig: &Rig, means: Means, (source, destination): (usize, usize)) -> Result<(), String> {
    let link = match means {
        Means::Write => rig.group.link(destination, source),
        Means::Engine | Means::Read => rig.group.link(source, destination),
    };
    match link {
        Link::Own | Link::Direct => Ok(()),
        Link::Staged(reason) => Err(format!("no access: {reason}")),
    }
}

fn queue_copy(rig: &Rig, means: Means, (source, destination): (usize, usize), bytes: u64) -> Result<(), DeviceError> {
    let (from, to) = (&rig.members[source], &rig.members[destination]);
    let params = ParamBytes::new().u64(to.receive).u64(from.send).u64(bytes / 16);
    match means {
        // SAFETY: the members' buffers, which have the largest size and outlive the streams' work.
        Means::Engine => unsafe { to.device.copy_from_peer(to.receive, (&*from.device, from.send), bytes, to.stream) },
        Means::Read => to.launch(&to.copy, bytes / 16, params),
        Means::Write => from.launch(&from.copy, bytes / 16, params),
    }
}

fn copy_step(rig: &Rig, pair: (usize, usize), means: Means, bytes: u64, both: bool, report: &mut LinkReport) {
    let ways = if both { vec![pair, (pair.1, pair.0)] } else { vec![pair] };
    let figure = Figure {
        what: "copy",
        by: means.name(),
        devices: vec![pair.0, pair.1],
        bytes,
        directions: ways.len() as u32,
        clock: if both { "host" } else { "events" },
        ..Figure::default()
    };
    let measure = || -> Outcome {
        for &(source, destination) in &ways {
            access(rig, means, (source, destination))?;
            rig.members[destination].clear(bytes)?;
        }
        let work = || ways.iter().try_for_each(|&way| queue_copy(rig, means, way, bytes));
        let times = match both {
            true => rig.by_host(&[pair.0, pair.1], work)?,
            false => rig.by_events(means.worker(pair), work)?,
        };
        let mut right = true;
        for &(source, destination) in &ways {
            let to = &rig.members[destination];
            right &= to.holds(to.receive, bytes, source..source + 1, 0)?;
        }
        Ok((times, right))
    };
    let outcome = measure();
    // Work of a failed step must not overlap the next one's.
    let _ = rig.settle(&[pair.0, pair.1]);
    add(report, figure, bytes, outcome);
}

/// Device `pair.1` reads at random places of the memory of `pair.0`.
fn read_step(rig: &Rig, pair: (usize, usize), options: &LinkOptions, report: &mut LinkReport) {
    let (units, reads) = (options.table / 32, options.reads / 32);
    let figure = Figure {
        what: "random reads",
        by: "32 bytes of a peer",
        devices: vec![pair.0, pair.1],
        bytes: options.reads,
        directions: 1,
        clock: "events",
        ..Figure::default()
    };
    let (from, to) = (&rig.members[pair.0], &rig.members[pair.1]);
    let measure = || -> Outcome {
        access(rig, Means::Read, pair)?;
        let times = rig.by_events(pair.1, || to.read_randomly(from.send, units, reads))?;
        let found = to.tallied(|| to.read_randomly(from.send, units, reads))?;
        Ok((times, found == to.expected_reads(pair.0, units, reads)?))
    };
    let outcome = measure();
    let rate = outcome.as_ref().ok().map(|(times, _)| reads as f64 / times.median_us.max(1e-3));
    add(report, Figure { million_per_s: rate, ..figure }, options.reads, outcome);
}

/// The bytes that each of `devices` sends to each, for `total` bytes per device: evenly, or fewer the higher the number.
pub(super) fn counts(devices: usize, total: u64, skewed: bool) -> Vec<Vec<u64>> {
    let weight = |to: usize| if skewed { 1.0 / (1 + to) as f64 } else { 1.0 };
    let all: f64 = (0..devices).map(weight).sum();
    let part = |to: usize| (total as f64 * weight(to) / all) as u64 / 16 * 16;
    vec![(0..devices).map(part).collect(); devices]
}

/// The largest number of bytes that a device sends or receives.
fn busiest(bytes: &[Vec<u64>]) -> u64 {
    let others = |device: usize| (0..bytes.len()).filter(move |&other| other != device);
    let sent = |device: usize| others(device).map(|other| bytes[device][other]).sum::<u64>();
    let received = |device: usize| others(device).map(|other| bytes[other][device]).sum::<u64>();
    (0..bytes.len()).map(|device| sent(device).max(received(device))).max().unwrap_or(0)
}

/// The first `devices` members' addresses and streams.
fn ends(rig: &Rig, devices: usize) -> (Vec<DevicePtr>, Vec<DevicePtr>, Vec<Stream>) {
    let members = &rig.members[..devices];
    let of = |get: fn(&super::rig::Member) -> u64| members.iter().map(get).collect::<Vec<u64>>();
    (of(|it| it.send), of(|it| it.receive), members.iter().map(|it| it.stream).collect())
}

/// Measures an exchange that `work` queues, and checks the received data.
fn exchange_step(rig: &Rig, bytes: &[Vec<u64>], work: impl Fn() -> Result<(), DeviceError>) -> Outcome {
    let among: Vec<usize> = (0..bytes.len()).collect();
    for &to in &among {
        rig.members[to].clear(bytes.iter().map(|row| row[to]).sum())?;
    }
    let times = rig.by_host(&among, work)?;
    let mut right = true;
    for &to in &among {
        let mut at = rig.members[to].receive;
        for (source, row) in bytes.iter().enumerate() {
            right &= rig.members[to].holds(at, row[to], source..source + 1, row[..to].iter().sum())?;
            at += row[to];
        }
    }
    Ok((times, right))
}

fn exchange_figure(by: &'static str, devices: usize, bytes: u64) -> Figure {
    let devices = (0..devices).collect();
    Figure { what: "all to all", by, devices, bytes, directions: 2, clock: "host", ..Figure::default() }
}

fn exchanges(rig: &Rig, devices: usize, options: &LinkOptions, report: &mut LinkReport, in_time: &impl Fn() -> bool) {
    let first: Vec<_> = rig.members[..devices].iter().map(|member| member.device.clone()).collect();
    let group = DeviceGroup::new(first);
    let (send, receive, streams) = ends(rig, devices);
    for (skewed, by) in [(false, "exchange, even"), (true, "exchange, 1/(1+i)")] {
        for &total in options.exchanges.iter().take_while(|_| in_time()) {
            let bytes = counts(devices, total, skewed);
            // SAFETY: the members' buffers have room for the largest exchange, and outlive the streams' work.
            let work = || unsafe { group.all_to_all(&bytes, (&send, &receive), &streams) };
            let outcome = exchange_step(rig, &bytes, work);
            let _ = rig.settle(&(0..devices).collect::<Vec<_>>());
            add(report, exchange_figure(by, devices, total), busiest(&bytes), outcome);
        }
    }
}

/// Converts NCCL's errors to device errors.
fn of_nccl(error: NcclError) -> DeviceError {
    DeviceError::Call { call: "NCCL", detail: error.to_string() }
}

fn nccl_steps(rig: &Rig, options: &LinkOptions, report: &mut LinkReport, in_time: &impl Fn() -> bool) {
    let devices = rig.members.len();
    let kind = rig.members[0].device.properties().kind;
    let nccl = match kind {
        DeviceKind::Sim => Err("simulated devices have no NCCL".to_owned()),
        DeviceKind::Cuda if report.logical => Err("NCCL refuses several ranks on one GPU".to_owned()),
        DeviceKind::Cuda => Nccl::find(options.nccl.as_deref()).map_err(|error| error.to_string()),
    };
    let nccl = nccl.and_then(|nccl| nccl.version().map(|version| (nccl, version)).map_err(|error| error.to_string()));
    let nccl = match nccl {
        Ok((nccl, version)) => {
            report.nccl = version.to_string();
            nccl
        }
        Err(reason) => {
            println!("NCCL: {reason}");
            report.nccl = reason;
            return;
        }
    };
    let sizes = if devices > 2 { vec![2, devices] } else { vec![devices] };
    for devices in sizes {
        let ordinals: Vec<usize> =
            rig.members[..devices].iter().map(|member| member.device.properties().ordinal).collect();
        match nccl.join(&ordinals) {
            Ok(ranks) => with_ranks(rig, devices, &ranks, options, report, in_time),
            Err(error) => {
                let figure = exchange_figure("NCCL", devices, 0);
                add(report, figure, 0, Err(error.into()));
            }
        }
    }
}

fn with_ranks(
    rig: &Rig,
    devices: usize,
    ranks: &Ranks<'_>,
    options: &LinkOptions,
    report: &mut LinkReport,
    in_time: &impl Fn() -> bool,
) {
    let (send, receive, streams) = ends(rig, devices);
    let among: Vec<usize> = (0..devices).collect();
    for (skewed, by) in [(false, "NCCL, even"), (true, "NCCL, 1/(1+i)")] {
        for &total in options.exchanges.iter().take_while(|_| in_time()) {
            let bytes = counts(devices, total, skewed);
            // SAFETY: as for the exchanges; the streams belong to the ranks' devices.
            let work = || unsafe { ranks.all_to_all(&bytes, (&send, &receive), &streams) }.map_err(of_nccl);
            let outcome = exchange_step(rig, &bytes, work);
            let _ = rig.settle(&among);
            add(report, exchange_figure(by, devices, total), busiest(&bytes), outcome);
        }
    }
    let bytes = options.reduced;
    let measure = || -> Outcome {
        // SAFETY: as above, for buffers of at least this size.
        let work = || unsafe { ranks.all_reduce(bytes, (&send, &receive), &streams) }.map_err(of_nccl);
        among.iter().try_for_each(|&number| rig.members[number].clear(bytes))?;
        let times = rig.by_host(&among, work)?;
        let mut right = true;
        for &number in &among {
            let member = &rig.members[number];
            right &= member.holds(member.receive, bytes, 0..devices, 0)?;
        }
        Ok((times, right))
    };
    let outcome = measure();
    let _ = rig.settle(&among);
    // Each link of a ring carries 2 (n - 1) / n of the bytes.
    let moved = 2 * (devices as u64 - 1) * bytes / devices as u64;
    add(report, Figure { what: "all reduce", ..exchange_figure("NCCL", devices, bytes) }, moved, outcome);
}
