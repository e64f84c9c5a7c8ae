// Segments that only decode a vector as a whole, turned into plain values before a query's kernel reads them (docs/format.md,
// LaneDelta and LaneRle; needs scan.cuh and lane_delta.cuh). A warp takes a vector.

enum ExpansionKind : u32 { EXPAND_DELTA = 0, EXPAND_RUNS = 1 };

// What becomes of one segment.
struct Expansion {
    SegmentColumn values;    // of runs: their values. Of deltas: the packed words, references, the smallest delta as reference,
                             // bases in more[0], and bytes of a base as kind
    SegmentColumn ends;      // of runs: the last row of each in its vector
    const u32* starts;       // of runs: the first of each vector, and the number of all
    u8* out;                 // signed values
    u32 out_bytes;           // of each: 4 or 8
    u32 kind;
    u32 rows;
    u32 first_vector;        // vectors of the segments before this one
};

struct ExpandParams {
    const Expansion* expansions;
    u32 count;
    u32 vectors;             // of all segments
};

__device__ __forceinline__ void expand_store(const Expansion& e, u32 row, i64 value) {
    if (row >= e.rows) return;
    if (e.out_bytes == 4) ((i32*)e.out)[row] = (i32)value;
    else ((i64*)e.out)[row] = value;
}

// Rows 32 * lane .. of a vector: a prefix sum that stays inside the lane.
__device__ inline void expand_delta(const Expansion& e, u32 vector, u32 lane) {
    const SegmentColumn& c = e.values;
    const u32 width = c.width;
    const u32* words = (const u32*)c.data + (u64)vector * 32 * width;
    i64 value = (i64)(u64)c.references[vector] + (i64)lane_base(c.more[0], c.kind, (u64)vector * 32 + lane);
    const u32 first = vector * VECTOR_ROWS + 32 * lane;
    expand_store(e, first, value);
    for (u32 j = 1; j < 32; j++) {
        u32 field = 0;
        if (width > 0) {
            const u32 bit = j * width, k = bit / 32, s = bit % 32;
            const u32 low = __ldg(words + lane_word_index(width, k, lane));
            const u32 high = __ldg(words + lane_word_index(width, s + width > 32 ? k + 1 : k, lane));
            field = __funnelshift_r(low, high, s) & lane_field_mask(width);
        }
        value += (i64)c.reference_low + field;
        expand_store(e, first + j, value);
    }
}

// Each row looks for its run among those of its vector.
__device__ inline void expand_runs(const Expansion& e, u32 vector, u32 lane) {
    const u32 first = e.starts[vector], end = e.starts[vector + 1];
    for (u32 j = 0; j < 32; j++) {
        const u32 row = 32 * j + lane;
        u32 low = first, high = end;
        while (low < high) {
            const u32 middle = (low + high) / 2;
            if ((u32)segment_i64(e.ends, middle / VECTOR_ROWS, middle % VECTOR_ROWS) < row) low = middle + 1;
            else high = middle;
        }
        // Past the last run only where bytes are damaged.
        const i64 value = low < end ? segment_i64(e.values, low / VECTOR_ROWS, low % VECTOR_ROWS) : 0;
        expand_store(e, vector * VECTOR_ROWS + row, value);
    }
}

extern "C" __global__ void __launch_bounds__(256) expand(const ExpandParams p) {
    const u32 lane = threadIdx.x & 31;
    const u32 warps = gridDim.x * (blockDim.x / 32);
    for (u32 vector = (blockIdx.x * blockDim.x + threadIdx.x) / 32; vector < p.vectors; vector += warps) {
        u32 low = 0, high = p.count - 1;
        while (low < high) {
            const u32 middle = (low + high + 1) / 2;
            if (p.expansions[middle].first_vector <= vector) low = middle;
            else high = middle - 1;
        }
        const Expansion& e = p.expansions[low];
        if (e.kind == EXPAND_DELTA) expand_delta(e, vector - e.first_vector, lane);
        else expand_runs(e, vector - e.first_vector, lane);
    }
}
