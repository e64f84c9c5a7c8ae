//! Partitioned execution: each device runs a program on the rows of a key range, or of a range of row segments (Yogatama, thesis section 5.2).
//!
//! One scan, the anchor, is split into as many ranges as there are devices. If it is sorted by a column that is joined or grouped by, the ranges are
//! of that column, and every scan joined on it is split by the same ranges: rows that join are on one device, and so are the rows of a group. A scan
//! in another order is read by every device, which keeps the rows of its range. All other scans are read by every device. [`PartitionCost`] decides
//! between several such keys. Results that have to be merged, states or rows, are sent to the CPU, which runs the rest.
//!
//! If it costs less, devices exchange rows in between ([`Shuffle`]).

mod cost;
mod origin;
mod ranges;
mod shuffle;
mod spread;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use warpmill_ir::Unsupported;
use warpmill_ir::graph::{self, below, renumber};
use warpmill_ir::key_range::KeyRange;
use warpmill_ir::origin::ScanColumn;
use warpmill_ir::{Expr, Pipeline, Program, Route, Scan, Sink, SinkId, Source};

pub use self::cost::{PartitionCost, PartitionRates};
use self::origin::classes;
use self::ranges::{cuts, is_clustered, is_clustered_within, is_key, key_ranges};
pub use self::shuffle::Shuffle;
use self::spread::Walk;
use crate::Arrives;
use crate::share::{finish, is_scan, only_for, schema_of};

/// A program in parts, one for each device.
#[derive(Debug, Clone)]
pub struct Partition {
    /// The pipeline of the whole program, the last that feeds its sink, at which the parts arrive.
    pub pipeline: usize,
    /// The pipelines that the CPU does not run.
    pub elsewhere: Vec<usize>,
    /// The devices' programs; the last sink of each has the partial result.
    pub programs: Vec<Arc<Program>>,
    /// The form of the partial results.
    pub arrives: Arrives,
    /// The key that defines the ranges; `None`: ranges of row segments.
    pub key: Option<PartitionKey>,
    /// Row segments of the anchor that each device reads.
    pub segments: Vec<usize>,
    /// Addresses of the tables that every device reads as a whole.
    pub whole: Arc<HashSet<usize>>,
    /// Rows that devices exchange before they run the programs, as their input 0.
    pub shuffle: Option<Shuffle>,
    /// The estimated costs.
    pub cost: PartitionCost,
    /// The reason why the CPU cannot merge the partial results.
    cpu_refuses: Option<&'static str>,
}

/// A column whose ranges split scans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKey {
    /// The anchor's table.
    pub table: String,
    /// Name of the column.
    pub column: String,
    /// The scans that are split.
    pub scans: usize,
}

/// The row segments of a scan that a device reads, and conditions on their rows.
type Restriction = (Range<usize>, Vec<Expr>);

/// Largest share (1 / FEW) of all scanned bytes that the CPU may have to scan for the rest of the program.
const FEW: u64 = 16;

/// Largest share of the rows of a build's scans for which the build is made only to prune scans: with more, it would prune little.
const SELECTIVE: f64 = 0.25;

/// Groups that are worth sending: the CPU merges fewer while devices would wait for each other.
const MANY_GROUPS: f64 = 65536.0;

/// The factor by which parts by row segments cost more than they scan: every device makes all of the hash builds.
const LARGER_BUILDS: f64 = 1.05;

fn refusal(reason: &str) -> Unsupported {
    Unsupported::new("parts of a program", reason)
}

