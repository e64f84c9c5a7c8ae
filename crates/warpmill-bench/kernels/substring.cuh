// Substring search over many strings at once: rows whose string contains pieces p1, p2, ... in this order without overlap
// (LIKE '%p1%p2%'). The concatenated bytes are scanned without regard to rows, 32 positions a thread; where a piece may begin
// becomes a bit per byte, and then each row looks at its range of bits.

constexpr int MOST_PIECES = 4;
constexpr int MOST_PIECE_BYTES = 256;

struct Piece {
    u32 head;         // its first bytes (up to 4), the first lowest
    u32 head_mask;    // which bits of `head` count
    u32 len;          // at least 1
    u32 at;           // where it begins in `piece_bytes`
};

struct Substring {
    const u8* bytes;           // of all strings; 16-byte aligned
    const u32* offsets;        // of the rows, rows + 1
    u32* out;                  // a bit per row
    u64 rows;
    Piece pieces[MOST_PIECES];
    u8 piece_bytes[MOST_PIECE_BYTES];
};

constexpr int SCAN_THREADS = 256;
// Positions that a block scans at once; each piece has a bit for each in shared memory.
constexpr int SCAN_BYTES = 16384;
constexpr int SCAN_WORDS = SCAN_BYTES / 32;

// The bytes of the 16-byte block that begins at `at`, 0 past the end.
__device__ __forceinline__ uint4 scan_load(const u8* bytes, u32 at, u32 end) {
    return at < end ? __ldg((const uint4*)(bytes + at)) : make_uint4(0, 0, 0, 0);
}

// A bit for each byte of `word` that equals the repeated byte of `wanted`, at its byte's number.
__device__ __forceinline__ u32 equal_bytes(u32 word, u32 wanted) {
    const u32 x = word ^ wanted;
    // The top bit of each byte that is not 0; exact, for carries do not cross bytes.
    const u32 different = ((x & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) | x;
    return ((~different & 0x80808080u) >> 7) * 0x10204080u >> 28;
}

// Whether the bytes at `at`, which match the piece's head, match the rest of it too.
__device__ __forceinline__ bool piece_matches(const Substring& p, const Piece& piece, u32 at, u32 end) {
    if (piece.len > end - at) {
        return false;
    }
    for (u32 i = 4; i < piece.len; i++) {
        if (__ldg(p.bytes + at + i) != p.piece_bytes[piece.at + i]) {
            return false;
        }
    }
    return true;
}

// Where the piece begins among the 32 positions from `at`, whose bytes (and the four after them) are `words`.
__device__ __forceinline__ u32 piece_starts(const Substring& p, const Piece& piece, const u32 (&words)[9], u32 at, u32 end) {
    u32 starts = 0;
    if (piece.len == 1) {
        const u32 wanted = piece.head * 0x01010101u;
#pragma unroll
        for (int w = 0; w < 8; w++) {
            starts |= equal_bytes(words[w], wanted) << (4 * w);
        }
        return starts;
    }
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const u32 window = __funnelshift_r(words[i / 4], words[i / 4 + 1], 8 * (i % 4));
        if (((window ^ piece.head) & piece.head_mask) == 0) {
            starts |= 1u << i;
        }
    }
    if (piece.len > 4) {
        for (u32 rest = starts; rest != 0; rest &= rest - 1) {
            const u32 i = __ffs(rest) - 1;
            if (!piece_matches(p, piece, at + i, end)) {
                starts &= ~(1u << i);
            }
        }
    }
    return starts;
}

// Fills the bits of the positions base .. base + SCAN_BYTES - 1, those up to `end` at least. `starts` is [pieces][SCAN_WORDS].
template <int N>
__device__ __forceinline__ void scan_bytes(const Substring& p, u32* starts, u32 base, u32 upto, u32 end) {
    for (u32 w = threadIdx.x; base + 32 * w < upto && w < SCAN_WORDS; w += SCAN_THREADS) {
        const u32 at = base + 32 * w;
        const uint4 a = scan_load(p.bytes, at, end), b = scan_load(p.bytes, at + 16, end);
        const u32 after = at + 32 < end ? __ldg((const u32*)(p.bytes + at + 32)) : 0;
        const u32 words[9] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, after};
#pragma unroll
        for (int i = 0; i < N; i++) {
            starts[i * SCAN_WORDS + w] = piece_starts(p, p.pieces[i], words, at, end);
        }
    }
}

// How far the search for the pieces of one row has come.
struct Search {
    u32 found;    // pieces found so far
    u32 at;       // where the next one may begin at the earliest
};

// The first set bit from `from` up to (not including) `to`, or `to`.
__device__ __forceinline__ u32 first_start(const u32* bits, u32 from, u32 to) {
    if (from >= to) {
        return to;
    }
    u32 word = bits[from / 32] & (0xFFFFFFFFu << (from % 32));
    u32 base = from & ~31u;
    while (word == 0) {
        base += 32;
        if (base >= to) {
            return to;
        }
        word = bits[base / 32];
    }
    const u32 at = base + __ffs(word) - 1;
    return at < to ? at : to;
}

// Searches on within the scanned positions base .. upto - 1 for a row that ends at `row_end`. A piece may begin here and end
// later.
template <int N>
__device__ __forceinline__ void search_on(const Substring& p, const u32* starts, Search& search, u32 base, u32 upto,
                                          u32 row_end) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const u32 len = p.pieces[i].len;
        const u32 last = row_end >= len ? row_end - len + 1 : 0, to = upto < last ? upto : last;
        if (search.found == (u32)i && search.at < to) {
            const u32 at = base + first_start(starts + i * SCAN_WORDS, search.at - base, to - base);
            search = at < to ? Search{search.found + 1, at + len} : Search{search.found, at};
        }
    }
}

// Each block takes SCAN_THREADS rows at a time; a row belongs to one thread. Rows whose bytes exceed SCAN_BYTES together are
// scanned in several steps. `starts` is N * SCAN_WORDS words of shared memory.
template <int N>
__device__ __forceinline__ void substring_rows(const Substring& p, u32* starts) {
    const u32 end = p.offsets[p.rows];
    for (u64 first = (u64)blockIdx.x * SCAN_THREADS; first < p.rows; first += (u64)gridDim.x * SCAN_THREADS) {
        const u64 row = first + threadIdx.x, last = first + SCAN_THREADS < p.rows ? first + SCAN_THREADS : p.rows;
        const u32 row_from = row < p.rows ? p.offsets[row] : end, row_end = row < p.rows ? p.offsets[row + 1] : end;
        const u32 block_end = p.offsets[last];
        Search search = {0, row_from};
        for (u32 base = p.offsets[first] & ~31u; base < block_end; base += SCAN_BYTES) {
            const u32 upto = block_end - base < SCAN_BYTES ? block_end : base + SCAN_BYTES;
            scan_bytes<N>(p, starts, base, upto, end);
            __syncthreads();
            if (row < p.rows && row_end > base) {
                search_on<N>(p, starts, search, base, upto, row_end);
            }
            __syncthreads();
            if (block_end - base <= SCAN_BYTES) {
                break;
            }
        }
        const u32 found = __ballot_sync(0xFFFFFFFFu, row < p.rows && search.found == N);
        if (threadIdx.x % 32 == 0 && row < p.rows) {
            p.out[row / 32] = found;
        }
    }
}
