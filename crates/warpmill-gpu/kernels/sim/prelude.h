// CUDA C++ for the host's compiler: keywords, types, thread indices. Includes no header, to keep compilation fast.

#define WARPMILL_SIM 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
// One host thread runs one block at a time, so that a thread-local is a block-local.
#define __shared__ static thread_local
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#if !defined(__clang__)
#define __builtin_assume(condition) ((void)0)
#endif

// The block's dynamic shared memory as `type* name`. On CUDA: `extern __shared__ __align__(16) unsigned char ...`.
#define DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(::warpmill_sim::context->dynamic_shared)

using size_t = decltype(sizeof(0));
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using u128 = unsigned __int128;
using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using i128 = __int128;

namespace warpmill_sim {

static thread_local Context* context;

// A parameter type that takes part in no deduction: `atomicAdd(u64*, 1)` converts its second argument.
template <class T>
struct Identity {
    using Type = T;
};

template <class P>
void run(void (*kernel)(P), const void* parameters) {
    static_assert(__is_trivially_copyable(P), "a kernel's parameter is a plain struct");
    kernel(*static_cast<const P*>(parameters));
}

template <class P>
unsigned parameter_bytes(void (*)(P)) {
    return sizeof(P);
}

}  // namespace warpmill_sim

#define WARPMILL_SIM_EXPORT extern "C" __attribute__((visibility("default")))

// Makes `context` the block of the calling host thread. Answers where the thread-local lies.
WARPMILL_SIM_EXPORT void* warpmill_sim_bind(warpmill_sim::Context* context) {
    warpmill_sim::context = context;
    return &warpmill_sim::context;
}

// What the simulated device calls for an entry point.
#define WARPMILL_SIM_ENTRY(name)                                                                                     \
    WARPMILL_SIM_EXPORT void warpmill_sim_run_##name(const void* parameters) {                                       \
        warpmill_sim::run(name, parameters);                                                                         \
    }                                                                                                                \
    WARPMILL_SIM_EXPORT unsigned warpmill_sim_size_##name() { return warpmill_sim::parameter_bytes(name); }

#define threadIdx (::warpmill_sim::context->thread)
#define blockIdx (::warpmill_sim::context->block)
#define blockDim (::warpmill_sim::context->block_dim)
#define gridDim (::warpmill_sim::context->grid_dim)
static const int warpSize = 32;

// Vector types, as aligned as on the device.
#define WARPMILL_SIM_VECTOR2(scalar, prefix)                                                                         \
    struct __attribute__((aligned(2 * sizeof(scalar)))) prefix##2 {                                                  \
        scalar x, y;                                                                                                 \
    };                                                                                                               \
    inline prefix##2 make_##prefix##2(scalar x, scalar y) { return {x, y}; }
#define WARPMILL_SIM_VECTOR3(scalar, prefix)                                                                         \
    struct prefix##3 {                                                                                               \
        scalar x, y, z;                                                                                              \
    };                                                                                                               \
    inline prefix##3 make_##prefix##3(scalar x, scalar y, scalar z) { return {x, y, z}; }
#define WARPMILL_SIM_VECTOR4(scalar, prefix)                                                                         \
    struct __attribute__((aligned(sizeof(scalar) * 4 < 16 ? sizeof(scalar) * 4 : 16))) prefix##4 {                   \
        scalar x, y, z, w;                                                                                           \
    };                                                                                                               \
    inline prefix##4 make_##prefix##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }
#define WARPMILL_SIM_VECTORS(scalar, prefix)                                                                         \
    WARPMILL_SIM_VECTOR2(scalar, prefix)                                                                             \
    WARPMILL_SIM_VECTOR3(scalar, prefix)                                                                             \
    WARPMILL_SIM_VECTOR4(scalar, prefix)
WARPMILL_SIM_VECTORS(signed char, char)
WARPMILL_SIM_VECTORS(unsigned char, uchar)
WARPMILL_SIM_VECTORS(short, short)
WARPMILL_SIM_VECTORS(unsigned short, ushort)
WARPMILL_SIM_VECTORS(int, int)
WARPMILL_SIM_VECTORS(unsigned, uint)
WARPMILL_SIM_VECTORS(float, float)
WARPMILL_SIM_VECTORS(double, double)
WARPMILL_SIM_VECTORS(long long, longlong)
WARPMILL_SIM_VECTORS(unsigned long long, ulonglong)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern "C" {
void* memcpy(void*, const void*, size_t);
void* memmove(void*, const void*, size_t);
void* memset(void*, int, size_t);
int memcmp(const void*, const void*, size_t);
int printf(const char*, ...);
}
