// GPU-FOR, GPU-DFOR and GPU-RFOR as published (docs/format.md): a thread block of 128 threads decodes a tile of 512 rows.
// All functions are called by all threads of the block; shared arrays may be used again after the next barrier.

constexpr int TILE_THREADS = 128;
constexpr int TILE_ROWS = 512;
constexpr int TILE_BLOCKS = 4;

// Words of the largest tile: four blocks of two head words and 128 values, the first value of GPU-DFOR's next tile, and one
// word that is read past the last value.
constexpr int TILE_WORDS = TILE_BLOCKS * (2 + 128) + 2;

// One of the two streams of a GPU-RFOR tile: three head words, 512 values, one word past them.
constexpr int RUN_WORDS = 3 + TILE_ROWS + 1;

// Copies the words from..end of a stream to shared memory, and the one after them, which decoders read and ignore.
__device__ __forceinline__ void tile_stage(u32* shared, const u32* __restrict__ data, u32 from, u32 end) {
    for (u32 i = threadIdx.x; i <= end - from; i += TILE_THREADS) {
        shared[i] = __ldg(data + from + i);
    }
}

__device__ __forceinline__ u32 bit_mask(u32 width) { return width >= 32 ? 0xFFFFFFFFu : (1u << width) - 1; }

// Entry i of the miniblocks at `packed`, `mini` entries each, whose widths are the bytes of `widths`.
__device__ __forceinline__ u32 miniblock_entry(const u32* packed, u32 widths, u32 mini, u32 i) {
    const u32 m = i / mini, width = widths >> (8 * m) & 0xFF;
    if (width == 0) {
        return 0;
    }
    // Byte m of the product is the sum of the widths before miniblock m: at most 96.
    const u32 before = widths * 0x01010100u >> (8 * m) & 0xFF;
    const u32 bit = i % mini * width;
    const u32* at = packed + mini / 32 * before + bit / 32;
    return __funnelshift_r(at[0], at[1], bit % 32) & bit_mask(width);
}

// The value of this thread in a block of 128 whose words start at `block`.
__device__ __forceinline__ u32 gpu_for_entry(const u32* block) {
    return block[0] + miniblock_entry(block + 2, block[1], 32, threadIdx.x);
}

// GPU-FOR: values[d] is row 128 * d + threadIdx.x of the tile. A last tile may have fewer than four blocks; the values of the
// missing ones are 0. `shared` has TILE_WORDS words.
__device__ __forceinline__ void gpu_for_tile(u32 (&values)[TILE_BLOCKS], const u32* __restrict__ starts,
                                             const u32* __restrict__ data, u64 tile, u64 blocks, u32* shared) {
    const u64 first = tile * TILE_BLOCKS;
    const u32 count = blocks - first < TILE_BLOCKS ? (u32)(blocks - first) : TILE_BLOCKS;
    const u32 from = __ldg(starts + first);
    __syncthreads();
    tile_stage(shared, data, from, __ldg(starts + first + count));
    __syncthreads();
#pragma unroll
    for (u32 d = 0; d < TILE_BLOCKS; d++) {
        values[d] = d < count ? gpu_for_entry(shared + (__ldg(starts + first + d) - from)) : 0;
    }
}

// The inclusive prefix sum of `x` over the block's threads. `shared` has 4 words.
__device__ __forceinline__ u32 tile_prefix_sum(u32 x, u32* shared) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 d = 1; d < 32; d *= 2) {
        const u32 other = __shfl_up_sync(0xFFFFFFFFu, x, d);
        x += lane >= d ? other : 0;
    }
    if (lane == 31) {
        shared[warp] = x;
    }
    __syncthreads();
    for (u32 w = 0; w < warp; w++) {
        x += shared[w];
    }
    return x;
}

// GPU-DFOR: values[i] is row 4 * threadIdx.x + i of the tile. `shared` has TILE_WORDS words, `deltas` TILE_ROWS, `sums` 4.
__device__ __forceinline__ void gpu_dfor_tile(u32 (&values)[4], const u32* __restrict__ starts,
                                              const u32* __restrict__ data, u64 tile, u64 blocks, u32* shared,
                                              u32* deltas, u32* sums) {
    u32 striped[TILE_BLOCKS];
    gpu_for_tile(striped, starts, data, tile, blocks, shared);
#pragma unroll
    for (u32 d = 0; d < TILE_BLOCKS; d++) {
        deltas[128 * d + threadIdx.x] = striped[d];
    }
    __syncthreads();
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        sum += deltas[4 * threadIdx.x + i];
        values[i] = sum;
    }
    // The tile's first value stands before its first block.
    const u32 before = tile_prefix_sum(sum, sums) - sum + __ldg(data + __ldg(starts + tile * TILE_BLOCKS) - 1);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        values[i] += before;
    }
}

// A stream of run-length encoded blocks.
struct RunStream {
    const u32* starts;
    const u32* data;
};

// GPU-RFOR: values[i] is row 4 * threadIdx.x + i of the tile; rows past the end repeat the last run. `heads` and `lengths` have
// RUN_WORDS words each, `flags` TILE_ROWS, `sums` 4.
__device__ __forceinline__ void gpu_rfor_tile(u32 (&values)[4], RunStream run_values, RunStream run_lengths, u64 tile,
                                              u32* heads, u32* lengths, u32* flags, u32* sums) {
    __syncthreads();
    tile_stage(heads, run_values.data, __ldg(run_values.starts + tile), __ldg(run_values.starts + tile + 1));
    tile_stage(lengths, run_lengths.data, __ldg(run_lengths.starts + tile), __ldg(run_lengths.starts + tile + 1));
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        flags[4 * threadIdx.x + i] = 0;
    }
    __syncthreads();
    const u32 runs = heads[2], mini = (runs + 127) / 128 * 32;
    // Four consecutive runs a thread: their lengths, and from a prefix sum where each begins.
    u32 from[4];
    u32 rows = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 run = 4 * threadIdx.x + i;
        from[i] = rows;
        rows += run < runs ? lengths[0] + miniblock_entry(lengths + 3, lengths[1], mini, run) : 0;
    }
    const u32 before = tile_prefix_sum(rows, sums) - rows;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        const u32 run = 4 * threadIdx.x + i, row = before + from[i];
        if (run > 0 && run < runs && row < TILE_ROWS) {
            flags[row] = 1;
        }
    }
    __syncthreads();
    u32 begun[4];
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        sum += flags[4 * threadIdx.x + i];
        begun[i] = sum;
    }
    const u32 first = tile_prefix_sum(sum, sums) - sum;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        values[i] = heads[0] + miniblock_entry(heads + 3, heads[1], mini, first + begun[i]);
    }
}
