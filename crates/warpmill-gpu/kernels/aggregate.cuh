// Accumulators in global or shared memory, updated by many threads at once. Zeros are the initial state of all of them: least
// values are kept as the greatest complement.

__device__ __forceinline__ void add_i64(u64* cell, i64 value) { atomicAdd(cell, (u64)value); }

// Sets a word to 1 where it is not yet: only the first rows of a group have to write.
__device__ __forceinline__ void mark(u64* cell) {
    if (*(const volatile u64*)cell == 0) atomicOr((u32*)cell, 1u);
}

// The same as add_i64 in shared memory, which adds 32 bits at once and 64 only by trying until nobody was faster: the low half's carry
// goes to the high half, which mostly stays.
__device__ __forceinline__ void add_i64_shared(u64* cell, i64 value) {
    u32* const halves = (u32*)cell;
    const u32 low = (u32)value, before = atomicAdd(halves, low);
    const u32 high = (u32)((u64)value >> 32) + (before + low < before ? 1 : 0);
    if (high) atomicAdd(halves + 1, high);
}

// 128 bits as two words, low first: the carry of the low word is added to the high one.
__device__ __forceinline__ void add_i128(u64* cell, i128 value) {
    const u64 low = (u64)value;
    const u64 before = atomicAdd(cell, low);
    const u64 high = (u64)((u128)value >> 64) + (before + low < before ? 1 : 0);
    if (high) atomicAdd(cell + 1, high);
}

// 192 bits as three words, low first.
__device__ __forceinline__ void add_wide(u64* cell, u128 value, u64 top) {
    const u64 low = (u64)value, carry = atomicAdd(cell, low) + low < low ? 1 : 0;
    const u64 high = (u64)(value >> 64) + carry;
    // All ones and a carry are a carry.
    if (high < carry) top += 1;
    if (high && atomicAdd(cell + 1, high) + high < high) top += 1;
    if (top) atomicAdd(cell + 2, top);
}
__device__ __forceinline__ void add_wide(u64* cell, i128 value) { add_wide(cell, (u128)value, value < 0 ? ~0ull : 0); }

// The same where no other thread has the words.
__device__ __forceinline__ void own_add_wide(u64& low, u64& high, u64& top, u128 value, u64 more) {
    const u128 sum = ((u128)high << 64 | low) + value;
    low = (u64)sum;
    high = (u64)(sum >> 64);
    top += more + (sum < value ? 1 : 0);
}
__device__ __forceinline__ void own_add_wide(u64& low, u64& high, u64& top, i128 value) {
    own_add_wide(low, high, top, (u128)value, value < 0 ? ~0ull : 0);
}

// Adds the words of all lanes.
__device__ __forceinline__ void add_wide_of_warp(u64* cell, u64 low, u64 high, u64 top, u32 lane) {
    for (u32 d = 16; d > 0; d /= 2) {
        const u64 l = __shfl_xor_sync(FULL_WARP, low, d);
        const u64 h = __shfl_xor_sync(FULL_WARP, high, d);
        const u64 t = __shfl_xor_sync(FULL_WARP, top, d);
        own_add_wide(low, high, top, (u128)h << 64 | l, t);
    }
    if (lane == 0 && (low | high | top)) add_wide(cell, (u128)high << 64 | low, top);
}

// How often the sum went beyond the greatest 128-bit number, less how often beyond the least.
__device__ __forceinline__ i64 wraps(const u64* cell) { return (i64)(cell[2] + (cell[1] >> 63)); }

__device__ __forceinline__ i128 load_i128(const u64* cell) { return (i128)((u128)cell[1] << 64 | cell[0]); }

// Order-preserving images of values as unsigned words: NaN is greatest, -0 equals 0.
__device__ __forceinline__ u64 order_bits(i64 x) { return (u64)x ^ 0x8000000000000000ull; }
__device__ __forceinline__ u64 order_bits(i32 x) { return order_bits((i64)x); }
__device__ __forceinline__ u64 order_bits(u32 x) { return x; }
__device__ __forceinline__ u64 order_bits(bool x) { return x; }
__device__ __forceinline__ u64 order_bits(double x) {
    union { double value; u64 bits; } u;
    u.value = x == 0 ? 0 : x;
    if (x != x) return 0xFFFFFFFFFFFFFFFEull;
    return u.bits >> 63 ? ~u.bits : u.bits | 0x8000000000000000ull;
}
__device__ __forceinline__ u64 order_bits(float x) { return order_bits((double)x); }

// The inverse of order_bits.
__device__ __forceinline__ i64 order_i64(u64 bits) { return (i64)(bits ^ 0x8000000000000000ull); }
__device__ __forceinline__ double order_f64(u64 bits) {
    union { double value; u64 bits; } u;
    u.bits = bits == 0xFFFFFFFFFFFFFFFEull ? 0x7ff8000000000000ull
             : bits >> 63                  ? bits & 0x7FFFFFFFFFFFFFFFull
                                           : ~bits;
    return u.value;
}

