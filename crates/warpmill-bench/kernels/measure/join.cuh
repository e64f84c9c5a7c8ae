// A join of `build` unique keys with a payload and `n` probes that hit, drawn evenly; the answer is the sum of payloads
// (needs data.cuh and bucket_table.cuh).

struct JoinData {
    u64* keys;         // of the probes, or (dense) their low 32 bits in a u32 each
    BucketTable table;
    u32* payloads;     // dense: by key
    u64* out;          // {sum of payloads, probes that found a key}
    u64 n;
    u64 build;
    u64 seed;
};

// The key of build row i. The multiplier is odd: keys are unique.
__device__ __forceinline__ u64 build_key(u64 i) { return (i + 1) * 0x9E3779B97F4A7C15ull; }
__device__ __forceinline__ u32 build_payload(u64 i) { return (u32)draw(i, 77) >> 8; }

extern "C" __global__ void join_build(JoinData p) {
    for (u64 i = thread_number(); i < p.build; i += thread_count()) {
        bucket_insert(p.table, build_key(i), build_payload(i));
    }
}

extern "C" __global__ void join_make(JoinData p) {
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        p.keys[i] = build_key(draw_below(i, p.seed, p.build));
    }
}

extern "C" __global__ void dense_build(JoinData p) {
    for (u64 i = thread_number(); i < p.build; i += thread_count()) {
        p.payloads[i] = build_payload(i);
    }
}

extern "C" __global__ void dense_make(JoinData p) {
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        ((u32*)p.keys)[i] = (u32)draw_below(i, p.seed, p.build);
    }
}

extern "C" __global__ void join_expect(JoinData p) {
    u64 sum = 0;
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        sum += build_payload(draw_below(i, p.seed, p.build));
    }
    add_sum(sum, p.out);
    add_sum(thread_number() == 0 ? p.n : 0, p.out + 1);
}

// N probes a thread and step; neighbouring threads read neighbouring keys.
template <int N>
__device__ __forceinline__ void join_probe(const JoinData& p) {
    u64 sum = 0, hits = 0;
    const u64 step = (u64)blockDim.x * N;
    for (u64 first = blockIdx.x * step; first < p.n; first += gridDim.x * step) {
        u64 keys[N];
        u32 payloads[N];
        u32 there = 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const u64 i = first + k * blockDim.x + threadIdx.x;
            there |= (u32)(i < p.n) << k;
            keys[k] = i < p.n ? __ldg(p.keys + i) : 0;
        }
        const u32 found = bucket_find<N>(payloads, p.table, keys) & there;
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum += found >> k & 1 ? payloads[k] : 0;
        }
        hits += __popc(found);
    }
    add_sum(sum, p.out);
    add_sum(hits, p.out + 1);
}

extern "C" __global__ void __launch_bounds__(256) join_probe_4(JoinData p) { join_probe<4>(p); }
extern "C" __global__ void __launch_bounds__(256) join_probe_8(JoinData p) { join_probe<8>(p); }

// Direct-address probes: N 32-bit keys a thread, 16 bytes at a time; n is a multiple of 4.
extern "C" __global__ void __launch_bounds__(256) dense_probe(JoinData p) {
    u64 sum = 0, hits = 0;
    const uint4* keys = (const uint4*)p.keys;
    const u64 quads = p.n / 4, stride = thread_count();
    for (u64 i = thread_number(); i < quads; i += 2 * stride) {
        const uint4 a = __ldg(keys + i), b = i + stride < quads ? __ldg(keys + i + stride) : make_uint4(~0u, ~0u, ~0u, ~0u);
        const u32 key[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        u32 payload[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            payload[k] = key[k] < p.build ? __ldg(p.payloads + key[k]) : 0;
        }
#pragma unroll
        for (int k = 0; k < 8; k++) {
            sum += payload[k];
            hits += key[k] < p.build;
        }
    }
    add_sum(sum, p.out);
    add_sum(hits, p.out + 1);
}