impl Partition {
    /// Partitions `program` for devices with these rates, with ranges of about the same length by the key that costs least, or by a random key and
    /// with random ranges for a `seed`. `shuffles`: whether devices may exchange rows.
    ///
    /// # Errors
    /// The reason why the program cannot be partitioned.
    pub fn new(
        program: &Program,
        (devices, rates): (usize, PartitionRates),
        (shuffles, seed): (bool, Option<u64>),
    ) -> Result<Self, Unsupported> {
        if program.pipelines.iter().any(|pipeline| matches!(pipeline.source, Source::Input { .. })) {
            return Err(refusal("rows from outside are read once"));
        }
        if program.calls_functions() {
            return Err(refusal("functions of groups run on one device"));
        }
        let bytes = |index: usize| bytes_of(&program.pipelines[index]);
        let scans = (0..program.pipelines.len()).filter(|&index| is_scan(&program.pipelines[index]));
        let mut scans: Vec<usize> = scans.collect();
        scans.sort_by_key(|&index| std::cmp::Reverse(bytes(index)));
        let &largest = scans.first().ok_or_else(|| refusal("it scans no tables"))?;
        let (classes, mut tried, mut made, mut refused) = (classes(program), HashSet::new(), vec![], None);
        for &anchor in &scans {
            let Source::Scan(scan) = &program.pipelines[anchor].source else { continue };
            let Ok(cuts) = cuts(scan.table.num_segments(), devices, seed) else { continue };
            for column in (0..scan.columns.len()).filter(|&column| is_clustered(scan, column, &cuts)) {
                // The largest scan that is sorted by a key defines its ranges.
                if tried.insert(classes.find((anchor, column))) {
                    let members = classes.members((anchor, column));
                    match Self::by_key(program, (anchor, column), &members, (&cuts, rates)) {
                        Ok(parts) => made.push(parts),
                        Err(reason) => refused = refused.or(Some(reason)),
                    }
                    if shuffles {
                        // Partitioning may succeed even if rows cannot be exchanged.
                        made.extend(Self::by_sent_key(program, (anchor, column), &members, (&cuts, rates)).ok());
                    }
                }
            }
        }
        let whole = HashMap::from([(largest, None)]);
        let segments = match &program.pipelines[largest].source {
            Source::Scan(scan) => scan.table.num_segments(),
            _ => 0,
        };
        let by_segments = cuts(segments, devices, seed).and_then(|cuts| {
            let ranges = |_, device: usize| Ok((cuts[device].clone(), vec![]));
            Self::with(Split::of(program, &whole), None, (&cuts, rates), &ranges)
        });
        match by_segments {
            Ok(parts) => made.push(parts),
            Err(reason) => refused = refused.or(Some(reason)),
        }
        if shuffles {
            let many = |parts: &Self| seed.is_some() || parts.many_groups(program);
            let hashed = made.iter().filter(|parts| many(parts));
            let hashed = hashed.filter_map(|parts| parts.by_groups(program, GroupsTo::Hashed, rates).ok());
            let alone = made.iter().filter(|parts| many(parts) || parts.cpu_refuses.is_some());
            let first = alone.filter_map(|parts| parts.by_groups(program, GroupsTo::First, rates).ok());
            let merged: Vec<Self> = hashed.chain(first).collect();
            made.extend(merged);
        }
        refused = refused.or_else(|| made.iter().find_map(|parts| parts.cpu_refuses).map(refusal));
        made.retain(|parts| parts.cpu_refuses.is_none());
        if let Some(seed) = seed.filter(|_| !made.is_empty()) {
            return Ok(made.swap_remove(seed as usize % made.len()));
        }
        let cost = |parts: &Self| parts.cost.in_parts() * if parts.key.is_some() { 1.0 } else { LARGER_BUILDS };
        let least = made.into_iter().min_by(|one, other| cost(one).total_cmp(&cost(other)));
        least.ok_or_else(|| refused.unwrap_or_else(|| refusal("nothing can be split")))
    }

    /// Partitions by ranges of a column of the anchor.
    fn by_key(
        program: &Program,
        (anchor, key): ScanColumn,
        members: &HashMap<usize, usize>,
        (cuts, rates): (&[Range<usize>], PartitionRates),
    ) -> Result<Self, Unsupported> {
        let Source::Scan(scan) = &program.pipelines[anchor].source else { return Err(refusal("no scan")) };
        let keys = key_ranges(scan, key, cuts)?;
        let split: HashMap<usize, Option<usize>> =
            keyed(program, members).map(|(index, column)| (index, Some(column))).collect();
        let name = PartitionKey::new(scan, key, split.len());
        let ranges = |index: usize, device: usize| restriction(program, (index, members[&index]), keys[device]);
        Self::with(Split::of(program, &split), Some(name), (cuts, rates), &ranges)
    }

