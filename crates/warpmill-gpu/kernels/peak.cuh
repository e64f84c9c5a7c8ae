// Reads memory as fast as it comes: what the bandwidth of other kernels is compared with.

struct alignas(16) PeakPair {
    u64 a, b;
};

struct Peak {
    const PeakPair* data;
    u64 pairs;
    u64* sum;
};

extern "C" __global__ void __launch_bounds__(512) peak_read(const Peak p) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    u64 sum = 0;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < p.pairs; i += 4 * stride) {
        const PeakPair x = p.data[i], y = p.data[i + stride], z = p.data[i + 2 * stride], w = p.data[i + 3 * stride];
        sum += (x.a ^ x.b) + (y.a ^ y.b) + (z.a ^ z.b) + (w.a ^ w.b);
    }
    for (; i < p.pairs; i += stride) sum += p.data[i].a ^ p.data[i].b;
    // One atomic operation per warp: one per thread would take as long as the reads.
    for (u32 d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    if (threadIdx.x % 32 == 0) atomicAdd(p.sum, sum);
}
