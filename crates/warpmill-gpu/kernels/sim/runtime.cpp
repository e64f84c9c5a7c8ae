// Runs thread blocks as cooperative fibers. Compiled once; kernels reach it through `Context`.
//
// A lane runs until it waits at a collective, then the next lane of its warp that can run takes over; the lane that
// completes a collective computes the results of all and runs on. When no lane of the block can run and some have not
// exited, the block is deadlocked: the launch stops with a message that says where each thread waits.

#include <atomic>
#include <link.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace warpmill_sim {

static const char* const KIND_NAMES[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and",
    "__syncthreads_or", "__syncwarp", "__activemask", "__ballot_sync", "__any_sync", "__all_sync", "__shfl_sync",
    "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync"};

constexpr unsigned MAX_THREADS = 1024;
constexpr uint8_t SHARED_POISON = 0xa5;
// Result of a shuffle that reads from an inactive lane.
constexpr uint64_t SHUFFLE_POISON = 0xa5a5a5a5a5a5a5a5ull;

// One launch, shared by the host threads that run its blocks. Mirrored in Rust (`runtime::RawLaunch`).
struct Launch {
    void (*run)(const void* parameters);
    void* (*bind)(Context*);
    const void* parameters;
    // The module's thread-local memory: its bytes before what `bind` answers, and in all.
    uint64_t shared_before, shared_bytes;
    uint32_t blocks, threads, dynamic_shared, reverse;
    // A block whose lanes do nothing but spin for this long is taken for hung.
    uint32_t spin_seconds;
    std::atomic<uint32_t> next_block, stop;
};

struct Lane {
    void* stack_pointer;
    uint64_t value, result;
    uint32_t kind, mask, argument;
    int32_t line;
};

struct Warp {
    uint32_t runnable, waiting, at_barrier, exited;
};

struct Block : Context {
    const Launch* launch;
    unsigned threads, warps, current, live, arrived;
    uint32_t barrier_kind;
    int32_t barrier_line;
    uint64_t spins;
    time_t spins_since;
    bool defect;
    char* message;
    size_t message_bytes;
    void* host_stack_pointer;
    const void* host_stack_bottom;
    size_t host_stack_bytes;
    Warp warp[MAX_THREADS / 32];
    Lane lane[MAX_THREADS];
    Stacks stacks;
    Block* next_free;
};

// The block that the calling host thread runs.
static thread_local Block* active;

constexpr unsigned HOST = ~0u;

static void switch_to(Block* block, unsigned target) {
    unsigned from = block->current;
    if (from == target) return;
    void** save = from == HOST ? &block->host_stack_pointer : &block->lane[from].stack_pointer;
    void* load = target == HOST ? block->host_stack_pointer : block->lane[target].stack_pointer;
    block->current = target;
    block->thread.x = target;
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    const void* bottom = target == HOST ? block->host_stack_bottom : block->stacks.bottom(target);
    __sanitizer_start_switch_fiber(&fake, bottom, target == HOST ? block->host_stack_bytes : STACK_BYTES);
    warpmill_sim_switch(save, load);
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
    warpmill_sim_switch(save, load);
#endif
}

// "; threads 0-15 wait at __syncthreads (line 3); thread 16 has exited"
static void describe(Block* block, char* out, size_t bytes) {
    enum State { RUNNABLE, WAITING, BARRIER, EXITED };
    auto state = [&](unsigned t) {
        const Warp& warp = block->warp[t / 32];
        uint32_t bit = 1u << (t & 31);
        return warp.exited & bit ? EXITED : warp.at_barrier & bit ? BARRIER : warp.waiting & bit ? WAITING : RUNNABLE;
    };
    auto same = [&](unsigned a, unsigned b) {
        State s = state(a);
        if (s != state(b)) return false;
        if (s == RUNNABLE || s == EXITED) return true;
        const Lane &x = block->lane[a], &y = block->lane[b];
        return x.kind == y.kind && x.line == y.line && (s == BARRIER || x.mask == y.mask);
    };
    for (unsigned t = 0; t < block->threads;) {
        unsigned end = t + 1;
        while (end < block->threads && same(t, end)) end++;
        bool one = end == t + 1;
        char where[96] = "", mask[32] = "";
        const Lane& lane = block->lane[t];
        State s = state(t);
        if (s == WAITING) snprintf(mask, sizeof mask, ", mask 0x%08x", lane.mask);
        if (s == WAITING || s == BARRIER)
            snprintf(where, sizeof where, " at %s (line %d%s)", KIND_NAMES[lane.kind], lane.line, mask);
        const char* verb = s == RUNNABLE ? "can run"
                           : s == EXITED ? (one ? "has exited" : "have exited")
                                         : (one ? "waits" : "wait");
        char threads[32];
        if (one)
            snprintf(threads, sizeof threads, "thread %u", t);
        else
            snprintf(threads, sizeof threads, "threads %u-%u", t, end - 1);
        int used = snprintf(out, bytes, "; %s %s%s", threads, verb, where);
        if (used >= static_cast<int>(bytes)) return;
        out += used;
        bytes -= used;
        t = end;
    }
}

