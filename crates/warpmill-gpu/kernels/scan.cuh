// Encoded segments in device memory, and random access to their rows. The layout is specified in docs/format.md.

// One column of one row segment.
struct SegmentColumn {
    const u8* data;              // packed words (low 32 bits of offsets), plain values, or string offsets
    const u8* more[3];           // packed words of the next 32 bits each; string bytes
    const u64* valid;            // a bit per row; null: all rows are valid
    const i128* references;      // one per vector; null: `reference` for all
    const u32* patch_starts;     // one per vector and one more; null: no patches
    const u16* patch_rows;
    const i128* patch_values;
    const u32* remap;            // dictionary code by stored code; null: codes are as stored
    u64 reference_low;
    u64 reference_high;
    u32 kind;
    u32 width;                   // bits of an offset, or bytes of a plain value
};

// SEGMENT_VIEWS: strings where they are (`Str`).
enum SegmentKind : u32 {
    SEGMENT_CONSTANT = 0,
    SEGMENT_SIGNED = 1,
    SEGMENT_UNSIGNED = 2,
    SEGMENT_LANE = 3,
    SEGMENT_VIEWS = 4
};

__device__ __forceinline__ i128 segment_reference(const SegmentColumn& c, u32 vector) {
    if (c.references) return c.references[vector];
    return (i128)((u128)c.reference_high << 64 | c.reference_low);
}

// The index of `row`'s patch of `vector`, or -1.
__device__ inline i64 segment_patch(const SegmentColumn& c, u32 vector, u32 row) {
    u32 lo = c.patch_starts[vector];
    u32 hi = c.patch_starts[vector + 1];
    while (lo < hi) {
        const u32 mid = (lo + hi) / 2;
        if (c.patch_rows[mid] < row) lo = mid + 1;
        else hi = mid;
    }
    return lo < c.patch_starts[vector + 1] && c.patch_rows[lo] == row ? (i64)lo : -1;
}

// Row `row` of vector `vector`, in any encoding, if it fits 64 bits.
__device__ inline i64 segment_i64(const SegmentColumn& c, u32 vector, u32 row) {
    const u64 at = (u64)vector * 1024 + row;
    switch (c.kind) {
        case SEGMENT_CONSTANT: return (i64)c.reference_low;
        case SEGMENT_SIGNED:
            switch (c.width) {
                case 1: return ((const i8*)c.data)[at];
                case 2: return ((const i16*)c.data)[at];
                case 4: return ((const i32*)c.data)[at];
                default: return ((const i64*)c.data)[c.width == 16 ? 2 * at : at];
            }
        case SEGMENT_UNSIGNED:
            switch (c.width) {
                case 1: return c.data[at];
                case 2: return ((const u16*)c.data)[at];
                case 4: return ((const u32*)c.data)[at];
                default: return (i64)((const u64*)c.data)[at];
            }
        default: break;
    }
    if (c.patch_starts) {
        const i64 patch = segment_patch(c, vector, row);
        if (patch >= 0) return (i64)c.patch_values[patch];
    }
    u64 offset = 0;
    if (c.width > 0) {
        const u32 low = c.width < 32 ? c.width : 32;
        offset = lane_at((const u32*)c.data + (u64)vector * 32 * low, low, row);
        if (c.width > 32) {
            const u32 high = c.width - 32 < 32 ? c.width - 32 : 32;
            offset |= (u64)lane_at((const u32*)c.more[0] + (u64)vector * 32 * high, high, row) << 32;
        }
    }
    return (i64)((u64)segment_reference(c, vector) + offset);
}

// As segment_i64, of any width.
__device__ inline i128 segment_i128(const SegmentColumn& c, u32 vector, u32 row) {
    const u64 at = (u64)vector * 1024 + row;
    if (c.kind == SEGMENT_CONSTANT) return segment_reference(c, vector);
    if (c.kind == SEGMENT_SIGNED && c.width == 16) return ((const i128*)c.data)[at];
    if (c.kind == SEGMENT_UNSIGNED && c.width == 8) return (i128)((const u64*)c.data)[at];
    if (c.kind != SEGMENT_LANE) return segment_i64(c, vector, row);
    if (c.patch_starts) {
        const i64 patch = segment_patch(c, vector, row);
        if (patch >= 0) return c.patch_values[patch];
    }
    u128 offset = 0;
    for (u32 limb = 0; 32 * limb < c.width; limb++) {
        const u32 rest = c.width - 32 * limb;
        const u32 width = rest < 32 ? rest : 32;
        const u8* words = limb == 0 ? c.data : c.more[limb - 1];
        offset |= (u128)lane_at((const u32*)words + (u64)vector * 32 * width, width, row) << (32 * limb);
    }
    return (i128)((u128)segment_reference(c, vector) + offset);
}

__device__ __forceinline__ u32 segment_code(const SegmentColumn& c, u32 vector, u32 row) {
    const u32 code = (u32)segment_i64(c, vector, row);
    return c.remap ? c.remap[code] : code;
}

__device__ __forceinline__ Str segment_str(const SegmentColumn& c, u32 vector, u32 row) {
    if (c.kind == SEGMENT_VIEWS) return ((const Str*)c.data)[(u64)vector * 1024 + row];
    const u32* offsets = (const u32*)c.data + ((u64)vector * 1024 + row);
    return Str{c.more[0] + offsets[0], offsets[1] - offsets[0]};
}

__device__ __forceinline__ bool segment_valid(const SegmentColumn& c, u32 vector, u32 row) {
    return !c.valid || (c.valid[(u64)vector * 16 + (row >> 6)] >> (row & 63) & 1);
}

