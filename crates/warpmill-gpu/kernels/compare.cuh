// Equality and order of values: total, floats with NaN equal to itself and greater than everything, zeros equal.

template <class T> __device__ __forceinline__ bool same(T a, T b) { return a == b; }
template <class T> __device__ __forceinline__ bool less(T a, T b) { return a < b; }

__device__ __forceinline__ bool same(float a, float b) { return a == b || (a != a && b != b); }
__device__ __forceinline__ bool less(float a, float b) { return a < b || (a == a && b != b); }
__device__ __forceinline__ bool same(double a, double b) { return a == b || (a != a && b != b); }
__device__ __forceinline__ bool less(double a, double b) { return a < b || (a == a && b != b); }

// Whether `value` is among the `count` ascending elements of `list`.
template <class T> __device__ inline bool is_member(const T* list, u32 count, T value) {
    u32 low = 0, high = count;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (less(list[middle], value)) low = middle + 1;
        else high = middle;
    }
    return low < count && same(list[low], value);
}