    /// Partitions by ranges of a column of the anchor; the largest scan that is joined on it and sorted otherwise is read in parts, and its rows are
    /// sent to the devices of their ranges.
    fn by_sent_key(
        program: &Program,
        (anchor, key): ScanColumn,
        members: &HashMap<usize, usize>,
        (cuts, rates): (&[Range<usize>], PartitionRates),
    ) -> Result<Self, Unsupported> {
        let Source::Scan(scan) = &program.pipelines[anchor].source else { return Err(refusal("no scan")) };
        let keys = key_ranges(scan, key, cuts)?;
        let is_sent = |index: usize, column: usize| match &program.pipelines[index].source {
            Source::Scan(scan) => {
                index != anchor && is_key(scan, column) && !is_clustered_within(scan, column, &keys, cuts.len())
            }
            _ => false,
        };
        let sent = members.iter().filter(|&(&index, &column)| is_sent(index, column));
        let sent = sent.max_by_key(|&(&index, _)| (bytes_of(&program.pipelines[index]), index));
        let (&index, &column) = sent.ok_or_else(|| refusal("all scans lie in the order of the key"))?;
        let Source::Scan(sent) = &program.pipelines[index].source else { return Err(refusal("no scan")) };
        let own = ranges::cuts(sent.table.num_segments(), cuts.len(), None)?;
        let (rest, at) = shuffle::instead_of_scan(program, index, sent.columns[column])?;
        let (pipeline, sink) = shuffle::scan_of(program, &rest)?;
        let first = |range: &Range<usize>| {
            let mut pipeline = pipeline.clone();
            if let Source::Scan(scan) = &mut pipeline.source {
                scan.table = scan.table.part(range.clone());
            }
            let sinks = vec![sink.clone()];
            let schema = schema_of(&sinks);
            Arc::new(Program::new(vec![pipeline], sinks, schema))
        };
        let last = keys[..keys.len() - 1]
            .iter()
            .map(|range| i64::try_from(range.greatest.clamp(i64::MIN.into(), i64::MAX.into())));
        let last = last.collect::<Result<_, _>>().map_err(|_| refusal("a key beyond 64 bits"))?;
        let shuffle = Shuffle {
            firsts: own.iter().map(first).collect(),
            route: Route::Ranges { column: at, last },
            safe_rows: None,
            what: format!("rows of {}", sent.name),
        };
        let split: HashMap<usize, Option<usize>> = keyed(program, members)
            .map(|(other, column)| (other, Some(if other == index { at } else { column })))
            .collect();
        let name = PartitionKey::new(scan, key, split.len());
        let ranges = |other: usize, device: usize| restriction(program, (other, members[&other]), keys[device]);
        let sent_bytes = cost::passing_rows(sent) * shuffle::row_bytes(&rest.fields) as f64;
        let with = Split { whole: program, program: &rest.program, split: &split, meets: ON_THE_WAY };
        let mut parts = Self::with(with, Some(name), (cuts, rates), &ranges)?;
        parts.cost.add_shuffle((sent.plain_bytes() as f64, sent_bytes), cuts.len(), rates);
        Ok(Self { shuffle: Some(shuffle), ..parts })
    }

    /// Whether the partial results have so many groups that exchanging them is worth a trial.
    fn many_groups(&self, program: &Program) -> bool {
        cost::groups_in_parts(program, self.pipeline, self.programs.len()) >= MANY_GROUPS
    }

