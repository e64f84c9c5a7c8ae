// Rows divided into parts, one for each device that they go to: by the hash of their keys, or by the range that holds their key (needs hash.cuh).
// A row has one element in each array.

enum ShuffleRole : u32 {
    SHUFFLE_CARRIED = 0,   // says nothing of the part
    SHUFFLE_HASHED = 1,
    SHUFFLE_SIGNED = 2,    // the one key of ranges
    SHUFFLE_UNSIGNED = 3,
    SHUFFLE_TEXT = 4       // hashed by its bytes
};

struct ShuffleArray {
    const u8* from;
    u8* to;                // 256-byte aligned, as from
    const u8* valid;       // of keys: a byte per row that is 0 where the key is NULL, or nothing
    u32 width;             // bytes of an element: 1, 2, 4, 8 or 16
    u32 role;
};

// A string: the row has its address only.
struct ShuffleText {
    const u8* at;
    u32 bytes;
    u32 unused;
};

struct ShuffleParams {
    const ShuffleArray* arrays;
    const i64* last;       // of ranges: the greatest key of each part but the last
    u64* next;             // by part: the number of rows (shuffle_count), or the position of its next row (shuffle_scatter)
    u64 rows;
    u32 count;             // of arrays
    u32 parts;             // at most 16
};

const u32 SHUFFLE_THREADS = 256, SHUFFLE_ITEMS = 8, SHUFFLE_NONE = 0xFFFFFFFFu;
const u64 SHUFFLE_TILE = SHUFFLE_THREADS * SHUFFLE_ITEMS;

__device__ __forceinline__ u64 shuffle_bits(const ShuffleArray& a, u64 row) {
    switch (a.width) {
        case 1: return a.from[row];
        case 2: return ((const u16*)a.from)[row];
        case 4: return ((const u32*)a.from)[row];
        case 8: return ((const u64*)a.from)[row];
        default: return ((const u64*)a.from)[2 * row] ^ partition_hash(((const u64*)a.from)[2 * row + 1]);
    }
}

__device__ __forceinline__ i64 shuffle_integer(const ShuffleArray& a, u64 row) {
    const u64 bits = shuffle_bits(a, row);
    if (a.role == SHUFFLE_UNSIGNED) return (i64)bits;
    switch (a.width) {
        case 1: return (i8)bits;
        case 2: return (i16)bits;
        case 4: return (i32)bits;
        default: return (i64)bits;
    }
}

__device__ inline u64 shuffle_text_hash(const ShuffleText& text) {
    u64 hash = text.bytes, word = 0;
    for (u32 i = 0; i < text.bytes; i++) {
        word = word << 8 | text.at[i];
        if (i % 8 == 7) {
            hash = partition_hash(hash * 31 + word);
            word = 0;
        }
    }
    return partition_hash(hash * 31 + word);
}

__device__ inline u32 shuffle_part(const ShuffleParams& p, u64 row) {
    u64 hash = 0x9E3779B97F4A7C15ull;
    for (u32 i = 0; i < p.count; i++) {
        const ShuffleArray& a = p.arrays[i];
        if (a.role == SHUFFLE_CARRIED) continue;
        if (a.role == SHUFFLE_SIGNED || a.role == SHUFFLE_UNSIGNED) {
            const i64 key = shuffle_integer(a, row);
            u32 part = 0;
            while (part + 1 < p.parts && key > p.last[part]) part++;
            return part;
        }
        u64 own = 0x51;
        // Nobody reads what lies under NULL.
        if (!a.valid || a.valid[row] != 0) {
            own = a.role == SHUFFLE_TEXT ? shuffle_text_hash(((const ShuffleText*)a.from)[row]) : shuffle_bits(a, row);
        }
        hash = partition_hash(hash * 31 + own);
    }
    return (u32)(((hash >> 32) * p.parts) >> 32);
}

extern "C" __global__ void __launch_bounds__(256) shuffle_count(const ShuffleParams p) {
    const u32 lane = threadIdx.x % 32;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    // Lane l counts the rows of part l, of all lanes.
    u64 own = 0;
    for (u64 first = (u64)blockIdx.x * blockDim.x; first < p.rows; first += stride) {
        const u64 row = first + threadIdx.x;
        const u32 part = row < p.rows ? shuffle_part(p, row) : SHUFFLE_NONE;
        for (u32 other = 0; other < p.parts; other++) {
            const u32 found = __popc(__ballot_sync(0xFFFFFFFFu, part == other));
            if (lane == other) own += found;
        }
    }
    if (lane < p.parts && own > 0) atomicAdd(&p.next[lane], own);
}

__device__ __forceinline__ void shuffle_copy(const ShuffleArray& a, u64 from, u64 to) {
    switch (a.width) {
        case 1: a.to[to] = a.from[from]; break;
        case 2: ((u16*)a.to)[to] = ((const u16*)a.from)[from]; break;
        case 4: ((u32*)a.to)[to] = ((const u32*)a.from)[from]; break;
        case 8: ((u64*)a.to)[to] = ((const u64*)a.from)[from]; break;
        default:
            ((u64*)a.to)[2 * to] = ((const u64*)a.from)[2 * from];
            ((u64*)a.to)[2 * to + 1] = ((const u64*)a.from)[2 * from + 1];
    }
}

// Rows of a part keep no order.
extern "C" __global__ void __launch_bounds__(256) shuffle_scatter(const ShuffleParams p) {
    __shared__ u32 counted[16];
    __shared__ u64 starts[16];
    const u32 lane = threadIdx.x % 32;
    for (u64 first = blockIdx.x * SHUFFLE_TILE; first < p.rows; first += gridDim.x * SHUFFLE_TILE) {
        if (threadIdx.x < 16) counted[threadIdx.x] = 0;
        __syncthreads();
        u32 part[SHUFFLE_ITEMS], rank[SHUFFLE_ITEMS];
        for (u32 item = 0; item < SHUFFLE_ITEMS; item++) {
            const u64 row = first + item * SHUFFLE_THREADS + threadIdx.x;
            const u32 own = row < p.rows ? shuffle_part(p, row) : SHUFFLE_NONE;
            u32 before = 0, all = 0;
            for (u32 other = 0; other < p.parts; other++) {
                const u32 same = __ballot_sync(0xFFFFFFFFu, own == other);
                if (own == other) before = __popc(same & lane_mask_lt());
                if (lane == other) all = __popc(same);
            }
            // Lane l takes room for the rows of part l of the warp.
            const u32 base = lane < p.parts && all > 0 ? atomicAdd(&counted[lane], all) : 0;
            part[item] = own;
            rank[item] = __shfl_sync(0xFFFFFFFFu, base, own == SHUFFLE_NONE ? 0 : own) + before;
        }
        __syncthreads();
        if (threadIdx.x < p.parts && counted[threadIdx.x] > 0) {
            starts[threadIdx.x] = atomicAdd(&p.next[threadIdx.x], (u64)counted[threadIdx.x]);
        }
        __syncthreads();
        for (u32 i = 0; i < p.count; i++) {
            const ShuffleArray& a = p.arrays[i];
            for (u32 item = 0; item < SHUFFLE_ITEMS; item++) {
                if (part[item] == SHUFFLE_NONE) continue;
                const u64 row = first + item * SHUFFLE_THREADS + threadIdx.x;
                shuffle_copy(a, row, starts[part[item]] + rank[item]);
            }
        }
        __syncthreads();
    }
}
