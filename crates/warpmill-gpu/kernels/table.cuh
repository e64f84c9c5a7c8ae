// Sinks: rows appended to columns, hash and direct-address tables.

// What the host reads of a sink after its pipelines have run. All zero at first.
struct SinkState {
    u64 count;        // rows appended, those beyond the capacity included
    u32 has_null;     // a key was NULL
    u32 duplicate;    // two rows had the same key
    u32 overflow;     // a table was too small
    u32 seen;         // a row came, if only for another part (of sinks made in parts)
    u64 input;        // rows that an aggregation took in
    u64 taken;        // numbers given out to groups that are compared column by column, those that lost a race included
};

__device__ __forceinline__ bool bit_test(const u32* bits, u64 i) { return bits[i >> 5] >> (i & 31) & 1; }

// Sets bit i; whether it was set before.
__device__ __forceinline__ bool bit_set(u32* bits, u64 i) {
    const u32 bit = 1u << (i & 31);
    return atomicOr(bits + (i >> 5), bit) & bit;
}

// A position that no row has.
constexpr u64 NOT_LINKED = ~0ull;

// The position of this lane's row in the sink. All lanes of the warp call.
__device__ __forceinline__ u64 append(SinkState* sink, bool active, u32 lane) {
    const u32 rows = __ballot_sync(FULL_WARP, active);
    u64 base = 0;
    if (lane == 0 && rows) base = atomicAdd(&sink->count, (u64)__popc(rows));
    base = __shfl_sync(FULL_WARP, base, 0);
    return base + __popc(rows & lane_mask_lt());
}

// Positions that a warp has taken for rows to come.
struct Reserved {
    u64 at;
    u32 left;
};

// As append, with one atomic operation per 256 rows of a warp: positions may stay unused.
__device__ __forceinline__ u64 append_reserved(SinkState* sink, bool active, u32 lane, Reserved* reserved) {
    const u32 rows = __ballot_sync(FULL_WARP, active);
    const u32 count = __popc(rows);
    if (reserved->left < count) {
        u64 base = 0;
        if (lane == 0) base = atomicAdd(&sink->count, 256ull);
        reserved->at = __shfl_sync(FULL_WARP, base, 0);
        reserved->left = 256;
    }
    const u64 at = reserved->at + __popc(rows & lane_mask_lt());
    reserved->at += count;
    reserved->left -= count;
    return at;
}

// Sets the flags of positions that were reserved in vain, among `capacity` rows. All lanes of the warp call.
__device__ __forceinline__ void flag_unused(u8* flags, u64 capacity, u32 lane, const Reserved& reserved) {
    for (u64 at = reserved.at + lane; at < reserved.at + reserved.left && at < capacity; at += 32) flags[at] = 1;
}

// As append_reserved, with the flags of unused positions set.
__device__ __forceinline__ u64 append_flagged(SinkState* sink, bool active, u32 lane, Reserved* reserved, u8* flags, u64 capacity) {
    if (reserved->left < __popc(__ballot_sync(FULL_WARP, active))) flag_unused(flags, capacity, lane, *reserved);
    return append_reserved(sink, active, lane, reserved);
}

__device__ __forceinline__ u64 hash_u64(u64 x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    return x;
}

__device__ __forceinline__ u64 hash_mix(u64 a, u64 b) { return hash_u64(a * 0x9E3779B97F4A7C15ull + b); }
__device__ __forceinline__ u64 hash_value(bool x) { return x; }
__device__ __forceinline__ u64 hash_value(i32 x) { return (u32)x; }
__device__ __forceinline__ u64 hash_value(u32 x) { return x; }
__device__ __forceinline__ u64 hash_value(i64 x) { return (u64)x; }
__device__ __forceinline__ u64 hash_value(u64 x) { return x; }
__device__ __forceinline__ u64 hash_value(i128 x) { return hash_mix((u64)((u128)x >> 64), (u64)x); }
// -0 equals 0 and NaN equals NaN.
__device__ __forceinline__ u64 hash_value(double x) {
    if (x != x) return 0x7ff8000000000000ull;
    union { double value; u64 bits; } u;
    u.value = x + 0.0;
    return x == 0 ? 0 : u.bits;
}
__device__ __forceinline__ u64 hash_value(float x) { return hash_value((double)x); }
// Of long strings the ends decide: what differs in the middle only is told apart by comparison.
__device__ inline u64 hash_value(Str s) {
    u64 hash = s.len;
    u64 word = 0;
    for (u32 i = 0; i < s.len; i++) {
        if (i == 24 && s.len > 48) i = s.len - 24;
        word = word << 8 | s.data[i];
        if ((i & 7) == 7) hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    }
    return hash ^ word * 0xd6e8feb86659fd93ull;
}

