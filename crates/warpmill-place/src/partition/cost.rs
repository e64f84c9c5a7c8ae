//! Estimated costs of a program in parts: what devices read, and what arrives at the CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warpmill_ir::{CompareOp, Expr, ExprKind, JoinKind, Pipeline, Probe, Program, Scalar, Scan, Sink, SinkId, Source};
use warpmill_machine::{CpuRates, DeviceRates};

use super::origin::{column, origin};
use crate::Arrives;

/// The rates that costs are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionRates {
    /// Bytes of plain values per second that a device works on.
    pub device_bytes: f64,
    /// Seconds that the CPU takes to merge the states of a group.
    pub merge: f64,
    /// Bytes per second that a device copies from others.
    pub peers: f64,
    /// Bytes of plain values per second that the CPU works on after the parts: it begins with each column anew, so that more threads gain little.
    pub cpu_bytes: f64,
}

impl PartitionRates {
    /// Those of the CPU, and of the slowest of some devices.
    pub fn new<'a>(cpu: &CpuRates, devices: impl IntoIterator<Item = &'a DeviceRates>) -> Self {
        let rates = devices.into_iter().map(|device| (device.plain_bytes, device.link.bandwidth * PEERS));
        let slowest = rates.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
        let assumed = || DeviceRates::assumed("");
        let (device_bytes, peers) =
            slowest.unwrap_or_else(|| (assumed().plain_bytes, assumed().link.bandwidth * PEERS));
        Self { device_bytes, merge: cpu.merge, peers, cpu_bytes: cpu.plain_bytes() }
    }
}

/// The part of the time for a row that a row needs whose key is out of the device's range: on an H100, TPC-H 13 and 20 at scale factor 100 take as
/// long on four GPUs as on one where each reads all rows of a scan for those of its range.
const DROPPED: f64 = 0.9;

/// Values of a group key that no column gives, such as the counts of other groups: few, as a rule.
const COMPUTED: f64 = 4096.0;

/// The factor by which links between devices are faster than the one to the host: nobody has measured them.
const PEERS: f64 = 6.7;

/// Seconds that sending rows takes whatever their number: devices wait for each other, and a second program begins.
const SHUFFLE: f64 = 2e-4;

/// Seconds of a run that is so short that nothing speaks against trying.
const SHORT: f64 = 1e-3;

/// The factor by which the estimated groups may exceed the true ones: not all filters are looked at, and keys may depend on each other.
const FILTERED: f64 = 64.0;

/// The part of rows that are taken to match a pattern.
const ALIKE: f64 = 0.1;

/// Estimated seconds of a program in parts and of its parts together on one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionCost {
    /// The device that reads most.
    slowest: f64,
    /// The CPU, for what arrives from all devices.
    merge: f64,
    /// The CPU, for what it scans after that.
    rest: f64,
    /// One device that reads all.
    alone: f64,
}

impl PartitionCost {
    /// The costs of `programs`, one for each device, which run pipelines `own` of `program`, the last of them at `meeting`; the CPU scans `rest` bytes
    /// after that.
    pub(super) fn new(
        program: &Program,
        programs: &[Arc<Program>],
        (meeting, own): (usize, &BTreeSet<usize>),
        (arrives, rest, rates): (Arrives, u64, PartitionRates),
    ) -> Self {
        let scanned = |part: &Program| -> f64 {
            let pipelines = own.iter().map(|&index| &program.pipelines[index]).zip(&part.pipelines);
            pipelines.map(|(whole, part)| bytes(whole) * share(whole, part, programs.len())).sum::<f64>()
                / rates.device_bytes
        };
        let slowest = programs.iter().map(|part| scanned(part)).fold(0.0, f64::max);
        let groups = match arrives {
            Arrives::States => groups_in_parts(program, meeting, programs.len()),
            Arrives::Rows => 0.0,
        };
        let alone = own.iter().map(|&index| bytes(&program.pipelines[index])).sum::<f64>() / rates.device_bytes;
        let merge = groups * rates.merge;
        Self { slowest, merge, rest: rest as f64 / rates.cpu_bytes, alone }
    }

