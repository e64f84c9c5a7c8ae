// Integers that pages of Parquet store as differences (DELTA_BINARY_PACKED, and the lengths of DELTA_LENGTH_BYTE_ARRAY and of
// DELTA_BYTE_ARRAY), and strings that begin as the ones before them; needs value.cuh and lane.cuh.
//
// A warp decodes a page from its first value to its last: blocks begin with their least difference and the widths of their
// miniblocks, whose differences are packed as numbers above the least. 32 values at a time are unpacked and added up by a scan
// of the warp. No byte outside of `data` counts, whatever it says; up to 16 behind it may be read.

__device__ __forceinline__ u32 parquet_u32(const u8* at) {
    const u64 skew = (u64)at & 3;
    const u32* const words = (const u32*)(at - skew);
    return skew ? words[0] >> (8 * skew) | words[1] << (32 - 8 * skew) : words[0];
}

__device__ __forceinline__ u64 parquet_u64(const u8* at) { return parquet_u32(at) | (u64)parquet_u32(at + 4) << 32; }

// The number at `at`, seven bits a byte; false where it does not end, or has more than 64 bits.
__device__ inline bool parquet_varint(const u8* data, u32 bytes, u32& at, u64& number) {
    number = 0;
    for (u32 shift = 0; shift < 70; shift += 7) {
        if (at >= bytes) return false;
        const u32 byte = data[at++];
        if (shift == 63 && byte > 1) return false;
        number |= (u64)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

__device__ __forceinline__ u64 parquet_zigzag(u64 number) { return number >> 1 ^ (0 - (number & 1)); }

// Number `index` of those of `width` bits (at most 64) from `data` on.
__device__ __forceinline__ u64 parquet_packed(const u8* data, u32 index, u32 width) {
    if (width == 0) return 0;
    const u64 bit = (u64)index * width;
    const u32 skew = bit & 7;
    const u8* const at = data + (bit >> 3);
    u64 number = parquet_u64(at) >> skew;
    if (skew + width > 64) number |= (u64)at[8] << (64 - skew);
    return width == 64 ? number : number & (((u64)1 << width) - 1);
}

// Decodes `count` integers, which wrap, to `out`: the low `width` (4 or 8) bytes of each. `at` becomes the place behind them.
__device__ inline bool parquet_deltas(const u8* data, u32 bytes, u32& at, u32 count, u32 width, u8* out, u32 lane) {
    u64 block = 0, miniblocks = 0, total = 0, value = 0;
    if (!parquet_varint(data, bytes, at, block) || !parquet_varint(data, bytes, at, miniblocks)) return false;
    if (!parquet_varint(data, bytes, at, total) || !parquet_varint(data, bytes, at, value)) return false;
    if (total != count || miniblocks == 0 || block > (1u << 24) || block % miniblocks != 0) return false;
    const u32 each = (u32)(block / miniblocks);
    if (each == 0 || each % 32 != 0) return false;
    if (count == 0) return true;
    value = parquet_zigzag(value);
    if (lane == 0 && width == 8) *(u64*)out = value;
    if (lane == 0 && width == 4) *(u32*)out = (u32)value;
    for (u32 done = 1; done < count;) {
        u64 least = 0;
        if (!parquet_varint(data, bytes, at, least) || miniblocks > bytes - at) return false;
        least = parquet_zigzag(least);
        const u8* const widths = data + at;
        at += (u32)miniblocks;
        for (u32 m = 0; m < miniblocks && done < count; m++) {
            const u32 bits = widths[m];
            const u32 here = count - done < each ? count - done : each;
            // The last miniblock is padded; what is needed of it has to be there.
            if (bits > 64 || ((u64)here * bits + 7) / 8 > bytes - at) return false;
            for (u32 i = 0; i < here; i += 32) {
                const bool active = i + lane < here;
                u64 sum = active ? parquet_packed(data + at, i + lane, bits) + least : 0;
                for (u32 d = 1; d < 32; d *= 2) {
                    const u64 other = __shfl_up_sync(FULL_WARP, sum, d);
                    if (lane >= d) sum += other;
                }
                sum += value;
                value = __shfl_sync(FULL_WARP, sum, 31);
                if (active && width == 8) ((u64*)out)[done + i + lane] = sum;
                if (active && width == 4) ((u32*)out)[done + i + lane] = (u32)sum;
            }
            const u64 stored = (u64)each * bits / 8;
            at += stored < bytes - at ? (u32)stored : bytes - at;
            done += here;
        }
    }
    __syncwarp(FULL_WARP);
    return true;
}

// Where strings are whose lengths come first (DELTA_LENGTH_BYTE_ARRAY): the place of each, and at `count` that of their end.
__device__ inline bool parquet_lengths(const u8* data, u32 bytes, u32 count, u32* places, u32 lane) {
    u32 at = 0;
    if (count == 0) return true;
    if (!parquet_deltas(data, bytes, at, count, 4, (u8*)places, lane)) return false;
    u64 before = at;
    for (u32 i = 0; i < count; i += 32) {
        const u32 length = i + lane < count ? places[i + lane] : 0;
        if (!__all_sync(FULL_WARP, length <= bytes)) return false;
        u64 sum = length;
        for (u32 d = 1; d < 32; d *= 2) {
            const u64 other = __shfl_up_sync(FULL_WARP, sum, d);
            if (lane >= d) sum += other;
        }
        const u64 all = __shfl_sync(FULL_WARP, sum, 31);
        if (before + all > bytes) return false;
        if (i + lane < count) places[i + lane] = (u32)(before + sum - length);
        before += all;
    }
    if (lane == 0) places[count] = (u32)before;
    __syncwarp(FULL_WARP);
    return true;
}

// Sums of `value` over the lanes up to this one.
__device__ __forceinline__ u64 parquet_sum(u64 value, u32 lane) {
    for (u32 d = 1; d < 32; d *= 2) {
        const u64 other = __shfl_up_sync(FULL_WARP, value, d);
        if (lane >= d) value += other;
    }
    return value;
}

// The bytes of all of `count` strings of which each is a part of the one before, `prefixes` long, and a suffix, at `places`; ~0 where
// a prefix is longer than what it is of. With a `width`, all have that.
__device__ inline u64 parquet_prefixed_bytes(const u32* prefixes, const u32* places, u32 count, u32 width, u32 lane) {
    u64 all = 0, before = 0;
    for (u32 i = 0; i < count; i += 32) {
        const bool active = i + lane < count;
        const u64 prefix = active ? prefixes[i + lane] : 0;
        const u64 length = active ? prefix + (places[i + lane + 1] - places[i + lane]) : 0;
        u64 previous = __shfl_up_sync(FULL_WARP, length, 1);
        if (lane == 0) previous = before;
        before = __shfl_sync(FULL_WARP, length, 31);
        const bool sound = !active || (prefix <= previous && (width == 0 || length == width));
        if (!__all_sync(FULL_WARP, sound)) return ~(u64)0;
        all += __shfl_sync(FULL_WARP, parquet_sum(length, lane), 31);
    }
    return all;
}

// Strings that begin as the ones before them (DELTA_BYTE_ARRAY): writes all of them to memory that is taken from `room`, whose first 8
// bytes count what of its `room_bytes` is taken. To `found`: where they begin there (8 bytes), 8 bytes, and `count` + 1 places as
// of `parquet_lengths`; prefixes of `most` strings fit behind those of as many.
__device__ inline bool parquet_prefixed(const u8* data, u32 bytes, u32 count, u32 most, u32 width, u8* room, u64 room_bytes,
                                        u8* found, u32 lane) {
    u32* const places = (u32*)(found + 16);
    u32* const prefixes = places + (most + 4) / 4 * 4;
    u32 at = 0;
    if (count == 0) return true;
    if (!parquet_deltas(data, bytes, at, count, 4, (u8*)prefixes, lane)) return false;
    const u8* const suffixes = data + at;
    if (!parquet_lengths(suffixes, bytes - at, count, places, lane)) return false;
    const u64 all = parquet_prefixed_bytes(prefixes, places, count, width, lane);
    if (all > 0xFFFFFFFFull) return false;
    u64 base = 0;
    if (lane == 0) base = atomicAdd((u64*)room, all);
    base = __shfl_sync(FULL_WARP, base, 0);
    if (base > room_bytes || all > room_bytes - base) return false;
    u8* const out = room + 16 + base;
    u64 end = 0;
    const u8* last = out;
    for (u32 i = 0; i < count; i += 32) {
        const bool active = i + lane < count;
        const u32 prefix = active ? prefixes[i + lane] : 0;
        const u32 from = active ? places[i + lane] : 0, to = active ? places[i + lane + 1] : 0;
        const u32 length = prefix + (to - from);
        const u64 sum = parquet_sum(length, lane);
        const u32 place = (u32)(end + sum - length);
        end += __shfl_sync(FULL_WARP, sum, 31);
        __syncwarp(FULL_WARP);
        if (active) places[i + lane] = place;
        // One after the other: each needs the one before.
        for (u32 j = 0; j < 32 && i + j < count; j++) {
            const u32 same = __shfl_sync(FULL_WARP, prefix, j), size = __shfl_sync(FULL_WARP, length, j);
            const u8* const own = suffixes + __shfl_sync(FULL_WARP, from, j);
            u8* const next = out + __shfl_sync(FULL_WARP, place, j);
            for (u32 b = lane; b < size; b += 32) next[b] = b < same ? last[b] : own[b - same];
            last = next;
            __syncwarp(FULL_WARP);
        }
    }
    if (lane == 0) {
        *(u64*)found = base;
        places[count] = (u32)end;
    }
    __syncwarp(FULL_WARP);
    return true;
}