// Greatest 128-bit words: three words, the last a lock.
__device__ inline void max_u128(u64* cell, u128 value) {
    bool done = false;
    while (!done) {
        if (atomicCAS(cell + 2, 0ull, 1ull) == 0) {
            __threadfence();
            const volatile u64* words = cell;
            if (value > ((u128)words[1] << 64 | words[0])) {
                atomicExch(cell, (u64)value);
                atomicExch(cell + 1, (u64)(value >> 64));
            }
            __threadfence();
            atomicExch(cell + 2, 0ull);
            done = true;
        }
    }
}

__device__ __forceinline__ u128 order_bits_wide(i128 x) { return (u128)x ^ ((u128)1 << 127); }
__device__ __forceinline__ i128 order_i128(u128 bits) { return (i128)(bits ^ ((u128)1 << 127)); }
__device__ __forceinline__ u128 load_u128(const u64* cell) { return (u128)cell[1] << 64 | cell[0]; }

// Sums over a warp; every lane gets the sum.
__device__ __forceinline__ u64 warp_sum(u64 x) {
    for (u32 d = 16; d > 0; d /= 2) x += __shfl_xor_sync(FULL_WARP, x, d);
    return x;
}
__device__ __forceinline__ double warp_sum(double x) {
    for (u32 d = 16; d > 0; d /= 2) x += __shfl_xor_sync(FULL_WARP, x, d);
    return x;
}
__device__ __forceinline__ i128 warp_sum(i128 x) {
    for (u32 d = 16; d > 0; d /= 2) {
        const u64 low = __shfl_xor_sync(FULL_WARP, (u64)x, d);
        const u64 high = __shfl_xor_sync(FULL_WARP, (u64)((u128)x >> 64), d);
        x = (i128)((u128)x + ((u128)high << 64 | low));
    }
    return x;
}
__device__ __forceinline__ u64 warp_max(u64 x) {
    for (u32 d = 16; d > 0; d /= 2) {
        const u64 other = __shfl_xor_sync(FULL_WARP, x, d);
        x = other > x ? other : x;
    }
    return x;
}
__device__ __forceinline__ u128 warp_max(u128 x) {
    for (u32 d = 16; d > 0; d /= 2) {
        const u64 low = __shfl_xor_sync(FULL_WARP, (u64)x, d);
        const u64 high = __shfl_xor_sync(FULL_WARP, (u64)(x >> 64), d);
        const u128 other = (u128)high << 64 | low;
        x = other > x ? other : x;
    }
    return x;
}

__device__ __forceinline__ double bits_double(u64 bits) {
    union { double value; u64 bits; } u;
    u.bits = bits;
    return u.value;
}
__device__ __forceinline__ u64 double_bits(double value) {
    union { double value; u64 bits; } u;
    u.value = value;
    return u.bits;
}

// Loads past the first-level cache, which does not see what other multiprocessors write while a kernel runs.
template <typename T>
__device__ __forceinline__ T fresh(const T* from) {
    T value;
    if constexpr (sizeof(T) == 1) *(u8*)&value = *(const volatile u8*)from;
    else if constexpr (sizeof(T) == 2) *(u16*)&value = *(const volatile u16*)from;
    else if constexpr (sizeof(T) == 4) *(u32*)&value = *(const volatile u32*)from;
    else {
        for (u32 i = 0; i < sizeof(T) / 8; i++) ((u64*)&value)[i] = ((const volatile u64*)from)[i];
    }
    return value;
}

// The least and greatest key of a hash build, counted from the least that its type allows, and its rows. All zero at first.
struct KeyBounds {
    u64 least;      // its complement
    u64 greatest;
    u64 rows;
};

// Takes in this warp's keys: the least's complement, the greatest, how many.
__device__ __forceinline__ void add_bounds(KeyBounds* bounds, u64 least, u64 greatest, u64 rows, u32 lane) {
    least = warp_max(least);
    greatest = warp_max(greatest);
    rows = warp_sum(rows);
    if (lane != 0 || rows == 0) return;
    atomicMax(&bounds->least, least);
    atomicMax(&bounds->greatest, greatest);
    atomicAdd(&bounds->rows, rows);
}

// Whether the keys are nearly all that lie between the least and the greatest, where `density` of all possible ones exist.
__device__ __forceinline__ bool keys_in_a_row(const KeyBounds* bounds, double density) {
    const u64 span = bounds->greatest - ~bounds->least + 1;
    return (double)bounds->rows >= density * (double)span;
}

__device__ __forceinline__ i64 first_key(const KeyBounds* bounds, i64 min) {
    return bounds->rows == 0 ? 1 : (i64)((u64)min + ~bounds->least);
}
__device__ __forceinline__ i64 last_key(const KeyBounds* bounds, i64 min) {
    return bounds->rows == 0 ? 0 : (i64)((u64)min + bounds->greatest);
}