    /// Adds what comes of sending rows of `bytes` bytes to so many devices, for which scans read `scanned`: each device divides its own and copies
    /// those of others.
    pub(super) fn add_shuffle(&mut self, (scanned, bytes): (f64, f64), to: usize, rates: PartitionRates) {
        let (scanned, own) = (scanned / to as f64, bytes / to as f64);
        self.slowest += SHUFFLE + own / rates.peers + (scanned + 3.0 * own) / rates.device_bytes;
    }

    /// Adds the time of the programs before rows are sent, whose states do not arrive at the CPU then.
    pub(super) fn after(&mut self, first: &Self) {
        self.slowest += first.slowest;
        self.alone = self.alone.max(first.alone);
    }

    /// Seconds in parts.
    pub fn in_parts(&self) -> f64 {
        self.slowest + self.merge + self.rest
    }

    /// Seconds of the parts on one device that reads all.
    pub fn alone(&self) -> f64 {
        self.alone
    }

    /// Whether parts may be faster than one device, as far as one can tell without a run.
    pub fn may_gain(&self) -> bool {
        self.slowest + self.merge / FILTERED + self.rest < self.alone.max(SHORT)
    }
}

fn bytes(pipeline: &Pipeline) -> f64 {
    match &pipeline.source {
        Source::Scan(scan) => scan.plain_bytes() as f64,
        _ => 0.0,
    }
}

/// The part of the time for a pipeline of the whole program that its counterpart in the program of one of so many devices takes.
fn share(whole: &Pipeline, part: &Pipeline, devices: usize) -> f64 {
    let (whole, part) = match (&whole.source, &part.source) {
        (Source::Scan(whole), Source::Scan(part)) => (whole, part),
        // Scanned before rows are sent.
        (Source::Scan(_), Source::Input { .. }) => return 0.0,
        _ => return 1.0,
    };
    let segments = part.table.num_segments() as f64 / whole.table.num_segments().max(1) as f64;
    let in_range = 1.0 / devices as f64;
    // A scan in another order than that of the key.
    let is_filtered = part.filters.len() > whole.filters.len() && segments > 2.0 * in_range;
    if is_filtered { segments * (in_range + (1.0 - in_range) * DROPPED) } else { segments }
}

/// The groups at most that the parts of so many devices make together of the rows that reach pipeline `meeting`'s sink.
pub(super) fn groups_in_parts(program: &Program, meeting: usize, devices: usize) -> f64 {
    let all = groups(program, meeting) * devices as f64;
    match &program.pipelines[meeting].source {
        Source::Scan(scan) => all.min(scan.table.num_rows() as f64 * passing(program, meeting)),
        _ => all,
    }
}

/// The part of a pipeline's scanned rows that passes its filters and finds partners, as far as the filters of scans tell.
pub(super) fn passing(program: &Program, index: usize) -> f64 {
    let pipeline = &program.pipelines[index];
    let (own, pruned) = match &pipeline.source {
        Source::Scan(scan) => (passing_rows(scan) / scan.table.num_rows().max(1) as f64, &scan.prune[..]),
        _ => (1.0, &[][..]),
    };
    let restricting =
        |probe: &&Probe| matches!(probe.kind, JoinKind::Inner | JoinKind::ProbeSemi | JoinKind::BuildOuter);
    let probed = warpmill_ir::graph::probes(pipeline).map(|(_, probe)| probe).filter(restricting);
    let builds: BTreeSet<SinkId> = probed.map(|probe| probe.build).chain(pruned.iter().map(|key| key.build)).collect();
    let feeds = (0..index).filter(|&other| builds.contains(&program.pipelines[other].sink));
    own * feeds.map(|feed| passing(program, feed)).product::<f64>()
}

