// What a compiled kernel and the simulated device's runtime (runtime.cpp) know of each other. Put in front of both.

namespace warpmill_sim {

// What a lane can wait at. The order is that of KIND_NAMES in runtime.cpp.
enum Kind : unsigned {
    SYNCTHREADS,
    SYNCTHREADS_COUNT,
    SYNCTHREADS_AND,
    SYNCTHREADS_OR,
    SYNCWARP,
    ACTIVEMASK,
    BALLOT,
    ANY,
    ALL,
    SHUFFLE,
    MATCH_ANY,
    MATCH_ALL,
    REDUCE_ADD,
    REDUCE_MIN_SIGNED,
    REDUCE_MIN_UNSIGNED,
    REDUCE_MAX_SIGNED,
    REDUCE_MAX_UNSIGNED,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR,
};

struct Index3 {
    unsigned x, y, z;
};

// The block that a host thread runs. `thread` follows the running fiber.
struct Context {
    Index3 thread, block, block_dim, grid_dim;
    unsigned char* dynamic_shared;
    // Waits until the lanes of `mask` arrive. `argument` is the source lane of a shuffle.
    unsigned long long (*collective)(
        Context*, unsigned kind, unsigned mask, unsigned long long value, unsigned argument, int line);
    unsigned (*barrier)(Context*, unsigned kind, unsigned predicate, int line);
    // Lets other lanes run: called where a kernel may spin on another lane's progress.
    void (*spin)(Context*);
    void (*trap)(Context*, int line);
    unsigned long long (*clock)();
};

}  // namespace warpmill_sim
