// Least-significant-digit radix sort (Adinets and Merrill, "Onesweep", 2022; needs look_back.cuh and hash.cuh): one pass counts the digits
// of all places, then one pass per place moves each key to its final position among equal digits, stably. A key is read
// once and written once per place.

constexpr int DIGITS = 256;

// A digit of a key, or of its hash: keys are then partitioned evenly, whatever they are.
template <bool HASHED, class Key>
__device__ __forceinline__ u32 radix_digit(Key key, u32 bit, u32 mask) {
    return (u32)((HASHED ? partition_hash(key) : key) >> bit) & mask;
}

// ---- Counting

struct RadixCount {
    const void* keys;
    u64* counts;      // [places][256], zero at first
    u64 n;
    u32 first_bit;    // of the least significant place
    u32 bits;         // of all places together; each but the last has 8
};

// Adds the digits of all places to `counts`. `local` is 256 words of shared memory per place.
template <class Key, bool HASHED>
__device__ __forceinline__ void radix_count(const RadixCount& p, u32* local) {
    const u32 places = (p.bits + 7) / 8, last_mask = (1u << (p.bits - 8 * (places - 1))) - 1;
    for (u32 i = threadIdx.x; i < places * DIGITS; i += blockDim.x) {
        local[i] = 0;
    }
    __syncthreads();
    const Key* keys = (const Key*)p.keys;
    const auto count = [&](Key key) {
        const Key digits = (HASHED ? partition_hash(key) : key) >> p.first_bit;
        for (u32 place = 0; place < places; place++) {
            const u32 digit = (u32)(digits >> (8 * place)) & (place + 1 < places ? 0xFF : last_mask);
            atomicAdd(local + place * DIGITS + digit, 1u);
        }
    };
    const u64 stride = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    constexpr int UNROLL = 8;
    for (; i + (UNROLL - 1) * stride < p.n; i += UNROLL * stride) {
        Key key[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            key[k] = __ldg(keys + i + k * stride);
        }
#pragma unroll
        for (int k = 0; k < UNROLL; k++) {
            count(key[k]);
        }
    }
    for (; i < p.n; i += stride) {
        count(__ldg(keys + i));
    }
    __syncthreads();
    for (u32 d = threadIdx.x; d < places * DIGITS; d += blockDim.x) {
        if (local[d] > 0) {
            atomicAdd(p.counts + d, (u64)local[d]);
        }
    }
}

// The inclusive prefix sum over the first 256 threads of a block (at least 256). `shared` is 8 words; all threads call.
template <class T>
__device__ __forceinline__ T digit_prefix_sum(T x, T* shared) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 d = 1; d < 32; d *= 2) {
        const T other = __shfl_up_sync(0xFFFFFFFFu, x, d);
        x += lane >= d ? other : 0;
    }
    if (lane == 31 && warp < DIGITS / 32) {
        shared[warp] = x;
    }
    __syncthreads();
    for (u32 w = 0; w < warp && w < DIGITS / 32; w++) {
        x += shared[w];
    }
    return x;
}

// Turns the counts of place blockIdx.x into the positions where its digits begin (256 threads).
__device__ __forceinline__ void radix_starts(u64* counts, u64* shared) {
    const u64 count = counts[blockIdx.x * DIGITS + threadIdx.x];
    counts[blockIdx.x * DIGITS + threadIdx.x] = digit_prefix_sum(count, shared) - count;
}

// ---- Moving

struct RadixPass {
    const void* keys;
    void* keys_out;
    const u32* values;     // with `HAS_VALUES`
    u32* values_out;
    const u64* starts;     // of this place's 256 digits
    void* state;           // look-back words, [tiles][256], zero at first
    u32* counter;          // zero at first
    u64 n;
    u32 bit;               // the place's lowest bit
    u32 place_bits;        // 1 to 8: bits of the place
};

template <class Key, class State, int THREADS, int ITEMS, bool HAS_VALUES, bool HASHED>
struct RadixTile {
    static constexpr int WARPS = THREADS / 32;
    static constexpr int ROWS = THREADS * ITEMS;

    struct Shared {
        u64 offsets[DIGITS];           // global position of a digit less its position in the tile
        Key keys[ROWS];
        u32 values[HAS_VALUES ? ROWS : 2];
        u32 counts[WARPS][DIGITS];     // per warp: counts, then positions in the tile
        u32 sums[DIGITS / 32];
        u32 tile;
    };

    // The lanes of the warp with the same digit.
    __device__ static __forceinline__ u32 peers(u32 digit) {
        u32 same = 0xFFFFFFFFu;
#pragma unroll
        for (int b = 0; b < 8; b++) {
            same &= same_bit(digit, 1u << b);
        }
        return same;
    }