// Records what went wrong and where every thread is, and leaves the block for good.
[[noreturn]] static void fail(Block* block, const char* format, ...) {
    int used = snprintf(block->message, block->message_bytes, "block %u: ", block->block.x);
    va_list arguments;
    va_start(arguments, format);
    used += vsnprintf(block->message + used, block->message_bytes - used, format, arguments);
    va_end(arguments);
    if (used < static_cast<int>(block->message_bytes))
        describe(block, block->message + used, block->message_bytes - used);
    block->defect = true;
    switch_to(block, HOST);
    __builtin_unreachable();
}

static uint32_t first_of(const Block* block, uint32_t mask) {
    return block->launch->reverse ? 31 - __builtin_clz(mask) : __builtin_ctz(mask);
}

// The lanes of `mask` that come after `lane` in the order of execution.
static uint32_t after(const Block* block, uint32_t mask, uint32_t lane) {
    return block->launch->reverse ? mask & ((1u << lane) - 1) : mask & ~((2u << lane) - 1);
}

// A lane that can run, of the warps after the running lane's; `HOST` when there is none.
static unsigned next_warp(const Block* block) {
    unsigned warp = block->current / 32;
    for (unsigned i = 0; i < block->warps; i++) {
        if (block->launch->reverse)
            warp = warp ? warp - 1 : block->warps - 1;
        else
            warp = warp + 1 == block->warps ? 0 : warp + 1;
        uint32_t runnable = block->warp[warp].runnable;
        if (runnable) return warp * 32 + first_of(block, runnable);
    }
    return HOST;
}

// Lanes at `__activemask` wait until no lane of their warp can run: those that wait at one line are then as converged
// as they will ever be. Answers the lanes that can run now.
static uint32_t release_converged(Block* block, unsigned warp_index) {
    Warp& warp = block->warp[warp_index];
    Lane* lanes = &block->lane[warp_index * 32];
    uint32_t group = 0;
    int32_t line = 0;
    for (uint32_t rest = warp.waiting; rest; rest &= rest - 1) {
        const Lane& lane = lanes[__builtin_ctz(rest)];
        if (lane.kind != ACTIVEMASK || (group && lane.line != line)) continue;
        line = lane.line;
        group |= rest & -rest;
    }
    for (uint32_t rest = group; rest; rest &= rest - 1) lanes[__builtin_ctz(rest)].result = group;
    warp.waiting &= ~group;
    warp.runnable = group;
    return group;
}

// Gives the processor to the next lane that can run. The running lane has just stopped being able to.
static void reschedule(Block* block) {
    unsigned current = block->current;
    uint32_t runnable = block->warp[current / 32].runnable;
    if (!runnable) runnable = release_converged(block, current / 32);
    unsigned target;
    if (runnable) {
        uint32_t later = after(block, runnable, current & 31);
        target = (current & ~31u) + first_of(block, later ? later : runnable);
    } else {
        target = next_warp(block);
        if (target == HOST && block->live) fail(block, "deadlock: no thread can run");
    }
    switch_to(block, target);
}

