// Blocks of column chunks as a library for batches takes them, and what it says of them; needs value.cuh and decompress.cuh.

// Arrays by block, as nvCOMP's batched interface has them.
struct BlockArrays {
    u64* stored;             // where it is
    u64* stored_bytes;
    u64* room;               // its bytes decompressed
    u64* out;                // where it goes
    u64* written;            // what the library wrote
    i32* statuses;           // what it says; 0: all went well
};

struct ListParams {
    const CompressedChunk* chunks;
    BlockArrays arrays;
    u32 count;
    u32 first;               // of all blocks of the chunks, the first that is listed
    u32 blocks;              // that are listed
    u32 unused;
};

// Lists blocks: a thread each.
extern "C" __global__ void __launch_bounds__(128) list_blocks(const ListParams p) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.blocks) return;
    const u32 block = p.first + at;
    const CompressedChunk chunk = chunk_of_block(p.chunks, p.count, block);
    const u64 number = block - chunk.first_block;
    const u64 block_bytes = *(const u32*)(chunk.stored + 8);
    const u64 total = *(const u64*)(chunk.stored + 16);
    const u64* entry = (const u64*)(chunk.stored + 64 + 16 * number);
    const u64 begin = number * block_bytes;
    p.arrays.stored[at] = (u64)(chunk.stored + entry[0]);
    p.arrays.stored_bytes[at] = entry[1];
    p.arrays.room[at] = total - begin < block_bytes ? total - begin : block_bytes;
    p.arrays.out[at] = (u64)(chunk.out + begin);
    p.arrays.written[at] = 0;
    p.arrays.statuses[at] = -1;
}

struct CheckParams {
    QueryState* state;
    BlockArrays arrays;
    u32 blocks;
    u32 error;               // what is raised where one went wrong
    u32 clear;               // whether what was written of it becomes zeros: what is read of it is defined
    u32 unused;
};

// Looks at what became of blocks: a warp each.
extern "C" __global__ void __launch_bounds__(128) check_blocks(const CheckParams p) {
    const u32 lane = threadIdx.x & 31;
    const u32 block = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (block >= p.blocks) return;
    const u64 room = p.arrays.room[block];
    if (p.arrays.statuses[block] == 0 && p.arrays.written[block] == room) return;
    if (lane == 0) raise(p.state, p.error);
    u8* const out = (u8*)p.arrays.out[block];
    if (p.clear) {
        for (u64 i = lane; i < room; i += 32) out[i] = 0;
    }
}
