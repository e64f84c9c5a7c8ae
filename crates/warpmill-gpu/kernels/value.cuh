// Values and the state of a query that every generated kernel shares.

// A string: bytes that live as long as the query (a segment, a dictionary, the query's arena).
struct Str {
    const u8* data;
    u32 len;
};

// Errors of SQL's semantics. The host runs a query that raised one again on the CPU, for the message. ERROR_HOST is none: it
// says that a value needs what only the CPU has (case mapping beyond ASCII, floats with very many digits). ERROR_DATA: a Parquet file is
// damaged; the host finds out where. ERROR_GROUP: a function of the host's language gives a group up; the host calls it.
enum ErrorCode : u32 {
    ERROR_NONE = 0,
    ERROR_OVERFLOW = 1,
    ERROR_DIVISION = 2,
    ERROR_CAST = 3,
    ERROR_VALUE = 4,
    ERROR_HOST = 5,
    ERROR_DATA = 6,
    ERROR_GROUP = 7
};

// What all kernels of a query share.
struct QueryState {
    u32 error;         // the first ErrorCode raised
    u32 arena_full;    // set when a string did not fit the arena: the query is run again with a larger one
    u64 arena_used;    // bytes taken from the arena, those that did not fit included
    u64 arena_size;
    u8* arena;         // bytes of computed strings
};

__device__ __forceinline__ void raise(QueryState* state, u32 error) { atomicCAS(&state->error, 0u, error); }

// Room for `len` bytes that live as long as the query; null when the arena is full (and the flag is set). A string of more
// than 4 GB is left to the host, whose error it is.
__device__ __forceinline__ u8* arena_alloc(QueryState* state, u64 len) {
    if (len > 0xffffffffull) {
        raise(state, ERROR_HOST);
        return nullptr;
    }
    const u64 at = atomicAdd(&state->arena_used, len);
    if (at + len > state->arena_size) {
        state->arena_full = 1;
        return nullptr;
    }
    return state->arena + at;
}
