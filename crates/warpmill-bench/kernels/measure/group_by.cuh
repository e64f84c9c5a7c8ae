// One SUM per group over rows of a 32-bit key and a 32-bit value (needs data.cuh and group_by.cuh).

struct GroupData {
    u32* keys;
    u32* values;
    u64* out;           // sums by group number
    GroupTable table;
    u64 n;              // a multiple of 4
    u64 seed;
    u32 groups;
    u32 scatter;        // keys: 0 = group numbers, 1 = scattered over 32 bits
};

// An odd multiplier: one key per group.
__device__ __forceinline__ u32 group_key(u32 group, u32 scatter) { return scatter ? group * 0x9E3779B1u : group; }
__device__ __forceinline__ u32 row_value(u64 i, u64 seed) { return (u32)draw(i, seed + 1) >> 12; }

extern "C" __global__ void group_make(GroupData p) {
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        p.keys[i] = group_key((u32)draw_below(i, p.seed, p.groups), p.scatter);
        p.values[i] = row_value(i, p.seed);
    }
}

// The reference: one atomic per row on the group's number, which is drawn again.
extern "C" __global__ void group_expect(GroupData p) {
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        atomicAdd(p.out + draw_below(i, p.seed, p.groups), (u64)row_value(i, p.seed));
    }
}

struct GroupCheck {
    const u64* expected;
    const u64* sums;      // by group number; null: those of `table`
    GroupTable table;
    u64* wrong;
    u32 groups;
    u32 scatter;
};

extern "C" __global__ void group_check(GroupCheck p) {
    u64 wrong = 0;
    for (u64 g = thread_number(); g < p.groups; g += thread_count()) {
        u64 sum = 0;
        if (p.sums) {
            sum = p.sums[g];
        } else {
            const u32 key = group_key((u32)g, p.scatter);
            u64 slot = key == NO_GROUP ? p.table.count : group_slot(p.table, key);
            while (p.table.slots[slot].key != key && p.table.slots[slot].key != NO_GROUP) {
                slot = slot + 1 < p.table.count ? slot + 1 : 0;
            }
            sum = p.table.slots[slot].key == key ? p.table.slots[slot].sum : 0;
        }
        wrong += sum != p.expected[g];
    }
    add_sum(wrong, p.wrong);
}

extern "C" __global__ void group_clear(GroupTable table) {
    for (u64 i = thread_number(); i <= table.count; i += thread_count()) {
        table.slots[i] = GroupSlot{NO_GROUP, 0, 0};
    }
}

// Calls add(keys, values) for 8 rows at a time, add4 for 4.
template <class Add>
__device__ __forceinline__ void each_rows(const GroupData& p, Add add) {
    const uint4 *keys = (const uint4*)p.keys, *values = (const uint4*)p.values;
    const u64 quads = p.n / 4, stride = thread_count();
    u64 i = thread_number();
    for (; i + stride < quads; i += 2 * stride) {
        const uint4 k0 = __ldg(keys + i), k1 = __ldg(keys + i + stride);
        const uint4 v0 = __ldg(values + i), v1 = __ldg(values + i + stride);
        const u32 key[8] = {k0.x, k0.y, k0.z, k0.w, k1.x, k1.y, k1.z, k1.w};
        const u32 value[8] = {v0.x, v0.y, v0.z, v0.w, v1.x, v1.y, v1.z, v1.w};
        add(key, value);
    }
    for (; i < quads; i += stride) {
        const uint4 k = __ldg(keys + i), v = __ldg(values + i);
        const u32 key[4] = {k.x, k.y, k.z, k.w}, value[4] = {v.x, v.y, v.z, v.w};
        add(key, value);
    }
}

struct PrivateAdd {
    u64* sums;
    template <int N>
    __device__ __forceinline__ void operator()(const u32 (&key)[N], const u32 (&value)[N]) const {
#pragma unroll
        for (int k = 0; k < N; k++) {
            private_add(sums, key[k], value[k]);
        }
    }
};

struct DenseAdd {
    u64* sums;
    template <int N>
    __device__ __forceinline__ void operator()(const u32 (&key)[N], const u32 (&value)[N]) const {
#pragma unroll
        for (int k = 0; k < N; k++) {
            atomicAdd(sums + key[k], (u64)value[k]);
        }
    }
};

struct HashAdd {
    const GroupTable& table;
    template <int N>
    __device__ __forceinline__ void operator()(const u32 (&key)[N], const u32 (&value)[N]) const {
        group_add<N>(table, key, value);
    }
};

extern "C" __global__ void __launch_bounds__(256) group_private(GroupData p) {
    DYNAMIC_SHARED(u64, sums);
    private_clear(sums, p.groups);
    each_rows(p, PrivateAdd{sums});
    private_flush(sums, p.groups, p.out);
}

extern "C" __global__ void __launch_bounds__(256) group_dense(GroupData p) { each_rows(p, DenseAdd{p.out}); }
extern "C" __global__ void __launch_bounds__(256) group_hash_table(GroupData p) { each_rows(p, HashAdd{p.table}); }
