//! Choice of the strategy for joins whose hash builds do not fit the device's memory.
//!
//! - Partitioned ([`super::shares`]): the data is streamed once more for every part but the first.
//! - Hybrid: keys and lookup structures stay in device memory completely; the columns that probes read are in page-locked host memory, which kernels
//!   write while the build is made, and read for rows with a partner. It is the hybrid join of GOLAP (Boeschen et al., SIGMOD 2024, section 5.3)
//!   without managed memory, and with the probe on the device.
//! - Fallback and naive: the device runs everything below these joins, on both sides or on the probe side only, and the CPU the rest
//!   ([`super::split`]).
//! - CPU: the whole program.
//!
//! The time of each is predicted from transferred bytes, estimated rows, and rates; see [`JoinTimes`]. Work within device memory and launches are
//! ignored: links and host memory are far slower.

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

/// Bytes moved over the link for each value that kernels access randomly.
const SECTOR: f64 = 32.0;

/// Largest number of tests of row segments against parts for which passing segments are counted exactly.
const MOST_TESTS: usize = 1 << 20;

/// Cost inputs: the allowed strategies, and the rates.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// The requested strategy.
    pub strategy: JoinStrategy,
    /// Threads of the CPU back end if it may run the program; 0: it may not.
    pub cpu_threads: usize,
    /// Bytes of page-locked memory that kernels may access.
    pub host_room: u64,
    /// Bytes of rows that the CPU back end may continue with.
    pub row_room: u64,
    /// Rate of streamed data in bytes per second.
    pub passing: f64,
    /// Rate of the link to host memory in bytes per second.
    pub link: f64,
    /// Fraction of the link's rate that random accesses reach.
    pub scattered: f64,
    /// The CPU back end's rates.
    pub cpu: CpuRates,
}

/// Layouts of a program's sinks within the available memory.
struct Shared {
    layouts: Vec<SinkLayout>,
    places: Vec<Place>,
    /// Whether all sinks get the memory that they need.
    fits: bool,
}

/// Chooses the strategy for `program`'s joins whose hash builds do not fit the memory that `hints` allow for sinks; `None`: all builds fit. `hints`
/// must not contain a join plan.
///
/// # Errors
/// Operations that the device does not support.
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
        // The CPU back end has no group functions.
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
    /// Predicted seconds of the split program: the scans of the pieces, then the rows over the link, then the CPU. `None` if there are more rows than
    /// the CPU back end may hold.
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

/// Stored bytes of the columns of a scan.
fn stored_bytes(scan: &Scan) -> f64 {
    scan.columns.iter().map(|&column| scan.table.column_stats(column).stored_bytes as f64).sum()
}

/// Sets the strategy of `plan` to `asked`, or to the one with the best prediction.
fn decide(plan: &mut JoinPlan, asked: JoinStrategy) {
    (plan.strategy, plan.reason) = match asked {
        JoinStrategy::Auto => {
            let times = plan.predicted.all();
            let possible = times.iter().filter_map(|(strategy, time)| Some((*strategy, (*time)?)));
            let best = possible.clone().min_by(|(_, a), (_, b)| a.total_cmp(b));
            // If nothing is possible, try parts: the run will report which memory is missing.
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

    /// Predicted seconds of the program; `None` if it does not fit.
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

/// Bytes of segments that a pipeline reads, over all parts of the sinks that it uses and feeds.
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

/// Traffic of a hash build over the link: sequential bytes, and randomly accessed values.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Traffic {
    bytes: f64,
    values: f64,
}

impl Traffic {
    /// Adds `rows` rows of build `build`, accessed sequentially or randomly.
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

/// The traffic of build `id` over the link; none if its rows are in device memory.
fn over_the_link(structure: &Structure<'_>, id: SinkId, inputs: &[u64]) -> Traffic {
    let mut traffic = Traffic::default();
    let SinkLayout::Build(build) = &structure.layouts[id] else { return traffic };
    if !build.on_host {
        return traffic;
    }
    // Rows are stored by key, or in order of arrival.
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

/// Estimated rows after the first `count` operators of a pipeline.
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

/// Whether the row segments of a pipeline's scan are roughly ordered by a column: each begins at or after the end of the one before.
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

/// Predicted seconds of the CPU back end with `threads` threads for its part of the program, with all data in memory.
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
