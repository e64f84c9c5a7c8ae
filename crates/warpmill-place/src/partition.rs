//! Programs of which each device runs its part: the rows of a range of a key, or of a range of row segments (Yogatama, thesis section 5.2).
//!
//! One scan, the anchor, is split into as many ranges as there are devices. Where it lies in the order of a column that is joined or grouped by,
//! the ranges are of that column, and every scan that is joined on it is split by the same ranges: rows that meet are on one device, and so
//! are those of a group. A scan that lies in another order is read by every device, which keeps the rows of its range. All other scans are read
//! by every device. Among several keys that scans lie in the order of, [`PartitionCost`] decides. What has to be brought together in the end, states or rows, arrives at the
//! CPU, which runs what comes after.

mod cost;
mod origin;
mod spread;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::DataType;
use warpmill_format::TableSnapshot;
use warpmill_ir::Unsupported;
use warpmill_ir::graph::{self, below, renumber};
use warpmill_ir::{ColType, CompareOp, Expr, ExprKind, Phys, Pipeline, Program, Scalar, Scan, Sink, SinkId, Source};

pub use self::cost::{PartitionCost, PartitionRates};
use self::origin::{Classes, ScanColumn};
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
    /// The devices' programs; the last sink of each has what arrives.
    pub programs: Vec<Arc<Program>>,
    /// The form in which the parts arrive.
    pub arrives: Arrives,
    /// The key whose ranges the parts are; `None`: ranges of row segments.
    pub key: Option<PartitionKey>,
    /// Row segments of the anchor that each device reads.
    pub segments: Vec<usize>,
    /// Addresses of the tables that every device reads as a whole.
    pub whole: Arc<HashSet<usize>>,
    /// The estimated costs.
    pub cost: PartitionCost,
}

/// A column by whose ranges scans are split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionKey {
    /// The anchor's table.
    pub table: String,
    /// Its column.
    pub column: String,
    /// The scans that are split.
    pub scans: usize,
}

/// The row segments that a device reads of a scan, and the conditions on their rows.
type Restriction = (Range<usize>, Vec<Expr>);

/// The part of all bytes that programs scan of which the CPU may have to scan again what comes after.
const FEW: u64 = 16;

/// The factor by which parts by row segments cost more than they scan: every device makes all of the hash builds.
const LARGER_BUILDS: f64 = 1.05;

fn refusal(reason: &str) -> Unsupported {
    Unsupported::new("parts of a program", reason)
}

