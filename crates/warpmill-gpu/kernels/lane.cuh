// The lane layout (docs/format.md, section 5): 1024 fields of W bits, packed for one warp.
//
// Lane l owns 32 fields in W words of its own: field j is bits j * W .. (j + 1) * W - 1 of them. Four words of a lane lie
// side by side, so that a lane loads 16 bytes at once and a warp's loads are contiguous; nothing is staged or exchanged. In
// striped order field j of lane l is row 128 * (j / 4) + 4 * l + j % 4 of the vector, in blocked order row 32 * l + j.
//
// Functions that take a template width W (0 to 32) expect `j` to be a constant after unrolling: each field is then one or
// two instructions. Those that take a run-time width serve single rows.

constexpr int LANES = 32;
constexpr int VECTOR_ROWS = 1024;
constexpr u32 FULL_WARP = 0xFFFFFFFFu;

constexpr __host__ __device__ u32 lane_field_mask(u32 w) { return w >= 32 ? 0xFFFFFFFFu : (1u << w) - 1; }

// Registers that hold a lane's words: an array may not be empty.
constexpr __host__ __device__ int lane_words(int w) { return w > 0 ? w : 1; }

// The row in the vector of field j of a lane, in striped order.
__device__ __forceinline__ u32 striped_row(u32 lane, u32 j) { return (j & 28) * 32 + 4 * lane + (j & 3); }

// Where word k < w of a lane lies in a packed vector of w words per lane.
__device__ __forceinline__ u32 lane_word_index(u32 w, u32 k, u32 lane) {
    const u32 quads = w & ~3u;
    if (w % 4 == 0 || k < quads) {
        return (k & ~3u) * 32 + 4 * lane + (k & 3);
    }
    if ((w & 2) && k < quads + 2) {
        return quads * 32 + 2 * lane + (k - quads);
    }
    return (w - 1) * 32 + lane;
}

// ---- Whole vectors

// Loads the words of `lane` of the packed vector at `vector` (16-byte aligned).
template <int W>
__device__ __forceinline__ void lane_load(u32 (&words)[lane_words(W)], const u32* __restrict__ vector, u32 lane) {
    constexpr int Q = W / 4;
#pragma unroll
    for (int k = 0; k < Q; k++) {
        const uint4 quad = __ldg((const uint4*)(vector + 128 * k) + lane);
        words[4 * k] = quad.x;
        words[4 * k + 1] = quad.y;
        words[4 * k + 2] = quad.z;
        words[4 * k + 3] = quad.w;
    }
    if constexpr ((W & 2) != 0) {
        const uint2 pair = __ldg((const uint2*)(vector + 128 * Q) + lane);
        words[4 * Q] = pair.x;
        words[4 * Q + 1] = pair.y;
    }
    if constexpr ((W & 1) != 0) {
        words[W - 1] = __ldg(vector + 32 * (W - 1) + lane);
    }
}

// Field j.
template <int W>
__device__ __forceinline__ u32 lane_get(const u32 (&words)[lane_words(W)], int j) {
    if constexpr (W == 0) {
        return 0;
    } else {
        const int bit = j * W, k = bit / 32, s = bit % 32;
        if (s + W == 32) {
            return words[k] >> s;
        }
        if (s + W < 32) {
            return (words[k] >> s) & lane_field_mask(W);
        }
        return __funnelshift_r(words[k], words[k + 1 < W ? k + 1 : k], s) & lane_field_mask(W);
    }
}

// Field j in the top W bits, with other fields' bits below: for comparisons with constants shifted left by 32 - W. W >= 1.
template <int W>
__device__ __forceinline__ u32 lane_top(const u32 (&words)[lane_words(W)], int j) {
    static_assert(W >= 1, "a field of no bits has no top");
    const int bit = j * W, k = bit / 32, s = bit % 32;
    if (s + W == 32) {
        return words[k];
    }
    if (s + W < 32) {
        return words[k] << (32 - s - W);
    }
    return __funnelshift_r(words[k], words[k + 1 < W ? k + 1 : k], s + W - 32);
}

// ---- Single rows

// The word at `at` under a condition, otherwise 0, without a branch, which would wait for loads before it.
__device__ __forceinline__ u32 load_if(bool condition, const u32* at) {
#ifdef __CUDA_ARCH__
    u32 word;
    asm("{ .reg .pred wanted; setp.ne.u32 wanted, %2, 0; mov.u32 %0, 0; @wanted ld.global.nc.u32 %0, [%1]; }"
        : "=r"(word)
        : "l"(at), "r"((u32)condition));
    return word;
#else
    return condition ? *at : 0;
#endif
}

// The field of `row`, counted from the first row of the first vector at `packed`, in striped order.
template <int W>
__device__ __forceinline__ u32 lane_at(const u32* __restrict__ packed, u32 row) {
    if constexpr (W == 0) {
        return 0;
    } else {
        const u32* vector = packed + (u64)(row / VECTOR_ROWS) * (LANES * W);
        const u32 lane = row / 4 % 32, bit = ((row / 32 & 28) | (row & 3)) * W;
        const u32 k = bit / 32, s = bit % 32;
        const u32 low = __ldg(vector + lane_word_index(W, k, lane));
        if constexpr (32 % W == 0) {
            return (low >> s) & lane_field_mask(W);
        } else {
            // Rows lie apart: every load that is left out counts, and so does waiting for one before the next.
            const u32 high = load_if(s + W > 32, vector + lane_word_index(W, k + 1 < W ? k + 1 : k, lane));
            return __funnelshift_r(low, high, s) & lane_field_mask(W);
        }
    }
}

// The same for a width known at run time.
__device__ __forceinline__ u32 lane_at(const u32* __restrict__ packed, u32 w, u32 row) {
    if (w == 0) {
        return 0;
    }
    const u32* vector = packed + (u64)(row / VECTOR_ROWS) * (LANES * w);
    const u32 lane = row / 4 % 32, bit = ((row / 32 & 28) | (row & 3)) * w;
    const u32 k = bit / 32, s = bit % 32;
    const u32 low = __ldg(vector + lane_word_index(w, k, lane));
    const u32 high = __ldg(vector + lane_word_index(w, s + w > 32 ? k + 1 : k, lane));
    return __funnelshift_r(low, high, s) & lane_field_mask(w);
}
