//! Row segments without join partners, which a scan can skip: known when the hash build is done. The keys are fetched from the device only if
//! segments have to be copied.

use std::collections::HashMap;

use warpmill_ir::PruneKey;
use warpmill_ir::pruning::PruningMode;

use crate::compile::keys::KeyPart;
use crate::compile::layout::SinkLayout;
use crate::data::row_segment::RowSegment;
use crate::device::{Device, Stream};
use crate::memory::error::Result;

use crate::compile::prepared::Prepared;

/// Limit of the bits of a fetched bitmap: fetching more would take longer than a batch.
const MOST_KEYS: u64 = 1 << 25;

/// Key bitmaps of finished hash builds, fetched on first use.
#[derive(Default)]
pub struct KeyBitmaps(HashMap<String, Vec<u32>>);

impl KeyBitmaps {
    /// The row segments of a kernel that may have rows with a partner in all inner joins that prune its scan. `names` has the addresses of the
    /// program's buffers.
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

/// The buffer name of the bitmap of keys that prune a scan, and the key range of its bits.
fn key_bits(prepared: &Prepared, prune: &PruneKey) -> Option<(String, KeyPart)> {
    let SinkLayout::Build(layout) = &prepared.layouts()[prune.build] else { return None };
    layout.key_bits(prune.build, prune.key).filter(|(_, part)| part.size <= MOST_KEYS)
}

/// Whether a bit from `least` to `greatest` is set; bits beyond the bitmap are not.
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
