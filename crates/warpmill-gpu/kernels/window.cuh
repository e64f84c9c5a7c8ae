// Window functions over rows in the order of partitions and peers. A position is a row's number in that order.
//
// Series are arrays by position that frames are summed over. A tile of them is scanned by one block, in place, and the totals of
// all tiles by one block more: whoever reads a sum adds the total before the tile to the sum within it, so that a series is read
// once and written once. Nothing waits for another block, and sums of floats are the same in every run.

constexpr u32 WINDOW_THREADS = 256;
constexpr u32 WINDOW_ITEMS = 8;
constexpr u32 WINDOW_TILE = WINDOW_THREADS * WINDOW_ITEMS;
constexpr u32 WINDOW_TOTALS_THREADS = 1024;

// Flags of a position: the first of a group of peers, the first of a partition.
constexpr u8 GROUP_HEAD = 1;
constexpr u8 PARTITION_HEAD = 2;

// ---- Operations that series are combined by: `zero` changes nothing that it is combined with

// 192 bits, which no sum of 2^32 values of 128 bits leaves.
struct Long {
    u64 low, high, top;
};
__device__ __forceinline__ Long long_of(i128 x) {
    return Long{(u64)x, (u64)((u128)x >> 64), x < 0 ? ~0ull : 0ull};
}
__device__ __forceinline__ Long long_sum(Long a, Long b) {
    own_add_wide(a.low, a.high, a.top, (u128)b.high << 64 | b.low, b.top);
    return a;
}
__device__ __forceinline__ Long long_difference(Long a, Long b) {
    return long_sum(long_sum(a, Long{~b.low, ~b.high, ~b.top}), Long{1, 0, 0});
}

struct CountSum {
    typedef u32 T;
    __device__ static __forceinline__ T zero() { return 0; }
    __device__ static __forceinline__ T combine(T a, T b) { return a + b; }
};
struct WordSum {
    typedef u64 T;
    __device__ static __forceinline__ T zero() { return 0; }
    __device__ static __forceinline__ T combine(T a, T b) { return a + b; }
};
struct WideSum {
    typedef u128 T;
    __device__ static __forceinline__ T zero() { return 0; }
    __device__ static __forceinline__ T combine(T a, T b) { return a + b; }
};
struct LongSum {
    typedef Long T;
    __device__ static __forceinline__ T zero() { return Long{0, 0, 0}; }
    __device__ static __forceinline__ T combine(T a, T b) { return long_sum(a, b); }
};
struct FloatSum {
    typedef double T;
    __device__ static __forceinline__ T zero() { return 0.0; }
    __device__ static __forceinline__ T combine(T a, T b) { return a + b; }
};
struct Greatest {
    typedef u64 T;
    __device__ static __forceinline__ T zero() { return 0; }
    __device__ static __forceinline__ T combine(T a, T b) { return a > b ? a : b; }
};
struct GreatestWide {
    typedef u128 T;
    __device__ static __forceinline__ T zero() { return 0; }
    __device__ static __forceinline__ T combine(T a, T b) { return a > b ? a : b; }
};

// Values since the last head: what comes before a head is forgotten.
template <class M>
struct Since {
    struct T {
        typename M::T value;
        u64 head;
    };
    __device__ static __forceinline__ T zero() { return T{M::zero(), 0}; }
    __device__ static __forceinline__ T combine(const T& a, const T& b) {
        return b.head ? b : T{M::combine(a.value, b.value), a.head};
    }
};

// ---- Scans

// The value of the lane `d` below.
template <class T>
__device__ __forceinline__ T lane_below(const T& x, u32 d) {
    T y;
    if constexpr (sizeof(T) == 4) {
        *(u32*)&y = __shfl_up_sync(FULL_WARP, *(const u32*)&x, d);
    } else {
#pragma unroll
        for (u32 i = 0; i < sizeof(T) / 8; i++) ((u64*)&y)[i] = __shfl_up_sync(FULL_WARP, ((const u64*)&x)[i], d);
    }
    return y;
}
// The value of the last lane.
template <class T>
__device__ __forceinline__ T last_lane(const T& x) {
    T y;
    if constexpr (sizeof(T) == 4) {
        *(u32*)&y = __shfl_sync(FULL_WARP, *(const u32*)&x, 31);
    } else {
#pragma unroll
        for (u32 i = 0; i < sizeof(T) / 8; i++) ((u64*)&y)[i] = __shfl_sync(FULL_WARP, ((const u64*)&x)[i], 31);
    }
    return y;
}