    // The lanes of the warp with the same bit of their digits.
    __device__ static __forceinline__ u32 same_bit(u32 digit, u32 bit) {
#ifdef WARPMILL_SIM
        const bool set = (digit & bit) != 0;
        const u32 vote = __ballot_sync(0xFFFFFFFFu, set);
        return set ? vote : ~vote;
#else
        // One predicate for the vote and its inversion: of the form above compilers make two, half as many instructions more.
        u32 same;
        asm volatile("{ .reg .pred set; .reg .b32 masked; and.b32 masked, %1, %2; setp.ne.u32 set, masked, 0;"
                     " vote.sync.ballot.b32 %0, set, 0xffffffff; @!set not.b32 %0, %0; }"
                     : "=r"(same)
                     : "r"(digit), "r"(bit));
        return same;
#endif
    }

    __device__ static __forceinline__ void run(const RadixPass& p, Shared& s) {
        for (u32 i = threadIdx.x; i < WARPS * DIGITS; i += THREADS) {
            (&s.counts[0][0])[i] = 0;
        }
        const u32 mask = (1u << p.place_bits) - 1, warp = threadIdx.x / 32;
        const u64 tile = next_tile(p.counter, &s.tile), first = tile * ROWS;
        const u32 rows = p.n - first < ROWS ? (u32)(p.n - first) : ROWS;

        // Keys of a warp follow each other, 32 at a time. Rows that a last tile lacks sort behind all others.
        const u32 start = warp * 32 * ITEMS + threadIdx.x % 32;
        const Key* keys = (const Key*)p.keys + first;
        Key key[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            key[i] = start + 32 * i < rows ? __ldg(keys + start + 32 * i) : ~(Key)0;
        }
        const auto digit = [&](int i) {
            return HASHED && start + 32 * i >= rows ? mask : radix_digit<HASHED>(key[i], p.bit, mask);
        };
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            atomicAdd(&s.counts[warp][digit(i)], 1u);
        }
        __syncthreads();
        const u32 total = positions(p, s, tile);
        __syncthreads();
        move(key, digit, s, p.values + first, start, rows);
        if (threadIdx.x < DIGITS) {
            // After the ranking, so that predecessors had time to publish.
            const State before = LookBack<State>::before((State*)p.state + threadIdx.x, DIGITS, tile);
            LookBack<State>::publish((State*)p.state + tile * DIGITS + threadIdx.x,
                                     LookBack<State>::PREFIX | (before + total));
            s.offsets[threadIdx.x] += p.starts[threadIdx.x] + before;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < rows; i += THREADS) {
            const Key moved = s.keys[i];
            const u64 to = s.offsets[radix_digit<HASHED>(moved, p.bit, mask)] + i;
            ((Key*)p.keys_out)[to] = moved;
            if constexpr (HAS_VALUES) {
                p.values_out[to] = s.values[i];
            }
        }
    }

    // Turns the warps' counts into positions in the tile and publishes the tile's counts; the count of this thread's digit.
    __device__ static __forceinline__ u32 positions(const RadixPass& p, Shared& s, u64 tile) {
        u32 total = 0;
        if (threadIdx.x < DIGITS) {
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                const u32 count = s.counts[w][threadIdx.x];
                s.counts[w][threadIdx.x] = total;
                total += count;
            }
            LookBack<State>::publish((State*)p.state + tile * DIGITS + threadIdx.x, LookBack<State>::OWN | total);
        }
        const u32 begin = digit_prefix_sum(total, s.sums) - total;
        if (threadIdx.x < DIGITS) {
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                s.counts[w][threadIdx.x] += begin;
            }
            s.offsets[threadIdx.x] = (u64)0 - begin;
        }
        return total;
    }

    // Moves keys (and values) to their positions in the tile: equal digits of a warp's 32 keys take consecutive ones.
    template <class Digit>
    __device__ static __forceinline__ void move(const Key (&key)[ITEMS], Digit digit, Shared& s, const u32* values,
                                                u32 start, u32 rows) {
        u32* next = s.counts[threadIdx.x / 32];
        u32 at[ITEMS];
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const u32 own = digit(i), same = peers(own), leader = 31 - __clz(same);
            u32 base = 0;
            if (threadIdx.x % 32 == leader) {
                base = atomicAdd(next + own, (u32)__popc(same));
            }
            at[i] = __shfl_sync(0xFFFFFFFFu, base, leader) + __popc(same & lane_mask_lt());
            s.keys[at[i]] = key[i];
        }
        if constexpr (HAS_VALUES) {
            u32 value[ITEMS];
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                value[i] = start + 32 * i < rows ? __ldg(values + start + 32 * i) : 0;
            }
#pragma unroll
            for (int i = 0; i < ITEMS; i++) {
                s.values[at[i]] = value[i];
            }
        }
        __syncthreads();
    }
};
