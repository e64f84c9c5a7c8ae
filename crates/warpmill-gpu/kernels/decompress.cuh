// Blocks of column chunks that went through LZ4 or Snappy (docs/format.md, section 6), decompressed before anything reads the
// segment; needs value.cuh and lane.cuh. A warp takes a block: all lanes follow the stream of commands, and copy together.
//
// No byte outside of a block's input and output is touched, whatever the input says.

// A chunk: its stored form, and where its segment goes.
struct CompressedChunk {
    const u8* stored;
    u8* out;
    u32 first_block;         // blocks of the chunks before this one
    u32 unused;
};

struct DecompressParams {
    QueryState* state;
    const CompressedChunk* chunks;
    u32 count;
    u32 blocks;              // of all chunks
};

enum Codec : u32 { CODEC_LZ4 = 1, CODEC_SNAPPY = 2 };

// The input of a warp, of which it holds 256 bytes: each lane four of the first half and four of the second. The second half is asked
// for when the first is begun, so that nobody waits for memory in between.
struct Window {
    const u8* in;
    u32 size;
    u32 base;                // of the bytes that are held, a multiple of 4 from the 4-byte boundary before `in`
    u32 skew;                // bytes from that boundary to `in`
    u32 word;
    u32 next;
    u32 lane;
};

// The lane's word of the 128 bytes from `base` on.
__device__ __forceinline__ u32 window_load(const Window& w, u32 base) {
    // The last word is read whole where it begins inside the input: blocks are padded to 16 bytes.
    const u32 mine = base + 4 * w.lane;
    return mine < w.size + w.skew ? __ldg((const u32*)(w.in - w.skew + mine)) : 0;
}

// Lets byte `at` be in the first half of what is held.
__device__ __forceinline__ void window_seek(Window& w, u32 at) {
    const u32 place = at + w.skew;
    if (place - w.base < 128) return;
    if (place - w.base < 256) {
        w.word = w.next;
        w.base += 128;
    } else {
        w.base = place & ~3u;
        w.word = window_load(w, w.base);
    }
    w.next = window_load(w, w.base + 128);
}

__device__ __forceinline__ Window window_open(const u8* in, u32 size, u32 lane) {
    Window w = {in, size, 0, (u32)((u64)in & 3), 0, 0, lane};
    w.word = window_load(w, 0);
    w.next = window_load(w, 128);
    return w;
}

// Four bytes of the input from `at` on, for all lanes; any behind its end.
__device__ __forceinline__ u32 window_four(Window& w, u32 at) {
    window_seek(w, at);
    const u32 place = at + w.skew - w.base, first = place / 4;
    const u32 low = __shfl_sync(FULL_WARP, w.word, first);
    const u32 high = __shfl_sync(FULL_WARP, first == 31 ? w.next : w.word, (first + 1) & 31);
    return __funnelshift_r(low, high, 8 * (place & 3));
}

// Byte `at` of the input, for all lanes; 0 behind its end.
__device__ __forceinline__ u32 window_byte(Window& w, u32 at) { return at < w.size ? window_four(w, at) & 0xFF : 0; }

// Byte `at + lane` of the input, where it has that many.
__device__ __forceinline__ u32 window_own_byte(Window& w, u32 at) {
    window_seek(w, at);
    const u32 place = at + w.skew - w.base + w.lane, from = place / 4;
    const u32 near = __shfl_sync(FULL_WARP, w.word, from & 31), far = __shfl_sync(FULL_WARP, w.next, from & 31);
    return (from < 32 ? near : far) >> (8 * (place & 3)) & 0xFF;
}

// What a warp wrote last is in shared memory as well, from where the next matches read it much sooner: a ring.
constexpr u32 RING_BYTES = 8192;

constexpr u32 DECOMPRESS_WARPS = 4;

// The output of a warp.
struct Written {
    u8* out;
    u8* ring;
};

// For kernels of DECOMPRESS_WARPS warps per block.
__device__ __forceinline__ Written written_to(u8* out) {
    __shared__ __align__(16) u8 rings[DECOMPRESS_WARPS][RING_BYTES];
    return Written{out, rings[threadIdx.x / 32]};
}

__device__ __forceinline__ void put(const Written& o, u32 at, u32 byte) {
    o.out[at] = (u8)byte;
    o.ring[at % RING_BYTES] = (u8)byte;
}

// Copies `len` bytes of the input to byte `at` of the output.
__device__ __forceinline__ void copy_literals(Window& w, u32 from, const Written& o, u32 at, u32 len) {
    if (len <= 32) {
        const u32 byte = window_own_byte(w, from);
        if (w.lane < len) put(o, at + w.lane, byte);
    } else {
        for (u32 first = w.lane; first < len; first += 128) {
            u8 bytes[4];
#pragma unroll
            for (u32 k = 0; k < 4; k++) bytes[k] = first + 32 * k < len ? w.in[from + first + 32 * k] : 0;
#pragma unroll
            for (u32 k = 0; k < 4; k++)
                if (first + 32 * k < len) put(o, at + first + 32 * k, bytes[k]);
        }
    }
    __syncwarp(FULL_WARP);
}