    /// The same partitioning with an exchange of groups: devices merge the groups that they receive, and run the rest.
    fn by_groups(&self, program: &Program, to: GroupsTo, rates: PartitionRates) -> Result<Self, Unsupported> {
        let sink = program.pipelines[self.pipeline].sink;
        if self.shuffle.is_some() || self.arrives != Arrives::States || sink + 1 == program.sinks.len() {
            return Err(refusal("no groups arrive that something comes after"));
        }
        let rest = shuffle::instead_of_groups(program, sink, self.pipeline)?;
        let firsts: Vec<_> =
            self.programs.iter().map(|part| Arc::new(with_groups(part, &program.sinks[sink]))).collect();
        let keys = match &program.sinks[sink] {
            Sink::Aggregate { groups, .. } => groups.len(),
            _ => 0,
        };
        let (route, meets, devices) = match to {
            GroupsTo::Hashed => {
                (Route::Hash { columns: (0..keys).collect() }, Meets::After { groups: Some(sink) }, self.programs.len())
            }
            GroupsTo::First => (Route::First, Meets::Last, 1),
        };
        let split = HashMap::from([(rest.pipeline, None)]);
        let cuts: Vec<Range<usize>> = self.segments.iter().map(|&count| 0..count).collect();
        let none = |_, _| Err(refusal("no scan"));
        let with = Split { whole: program, program: &rest.program, split: &split, meets };
        let mut parts = Self::with(with, self.key.clone(), (&cuts, rates), &none)?;
        parts.cost.after(&self.cost);
        let groups = cost::groups_in_parts(program, self.pipeline, cuts.len());
        let bytes = groups * shuffle::row_bytes(&rest.fields) as f64;
        parts.cost.add_shuffle((0.0, bytes), devices, rates);
        let shuffle = Shuffle {
            firsts,
            route,
            safe_rows: shuffle::safe_rows(&program.sinks[sink]),
            what: format!("groups of pipeline {}", self.pipeline),
        };
        Ok(Self { shuffle: Some(shuffle), whole: self.whole.clone(), ..parts })
    }

    /// Restricts the scans of `split` to the row segments and filters that `ranges` returns for a scan and a device.
    fn with(
        Split { whole, program, split, meets }: Split<'_>,
        key: Option<PartitionKey>,
        (cuts, rates): (&[Range<usize>], PartitionRates),
        ranges: &dyn Fn(usize, usize) -> Result<Restriction, Unsupported>,
    ) -> Result<Self, Unsupported> {
        let sink = match meets {
            Meets::After { groups } => Walk::meeting(program, split, groups)?,
            Meets::Last => program.sinks.len() - 1,
        };
        let feeds: Vec<usize> = (0..program.pipelines.len()).filter(|&it| program.pipelines[it].sink == sink).collect();
        let &pipeline = feeds.last().ok_or_else(|| refusal("nothing arrives"))?;
        let mut own: BTreeSet<usize> = feeds.iter().copied().collect();
        let mut sinks = BTreeSet::new();
        for &feed in &feeds {
            let (pipelines, needed) = below(program, feed);
            own.extend(pipelines);
            sinks.extend(needed);
        }
        add_pruning_builds(program, split, &mut own, &mut sinks);
        let before =
            feeds.iter().flat_map(|&feed| below(whole, feed).0).filter(|index| !feeds.contains(index)).collect();
        let mut elsewhere: BTreeSet<usize> = only_for(whole, &feeds, &before).into_iter().collect();
        elsewhere.extend(feeds.iter().filter(|&&feed| feed != pipeline));
        let on_cpu = |index: &usize| *index != pipeline && !elsewhere.contains(index);
        let marks = |build: SinkId| {
            let sets = |&index: &usize| {
                graph::probes(&whole.pipelines[index]).any(|(_, it)| it.build == build && graph::sets_flags(it))
            };
            elsewhere.iter().chain(&feeds).any(sets)
        };
        let reads_marks =
            |index: usize| matches!(&whole.pipelines[index].source, Source::Build { sink, .. } if marks(*sink));
        let mut cpu_refuses = None;
        if (0..program.pipelines.len()).filter(on_cpu).any(reads_marks) {
            cpu_refuses = Some("the cpu reads a build whose partners only devices have met");
        }
        let all: u64 = whole.pipelines.iter().map(bytes_of).sum();
        let again: u64 = (0..program.pipelines.len()).filter(on_cpu).map(|it| bytes_of(&whole.pipelines[it])).sum();
        if again > all / FEW {
            cpu_refuses = Some("what comes after the parts scans too much for the cpu");
        }
        let (mut programs, mut arrives) = (vec![], Arrives::Rows);
        for device in 0..cuts.len() {
            let part = Part { program, own: &own, sinks: &sinks, sink, split };
            let (made, form) = part.program(&|index| ranges(index, device))?;
            programs.push(Arc::new(made));
            arrives = form;
        }
        let cost = PartitionCost::new(whole, &programs, (pipeline, &own), (arrives, again, rates));
        let segments = cuts.iter().map(|range| range.len()).collect();
        let (elsewhere, whole) = (elsewhere.into_iter().collect(), Arc::new(read_by_all(program, &programs)));
        Ok(Self { pipeline, elsewhere, programs, arrives, key, segments, whole, shuffle: None, cost, cpu_refuses })
    }
}

