// LIKE '%a%b%' as generated kernels test it: a row per thread (needs value, compare, strings and like.cuh).

struct LikeRows {
    const u8* bytes;
    const u32* offsets;    // rows + 1
    u32* out;              // a bit per row
    u64 rows;
    Needle first;
    Needle second;
};

template <u32 FIRST_SPAN, u32 SECOND_SPAN>
__device__ __forceinline__ void like_rows(const LikeRows& p) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < p.rows; first += threads) {
        const u64 row = first + threadIdx.x;
        bool match = false;
        if (row < p.rows) {
            const Str s = {p.bytes + p.offsets[row], p.offsets[row + 1] - p.offsets[row]};
            match = like_part(like_part(like_any(s), p.first, FIRST_SPAN), p.second, SECOND_SPAN).match;
        }
        const u32 matches = __ballot_sync(0xffffffffu, match);
        if (threadIdx.x % 32 == 0 && row < p.rows) p.out[row / 32] = matches;
    }
}
