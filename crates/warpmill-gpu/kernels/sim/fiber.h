// Fibers of the simulated device: stacks and the context switch. Part of runtime.cpp.

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace warpmill_sim {

// Saves the callee-saved registers and the stack pointer in `*save`, then loads those saved at `load`: what
// `swapcontext` does, without its system call. Kernels leave the floating-point control words alone: these stay.
extern "C" void warpmill_sim_switch(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .hidden warpmill_sim_switch
    .globl warpmill_sim_switch
    .type warpmill_sim_switch, @function
warpmill_sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmp *%rcx
    .size warpmill_sim_switch, .-warpmill_sim_switch
)");

// The words that `warpmill_sim_switch` pops to enter `entry` on a fresh stack. The word above the entry is its (null) return
// address and leaves the stack pointer as a call would.
inline void* fresh_frame(uint8_t* top, void (*entry)()) {
    void** frame = reinterpret_cast<void**>(top) - 8;
    for (int i = 0; i < 8; i++) frame[i] = nullptr;
    frame[6] = reinterpret_cast<void*>(entry);
    return frame;
}
#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 4
    .hidden warpmill_sim_switch
    .globl warpmill_sim_switch
    .type warpmill_sim_switch, %function
warpmill_sim_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size warpmill_sim_switch, .-warpmill_sim_switch
)");

inline void* fresh_frame(uint8_t* top, void (*entry)()) {
    void** frame = reinterpret_cast<void**>(top) - 20;
    for (int i = 0; i < 20; i++) frame[i] = nullptr;
    frame[11] = reinterpret_cast<void*>(entry);
    return frame;
}
#else
#error "the simulated device has no context switch for this processor"
#endif

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t STACK_BYTES = 256 << 10;
#else
constexpr size_t STACK_BYTES = 64 << 10;
#endif

// The stacks of one block's fibers, each above a guard page.
class Stacks {
public:
    ~Stacks() {
        if (base_) munmap(base_, stride_ * LIMIT);
    }

    // Makes the first `count` stacks usable; false when there is no memory.
    bool reserve(unsigned count) {
        if (!base_) {
            page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
            stride_ = STACK_BYTES + page_;
            void* region =
                mmap(nullptr, stride_ * LIMIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (region == MAP_FAILED) return false;
            base_ = static_cast<uint8_t*>(region);
        }
        for (; ready_ < count; ready_++)
            if (mprotect(bottom(ready_), STACK_BYTES, PROT_READ | PROT_WRITE) != 0) return false;
        return true;
    }

    uint8_t* bottom(unsigned fiber) const { return base_ + fiber * stride_ + page_; }

    // Stacks are staggered so that their hot ends do not share cache sets.
    uint8_t* top(unsigned fiber) const { return bottom(fiber) + STACK_BYTES - (fiber & 31) * 128; }

private:
    static constexpr unsigned LIMIT = 1024;
    uint8_t* base_ = nullptr;
    size_t page_ = 0, stride_ = 0;
    unsigned ready_ = 0;
};

}  // namespace warpmill_sim
