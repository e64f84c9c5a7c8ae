// Keys to sort, and whether they are sorted (needs data.cuh).

struct SortData {
    void* keys;
    u32* values;    // row numbers; null: none
    u64* out;       // {rows out of order, sum over the rows}
    u64 n;
    u64 mask;       // keys are draws and this
    u64 seed;
};

template <class Key>
__device__ __forceinline__ void make_rows(const SortData& p) {
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        ((Key*)p.keys)[i] = (Key)(draw(i, p.seed) & p.mask);
        if (p.values) {
            p.values[i] = (u32)i;
        }
    }
}

// What a row adds to the sum: the rows must be the same set after sorting, key and payload together.
__device__ __forceinline__ u64 row_sum(u64 key, u32 value) { return draw(key, value); }

template <class Key>
__device__ __forceinline__ void check_rows(const SortData& p) {
    const Key* keys = (const Key*)p.keys;
    u64 wrong = 0, sum = 0;
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        sum += row_sum(keys[i], p.values ? p.values[i] : 0);
        if (i + 1 < p.n) {
            const bool stable = !p.values || p.values[i] < p.values[i + 1];
            wrong += keys[i] > keys[i + 1] || (keys[i] == keys[i + 1] && !stable);
        }
    }
    add_sum(wrong, p.out);
    add_sum(sum, p.out + 1);
}

template <class Key>
__device__ __forceinline__ void expect_rows(const SortData& p) {
    u64 sum = 0;
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        sum += row_sum((Key)(draw(i, p.seed) & p.mask), p.values ? (u32)i : 0);
    }
    add_sum(sum, p.out + 1);
}

extern "C" __global__ void make_u32(SortData p) { make_rows<u32>(p); }
extern "C" __global__ void make_u64(SortData p) { make_rows<u64>(p); }
extern "C" __global__ void check_u32(SortData p) { check_rows<u32>(p); }
extern "C" __global__ void check_u64(SortData p) { check_rows<u64>(p); }
extern "C" __global__ void expect_u32(SortData p) { expect_rows<u32>(p); }
extern "C" __global__ void expect_u64(SortData p) { expect_rows<u64>(p); }
