// Where the strings of a page of Parquet are that has them as they are (PLAIN: each behind its length); needs value.cuh, lane.cuh,
// decompress.cuh and parquet_delta.cuh.

// The string behind the one at `at`, or ~0 where that does not fit.
__device__ __forceinline__ u32 parquet_next_string(const u8* values, u32 bytes, u32 at) {
    if (at > bytes || bytes - at < 4) return ~0u;
    const u32 length = parquet_u32(values + at);
    return length <= bytes - at - 4 ? at + 4 + length : ~0u;
}

// Pages of fewer bytes are gone through from their beginning to their end.
constexpr u32 PARQUET_LONG_TEXT = 16 << 10;

// So many strings one behind the other are no accident.
constexpr u32 PARQUET_LIKELY_STRINGS = 6;

// Where strings begin is only known from those before them. But bytes that are no length seldom look like one, and never do so for
// long: each lane looks for a likely string in its share of the page, and goes on from there to where the next lane has begun. If all
// arrive there, these are the strings, as the first lane began with the first; if not, nothing is known. `places` has room for `count`.
__device__ inline bool parquet_strings_by_lanes(const u8* values, u32 bytes, u32 count, u32* places, u32 lane) {
    const u32 share = bytes / 32;
    u32 begin = lane * share;
    const u32 limit = begin + share;
    for (bool found = lane == 0; !found && begin < limit;) {
        u32 at = begin;
        for (u32 i = 0; i < PARQUET_LIKELY_STRINGS && at != ~0u && at != bytes; i++) at = parquet_next_string(values, bytes, at);
        found = at != ~0u;
        begin += !found;
    }
    u32 end = __shfl_down_sync(FULL_WARP, begin, 1);
    if (lane == 31) end = bytes;
    u32 at = begin, own = 0;
    while (at < end) {
        at = parquet_next_string(values, bytes, at);
        own++;
    }
    if (!__all_sync(FULL_WARP, at == end)) return false;
    const u32 before = (u32)parquet_sum(own, lane);
    if (__shfl_sync(FULL_WARP, before, 31) != count) return false;
    at = begin;
    for (u32 i = before - own; i < before; i++) {
        places[i] = at;
        at = parquet_next_string(values, bytes, at);
    }
    __syncwarp(FULL_WARP);
    return true;
}

// Where the strings of a page or dictionary are; false where they do not fit.
__device__ inline bool parquet_strings(const u8* values, u32 bytes, u32 count, u32* places, u32 lane) {
    if (bytes >= PARQUET_LONG_TEXT && parquet_strings_by_lanes(values, bytes, count, places, lane)) return true;
    Window w = window_open(values, bytes, lane);
    u32 at = 0;
    for (u32 i = 0; i < count; i++) {
        if (bytes - at < 4) return false;
        const u32 length = window_four(w, at);
        if (length > bytes - at - 4) return false;
        if (lane == (i & 31)) places[i] = at;
        at += 4 + length;
    }
    __syncwarp(FULL_WARP);
    return true;
}

// The string at `place`, whose length is checked again: places of a damaged page are any.
__device__ __forceinline__ Str parquet_str(const u8* values, u32 bytes, u32 place, bool& sound) {
    if (bytes < 4 || place > bytes - 4) {
        sound = false;
        return Str{nullptr, 0};
    }
    const u32 length = parquet_u32(values + place);
    if (length > bytes - 4 - place) {
        sound = false;
        return Str{nullptr, 0};
    }
    return Str{values + place + 4, length};
}
