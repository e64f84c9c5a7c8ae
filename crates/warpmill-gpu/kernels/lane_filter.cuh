// Predicates on packed vectors (needs lane.cuh). A result is a mask per lane: bit j stands for field j, that is, in striped
// order, for row 128 * (j / 4) + 4 * lane + j % 4. Bits of rows past the end of a last vector are unspecified: callers
// clear them with `lane_rows_mask`.

// The fields of `lane` that are rows below `rows` (of this vector, at most 1024).
__device__ __forceinline__ u32 lane_rows_mask(u32 lane, u32 rows) {
    if (rows >= VECTOR_ROWS) {
        return 0xFFFFFFFFu;
    }
    // Whole groups of 128 rows, four fields each, and what is left of one group.
    const u32 groups = rows / 128, rest = rows % 128, own = rest > 4 * lane ? rest - 4 * lane : 0;
    return lane_field_mask(4 * groups) | lane_field_mask(own < 4 ? own : 4) << (4 * groups);
}

// Fields f with lo <= f < lo + len, among words that were loaded before. lo + len is at most 2^W (so that 32-bit fields have
// no range of all values); an empty range (len 0) selects nothing.
template <int W>
__device__ __forceinline__ u32 lane_words_range_mask(const u32 (&words)[lane_words(W)], u32 lo, u32 len) {
    if (len == 0) {
        return 0;
    }
    if constexpr (W == 0) {
        return lo == 0 ? 0xFFFFFFFFu : 0;
    } else {
        // The field is compared where it stands at the top of a word: no mask, and the bits below it do not decide because
        // the last value's are all ones.
        const u32 first = lo << (32 - W), last = (len << (32 - W)) - 1;
        u32 mask = 0;
#pragma unroll
        for (int j = 0; j < 32; j++) {
            if (lane_top<W>(words, j) - first <= last) {
                mask |= 1u << j;
            }
        }
        return mask;
    }
}

// The same for the packed vector at `vector`.
template <int W>
__device__ __forceinline__ u32 lane_range_mask(const u32* __restrict__ vector, u32 lane, u32 lo, u32 len) {
    u32 words[lane_words(W)];
    lane_load<W>(words, vector, lane);
    return lane_words_range_mask<W>(words, lo, len);
}

// Fields f whose code, reference + f, has its bit set in `bitmap` of `codes` bits, in shared or global memory. Codes from
// `codes` on are not in the set.
template <int W>
__device__ __forceinline__ u32 lane_words_set_mask(const u32 (&words)[lane_words(W)], const u32* bitmap, u32 reference,
                                                   u32 codes) {
    u32 mask = 0;
    if constexpr (W <= 5) {
        // At most 32 codes: their bits fit one word.
        const u32 word = reference / 32, last = codes > 0 ? (codes - 1) / 32 : 0;
        u32 low = word <= last && codes > 0 ? bitmap[word] : 0, high = word + 1 <= last ? bitmap[word + 1] : 0;
        if (codes % 32 != 0) {
            low &= word == last ? lane_field_mask(codes % 32) : 0xFFFFFFFFu;
            high &= word + 1 == last ? lane_field_mask(codes % 32) : 0xFFFFFFFFu;
        }
        const u32 bits = __funnelshift_r(low, high, reference % 32);
#pragma unroll
        for (int j = 0; j < 32; j++) {
            mask |= (bits >> lane_get<W>(words, j) & 1) << j;
        }
    } else {
#pragma unroll
        for (int j = 0; j < 32; j++) {
            const u32 code = reference + lane_get<W>(words, j);
            if (code < codes) {
                mask |= (bitmap[code / 32] >> (code % 32) & 1) << j;
            }
        }
    }
    return mask;
}

// The same for the packed vector at `vector`.
template <int W>
__device__ __forceinline__ u32 lane_set_mask(const u32* __restrict__ vector, u32 lane, const u32* bitmap, u32 reference,
                                             u32 codes) {
    u32 words[lane_words(W)];
    lane_load<W>(words, vector, lane);
    return lane_words_set_mask<W>(words, bitmap, reference, codes);
}