static uint64_t reduce(const Lane* lanes, uint32_t mask, uint32_t kind) {
    uint64_t result = lanes[__builtin_ctz(mask)].value;
    for (uint32_t rest = mask & (mask - 1); rest; rest &= rest - 1) {
        uint64_t value = lanes[__builtin_ctz(rest)].value;
        bool less = static_cast<int64_t>(value) < static_cast<int64_t>(result);
        switch (kind) {
        case REDUCE_ADD: result += value; break;
        case REDUCE_MIN_SIGNED: result = less ? value : result; break;
        case REDUCE_MAX_SIGNED: result = less ? result : value; break;
        case REDUCE_MIN_UNSIGNED: result = value < result ? value : result; break;
        case REDUCE_MAX_UNSIGNED: result = value > result ? value : result; break;
        case REDUCE_AND: result &= value; break;
        case REDUCE_OR: result |= value; break;
        default: result ^= value; break;
        }
    }
    return result;
}

// Computes every lane's result of the collective that the lanes of `mask` have reached.
static void compute(Lane* lanes, uint32_t mask, uint32_t kind) {
    if (kind == SYNCWARP) return;
    if (kind == SHUFFLE || kind == MATCH_ANY) {
        for (uint32_t rest = mask; rest; rest &= rest - 1) {
            Lane& lane = lanes[__builtin_ctz(rest)];
            if (kind == SHUFFLE) {
                lane.result = mask >> lane.argument & 1 ? lanes[lane.argument].value : SHUFFLE_POISON;
                continue;
            }
            lane.result = 0;
            for (uint32_t other = mask; other; other &= other - 1)
                if (lanes[__builtin_ctz(other)].value == lane.value) lane.result |= other & -other;
        }
        return;
    }
    uint64_t result = 0;
    if (kind >= REDUCE_ADD) {
        result = reduce(lanes, mask, kind);
    } else if (kind == MATCH_ALL) {
        uint64_t first = lanes[__builtin_ctz(mask)].value;
        result = mask;
        for (uint32_t rest = mask; rest; rest &= rest - 1)
            if (lanes[__builtin_ctz(rest)].value != first) result = 0;
    } else {
        for (uint32_t rest = mask; rest; rest &= rest - 1)
            if (lanes[__builtin_ctz(rest)].value) result |= rest & -rest;
        if (kind == ANY) result = result != 0;
        if (kind == ALL) result = result == mask;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) lanes[__builtin_ctz(rest)].result = result;
}

// Completes the collective (kind, mask) of a warp when all its lanes that have not exited wait at it.
static bool try_complete(Block* block, unsigned warp_index, uint32_t mask, uint32_t kind) {
    if (kind == ACTIVEMASK) return false;
    Warp& warp = block->warp[warp_index];
    Lane* lanes = &block->lane[warp_index * 32];
    uint32_t needed = mask & ~warp.exited;
    if (needed & ~warp.waiting) return false;
    for (uint32_t rest = needed; rest; rest &= rest - 1) {
        const Lane& lane = lanes[__builtin_ctz(rest)];
        if (lane.kind != kind || lane.mask != mask) return false;
    }
    if (needed) compute(lanes, needed, kind);
    warp.waiting &= ~needed;
    warp.runnable |= needed;
    block->spins = 0;
    return true;
}

static unsigned long long collective(
    Context* context, unsigned kind, unsigned mask, unsigned long long value, unsigned argument, int line) {
    Block* block = static_cast<Block*>(context);
    unsigned current = block->current, index = current & 31;
    Lane& lane = block->lane[current];
    Warp& warp = block->warp[current / 32];
    if (!(mask >> index & 1))
        fail(block, "thread %u calls %s (line %d) with mask 0x%08x, which leaves it out", current, KIND_NAMES[kind],
            line, mask);
    lane.kind = kind;
    lane.mask = mask;
    lane.value = value;
    lane.argument = argument;
    lane.line = line;
    warp.waiting |= 1u << index;
    warp.runnable &= ~(1u << index);
    if (!try_complete(block, current / 32, mask, kind)) reschedule(block);
    return lane.result;
}

static void complete_barrier(Block* block) {
    uint64_t count = 0;
    for (unsigned t = 0; t < block->threads; t++)
        if (block->warp[t / 32].at_barrier >> (t & 31) & 1) count += block->lane[t].value;
    uint64_t result = block->barrier_kind == SYNCTHREADS_AND ? count == block->arrived
                      : block->barrier_kind == SYNCTHREADS_OR ? count != 0
                                                              : count;
    for (unsigned t = 0; t < block->threads; t++) block->lane[t].result = result;
    for (unsigned w = 0; w < block->warps; w++) {
        block->warp[w].runnable |= block->warp[w].at_barrier;
        block->warp[w].at_barrier = 0;
    }
    block->arrived = 0;
    block->spins = 0;
}

