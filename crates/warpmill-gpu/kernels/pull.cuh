// Pieces of other devices' memory, copied by one kernel: it reads over all links at once, which copy engines do not fill where there are several, and
// pays for one launch where there are many small pieces.

struct PullPiece {
    const u8* from;
    u8* to;
    u64 bytes;
};

const u32 PULL_PIECES = 64, PULL_SOURCES = 16, PULL_THREADS = 256, PULL_LOADS = 4;
const u64 PULL_TILE = 32768;   // bytes that a block copies at a time: a multiple of 16

struct PullParams {
    PullPiece pieces[PULL_PIECES];   // those of a source follow each other
    u32 ends[PULL_SOURCES];          // by source: the number of pieces up to its last one
    u32 sources;
};

struct __attribute__((aligned(16))) PullWord {
    u32 part[4];
};

// Stores 16 bytes in pieces of WIDTH bytes, the alignment of `to`.
template <u32 WIDTH> __device__ __forceinline__ void pull_store(u8* to, const PullWord& word) {
    if (WIDTH == 16) {
        *(PullWord*)to = word;
    } else if (WIDTH == 8) {
        ((u64*)to)[0] = word.part[0] | (u64)word.part[1] << 32;
        ((u64*)to)[1] = word.part[2] | (u64)word.part[3] << 32;
    } else if (WIDTH == 4) {
        for (u32 i = 0; i < 4; i++) ((u32*)to)[i] = word.part[i];
    } else {
        for (u32 i = 0; i < 16; i++) to[i] = (u8)(word.part[i / 4] >> (8 * (i % 4)));
    }
}

// Copies `words` times 16 bytes from an aligned place. All threads of the block call.
template <u32 WIDTH> __device__ __forceinline__ void pull_words(const PullWord* from, u8* to, u64 words) {
    for (u64 first = threadIdx.x; first < words; first += PULL_THREADS * PULL_LOADS) {
        PullWord word[PULL_LOADS];
#pragma unroll
        for (u32 i = 0; i < PULL_LOADS; i++) {
            const u64 at = first + i * PULL_THREADS;
            if (at < words) word[i] = from[at];
        }
#pragma unroll
        for (u32 i = 0; i < PULL_LOADS; i++) {
            const u64 at = first + i * PULL_THREADS;
            if (at < words) pull_store<WIDTH>(to + 16 * at, word[i]);
        }
    }
}

// Copies bytes between any places: what is read from the other device is aligned, but for less than 16 bytes at both ends. All threads of the block
// call.
__device__ __forceinline__ void pull_bytes(const u8* from, u8* to, u64 bytes) {
    const u64 ahead = (16 - (u64)from % 16) % 16;
    const u64 head = ahead < bytes ? ahead : bytes;
    const u64 words = (bytes - head) / 16, tail = head + 16 * words;
    if (threadIdx.x < head) to[threadIdx.x] = from[threadIdx.x];
    if (tail + threadIdx.x < bytes) to[tail + threadIdx.x] = from[tail + threadIdx.x];
    const PullWord* aligned = (const PullWord*)(from + head);
    u8* rest = to + head;
    if ((u64)rest % 16 == 0) {
        pull_words<16>(aligned, rest, words);
    } else if ((u64)rest % 8 == 0) {
        pull_words<8>(aligned, rest, words);
    } else if ((u64)rest % 4 == 0) {
        pull_words<4>(aligned, rest, words);
    } else {
        pull_words<1>(aligned, rest, words);
    }
}

// Blocks are dealt to sources in turn, and the tiles of a source's pieces to its blocks. There are at least as many blocks as sources.
extern "C" __global__ void __launch_bounds__(256) pull_pieces(const PullParams p) {
    const u32 source = blockIdx.x % p.sources, own = blockIdx.x / p.sources;
    const u32 blocks = (gridDim.x - source + p.sources - 1) / p.sources;
    u64 before = 0;
    for (u32 i = source == 0 ? 0 : p.ends[source - 1]; i < p.ends[source]; i++) {
        const PullPiece piece = p.pieces[i];
        const u64 tiles = (piece.bytes + PULL_TILE - 1) / PULL_TILE;
        for (u64 tile = (own + blocks - before % blocks) % blocks; tile < tiles; tile += blocks) {
            const u64 begin = tile * PULL_TILE, left = piece.bytes - begin;
            pull_bytes(piece.from + begin, piece.to + begin, left < PULL_TILE ? left : PULL_TILE);
        }
        before += tiles;
    }
}
