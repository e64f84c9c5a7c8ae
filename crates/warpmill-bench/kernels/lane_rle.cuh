// Lane-packed run lengths (docs/format.md, LaneRle; needs lane.cuh). The last row of each run and its value are columns of
// one entry per run; callers pass them as functions of the run's number in the segment.

// Where the runs of a vector begin, a bit per row: word w of lane w stands for rows 32 * w ... `before` counts the runs
// that begin in earlier words, less one, so that `before` + the bits up to a row is the row's run, counted in the vector.
struct RunStarts {
    u32 bits;
    u32 before;
};

// Finds the starts of the runs first .. end - 1, all of one vector. `shared` is 32 words of the warp; `last(run)` is the last
// row of a run in the vector. All lanes call.
template <class Last>
__device__ __forceinline__ RunStarts run_starts(u32 first, u32 end, u32* shared, u32 lane, Last last) {
    __syncwarp(FULL_WARP);
    shared[lane] = lane == 0 ? 1 : 0;
    __syncwarp(FULL_WARP);
    for (u32 run = first + lane; run + 1 < end; run += 32) {
        const u32 row = (last(run) + 1) % VECTOR_ROWS;
        atomicOr(shared + row / 32, 1u << (row % 32));
    }
    __syncwarp(FULL_WARP);
    const u32 bits = shared[lane];
    u32 before = __popc(bits);
    for (u32 d = 1; d < 32; d *= 2) {
        const u32 other = __shfl_up_sync(FULL_WARP, before, d);
        before += lane >= d ? other : 0;
    }
    return RunStarts{bits, before - __popc(bits) - 1};
}

// The runs (counted in the vector) of a lane's rows in striped order: runs[j] is that of row 128 * (j / 4) + 4 * lane + j % 4.
// All lanes call.
__device__ __forceinline__ void striped_runs(u32 (&runs)[32], RunStarts starts, u32 lane) {
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
        const u32 word = j + lane / 8, bit = 4 * lane % 32;
        const u32 bits = __shfl_sync(FULL_WARP, starts.bits, word);
        const u32 before = __shfl_sync(FULL_WARP, starts.before, word);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            runs[j + i] = before + __popc(bits << (31 - bit - i));
        }
    }
}

// Rows of the run whose last row is `last`, where the run before it in the segment ended at `before` (the first run of a
// segment: 1023). Runs never cross vectors, so that a run after one that ended at 1023 begins a vector.
__device__ __forceinline__ u32 run_rows(u32 last, u32 before) { return (last - before - 1) % VECTOR_ROWS + 1; }
