// The published encodings, decoded and summed or written (needs data.cuh and gpu_for.cuh). Launched with 128 threads.

struct TileDecode {
    const u32* starts;
    const u32* data;
    const u32* length_starts;    // GPU-RFOR only
    const u32* length_data;
    u32* out;
    u64* sum;
    u64 copies;
    u64 starts_stride;           // words from one copy to the next
    u64 data_stride;
    u64 length_starts_stride;
    u64 length_data_stride;
    u32 tiles;                   // of one copy, all full
    u32 unused;
};

enum TileScheme { TILE_FOR, TILE_DFOR, TILE_RFOR };

template <TileScheme SCHEME, bool WRITE>
__device__ __forceinline__ void tile_decode(const TileDecode& p) {
    __shared__ u32 shared[SCHEME == TILE_RFOR ? 2 * RUN_WORDS : TILE_WORDS];
    __shared__ u32 rows[TILE_ROWS];
    __shared__ u32 sums[4];
    u64 sum = 0;
    for (u64 t = blockIdx.x; t < p.tiles * p.copies; t += gridDim.x) {
        const u64 copy = t / p.tiles, tile = t % p.tiles;
        const u32 *starts = p.starts + copy * p.starts_stride, *data = p.data + copy * p.data_stride;
        const u64 blocks = (u64)p.tiles * TILE_BLOCKS;
        u32 values[4];
        if constexpr (SCHEME == TILE_FOR) {
            gpu_for_tile(values, starts, data, tile, blocks, shared);
        } else if constexpr (SCHEME == TILE_DFOR) {
            gpu_dfor_tile(values, starts, data, tile, blocks, shared, rows, sums);
        } else {
            const RunStream lengths = {p.length_starts + copy * p.length_starts_stride,
                                       p.length_data + copy * p.length_data_stride};
            gpu_rfor_tile(values, RunStream{starts, data}, lengths, tile, shared, shared + RUN_WORDS, rows, sums);
        }
        if constexpr (WRITE && SCHEME == TILE_FOR) {
#pragma unroll
            for (int d = 0; d < 4; d++) {
                __stcs(p.out + t * TILE_ROWS + 128 * d + threadIdx.x, values[d]);
            }
        } else if constexpr (WRITE) {
            __stcs((uint4*)(p.out + t * TILE_ROWS) + threadIdx.x, make_uint4(values[0], values[1], values[2], values[3]));
        } else {
            sum += (u64)values[0] + values[1] + values[2] + values[3];
        }
    }
    if constexpr (!WRITE) {
        add_sum(sum, p.sum);
    }
}

extern "C" __global__ void __launch_bounds__(128) gpu_for_sum(TileDecode p) { tile_decode<TILE_FOR, false>(p); }
extern "C" __global__ void __launch_bounds__(128) gpu_for_write(TileDecode p) { tile_decode<TILE_FOR, true>(p); }
extern "C" __global__ void __launch_bounds__(128) gpu_dfor_sum(TileDecode p) { tile_decode<TILE_DFOR, false>(p); }
extern "C" __global__ void __launch_bounds__(128) gpu_dfor_write(TileDecode p) { tile_decode<TILE_DFOR, true>(p); }
extern "C" __global__ void __launch_bounds__(128) gpu_rfor_sum(TileDecode p) { tile_decode<TILE_RFOR, false>(p); }
extern "C" __global__ void __launch_bounds__(128) gpu_rfor_write(TileDecode p) { tile_decode<TILE_RFOR, true>(p); }
