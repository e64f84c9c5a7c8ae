// Hashes that partitioning and hash tables share: rows partitioned by the highest bits of a hash meet in one part of a table
// whose slots follow the hash.

__device__ __forceinline__ u64 partition_hash(u64 x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

__device__ __forceinline__ u32 partition_hash(u32 x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}
