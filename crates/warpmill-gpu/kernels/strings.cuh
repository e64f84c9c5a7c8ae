// Strings: comparison and search. Bytes order as characters do in UTF-8.

__device__ inline bool bytes_equal(const u8* a, const u8* b, u32 len) {
    for (u32 i = 0; i < len; i++)
        if (a[i] != b[i]) return false;
    return true;
}

__device__ __forceinline__ bool same(Str a, Str b) { return a.len == b.len && bytes_equal(a.data, b.data, a.len); }

__device__ inline bool less(Str a, Str b) {
    const u32 len = a.len < b.len ? a.len : b.len;
    for (u32 i = 0; i < len; i++)
        if (a.data[i] != b.data[i]) return a.data[i] < b.data[i];
    return a.len < b.len;
}

__device__ __forceinline__ bool starts_with(Str s, Str part) {
    return s.len >= part.len && bytes_equal(s.data, part.data, part.len);
}

__device__ __forceinline__ bool ends_with(Str s, Str part) {
    return s.len >= part.len && bytes_equal(s.data + (s.len - part.len), part.data, part.len);
}

// The byte at which `part` first occurs in `s` from byte `from` (at most s.len) on; s.len + 1 where it does not.
__device__ inline u64 find(Str s, Str part, u32 from) {
    if (part.len == 0) return from;
    for (u64 at = from; at + part.len <= s.len; at++)
        if (s.data[at] == part.data[0] && bytes_equal(s.data + at, part.data, part.len)) return at;
    return (u64)s.len + 1;
}

__device__ __forceinline__ bool contains(Str s, Str part) { return find(s, part, 0) <= s.len; }

// Bytes `from .. to`.
__device__ __forceinline__ Str slice(Str s, u32 from, u32 to) { return Str{s.data + from, to - from}; }

__device__ inline bool is_ascii(Str s) {
    for (u32 i = 0; i < s.len; i++)
        if (s.data[i] >= 0x80) return false;
    return true;
}
