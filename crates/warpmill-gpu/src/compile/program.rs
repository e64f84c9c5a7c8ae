//! Lowering of a program to kernels: one per pipeline and group of equally encoded segments, one to link each wide hash table, one to turn each
//! aggregation into rows.

use std::collections::BTreeMap;

use warpmill_ir::{Expr, JoinKind, Operator, Phys, Pipeline, Probe, Program, Scan, Sink, SinkId, Source, Unsupported};

use super::cpp::CType;
use super::estimate::source_column;
use super::generator::{Generator, Result};
use super::kernel::{Kernel, Work, kernel, sink_count, state_count};
use super::layout::{BuildLayout, GroupTable, RowsLayout, SinkLayout, Table, Top};
use super::params::Binding;
use super::scan::{self, Choice, KeyTest, TWO_KEYS_BLOCK, WIDE_BLOCK};
use super::scan_shape::{BLOCK, ScanShape, coarse_of_keys};
use super::storage::FlatColumn;
use super::top;
use super::{asof, build, group, grouped, order, probe, sort, source, window};
use crate::data::shape::ColumnShape;

/// The processor of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The device.
    Device,
    /// The host, since the pipeline reads rows that the host sorts.
    Host,
}

/// A lowered program, ready to be compiled.
#[derive(Debug)]
pub struct Lowered {
    /// Kernels in order of execution.
    pub kernels: Vec<Kernel>,
    /// The processor of each pipeline.
    pub places: Vec<Place>,
}

/// Generates the kernels of `program`, whose scans have only the filters that are not decided on packed values. `scans` describes the scan of each
/// scanning pipeline; `streamed`: segments are invalid after the kernel that reads them.
///
/// # Errors
/// Operations that the device does not support.
pub fn lower(
    program: &Program,
    sinks: &[SinkLayout],
    scans: &BTreeMap<usize, ScanShape>,
    inputs: &[u64],
    streamed: bool,
) -> Result<Lowered> {
    let places = places(program, sinks)?;
    let mut kernels = vec![];
    for (index, pipeline) in program.pipelines.iter().enumerate() {
        if places[index] == Place::Host {
            continue;
        }
        let lowering = Lowering { program, sinks, index, pipeline, streamed };
        match scans.get(&index) {
            Some(shape) => {
                for number in 0..shape.kernels.len() {
                    kernels.push(lowering.scan(number, shape)?);
                }
            }
            None => kernels.push(lowering.flat(inputs)?),
        }
        let here = |later: usize| places[later] == Place::Device && program.pipelines[later].sink == pipeline.sink;
        if !(index + 1..program.pipelines.len()).any(here) {
            let finishing = lowering.end()?.into_iter().map(|kernel| Kernel { finishes: true, ..kernel });
            kernels.extend(finishing);
        }
    }
    Ok(Lowered { kernels, places })
}

/// Assigns pipelines to processors: those that read rows which the host sorts run on the host.
pub fn places(program: &Program, layouts: &[SinkLayout]) -> Result<Vec<Place>> {
    let by_host = |(sink, layout): (&Sink, &SinkLayout)| {
        matches!(sink, Sink::Sort { .. }) && !matches!(layout, SinkLayout::Rows(rows) if rows.sorted.is_some())
    };
    let mut on_host: Vec<bool> = program.sinks.iter().zip(layouts).map(by_host).collect();
    let mut places = vec![];
    for pipeline in &program.pipelines {
        let reads_host = match &pipeline.source {
            Source::Rows { sink, .. } | Source::Build { sink, .. } => on_host[*sink],
            _ => false,
        };
        let probes_host = pipeline
            .operators
            .iter()
            .any(|operator| matches!(operator, Operator::Probe(probe) if on_host[probe.build]));
        let probes = pipeline.operators.iter().any(|operator| matches!(operator, Operator::Probe(_)));
        if probes_host || (reads_host && probes) {
            return Err(Unsupported::new("join", "of rows that are sorted in between"));
        }
        if reads_host && matches!(program.sinks[pipeline.sink], Sink::Functions { .. }) {
            return Err(Unsupported::new("functions of groups", "of rows that the host sorts"));
        }
        if reads_host {
            on_host[pipeline.sink] = true;
        }
        places.push(if reads_host { Place::Host } else { Place::Device });
    }
    Ok(places)
}

