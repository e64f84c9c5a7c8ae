// Copies and reads between devices. Contents are a function of the device and the position, so that what arrives is checked where it is.

struct __attribute__((aligned(16))) Pair {
    u64 first, second;
};

__device__ __forceinline__ u64 link_word(u64 device, u64 i) {
    u64 x = (i + 1) * 0x9E3779B97F4A7C15ull + (device + 1) * 0xD1B54A32D192ED03ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 29;
}

__device__ __forceinline__ u64 link_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 link_threads() { return (u64)gridDim.x * blockDim.x; }

// Adds every thread's sum to `out`, once per warp. All lanes call.
__device__ __forceinline__ void link_sum(u64 sum, u64* out) {
    for (u32 d = 16; d > 0; d /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, d);
    }
    if (threadIdx.x % 32 == 0 && sum != 0) {
        atomicAdd(out, sum);
    }
}

struct LinkFill {
    u64* to;
    u64 words;
    u64 device;
};

extern "C" __global__ void link_fill(LinkFill p) {
    for (u64 i = link_thread(); i < p.words; i += link_threads()) {
        p.to[i] = link_word(p.device, i);
    }
}

struct LinkCheck {
    const u64* at;
    u64 words;
    // The sum of the words of devices first .. first + count - 1, from position `begin`.
    u64 first;
    u64 count;
    u64 begin;
    u64* wrong;
};

extern "C" __global__ void link_check(LinkCheck p) {
    u64 wrong = 0;
    for (u64 i = link_thread(); i < p.words; i += link_threads()) {
        u64 expected = 0;
        for (u64 device = p.first; device < p.first + p.count; ++device) {
            expected += link_word(device, p.begin + i);
        }
        wrong += p.at[i] != expected;
    }
    link_sum(wrong, p.wrong);
}

struct LinkCopy {
    Pair* to;
    const Pair* from;
    u64 pairs;
};

// 16 bytes a thread at a time; either side may be a peer's memory.
extern "C" __global__ void link_copy(LinkCopy p) {
    for (u64 i = link_thread(); i < p.pairs; i += link_threads()) {
        p.to[i] = p.from[i];
    }
}

struct LinkReads {
    const Pair* table;
    // Units of 32 bytes.
    u64 units;
    u64 reads;
    u64* sum;
};

__device__ __forceinline__ u64 link_unit(u64 i, u64 units) { return __umul64hi(link_word(77, i), units); }

// Reads of 32 bytes at random places.
extern "C" __global__ void link_reads(LinkReads p) {
    u64 sum = 0;
    for (u64 i = link_thread(); i < p.reads; i += link_threads()) {
        u64 unit = link_unit(i, p.units);
        Pair low = p.table[2 * unit], high = p.table[2 * unit + 1];
        sum += low.first + low.second + high.first + high.second;
    }
    link_sum(sum, p.sum);
}

struct LinkExpect {
    u64 device;
    u64 units;
    u64 reads;
    u64* sum;
};

// The sum that link_reads must find, computed without the table.
extern "C" __global__ void link_expect(LinkExpect p) {
    u64 sum = 0;
    for (u64 i = link_thread(); i < p.reads; i += link_threads()) {
        u64 word = 4 * link_unit(i, p.units);
        for (u64 k = 0; k < 4; ++k) {
            sum += link_word(p.device, word + k);
        }
    }
    link_sum(sum, p.sum);
}
