//! Lane-packed frame of reference: the default for integers and dictionary codes.
//!
//! Every value is stored as its offset from a reference, in ONE bit width per segment; vectors follow each other at computed positions. Offsets wider
//! than 32 bits are split into 32-bit limbs, each packed as a separate stream, so that device kernels handle only 32-bit fields. The reference is one
//! per segment, or one per vector if that saves more than its 16 bytes; outliers are patches, which most segments do not have.
//!
//! Sections: parameters ([`PARAMS`] i128: reference, width, flags, patches), then, depending on the flags, vector references (i128 each), then patch
//! starts (u32 per vector + 1), patch rows (u16, ascending within a vector) and patch values (i128), then one section of u32 words per limb.

use super::kernels;
use super::lane::{self, Order, Places};
use super::outline::Outline;
use super::select::{self, RowMask};
use super::word::{Value, Word};
use crate::segment::LaneLayout;
use crate::segment::bytes::{SectionReader, SectionWriter, View, corrupt};
use crate::{Bitmap, Result, VECTOR_ROWS};

/// Numbers in the parameter section.
const PARAMS: usize = 4;
const VECTOR_REFERENCES: i128 = 1;

/// A lane-packed column of integers.
pub(crate) struct LaneFor {
    reference: i128,
    width: u32,
    limbs: Vec<Limb>,
    /// One reference per vector, or none.
    references: Option<View<i128>>,
    patches: Option<Patches>,
}

struct Limb {
    width: u32,
    words: View<u32>,
    places: Places,
}

impl Limb {
    #[inline(always)]
    fn vector(&self, v: usize) -> &[u32] {
        let n = lane::vector_words(self.width);
        &self.words[v * n..(v + 1) * n]
    }
}

/// Exceptions: rows whose value does not fit the width; their packed field is zero.
struct Patches {
    starts: View<u32>,
    rows: View<u16>,
    values: View<i128>,
}

impl Patches {
    #[inline(always)]
    fn of(&self, v: usize) -> (&[u16], &[i128]) {
        let range = self.starts[v] as usize..self.starts[v + 1] as usize;
        (&self.rows[range.clone()], &self.values[range])
    }

    /// The patch of `row` of vector `v`, if it has one.
    #[inline]
    fn get(&self, v: usize, row: usize) -> Option<i128> {
        let (rows, values) = self.of(v);
        if rows.is_empty() {
            return None;
        }
        rows.binary_search(&(row as u16)).ok().map(|i| values[i])
    }
}

/// Widths of the limbs of a `width`-bit offset.
fn limb_widths(width: u32) -> impl Iterator<Item = u32> {
    (0..width.div_ceil(32)).map(move |i| (width - 32 * i).min(32))
}

/// The stored width for values of `bits` bits: 31 becomes 32 and wider ones the next multiple of 8, 4 or 2 that costs at most 1/30 more, so that a
/// column has few distinct widths (each is a kernel variant).
pub(crate) fn rounded_width(bits: u32) -> u32 {
    let near = |step: u32| Some(bits.next_multiple_of(step)).filter(|w| w * 30 <= bits * 31);
    if bits == 0 { 0 } else { near(8).or(near(4)).or(near(2)).unwrap_or(bits) }
}

/// How a column would be packed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Plan<V> {
    reference: V,
    per_vector: bool,
    width: u32,
    patches: usize,
    bits: usize,
}

/// Number of rows by the bits that their offset needs: `0 ..= 128`, and 129 for rows below the reference.
type Histogram = [usize; 130];

/// Cost of a patch in bits: row, value, and its share of slower decoding.
const PATCH_BITS: usize = 8 * (2 + 16) + 112;

/// Number of rows in the sample that decides whether patches may pay.
const SAMPLE: usize = 4096;

/// Whether patching rows that need many of `widest` bits may save a tenth of the size: estimated from a sample, with false positives.
fn patches_may_pay<V: Value>(values: &[V], reference: impl Fn(usize) -> V, widest: u32) -> bool {
    if values.len() <= SAMPLE {
        return true;
    }
    let mut rows: [usize; 130] = [0; 130];
    let step = values.len() / SAMPLE + 1;
    (0..values.len()).step_by(step).for_each(|row| rows[values[row].bits(reference(row / VECTOR_ROWS)) as usize] += 1);
    let (all, mut above) = (values.len().div_ceil(step), 0);
    let most = all * rounded_width(widest) as usize;
    (0..widest).rev().any(|bits| {
        above += rows[bits as usize + 1];
        (all * rounded_width(bits) as usize + above * PATCH_BITS / 2) * 10 <= most * 9
    })
}

