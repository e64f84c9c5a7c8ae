//! Lane-packed deltas, for sorted and slowly changing integers.
//!
//! Lane `l` of a vector holds rows `32 * l ..`, so that deltas are between neighbours and a prefix sum stays within the lane. A delta is stored as
//! its offset from the segment's smallest delta, in one width per segment; value `j` of a lane is its base plus the deltas up to `j` (the delta of
//! value 0 is stored as 0 and represents the smallest one, which the base compensates). Bases are offsets from the vector's reference (its minimum),
//! 1, 2, 4 or 8 bytes each.
//!
//! Sections: parameters (i128: smallest delta, width, bytes per base), references (i128 per vector), bases (bytes, 32 per
//! vector), packed deltas (u32 words).

use super::kernels;
use super::lane::{self, LANES, Order};
use super::word::{Value, Word};
use crate::segment::DeltaLayout;
use crate::segment::bytes::{SectionReader, SectionWriter, View, corrupt};
use crate::{Result, VECTOR_ROWS};

const PER_LANE: usize = VECTOR_ROWS / LANES;

/// A delta-encoded column of integers.
pub(crate) struct LaneDelta {
    step: i64,
    width: u32,
    base_bytes: usize,
    references: View<i128>,
    bases: View<u8>,
    words: View<u32>,
}

/// The shape that values would be delta-encoded in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    step: i64,
    width: u32,
    base_bytes: usize,
}

impl LaneDelta {
    /// Positions of the sections, in bytes from `base`.
    pub(crate) fn layout(&self, base: *const u8) -> DeltaLayout {
        let at = |address: usize| address - base as usize;
        DeltaLayout {
            step: self.step,
            width: self.width,
            base_bytes: self.base_bytes,
            references: at(self.references.as_ptr() as usize),
            bases: at(self.bases.as_ptr() as usize),
            words: at(self.words.as_ptr() as usize),
        }
    }

    /// Plans the encoding of `values`; `None` if they are not 64-bit, their deltas need more than 32 bits, or it would take more than `most` bytes.
    pub(crate) fn plan<V: Value>(values: &[V], most: usize) -> Option<Plan> {
        let vectors = values.len().div_ceil(VECTOR_ROWS);
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        let mut span = 0;
        for vector in values.chunks(VECTOR_ROWS) {
            for lane in vector.chunks(PER_LANE) {
                for pair in lane.windows(2) {
                    let delta = pair[0].delta(pair[1])?;
                    (low, high) = (low.min(delta), high.max(delta));
                }
            }
            let (min, max) = (vector.iter().min()?, vector.iter().max()?);
            i64::try_from(min.to_i128()).ok().and(i64::try_from(max.to_i128()).ok())?;
            span = span.max(max.offset64(*min));
            // Most columns are unsuitable for deltas, which the first vectors show.
            let range = if low > high { 0 } else { u32::try_from(high.checked_sub(low)?).ok()? };
            if vectors * 4 * lane::vector_words(32 - range.leading_zeros()) > most {
                return None;
            }
        }
        let (step, range) = if low > high { (0, 0) } else { (low, u32::try_from(high.checked_sub(low)?).ok()?) };
        let base_bytes = match span {
            0..=0xFF => 1,
            0x100..=0xFFFF => 2,
            0x1_0000..=0xFFFF_FFFF => 4,
            _ => 8,
        };
        let width = super::lane_for::rounded_width(32 - range.leading_zeros());
        let bytes = vectors * (16 + LANES * base_bytes + 4 * lane::vector_words(width));
        (bytes <= most).then_some(Plan { step, width, base_bytes })
    }

    /// Packs `values` as planned.
    pub(crate) fn encode<V: Value>(values: &[V], plan: Plan, out: &mut SectionWriter) {
        let vectors = values.len().div_ceil(VECTOR_ROWS);
        let n = lane::vector_words(plan.width);
        let (mut references, mut bases, mut words) = (vec![], vec![], vec![0u32; vectors * n]);
        for (v, vector) in values.chunks(VECTOR_ROWS).enumerate() {
            let reference = *vector.iter().min().expect("not empty");
            references.push(reference.to_i128());
            let mut fields = [0u32; VECTOR_ROWS];
            for l in 0..LANES {
                let lane = vector.chunks(PER_LANE).nth(l).unwrap_or(&[]);
                let base = lane.first().map_or(0, |x| x.offset64(reference));
                bases.extend_from_slice(&base.to_le_bytes()[..plan.base_bytes]);
                for (field, pair) in fields[PER_LANE * l + 1..].iter_mut().zip(lane.windows(2)) {
                    *field = (pair[1].offset64(pair[0]) as i64).wrapping_sub(plan.step) as u32;
                }
            }
            if n > 0 {
                lane::pack(&fields, plan.width, Order::Blocked, &mut words[v * n..(v + 1) * n]);
            }
        }
        out.push(&[i128::from(plan.step), i128::from(plan.width), plan.base_bytes as i128]);
        out.push(&references);
        out.push_bytes(bases);
        out.push_words(words);
    }

