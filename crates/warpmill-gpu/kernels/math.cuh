// Functions of numbers. Floats round half away from zero.

__device__ __forceinline__ double absolute(double value) { return fabs(value); }
__device__ __forceinline__ float absolute(float value) { return fabsf(value); }

template <class T> __device__ __forceinline__ T sign(T value) {
    if (value != value) return value;
    return value == 0 ? (T)0 : value < 0 ? (T)-1 : (T)1;
}

__device__ __forceinline__ double rounded(double value) { return round(value); }
__device__ __forceinline__ float rounded(float value) { return roundf(value); }
__device__ __forceinline__ double truncated(double value) { return trunc(value); }
__device__ __forceinline__ float truncated(float value) { return truncf(value); }
__device__ __forceinline__ double floored(double value) { return floor(value); }
__device__ __forceinline__ float floored(float value) { return floorf(value); }
__device__ __forceinline__ double raised(double value) { return ceil(value); }
__device__ __forceinline__ float raised(float value) { return ceilf(value); }
__device__ __forceinline__ double square_root(double value) { return sqrt(value); }
__device__ __forceinline__ float square_root(float value) { return sqrtf(value); }
__device__ __forceinline__ double power(double base, double exponent) { return pow(base, exponent); }
__device__ __forceinline__ float power(float base, float exponent) { return powf(base, exponent); }
__device__ __forceinline__ double exponential(double value) { return exp(value); }
__device__ __forceinline__ float exponential(float value) { return expf(value); }
__device__ __forceinline__ double natural_logarithm(double value) { return log(value); }
__device__ __forceinline__ float natural_logarithm(float value) { return logf(value); }
__device__ __forceinline__ double decimal_logarithm(double value) { return log10(value); }
__device__ __forceinline__ float decimal_logarithm(float value) { return log10f(value); }

// 10^places by repeated squaring, as compilers' runtime libraries do.
template <class T> __device__ inline T power_of_ten(i32 places) {
    const bool reciprocal = places < 0;
    T result = 1, factor = 10;
    for (;;) {
        if (places & 1) result = mul(result, factor);
        places /= 2;
        if (places == 0) break;
        factor = mul(factor, factor);
    }
    return reciprocal ? 1 / result : result;
}

template <class T> __device__ inline T rounded(T value, i64 places) {
    const T factor = power_of_ten<T>((i32)places);
    return rounded(mul(value, factor)) / factor;
}

template <class T> __device__ inline T truncated(T value, i64 places) {
    const T factor = power_of_ten<T>((i32)places);
    return truncated(mul(value, factor)) / factor;
}

template <class T> __device__ __forceinline__ T absolute_checked(T value, bool& bad) {
    bad |= value == least_value<T>();
    return value < 0 ? negate(value) : value;
}

// 10^digits; false where that is beyond 128 bits.
__device__ inline bool unit_of(i64 digits, i128& unit) {
    unit = 1;
    if (digits < 0 || digits > 38) return false;
    for (i64 i = 0; i < digits; i++) unit *= 10;
    return true;
}

// Unscaled decimals of `scale` digits.
__device__ inline i128 floored(i128 value, i64 scale) {
    i128 unit;
    unit_of(scale, unit);
    const i128 rest = value % unit;
    return sub(value, rest < 0 ? rest + unit : rest);
}

__device__ inline i128 raised(i128 value, i64 scale) {
    i128 unit;
    unit_of(scale, unit);
    const i128 rest = value % unit;
    return add(value, rest > 0 ? unit - rest : -rest);
}

__device__ inline i128 truncated(i128 value, i64 scale, i64 places) {
    i128 unit;
    if (places >= scale) return value;
    return unit_of(places < scale - 64 ? 64 : scale - places, unit) ? value - value % unit : 0;
}

// Rounded half away from zero to `places` digits, held with `to_scale` of them.
__device__ inline i128 rounded(i128 value, i64 scale, i64 places, i64 to_scale, bool& bad) {
    const i64 wanted = places < scale - 64 ? 64 : places > scale ? 0 : scale - places;
    const i64 digits = wanted > scale - to_scale ? wanted : scale - to_scale;
    i128 unit, kept;
    if (digits <= 0) return value;
    if (!unit_of(digits, unit)) return 0;
    const i128 rest = value % unit, size = rest < 0 ? -rest : rest;
    const i128 away = size >= unit - size ? (value < 0 ? -1 : 1) : 0;
    unit_of(digits - (scale - to_scale), kept);
    return mul_checked(value / unit + away, kept, bad);
}
