// Integer, bit-cast, cache-hint and mathematical functions that CUDA declares without a header.

inline int __popc(u32 x) { return __builtin_popcount(x); }
inline int __popcll(u64 x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(i64 x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<u32>(x)) : 32; }
inline int __clzll(i64 x) { return x ? __builtin_clzll(static_cast<u64>(x)) : 64; }

inline u32 __brev(u32 x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
inline u64 __brevll(u64 x) { return static_cast<u64>(__brev(static_cast<u32>(x))) << 32 | __brev(x >> 32); }

inline u32 __funnelshift_l(u32 low, u32 high, u32 shift) {
    return static_cast<u32>((static_cast<u64>(high) << 32 | low) << (shift & 31) >> 32);
}
inline u32 __funnelshift_r(u32 low, u32 high, u32 shift) {
    return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> (shift & 31));
}
inline u32 __funnelshift_lc(u32 low, u32 high, u32 shift) {
    return static_cast<u32>((static_cast<u64>(high) << 32 | low) << (shift < 32 ? shift : 32) >> 32);
}
inline u32 __funnelshift_rc(u32 low, u32 high, u32 shift) {
    return static_cast<u32>((static_cast<u64>(high) << 32 | low) >> (shift < 32 ? shift : 32));
}

// Each nibble of `selector` picks a byte of y:x; its top bit replicates that byte's sign instead.
inline u32 __byte_perm(u32 x, u32 y, u32 selector) {
    u64 bytes = static_cast<u64>(y) << 32 | x;
    u32 result = 0;
    for (int i = 0; i < 4; i++) {
        u32 nibble = selector >> (4 * i) & 15;
        u32 byte = bytes >> (8 * (nibble & 7)) & 255;
        if (nibble & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}

inline u32 __umulhi(u32 x, u32 y) { return static_cast<u32>(static_cast<u64>(x) * y >> 32); }
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<i64>(x) * y >> 32); }
inline u64 __umul64hi(u64 x, u64 y) { return static_cast<u64>(static_cast<u128>(x) * y >> 64); }
inline i64 __mul64hi(i64 x, i64 y) { return static_cast<i64>(static_cast<i128>(x) * y >> 64); }
inline u32 __umul24(u32 x, u32 y) { return (x & 0xffffffu) * (y & 0xffffffu); }

#define WARPMILL_SIM_LOAD(name)                                                                                      \
    template <class T>                                                                                               \
    T name(const T* address) {                                                                                       \
        return *address;                                                                                             \
    }
WARPMILL_SIM_LOAD(__ldg)
WARPMILL_SIM_LOAD(__ldca)
WARPMILL_SIM_LOAD(__ldcg)
WARPMILL_SIM_LOAD(__ldcs)
WARPMILL_SIM_LOAD(__ldlu)
template <class T>
T __ldcv(const T* address) {
    return *static_cast<const volatile T*>(address);
}
#define WARPMILL_SIM_STORE(name)                                                                                     \
    template <class T>                                                                                               \
    void name(T* address, WARPMILL_SIM_VALUE(T) value) {                                                             \
        *address = value;                                                                                            \
    }
WARPMILL_SIM_STORE(__stwb)
WARPMILL_SIM_STORE(__stcg)
WARPMILL_SIM_STORE(__stcs)
WARPMILL_SIM_STORE(__stwt)

inline int __float_as_int(float x) { return warpmill_sim::from_bits<int>(warpmill_sim::to_bits(x)); }
inline u32 __float_as_uint(float x) { return warpmill_sim::from_bits<u32>(warpmill_sim::to_bits(x)); }
inline float __int_as_float(int x) { return warpmill_sim::from_bits<float>(warpmill_sim::to_bits(x)); }
inline float __uint_as_float(u32 x) { return warpmill_sim::from_bits<float>(warpmill_sim::to_bits(x)); }
inline i64 __double_as_longlong(double x) { return warpmill_sim::from_bits<i64>(warpmill_sim::to_bits(x)); }
inline double __longlong_as_double(i64 x) { return warpmill_sim::from_bits<double>(warpmill_sim::to_bits(x)); }

