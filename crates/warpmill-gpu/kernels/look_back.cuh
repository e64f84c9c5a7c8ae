// Decoupled look-back (Merrill and Garland, 2016): the tiles of one launch get prefix sums of what comes before them in one
// pass over the data. A tile publishes its own sum, then adds up its predecessors' until it meets one that knows its prefix.
//
// Blocks take their tile's number from a counter, so that every tile before has a running (or finished) block: waiting for
// it always ends. State words are zero before the launch.

// A state word: two flag bits above a sum of 30 or 62 bits. Flag and sum travel in one word, so no fences are needed.
template <class T>
struct LookBack {
    static constexpr int SUM_BITS = 8 * sizeof(T) - 2;
    static constexpr T OWN = (T)1 << SUM_BITS;       // the sum of this tile
    static constexpr T PREFIX = (T)2 << SUM_BITS;    // the sum of all tiles up to this one
    static constexpr T SUM = OWN - 1;

    __device__ static __forceinline__ void publish(T* state, T word) { *(volatile T*)state = word; }

    // The sum of the tiles before `tile`; `state` is that of tile 0 and `stride` the distance to the next tile's.
    __device__ static __forceinline__ T before(const T* state, u64 stride, u64 tile) {
        T sum = 0;
        const T* at = state + tile * stride;
        while (tile > 0) {
            const T word = *(const volatile T*)(at - stride);
            if ((word & PREFIX) != 0) {
                return sum + (word & SUM);
            }
            if ((word & OWN) != 0) {
                sum += word & SUM;
                at -= stride;
                tile--;
            } else {
                __nanosleep(20);
            }
        }
        return sum;
    }
};

// The number of this block's tile. All threads call; `shared` is one word.
__device__ __forceinline__ u32 next_tile(u32* counter, u32* shared) {
    if (threadIdx.x == 0) {
        *shared = atomicAdd(counter, 1u);
    }
    __syncthreads();
    return *shared;
}
