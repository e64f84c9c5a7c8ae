// Values of translated Python functions, and what Python and numpy make of them. Needs `arith.cuh`.
//
// Where Python would do what this code does not (raise an exception, go beyond 64 bits, ...), the group fails with a site and a
// reason: the values that follow are of no use, loops end, and the host's language is asked about that group.

namespace udf {

typedef double f64;

// Reasons, as `warpmill/src/udf/compiled/reasons.rs` names them.
enum Why : i32 { IS_NULL = 1, TOO_LARGE, BY_ZERO, NO_SUCH_ROW, OUTSIDE, NOT_WHOLE, NO_VALUE, IS_MISSING, STOPPED, NO_RESULT, RAISED };

// Iterations of loops between two looks at whether the query goes on.
constexpr i32 PATIENCE = 4096;
// Iterations after which a device gives a group up: nothing stops a kernel, but the host, which calls the function then, can be stopped.
constexpr i32 DEVICE_PATIENCE = 1 << 24;
#if defined(__CUDACC_RTC__) || defined(WARPMILL_SIM)
constexpr bool ON_DEVICE = true;
#else
constexpr bool ON_DEVICE = false;
#endif

// The progress of one group.
struct Context {
    i32 status;            // 0, or where (a site) and why it failed: site * 16 + reason
    i32 steps;             // iterations of loops
    const i32* cancelled;  // set when nobody waits for results any more; may be null

    __device__ __forceinline__ void fail(i32 site, Why why) {
        if (status == 0) status = site * 16 + why;
    }
    // Whether a loop goes on.
    __device__ __forceinline__ bool goes_on() {
        if (++steps >= (ON_DEVICE ? DEVICE_PATIENCE : PATIENCE)) {
            steps = 0;
            if (ON_DEVICE || (cancelled && *(const volatile i32*)cancelled)) fail(0, STOPPED);
        }
        return status == 0;
    }
    // After a thread has gone through so many rows.
    __device__ __forceinline__ void went_through(i64 rows) {
        if (ON_DEVICE) {
            steps = rows < DEVICE_PATIENCE - steps ? steps + (i32)rows : DEVICE_PATIENCE - 1;
        } else if (rows >= PATIENCE) {
            // A loop over reductions of many rows looks at once whether it is to stop.
            steps = PATIENCE;
        }
    }
};

// A whole number (or a truth value) or numpy's NaN: the result of a reduction of nothing, of a division by zero.
template <class T> struct Missing { T v; bool ok; };
// A value or None.
template <class T> struct Null { T v; bool ok; };
// None.
struct None {};

__device__ __forceinline__ f64 not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }
__device__ __forceinline__ f64 infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
__device__ __forceinline__ bool is_nan(f64 x) { return x != x; }
__device__ __forceinline__ bool is_finite(f64 x) { return x - x == 0; }

// The value that is not None.
template <class T> __device__ __forceinline__ T known(Context& c, i32 site, Null<T> x) {
    if (!x.ok) c.fail(site, IS_NULL);
    return x.v;
}
// The value that is not missing.
template <class T> __device__ __forceinline__ T present(Context& c, i32 site, Missing<T> x) {
    if (!x.ok) c.fail(site, IS_MISSING);
    return x.v;
}

// Conversions between the types of one variable, which keep the value.
constexpr i64 EXACT = 1ll << 53;
__device__ __forceinline__ f64 exact(Context& c, i32 site, i64 x) {
    if (x > EXACT || x < -EXACT) c.fail(site, TOO_LARGE);
    return (f64)x;
}
__device__ __forceinline__ f64 exact(Context& c, i32 site, Missing<i64> x) { return x.ok ? exact(c, site, x.v) : not_a_number(); }
__device__ __forceinline__ Null<f64> exact(Context& c, i32 site, Null<i64> x) { return {x.ok ? exact(c, site, x.v) : 0.0, x.ok}; }
__device__ __forceinline__ Null<i64> whole(Null<bool> x) { return {(i64)x.v, x.ok}; }
__device__ __forceinline__ Missing<i64> whole(Missing<bool> x) { return {(i64)x.v, x.ok}; }
__device__ __forceinline__ i64 whole(bool x) { return x; }
template <class T> __device__ __forceinline__ Missing<T> some(T x) { return {x, true}; }
template <class T> __device__ __forceinline__ Null<T> given(T x) { return {x, true}; }
__device__ __forceinline__ f64 rounded(i64 x) { return (f64)x; }
__device__ __forceinline__ f64 rounded(Missing<i64> x) { return x.ok ? (f64)x.v : not_a_number(); }

// Truth. NaN is true, None is not.
__device__ __forceinline__ bool truth(bool x) { return x; }
__device__ __forceinline__ bool truth(i64 x) { return x != 0; }
__device__ __forceinline__ bool truth(f64 x) { return x != 0; }
template <class T> __device__ __forceinline__ bool truth(Missing<T> x) { return !x.ok || truth(x.v); }
template <class T> __device__ __forceinline__ bool truth(Null<T> x) { return x.ok && truth(x.v); }