/// Bytes of tables in shared memory from which only one block runs per multiprocessor.
const LARGE_SHARED: u64 = 8 << 10;

/// Largest number of bytes of a bitmap that is copied into shared memory (`SHARED_BITMAP`), and of all in a kernel (`SHARED_BITMAPS`).
const SHARED_BITMAP: u32 = 32 << 10;
const SHARED_BITMAPS: u32 = 40 << 10;

/// Largest number of keys whose bitmap is folded: each block reads all of it.
const MOST_TO_FOLD: u32 = 1 << 25;

struct Lowering<'a> {
    program: &'a Program,
    sinks: &'a [SinkLayout],
    index: usize,
    pipeline: &'a Pipeline,
    streamed: bool,
}

impl Lowering<'_> {
    /// Generates kernel `number` of a scan.
    fn scan(&self, number: usize, shape: &ScanShape) -> Result<Kernel> {
        let Source::Scan(scan) = &self.pipeline.source else { unreachable!("a scan's pipeline") };
        let mut g = Generator::new();
        let prunes = self.prunes(scan);
        let shapes: &[ColumnShape] = &shape.kernels[number];
        let choice = Choice::new(self.index, &shape.tests, shapes, &prunes);
        (g.threads, g.min_blocks) = self.block(&choice);
        g.passing = self.streamed && scan.fields.iter().any(|field| field.ty.phys == Phys::Str) || self.uses_parts();
        g.hosted = self.uses_host_text();
        g.passing |= g.hosted;
        self.prologue(&mut g);
        scan::scan(&mut g, scan, shapes, &choice)?;
        self.operators(&mut g)?;
        let name = format!("pipeline_{}_{number}", self.index);
        self.finish(g, name, Work::Segments(number), format!("pipeline {}: scan {}", self.index, scan.name))
    }

    /// Whether the pipeline reads or probes a sink in parts, whose strings are invalid after the part.
    fn uses_parts(&self) -> bool {
        self.uses(|sink| sink.partition().is_some())
    }

    /// Whether the pipeline reads or probes a hash build with strings in host memory, which is reused after the query.
    fn uses_host_text(&self) -> bool {
        self.uses(|sink| matches!(sink, SinkLayout::Build(build) if build.host_strings() > 0))
    }

    fn uses(&self, is: impl Fn(&SinkLayout) -> bool) -> bool {
        let probes = |operator: &Operator| matches!(operator, Operator::Probe(probe) if is(&self.sinks[probe.build]));
        let reads = match &self.pipeline.source {
            Source::Rows { sink, .. } | Source::Build { sink, .. } => is(&self.sinks[*sink]),
            _ => false,
        };
        reads || self.pipeline.operators.iter().any(probes)
    }

    /// Threads of a block, and least number of resident blocks per multiprocessor. Large tables in shared memory are shared by as many threads as
    /// possible, which leaves most memory to the cache.
    fn block(&self, choice: &Choice<'_>) -> (u32, u32) {
        let bitmaps: u64 = choice.keys().filter(|test| test.shared).map(|test| u64::from(test.keys / 8)).sum();
        let groups = match &self.sinks[self.pipeline.sink] {
            SinkLayout::Groups(layout) if layout.table == GroupTable::Private => return (group::PRIVATE_BLOCK, 0),
            SinkLayout::Groups(layout) if layout.table == GroupTable::Shared => layout.cells * layout.words as u64 * 8,
            _ => 0,
        };
        let far = choice.keys().any(|test| !test.shared);
        match bitmaps + groups > LARGE_SHARED || far {
            true if choice.keys().count() > 1 => (TWO_KEYS_BLOCK, 1),
            true => (WIDE_BLOCK, 1),
            false => (BLOCK, 4),
        }
    }

    /// Tests of scan rows against key bitmaps of builds, ordered by savings per cost.
    fn prunes(&self, scan: &Scan) -> Vec<KeyTest> {
        let mut tests: Vec<(f64, KeyTest)> = vec![];
        for prune in &scan.prune {
            let SinkLayout::Build(layout) = &self.sinks[prune.build] else { continue };
            let Some((buffer, part)) = layout.key_bits(prune.build, prune.key) else { continue };
            let Ok(keys) = u32::try_from(part.size) else { continue };
            let Some(fraction) = coarse_of_keys(layout.fraction) else { continue };
            // The part of a build in parts is not known at this point.
            if layout.partition.is_some() || tests.iter().any(|(_, test)| test.column == prune.column) {
                continue;
            }
            let shared = (keys / 32 + 1) * 4 <= SHARED_BITMAP;
            let bounds = layout.key_bounds(prune.build, prune.key);
            let range = scan.fields[prune.column].ty.range;
            let within = range.is_some_and(|(lo, hi)| lo >= part.min && hi < part.min + i128::from(keys));
            let (column, min) = (prune.column, part.min as i64);
            let foldable = !shared && keys <= MOST_TO_FOLD && self.has_shared_room();
            let folded = layout.folded_bits.filter(|bits| foldable && keys / 4 > *bits);
            let test = KeyTest { column, buffer, min, keys, within, shared, folded, fraction, bounds };
            tests.push(((1.0 - fraction) / test.cost(), test));
        }
        tests.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut left = SHARED_BITMAPS;
        let fits = |mut test: KeyTest| {
            let bytes = (test.keys / 32 + 1) * 4;
            test.shared &= bytes <= left;
            left -= if test.shared { bytes } else { 0 };
            test
        };
        let mut tests: Vec<KeyTest> = tests.into_iter().map(|(_, test)| test).map(fits).collect();
        // There is room for one folded bitmap.
        tests.iter_mut().filter(|test| test.folded.is_some()).skip(1).for_each(|test| test.folded = None);
        tests
    }

    /// Whether the sink leaves most of the shared memory.
    fn has_shared_room(&self) -> bool {
        match &self.sinks[self.pipeline.sink] {
            SinkLayout::Groups(groups) => match groups.table {
                GroupTable::Private => false,
                GroupTable::Shared => groups.cells * groups.words as u64 * 8 <= LARGE_SHARED,
                GroupTable::Hash => groups.own_slots.is_none(),
                GroupTable::One | GroupTable::Dense | GroupTable::Wide => true,
            },
            _ => true,
        }
    }

    /// Generates the kernel of a pipeline over rows in device memory.
    fn flat(&self, inputs: &[u64]) -> Result<Kernel> {
        let mut g = Generator::new();
        g.hosted = self.uses_host_text();
        g.passing = self.uses_parts() || g.hosted;
        self.prologue(&mut g);
        let (most, from) = match &self.pipeline.source {
            Source::Rows { sink, .. } => {
                let rows = match &self.sinks[*sink] {
                    SinkLayout::Rows(rows) => rows,
                    SinkLayout::Groups(groups) => &groups.rows,
                    SinkLayout::Build(_) => return Err(Unsupported::new("rows", "of a hash build")),
                };
                let (rows, state) = match (&rows.sorted, &rows.grouped) {
                    (Some(sorted), _) => (&sorted.rows, sort::state(*sink)),
                    (None, Some(grouped)) => (&grouped.rows, sort::state(*sink)),
                    (None, None) => (rows, format!("sink{sink}.state")),
                };
                let count = state_count(&mut g, &state, rows.capacity);
                self.rows_loop(&mut g, &count);
                if rows.reserves {
                    let live = g.params.pointer("u8", "live", Binding::Named(format!("sink{sink}.live")));
                    g.filter(&format!("{live}[row]"));
                }
                let loads = g.flat_loads(&rows.columns, "row", None);
                g.push_loads(loads);
                (rows.capacity, format!("rows of #{sink}"))
            }
            Source::Build { sink, rows, fields } => {
                let SinkLayout::Build(layout) = &self.sinks[*sink] else {
                    return Err(Unsupported::new("build rows", "of a sink that is no hash build"));
                };
                source::build_rows(&mut g, (*sink, layout), *rows, fields, |g, count| self.rows_loop(g, count));
                (layout.capacity, format!("rows of build #{sink}"))
            }
            Source::Input { input, fields } => {
                self.uploaded(&mut g, &format!("input{input}"), fields);
                (inputs[*input], format!("input {input}"))
            }
            Source::Values { rows, fields } => {
                self.uploaded(&mut g, &format!("values{}", self.index), fields);
                (rows.len() as u64, "values".into())
            }
            Source::Scan(_) => unreachable!("scans have segments"),
        };
        self.operators(&mut g)?;
        let name = format!("pipeline_{}", self.index);
        self.finish(g, name, Work::Rows(most), format!("pipeline {}: {from}", self.index))
    }

    /// Opens the loop over `count` rows in device memory; in windows, if the sink may overflow.
    fn rows_loop(&self, g: &mut Generator, count: &str) {
        match &self.sinks[self.pipeline.sink] {
            SinkLayout::Rows(rows) if rows.flushes => source::window(g, count),
            _ => source::flat(g, count),
        }
    }

    fn uploaded(&self, g: &mut Generator, owner: &str, fields: &[warpmill_ir::Field]) {
        let count = g.params.add("u64".into(), 8, "count", Binding::Named(format!("{owner}.count")));
        self.rows_loop(g, &count);
        let loads = g.flat_loads(&FlatColumn::all(owner, fields), "row", None);
        g.push_loads(loads);
    }

    fn prologue(&self, g: &mut Generator) {
        g.code.line("const u32 lane = threadIdx.x & 31;");
        probe::prologue(g, self.pipeline.operators.iter().filter_map(|operator| self.list_of(operator)));
        match &self.sinks[self.pipeline.sink] {
            SinkLayout::Groups(layout) => group::prologue(g, self.pipeline.sink, layout),
            SinkLayout::Build(layout) => build::prologue(g, layout),
            SinkLayout::Rows(_) => {}
        }
    }

    /// The build of whose rows with one key `operator` reads the list. `None` for kernels with a record per thread, which have few registers.
    fn list_of(&self, operator: &Operator) -> Option<SinkId> {
        if matches!(&self.sinks[self.pipeline.sink], SinkLayout::Groups(groups) if groups.table == GroupTable::Private)
        {
            return None;
        }
        let Operator::Probe(probe) = operator else { return None };
        let SinkLayout::Build(build) = &self.sinks[probe.build] else { return None };
        let is_list = !matches!(build.table, Table::All | Table::Bitmap) && build.order.is_none();
        let exists_only = matches!(probe.kind, JoinKind::ProbeSemi | JoinKind::ProbeAnti | JoinKind::ProbeMark);
        (is_list && !(exists_only && probe.residual.is_none())).then_some(probe.build)
    }

    /// Whether most rows are expected to pass all operators from `position` on: each build has most keys, or the scan has tested one of its keys.
    fn mostly_pass(&self, g: &Generator, position: usize) -> bool {
        let probed = |at: usize, probe: &Probe| {
            let SinkLayout::Build(layout) = &self.sinks[probe.build] else { return false };
            let before = Pipeline { operators: self.pipeline.operators[..at].to_vec(), ..self.pipeline.clone() };
            let tested = |key: &Expr| {
                source_column(&before, key).is_some_and(|column| g.tested.iter().any(|test| test.column == column))
            };
            coarse_of_keys(layout.fraction).is_none() || probe.keys.iter().any(tested)
        };
        self.pipeline.operators.iter().enumerate().skip(position).all(|(at, operator)| match operator {
            Operator::Filter(_) => false,
            Operator::Project(_) | Operator::Limit { .. } => true,
            Operator::Probe(probe) => match probe.kind {
                JoinKind::Inner | JoinKind::ProbeSemi => probe.residual.is_none() && probed(at, probe),
                JoinKind::ProbeOuter | JoinKind::ProbeMark | JoinKind::Full | JoinKind::BuildOuter => true,
                JoinKind::ProbeAnti | JoinKind::BuildOnly => false,
            },
        })
    }

    /// Generates the operators and the sink, inside the loop over rows.
    fn operators(&self, g: &mut Generator) -> Result<()> {
        let mut rank = self.reads_sorted().then(|| "row".to_string());
        for (position, operator) in self.pipeline.operators.iter().enumerate() {
            match operator {
                Operator::Filter(predicate) => {
                    rank = None;
                    g.filter_by(predicate)?;
                }
                Operator::Project(list) => g.push_exprs(list.iter().map(|(_, expr)| expr)),
                Operator::Limit { skip, fetch } => rank = self.limit(g, rank, *skip, *fetch),
                Operator::Probe(probe) => {
                    rank = None;
                    let SinkLayout::Build(layout) = &self.sinks[probe.build] else {
                        return Err(Unsupported::new("probe", "of a sink that is no hash build"));
                    };
                    match &layout.order {
                        Some(order) => asof::probe(g, probe, layout, order)?,
                        None => probe::probe(g, probe, layout, self.mostly_pass(g, position))?,
                    }
                    if probe.kind == JoinKind::BuildOnly {
                        return Ok(());
                    }
                }
            }
        }
        let id = self.pipeline.sink;
        match (&self.program.sinks[id], &self.sinks[id]) {
            (sink @ Sink::HashBuild { keys, payload, .. }, SinkLayout::Build(layout)) => match &layout.order {
                Some(order) => asof::append(g, id, layout, order, sink),
                None => build::build(g, id, layout, keys, payload),
            },
            (Sink::Aggregate { groups, .. }, SinkLayout::Groups(layout)) => group::accumulate(g, id, layout, groups),
            (sink @ Sink::Window { .. }, SinkLayout::Rows(layout)) => {
                let rank = rank.filter(|_| order::feeds_alone(self.program, id));
                window::append(g, id, layout, sink, rank.as_deref())
            }
            (Sink::Functions { .. }, SinkLayout::Rows(RowsLayout { grouped: Some(grouped), .. })) => {
                let SinkLayout::Rows(layout) = &self.sinks[id] else { unreachable!("a layout of rows") };
                let rank = rank.filter(|_| order::feeds_alone(self.program, id));
                grouped::append(g, id, layout, grouped, rank.as_deref())
            }
            (Sink::Sort { keys, fields, .. }, SinkLayout::Rows(layout)) => match &layout.top {
                Some(top) => top::append_rows(g, id, layout, top, &keys[0], fields),
                None => build::append_rows(g, id, layout, fields),
            },
            (sink @ Sink::Collect { .. }, SinkLayout::Rows(layout)) => match rank {
                Some(rank) if order::feeds_alone(self.program, id) => {
                    build::append_in_order(g, id, layout, sink.fields(), &rank)
                }
                _ => build::append_rows(g, id, layout, sink.fields()),
            },
            (sink, SinkLayout::Rows(layout)) => build::append_rows(g, id, layout, sink.fields()),
            _ => Err(Unsupported::new("sink", "whose layout is of another kind")),
        }
    }

    /// Whether the input rows are in an order that matters.
    fn reads_sorted(&self) -> bool {
        order::reads_sorted(self.program, self.sinks, self.pipeline)
    }

    /// Generates a limit, by rank if rows have one; returns the rank of remaining rows.
    fn limit(&self, g: &mut Generator, rank: Option<String>, skip: u64, fetch: Option<u64>) -> Option<String> {
        let ordered = rank.is_some();
        let at = rank.unwrap_or_else(|| {
            let counter = Binding::Named(format!("limit{}", self.index));
            let counter = g.params.output("SinkState", "limit", counter);
            let active = g.active.clone();
            g.code.define(CType::U64, "at", format!("append({counter}, {active}, lane)"))
        });
        let skip_at = g.params.value(CType::U64, "skip", skip.to_le_bytes().to_vec());
        let end = skip.saturating_add(fetch.unwrap_or(u64::MAX));
        let end = g.params.value(CType::U64, "end", end.to_le_bytes().to_vec());
        g.filter(&format!("{at} >= {skip_at} && {at} < {end}"));
        ordered.then(|| g.code.define(CType::U64, "rank", format!("{at} - {skip_at}")))
    }

    fn finish(&self, mut g: Generator, entry: String, work: Work, label: String) -> Result<Kernel> {
        g.code.close_to(1);
        match &self.sinks[self.pipeline.sink] {
            SinkLayout::Groups(layout) => {
                group::epilogue(&mut g, self.pipeline.sink, layout);
                if layout.table == GroupTable::Private {
                    g.threads = group::PRIVATE_BLOCK;
                }
            }
            SinkLayout::Build(layout) => {
                build::epilogue(&mut g, self.pipeline.sink, layout);
                if layout.order.is_some() && layout.reserves {
                    asof::epilogue(&mut g, self.pipeline.sink, layout);
                }
            }
            SinkLayout::Rows(_) => {}
        }
        let threads = g.threads;
        Ok(kernel(g, entry, threads, work, self.index, label))
    }

    /// The kernels that finish the sink after all its device pipelines.
    fn end(&self) -> Result<Vec<Kernel>> {
        let id = self.pipeline.sink;
        match (&self.program.sinks[id], &self.sinks[id]) {
            (Sink::HashBuild { .. }, SinkLayout::Build(layout)) => match &layout.order {
                Some(order) => asof::kernels(id, layout, order, self.index),
                None if layout.table == Table::Wide => Ok(vec![self.link(id, layout)]),
                None => Ok(vec![]),
            },
            (Sink::Aggregate { groups, fields, .. }, SinkLayout::Groups(layout)) => {
                let mut g = Generator::new();
                g.code.line("const u32 lane = threadIdx.x & 31;");
                let count = match layout.table {
                    GroupTable::Wide => {
                        let taken = g.params.pointer("u64", "taken", Binding::Named(format!("sink{id}.taken")));
                        let cells = g.params.value(CType::U64, "cells", layout.cells.to_le_bytes().to_vec());
                        let state = g.sink_state(id);
                        g.code.line(format!("if (blockIdx.x == 0 && threadIdx.x == 0) {state}->taken = *{taken};"));
                        format!("*{taken} < {cells} ? *{taken} : {cells}")
                    }
                    _ => g.params.value(CType::U64, "cells", layout.cells.to_le_bytes().to_vec()),
                };
                if layout.rows.reserves {
                    g.code.line("Reserved reserved = {0, 0};");
                }
                source::flat(&mut g, &count);
                group::finish(&mut g, id, layout, groups, fields)?;
                g.code.close_to(1);
                let label = format!("pipeline {}: groups to rows", self.index);
                Ok(vec![kernel(g, format!("groups_{id}"), BLOCK, Work::Rows(layout.cells), self.index, label)])
            }
            (sink, SinkLayout::Rows(layout)) => {
                let mut kernels = match &layout.top {
                    Some(top) => self.top(id, layout, top)?,
                    None => vec![],
                };
                if let Sink::Sort { keys, .. } = sink {
                    kernels.extend(sort::kernels(id, layout, keys, self.index)?);
                }
                kernels.extend(grouped::kernels(id, layout, sink, self.index)?);
                if let Sink::Window { .. } = sink {
                    kernels.extend(window::kernels(id, layout, sink, self.index)?);
                }
                Ok(kernels)
            }
            _ => Ok(vec![]),
        }
    }

    /// Selects the first rows of a sort, digit by digit of their order images, and copies them.
    fn top(&self, id: SinkId, layout: &RowsLayout, top: &Top) -> Result<Vec<Kernel>> {
        let label = format!("pipeline {}: top {}", self.index, top.limit);
        let finish = |g: Generator, entry: String, label: String| {
            kernel(g, entry, BLOCK, Work::Rows(layout.capacity), self.index, label)
        };
        let mut kernels = vec![];
        for digit in top.digits() {
            let mut g = Generator::new();
            let count = sink_count(&mut g, id, layout.capacity);
            top::select(&mut g, top, &digit, &count);
            kernels.push(finish(g, format!("select_{id}"), format!("{label}: bits from {}", digit.shift)));
        }
        let mut g = Generator::new();
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let count = sink_count(&mut g, id, layout.capacity);
        top::copy_rows(&mut g, id, layout, top, &count)?;
        kernels.push(finish(g, format!("top_{id}"), label));
        Ok(kernels)
    }

    fn link(&self, id: SinkId, layout: &BuildLayout) -> Kernel {
        let mut g = Generator::new();
        g.code.line("const u32 lane = threadIdx.x & 31;");
        let count = sink_count(&mut g, id, layout.capacity);
        source::flat(&mut g, &count);
        build::link_wide(&mut g, id, layout);
        g.code.close_to(1);
        let label = format!("pipeline {}: link rows", self.index);
        kernel(g, format!("link_{id}"), BLOCK, Work::Rows(layout.capacity), self.index, label)
    }
}
