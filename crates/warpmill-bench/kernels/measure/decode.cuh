// One column decoded and summed, or decoded and written, in every encoding (needs data.cuh and the encodings). A
// packed segment lies in memory many times over; a copy's parts are found by strides.

struct LaneDecode {
    const u32* packed;
    u32* out;
    u64* sum;
    u64 vectors;
    u32 reference;
};

// Calls body(vector) for each vector; one warp has each.
template <class Body>
__device__ __forceinline__ void each_vector(u64 vectors, Body body) {
    const u64 warps = (u64)gridDim.x * (blockDim.x / 32);
    for (u64 v = (u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; v < vectors; v += warps) {
        body(v);
    }
}

// The sum of a lane's W-bit fields: 32-bit partial sums of as many as cannot overflow.
template <int W>
__device__ __forceinline__ u64 lane_fields_sum(const u32 (&words)[lane_words(W)]) {
    constexpr int GROUP = W <= 27 ? 32 : W == 28 ? 16 : W == 29 ? 8 : W == 30 ? 4 : 1;
    u64 sum = 0;
#pragma unroll
    for (int g = 0; g < 32; g += GROUP) {
        u32 part = 0;
#pragma unroll
        for (int j = 0; j < GROUP; j++) {
            part += lane_get<W>(words, g + j);
        }
        sum += part;
    }
    return sum;
}

// Writes 32 striped values of a lane, 16 bytes at a time.
__device__ __forceinline__ void write_striped(u32* out, u64 vector, u32 lane, const u32 (&values)[32]) {
#pragma unroll
    for (int j = 0; j < 32; j += 4) {
        const uint4 four = make_uint4(values[j], values[j + 1], values[j + 2], values[j + 3]);
        __stcs((uint4*)(out + vector * VECTOR_ROWS + 32 * j) + lane, four);
    }
}

template <int W>
__device__ __forceinline__ void lane_sum(const LaneDecode& p) {
    const u32 lane = threadIdx.x % 32;
    u64 sum = 0;
    each_vector(p.vectors, [&](u64 v) {
        u32 words[lane_words(W)];
        lane_load<W>(words, p.packed + v * (LANES * W), lane);
        sum += lane_fields_sum<W>(words) + (u64)p.reference * 32;
    });
    add_sum(sum, p.sum);
}

template <int W>
__device__ __forceinline__ void lane_write(const LaneDecode& p) {
    const u32 lane = threadIdx.x % 32;
    each_vector(p.vectors, [&](u64 v) {
        u32 words[lane_words(W)], values[32];
        lane_load<W>(words, p.packed + v * (LANES * W), lane);
#pragma unroll
        for (int j = 0; j < 32; j++) {
            values[j] = p.reference + lane_get<W>(words, j);
        }
        write_striped(p.out, v, lane, values);
    });
}

struct DeltaDecode {
    const u32* packed;
    const u8* bases;
    const i64* references;    // i128 in the segment: the low words of each
    u32* out;
    u64* sum;
    u64 vectors;
    u32 step;
    u32 base_bytes;
};

// The values of a lane, which fit 32 bits.
template <int W>
__device__ __forceinline__ void delta_values(u32 (&values)[32], const DeltaDecode& p, u64 v, u32 lane) {
    u32 words[lane_words(W)];
    lane_load<W>(words, p.packed + v * (LANES * W), lane);
    const u32 first = (u32)__ldg(p.references + 2 * v) + (u32)lane_base(p.bases, p.base_bytes, v * LANES + lane);
    lane_prefix<W>(values, words, first, p.step);
}

template <int W>
__device__ __forceinline__ void delta_sum(const DeltaDecode& p) {
    const u32 lane = threadIdx.x % 32;
    u64 sum = 0;
    each_vector(p.vectors, [&](u64 v) {
        // Offsets from the lane's first value are summed in 32 bits where that cannot overflow.
        u32 words[lane_words(W)];
        lane_load<W>(words, p.packed + v * (LANES * W), lane);
        const u32 first = (u32)__ldg(p.references + 2 * v) + (u32)lane_base(p.bases, p.base_bytes, v * LANES + lane);
        u32 values[32];
        if constexpr (W <= 16) {
            lane_prefix<W>(values, words, 0u, 0u);
            u32 part = 0;
#pragma unroll
            for (int j = 1; j < 32; j++) {
                part += values[j];
            }
            sum += part + (u64)first * 32 + (u64)((i64)(i32)p.step * 496);
        } else {
            lane_prefix<W>(values, words, first, p.step);
#pragma unroll
            for (int j = 0; j < 32; j++) {
                sum += values[j];
            }
        }
    });
    add_sum(sum, p.sum);
}

template <int W>
__device__ __forceinline__ void delta_write(const DeltaDecode& p) {
    __shared__ __align__(16) u32 shared[8][REORDER_WORDS];
    const u32 lane = threadIdx.x % 32;
    each_vector(p.vectors, [&](u64 v) {
        u32 values[32];
        delta_values<W>(values, p, v, lane);
        blocked_to_striped(values, shared[threadIdx.x / 32], lane);
        write_striped(p.out, v, lane, values);
    });
}

struct RleDecode {
    const u32* starts;
    const u32* ends;
    const u32* values;
    u32* out;
    u64* sum;
    u64 copies;
    u64 starts_stride;    // words from one copy to the next
    u64 ends_stride;
    u64 values_stride;
    u32 vectors;          // of one copy
    u32 runs;             // of one copy
    u32 end_reference;
    u32 value_reference;
};

// Sum of values times run lengths: no row is ever formed. A warp unpacks the ends and values of 1024 runs.
template <int WE, int WV>
__device__ __forceinline__ void rle_run_sum(const RleDecode& p) {
    const u32 lane = threadIdx.x % 32, vectors = (p.runs + VECTOR_ROWS - 1) / VECTOR_ROWS;
    u64 sum = 0;
    each_vector(vectors * p.copies, [&](u64 t) {
        const u64 copy = t / vectors;
        const u32 v = (u32)(t % vectors), rows = p.runs - v * VECTOR_ROWS;
        const u32* ends = p.ends + copy * p.ends_stride;
        u32 end_words[lane_words(WE)], value_words[lane_words(WV)];
        lane_load<WE>(end_words, ends + (u64)v * (LANES * WE), lane);
        lane_load<WV>(value_words, p.values + copy * p.values_stride + (u64)v * (LANES * WV), lane);
        // The run before a lane's group of four belongs to the lane before, or ends the group of lane 31 before.
        u32 carry = v > 0 ? lane_at<WE>(ends, v * VECTOR_ROWS - 1) + p.end_reference : VECTOR_ROWS - 1;
#pragma unroll
        for (int j = 0; j < 32; j += 4) {
            const u32 last = lane_get<WE>(end_words, j + 3) + p.end_reference;
            u32 before = __shfl_up_sync(FULL_WARP, last, 1);
            before = lane == 0 ? carry : before;
            carry = __shfl_sync(FULL_WARP, last, 31);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 end = lane_get<WE>(end_words, j + i) + p.end_reference;
                const u32 value = lane_get<WV>(value_words, j + i) + p.value_reference;
                sum += striped_row(lane, j + i) < rows ? (u64)run_rows(end, before) * value : 0;
                before = end;
            }
        }
    });
    add_sum(sum, p.sum);
}