impl Partition {
    /// `program` in parts for so many devices of some rates, with ranges of about the same length by the key that costs least, or a random key
    /// and random ranges of a `seed`.
    ///
    /// # Errors
    /// The reason why it cannot be split.
    pub fn new(
        program: &Program,
        (devices, rates): (usize, PartitionRates),
        seed: Option<u64>,
    ) -> Result<Self, Unsupported> {
        if program.pipelines.iter().any(|pipeline| matches!(pipeline.source, Source::Input { .. })) {
            return Err(refusal("rows from outside are read once"));
        }
        let bytes = |index: usize| bytes_of(&program.pipelines[index]);
        let scans = (0..program.pipelines.len()).filter(|&index| is_scan(&program.pipelines[index]));
        let mut scans: Vec<usize> = scans.collect();
        scans.sort_by_key(|&index| std::cmp::Reverse(bytes(index)));
        let &largest = scans.first().ok_or_else(|| refusal("it scans no tables"))?;
        let (classes, mut tried, mut made, mut refused) = (Classes::new(program), HashSet::new(), vec![], None);
        for &anchor in &scans {
            let Source::Scan(scan) = &program.pipelines[anchor].source else { continue };
            let Ok(cuts) = cuts(scan.table.num_segments(), devices, seed) else { continue };
            for column in (0..scan.columns.len()).filter(|&column| is_clustered(scan, column, &cuts)) {
                // The largest scan that lies in the order of a key says where its ranges end.
                if tried.insert(classes.find((anchor, column))) {
                    let members = classes.members((anchor, column));
                    match Self::by_key(program, (anchor, column), &members, (&cuts, rates)) {
                        Ok(parts) => made.push(parts),
                        Err(reason) => refused = refused.or(Some(reason)),
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
            Self::with(program, &whole, None, (&cuts, rates), &|_, device| Ok((cuts[device].clone(), vec![])))
        });
        match by_segments {
            Ok(parts) => made.push(parts),
            Err(reason) => refused = refused.or(Some(reason)),
        }
        if let Some(seed) = seed.filter(|_| !made.is_empty()) {
            return Ok(made.swap_remove(seed as usize % made.len()));
        }
        let cost = |parts: &Self| parts.cost.in_parts() * if parts.key.is_some() { 1.0 } else { LARGER_BUILDS };
        let least = made.into_iter().min_by(|one, other| cost(one).total_cmp(&cost(other)));
        least.ok_or_else(|| refused.unwrap_or_else(|| refusal("nothing can be split")))
    }

    /// By ranges of a column of the anchor.
    fn by_key(
        program: &Program,
        (anchor, key): ScanColumn,
        members: &HashMap<usize, usize>,
        (cuts, rates): (&[Range<usize>], PartitionRates),
    ) -> Result<Self, Unsupported> {
        let Source::Scan(scan) = &program.pipelines[anchor].source else { return Err(refusal("no scan")) };
        let bounds = bounds(scan, key, cuts)?;
        let members: HashMap<usize, usize> = members
            .iter()
            .filter(|&(&index, &column)| matches!(&program.pipelines[index].source, Source::Scan(scan) if is_key(scan, column)))
            .map(|(&index, &column)| (index, column))
            .collect();
        let split: HashMap<usize, Option<usize>> = members.iter().map(|(&index, &key)| (index, Some(key))).collect();
        let name = PartitionKey {
            table: scan.name.clone(),
            column: scan.table.schema().field(scan.columns[key]).name().clone(),
            scans: split.len(),
        };
        let ranges = |index: usize, device: usize| {
            let Source::Scan(scan) = &program.pipelines[index].source else { return Err(refusal("no scan")) };
            let (column, (least, greatest)) = (members[&index], bounds[device]);
            let table_column = scan.columns[column];
            Ok((between(&scan.table, table_column, (least, greatest)), within(scan, column, (least, greatest))))
        };
        Self::with(program, &split, Some(name), (cuts, rates), &ranges)
    }

    /// With the scans of `split` replaced by the row segments and filters that `ranges` gives for a scan and a device.
    fn with(
        program: &Program,
        split: &HashMap<usize, Option<usize>>,
        key: Option<PartitionKey>,
        (cuts, rates): (&[Range<usize>], PartitionRates),
        ranges: &dyn Fn(usize, usize) -> Result<Restriction, Unsupported>,
    ) -> Result<Self, Unsupported> {
        let sink = Walk::meeting(program, split)?;
        let feeds: Vec<usize> = (0..program.pipelines.len()).filter(|&it| program.pipelines[it].sink == sink).collect();
        let &pipeline = feeds.last().ok_or_else(|| refusal("nothing arrives"))?;
        let mut own: BTreeSet<usize> = feeds.iter().copied().collect();
        let mut sinks = BTreeSet::new();
        for &feed in &feeds {
            let (pipelines, needed) = below(program, feed);
            own.extend(pipelines);
            sinks.extend(needed);
        }
        let before = own.iter().copied().filter(|index| !feeds.contains(index)).collect();
        let mut elsewhere: BTreeSet<usize> = only_for(program, &feeds, &before).into_iter().collect();
        elsewhere.extend(feeds.iter().filter(|&&feed| feed != pipeline));
        let on_cpu = |index: &usize| *index != pipeline && !elsewhere.contains(index);
        let marks = |build: SinkId| {
            let sets = |&index: &usize| {
                graph::probes(&program.pipelines[index]).any(|(_, it)| it.build == build && graph::sets_flags(it))
            };
            elsewhere.iter().chain(&feeds).any(sets)
        };
        let reads_marks =
            |index: usize| matches!(&program.pipelines[index].source, Source::Build { sink, .. } if marks(*sink));
        if (0..program.pipelines.len()).filter(on_cpu).any(reads_marks) {
            return Err(refusal("the cpu reads a build whose partners only devices have met"));
        }
        let all: u64 = program.pipelines.iter().map(bytes_of).sum();
        let again: u64 = (0..program.pipelines.len()).filter(on_cpu).map(|it| bytes_of(&program.pipelines[it])).sum();
        if again > all / FEW {
            return Err(refusal("what comes after the parts scans too much for the cpu"));
        }
        let (mut programs, mut arrives) = (vec![], Arrives::Rows);
        for device in 0..cuts.len() {
            let part = Part { program, own: &own, sinks: &sinks, sink, split };
            let (made, form) = part.program(&|index| ranges(index, device))?;
            programs.push(Arc::new(made));
            arrives = form;
        }
        let cost = PartitionCost::new(program, &programs, (pipeline, &own), (arrives, rates));
        let segments = cuts.iter().map(|range| range.len()).collect();
        let (elsewhere, whole) = (elsewhere.into_iter().collect(), Arc::new(whole(program, &programs)));
        Ok(Self { pipeline, elsewhere, programs, arrives, key, segments, whole, cost })
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
    /// The program of a device, whose scans are restricted to row segments and by filters.
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
fn whole(program: &Program, programs: &[Arc<Program>]) -> HashSet<usize> {
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

/// Ranges of `segments` row segments for so many devices, each of one at least.
fn cuts(segments: usize, devices: usize, seed: Option<u64>) -> Result<Vec<Range<usize>>, Unsupported> {
    if devices < 2 || segments < devices {
        return Err(refusal("the table has fewer row segments than there are devices"));
    }
    let mut starts: Vec<usize> = (0..devices).map(|device| device * segments / devices).collect();
    if let Some(mut state) = seed {
        // Any starts that leave every device a row segment: the first ones are shifted at random.
        for device in 1..devices {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (least, most) = (starts[device - 1] + 1, segments - (devices - device));
            starts[device] = least + (state >> 33) as usize % (most - least + 1);
        }
    }
    let ends = starts[1..].iter().copied().chain([segments]);
    Ok(starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect())
}

/// Whether output column `column` of a scan can be a key: integers without NULLs.
fn is_key(scan: &Scan, column: usize) -> bool {
    let ty = &scan.fields[column].ty;
    let stats = scan.table.column_stats(scan.columns[column]);
    matches!(ty.phys, Phys::I32 | Phys::I64) && ty.dictionary.is_none() && stats.nulls == 0
}

/// Whether output column `column` of a scan can be a key whose ranges are about those of its row segments.
fn is_clustered(scan: &Scan, column: usize, cuts: &[Range<usize>]) -> bool {
    if !is_key(scan, column) {
        return false;
    }
    let Ok(bounds) = bounds(scan, column, cuts) else { return false };
    bounds.iter().zip(cuts).all(|(&range, cut)| {
        let read = between(&scan.table, scan.columns[column], range);
        !read.is_empty() && read.len() <= cut.len() + cut.len() / 8 + 2
    })
}

/// The range of the key of each device: they follow each other without a gap, and leave no number out.
fn bounds(scan: &Scan, column: usize, cuts: &[Range<usize>]) -> Result<Vec<(i128, i128)>, Unsupported> {
    let unknown = || refusal("a key without known bounds");
    let table_column = scan.columns[column];
    // Scans that are joined with this one may hold greater values than its type has.
    let (mut least, greatest) = (i128::MIN, i128::MAX);
    let mut ranges = vec![];
    for cut in &cuts[..cuts.len() - 1] {
        let stats = scan.table.segment_stats(cut.end - 1, table_column);
        let (_, last) = stats.int_range().ok_or_else(unknown)?;
        // Where keys repeat, a range may be empty.
        let last = last.max(least.saturating_sub(1));
        ranges.push((least, last));
        least = last + 1;
    }
    ranges.push((least, greatest));
    Ok(ranges)
}

/// The row segments, from the first to the last, that may have values within a range.
fn between(table: &TableSnapshot, column: usize, (least, greatest): (i128, i128)) -> Range<usize> {
    let meets = |&segment: &usize| {
        let range = table.segment_stats(segment, column).int_range();
        range.is_none_or(|(low, high)| low <= greatest && high >= least)
    };
    let first = (0..table.num_segments()).find(meets).unwrap_or(0);
    let end = (first..table.num_segments()).rev().find(meets).map_or(first, |last| last + 1);
    first..end
}

/// The conditions that output column `column` of a scan is within a range: as many for all ranges, so that all devices have the same kernels.
fn within(scan: &Scan, column: usize, (least, greatest): (i128, i128)) -> Vec<Expr> {
    let ty = scan.fields[column].ty.clone();
    let (low, high) = match ty.phys {
        Phys::I32 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let is_empty = least > greatest || least > high || greatest < low;
    // No number is at least the greatest and at most the least.
    let (least, greatest) = if is_empty { (high, low) } else { (least.max(low), greatest.min(high)) };
    let compare = |op, bound: i128| {
        let bound = Expr::literal(Scalar::Int(bound), ColType { range: Some((bound, bound)), ..ty.clone() });
        let (left, right) = (Box::new(Expr::column(column, ty.clone())), Box::new(bound));
        let truth =
            ColType { logical: DataType::Boolean, phys: Phys::Bool, nullable: false, range: None, dictionary: None };
        Expr { kind: ExprKind::Compare { op, left, right }, ty: truth }
    };
    vec![compare(CompareOp::Ge, least), compare(CompareOp::Le, greatest)]
}
