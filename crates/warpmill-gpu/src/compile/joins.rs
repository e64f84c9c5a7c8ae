//! The ways of joins whose hash builds do not fit the device's memory.
//!
//! - In parts ([`super::shares`]): the data passes through once more for every part but the first.
//! - Hybrid: keys, and what finds them, stay in device memory as a whole; what probes read of the rows is in page-locked memory of the
//!   host, where kernels write it as the build is made, and read it for rows that found a partner. It is the hybrid join of GOLAP (Boeschen et
//!   al., SIGMOD 2024, section 5.3) without managed memory, and with the probe on the device.
//! - Fallback, and naive: the device runs what is below these joins, on both sides or on the probe side only, and the CPU the rest
//!   ([`super::split`]).
//! - On the CPU: the whole program.
//!
//! The time of each is predicted from the bytes that travel, the rows of estimates, and rates; see [`JoinTimes`]. Of what the device does in its own
//! memory, and of launches, nothing is counted: links and memory of the host are slower by far.

use warpmill_ir::{Pipeline, Program, Scan, Sink, SinkId, Source};
use warpmill_machine::CpuRates;

use super::filters::ScanFilters;
use super::hints::{Hints, Limits};
use super::join::{JoinPlan, JoinStrategy, JoinTimes, Side};
use super::layout::{BuildLayout, SinkLayout, Table};
use super::program::{self, Place};
use super::ranges::{MOST_PARTS, RangeTest, expected};
use super::storage::FlatColumn;
use crate::compile::{estimate, planner};
use crate::memory::error::Result;

use super::buffers::host_bytes_of_sink;
use super::shares::{Structure, bytes, host_text_of_sink, rows_of, share_out};
use super::split::Split;
use warpmill_ir::graph::probes;

/// Bytes that kernels move over the link for a value that they reach there by itself.
const SECTOR: f64 = 32.0;

/// Tests of row segments against parts that are worth knowing how many pass.
const MOST_TESTS: usize = 1 << 20;

/// The strategies to choose from, and how fast they are.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// The strategy that the user asked for.
    pub strategy: JoinStrategy,
    /// Threads of the CPU back end, where it may run the program; 0: it may not.
    pub cpu_threads: usize,
    /// Bytes of page-locked memory that kernels may reach.
    pub host_room: u64,
    /// Bytes of rows that the CPU back end may go on with.
    pub row_room: u64,
    /// Bytes per second of data that passes through.
    pub passing: f64,
    /// Bytes per second of the link to the host's memory.
    pub link: f64,
    /// The part of it for single values that kernels reach there.
    pub scattered: f64,
    /// The CPU back end's rates.
    pub cpu: CpuRates,
}

/// The way the sinks of a program share the room that there is.
struct Shared {
    layouts: Vec<SinkLayout>,
    places: Vec<Place>,
    /// Whether they all get what they need.
    fits: bool,
}