/// The number of rows that pass the filters of a scan, of which comparisons of columns with constants, lists and patterns are looked at; values
/// are taken to be evenly spread.
pub(super) fn passing_rows(scan: &Scan) -> f64 {
    let (mut ranges, mut part) = (BTreeMap::<usize, (i128, i128)>::new(), 1.0);
    for filter in &scan.filters {
        match &filter.kind {
            ExprKind::Compare { op, left, right } => {
                let Some((at, bound)) = column_of(left).zip(constant(right)) else { continue };
                let Some(own) = values_of(scan, at) else { continue };
                narrow(scan, at, *op, bound, ranges.entry(at).or_insert(own));
            }
            ExprKind::InList { input, list, negated: false, .. } => {
                let own = column_of(input).and_then(|at| values_of(scan, at));
                part *= own.map_or(1.0, |own| (list.len() as f64 / size(own)).min(1.0));
            }
            ExprKind::Like { negated: false, .. } => part *= ALIKE,
            _ => {}
        }
    }
    let left = ranges.iter().map(|(&at, &range)| size(range) / values_of(scan, at).map_or(1.0, size).max(1.0));
    scan.table.num_rows() as f64 * part * left.map(|part| part.clamp(0.0, 1.0)).product::<f64>()
}

/// The column that an expression is, whatever it is held as.
fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Widen(input) => column_of(input),
        _ => column(expr),
    }
}

/// The constant that an expression is.
fn constant(expr: &Expr) -> Option<&Scalar> {
    match &expr.kind {
        ExprKind::Literal(scalar) => Some(scalar),
        ExprKind::Widen(input) => constant(input),
        _ => None,
    }
}

/// The number of integers from the first to the last.
fn size((least, greatest): (i128, i128)) -> f64 {
    (greatest - least + 1).max(0) as f64
}

/// Narrows a range of values, or dictionary codes, of a column to those that compare with a constant.
fn narrow(scan: &Scan, at: usize, op: CompareOp, bound: &Scalar, (least, greatest): &mut (i128, i128)) {
    // Of a string, the first code that is not less, and the first one that is greater.
    let (first, next) = match (bound, &scan.fields[at].ty.dictionary) {
        (Scalar::Int(bound), _) => (*bound, bound + 1),
        (Scalar::Str(text), Some(dictionary)) => {
            let first = i128::from(dictionary.lower_bound(text));
            (first, first + i128::from(dictionary.code(text).is_some()))
        }
        _ => return,
    };
    match op {
        CompareOp::Ge => *least = first.max(*least),
        CompareOp::Gt => *least = next.max(*least),
        CompareOp::Le => *greatest = (next - 1).min(*greatest),
        CompareOp::Lt => *greatest = (first - 1).min(*greatest),
        CompareOp::Eq | CompareOp::IsNotDistinct => {
            (*least, *greatest) = (first.max(*least), (next - 1).min(*greatest));
        }
        CompareOp::Ne | CompareOp::IsDistinct => {}
    }
}

/// The least and the greatest value, or dictionary code, of a column of a scan.
fn values_of(scan: &Scan, at: usize) -> Option<(i128, i128)> {
    let codes = scan.fields[at].ty.dictionary.as_ref().map(|dictionary| (0, dictionary.len() as i128 - 1));
    codes.or_else(|| scan.table.column_stats(scan.columns[at]).int_range())
}

/// The number of groups at most that the sink of pipeline `meeting` makes.
fn groups(program: &Program, meeting: usize) -> f64 {
    let pipeline = &program.pipelines[meeting];
    let Sink::Aggregate { groups, .. } = &program.sinks[pipeline.sink] else { return 0.0 };
    let rows =
        program.pipelines.iter().map(|it| if let Source::Scan(scan) = &it.source { scan.table.num_rows() } else { 0 });
    let most = rows.max().unwrap_or(0) as f64;
    groups.iter().fold(1.0, |all: f64, key| (all * values(program, meeting, key)).min(most))
}

/// The number of values at most that a group key has, as far as its type and the column tell that it is from.
fn values(program: &Program, meeting: usize, key: &Expr) -> f64 {
    let of_type = key.ty.range.map_or(f64::MAX, |(least, greatest)| greatest.saturating_sub(least) as f64 + 1.0);
    let from =
        column(key).and_then(|index| origin(program, meeting, index, program.pipelines[meeting].operators.len()));
    let of_column = match from.map(|(index, at)| (&program.pipelines[index].source, at)) {
        Some((Source::Scan(scan), at)) => {
            let stats = scan.table.column_stats(scan.columns[at]);
            stats.distinct.unwrap_or(stats.rows) as f64 + 1.0
        }
        _ => COMPUTED,
    };
    of_type.min(of_column)
}
