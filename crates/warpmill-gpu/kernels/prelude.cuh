// What every kernel for a GPU starts with: NVRTC brings no headers. The simulated device has its twin.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef __int128 i128;
typedef unsigned __int128 u128;

// The block's dynamic shared memory as `type* name`, 16-byte aligned.
#define DYNAMIC_SHARED(type, name)                                        \
    extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
    type* const name = reinterpret_cast<type*>(dynamic_shared_bytes)

// The lanes of the warp below this one, as a mask.
__device__ __forceinline__ u32 lane_mask_lt() {
    u32 mask;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
    return mask;
}