/// The way the joins of `program` with hash builds that do not fit are to be done, where the sinks may take what `hints` say; `None`: all
/// builds fit. `hints` say nothing of joins yet.
///
/// # Errors
/// Operations that the device cannot do.
pub fn choose(
    program: &Program,
    inputs: &[u64],
    (hints, limits): (&Hints, Limits),
    means: &Means,
) -> Result<Option<JoinPlan>> {
    let whole = planner::sinks(program, inputs, hints, limits)?;
    let parted = share(program, whole.clone(), hints)?;
    let room = hints.partitioned.unwrap_or(u64::MAX);
    let misfits = |id: &SinkId| {
        let SinkLayout::Build(build) = &parted.layouts[*id] else { return false };
        let large = !parted.fits && bytes(*id, &whole[*id], hints) > room / 8;
        build.partition.map_or(large, |partition| partition.parts > 1)
    };
    let builds: Vec<SinkId> = (0..whole.len()).filter(misfits).collect();
    if builds.is_empty() {
        return Ok(None);
    }
    let asked = JoinPlan::forced(JoinStrategy::Hybrid, builds);
    let on_host = Hints { join: Some(asked.clone()), ..hints.clone() };
    let hosted = share(program, planner::sinks(program, inputs, &on_host, limits)?, &on_host)?;
    let of_sink = |(id, layout)| host_bytes_of_sink(id, layout) + host_text_of_sink(id, layout, &on_host);
    let mapped_bytes: u64 = hosted.layouts.iter().enumerate().map(of_sink).sum();
    let mut plan = JoinPlan { mapped_bytes, ..asked };
    plan.predicted = JoinTimes {
        partitioned: parted.seconds(program, inputs, means),
        hybrid: if mapped_bytes > 0 { hosted.seconds(program, inputs, means) } else { None },
        cpu: (means.cpu_threads > 0).then(|| {
            let all = vec![Side::Cpu; program.pipelines.len()];
            on_cpu(&Structure { program, layouts: &whole, places: &[] }, &all, inputs, (&means.cpu, means.cpu_threads))
        }),
        ..JoinTimes::default()
    };
    if mapped_bytes > means.host_room {
        plan.predicted.hybrid = None;
    }
    let structure = Structure { program, layouts: &whole, places: &[] };
    let split = |strategy| {
        // The CPU runs no functions of groups.
        let possible = (means.cpu_threads > 0 || means.strategy == strategy) && !program.calls_functions();
        possible.then(|| Split::new(program, &plan.builds, strategy))
    };
    let splits = [split(JoinStrategy::Fallback), split(JoinStrategy::Naive)];
    let times = splits.each_ref().map(|split| split.as_ref()?.as_ref().ok()?.seconds(&structure, inputs, means));
    [plan.predicted.fallback, plan.predicted.naive] = times;
    decide(&mut plan, means.strategy);
    let [fallback, naive] = splits;
    let chosen = match plan.strategy {
        JoinStrategy::Fallback => fallback,
        JoinStrategy::Naive => naive,
        _ => None,
    };
    if let Some(split) = chosen {
        plan.sides = split?.sides;
    }
    Ok(Some(plan))
}

impl Split {
    /// Seconds that the program is predicted to take so: the scans of pieces, then the rows over the link, then the CPU. `None` where there would be
    /// more rows than the CPU back end may hold.
    fn seconds(&self, structure: &Structure<'_>, inputs: &[u64], means: &Means) -> Option<f64> {
        let (mut passing, mut bytes) = (0.0, 0.0);
        for piece in &self.pieces {
            let scans = piece.program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
                Source::Scan(scan) => Some(scan),
                _ => None,
            });
            passing += scans.map(stored_bytes).sum::<f64>();
            let row: usize = FlatColumn::all("", piece.taken()).iter().map(FlatColumn::row_bytes).sum();
            let rows = piece.cut.iter().map(|&(pipeline, at)| arriving(structure, pipeline, at, inputs));
            bytes += rows.sum::<f64>() * row as f64;
        }
        let threads = match means.cpu_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let on_host = on_cpu(structure, &self.sides, inputs, (&means.cpu, threads));
        (bytes <= means.row_room as f64).then_some(passing / means.passing + bytes / means.link + on_host)
    }
}

/// Bytes of the columns of a scan, as they are stored.
fn stored_bytes(scan: &Scan) -> f64 {
    scan.columns.iter().map(|&column| scan.table.column_stats(column).stored_bytes as f64).sum()
}

/// Settles the strategy of `plan`, by what was predicted unless `asked` says it.
fn decide(plan: &mut JoinPlan, asked: JoinStrategy) {
    (plan.strategy, plan.reason) = match asked {
        JoinStrategy::Auto => {
            let times = plan.predicted.all();
            let possible = times.iter().filter_map(|(strategy, time)| Some((*strategy, (*time)?)));
            let best = possible.clone().min_by(|(_, a), (_, b)| a.total_cmp(b));
            // Where nothing is possible, making parts finds out what lacks.
            let best = best.map_or(JoinStrategy::Partitioned, |(strategy, _)| strategy);
            (best, if possible.count() > 1 { "predicted" } else { "only" })
        }
        asked => (asked, "forced"),
    };
}