// The mask of a lane's valid rows.
__device__ __forceinline__ u32 valid_mask(const SegmentColumn& c, u32 vector, u32 lane) {
    if (!c.valid) return FULL_WARP;
    u32 mask = 0;
    for (u32 g = 0; g < 8; g++) {
        const u32 row = 128 * g + 4 * lane;
        mask |= (u32)(c.valid[(u64)vector * 16 + (row >> 6)] >> (row & 63) & 15) << (4 * g);
    }
    return mask;
}

// The rows of a lane whose value is in lo ..= hi, among W-bit offsets from `reference` that were loaded before.
template <int W>
__device__ __forceinline__ u32 lane_values_mask(const u32 (&words)[lane_words(W)], i64 lo, i64 hi, i64 reference) {
    const u64 most = lane_field_mask(W);
    if (lo > hi || hi < reference || (lo > reference && (u64)lo - (u64)reference > most)) return 0;
    const u64 first = lo <= reference ? 0 : (u64)lo - (u64)reference;
    const u64 last = (u64)hi - (u64)reference > most ? most : (u64)hi - (u64)reference;
    if (first == 0 && last == most) return FULL_WARP;
    return lane_words_range_mask<W>(words, (u32)first, (u32)(last - first + 1));
}

// The rows of `mask` whose key, `first` + offset, has its bit set among `keys` bits, which a zero bit follows: a test before
// the join, so that rows without a partner cost no more. CLAMPED: keys may lie outside; keys that differ by 2^32 may pass, and
// the join itself decides. ALL: bits of other rows are loaded too, which costs less than leaving them out where the bits are in
// shared memory.
template <int W, bool ALL, bool CLAMPED>
__device__ __forceinline__ u32 lane_bits_mask(u32 mask, const u32 (&words)[lane_words(W)], const u32* bits, u32 first, u32 keys) {
    u32 passed = 0;
#pragma unroll
    for (int j = 0; j < 32; j += 8) {
        // Eight loads are under way before the first is used.
        u32 key[8], found[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            key[i] = lane_get<W>(words, j + i);
            if (CLAMPED) {
                key[i] += first;
                key[i] = key[i] < keys ? key[i] : keys;
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) found[i] = ALL || (mask >> (j + i) & 1) ? bits[key[i] >> 5] : 0;
        // Shifts count modulo 32. The lowest bit of each is shifted in from above: after 32 of them, bit j is row j's.
#pragma unroll
        for (int i = 0; i < 8; i++) passed = __funnelshift_r(passed, __funnelshift_r(found[i], 0, key[i]), 1);
    }
    return passed & mask;
}

// The same, where `within` says that no row's key lies outside.
template <int W, bool NEAR>
__device__ __forceinline__ u32 lane_keys_mask(u32 mask, const u32 (&words)[lane_words(W)], const u32* bits, u32 first,
                                              u32 keys, bool within) {
    // Mostly segments begin where the build's keys do.
    if (within && first == 0) return lane_bits_mask<W, NEAR, false>(mask, words, bits, first, keys);
    return lane_bits_mask<W, NEAR, true>(mask, words, bits, first, keys);
}

// Folds the `words` words of a bitmap into `folds` words (a power of two) in shared memory: a bit is set if one of those that
// fall on it is. All threads of the block call, and synchronize afterwards.
__device__ inline void fold_bits(u32* folded, u32 folds, const u32* bits, u32 words) {
    for (u32 i = threadIdx.x; i < folds; i += blockDim.x) {
        u32 any = 0;
        for (u32 j = i; j < words; j += folds) any |= bits[j];
        folded[i] = any;
    }
}

// The rows of `mask` whose key, `first` + offset, has its bit set in a folded bitmap of `folds` words: few others than those
// of lane_keys_mask, at the cost of shared memory.
template <int W>
__device__ __forceinline__ u32 lane_folded_mask(u32 mask, const u32 (&words)[lane_words(W)], const u32* folded, u32 first,
                                                u32 folds) {
    u32 passed = 0;
#pragma unroll
    for (int j = 0; j < 32; j++) {
        const u32 key = first + lane_get<W>(words, j);
        passed = __funnelshift_r(passed, __funnelshift_r(folded[key >> 5 & (folds - 1)], 0, key), 1);
    }
    return passed & mask;
}

// Whether row 32 * batch + lane is among the rows of all lanes' masks. All lanes of the warp call.
__device__ __forceinline__ bool lane_mask_row(u32 mask, u32 lane, u32 batch) {
    const u32 owner = 8 * (batch & 3) + lane / 4, field = (batch & 28) + (lane & 3);
    return __shfl_sync(FULL_WARP, mask, owner) >> field & 1;
}

// Appends the rows of all lanes' masks to a warp's queue in shared memory, counted from `first`. All lanes of the warp call.
__device__ inline void queue_rows(u32 mask, u32 lane, u32 first, u16* queue) {
    const u32 mine = __popc(mask);
    u32 before = mine;
    for (u32 d = 1; d < 32; d *= 2) {
        const u32 other = __shfl_up_sync(FULL_WARP, before, d);
        if (lane >= d) before += other;
    }
    before -= mine;
    __syncwarp(FULL_WARP);
    while (mask) {
        const u32 j = __ffs(mask) - 1;
        mask &= mask - 1;
        queue[before++] = (u16)(first + striped_row(lane, j));
    }
    __syncwarp(FULL_WARP);
}