    /// Lays out `rows` consecutive numbers from `first` on: all of their deltas are 1, in no bits.
    pub(crate) fn write_numbers(first: i64, rows: usize, out: &mut SectionWriter) {
        let vectors = rows.div_ceil(VECTOR_ROWS);
        let one: Vec<u8> = (0..LANES).flat_map(|lane| ((lane * PER_LANE) as u16).to_le_bytes()).collect();
        let mut bases = one.repeat(vectors);
        // Lanes of the last vector without rows have none.
        bases[2 * rows.div_ceil(PER_LANE)..].fill(0);
        out.push(&[1i128, 0, 2]);
        out.push(&(0..vectors).map(|vector| i128::from(first) + (vector * VECTOR_ROWS) as i128).collect::<Vec<_>>());
        out.push_bytes(bases);
        out.push_words(vec![]);
    }

    /// Reads the sections of [`LaneDelta::encode`] for `rows` rows.
    pub(crate) fn read(reader: &mut SectionReader<'_>, rows: usize) -> Result<Self> {
        let vectors = rows.div_ceil(VECTOR_ROWS);
        let params = reader.exactly::<i128>(3)?;
        let step = i64::try_from(params[0]).map_err(|_| corrupt("a delta of more than 64 bits"))?;
        let (0..=32, 1 | 2 | 4 | 8) = (params[1], params[2]) else {
            return Err(corrupt(format!("delta parameters width {}, base bytes {}", params[1], params[2])));
        };
        let (width, base_bytes) = (params[1] as u32, params[2] as usize);
        let references = reader.bulk(vectors)?;
        let bases = reader.bulk(vectors * LANES * base_bytes)?;
        let words = reader.bulk(vectors * lane::vector_words(width))?;
        Ok(Self { step, width, base_bytes, references, bases, words })
    }

    #[inline(always)]
    fn words(&self, v: usize) -> &[u32] {
        let n = lane::vector_words(self.width);
        &self.words[v * n..(v + 1) * n]
    }

    /// The base of a lane, numbered across all vectors.
    #[inline(always)]
    fn base(&self, lane: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..self.base_bytes].copy_from_slice(&self.bases[lane * self.base_bytes..][..self.base_bytes]);
        u64::from_le_bytes(bytes)
    }

    /// Decodes vector `v`.
    pub(crate) fn vector<T: Word>(&self, v: usize, out: &mut [T; VECTOR_ROWS]) {
        let reference = T::from_i128(self.references[v]);
        let starts: [u64; LANES] = std::array::from_fn(|l| self.base(LANES * v + l).wrapping_sub(self.step as u64));
        if self.base_bytes < 8 || T::BITS == 32 {
            // Offsets within the vector fit 32 bits, or only 32 bits are requested.
            let (starts, step) = (starts.map(|x| x as u32), self.step as u32);
            let mut offsets = [0u32; VECTOR_ROWS];
            if self.width > 0 {
                kernels::prefix_sums(self.words(v), self.width, step, &starts, &mut offsets);
            } else {
                for (row, x) in offsets.iter_mut().enumerate() {
                    *x = starts[row / PER_LANE].wrapping_add(step.wrapping_mul((row % PER_LANE) as u32 + 1));
                }
            }
            out.iter_mut().zip(&offsets).for_each(|(x, &offset)| *x = T::from_u32(offset).add(reference));
        } else {
            let mut deltas = [0u64; VECTOR_ROWS];
            lane::unpack_scalar(self.words(v), self.width, Order::Blocked, self.step as u64, &mut deltas);
            for ((lane, deltas), start) in
                out.as_chunks_mut::<PER_LANE>().0.iter_mut().zip(deltas.as_chunks().0).zip(starts)
            {
                prefix(lane, deltas, start, reference);
            }
        }
    }

    /// The value of `row`: at most 31 additions.
    pub(crate) fn get<T: Word>(&self, row: usize) -> T {
        let (v, row) = (row / VECTOR_ROWS, row % VECTOR_ROWS);
        let (l, j) = Order::Blocked.place(row);
        let mut offset = self.base(LANES * v + l);
        if self.width > 0 {
            let field = |j| u64::from(lane::get(self.words(v), self.width, Order::Blocked, PER_LANE * l + j));
            offset = (1..=j).fold(offset.wrapping_add(field(0)), |x, j| x.wrapping_add(field(j)));
        }
        offset = offset.wrapping_add((self.step as u64).wrapping_mul(j as u64));
        // Narrow offsets are the low 32 bits; wide ones are whole.
        let offset = if self.base_bytes < 8 { T::from_u32(offset as u32) } else { T::from_u64(offset) };
        offset.add(T::from_i128(self.references[v]))
    }
}

fn prefix<T: Word>(out: &mut [T; PER_LANE], deltas: &[u64; PER_LANE], start: u64, reference: T) {
    let mut sum = start;
    for (x, &delta) in out.iter_mut().zip(deltas) {
        sum = sum.wrapping_add(delta);
        *x = T::from_u64(sum).add(reference);
    }
}
