// Integers that pages of Parquet store as differences (DELTA_BINARY_PACKED, and the lengths of DELTA_LENGTH_BYTE_ARRAY); needs value.cuh
// and lane.cuh.
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
