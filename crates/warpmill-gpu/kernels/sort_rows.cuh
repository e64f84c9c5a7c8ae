// Rows in the order of several keys: the keys' images are words that are sorted by radix, the last word first (needs
// look_back.cuh, hash.cuh and radix_sort.cuh).

// The 8 bytes of `s` from byte `from` on, the first one highest; zeros behind its end.
__device__ inline u64 string_word(Str s, u32 from) {
    u64 word = 0;
    for (u32 i = 0; i < 8; i++) word = word << 8 | (from + i < s.len ? s.data[from + i] : 0);
    return word;
}

constexpr int SORT_THREADS = 256;
constexpr int SORT_ITEMS = 12;
constexpr u64 SORT_TILE = SORT_THREADS * SORT_ITEMS;

// What one pass leaves to the next: look-back words and a counter that are zero. A tile clears its own.
template <class State>
struct SortState {
    State* words;
    u32* counter;
};

// Moves words and row numbers by one digit. `p.n` rows are known on the device only: blocks beyond them have nothing to do.
template <class State>
__device__ __forceinline__ void sort_by_digit(const RadixPass& p, const SortState<State>& next, u64* shared) {
    typedef RadixTile<u64, State, SORT_THREADS, SORT_ITEMS, true, false> Tile;
    if (blockIdx.x * SORT_TILE >= p.n) return;
    for (u32 i = threadIdx.x; i < DIGITS; i += SORT_THREADS) next.words[(u64)blockIdx.x * DIGITS + i] = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0) *next.counter = 0;
    Tile::run(p, *(typename Tile::Shared*)shared);
}
