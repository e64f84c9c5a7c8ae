// Atomics: blocks run on several host threads, so these are the host's. An operation that changed nothing may be a lane
// that spins on another one, so it lets the other lanes run.

namespace warpmill_sim {

template <class T>
struct Atomic {
    static constexpr bool integer = false, floating = false, exchange = false;
};
#define WARPMILL_SIM_ATOMIC(T, is_integer, is_floating)                                                              \
    template <>                                                                                                      \
    struct Atomic<T> {                                                                                               \
        static constexpr bool integer = is_integer, floating = is_floating, exchange = true;                         \
    };
WARPMILL_SIM_ATOMIC(int, true, false)
WARPMILL_SIM_ATOMIC(unsigned, true, false)
WARPMILL_SIM_ATOMIC(long, true, false)
WARPMILL_SIM_ATOMIC(unsigned long, true, false)
WARPMILL_SIM_ATOMIC(long long, true, false)
WARPMILL_SIM_ATOMIC(unsigned long long, true, false)
WARPMILL_SIM_ATOMIC(unsigned short, false, false)
WARPMILL_SIM_ATOMIC(float, false, true)
WARPMILL_SIM_ATOMIC(double, false, true)

template <class T>
T compare_and_swap(T* address, T expected, T desired) {
    __atomic_compare_exchange(address, &expected, &desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

inline void spin() { context->spin(context); }

}  // namespace warpmill_sim

#define WARPMILL_SIM_VALUE(T) typename warpmill_sim::Identity<T>::Type

template <class T>
T atomicCAS(T* address, WARPMILL_SIM_VALUE(T) expected, WARPMILL_SIM_VALUE(T) desired) {
    static_assert(warpmill_sim::Atomic<T>::exchange && !warpmill_sim::Atomic<T>::floating, "no atomicCAS on this type");
    T old = warpmill_sim::compare_and_swap<T>(address, expected, desired);
    if (old != expected) warpmill_sim::spin();
    return old;
}

template <class T>
T atomicExch(T* address, WARPMILL_SIM_VALUE(T) value) {
    static_assert(warpmill_sim::Atomic<T>::exchange && sizeof(T) >= 4, "no atomicExch on this type");
    T old;
    __atomic_exchange(address, &value, &old, __ATOMIC_SEQ_CST);
    if (old == value) warpmill_sim::spin();
    return old;
}

template <class T>
T atomicAdd(T* address, WARPMILL_SIM_VALUE(T) value) {
    static_assert(warpmill_sim::Atomic<T>::integer || warpmill_sim::Atomic<T>::floating, "no atomicAdd on this type");
    T old;
    if constexpr (warpmill_sim::Atomic<T>::floating) {
        T seen;
        __atomic_load(address, &seen, __ATOMIC_RELAXED);
        T sum = seen + value;
        while (!__atomic_compare_exchange(address, &seen, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            sum = seen + value;
        old = seen;
    } else {
        old = __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
    }
    if (value == 0) warpmill_sim::spin();
    return old;
}

template <class T>
T atomicSub(T* address, WARPMILL_SIM_VALUE(T) value) {
    static_assert(warpmill_sim::Atomic<T>::integer, "no atomicSub on this type");
    return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);
}

#define WARPMILL_SIM_BITWISE(name, builtin, identity)                                                                \
    template <class T>                                                                                               \
    T name(T* address, WARPMILL_SIM_VALUE(T) value) {                                                                \
        static_assert(warpmill_sim::Atomic<T>::integer, "no " #name " on this type");                                \
        T old = builtin(address, value, __ATOMIC_SEQ_CST);                                                           \
        if (value == static_cast<T>(identity)) warpmill_sim::spin();                                                 \
        return old;                                                                                                  \
    }
WARPMILL_SIM_BITWISE(atomicOr, __atomic_fetch_or, 0)
WARPMILL_SIM_BITWISE(atomicXor, __atomic_fetch_xor, 0)
WARPMILL_SIM_BITWISE(atomicAnd, __atomic_fetch_and, -1)

#define WARPMILL_SIM_EXTREME(name, better)                                                                           \
    template <class T>                                                                                               \
    T name(T* address, WARPMILL_SIM_VALUE(T) value) {                                                                \
        static_assert(warpmill_sim::Atomic<T>::integer, "no " #name " on this type");                                \
        T seen = __atomic_load_n(address, __ATOMIC_RELAXED);                                                         \
        while (value better seen &&                                                                                  \
               !__atomic_compare_exchange(address, &seen, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {      \
        }                                                                                                            \
        return seen;                                                                                                 \
    }
WARPMILL_SIM_EXTREME(atomicMin, <)
WARPMILL_SIM_EXTREME(atomicMax, >)

#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd
#define atomicCAS_block atomicCAS
#define atomicCAS_system atomicCAS
#define atomicExch_block atomicExch
#define atomicExch_system atomicExch
#define atomicMin_block atomicMin
#define atomicMax_block atomicMax
#define atomicOr_block atomicOr
#define atomicAnd_block atomicAnd