impl PartitionKey {
    /// Output column `key` of a scan as the partition key of `scans` scans.
    fn new(scan: &Scan, key: usize, scans: usize) -> Self {
        let column = scan.table.schema().field(scan.columns[key]).name().clone();
        Self { table: scan.name.clone(), column, scans }
    }
}

/// The scan columns of `members` that can be keys.
fn keyed<'a>(program: &'a Program, members: &'a HashMap<usize, usize>) -> impl Iterator<Item = ScanColumn> + 'a {
    let members = members.iter().map(|(&index, &column)| (index, column));
    members.filter(
        |&(index, column)| matches!(&program.pipelines[index].source, Source::Scan(scan) if is_key(scan, column)),
    )
}

/// The restriction of a scan to a key range.
fn restriction(program: &Program, (index, column): ScanColumn, range: KeyRange) -> Result<Restriction, Unsupported> {
    let Source::Scan(scan) = &program.pipelines[index].source else { return Err(refusal("no scan")) };
    Ok((range.segments(&scan.table, scan.columns[column]), range.conditions(column, &scan.fields[column].ty)))
}

/// The partitioned scans of a program.
#[derive(Clone, Copy)]
struct Split<'a> {
    /// The whole program.
    whole: &'a Program,
    /// The program that devices run parts of: the same pipelines; one may read exchanged rows instead.
    program: &'a Program,
    /// The partitioned pipelines, each with the column that contains the key, if there is one.
    split: &'a HashMap<usize, Option<usize>>,
    meets: Meets,
}

/// The sink at which parts meet.
#[derive(Debug, Clone, Copy)]
enum Meets {
    /// The first sink that combines rows of several devices.
    After {
        /// The aggregation whose groups are each on one device, because its rows were exchanged.
        groups: Option<SinkId>,
    },
    /// The last sink: one device runs everything before it.
    Last,
}

/// The sink without exchanged groups.
const ON_THE_WAY: Meets = Meets::After { groups: None };

/// The devices that groups are sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupsTo {
    /// The device selected by the hash of a group's keys.
    Hashed,
    /// The first device, which runs the rest alone.
    First,
}

impl<'a> Split<'a> {
    /// The split of a whole program.
    fn of(program: &'a Program, split: &'a HashMap<usize, Option<usize>>) -> Self {
        Self { whole: program, program, split, meets: ON_THE_WAY }
    }
}

/// The program of a part that returns the groups of `sink` instead of states for the CPU.
fn with_groups(part: &Program, sink: &Sink) -> Program {
    let (mut pipelines, mut sinks) = (part.pipelines.clone(), part.sinks.clone());
    // The last two sinks are the groups, and a collection of their rows; the last pipeline collects them.
    let (fields, groups) = (sink.fields().to_vec(), sinks.len() - 2);
    sinks[groups] = sink.clone();
    sinks[groups + 1] = Sink::Collect { fields: fields.clone() };
    if let Some(last) = pipelines.last_mut() {
        last.source = Source::Rows { sink: groups, fields };
    }
    let schema = schema_of(&sinks);
    Program::new(pipelines, sinks, schema)
}

