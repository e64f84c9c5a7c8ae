// Sums of values per group, three ways: by how many groups there are (needs hash.cuh).

// ---- Few groups (keys 0 .. groups - 1): a private table per thread in shared memory. No atomics, no bank conflicts, and no
// contention when one group has most rows. `sums` is [groups][blockDim.x].

__device__ __forceinline__ void private_clear(u64* sums, u32 groups) {
    for (u32 g = 0; g < groups; g++) {
        sums[g * blockDim.x + threadIdx.x] = 0;
    }
}

__device__ __forceinline__ void private_add(u64* sums, u32 group, u64 value) {
    sums[group * blockDim.x + threadIdx.x] += value;
}

// Adds all threads' tables to `out`. All threads of the block call; a warp adds up one group at a time.
__device__ __forceinline__ void private_flush(const u64* sums, u32 groups, u64* out) {
    __syncthreads();
    const u32 lane = threadIdx.x % 32;
    for (u32 g = threadIdx.x / 32; g < groups; g += blockDim.x / 32) {
        u64 sum = 0;
        for (u32 t = lane; t < blockDim.x; t += 32) {
            sum += sums[g * blockDim.x + t];
        }
        for (u32 d = 16; d > 0; d /= 2) {
            sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
        }
        if (lane == 0 && sum != 0) {
            atomicAdd(out + g, sum);
        }
    }
}

// ---- Many groups of any 32-bit keys: open addressing in global memory.

constexpr u32 NO_GROUP = 0xFFFFFFFFu;

struct __align__(16) GroupSlot {
    u32 key;       // NO_GROUP: no group yet
    u32 unused;
    u64 sum;
};

// The slots, 2^k of them or any other number, and behind them one for the key NO_GROUP itself.
struct GroupTable {
    GroupSlot* slots;
    u64 count;
    u32* full;     // set when a key found no slot: the table was too small
};

// Groups with nearby hashes lie near each other, so that rows partitioned by the hash's highest bits touch one part.
__device__ __forceinline__ u64 group_slot(const GroupTable& table, u32 key) {
    return (u64)partition_hash(key) * table.count >> 32;
}

// Adds N rows at once, so that N slots are on their way together.
template <int N>
__device__ __forceinline__ void group_add(const GroupTable& table, const u32 (&keys)[N], const u32 (&values)[N]) {
    u64 slot[N];
    u32 held[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        slot[k] = keys[k] == NO_GROUP ? table.count : group_slot(table, keys[k]);
        held[k] = table.slots[slot[k]].key;
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        u64 steps = 0;
        while (held[k] != keys[k]) {
            if (held[k] == NO_GROUP) {
                // A stale NO_GROUP is corrected by the exchange.
                held[k] = atomicCAS(&table.slots[slot[k]].key, NO_GROUP, keys[k]);
                if (held[k] == NO_GROUP || held[k] == keys[k]) {
                    break;
                }
            }
            if (++steps == table.count) {
                *table.full = 1;
                break;
            }
            slot[k] = slot[k] + 1 < table.count ? slot[k] + 1 : 0;
            held[k] = table.slots[slot[k]].key;
        }
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
        atomicAdd(&table.slots[slot[k]].sum, (u64)values[k]);
    }
}
