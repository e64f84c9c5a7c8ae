// Exclusive prefix sums in one pass (needs look_back.cuh): a tile is 256 threads of 16 items.

constexpr int SUM_THREADS = 256;
constexpr int SUM_ITEMS = 16;
constexpr int SUM_ROWS = SUM_THREADS * SUM_ITEMS;

struct PrefixSum {
    const u32* in;
    u64* out;          // n sums, then the total
    u64* state;        // look-back words, one per tile, zero at first
    u32* counter;      // zero at first
    u64 n;
};

struct PrefixSumShared {
    u32 items[SUM_ROWS + SUM_ROWS / 32];    // a gap after each 32 keeps the transposition free of bank conflicts
    u64 sums[SUM_THREADS / 32];
    u64 before;
    u32 tile;
};

__device__ __forceinline__ u32 prefix_sum_slot(u32 i) { return i + i / 32; }

__device__ __forceinline__ void prefix_sum(const PrefixSum& p, PrefixSumShared& s) {
    const u64 tile = next_tile(p.counter, &s.tile), first = tile * SUM_ROWS;
    const u32 rows = p.n - first < SUM_ROWS ? (u32)(p.n - first) : SUM_ROWS;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 i = threadIdx.x; i < SUM_ROWS; i += SUM_THREADS) {
        s.items[prefix_sum_slot(i)] = i < rows ? p.in[first + i] : 0;
    }
    __syncthreads();
    u64 own = 0;
    for (u32 i = 0; i < SUM_ITEMS; i++) {
        own += s.items[prefix_sum_slot(threadIdx.x * SUM_ITEMS + i)];
    }
    u64 upto = own;
    for (u32 d = 1; d < 32; d *= 2) {
        const u64 other = __shfl_up_sync(0xFFFFFFFFu, upto, d);
        upto += lane >= d ? other : 0;
    }
    if (lane == 31) {
        s.sums[warp] = upto;
    }
    __syncthreads();
    for (u32 w = 0; w < warp; w++) {
        upto += s.sums[w];
    }
    if (threadIdx.x == SUM_THREADS - 1) {
        LookBack<u64>::publish(p.state + tile, LookBack<u64>::OWN | upto);
        s.before = LookBack<u64>::before(p.state, 1, tile);
        LookBack<u64>::publish(p.state + tile, LookBack<u64>::PREFIX | (s.before + upto));
        if (first + rows == p.n) {
            p.out[p.n] = s.before + upto;
        }
    }
    __syncthreads();
    u64 sum = s.before + upto - own;
    // A thread's sums are 128 contiguous bytes: whole sectors, whichever lane writes them.
    for (u32 i = 0; i < SUM_ITEMS; i++) {
        const u32 at = threadIdx.x * SUM_ITEMS + i;
        if (at < rows) {
            p.out[first + at] = sum;
            sum += s.items[prefix_sum_slot(at)];
        }
    }
}