impl<V: Value> Plan<V> {
    /// The best plan with these references, from which no row needs more than `widest` bits.
    fn of(
        values: &[V],
        references: impl Fn(usize) -> V + Copy,
        (reference, per_vector): (V, bool),
        widest: u32,
    ) -> Self {
        let vectors = values.len().div_ceil(VECTOR_ROWS);
        if patches_may_pay(values, references, widest) {
            return Self::best(&histogram(values, references), reference, per_vector, vectors);
        }
        let mut none: Histogram = [0; 130];
        none[widest as usize] = values.len();
        Self::best(&none, reference, per_vector, vectors)
    }

    fn best(histogram: &Histogram, reference: V, per_vector: bool, vectors: usize) -> Self {
        let widest = histogram.iter().rposition(|&n| n > 0).unwrap_or(0) as u32;
        let header = if per_vector { 128 * vectors } else { 0 };
        let packed = |width: u32| VECTOR_ROWS * vectors * width as usize + header;
        let width = rounded_width(widest);
        let mut best = Plan { reference, per_vector, width, patches: 0, bits: packed(width) };
        let (mut patches, unpatched) = (0, best.bits);
        for bits in (0..widest).rev() {
            patches += histogram[bits as usize + 1];
            let width = rounded_width(bits);
            let total = packed(width) + patches * PATCH_BITS + 32 * (vectors + 1);
            // Patches cost a branch per vector: only for a tenth of the size.
            if total < best.bits && total * 10 <= unpatched * 9 {
                best = Plan { reference, per_vector, width, patches, bits: total };
            }
        }
        best
    }
}

/// Counts rows by the bits of their offset from their vector's `reference`.
fn histogram<V: Value>(values: &[V], reference: impl Fn(usize) -> V) -> Histogram {
    // Several counters for each number of bits: neighbours mostly have the same one, and would have to wait for each other's update.
    let mut counts = [[0u32; 130]; 4];
    let mut total: Histogram = [0; 130];
    for (v, chunk) in values.chunks(VECTOR_ROWS).enumerate() {
        let reference = reference(v);
        let (fours, rest) = chunk.as_chunks::<4>();
        for four in fours {
            for (counts, x) in counts.iter_mut().zip(four) {
                counts[x.bits(reference) as usize] += 1;
            }
        }
        rest.iter().for_each(|x| counts[0][x.bits(reference) as usize] += 1);
    }
    for counts in counts {
        total.iter_mut().zip(counts).for_each(|(total, count)| *total += count as usize);
    }
    total
}

/// Whether references per vector, the lower `bounds`, may save a tenth of the size. A row that does not get smaller is then a patch of
/// [`PATCH_BITS`], so that few such rows suffice to decide against it; a sample finds them.
fn vectors_differ<V: Value>(values: &[V], bounds: &[(V, V)], min: V, best: &Plan<V>) -> bool {
    if bounds.iter().all(|&(least, _)| least == min) {
        return false;
    }
    let (target, step) = (best.width * 9 / 10, values.len() / 2048 + 1);
    let rows = (0..values.len()).step_by(step);
    let count = rows.len();
    let wide = rows.filter(|&row| values[row].bits(bounds[row / VECTOR_ROWS].0) > target).count();
    best.patches > 0 || wide * PATCH_BITS <= 2 * count * best.width as usize
}

fn plan<V: Value>(values: &[V], outline: &Outline<V>) -> Plan<V> {
    let vectors = outline.bounds.len();
    let (min, max) = outline.range().unwrap_or_default();
    let mut best = Plan::of(values, |_| min, (min, false), max.bits(min));
    if let Some(low) = low_without_outliers(values, min) {
        let candidate = Plan::best(&histogram(values, |_| low), low, false, vectors);
        if candidate.bits * 10 <= best.bits * 9 {
            best = candidate;
        }
    }
    if vectors > 1 && vectors_differ(values, &outline.bounds, min, &best) {
        let widest = outline.bounds.iter().map(|(lo, hi)| hi.bits(*lo)).max().unwrap_or(0);
        let candidate = Plan::of(values, |v| outline.bounds[v].0, (min, true), widest);
        // A reference per vector costs kernels a load: only for a tenth of the size.
        if candidate.bits * 10 <= best.bits * 9 {
            best = candidate;
        }
    }
    best
}