fn share(program: &Program, mut layouts: Vec<SinkLayout>, hints: &Hints) -> Result<Shared> {
    let places = program::places(program, &layouts)?;
    share_out(program, &mut layouts, &places, hints);
    let taken: u64 = layouts.iter().enumerate().map(|(id, layout)| bytes(id, layout, hints)).sum();
    Ok(Shared { fits: hints.partitioned.is_none_or(|room| taken <= room), layouts, places })
}

impl Shared {
    fn structure<'a>(&'a self, program: &'a Program) -> Structure<'a> {
        Structure { program, layouts: &self.layouts, places: &self.places }
    }

    /// Seconds that the program is predicted to take; `None` where it does not fit.
    fn seconds(&self, program: &Program, inputs: &[u64], means: &Means) -> Option<f64> {
        let parts: u64 = self.layouts.iter().filter_map(|layout| layout.partition()).map(|part| part.parts).sum();
        if !self.fits || parts > MOST_PARTS {
            return None;
        }
        let structure = self.structure(program);
        let passing: f64 = (0..program.pipelines.len()).map(|pipeline| bytes_read(&structure, pipeline)).sum();
        let builds = (0..self.layouts.len()).map(|id| over_the_link(&structure, id, inputs));
        Some(passing / means.passing + builds.map(|traffic| traffic.seconds(means.link, means.scattered)).sum::<f64>())
    }
}

/// Bytes of segments that a pipeline reads, for all parts of what it uses and feeds.
fn bytes_read(structure: &Structure<'_>, pipeline: usize) -> f64 {
    let Source::Scan(scan) = &structure.program.pipelines[pipeline].source else { return 0.0 };
    let segments = scan.table.num_segments();
    let stored = |segment: usize| {
        scan.columns.iter().map(|&column| scan.table.segment_stats(segment, column).stored_bytes as f64).sum::<f64>()
    };
    let sizes: Vec<f64> = (0..segments).map(stored).collect();
    let total: f64 = sizes.iter().sum();
    let sink = structure.program.pipelines[pipeline].sink;
    let divided = structure.uses(pipeline).into_iter().chain([sink]);
    let times = divided.map(|id| {
        let Some(partition) = structure.layouts[id].partition().filter(|partition| partition.parts > 1) else {
            return 1.0;
        };
        if segments.saturating_mul(partition.parts as usize) > MOST_TESTS || total == 0.0 {
            return partition.parts as f64;
        }
        let read: f64 = expected(partition)
            .iter()
            .map(|range| {
                let (program, layouts) = (structure.program, structure.layouts);
                let test = match id == sink {
                    true => RangeTest::of_sink((program, layouts), pipeline, range.values()),
                    false => RangeTest::of_probe((program, layouts), pipeline, id, range.values()),
                };
                let passes = |segment: &usize| test.as_ref().is_none_or(|test| test.may_pass(*segment));
                (0..segments).filter(passes).map(|segment| sizes[segment]).sum::<f64>()
            })
            .sum();
        read / total
    });
    total * times.product::<f64>()
}

/// The part of a hash build's rows that travels over the link: bytes one behind the other, and values that are reached by themselves.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Traffic {
    bytes: f64,
    values: f64,
}

impl Traffic {
    /// `rows` rows of build `build`, in the order in which they lie, or not.
    fn add(&mut self, build: &BuildLayout, rows: f64, ordered: bool) {
        let arrays: usize = build.payload.iter().map(|column| 1 + usize::from(column.nullable)).sum();
        let bytes: usize = build.payload.iter().map(|column| column.row_bytes()).sum();
        match ordered {
            true => self.bytes += rows * bytes as f64,
            false => self.values += rows * arrays as f64,
        }
    }

