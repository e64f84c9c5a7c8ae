// Lane-packed deltas (docs/format.md, LaneDelta; needs lane.cuh). Fields are in blocked order, so that a prefix sum stays
// inside the lane: no shuffles, no barriers.

// The base of a lane: entry `index` (32 per vector) of `bytes` (1, 2, 4 or 8) bytes each.
__device__ __forceinline__ u64 lane_base(const u8* __restrict__ bases, u32 bytes, u64 index) {
    switch (bytes) {
        case 1: return __ldg(bases + index);
        case 2: return __ldg((const u16*)bases + index);
        case 4: return __ldg((const u32*)bases + index);
        default: return __ldg((const u64*)bases + index);
    }
}

// Decodes the 32 rows of `lane` (rows 32 * lane .. of the vector) from words loaded before: values[0] is `first`, each next
// one the value before + `step` + its field. T is u32 or u64; offsets from a vector's reference fit u32 unless a base has 8
// bytes.
template <int W, class T>
__device__ __forceinline__ void lane_prefix(T (&values)[32], const u32 (&words)[lane_words(W)], T first, T step) {
    values[0] = first;
#pragma unroll
    for (int j = 1; j < 32; j++) {
        values[j] = values[j - 1] + step + (T)lane_get<W>(words, j);
    }
}

// Words of shared memory that a warp needs to reorder a vector of 32-bit values.
constexpr int REORDER_WORDS = 1024 + 4 * 32;

// Turns 32 values per lane in blocked order into striped order, by way of the warp's REORDER_WORDS words (16-byte aligned).
// Each lane's 32 values are followed by four unused words, which keeps 16-byte accesses free of bank conflicts.
__device__ __forceinline__ void blocked_to_striped(u32 (&values)[32], u32* shared, u32 lane) {
    __syncwarp(FULL_WARP);
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
        *(uint4*)(shared + 36 * lane + j) = make_uint4(values[j], values[j + 1], values[j + 2], values[j + 3]);
    }
    __syncwarp(FULL_WARP);
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
        const u32 row = 32 * j + 4 * lane;
        const uint4 four = *(const uint4*)(shared + row + row / 32 * 4);
        values[j] = four.x;
        values[j + 1] = four.y;
        values[j + 2] = four.z;
        values[j + 3] = four.w;
    }
}
