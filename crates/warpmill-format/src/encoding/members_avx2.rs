//! Tests of set membership with AVX2: eight values by one gather.
//!
//! The module exists only in builds that enable AVX2 for all code, which is what makes its intrinsics sound to call.

use std::arch::x86_64::*;

/// The bits of eight values in row order: whether `value - min` is the number of a set bit among the first `bits` of `words`.
///
/// `bits` must be at least 1, at most `64 * words.len()` and at most `i32::MAX`.
#[inline(always)]
pub(super) fn members_8(values: &[u32; 8], min: u32, words: &[u64], bits: u32) -> u8 {
    debug_assert!(bits >= 1 && bits <= i32::MAX as u32 && bits as usize <= 64 * words.len());
    // SAFETY: AVX2 is enabled for the whole build (see the module). The load is of eight values. The gather reads 32-bit word `at / 32`, where
    // `at` is below `bits`: inside `words`, whose halves are in this order on x86-64.
    unsafe {
        let offsets = _mm256_sub_epi32(_mm256_loadu_si256(values.as_ptr().cast()), _mm256_set1_epi32(min as i32));
        let at = _mm256_min_epu32(offsets, _mm256_set1_epi32((bits - 1) as i32));
        let inside = _mm256_cmpeq_epi32(at, offsets);
        let found = _mm256_i32gather_epi32::<4>(words.as_ptr().cast(), _mm256_srli_epi32::<5>(at));
        // The bit becomes the sign.
        let left = _mm256_andnot_si256(at, _mm256_set1_epi32(31));
        let signs = _mm256_and_si256(_mm256_sllv_epi32(found, left), inside);
        _mm256_movemask_ps(_mm256_castsi256_ps(signs)) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::members_8;

    #[test]
    fn members_are_those_of_the_set() {
        let words = [0x8000_0001_0000_0005u64, u64::MAX];
        for bits in [1, 2, 3, 32, 33, 63, 64, 65, 127, 128] {
            for min in [0, 7, u32::MAX - 3, 1 << 31] {
                for first in (0..160).map(|i| i - 16i64) {
                    let values = std::array::from_fn(|i| (first + i as i64) as u32).map(|v: u32| v.wrapping_add(min));
                    let is_member = |at: i64| (0..bits).contains(&at) && words[at as usize / 64] >> (at % 64) & 1 != 0;
                    let expected = (0..8).fold(0, |mask, i| mask | u8::from(is_member(first + i)) << i);
                    assert_eq!(
                        members_8(&values, min, &words, bits as u32),
                        expected,
                        "{bits} bits, {first} from {min}"
                    );
                }
            }
        }
    }
}