static unsigned barrier(Context* context, unsigned kind, unsigned predicate, int line) {
    Block* block = static_cast<Block*>(context);
    unsigned current = block->current;
    Lane& lane = block->lane[current];
    Warp& warp = block->warp[current / 32];
    if (block->arrived && (kind != block->barrier_kind || line != block->barrier_line))
        fail(block, "divergent barrier: thread %u arrives at %s (line %d)", current, KIND_NAMES[kind], line);
    block->barrier_kind = kind;
    block->barrier_line = line;
    lane.kind = kind;
    lane.line = line;
    lane.value = predicate;
    warp.at_barrier |= 1u << (current & 31);
    warp.runnable &= ~(1u << (current & 31));
    if (++block->arrived == block->live)
        complete_barrier(block);
    else
        reschedule(block);
    return static_cast<unsigned>(lane.result);
}

// Lets the lanes after this one run, then the other warps; so that whatever the lane waits for can happen.
static void spin(Context* context) {
    Block* block = static_cast<Block*>(context);
    unsigned current = block->current;
    if ((++block->spins & 255) == 0) {
        time_t now = time(nullptr);
        if (block->spins == 256) block->spins_since = now;
        if (now - block->spins_since > block->launch->spin_seconds)
            fail(block, "hang: nothing but spinning for %u seconds, last in thread %u", block->launch->spin_seconds,
                current);
        if (block->launch->stop.load(std::memory_order_relaxed)) {
            // Another block has failed, perhaps the one that this one waits for.
            block->message[0] = 0;
            block->defect = true;
            switch_to(block, HOST);
        }
        sched_yield();
    }
    uint32_t later = after(block, block->warp[current / 32].runnable, current & 31);
    switch_to(block, later ? (current & ~31u) + first_of(block, later) : next_warp(block));
}

static void trap(Context* context, int line) {
    fail(static_cast<Block*>(context), "thread %u calls __trap (line %d)", context->thread.x, line);
}

static unsigned long long nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<unsigned long long>(now.tv_sec) * 1000000000ull + static_cast<unsigned long long>(now.tv_nsec);
}

// The rest of a lane's life once its kernel function has returned. Never comes back.
static void exit_lane(Block* block) {
    unsigned current = block->current, warp_index = current / 32;
    Warp& warp = block->warp[warp_index];
    uint32_t bit = 1u << (current & 31);
    warp.exited |= bit;
    warp.runnable &= ~bit;
    block->live--;
    block->spins = 0;
    // Collectives that waited for this lane only are complete now.
    for (uint32_t rest = warp.waiting; rest; rest &= (rest - 1) & warp.waiting) {
        const Lane& lane = block->lane[warp_index * 32 + __builtin_ctz(rest)];
        if (lane.mask & bit) try_complete(block, warp_index, lane.mask, lane.kind);
    }
    if (block->arrived && block->arrived == block->live) complete_barrier(block);
    reschedule(block);
}

static void fiber_main() {
    Block* block = active;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    block->launch->run(block->launch->parameters);
    exit_lane(block);
    __builtin_trap();
}

// Runs one block to its end; false when it has a defect.
static bool run_block(Block* block, unsigned index) {
    block->block = {index, 0, 0};
    block->live = block->threads;
    block->arrived = 0;
    block->spins = 0;
    block->defect = false;
    for (unsigned w = 0; w < block->warps; w++) block->warp[w] = {~0u, 0, 0, 0};
    for (unsigned t = 0; t < block->threads; t++) {
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(block->stacks.bottom(t), STACK_BYTES);
#endif
        block->lane[t].stack_pointer = fresh_frame(block->stacks.top(t), fiber_main);
    }
    block->current = HOST;
    switch_to(block, block->launch->reverse ? block->threads - 1 : 0);
    return !block->defect;
}

// Blocks that no host thread uses, with their stacks.
static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static Block* free_blocks;

static Block* take_block(unsigned threads) {
    pthread_mutex_lock(&free_lock);
    Block* block = free_blocks;
    if (block) free_blocks = block->next_free;
    pthread_mutex_unlock(&free_lock);
    if (!block) block = new Block();
    if (block->stacks.reserve(threads)) return block;
    delete block;
    return nullptr;
}