// A fixed rounding keeps the device's compiler from contracting; the host's is told not to contract at all.
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __ll2double_rn(i64 x) { return static_cast<double>(x); }
inline double __ull2double_rn(u64 x) { return static_cast<double>(x); }

#define WARPMILL_SIM_MATH1(name)                                                                                     \
    extern "C" double name(double);                                                                                  \
    extern "C" float name##f(float);                                                                                 \
    inline float name(float x) { return name##f(x); }
WARPMILL_SIM_MATH1(sqrt)
WARPMILL_SIM_MATH1(cbrt)
WARPMILL_SIM_MATH1(fabs)
WARPMILL_SIM_MATH1(floor)
WARPMILL_SIM_MATH1(ceil)
WARPMILL_SIM_MATH1(trunc)
WARPMILL_SIM_MATH1(round)
WARPMILL_SIM_MATH1(rint)
WARPMILL_SIM_MATH1(nearbyint)
WARPMILL_SIM_MATH1(exp)
WARPMILL_SIM_MATH1(exp2)
WARPMILL_SIM_MATH1(expm1)
WARPMILL_SIM_MATH1(log)
WARPMILL_SIM_MATH1(log2)
WARPMILL_SIM_MATH1(log10)
WARPMILL_SIM_MATH1(log1p)
WARPMILL_SIM_MATH1(sin)
WARPMILL_SIM_MATH1(cos)
WARPMILL_SIM_MATH1(tan)
WARPMILL_SIM_MATH1(asin)
WARPMILL_SIM_MATH1(acos)
WARPMILL_SIM_MATH1(atan)
WARPMILL_SIM_MATH1(sinh)
WARPMILL_SIM_MATH1(cosh)
WARPMILL_SIM_MATH1(tanh)
#define WARPMILL_SIM_MATH2(name)                                                                                     \
    extern "C" double name(double, double);                                                                          \
    extern "C" float name##f(float, float);                                                                          \
    inline float name(float x, float y) { return name##f(x, y); }                                                    \
    inline double name(float x, double y) { return name(static_cast<double>(x), y); }                                \
    inline double name(double x, float y) { return name(x, static_cast<double>(y)); }
WARPMILL_SIM_MATH2(pow)
WARPMILL_SIM_MATH2(fmod)
WARPMILL_SIM_MATH2(fmin)
WARPMILL_SIM_MATH2(fmax)
WARPMILL_SIM_MATH2(atan2)
WARPMILL_SIM_MATH2(hypot)
WARPMILL_SIM_MATH2(copysign)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x) != 0; }
inline bool isinf(double x) { return __builtin_isinf(x) != 0; }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbit(x) != 0; }
inline bool signbit(double x) { return __builtin_signbit(x) != 0; }

extern "C" int abs(int);
extern "C" long labs(long);
extern "C" long long llabs(long long);
inline long abs(long x) { return labs(x); }
inline long long abs(long long x) { return llabs(x); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

#define WARPMILL_SIM_MINMAX(R, A, B)                                                                                 \
    inline R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    inline R max(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); }
WARPMILL_SIM_MINMAX(int, int, int)
WARPMILL_SIM_MINMAX(unsigned, unsigned, unsigned)
WARPMILL_SIM_MINMAX(unsigned, int, unsigned)
WARPMILL_SIM_MINMAX(unsigned, unsigned, int)
WARPMILL_SIM_MINMAX(long, long, long)
WARPMILL_SIM_MINMAX(unsigned long, unsigned long, unsigned long)
WARPMILL_SIM_MINMAX(long long, long long, long long)
WARPMILL_SIM_MINMAX(unsigned long long, unsigned long long, unsigned long long)
WARPMILL_SIM_MINMAX(unsigned long long, long long, unsigned long long)
WARPMILL_SIM_MINMAX(unsigned long long, unsigned long long, long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
