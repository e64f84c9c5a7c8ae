// Columns of a group in translated Python functions: values of each row, and reductions by the threads that a group has. Needs
// `udf/value.cuh`.

namespace udf {

// The value of a row; what is not `ok` is NULL.
template <class T> struct Row { T v; bool ok; };

// All rows count.
struct All {
    __device__ __forceinline__ bool operator()(i64, Context&) const { return true; }
};

template <class T> __device__ __forceinline__ Row<T> each(T x) { return {x, true}; }
__device__ __forceinline__ Row<f64> exact(Context& c, i32 site, Row<i64> x) { return {x.ok ? exact(c, site, x.v) : 0.0, x.ok}; }
__device__ __forceinline__ Row<f64> rounded(Row<i64> x) { return {(f64)x.v, x.ok}; }
__device__ __forceinline__ Row<i64> whole(Row<bool> x) { return {(i64)x.v, x.ok}; }
__device__ __forceinline__ bool missing(Row<f64> x) { return !x.ok || is_nan(x.v); }
__device__ __forceinline__ bool missing(Row<i64> x) { return !x.ok; }
__device__ __forceinline__ bool missing(Row<bool> x) { return !x.ok; }
__device__ __forceinline__ Null<f64> item(Row<f64> x) { return {x.v, x.ok}; }
__device__ __forceinline__ Null<i64> item(Row<i64> x) { return {x.v, x.ok}; }
__device__ __forceinline__ Null<bool> item(Row<bool> x) { return {x.v, x.ok}; }
// As numpy has it: NULL is NaN.
__device__ __forceinline__ f64 number(Row<f64> x) { return x.ok ? x.v : not_a_number(); }
// The condition that a row satisfies.
__device__ __forceinline__ bool holds(Row<bool> x) { return x.ok && x.v; }

// Arithmetic of rows: of what is NULL nothing is computed.
#define UDF_OF_ROWS(name)                                                                                           \
    template <class T> __device__ __forceinline__ Row<T> name(Context& c, i32 site, Row<T> a, Row<T> b) {           \
        const bool ok = a.ok && b.ok;                                                                               \
        return {ok ? name(c, site, a.v, b.v) : T(), ok};                                                            \
    }
UDF_OF_ROWS(add)
UDF_OF_ROWS(sub)
UDF_OF_ROWS(mul)
#undef UDF_OF_ROWS
template <class T> __device__ __forceinline__ Row<T> neg(Context& c, i32 site, Row<T> a) { return {a.ok ? neg(c, site, a.v) : T(), a.ok}; }
template <class T> __device__ __forceinline__ Row<T> absolute(Context& c, i32 site, Row<T> a) {
    return {a.ok ? absolute(c, site, a.v) : T(), a.ok};
}
__device__ __forceinline__ Row<f64> divide(Row<f64> a, Row<f64> b) { return {divide(a.v, b.v), a.ok && b.ok}; }
__device__ __forceinline__ Row<f64> floordiv(Row<f64> a, Row<f64> b) { return {floordiv(a.v, b.v), a.ok && b.ok}; }
__device__ __forceinline__ Row<f64> mod(Row<f64> a, Row<f64> b) { return {mod(a.v, b.v), a.ok && b.ok}; }
__device__ __forceinline__ Row<f64> power(Row<f64> a, Row<f64> b) { return {power(a.v, b.v), a.ok && b.ok}; }
__device__ __forceinline__ Row<i64> power(Context& c, i32 site, Row<i64> a, i64 exponent) {
    return {a.ok ? power(c, site, a.v, exponent) : 0, a.ok};
}
__device__ __forceinline__ Row<i64> floordiv(Context& c, i32 site, Row<i64> a, Row<i64> b) {
    const bool ok = a.ok && b.ok && b.v != 0;
    return {ok ? floor_quotient(c, site, a.v, b.v) : 0, ok};
}
__device__ __forceinline__ Row<i64> mod(Row<i64> a, Row<i64> b) {
    const bool ok = a.ok && b.ok && b.v != 0;
    return {ok ? floor_remainder(a.v, b.v) : 0, ok};
}
#define UDF_COMPARE_ROWS(name, op, missing)                                                                         \
    template <class T> __device__ __forceinline__ Row<bool> name(Row<T> a, Row<T> b) {                              \
        return {a.ok && b.ok ? a.v op b.v : missing, true};                                                         \
    }
UDF_COMPARE_ROWS(lt, <, false)
UDF_COMPARE_ROWS(le, <=, false)
UDF_COMPARE_ROWS(gt, >, false)
UDF_COMPARE_ROWS(ge, >=, false)
UDF_COMPARE_ROWS(eq, ==, false)
UDF_COMPARE_ROWS(ne, !=, true)
#undef UDF_COMPARE_ROWS
__device__ __forceinline__ Row<bool> both(Row<bool> a, Row<bool> b) { return {holds(a) && holds(b), true}; }
__device__ __forceinline__ Row<bool> either(Row<bool> a, Row<bool> b) { return {holds(a) || holds(b), true}; }
__device__ __forceinline__ Row<bool> negated(Row<bool> a) { return {!holds(a), true}; }
template <class T> __device__ __forceinline__ Row<bool> is_missing(Row<T> a) { return {missing(a), true}; }
template <class T> __device__ __forceinline__ Row<T> filled(Row<T> a, T with) { return {missing(a) ? with : a.v, true}; }
// numpy's choice, whose operands it has as arrays: a whole number that is NULL makes floats of all.
__device__ __forceinline__ Row<f64> chosen(Context&, i32, Row<bool> test, Row<f64> a, Row<f64> b) {
    return {holds(test) ? number(a) : number(b), true};
}
__device__ __forceinline__ Row<i64> chosen(Context& c, i32 site, Row<bool> test, Row<i64> a, Row<i64> b) {
    if (!a.ok || !b.ok) c.fail(site, IS_NULL);
    return {holds(test) ? a.v : b.v, true};
}

// A sum of whole numbers, exactly.
struct Wide {
    u64 low;
    i64 high;
    __device__ __forceinline__ Wide with(Wide other) const {
        const u64 sum = low + other.low;
        return {sum, high + other.high + (sum < low)};
    }
    __device__ __forceinline__ Wide with(i64 x) const { return with(Wide{(u64)x, x < 0 ? -1 : 0}); }
};

// The best value so far, and its position.
template <class T> struct Best { T v; i64 at; };

// One thread for each group.
struct OneThread {
    __device__ __forceinline__ i64 first() const { return 0; }
    __device__ __forceinline__ i64 step() const { return 1; }
    // Combines the threads' values; all of them get the same bits.
    template <class T, class O> __device__ __forceinline__ T all(T a, O) const { return a; }
};

#if defined(__CUDACC_RTC__) || defined(WARPMILL_SIM)
template <class T> __device__ inline T from_lane(T a, i32 lane) {
    static_assert(sizeof(T) % 4 == 0, "whole words");
    u32 words[sizeof(T) / 4];
    memcpy(words, &a, sizeof(T));
    for (u32 at = 0; at < sizeof(T) / 4; at++) words[at] = __shfl_sync(~0u, words[at], lane);
    memcpy(&a, words, sizeof(T));
    return a;
}
template <class T, class O> __device__ inline T of_warp(T a, O combine) {
    const i32 lane = threadIdx.x & 31;
    for (i32 distance = 16; distance; distance >>= 1) {
        const T other = from_lane(a, lane ^ distance);
        a = combine(a, other);
    }
    // The least of some values may be another one in each lane, where they are equal but not alike.
    return from_lane(a, 0);
}

// A warp for each group: its lanes run the function alike, and share the rows of reductions.
struct OneWarp {
    __device__ __forceinline__ i64 first() const { return threadIdx.x & 31; }
    __device__ __forceinline__ i64 step() const { return 32; }
    template <class T, class O> __device__ __forceinline__ T all(T a, O combine) const { return of_warp(a, combine); }
};

// A block for each group.
struct OneBlock {
    __device__ __forceinline__ i64 first() const { return threadIdx.x; }
    __device__ __forceinline__ i64 step() const { return blockDim.x; }
    template <class T, class O> __device__ T all(T a, O combine) const {
        __shared__ T parts[32];
        a = of_warp(a, combine);
        __syncthreads();
        if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = a;
        __syncthreads();
        a = parts[0];
        for (u32 warp = 1; warp < blockDim.x >> 5; warp++) a = combine(a, parts[warp]);
        return a;
    }
};
#endif

// Reductions of a group's rows. `f` gives the value of a row, `m` says which rows count; the result is the same in all threads.
template <class P> struct Reductions {
    P p;
    i64 n;

    // Visits the rows; a failure of one thread is one of all.
    template <class F, class M, class V> __device__ __forceinline__ void visit(Context& c, F f, M m, V with) const {
        for (i64 i = p.first(); i < n; i += p.step()) {
            if (m(i, c)) {
                const auto row = f(i, c);
                if (!missing(row)) with(row.v, i);
            }
        }
        c.status = p.all(c.status, [](i32 a, i32 b) { return a > b ? a : b; });
        c.went_through(n / p.step());
    }
    template <class M> __device__ i64 size(Context& c, M m) const {
        i64 a = 0;
        for (i64 i = p.first(); i < n; i += p.step()) a += m(i, c);
        c.status = p.all(c.status, [](i32 x, i32 y) { return x > y ? x : y; });
        return p.all(a, [](i64 x, i64 y) { return x + y; });
    }
    __device__ __forceinline__ i64 size(Context&, All) const { return n; }
    template <class F, class M> __device__ i64 count(Context& c, F f, M m) const {
        i64 a = 0;
        visit(c, f, m, [&](auto, i64) { a++; });
        return p.all(a, [](i64 x, i64 y) { return x + y; });
    }
    template <class F, class M> __device__ f64 sum_f64(Context& c, F f, M m) const {
        f64 a = 0;
        visit(c, f, m, [&](auto x, i64) { a = ::add(a, (f64)x); });
        return p.all(a, [](f64 x, f64 y) { return ::add(x, y); });
    }
    template <class F, class M> __device__ i64 sum_i64(Context& c, i32 site, F f, M m) const {
        Wide a = {0, 0};
        visit(c, f, m, [&](auto x, i64) { a = a.with((i64)x); });
        a = p.all(a, [](Wide x, Wide y) { return x.with(y); });
        if (a.high != ((i64)a.low < 0 ? -1 : 0)) c.fail(site, TOO_LARGE);
        return (i64)a.low;
    }
    template <class F, class M> __device__ f64 product_f64(Context& c, F f, M m) const {
        f64 a = 1;
        visit(c, f, m, [&](auto x, i64) { a = ::mul(a, (f64)x); });
        return p.all(a, [](f64 x, f64 y) { return ::mul(x, y); });
    }
    // In the order of the rows: whether it fails does not depend on the threads.
    template <class F, class M> __device__ i64 product_i64(Context& c, i32 site, F f, M m) const {
        i64 a = 1;
        for (i64 i = 0; i < n; i++) {
            if (!m(i, c)) continue;
            const auto row = f(i, c);
            if (!missing(row)) a = mul(c, site, a, (i64)row.v);
        }
        return a;
    }
    template <class F, class M> __device__ f64 mean(Context& c, F f, M m) const {
        i64 rows;
        return moment(c, f, m, rows);
    }
    template <class F, class M> __device__ f64 moment(Context& c, F f, M m, i64& rows) const {
        f64 a = 0;
        i64 count = 0;
        visit(c, f, m, [&](auto x, i64) {
            a = ::add(a, (f64)x);
            count++;
        });
        rows = p.all(count, [](i64 x, i64 y) { return x + y; });
        a = p.all(a, [](f64 x, f64 y) { return ::add(x, y); });
        return rows == 0 ? not_a_number() : a / (f64)rows;
    }
    template <class F, class M> __device__ f64 var(Context& c, F f, M m, i64 ddof) const {
        i64 rows;
        const f64 center = moment(c, f, m, rows);
        if (rows <= ddof) return not_a_number();
        f64 a = 0;
        visit(c, f, m, [&](auto x, i64) {
            const f64 d = ::sub((f64)x, center);
            a = ::add(a, ::mul(d, d));
        });
        return p.all(a, [](f64 x, f64 y) { return ::add(x, y); }) / (f64)(rows - ddof);
    }
    template <class F, class M> __device__ f64 std(Context& c, F f, M m, i64 ddof) const { return sqrt(var(c, f, m, ddof)); }

    // The best row, the first of equal ones; `at` is -1 where there is none.
    template <class T, class F, class M, class B> __device__ Best<T> best(Context& c, F f, M m, B better) const {
        Best<T> a = {T(), -1};
        visit(c, f, m, [&](auto x, i64 i) {
            if (a.at < 0 || better((T)x, a.v)) a = {(T)x, i};
        });
        return p.all(a, [&](Best<T> x, Best<T> y) {
            if (x.at < 0 || y.at < 0) return x.at < 0 ? y : x;
            if (better(y.v, x.v)) return y;
            return better(x.v, y.v) || x.at < y.at ? x : y;
        });
    }
    template <class T, class F, class M> __device__ Best<T> least(Context& c, F f, M m) const {
        return best<T>(c, f, m, [](T x, T y) { return x < y; });
    }
    template <class T, class F, class M> __device__ Best<T> greatest(Context& c, F f, M m) const {
        return best<T>(c, f, m, [](T x, T y) { return x > y; });
    }
    template <class F, class M> __device__ bool any(Context& c, F f, M m) const {
        i32 a = 0;
        visit(c, f, m, [&](auto x, i64) { a |= x != 0; });
        return p.all(a, [](i32 x, i32 y) { return x | y; }) != 0;
    }
    template <class F, class M> __device__ bool every(Context& c, F f, M m) const {
        i32 a = 0;
        visit(c, f, m, [&](auto x, i64) { a |= x == 0; });
        return p.all(a, [](i32 x, i32 y) { return x | y; }) == 0;
    }

    // The row of an index, which counts from the end where it is negative; the first row where there is none.
    __device__ __forceinline__ i64 row(Context& c, i32 site, i64 index) const {
        const i64 at = index < 0 ? index + n : index;
        if (at < 0 || at >= n) {
            c.fail(site, NO_SUCH_ROW);
            return -1;
        }
        return at;
    }
};

__device__ __forceinline__ f64 value_f64(Best<f64> x) { return x.at < 0 ? not_a_number() : x.v; }
template <class T> __device__ __forceinline__ Missing<T> value_of(Best<T> x) { return {x.v, x.at >= 0}; }
template <class T> __device__ __forceinline__ Missing<i64> position_of(Best<T> x) { return {x.at, x.at >= 0}; }
// The value at a row that may not be there.
template <class T, class F> __device__ __forceinline__ Row<T> at(Context& c, i64 row, F f) {
    if (row < 0) return {T(), true};
    return f(row, c);
}

// The arguments of a run of groups.
struct Launch {
    const void* const* values;   // of each column: f64, i64, or u8 for truth values
    const u8* const* present;    // of each column: 1 where it is not NULL; null where no row is
    const i64* offsets;          // the rows of group g are offsets[g] to offsets[g + 1]
    const i64* whole;            // constants
    const f64* floats;
    void* results;               // f64 or i64 for each group
    u8* known;                   // 0 where the result is NULL
    i32* status;                 // 0, or why there is no result
    const i32* cancelled;
    i64 groups;
};

}  // namespace udf
