//! Estimated costs of a partitioned program: the bytes that devices read, and the results that the CPU merges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warpmill_ir::origin::column;
use warpmill_ir::{CompareOp, Expr, ExprKind, JoinKind, Pipeline, Probe, Program, Scalar, Scan, Sink, SinkId, Source};
use warpmill_machine::{CpuRates, DeviceRates};

use super::origin::origin;
use crate::Arrives;

/// The rates that costs are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionRates {
    /// Bytes of plain values per second that a device works on.
    pub device_bytes: f64,
    /// Seconds of CPU time to merge the states of a group.
    pub merge: f64,
    /// Bytes per second that a device copies from others.
    pub peers: f64,
    /// Bytes of plain values per second that the CPU processes after the parts; more threads gain little.
    pub cpu_bytes: f64,
}

impl PartitionRates {
    /// The rates of the CPU and of the slowest of the devices.
    pub fn new<'a>(cpu: &CpuRates, devices: impl IntoIterator<Item = &'a DeviceRates>) -> Self {
        let rates = devices.into_iter().map(|device| (device.plain_bytes, device.link.bandwidth * PEERS));
        let slowest = rates.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
        let assumed = || DeviceRates::assumed("");
        let (device_bytes, peers) =
            slowest.unwrap_or_else(|| (assumed().plain_bytes, assumed().link.bandwidth * PEERS));
        Self { device_bytes, merge: cpu.merge, peers, cpu_bytes: cpu.plain_bytes() }
    }
}

/// The time for a row outside of the device's key range, as a fraction of the time for other rows: on an H100, TPC-H 13 and 20 at scale factor 100
/// take as long on four GPUs as on one if each reads all rows of a scan.
const DROPPED: f64 = 0.9;

/// Assumed number of values of a computed group key, such as counts of other groups: usually few.
const COMPUTED: f64 = 4096.0;

/// Assumed speed of links between devices relative to the link to the host (not measured).
const PEERS: f64 = 6.7;

/// Seconds of an exchange of no rows: devices wait for each other, and a second program begins.
const SHUFFLE: f64 = 2e-4;

/// Runs shorter than this many seconds are always worth a trial.
const SHORT: f64 = 1e-3;

/// Assumed overestimation of the number of groups: some filters are ignored, and keys may be correlated.
const FILTERED: f64 = 64.0;

/// Assumed selectivity of a pattern.
const ALIKE: f64 = 0.1;

/// Estimated seconds of a partitioned program, and of its parts on a single device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartitionCost {
    /// Seconds of the device that reads most.
    slowest: f64,
    /// Seconds of the CPU to merge all partial results.
    merge: f64,
    /// Seconds of the CPU for scans after that.
    rest: f64,
    /// Seconds of the parts on a single device.
    alone: f64,
}

impl PartitionCost {
    /// The costs of `programs`, one per device, for pipelines `own` of `program` of which the last is `meeting`; the CPU scans `rest` bytes
    /// afterwards.
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

    /// Adds the cost of exchanging rows of `bytes` bytes between `to` devices, for which scans read `scanned` bytes: each device partitions its rows
    /// and copies the others'.
    pub(super) fn add_shuffle(&mut self, (scanned, bytes): (f64, f64), to: usize, rates: PartitionRates) {
        let (scanned, own) = (scanned / to as f64, bytes / to as f64);
        self.slowest += SHUFFLE + own / rates.peers + (scanned + 3.0 * own) / rates.device_bytes;
    }

    /// Adds the time of the programs before the exchange, whose states are not sent to the CPU.
    pub(super) fn after(&mut self, first: &Self) {
        self.slowest += first.slowest;
        self.alone = self.alone.max(first.alone);
    }

    /// Seconds of the partitioned program.
    pub fn in_parts(&self) -> f64 {
        self.slowest + self.merge + self.rest
    }

    /// Seconds of the parts on a single device.
    pub fn alone(&self) -> f64 {
        self.alone
    }

    /// Whether partitioning may be faster than one device, as far as estimates tell.
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

/// The cost of a pipeline in the program of one of the devices, as a fraction of the cost of the whole program's pipeline.
fn share(whole: &Pipeline, part: &Pipeline, devices: usize) -> f64 {
    let (whole, part) = match (&whole.source, &part.source) {
        (Source::Scan(whole), Source::Scan(part)) => (whole, part),
        // Scanned before the exchange.
        (Source::Scan(_), Source::Input { .. }) => return 0.0,
        _ => return 1.0,
    };
    let segments = part.table.num_segments() as f64 / whole.table.num_segments().max(1) as f64;
    let in_range = 1.0 / devices as f64;
    // A scan that is not sorted by the key.
    let is_filtered = part.filters.len() > whole.filters.len() && segments > 2.0 * in_range;
    if is_filtered { segments * (in_range + (1.0 - in_range) * DROPPED) } else { segments }
}

/// Upper bound of the number of groups that all parts together make from the rows that reach pipeline `meeting`'s sink.
pub(super) fn groups_in_parts(program: &Program, meeting: usize, devices: usize) -> f64 {
    let all = groups(program, meeting) * devices as f64;
    match &program.pipelines[meeting].source {
        Source::Scan(scan) => all.min(scan.table.num_rows() as f64 * passing(program, meeting)),
        _ => all,
    }
}

/// Estimated fraction of a pipeline's scanned rows that pass its filters and find partners, based on the filters of scans.
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

/// Estimated number of rows that pass the filters of a scan. Considers comparisons of columns with constants, lists and patterns, and assumes evenly
/// spread values.
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

/// The column of an expression, ignoring changes of representation.
fn column_of(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Widen(input) => column_of(input),
        _ => column(expr),
    }
}

/// The constant of an expression.
fn constant(expr: &Expr) -> Option<&Scalar> {
    match &expr.kind {
        ExprKind::Literal(scalar) => Some(scalar),
        ExprKind::Widen(input) => constant(input),
        _ => None,
    }
}

/// The number of integers in an inclusive range.
fn size((least, greatest): (i128, i128)) -> f64 {
    (greatest - least + 1).max(0) as f64
}

/// Narrows the range of a column's values, or dictionary codes, to those that satisfy a comparison with a constant.
fn narrow(scan: &Scan, at: usize, op: CompareOp, bound: &Scalar, (least, greatest): &mut (i128, i128)) {
    // For strings, the code of the first string that is not less, and of the first one that is greater.
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

/// Upper bound of the number of groups of pipeline `meeting`'s sink.
fn groups(program: &Program, meeting: usize) -> f64 {
    let pipeline = &program.pipelines[meeting];
    let Sink::Aggregate { groups, .. } = &program.sinks[pipeline.sink] else { return 0.0 };
    let rows =
        program.pipelines.iter().map(|it| if let Source::Scan(scan) = &it.source { scan.table.num_rows() } else { 0 });
    let most = rows.max().unwrap_or(0) as f64;
    groups.iter().fold(1.0, |all: f64, key| (all * values(program, meeting, key)).min(most))
}

/// Upper bound of the number of values of a group key, from its type and its column.
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