// The values of all lanes up to this one.
template <class M>
__device__ __forceinline__ typename M::T up_to_lane(typename M::T x, u32 lane) {
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
        const typename M::T other = lane_below(x, d);
        if (lane >= d) x = M::combine(other, x);
    }
    return x;
}

// Scans the tile of this block: `load` gives the value at a position, `store` gets that of all from the tile's first position on. Gives
// the tile's total to the last thread. All threads call, for a tile with at least one position.
template <class M, class Load, class Store>
__device__ __forceinline__ typename M::T scan_tile(u64 rows, Load load, Store store) {
    typedef typename M::T T;
    __shared__ T warps[WINDOW_THREADS / 32];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const u64 first = (u64)blockIdx.x * WINDOW_TILE + warp * 32 * WINDOW_ITEMS + lane;
    T x[WINDOW_ITEMS], sum = M::zero();
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u64 at = first + 32 * i;
        x[i] = at < rows ? load(at) : M::zero();
    }
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        x[i] = M::combine(sum, up_to_lane<M>(x[i], lane));
        sum = last_lane(x[i]);
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    T before = M::zero();
    for (u32 w = 0; w < warp; w++) before = M::combine(before, warps[w]);
#pragma unroll
    for (u32 i = 0; i < WINDOW_ITEMS; i++) {
        const u64 at = first + 32 * i;
        if (at < rows) store(at, M::combine(before, x[i]));
    }
    return M::combine(before, sum);
}

// Turns the totals of all tiles into those before each. One block of WINDOW_TOTALS_THREADS.
template <class M>
__device__ __forceinline__ void scan_totals(typename M::T* totals, u64 rows) {
    typedef typename M::T T;
    constexpr u32 WARPS = WINDOW_TOTALS_THREADS / 32;
    __shared__ T warps[WARPS];
    const u64 tiles = (rows + WINDOW_TILE - 1) / WINDOW_TILE;
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    T sum = M::zero();
    for (u64 first = 0; first < tiles; first += WINDOW_TOTALS_THREADS) {
        const u64 tile = first + threadIdx.x;
        const T through = up_to_lane<M>(tile < tiles ? totals[tile] : M::zero(), lane);
        if (lane == 31) warps[warp] = through;
        __syncthreads();
        T before = sum;
        for (u32 w = 0; w < WARPS; w++) {
            if (w == warp) before = sum;
            sum = M::combine(sum, warps[w]);
        }
        const T below = lane_below(through, 1);
        if (tile < tiles) totals[tile] = lane == 0 ? before : M::combine(before, below);
        __syncthreads();
    }
}

// Scans the tiles of a series in place.
template <class M>
__device__ __forceinline__ void scan_series(typename M::T* series, typename M::T* totals, u64 rows) {
    typedef typename M::T T;
    if ((u64)blockIdx.x * WINDOW_TILE >= rows) return;
    const T total = scan_tile<M>(rows, [&](u64 at) { return series[at]; }, [&](u64 at, const T& sum) { series[at] = sum; });
    if (threadIdx.x == WINDOW_THREADS - 1) totals[blockIdx.x] = total;
}

// The same, each partition by itself.
template <class M>
__device__ __forceinline__ void scan_partitions(typename M::T* series, const u8* heads, typename Since<M>::T* totals, u64 rows) {
    typedef typename Since<M>::T T;
    if ((u64)blockIdx.x * WINDOW_TILE >= rows) return;
    const T total = scan_tile<Since<M>>(
        rows, [&](u64 at) { return T{series[at], (u64)(heads[at] & PARTITION_HEAD)}; },
        [&](u64 at, const T& sum) { series[at] = sum.value; });
    if (threadIdx.x == WINDOW_THREADS - 1) totals[blockIdx.x] = total;
}

// All values of a scanned series before a position.
template <class M>
__device__ __forceinline__ typename M::T all_before(const typename M::T* series, const typename M::T* totals, u64 position) {
    return position == 0 ? M::zero() : M::combine(totals[(position - 1) / WINDOW_TILE], series[position - 1]);
}

// The values from `start`, the first position of a partition, to `end`, of a series that was scanned partition by partition.
template <class M>
__device__ __forceinline__ typename M::T since_head(
    const typename M::T* series, const typename Since<M>::T* totals, u64 start, u64 end) {
    if (end <= start) return M::zero();
    const u64 tile = (end - 1) / WINDOW_TILE;
    return start < tile * WINDOW_TILE ? M::combine(totals[tile].value, series[end - 1]) : series[end - 1];
}

// ---- Numbers of partitions and groups

// Heads of groups in the lower half, of partitions in the upper one.
__device__ __forceinline__ u64 head_counts(u32 heads) {
    return (u64)(heads & GROUP_HEAD) | (u64)(heads / PARTITION_HEAD & 1) << 32;
}

