// Groups of rows that lie next to each other, listed by their sizes: a thread, a warp or a block runs a function of the rows of each.

// The groups of some size: their numbers, and how many there are.
struct GroupList {
    u32* groups;
    u32* count;
};

// Appends the group of each active lane.
__device__ __forceinline__ void list_group(const GroupList& list, bool active, u64 group, u32 lane) {
    const u32 mask = __ballot_sync(FULL_WARP, active);
    u32 base = 0;
    if (lane == 0 && mask) base = atomicAdd(list.count, (u32)__popc(mask));
    base = __shfl_sync(FULL_WARP, base, 0);
    if (active) list.groups[base + __popc(mask & lane_mask_lt())] = (u32)group;
}
