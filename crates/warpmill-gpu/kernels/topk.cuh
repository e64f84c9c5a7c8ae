// The first rows of a sort: the k-th smallest of many words by radix select, most significant digit first (Alabi et al.,
// "Fast k-selection algorithms for graphics processing units", 2012), one launch per digit.

// The first 8 bytes: strings that differ behind them have the same image.
__device__ inline u64 order_bits(Str s) {
    u64 bits = 0;
    for (u32 i = 0; i < 8; i++) bits = bits << 8 | (i < s.len ? s.data[i] : 0);
    return bits;
}

constexpr u32 SELECT_BITS = 11;
constexpr u32 SELECT_DIGITS = 1 << SELECT_BITS;
constexpr u32 SELECT_THREADS = 256;

// What one launch hands to the next. All zero at first.
struct Selection {
    u64 threshold;    // the digits of the k-th smallest word that are known; once `done`, all words up to it are wanted
    u64 below;        // words less than all that begin with those digits
    u32 done;
    u32 blocks;       // blocks that have counted
    u64 counts[SELECT_DIGITS];
};

// The digit of `bits` bits from bit `shift` on that a launch looks at.
struct SelectDigit {
    u64 k;            // at least 1
    u64 enough;       // no further digit matters when so few words are wanted
    u32 shift;
    u32 bits;
    u32 last;         // not 0: words are the same in lower bits
};

// Finds the digit of the k-th smallest word in the counts of all digits, and clears them for the next launch. All threads
// of one block of SELECT_THREADS call.
__device__ inline void pick_digit(const SelectDigit& p, Selection* s) {
    __shared__ u64 sums[SELECT_THREADS / 32];
    constexpr u32 EACH = SELECT_DIGITS / SELECT_THREADS;
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x / 32, first = threadIdx.x * EACH;
    u64 count[EACH], sum = 0;
#pragma unroll
    for (u32 i = 0; i < EACH; i++) {
        count[i] = fresh(s->counts + first + i);
        s->counts[first + i] = 0;
        sum += count[i];
    }
    u64 through = sum;
    for (u32 d = 1; d < 32; d *= 2) {
        const u64 other = __shfl_up_sync(FULL_WARP, through, d);
        through += lane >= d ? other : 0;
    }
    if (lane == 31) sums[warp] = through;
    const u64 rank = p.k - s->below;
    __syncthreads();
    for (u32 w = 0; w < warp; w++) through += sums[w];
    const u64 before = through - sum;
    if (before < rank && rank <= through) {
        u64 below = before, here = 0, digit = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (below + here < rank) {
                below += here;
                here = count[i];
                digit = first + i;
            }
        }
        s->below += below;
        s->done = p.last || s->below + here <= p.enough;
        s->threshold |= digit << p.shift | (s->done ? ((u64)1 << p.shift) - 1 : 0);
    }
    if (threadIdx.x == SELECT_THREADS - 1 && through < rank) {
        // There are fewer than k words.
        s->threshold = ~0ull;
        s->done = 1;
    }
    if (threadIdx.x == 0) s->blocks = 0;
}

// Counts a digit of the words that begin with the digits known; the block that is done last picks the one of the k-th
// smallest. All threads of all blocks (of SELECT_THREADS) call.
__device__ inline void select_digit(const u64* words, u64 rows, const SelectDigit& p, Selection* s) {
    __shared__ u32 counts[SELECT_DIGITS];
    __shared__ u32 is_last;
    if (s->done) return;
    const u64 known = s->threshold;
    for (u32 i = threadIdx.x; i < SELECT_DIGITS; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    const u32 end = p.shift + p.bits;
    const u64 mask = end < 64 ? ~0ull << end : 0;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += stride) {
        const u64 word = words[i];
        if (((word ^ known) & mask) == 0) atomicAdd(counts + (word >> p.shift & ((1u << p.bits) - 1)), 1u);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < SELECT_DIGITS; i += blockDim.x) {
        if (counts[i]) atomicAdd(s->counts + i, (u64)counts[i]);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(&s->blocks, 1u) + 1 == gridDim.x;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    pick_digit(p, s);
}