// Copies `len` bytes from `distance` bytes before `at`: what is copied may be what is copied to, which repeats it.
__device__ __forceinline__ void copy_match(const Window& w, const Written& o, u32 at, u32 distance, u32 len) {
    const u32 from = at - distance;
    const bool repeats = distance < len;
    if (distance + len <= RING_BYTES) {
        // None of these bytes makes way for another.
        for (u32 i = w.lane; i < len; i += 32) put(o, at + i, o.ring[(from + (repeats ? i % distance : i)) % RING_BYTES]);
    } else {
        for (u32 i = w.lane; i < len; i += 32) put(o, at + i, o.out[from + (repeats ? i % distance : i)]);
    }
    __syncwarp(FULL_WARP);
}

// A length that goes on in further bytes, as LZ4 has it.
__device__ __forceinline__ u32 lz4_length(Window& w, u32& at, u32 length) {
    if (length < 15) return length;
    for (u32 more = 255; more == 255 && at < w.size && length < (1u << 30);) {
        more = window_byte(w, at++);
        length += more;
    }
    return length;
}

// Bytes written, or ~0 where the block is damaged.
__device__ inline u32 lz4_block(Window& w, u8* out, u32 room) {
    const Written o = written_to(out);
    u32 at = 0, done = 0;
    while (at < w.size) {
        const u32 token = window_four(w, at++) & 0xFF;
        const u32 literals = lz4_length(w, at, token >> 4);
        if (literals > w.size - at || literals > room - done) return ~0u;
        if (literals > 0) copy_literals(w, at, o, done, literals);
        at += literals;
        done += literals;
        if (at == w.size) return done;
        if (w.size - at < 2) return ~0u;
        const u32 distance = window_four(w, at) & 0xFFFF;
        at += 2;
        const u32 len = lz4_length(w, at, token & 15) + 4;
        if (distance == 0 || distance > done || len > room - done) return ~0u;
        copy_match(w, o, done, distance, len);
        done += len;
    }
    return ~0u;
}

// As lz4_block.
__device__ inline u32 snappy_block(Window& w, u8* out, u32 room) {
    const Written o = written_to(out);
    u32 at = 0, done = 0, length = 0;
    for (u32 shift = 0; shift < 35; shift += 7) {
        if (at >= w.size) return ~0u;
        const u32 byte = window_byte(w, at++);
        length |= (byte & 127) << shift;
        if (byte < 128) break;
    }
    if (length > room) return ~0u;
    while (at < w.size) {
        const u32 tag = window_four(w, at++) & 0xFF;
        const u32 more = (tag & 3) == 0 ? (tag >> 2 >= 60 ? (tag >> 2) - 59 : 0) : (tag & 3) == 3 ? 4 : tag & 3;
        if (more > w.size - at) return ~0u;
        const u32 number = more > 0 ? window_four(w, at) & ~0u >> (32 - 8 * more) : 0;
        at += more;
        if ((tag & 3) == 0) {
            const u32 literals = (more > 0 ? number : tag >> 2) + 1;
            if (literals == 0 || literals > w.size - at || literals > length - done) return ~0u;
            copy_literals(w, at, o, done, literals);
            at += literals;
            done += literals;
            continue;
        }
        const u32 len = (tag & 3) == 1 ? (tag >> 2 & 7) + 4 : (tag >> 2) + 1;
        const u32 distance = (tag & 3) == 1 ? tag >> 5 << 8 | number : number;
        if (distance == 0 || distance > done || len > length - done) return ~0u;
        copy_match(w, o, done, distance, len);
        done += len;
    }
    return done == length ? done : ~0u;
}

// The chunk that block `block`, of all blocks of `count` chunks, belongs to.
__device__ __forceinline__ CompressedChunk chunk_of_block(const CompressedChunk* chunks, u32 count, u32 block) {
    u32 low = 0, high = count - 1;
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (chunks[middle].first_block <= block) low = middle;
        else high = middle - 1;
    }
    return chunks[low];
}

extern "C" __global__ void __launch_bounds__(32 * DECOMPRESS_WARPS) decompress(const DecompressParams p) {
    const u32 lane = threadIdx.x & 31;
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 block = (blockIdx.x * blockDim.x + threadIdx.x) / 32; block < p.blocks; block += warps) {
        const CompressedChunk chunk = chunk_of_block(p.chunks, p.count, block);
        const u32 number = block - chunk.first_block;
        const u32 block_bytes = *(const u32*)(chunk.stored + 8);
        const u64 total = *(const u64*)(chunk.stored + 16);
        const u64* entry = (const u64*)(chunk.stored + 64 + 16 * (u64)number);
        const u64 begin = (u64)number * block_bytes;
        const u32 room = (u32)(total - begin < block_bytes ? total - begin : block_bytes);
        Window w = window_open(chunk.stored + entry[0], (u32)entry[1], lane);
        u8* const out = chunk.out + begin;
        const u32 done = chunk.stored[6] == CODEC_LZ4 ? lz4_block(w, out, room) : snappy_block(w, out, room);
        // The host looks at the bytes again, and says what is wrong with them.
        if (done != room && lane == 0) raise(p.state, ERROR_HOST);
    }
}