/// A reference that excludes values far below the rest (a sentinel such as 0 or -1), estimated from a sample.
fn low_without_outliers<V: Value>(values: &[V], min: V) -> Option<V> {
    let mut sample: Vec<V> = values.iter().step_by(values.len() / 2048 + 1).copied().collect();
    if sample.len() < 64 {
        return None;
    }
    sample.sort_unstable();
    let (low, high) = (sample[sample.len() / 50], sample[sample.len() - 1 - sample.len() / 50]);
    let span = high.bits(low);
    let near = |x: V| x >= low || low.bits(x) <= span;
    if near(min) {
        // No value is far below: the reference would be the least value.
        return None;
    }
    let reference = values.iter().copied().filter(|&x| near(x)).min()?;
    (reference.bits(min) > span).then_some(reference)
}

impl LaneFor {
    /// Packs `values` (any number of rows), appending the sections to `out`.
    pub(crate) fn encode<V: Value>(values: &[V], out: &mut SectionWriter) {
        Self::encode_outlined((values, &Outline::of(values)), out);
    }

    /// The same for values with a known outline.
    pub(crate) fn encode_outlined<V: Value>((values, outline): (&[V], &Outline<V>), out: &mut SectionWriter) {
        let plan = plan(values, outline);
        let vectors = values.len().div_ceil(VECTOR_ROWS);
        let widths: Vec<u32> = limb_widths(plan.width).collect();
        let mut limbs: Vec<Vec<u32>> = widths.iter().map(|&w| vec![0; vectors * lane::vector_words(w)]).collect();
        let (mut starts, mut rows, mut patches) = (vec![0u32], vec![], vec![]);
        let reference = |v: usize| if plan.per_vector { outline.bounds[v].0 } else { plan.reference };
        let mut fields = [0u32; VECTOR_ROWS];
        for (v, chunk) in values.chunks(VECTOR_ROWS).enumerate() {
            let reference = reference(v);
            let exception = |x: &V| x.bits(reference) > plan.width;
            if plan.patches > 0 {
                for (row, x) in chunk.iter().enumerate().filter(|(_, x)| exception(x)) {
                    rows.push(row as u16);
                    patches.push(x.to_i128());
                }
                starts.push(rows.len() as u32);
            }
            for (i, (&width, limb)) in widths.iter().zip(&mut limbs).enumerate() {
                fields[chunk.len()..].fill(0);
                let both = fields.iter_mut().zip(chunk);
                match i {
                    0 => both.for_each(|(field, x)| *field = x.offset64(reference) as u32),
                    1 => both.for_each(|(field, x)| *field = (x.offset64(reference) >> 32) as u32),
                    _ => both.for_each(|(field, x)| *field = (x.offset(reference) >> (32 * i)) as u32),
                }
                if plan.patches > 0 {
                    fields.iter_mut().zip(chunk).filter(|(_, x)| exception(x)).for_each(|(field, _)| *field = 0);
                }
                let n = lane::vector_words(width);
                lane::pack(&fields, width, Order::Striped, &mut limb[v * n..(v + 1) * n]);
            }
        }
        let flags = if plan.per_vector { VECTOR_REFERENCES } else { 0 };
        out.push(&[plan.reference.to_i128(), i128::from(plan.width), flags, patches.len() as i128]);
        if plan.per_vector {
            out.push(&(0..vectors).map(|v| reference(v).to_i128()).collect::<Vec<_>>());
        }
        if plan.patches > 0 {
            out.push(&starts);
            out.push(&rows);
            out.push(&patches);
        }
        limbs.into_iter().for_each(|limb| out.push_words(limb));
    }