// Arithmetic of whole numbers is exact, or fails.
__device__ __forceinline__ i64 add(Context& c, i32 site, i64 a, i64 b) {
    bool bad = false;
    const i64 r = ::add_checked(a, b, bad);
    if (bad) c.fail(site, TOO_LARGE);
    return r;
}
__device__ __forceinline__ i64 sub(Context& c, i32 site, i64 a, i64 b) {
    bool bad = false;
    const i64 r = ::sub_checked(a, b, bad);
    if (bad) c.fail(site, TOO_LARGE);
    return r;
}
__device__ __forceinline__ i64 mul(Context& c, i32 site, i64 a, i64 b) {
    bool bad = false;
    const i64 r = ::mul_checked(a, b, bad);
    if (bad) c.fail(site, TOO_LARGE);
    return r;
}
__device__ __forceinline__ i64 neg(Context& c, i32 site, i64 a) { return sub(c, site, (i64)0, a); }
__device__ __forceinline__ i64 absolute(Context& c, i32 site, i64 a) { return a < 0 ? neg(c, site, a) : a; }
__device__ inline i64 power(Context& c, i32 site, i64 base, i64 exponent) {
    i64 r = 1;
    for (i64 left = exponent, square = base; left > 0; left >>= 1) {
        if (left & 1) r = mul(c, site, r, square);
        if (left > 1) square = mul(c, site, square, square);
    }
    return r;
}
// Quotients go down, remainders have the divisor's sign.
__device__ __forceinline__ i64 floor_quotient(Context& c, i32 site, i64 a, i64 b) {
    if (b == -1) return neg(c, site, a);
    const i64 q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
__device__ __forceinline__ i64 floor_remainder(i64 a, i64 b) {
    if (b == -1) return 0;
    const i64 r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
__device__ __forceinline__ i64 floordiv(Context& c, i32 site, i64 a, i64 b) {
    if (b == 0) {
        c.fail(site, BY_ZERO);
        return 0;
    }
    return floor_quotient(c, site, a, b);
}
__device__ __forceinline__ i64 mod(Context& c, i32 site, i64 a, i64 b) {
    if (b == 0) {
        c.fail(site, BY_ZERO);
        return 0;
    }
    return floor_remainder(a, b);
}

// The same of numbers that may be missing: what one of them makes is missing.
#define UDF_OF_MISSING(name)                                                                                        \
    __device__ __forceinline__ Missing<i64> name(Context& c, i32 site, Missing<i64> a, Missing<i64> b) {            \
        if (!a.ok || !b.ok) return {0, false};                                                                      \
        return {name(c, site, a.v, b.v), true};                                                                     \
    }
UDF_OF_MISSING(add)
UDF_OF_MISSING(sub)
UDF_OF_MISSING(mul)
#undef UDF_OF_MISSING
__device__ __forceinline__ Missing<i64> neg(Context& c, i32 site, Missing<i64> a) { return {a.ok ? neg(c, site, a.v) : 0, a.ok}; }
__device__ __forceinline__ Missing<i64> absolute(Context& c, i32 site, Missing<i64> a) { return {a.ok ? absolute(c, site, a.v) : 0, a.ok}; }
__device__ __forceinline__ Missing<i64> power(Context& c, i32 site, Missing<i64> a, i64 exponent) {
    return {a.ok ? power(c, site, a.v, exponent) : 0, a.ok};
}
// numpy's: by zero they are missing.
__device__ __forceinline__ Missing<i64> floordiv_or_missing(Context& c, i32 site, Missing<i64> a, Missing<i64> b) {
    if (!a.ok || !b.ok || b.v == 0) return {0, false};
    return {floor_quotient(c, site, a.v, b.v), true};
}
__device__ __forceinline__ Missing<i64> mod_or_missing(Missing<i64> a, Missing<i64> b) {
    if (!a.ok || !b.ok || b.v == 0) return {0, false};
    return {floor_remainder(a.v, b.v), true};
}

// Floats: numpy's results, which Python's are where it raises nothing.
__device__ __forceinline__ f64 add(Context&, i32, f64 a, f64 b) { return ::add(a, b); }
__device__ __forceinline__ f64 sub(Context&, i32, f64 a, f64 b) { return ::sub(a, b); }
__device__ __forceinline__ f64 mul(Context&, i32, f64 a, f64 b) { return ::mul(a, b); }
__device__ __forceinline__ f64 neg(Context&, i32, f64 a) { return -a; }
__device__ __forceinline__ f64 absolute(Context&, i32, f64 a) { return fabs(a); }
__device__ __forceinline__ f64 divide(f64 a, f64 b) { return a / b; }
__device__ inline f64 mod(f64 a, f64 b) {
    f64 r = fmod(a, b);
    if (b == 0) return r;
    if (r == 0) return copysign(0.0, b);
    return (b < 0) != (r < 0) ? r + b : r;
}
__device__ inline f64 floordiv(f64 a, f64 b) {
    if (b == 0) return a / b;
    f64 r = fmod(a, b);
    f64 q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1.0;
    if (q == 0) return copysign(0.0, a / b);
    const f64 down = floor(q);
    return q - down > 0.5 ? down + 1.0 : down;
}
__device__ __forceinline__ f64 power(f64 a, f64 b) { return b == 2.0 ? ::mul(a, a) : pow(a, b); }

// Python's own: by zero they raise.
__device__ __forceinline__ f64 divisor(Context& c, i32 site, f64 b) {
    if (b == 0) c.fail(site, BY_ZERO);
    return b;
}
__device__ inline f64 power_or_fail(Context& c, i32 site, f64 a, f64 b) {
    const f64 r = power(a, b);
    if (!is_finite(r) && is_finite(a) && is_finite(b)) c.fail(site, OUTSIDE);
    return r;
}
// A function of `math`, which raises outside of its domain and where its result is too large.
__device__ __forceinline__ f64 inside(Context& c, i32 site, f64 r, f64 a) {
    if (is_nan(r) ? !is_nan(a) : !is_finite(r) && is_finite(a)) c.fail(site, OUTSIDE);
    return r;
}
__device__ __forceinline__ f64 inside(Context& c, i32 site, f64 r, f64 a, f64 b) {
    if (is_nan(r) ? !is_nan(a) && !is_nan(b) : !is_finite(r) && is_finite(a) && is_finite(b)) c.fail(site, OUTSIDE);
    return r;
}
// The whole number that a float is without its fraction.
__device__ inline i64 truncated(Context& c, i32 site, f64 x) {
    if (!(x > -9223372036854775808.0 && x < 9223372036854775808.0)) {
        c.fail(site, NOT_WHOLE);
        return 0;
    }
    return (i64)x;
}

// Comparisons: with a missing number they are false, != is true. None is equal to None only, and has no order.
#define UDF_COMPARE(name, op, missing)                                                                              \
    __device__ __forceinline__ bool name(i64 a, i64 b) { return a op b; }                                           \
    __device__ __forceinline__ bool name(f64 a, f64 b) { return a op b; }                                           \
    __device__ __forceinline__ bool name(Missing<i64> a, Missing<i64> b) { return a.ok && b.ok ? a.v op b.v : missing; }
UDF_COMPARE(lt, <, false)
UDF_COMPARE(le, <=, false)
UDF_COMPARE(gt, >, false)
UDF_COMPARE(ge, >=, false)
UDF_COMPARE(eq, ==, false)
UDF_COMPARE(ne, !=, true)
#undef UDF_COMPARE
template <class T> __device__ __forceinline__ bool eq(Null<T> a, Null<T> b) { return a.ok && b.ok ? a.v == b.v : a.ok == b.ok; }
template <class T> __device__ __forceinline__ bool ne(Null<T> a, Null<T> b) { return !eq(a, b); }

// Results.
template <class T> struct Result { T v; bool ok; };
__device__ __forceinline__ Result<f64> result_f64(f64 x) { return {x, !is_nan(x)}; }
__device__ __forceinline__ Result<f64> result_f64(i64 x) { return {(f64)x, true}; }
__device__ __forceinline__ Result<f64> result_f64(bool x) { return {(f64)x, true}; }
template <class T> __device__ __forceinline__ Result<f64> result_f64(Missing<T> x) { return {(f64)x.v, x.ok}; }
template <class T> __device__ __forceinline__ Result<f64> result_f64(Null<T> x) { return {(f64)x.v, x.ok && x.v == x.v}; }
__device__ __forceinline__ Result<i64> result_i64(i64 x) { return {x, true}; }
__device__ __forceinline__ Result<i64> result_i64(bool x) { return {x, true}; }
template <class T> __device__ __forceinline__ Result<i64> result_i64(Missing<T> x) { return {(i64)x.v, x.ok}; }
template <class T> __device__ __forceinline__ Result<i64> result_i64(Null<T> x) { return {(i64)x.v, x.ok}; }
// Of 32 bits.
__device__ __forceinline__ Result<i64> narrow(Context& c, i32 site, Result<i64> x) {
    if (x.ok && x.v != (i32)x.v) c.fail(site, NO_RESULT);
    return x;
}

// The number of values that range(from, to, step) has.
__device__ inline i64 range_length(Context& c, i32 site, i64 from, i64 to, i64 step) {
    if (step == 0) c.fail(site, BY_ZERO);
    if (step == 0 || (step > 0 ? from >= to : from <= to)) return 0;
    const u64 distance = step > 0 ? (u64)to - (u64)from : (u64)from - (u64)to;
    const u64 stride = step > 0 ? (u64)step : 0 - (u64)step;
    const u64 count = (distance - 1) / stride + 1;
    return count > (u64)1 << 62 ? (i64)1 << 62 : (i64)count;
}

}  // namespace udf