static void give_block(Block* block) {
    pthread_mutex_lock(&free_lock);
    block->next_free = free_blocks;
    free_blocks = block;
    pthread_mutex_unlock(&free_lock);
}

static void prepare(Block* block, const Launch* launch, char* message, size_t message_bytes) {
    block->collective = collective;
    block->barrier = barrier;
    block->spin = spin;
    block->trap = trap;
    block->clock = nanoseconds;
    block->thread = {0, 0, 0};
    block->block_dim = {launch->threads, 1, 1};
    block->grid_dim = {launch->blocks, 1, 1};
    block->launch = launch;
    block->threads = launch->threads;
    block->warps = launch->threads / 32;
    block->message = message;
    block->message_bytes = message_bytes;
#if defined(__SANITIZE_ADDRESS__)
    pthread_attr_t attributes;
    void* bottom = nullptr;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &block->host_stack_bytes);
    pthread_attr_destroy(&attributes);
    block->host_stack_bottom = bottom;
#endif
}

}  // namespace warpmill_sim

using namespace warpmill_sim;

// Runs blocks of `launch` until none is left or one has a defect. Several host threads may call it at once with the
// same launch. Answers 0, 1 with a defect in `message` (only where it was found), or 2 when there is no memory for
// stacks.
extern "C" __attribute__((visibility("default"))) int warpmill_sim_work(
    Launch* launch, char* message, size_t message_bytes) {
    Block* block = take_block(launch->threads);
    if (!block) return 2;
    prepare(block, launch, message, message_bytes);
    // Exactly as large as asked for: under AddressSanitizer the next byte is out of bounds.
    void* dynamic = nullptr;
    if (posix_memalign(&dynamic, 128, launch->dynamic_shared ? launch->dynamic_shared : 1) != 0) {
        give_block(block);
        return 2;
    }
    block->dynamic_shared = static_cast<unsigned char*>(dynamic);
    active = block;
    uint8_t* bound = static_cast<uint8_t*>(launch->bind(block));
    int status = 0;
    while (!status && !launch->stop.load(std::memory_order_relaxed)) {
        uint32_t index = launch->next_block.fetch_add(1, std::memory_order_relaxed);
        if (index >= launch->blocks) break;
        // The module's thread-local memory is the static shared memory and the pointer that `bind` set.
        memset(bound - launch->shared_before, SHARED_POISON, launch->shared_bytes);
        launch->bind(block);
        memset(dynamic, SHARED_POISON, launch->dynamic_shared);
        if (!run_block(block, index)) {
            launch->stop.store(1, std::memory_order_relaxed);
            if (!message[0]) break;
            status = 1;
        }
    }
    active = nullptr;
    launch->bind(nullptr);
    free(dynamic);
    give_block(block);
    return status;
}

// Argument of the dynamic loader's `__tls_get_addr`.
struct TlsIndex {
    unsigned long module, offset;
};

extern "C" void* __tls_get_addr(TlsIndex*);

struct SharedSearch {
    uintptr_t address;
    uint64_t module, bytes;
};

static int find_shared(dl_phdr_info* info, size_t, void* data) {
    SharedSearch* search = static_cast<SharedSearch*>(data);
    bool inside = false;
    uint64_t tls_bytes = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD && search->address - start < header.p_memsz) inside = true;
        if (header.p_type == PT_TLS) tls_bytes = header.p_memsz;
    }
    if (!inside) return 0;
    // Not `dlpi_tls_data`: it is null at times, while other threads load modules.
    search->module = info->dlpi_tls_modid;
    search->bytes = tls_bytes;
    return 1;
}

// Measures the thread-local memory of the module that `bind` belongs to. Answers 0 on success.
extern "C" __attribute__((visibility("default"))) int warpmill_sim_measure(
    void* (*bind)(Context*), uint64_t* before, uint64_t* bytes) {
    SharedSearch search = {};
    search.address = reinterpret_cast<uintptr_t>(bind);
    dl_iterate_phdr(find_shared, &search);
    if (!search.module) return 1;
    TlsIndex index = {search.module, 0};
    *before = static_cast<uint8_t*>(bind(nullptr)) - static_cast<uint8_t*>(__tls_get_addr(&index));
    *bytes = search.bytes;
    return *before < *bytes ? 0 : 1;
}
