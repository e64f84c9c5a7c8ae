// Barriers and warp collectives. The default argument `line` is the caller's line, for messages.

#define WARPMILL_SIM_LINE int line = __builtin_LINE()

namespace warpmill_sim {

inline u64 collective(Kind kind, u32 mask, u64 value, int line, u32 argument = 0) {
    return context->collective(context, kind, mask, value, argument, line);
}

inline u32 lane() { return context->thread.x & 31; }

// The source lanes of shuffles within segments of `width` lanes; a source outside the segment is the lane itself.
inline u32 source_index(int source, int width) {
    return (lane() & ~(width - 1)) | (static_cast<u32>(source) & (width - 1));
}
inline u32 source_up(u32 delta, int width) {
    u32 inside = lane() & (width - 1);
    return inside >= delta ? lane() - delta : lane();
}
inline u32 source_down(u32 delta, int width) {
    u32 inside = lane() & (width - 1);
    return delta < static_cast<u32>(width) - inside ? lane() + delta : lane();
}
inline u32 source_xor(int bits, int width) {
    // A partner in a later segment is out of reach, in an earlier one it is not: as on the device.
    u32 partner = lane() ^ static_cast<u32>(bits);
    return partner < (lane() & ~(width - 1)) + width ? partner & 31 : lane();
}

template <class T>
u64 to_bits(T value) {
    u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
T from_bits(u64 bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace warpmill_sim

inline void __syncthreads(WARPMILL_SIM_LINE) {
    warpmill_sim::context->barrier(warpmill_sim::context, warpmill_sim::SYNCTHREADS, 0, line);
}
inline int __syncthreads_count(int predicate, WARPMILL_SIM_LINE) {
    return warpmill_sim::context->barrier(
        warpmill_sim::context, warpmill_sim::SYNCTHREADS_COUNT, predicate != 0, line);
}
inline int __syncthreads_and(int predicate, WARPMILL_SIM_LINE) {
    return warpmill_sim::context->barrier(warpmill_sim::context, warpmill_sim::SYNCTHREADS_AND, predicate != 0, line);
}
inline int __syncthreads_or(int predicate, WARPMILL_SIM_LINE) {
    return warpmill_sim::context->barrier(warpmill_sim::context, warpmill_sim::SYNCTHREADS_OR, predicate != 0, line);
}

inline void __syncwarp(u32 mask = 0xffffffffu, WARPMILL_SIM_LINE) {
    warpmill_sim::collective(warpmill_sim::SYNCWARP, mask, 0, line);
}
inline u32 __ballot_sync(u32 mask, int predicate, WARPMILL_SIM_LINE) {
    return static_cast<u32>(warpmill_sim::collective(warpmill_sim::BALLOT, mask, predicate != 0, line));
}
inline int __any_sync(u32 mask, int predicate, WARPMILL_SIM_LINE) {
    return static_cast<int>(warpmill_sim::collective(warpmill_sim::ANY, mask, predicate != 0, line));
}
inline int __all_sync(u32 mask, int predicate, WARPMILL_SIM_LINE) {
    return static_cast<int>(warpmill_sim::collective(warpmill_sim::ALL, mask, predicate != 0, line));
}
// The lanes that call it at the same line while all others of the warp wait elsewhere or have exited.
inline u32 __activemask(WARPMILL_SIM_LINE) {
    return static_cast<u32>(warpmill_sim::collective(warpmill_sim::ACTIVEMASK, 0xffffffffu, 0, line));
}

#define lane_mask_lt() ((1u << ::warpmill_sim::lane()) - 1u)

// Overloads, not templates: narrower integers promote to int, as on the device.
#define WARPMILL_SIM_SHUFFLES(T)                                                                                     \
    inline T __shfl_sync(u32 mask, T value, int source, int width = 32, WARPMILL_SIM_LINE) {                         \
        return warpmill_sim::from_bits<T>(warpmill_sim::collective(warpmill_sim::SHUFFLE, mask,                      \
            warpmill_sim::to_bits(value), line, warpmill_sim::source_index(source, width)));                         \
    }                                                                                                                \
    inline T __shfl_up_sync(u32 mask, T value, u32 delta, int width = 32, WARPMILL_SIM_LINE) {                       \
        return warpmill_sim::from_bits<T>(warpmill_sim::collective(warpmill_sim::SHUFFLE, mask,                      \
            warpmill_sim::to_bits(value), line, warpmill_sim::source_up(delta, width)));                             \
    }                                                                                                                \
    inline T __shfl_down_sync(u32 mask, T value, u32 delta, int width = 32, WARPMILL_SIM_LINE) {                     \
        return warpmill_sim::from_bits<T>(warpmill_sim::collective(warpmill_sim::SHUFFLE, mask,                      \
            warpmill_sim::to_bits(value), line, warpmill_sim::source_down(delta, width)));                           \
    }                                                                                                                \
    inline T __shfl_xor_sync(u32 mask, T value, int bits, int width = 32, WARPMILL_SIM_LINE) {                       \
        return warpmill_sim::from_bits<T>(warpmill_sim::collective(warpmill_sim::SHUFFLE, mask,                      \
            warpmill_sim::to_bits(value), line, warpmill_sim::source_xor(bits, width)));                             \
    }
WARPMILL_SIM_SHUFFLES(int)
WARPMILL_SIM_SHUFFLES(unsigned)
WARPMILL_SIM_SHUFFLES(long)
WARPMILL_SIM_SHUFFLES(unsigned long)
WARPMILL_SIM_SHUFFLES(long long)
WARPMILL_SIM_SHUFFLES(unsigned long long)
WARPMILL_SIM_SHUFFLES(float)
WARPMILL_SIM_SHUFFLES(double)

#define WARPMILL_SIM_MATCHES(T)                                                                                      \
    inline u32 __match_any_sync(u32 mask, T value, WARPMILL_SIM_LINE) {                                              \
        return static_cast<u32>(                                                                                     \
            warpmill_sim::collective(warpmill_sim::MATCH_ANY, mask, warpmill_sim::to_bits(value), line));            \
    }                                                                                                                \
    inline u32 __match_all_sync(u32 mask, T value, int* all, WARPMILL_SIM_LINE) {                                    \
        u32 same = static_cast<u32>(                                                                                 \
            warpmill_sim::collective(warpmill_sim::MATCH_ALL, mask, warpmill_sim::to_bits(value), line));            \
        *all = same != 0;                                                                                            \
        return same;                                                                                                 \
    }
WARPMILL_SIM_MATCHES(int)
WARPMILL_SIM_MATCHES(unsigned)
WARPMILL_SIM_MATCHES(long)
WARPMILL_SIM_MATCHES(unsigned long)
WARPMILL_SIM_MATCHES(long long)
WARPMILL_SIM_MATCHES(unsigned long long)
WARPMILL_SIM_MATCHES(float)
WARPMILL_SIM_MATCHES(double)

// Signed values travel sign-extended.
#define WARPMILL_SIM_REDUCE(name, T, kind)                                                                           \
    inline T name(u32 mask, T value, WARPMILL_SIM_LINE) {                                                            \
        return static_cast<T>(                                                                                       \
            warpmill_sim::collective(warpmill_sim::kind, mask, static_cast<u64>(static_cast<i64>(value)), line));    \
    }
WARPMILL_SIM_REDUCE(__reduce_add_sync, unsigned, REDUCE_ADD)
WARPMILL_SIM_REDUCE(__reduce_add_sync, int, REDUCE_ADD)
WARPMILL_SIM_REDUCE(__reduce_min_sync, unsigned, REDUCE_MIN_UNSIGNED)
WARPMILL_SIM_REDUCE(__reduce_min_sync, int, REDUCE_MIN_SIGNED)
WARPMILL_SIM_REDUCE(__reduce_max_sync, unsigned, REDUCE_MAX_UNSIGNED)
WARPMILL_SIM_REDUCE(__reduce_max_sync, int, REDUCE_MAX_SIGNED)
WARPMILL_SIM_REDUCE(__reduce_and_sync, unsigned, REDUCE_AND)
WARPMILL_SIM_REDUCE(__reduce_or_sync, unsigned, REDUCE_OR)
WARPMILL_SIM_REDUCE(__reduce_xor_sync, unsigned, REDUCE_XOR)

inline void __trap(WARPMILL_SIM_LINE) { warpmill_sim::context->trap(warpmill_sim::context, line); }
inline void __nanosleep(u32) { warpmill_sim::context->spin(warpmill_sim::context); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline long long clock64() { return static_cast<long long>(warpmill_sim::context->clock()); }
inline unsigned long long globaltimer() { return warpmill_sim::context->clock(); }
