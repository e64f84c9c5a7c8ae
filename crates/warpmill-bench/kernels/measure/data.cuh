// Test data and checks for the micro-benchmarks: everything is a function of a row's number, so that any kernel can make it
// again and answers are known without running what is measured.

__device__ __forceinline__ u64 draw(u64 i, u64 seed) {
    u64 x = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 29;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

// An even draw from 0 .. n - 1.
__device__ __forceinline__ u64 draw_below(u64 i, u64 seed, u64 n) { return __umul64hi(draw(i, seed), n); }

__device__ __forceinline__ u64 thread_number() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 thread_count() { return (u64)gridDim.x * blockDim.x; }

// Adds every thread's sum to `out`, once per warp. All lanes call.
__device__ __forceinline__ void add_sum(u64 sum, u64* out) {
    for (u32 d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    }
    if (threadIdx.x % 32 == 0 && sum != 0) {
        atomicAdd(out, sum);
    }
}

struct SumWords {
    const u32* in;
    u64* out;
    u64 n;
};

// The sum of 32-bit words: the reference that decoded values are checked with.
extern "C" __global__ void sum_words(SumWords p) {
    u64 sum = 0;
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        sum += p.in[i];
    }
    add_sum(sum, p.out);
}
