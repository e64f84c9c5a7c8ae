//! The row segments that a scan need not read because none of their rows finds a partner in a join: known when the hash build before it
//! is done. Worth a word from the device where segments have to travel.

use std::collections::HashMap;

use warpmill_ir::pruning::PruningMode;
use warpmill_ir::{Expr, JoinKind, Phys, Pipeline, Program, PruneKey, Scan, Sink, SinkId, Source};

use super::error::Result;
use crate::codegen::estimate::source_column;
use crate::codegen::keys::{KeyPart, KeyShape};
use crate::codegen::layout::SinkLayout;
use crate::device::{Device, Stream};

use super::prepared::{Prepared, RowSegment};
use super::shares::{probes, sets_flags};

/// Bitmaps of more keys are left on the device: fetching them would take longer than a batch.
const MOST_KEYS: u64 = 1 << 25;

/// The keys of finished hash builds, fetched when first asked for.
#[derive(Default)]
pub struct KeyBitmaps(HashMap<String, Vec<u32>>);

impl KeyBitmaps {
    /// Those of the row segments of a kernel that may hold rows with a partner in all inner joins that prune its scan. `names` has
    /// the addresses of the program's buffers.
    ///
    /// # Errors
    /// The device's.
    pub fn surviving<'p>(
        &mut self,
        device: &dyn Device,
        stream: Stream,
        prepared: &Prepared,
        (kernel, mut rows): (usize, Vec<RowSegment<'p>>),
        names: &HashMap<String, u64>,
    ) -> Result<Vec<RowSegment<'p>>> {
        let scan = prepared.scan(kernel).filter(|scan| scan.pruning != PruningMode::None);
        let Some(scan) = scan else { return Ok(rows) };
        for prune in &scan.prune {
            let Some((buffer, part)) = key_bits(prepared, prune) else { continue };
            let Some(&at) = names.get(&buffer).filter(|_| rows.len() > 1) else { continue };
            let bits = match self.0.entry(buffer) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(unknown) => {
                    let mut bytes = vec![0u8; part.size.div_ceil(32) as usize * 4];
                    // SAFETY: a bitmap of `part.size` bits, in whole words, was allocated under this name.
                    unsafe { device.copy_to_host(&mut bytes, at, stream)? };
                    device.synchronize(stream)?;
                    unknown.insert(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
                }
            };
            rows.retain(|row| {
                let stats = scan.table.segment_stats(row.number, scan.columns[prune.column]);
                stats.int_range().is_none_or(|(least, greatest)| {
                    let bit = |value: i128| (value - part.min).clamp(-1, i128::from(part.size));
                    any_between(bits, bit(least), bit(greatest))
                })
            });
        }
        Ok(rows)
    }
}

/// The name of the bitmap of the keys that prune a scan, and which values its bits stand for.
fn key_bits(prepared: &Prepared, prune: &PruneKey) -> Option<(String, KeyPart)> {
    let SinkLayout::Build(layout) = &prepared.layouts[prune.build] else { return None };
    layout.key_bits(prune.build, prune.key).filter(|(_, part)| part.size <= MOST_KEYS)
}

/// The test of the rows of a scan by a part of a sink: only those with certain values in a column belong to it.
pub struct RangeTest<'p> {
    scan: &'p Scan,
    column: usize,
    /// The least and the greatest value.
    values: (i128, i128),
    /// Whether NULLs may belong to it too.
    nulls: bool,
}

impl<'p> RangeTest<'p> {
    /// For the rows that are put into the part with `size` values of keys from `from` on of the sink of a pipeline.
    pub fn of_sink(
        (program, layouts): (&'p Program, &[SinkLayout]),
        pipeline: usize,
        (from, size): (u64, u64),
    ) -> Option<Self> {
        let pipeline = &program.pipelines[pipeline];
        let keys = match &program.sinks[pipeline.sink] {
            Sink::HashBuild { keys, .. } => keys,
            Sink::Aggregate { groups, .. } => groups,
            Sink::Sort { .. } | Sink::Collect { .. } => return None,
        };
        let shape = match &layouts[pipeline.sink] {
            SinkLayout::Build(build) => &build.keys,
            SinkLayout::Groups(groups) => &groups.keys,
            SinkLayout::Rows(_) => return None,
        };
        // Rows of which another key is NULL belong to the part with value 0.
        let elsewhere = from == 0 && keys.len() > 1 && keys.iter().any(|key| key.ty.nullable);
        if elsewhere { None } else { Self::new(pipeline, keys, shape, (from, size), true) }
    }

    /// For the rows of a pipeline that find their partners in that part of build `id`.
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
        // The marks of rows without a partner that other builds have set must not be lost.
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

    /// The key with the largest stride decides.
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

    /// Whether a row segment may have rows that belong to the part.
    pub fn may_pass(&self, segment: usize) -> bool {
        let stats = self.scan.table.segment_stats(segment, self.scan.columns[self.column]);
        let Some((least, greatest)) = stats.int_range() else { return true };
        (self.nulls && stats.nulls > 0) || (least <= self.values.1 && greatest >= self.values.0)
    }
}

/// Whether a bit from `least` to `greatest` is set; there are none before the first and behind the last.
fn any_between(bits: &[u32], least: i128, greatest: i128) -> bool {
    let end = 32 * bits.len() as i128;
    let (least, greatest) = (least.max(0), greatest.min(end - 1));
    if least > greatest {
        return false;
    }
    let (first, last) = ((least / 32) as usize, (greatest / 32) as usize);
    let (from, to) = (u32::MAX << (least % 32), u32::MAX >> (31 - greatest % 32));
    if first == last {
        return bits[first] & from & to != 0;
    }
    bits[first] & from != 0 || bits[first + 1..last].iter().any(|&word| word != 0) || bits[last] & to != 0
}

#[cfg(test)]
mod tests {
    use super::any_between;

    #[test]
    fn bits_between_are_found() {
        let mut bits = vec![0u32; 4];
        for set in [3usize, 31, 32, 70, 127] {
            bits[set / 32] |= 1 << (set % 32);
        }
        let is_set = |at: i128| (0..128).contains(&at) && bits[at as usize / 32] >> (at % 32) & 1 != 0;
        for least in -1..129 {
            for greatest in -1..129 {
                let expected = (least..=greatest).any(is_set);
                assert_eq!(any_between(&bits, least, greatest), expected, "{least} to {greatest}");
            }
        }
    }
}
