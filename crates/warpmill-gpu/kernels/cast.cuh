// Conversions between numbers.

// A quotient rounded to nearest, half away from zero; `by` is positive.
template <class T> __device__ __forceinline__ T quotient_nearest(T value, T by) {
    const T result = (T)(value / by), rest = (T)(value % by), size = rest < 0 ? (T)-rest : rest;
    return size >= by - size ? (T)(result + (value < 0 ? -1 : 1)) : result;
}

// 128-bit integers to the nearest float: 64 significant bits (with what is cut off in the last one) round in hardware.
struct Significand {
    u64 bits;
    i32 shift;
};

__device__ inline Significand significand(u128 value) {
    const u64 high = (u64)(value >> 64);
    if (high == 0) return Significand{(u64)value, 0};
    i32 shift = 64;
    while (shift > 1 && (high >> (shift - 1)) == 0) shift--;
    const u64 bits = (u64)(value >> shift);
    const bool rest = (value & (((u128)1 << shift) - 1)) != 0;
    return Significand{bits | (rest ? 1 : 0), shift};
}

__device__ inline double power_of_two(i32 exponent) {
    double result = 1.0;
    for (i32 i = 0; i < exponent; i++) result *= 2.0;
    return result;
}

__device__ inline double f64_of(i128 value) {
    const Significand s = significand(value < 0 ? 0 - (u128)value : (u128)value);
    const double size = (double)s.bits * power_of_two(s.shift);
    return value < 0 ? -size : size;
}

__device__ inline float f32_of(i128 value) {
    const Significand s = significand(value < 0 ? 0 - (u128)value : (u128)value);
    const float size = (float)((double)(float)s.bits * power_of_two(s.shift));
    return value < 0 ? -size : size;
}

// Whole numbers `low <= value < end` (bounds are powers of two or zero); `bad` is set for others, NaN included.
__device__ __forceinline__ bool is_within(double value, double low, double end) { return value >= low && value < end; }

__device__ inline i128 i128_of_f64(double value) {
    const double size = value < 0 ? -value : value;
    const double high = floor(size / 18446744073709551616.0);
    const u128 bits = ((u128)(u64)high << 64) + (u64)(size - high * 18446744073709551616.0);
    return (i128)(value < 0 ? 0 - bits : bits);
}