    /// Lays out the bits of `marks`, of which `clear` are not set: in a bit each, or, if these are very few, as patches.
    pub(crate) fn write_marks(marks: &Bitmap, clear: usize, out: &mut SectionWriter) {
        let vectors = marks.len().div_ceil(VECTOR_ROWS);
        if clear * PATCH_BITS < marks.len() {
            let (mut starts, mut rows) = (vec![0u32], Vec::with_capacity(clear));
            for vector in marks.words().chunks(VECTOR_ROWS / 64) {
                let within = |(word, bits): (usize, &u64)| {
                    let bits = *bits;
                    (0..64).filter(move |bit| bits >> bit & 1 == 0).map(move |bit| (64 * word + bit) as u16)
                };
                let first = (starts.len() - 1) * VECTOR_ROWS;
                let clear = vector.iter().enumerate().filter(|(_, bits)| **bits != u64::MAX).flat_map(within);
                rows.extend(clear.filter(|row| first + usize::from(*row) < marks.len()));
                starts.push(rows.len() as u32);
            }
            out.push(&[1i128, 0, 0, rows.len() as i128]);
            out.push(&starts);
            out.push(&rows);
            out.push(&vec![0i128; rows.len()]);
            return;
        }
        let (n, mut words) = (lane::vector_words(1), vec![0u32; vectors * lane::vector_words(1)]);
        let mut fields = [0u32; VECTOR_ROWS];
        for (vector, words) in marks.words().chunks(VECTOR_ROWS / 64).zip(words.chunks_mut(n)) {
            fields.fill(0);
            for (fields, bits) in fields.chunks_mut(64).zip(vector) {
                fields.iter_mut().enumerate().for_each(|(bit, field)| *field = (bits >> bit) as u32 & 1);
            }
            lane::pack(&fields, 1, Order::Striped, words);
        }
        out.push(&[0i128, 1, 0, 0]);
        out.push_words(words);
    }

    /// Positions of the parts, relative to `base`.
    pub(crate) fn layout(&self, base: *const u8) -> LaneLayout {
        fn at<T>(view: &View<T>, base: *const u8) -> usize {
            view.as_ptr() as usize - base as usize
        }
        LaneLayout {
            reference: self.reference,
            width: self.width,
            limbs: self.limbs.iter().map(|limb| at(&limb.words, base)).collect(),
            references: self.references.as_ref().map(|view| at(view, base)),
            patches: self.patches.as_ref().map(|p| [at(&p.starts, base), at(&p.rows, base), at(&p.values, base)]),
        }
    }

    /// Reads the sections of [`LaneFor::encode`] for `rows` rows, checking every count and position.
    pub(crate) fn read(reader: &mut SectionReader<'_>, rows: usize) -> Result<Self> {
        let vectors = rows.div_ceil(VECTOR_ROWS);
        let params = reader.exactly::<i128>(PARAMS)?;
        let (reference, width, flags, patches) = (params[0], params[1], params[2], params[3]);
        if !(0..=128).contains(&width) || !(0..=1).contains(&flags) || !(0..=rows as i128).contains(&patches) {
            return Err(corrupt(format!("lane-packed parameters width {width}, flags {flags}, patches {patches}")));
        }
        let references = if flags & VECTOR_REFERENCES != 0 { Some(reader.bulk(vectors)?) } else { None };
        let patches = if patches > 0 { Some(Patches::read(reader, vectors, patches as usize)?) } else { None };
        let limbs = limb_widths(width as u32)
            .map(|width| {
                Ok(Limb { width, words: reader.bulk(vectors * lane::vector_words(width))?, places: Places::new(width) })
            })
            .collect::<Result<_>>()?;
        Ok(Self { reference, width: width as u32, limbs, references, patches })
    }

    #[inline(always)]
    fn reference(&self, v: usize) -> i128 {
        self.references.as_ref().map_or(self.reference, |r| r[v])
    }

    /// Decodes vector `v`.
    #[inline]
    pub(crate) fn vector<T: Word>(&self, v: usize, out: &mut [T; VECTOR_ROWS]) {
        self.offsets(v, T::from_i128(self.reference(v)), out);
        if let Some(patches) = &self.patches {
            let (rows, values) = patches.of(v);
            for (&row, &value) in rows.iter().zip(values) {
                out[row as usize] = T::from_i128(value);
            }
        }
    }

