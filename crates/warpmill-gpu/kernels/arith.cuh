// Arithmetic without undefined behaviour: integers wrap, and the checked forms set `bad` where the exact result does not
// fit. Rows that are not there or NULL hold anything, so that no operand may be trusted.

template <class T> struct UnsignedOf;
template <> struct UnsignedOf<i32> { using type = u32; };
template <> struct UnsignedOf<i64> { using type = u64; };
template <> struct UnsignedOf<i128> { using type = u128; };
template <class T> using unsigned_of = typename UnsignedOf<T>::type;

template <class T> __device__ __forceinline__ T least_value() {
    return (T)((unsigned_of<T>)1 << (8 * sizeof(T) - 1));
}

// A 128-bit constant.
__device__ __forceinline__ i128 i128_of(u64 high, u64 low) { return (i128)(((u128)high << 64) | low); }

template <class T> __device__ __forceinline__ T add(T a, T b) { return (T)((unsigned_of<T>)a + (unsigned_of<T>)b); }
template <class T> __device__ __forceinline__ T sub(T a, T b) { return (T)((unsigned_of<T>)a - (unsigned_of<T>)b); }
template <class T> __device__ __forceinline__ T mul(T a, T b) { return (T)((unsigned_of<T>)a * (unsigned_of<T>)b); }
template <class T> __device__ __forceinline__ T negate(T a) { return (T)(0 - (unsigned_of<T>)a); }

// The product of two 64-bit integers, which always fits.
__device__ __forceinline__ i128 mul_wide(i64 a, i64 b) { return (i128)a * b; }

template <class T> __device__ __forceinline__ T add_checked(T a, T b, bool& bad) {
    const T result = add(a, b);
    bad |= ((a ^ result) & (b ^ result)) < 0;
    return result;
}

template <class T> __device__ __forceinline__ T sub_checked(T a, T b, bool& bad) {
    const T result = sub(a, b);
    bad |= ((a ^ b) & (a ^ result)) < 0;
    return result;
}

__device__ __forceinline__ i32 mul_checked(i32 a, i32 b, bool& bad) {
    const i64 product = (i64)a * b;
    bad |= product != (i32)product;
    return (i32)product;
}

__device__ __forceinline__ i64 mul_checked(i64 a, i64 b, bool& bad) {
    const i128 product = mul_wide(a, b);
    bad |= product != (i64)product;
    return (i64)product;
}

__device__ inline i128 mul_checked(i128 a, i128 b, bool& bad) {
    if (a == (i64)a && b == (i64)b) return mul_wide((i64)a, (i64)b);
    const bool negative = (a < 0) != (b < 0);
    const u128 x = a < 0 ? 0 - (u128)a : (u128)a;
    const u128 y = b < 0 ? 0 - (u128)b : (u128)b;
    const u64 x_high = (u64)(x >> 64), y_high = (u64)(y >> 64);
    const u128 cross = x_high != 0 ? (u128)x_high * (u64)y : (u128)y_high * (u64)x;
    const u128 low = (u128)(u64)x * (u64)y;
    const u128 magnitude = low + (cross << 64);
    const u128 limit = ((u128)1 << 127) - (negative ? 0 : 1);
    bad |= (x_high != 0 && y_high != 0) || (cross >> 64) != 0 || magnitude < low || magnitude > limit;
    return (i128)(negative ? 0 - magnitude : magnitude);
}

// Division truncates. By zero (an error where the row counts) it gives the dividend, and the one overflow wraps.
template <class T> __device__ __forceinline__ T quotient(T a, T b) {
    if (b == 0) return a;
    return b == -1 ? negate(a) : (T)(a / b);
}

__device__ inline i128 quotient(i128 a, i128 b) {
    // Division of 128 bits takes ten times as long.
    if (a == (i64)a && b == (i64)b && b != -1) return quotient((i64)a, (i64)b);
    if (b == 0) return a;
    return b == -1 ? negate(a) : a / b;
}

template <class T> __device__ __forceinline__ T quotient_checked(T a, T b, bool& bad) {
    bad |= a == least_value<T>() && b == -1;
    return quotient(a, b);
}

template <class T> __device__ __forceinline__ T modulo(T a, T b) {
    return b == 0 || b == -1 ? 0 : (T)(a % b);
}

__device__ inline i128 modulo(i128 a, i128 b) {
    if (b == 0 || b == -1) return 0;
    return a == (i64)a && b == (i64)b ? (i128)((i64)a % (i64)b) : a % b;
}

// Quotient and remainder rounded down; `by` is positive.
template <class T> __device__ __forceinline__ T floor_div(T value, T by) {
    return (T)(value / by - (value % by < 0 ? 1 : 0));
}
template <class T> __device__ __forceinline__ T floor_mod(T value, T by) {
    const T rest = (T)(value % by);
    return rest < 0 ? (T)(rest + by) : rest;
}

// a * scale / b with an exact product, for results between `low` and `high`.
template <class T>
__device__ inline T quotient_scaled(T a, T b, i128 scale, i128 low, i128 high, bool& bad) {
    const i128 dividend = mul_checked((i128)a, scale, bad);
    const i128 result = quotient(dividend, (i128)b);
    bad |= result != (T)result || result < low || result > high;
    return (T)result;
}

// Floats: one rounding per operation on every device (a fused multiply-add would round once for two).
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float sub(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ double sub(double a, double b) { return __dsub_rn(a, b); }
__device__ __forceinline__ double mul(double a, double b) { return __dmul_rn(a, b); }
#else
__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float sub(float a, float b) { return a - b; }
__device__ __forceinline__ float mul(float a, float b) { return a * b; }
__device__ __forceinline__ double add(double a, double b) { return a + b; }
__device__ __forceinline__ double sub(double a, double b) { return a - b; }
__device__ __forceinline__ double mul(double a, double b) { return a * b; }
#endif
__device__ __forceinline__ float negate(float a) { return -a; }
__device__ __forceinline__ double negate(double a) { return -a; }
__device__ __forceinline__ float quotient(float a, float b) { return a / b; }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
__device__ __forceinline__ float modulo(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double modulo(double a, double b) { return fmod(a, b); }
