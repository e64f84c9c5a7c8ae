//! Ranges of key values: the parts of sinks, and tests of which row segments belong to them.

use warpmill_ir::{Expr, JoinKind, Phys, Pipeline, Program, Scan, Sink, SinkId, Source};

use super::estimate::source_column;
use super::keys::KeyShape;
use super::layout::{Partition, SinkLayout};
use warpmill_ir::graph::{probes, sets_flags};

/// A range of key values: a part of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) size: u64,
    /// Number of splits that it results from.
    pub(crate) cuts: u32,
}

impl Range {
    /// The first value, and the number of values.
    pub(crate) fn values(&self) -> (u64, u64) {
        (self.from, self.size)
    }
}

/// The initial division of a sink into parts.
pub(crate) fn expected(partition: &Partition) -> Vec<Range> {
    let size = partition.total.div_ceil(partition.parts).clamp(1, partition.most);
    let starts = (0..partition.total.div_ceil(size)).map(|number| number * size);
    starts.map(|from| Range { from, size: size.min(partition.total - from), cuts: 0 }).collect()
}

/// Largest number of parts that a run builds: with more, the CPU is faster.
pub(crate) const MOST_PARTS: u64 = 2048;

/// A test of a scan's row segments against a part: only rows with certain values in a column belong to it.
pub struct RangeTest<'p> {
    scan: &'p Scan,
    column: usize,
    /// Least and greatest value.
    values: (i128, i128),
    /// Whether NULLs may belong to the part too.
    nulls: bool,
}

impl<'p> RangeTest<'p> {
    /// The test for rows that enter the part with `size` key values from `from` of a pipeline's sink.
    pub fn of_sink(
        (program, layouts): (&'p Program, &[SinkLayout]),
        pipeline: usize,
        (from, size): (u64, u64),
    ) -> Option<Self> {
        let pipeline = &program.pipelines[pipeline];
        let keys = match &program.sinks[pipeline.sink] {
            Sink::HashBuild { keys, .. } => keys,
            Sink::Aggregate { groups, .. } => groups,
            Sink::Functions { .. } | Sink::Sort { .. } | Sink::Window { .. } | Sink::Collect { .. } => return None,
        };
        let shape = match &layouts[pipeline.sink] {
            SinkLayout::Build(build) => &build.keys,
            SinkLayout::Groups(groups) => &groups.keys,
            SinkLayout::Rows(_) => return None,
        };
        // Rows with NULL in another key belong to the part with value 0.
        let elsewhere = from == 0 && keys.len() > 1 && keys.iter().any(|key| key.ty.nullable);
        if elsewhere { None } else { Self::new(pipeline, keys, shape, (from, size), true) }
    }

    /// The test for rows of a pipeline whose partners are in that part of build `id`.
    pub fn of_probe(
        (program, layouts): (&'p Program, &[SinkLayout]),
        pipeline: usize,
        id: SinkId,
        (from, size): (u64, u64),
    ) -> Option<Self> {
        let SinkLayout::Build(build) = &layouts[id] else { return None };
        let pipeline = &program.pipelines[pipeline];
        let (position, probe) = probes(pipeline).find(|(_, probe)| probe.build == id)?;
        let needs_partner =
            matches!(probe.kind, JoinKind::Inner | JoinKind::ProbeSemi | JoinKind::BuildOuter | JoinKind::BuildOnly);
        // Flags set in earlier builds for rows without a partner here must not be lost.
        let tells = probes(pipeline).take_while(|(other, _)| *other < position).any(|(_, probe)| sets_flags(probe));
        if tells {
            return None;
        }
        // Rows that cannot have a partner belong to the part with value 0.
        if from == 0 && !needs_partner {
            return None;
        }
        let before = Pipeline { operators: pipeline.operators[..position].to_vec(), ..pipeline.clone() };
        let test = Self::new(&before, &probe.keys, &build.keys, (from, size), build.null_equals_null)?;
        let Source::Scan(scan) = &pipeline.source else { return None };
        Some(Self { scan, column: test.column, values: test.values, nulls: test.nulls })
    }

    /// The test on the key with the largest stride.
    fn new<'a>(
        pipeline: &'a Pipeline,
        keys: &[Expr],
        shape: &KeyShape,
        (from, size): (u64, u64),
        nulls: bool,
    ) -> Option<RangeTest<'a>> {
        let KeyShape::Packed { parts, .. } = shape else { return None };
        let Source::Scan(scan) = &pipeline.source else { return None };
        let (part, key) = (parts.last()?, keys.last()?);
        let column = source_column(pipeline, key)?;
        let ty = &scan.fields[column].ty;
        if ty.dictionary.is_some() || !matches!(ty.phys, Phys::I32 | Phys::I64 | Phys::I128) {
            return None;
        }
        let value = |key: u64| part.min + i128::from(key / part.stride);
        Some(RangeTest { scan, column, values: (value(from), value(from + size - 1)), nulls })
    }

    /// Whether a row segment may have rows of the part.
    pub fn may_pass(&self, segment: usize) -> bool {
        let stats = self.scan.table.segment_stats(segment, self.scan.columns[self.column]);
        let Some((least, greatest)) = stats.int_range() else { return true };
        (self.nulls && stats.nulls > 0) || (least <= self.values.1 && greatest >= self.values.0)
    }
}