// The values of a lane's rows. `shared` is 32 + 1024 words of the warp.
template <int WE, int WV>
__device__ __forceinline__ void rle_values(u32 (&values)[32], const RleDecode& p, u64 t, u32 lane, u32* shared) {
    const u64 copy = t / p.vectors;
    const u32* starts = p.starts + copy * p.starts_stride + t % p.vectors;
    const u32 *ends = p.ends + copy * p.ends_stride, *run_values = p.values + copy * p.values_stride;
    const u32 first = __ldg(starts), end = __ldg(starts + 1);
    for (u32 run = lane; run < end - first; run += 32) {
        shared[32 + run] = lane_at<WV>(run_values, first + run) + p.value_reference;
    }
    const RunStarts begun = run_starts(first, end, shared, lane,
                                       [&](u32 run) { return lane_at<WE>(ends, run) + p.end_reference; });
    u32 runs[32];
    striped_runs(runs, begun, lane);
#pragma unroll
    for (int j = 0; j < 32; j++) {
        values[j] = shared[32 + runs[j]];
    }
    __syncwarp(FULL_WARP);
}

template <int WE, int WV>
__device__ __forceinline__ void rle_sum(const RleDecode& p) {
    __shared__ u32 shared[8][32 + VECTOR_ROWS];
    const u32 lane = threadIdx.x % 32;
    u64 sum = 0;
    each_vector(p.vectors * p.copies, [&](u64 t) {
        u32 values[32];
        rle_values<WE, WV>(values, p, t, lane, shared[threadIdx.x / 32]);
#pragma unroll
        for (int j = 0; j < 32; j++) {
            sum += values[j];
        }
    });
    add_sum(sum, p.sum);
}

template <int WE, int WV>
__device__ __forceinline__ void rle_write(const RleDecode& p) {
    __shared__ u32 shared[8][32 + VECTOR_ROWS];
    const u32 lane = threadIdx.x % 32;
    each_vector(p.vectors * p.copies, [&](u64 t) {
        u32 values[32];
        rle_values<WE, WV>(values, p, t, lane, shared[threadIdx.x / 32]);
        write_striped(p.out, t, lane, values);
    });
}