__device__ __forceinline__ bool same_value(bool a, bool b) { return a == b; }
__device__ __forceinline__ bool same_value(i32 a, i32 b) { return a == b; }
__device__ __forceinline__ bool same_value(u32 a, u32 b) { return a == b; }
__device__ __forceinline__ bool same_value(i64 a, i64 b) { return a == b; }
__device__ __forceinline__ bool same_value(u64 a, u64 b) { return a == b; }
__device__ __forceinline__ bool same_value(i128 a, i128 b) { return a == b; }
__device__ __forceinline__ bool same_value(float a, float b) { return a == b || (a != a && b != b); }
__device__ __forceinline__ bool same_value(double a, double b) { return a == b || (a != a && b != b); }
__device__ inline bool same_value(Str a, Str b) {
    if (a.len != b.len) return false;
    if (a.data == b.data) return true;
    for (u32 i = 0; i < a.len; i++) {
        if (a.data[i] != b.data[i]) return false;
    }
    return true;
}

#define EMPTY_KEY 0xFFFFFFFFFFFFFFFFull
// Longer probe sequences mean that a table is too small: with half of 2^28 slots taken, about 200 are to be expected at most,
// with three quarters about 700.
#define MOST_PROBES 1024u

// The slot of `key` in an open-addressing table of mask + 1 slots, claimed if it is new (then `*fresh`); mask + 1 when the
// table is too small, which `*overflow` says then. The program will run again, with a larger table: once one row has found that out,
// no other row goes far, or else all of them would go through long sequences of slots that are taken.
__device__ inline u64 claim_slot(u64* keys, u64 mask, u64 key, bool* fresh, u32* overflow) {
    u64 slot = hash_u64(key) & mask;
    for (u32 i = 0; i < MOST_PROBES && i <= mask; i++) {
        if ((i & 15) == 15 && *(volatile u32*)overflow) break;
        u64 found = keys[slot];
        if (found == EMPTY_KEY) {
            found = atomicCAS(keys + slot, EMPTY_KEY, key);
            if (found == EMPTY_KEY) {
                *fresh = true;
                return slot;
            }
        }
        if (found == key) return slot;
        slot = (slot + 1) & mask;
    }
    *overflow = 1;
    return mask + 1;
}

// The slot of `key`, or mask + 1 where it is not in the table.
__device__ inline u64 find_slot(const u64* keys, u64 mask, u64 key) {
    u64 slot = hash_u64(key) & mask;
    for (u32 i = 0; i < MOST_PROBES && i <= mask; i++) {
        const u64 found = keys[slot];
        if (found == key) return slot;
        if (found == EMPTY_KEY) return mask + 1;
        slot = (slot + 1) & mask;
    }
    return mask + 1;
}

// The head of the list of rows with key `key`; 0 where there are none. A slot's head is loaded together with its key: most keys that are looked up are
// in the first slot, and waiting for one after the other takes twice as long.
__device__ inline u32 find_head(const u64* keys, const u32* heads, u64 mask, u64 key) {
    u64 slot = hash_u64(key) & mask;
    for (u32 i = 0; i < MOST_PROBES && i <= mask; i++) {
        const u64 found = keys[slot];
        // Volatile: otherwise the compiler moves the load behind the comparison.
        const u32 head = *(const volatile u32*)(heads + slot);
        if (found == key) return head;
        if (found == EMPTY_KEY) return 0;
        slot = (slot + 1) & mask;
    }
    return 0;
}