    fn seconds(self, link: f64, scattered: f64) -> f64 {
        self.bytes / link + self.values * SECTOR / (link * scattered)
    }
}

/// The part of the rows of build `id` that travels; nothing where they are in device memory.
fn over_the_link(structure: &Structure<'_>, id: SinkId, inputs: &[u64]) -> Traffic {
    let mut traffic = Traffic::default();
    let SinkLayout::Build(build) = &structure.layouts[id] else { return traffic };
    if !build.on_host {
        return traffic;
    }
    // By the place of their keys, or one behind the other.
    let by_key = build.table == Table::Bitmap;
    let whole = build.partition.map_or(build.capacity, |partition| {
        if by_key { partition.total } else { partition.parts * partition.room.min(build.capacity) }
    });
    let in_order =
        |pipeline: usize, key: Option<usize>| key.is_some_and(|key| is_ordered(structure.program, pipeline, key));
    let pipelines = &structure.program.pipelines;
    let built = structure.feeding(id).all(|index| match &structure.program.sinks[id] {
        Sink::HashBuild { keys, .. } => {
            in_order(index, keys.last().and_then(|key| estimate::source_column(&pipelines[index], key)))
        }
        _ => false,
    });
    let fraction = if by_key { build.fraction } else { 1.0 };
    traffic.add(build, whole as f64 * fraction, !by_key || built);
    for index in structure.using(id) {
        let pipeline = &pipelines[index];
        if matches!(pipeline.source, Source::Build { .. }) {
            traffic.add(build, whole as f64, true);
        }
        for (at, probe) in probes(pipeline).filter(|(_, probe)| probe.build == id) {
            let before = Pipeline { operators: pipeline.operators[..at].to_vec(), ..pipeline.clone() };
            let key = probe.keys.last().and_then(|key| estimate::source_column(&before, key));
            let matches = arriving(structure, index, at + 1, inputs);
            traffic.add(build, matches, built && in_order(index, key));
        }
    }
    traffic
}

/// Rows that are expected behind the first `count` operators of a pipeline.
fn arriving(structure: &Structure<'_>, pipeline: usize, count: usize, inputs: &[u64]) -> f64 {
    let rows: Vec<f64> = structure.layouts.iter().map(|layout| rows_of(layout) as f64).collect();
    let fraction = |id: SinkId| match &structure.layouts[id] {
        SinkLayout::Build(build) => build.fraction,
        _ => 1.0,
    };
    let pipeline = &structure.program.pipelines[pipeline];
    let operators = pipeline.operators[..count].to_vec();
    let selectivity = match &pipeline.source {
        Source::Scan(scan) => ScanFilters::of(scan).map_or(estimate::UNKNOWN, |filters| filters.selectivity()),
        _ => 1.0,
    };
    estimate::rows(&Pipeline { operators, ..pipeline.clone() }, selectivity, inputs, &rows, fraction)
}

/// Whether the row segments of a pipeline's scan are in the order of a column of it, more or less: each begins where the one before ends.
fn is_ordered(program: &Program, pipeline: usize, column: usize) -> bool {
    let Source::Scan(scan) = &program.pipelines[pipeline].source else { return false };
    let range = |segment| scan.table.segment_stats(segment, scan.columns[column]).int_range();
    let segments = scan.table.num_segments();
    segments > 1
        && (1..segments).all(|segment| match (range(segment - 1), range(segment)) {
            (Some((_, before)), Some((least, _))) => before <= least,
            _ => false,
        })
}