    /// Packed offsets of vector `v` plus `base`, before patches.
    #[inline]
    fn offsets<T: Word>(&self, v: usize, base: T, out: &mut [T; VECTOR_ROWS]) {
        let [first, rest @ ..] = &self.limbs[..] else {
            out.fill(base);
            return;
        };
        T::unpack(first.vector(v), first.width, base, out);
        let mut high = [0u32; VECTOR_ROWS];
        for (i, limb) in (1..T::BITS / 32).zip(rest) {
            u32::unpack(limb.vector(v), limb.width, 0, &mut high);
            for (x, &h) in out.iter_mut().zip(&high) {
                *x = x.add(T::from_u32(h).shl(32 * i));
            }
        }
    }

    /// The value of `row`, modulo the word.
    #[inline(always)]
    pub(crate) fn get<T: Word>(&self, row: usize) -> T {
        let v = row / VECTOR_ROWS;
        if let Some(value) = self.patches.as_ref().and_then(|p| p.get(v, row % VECTOR_ROWS)) {
            return T::from_i128(value);
        }
        let mut value = T::from_i128(self.reference(v));
        for (i, limb) in (0..T::BITS / 32).zip(&self.limbs) {
            value = value.add(T::from_u32(limb.places.get(&limb.words, row)).shl(32 * i));
        }
        value
    }

    /// `out[i]` = the value of row `rows[i]`.
    #[inline]
    pub(crate) fn gather<T: Word>(&self, rows: &[u32], out: &mut [T]) {
        if let ([limb], None, None) = (&self.limbs[..], &self.references, &self.patches) {
            let base = T::from_i128(self.reference);
            for (x, &row) in out.iter_mut().zip(rows) {
                *x = T::from_u32(limb.places.get(&limb.words, row as usize)).add(base);
            }
        } else {
            out.iter_mut().zip(rows).for_each(|(x, &row)| *x = self.get(row as usize));
        }
    }

    /// The rows of vector `v` whose value is in `lo ..= hi`.
    pub(crate) fn select(&self, v: usize, lo: i128, hi: i128, mask: &mut RowMask) {
        let reference = self.reference(v);
        // Bounds as offsets; the largest packed offset is 2^width - 1.
        let top = if self.width >= 128 { u128::MAX } else { (1u128 << self.width) - 1 };
        let low = if lo <= reference { 0 } else { lo.wrapping_sub(reference) as u128 };
        let high = if hi < reference { None } else { Some((hi.wrapping_sub(reference) as u128).min(top)) };
        match high.filter(|&high| lo <= hi && low <= high) {
            None => mask.fill(0),
            Some(high) if low == 0 && high == top => mask.fill(u64::MAX),
            Some(high) => self.select_offsets(v, low, high, mask),
        }
        if let Some(patches) = &self.patches {
            let (rows, values) = patches.of(v);
            for (&row, &value) in rows.iter().zip(values) {
                select::set(mask, row as usize, lo <= value && value <= hi);
            }
        }
    }

    fn select_offsets(&self, v: usize, low: u128, high: u128, mask: &mut RowMask) {
        match &self.limbs[..] {
            [] => mask.fill(if low == 0 { u64::MAX } else { 0 }),
            [limb] => kernels::unpack_select(limb.vector(v), limb.width, low as u32, high as u32, mask),
            [_, _] => {
                let mut offsets = [0u64; VECTOR_ROWS];
                self.offsets(v, 0, &mut offsets);
                select::compare(&offsets, low as u64, high as u64, mask);
            }
            _ => {
                let mut offsets = [0u128; VECTOR_ROWS];
                self.offsets(v, 0, &mut offsets);
                select::compare(&offsets, low, high, mask);
            }
        }
    }
}

impl Patches {
    fn read(reader: &mut SectionReader<'_>, vectors: usize, count: usize) -> Result<Self> {
        let starts = reader.exactly::<u32>(vectors + 1)?;
        let rows = reader.exactly::<u16>(count)?;
        let values = reader.bulk::<i128>(count)?;
        let ordered = starts.is_sorted() && starts.first() == Some(&0) && starts.last() == Some(&(count as u32));
        if !ordered || rows.iter().any(|&row| row as usize >= VECTOR_ROWS) {
            return Err(corrupt("patches point outside their vectors"));
        }
        Ok(Self { starts, rows, values })
    }
}
