// A hash table of unique 64-bit keys with 32-bit payloads, for joins whose keys are not dense (needs hash.cuh). A bucket is one 32-byte memory
// sector with two entries, so that nearly every probe reads one sector; a full bucket overflows into the next one.

constexpr u64 NO_KEY = 0xFFFFFFFFFFFFFFFFull;

struct __align__(32) Bucket {
    u64 keys[2];        // NO_KEY: no entry, and none in later buckets either
    u32 payloads[2];
    u64 unused;
};

struct BucketTable {
    Bucket* buckets;
    u64 count;          // of buckets; with fewer than two entries a bucket a search always ends
    u32* no_key;        // {whether NO_KEY itself is in the table, its payload}
};

// The bucket where the search for `key` begins.
__device__ __forceinline__ u64 bucket_of(const BucketTable& table, u64 key) {
    return __umul64hi(partition_hash(key), table.count);
}

__device__ __forceinline__ u64 next_bucket(const BucketTable& table, u64 bucket) {
    return bucket + 1 < table.count ? bucket + 1 : 0;
}

// Inserts a key that is not in the table. All keys must be in before the first probe (of a later launch).
__device__ __forceinline__ void bucket_insert(const BucketTable& table, u64 key, u32 payload) {
    if (key == NO_KEY) {
        table.no_key[0] = 1;
        table.no_key[1] = payload;
        return;
    }
    for (u64 bucket = bucket_of(table, key);; bucket = next_bucket(table, bucket)) {
#pragma unroll
        for (int slot = 0; slot < 2; slot++) {
            Bucket& b = table.buckets[bucket];
            if (atomicCAS(&b.keys[slot], NO_KEY, key) == NO_KEY) {
                b.payloads[slot] = payload;
                return;
            }
        }
    }
}

// Looks up N keys at once, so that N sectors are on their way together. Bit k of the result: keys[k] is in the table, and
// payloads[k] is its payload.
template <int N>
__device__ __forceinline__ u32 bucket_find(u32 (&payloads)[N], const BucketTable& table, const u64 (&keys)[N]) {
    ulonglong2 pair[N];
    uint2 values[N];
    u64 at[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        at[k] = bucket_of(table, keys[k]);
        pair[k] = __ldg((const ulonglong2*)table.buckets[at[k]].keys);
        values[k] = __ldg((const uint2*)table.buckets[at[k]].payloads);
    }
    u32 found = 0;
#pragma unroll
    for (int k = 0; k < N; k++) {
        while (pair[k].x != keys[k] && pair[k].y != keys[k] && pair[k].y != NO_KEY) {
            at[k] = next_bucket(table, at[k]);
            pair[k] = __ldg((const ulonglong2*)table.buckets[at[k]].keys);
            values[k] = __ldg((const uint2*)table.buckets[at[k]].payloads);
        }
        const bool first = pair[k].x == keys[k], hit = keys[k] != NO_KEY && (first || pair[k].y == keys[k]);
        payloads[k] = first ? values[k].x : values[k].y;
        found |= (u32)hit << k;
        if (keys[k] == NO_KEY && table.no_key[0] != 0) {
            payloads[k] = table.no_key[1];
            found |= 1u << k;
        }
    }
    return found;
}
