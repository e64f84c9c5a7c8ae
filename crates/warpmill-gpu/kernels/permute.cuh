// Rows in another order. Each function handles the row of one thread.

template <class T>
struct Permute {
    const T* in;
    const u32* rows;
    T* out;
    u64 n;
};

__device__ __forceinline__ u64 global_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }

// out[i] = in[rows[i]].
template <class T>
__device__ __forceinline__ void gather(const Permute<T>& p) {
    const u64 i = global_thread();
    if (i < p.n) {
        p.out[i] = p.in[p.rows[i]];
    }
}

// out[i] = i.
__device__ __forceinline__ void number_rows(u32* out, u64 n) {
    const u64 i = global_thread();
    if (i < n) {
        out[i] = (u32)i;
    }
}