// Counts the heads of each tile.
__device__ __forceinline__ void count_heads(const u8* heads, u64* totals, u64 rows) {
    if ((u64)blockIdx.x * WINDOW_TILE >= rows) return;
    const u64 total = scan_tile<WordSum>(rows, [&](u64 at) { return head_counts(heads[at]); }, [](u64, u64) {});
    if (threadIdx.x == WINDOW_THREADS - 1) totals[blockIdx.x] = total;
}

// The number of each position's partition or group, and the first position of each number, and the number of rows behind the last.
struct Numbers {
    u32* of;
    u32* starts;
};

template <bool PARTITIONS, bool GROUPS>
__device__ __forceinline__ void number_heads(
    const u8* heads, const u64* totals, const Numbers& partitions, const Numbers& groups, u64 rows) {
    if ((u64)blockIdx.x * WINDOW_TILE >= rows) return;
    const u64 before = totals[blockIdx.x];
    const auto store = [&](u64 at, u64 sum) {
        // The first position is a head of both, so that no count is 0.
        const u64 counts = before + sum;
        const u32 partition = (u32)(counts >> 32) - 1, group = (u32)counts - 1, flags = heads[at];
        const bool last = at + 1 == rows;
        if constexpr (PARTITIONS) {
            partitions.of[at] = partition;
            if (flags & PARTITION_HEAD) partitions.starts[partition] = (u32)at;
            if (last) partitions.starts[partition + 1] = (u32)rows;
        }
        if constexpr (GROUPS) {
            groups.of[at] = group;
            if (flags & GROUP_HEAD) groups.starts[group] = (u32)at;
            if (last) groups.starts[group + 1] = (u32)rows;
        }
    };
    scan_tile<WordSum>(rows, [&](u64 at) { return head_counts(heads[at]); }, store);
}

// ---- Trees: sums of 16, 256, ... values of a series, for frames that end anywhere

constexpr u64 WINDOW_FAN = 16;

// Makes a level of the one below it, which has `count` values.
template <class M>
__device__ __forceinline__ void make_level(const typename M::T* from, typename M::T* to, u64 count) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i * WINDOW_FAN < count; i += stride) {
        const u64 end = (i + 1) * WINDOW_FAN < count ? (i + 1) * WINDOW_FAN : count;
        typename M::T sum = M::zero();
        for (u64 at = i * WINDOW_FAN; at < end; at++) sum = M::combine(sum, from[at]);
        to[i] = sum;
    }
}

// The values from one position to another: at most 30 of each level. `levels` lie in `tree`, each with room for a sixteenth of the
// one below, the series with room for `capacity` values. Where frames are short there are few levels.
template <class M>
__device__ inline typename M::T sum_of_frame(
    const typename M::T* series, const typename M::T* tree, u64 capacity, u32 levels, u64 from, u64 to) {
    typedef typename M::T T;
    T left = M::zero(), right = M::zero();
    const T* at = series;
    u64 room = capacity;
    for (u32 level = 0; from < to; level++) {
        const u64 up = (from + WINDOW_FAN - 1) / WINDOW_FAN, down = to / WINDOW_FAN;
        if (level == levels || up >= down) {
            for (; from < to; from++) left = M::combine(left, at[from]);
            break;
        }
        for (; from < up * WINDOW_FAN; from++) left = M::combine(left, at[from]);
        T own = M::zero();
        for (u64 i = down * WINDOW_FAN; i < to; i++) own = M::combine(own, at[i]);
        right = M::combine(own, right);
        at = level == 0 ? tree : at + room;
        room = (room + WINDOW_FAN - 1) / WINDOW_FAN;
        from = up;
        to = down;
    }
    return M::combine(left, right);
}

// ---- Frames at distances of values

__device__ __forceinline__ i128 saturated_sum(i128 a, i128 b) {
    const i128 sum = (i128)((u128)a + (u128)b);
    // The sum has another sign than both.
    if (((a ^ sum) & (b ^ sum)) < 0) return (i128)((u128)(a < 0 ? 0 : -1) ^ (u128)1 << 127);
    return sum;
}

// The first position from `from` to `to` whose code is not less than `target`, or, with `AFTER`, is greater; codes ascend.
template <bool AFTER>
__device__ inline u64 search_codes(const u128* codes, u64 from, u64 to, u128 target) {
    while (from < to) {
        const u64 middle = from + (to - from) / 2;
        const u128 code = codes[middle];
        if (AFTER ? code <= target : code < target) from = middle + 1;
        else to = middle;
    }
    return from;
}