/// Adds the pipelines and sinks of builds that exist on every device and prune scans of `own` to few rows.
fn add_pruning_builds(
    program: &Program,
    split: &HashMap<usize, Option<usize>>,
    own: &mut BTreeSet<usize>,
    sinks: &mut BTreeSet<SinkId>,
) {
    let mut pending: Vec<usize> = own.iter().copied().collect();
    while let Some(index) = pending.pop() {
        for build in pruned_by(&program.pipelines[index]) {
            let feeds = (0..program.pipelines.len()).filter(|&other| program.pipelines[other].sink == build);
            let feeds: Vec<usize> = feeds.collect();
            let (mut pipelines, mut made) = (BTreeSet::from_iter(feeds.iter().copied()), BTreeSet::from([build]));
            for &feed in &feeds {
                let (others, needed) = below(program, feed);
                pipelines.extend(others);
                made.extend(needed);
            }
            let is_whole = pipelines.iter().all(|other| !split.contains_key(other) && *other < index);
            let leaves = feeds.iter().map(|&feed| cost::passing(program, feed)).fold(0.0, f64::max);
            if !sinks.contains(&build) && is_whole && leaves <= SELECTIVE {
                pending.extend(pipelines.difference(own));
                own.extend(pipelines);
                sinks.extend(made);
            }
        }
    }
}

/// The builds that prune the scan of a pipeline.
fn pruned_by(pipeline: &Pipeline) -> Vec<SinkId> {
    match &pipeline.source {
        Source::Scan(scan) => scan.prune.iter().map(|key| key.build).collect(),
        _ => vec![],
    }
}

/// The pipelines that each device runs.
struct Part<'a> {
    program: &'a Program,
    own: &'a BTreeSet<usize>,
    /// The sinks that they need.
    sinks: &'a BTreeSet<SinkId>,
    /// The sink at which the parts arrive.
    sink: SinkId,
    split: &'a HashMap<usize, Option<usize>>,
}

impl Part<'_> {
    /// The program of a device, with scans restricted to row segments and by filters.
    fn program(
        &self,
        range: &dyn Fn(usize) -> Result<Restriction, Unsupported>,
    ) -> Result<(Program, Arrives), Unsupported> {
        let before = self.sinks.iter().copied().filter(|&sink| sink != self.sink);
        let numbers = before.clone().chain([self.sink]).enumerate().map(|(new, old)| (old, new)).collect();
        let numbers: HashMap<SinkId, SinkId> = numbers;
        let mut sinks: Vec<Sink> = before.map(|old| self.program.sinks[old].clone()).collect();
        let mut pipelines = vec![];
        for &index in self.own {
            let whole = &self.program.pipelines[index];
            let mut pipeline = Pipeline { sink: numbers[&whole.sink], ..whole.clone() };
            renumber(&mut pipeline, &numbers);
            if let (Source::Scan(scan), true) = (&mut pipeline.source, self.split.contains_key(&index)) {
                let (segments, filters) = range(index)?;
                scan.table = scan.table.part(segments);
                scan.filters.splice(0..0, filters);
            }
            pipelines.push(pipeline);
        }
        let last = pipelines.last().cloned().ok_or_else(|| refusal("nothing arrives"))?;
        let arrives = finish(&self.program.sinks[self.sink], &last, &mut pipelines, &mut sinks)?;
        let schema = schema_of(&sinks);
        Ok((Program::new(pipelines, sinks, schema), arrives))
    }
}

/// Addresses of the tables that all of `programs` read as `program` does.
fn read_by_all(program: &Program, programs: &[Arc<Program>]) -> HashSet<usize> {
    let tables = |program: &Program| -> HashSet<usize> {
        let scans = program.pipelines.iter().filter_map(|pipeline| match &pipeline.source {
            Source::Scan(scan) => Some(Arc::as_ptr(&scan.table) as usize),
            _ => None,
        });
        scans.collect()
    };
    let all = tables(program);
    programs.iter().fold(all, |all, part| all.intersection(&tables(part)).copied().collect())
}

fn bytes_of(pipeline: &Pipeline) -> u64 {
    match &pipeline.source {
        Source::Scan(scan) => scan.plain_bytes(),
        _ => 0,
    }
}