/// Seconds that the CPU back end is predicted to take with so many threads for what of the program is its own, all data in memory.
fn on_cpu(structure: &Structure<'_>, sides: &[Side], inputs: &[u64], (cpu, threads): (&CpuRates, usize)) -> f64 {
    let (program, layouts) = (structure.program, structure.layouts);
    let is_far = |id: SinkId| {
        super::buffers::bytes_of_sink(id, &layouts[id]) + host_bytes_of_sink(id, &layouts[id]) > cpu.cache_bytes
    };
    let rate = |id: SinkId| if is_far(id) { cpu.far } else { cpu.near };
    let idle = |id: SinkId| if is_far(id) { threads as f64 / threads.min(cpu.builders) as f64 } else { 1.0 };
    let pipeline = |(index, pipeline): (usize, &Pipeline)| {
        let (from, given) = match (sides[index], &pipeline.source) {
            (Side::Device, _) => return 0.0,
            (Side::Split(at), _) => {
                let before = Pipeline { operators: pipeline.operators[..at].to_vec(), ..pipeline.clone() };
                (at, arriving(structure, index, at, inputs) * before.fields().len() as f64)
            }
            (Side::Cpu, Source::Scan(scan)) => (0, scan.table.num_rows() as f64 * scan.columns.len() as f64),
            (Side::Cpu, _) => (0, 0.0),
        };
        let probes = probes(pipeline).filter(|(at, _)| *at >= from);
        let probed = probes.map(|(at, probe)| arriving(structure, index, at, inputs) / rate(probe.build));
        let rows = arriving(structure, index, pipeline.operators.len(), inputs);
        let sunk = match &layouts[pipeline.sink] {
            SinkLayout::Rows(_) => rows / cpu.values,
            _ => rows / rate(pipeline.sink) * idle(pipeline.sink),
        };
        given / cpu.values + probed.sum::<f64>() + sunk
    };
    program.pipelines.iter().enumerate().map(pipeline).sum::<f64>() / threads as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(partitioned: Option<f64>, hybrid: Option<f64>, cpu: Option<f64>) -> JoinPlan {
        let predicted = JoinTimes { partitioned, hybrid, cpu, ..JoinTimes::default() };
        JoinPlan { predicted, ..JoinPlan::all_hybrid() }
    }

    #[test]
    fn the_fastest_possible_way_is_chosen() {
        use JoinStrategy::{Auto, Cpu, Hybrid, Partitioned};
        for (times, asked, expected) in [
            ((Some(3.0), Some(2.0), Some(4.0)), Auto, (Hybrid, "predicted")),
            ((Some(1.0), Some(2.0), Some(4.0)), Auto, (Partitioned, "predicted")),
            ((Some(3.0), Some(2.0), Some(1.0)), Auto, (Cpu, "predicted")),
            ((Some(3.0), None, None), Auto, (Partitioned, "only")),
            ((None, Some(9.0), Some(4.0)), Auto, (Cpu, "predicted")),
            ((None, Some(9.0), None), Auto, (Hybrid, "only")),
            ((None, None, None), Auto, (Partitioned, "only")),
            ((Some(1.0), Some(2.0), Some(4.0)), Hybrid, (Hybrid, "forced")),
            ((Some(3.0), Some(2.0), Some(4.0)), Partitioned, (Partitioned, "forced")),
            ((Some(3.0), Some(2.0), Some(4.0)), Cpu, (Cpu, "forced")),
        ] {
            let mut plan = plan(times.0, times.1, times.2);
            decide(&mut plan, asked);
            assert_eq!((plan.strategy, plan.reason), expected, "{times:?} {asked:?}");
        }
        let mut plan = plan(Some(3.0), Some(2.0), Some(4.0));
        (plan.predicted.fallback, plan.predicted.naive) = (Some(1.5), Some(1.0));
        decide(&mut plan, Auto);
        assert_eq!((plan.strategy, plan.reason), (JoinStrategy::Naive, "predicted"));
    }

    #[test]
    fn scattered_values_cost_a_sector_each() {
        let ordered = Traffic { bytes: 50e9, values: 0.0 };
        assert_eq!(ordered.seconds(50e9, 1.0 / 3.0), 1.0);
        let scattered = Traffic { bytes: 0.0, values: 50e9 / 96.0 };
        assert!((scattered.seconds(50e9, 1.0 / 3.0) - 1.0).abs() < 1e-9);
    }
}
