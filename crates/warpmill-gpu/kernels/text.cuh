// Functions of strings. Positions and lengths count characters (code points); parts of a string are views, not copies.

__device__ __forceinline__ bool starts_char(u8 byte) { return (byte & 0xc0) != 0x80; }

// How many of the bytes in `bytes` continue a character.
__device__ __forceinline__ u32 continuations(u64 bytes) {
    return (u32)__popcll(bytes >> 7 & ~(bytes >> 6) & 0x0101010101010101ull);
}

__device__ inline u32 char_count(Str s) {
    u32 count = s.len;
    const u64 end = (u64)s.data + s.len;
    for (u64 word = (u64)s.data & ~7ull; s.len > 0 && word < end; word += 8)
        count -= continuations(*(const u64*)word & bytes_within(word, s));
    return count;
}

// The byte at which character `n` starts, from byte `from` (which starts one) on, or the end.
__device__ inline u32 char_start(Str s, u32 from, u64 n) {
    u32 at = from;
    u64 left = n;
    // Eight bytes start at most eight characters.
    for (; left >= 8 && s.len - at >= 8; at += 8) left -= 8 - continuations(load_bytes(s.data + at, 8));
    for (; at < s.len; at++)
        if (starts_char(s.data[at]) && left-- == 0) break;
    return at;
}

// Characters from `start`, which counts from 1; a part before the string is cut off.
__device__ inline Str substr(Str s, i64 start) {
    return slice(s, start > 1 ? char_start(s, 0, (u64)(start - 1)) : 0, s.len);
}

__device__ inline Str substr(Str s, i64 start, i64 count) {
    const u32 from = start > 1 ? char_start(s, 0, (u64)(start - 1)) : 0;
    // The end counts from 0, and does not wrap: it is held below the greatest possible length.
    const i64 most = 1ll << 40;
    const i64 first = start < -most ? -most : start > most ? most : start - 1;
    const i64 end = first + (count < 0 ? 0 : count > most ? most : count);
    const i64 wanted = end - (first > 0 ? first : 0);
    return slice(s, from, wanted > 0 && end > 0 ? char_start(s, from, (u64)wanted) : from);
}

// The bytes of the first `n` characters, or of all but the last `-n`.
__device__ inline u32 prefix_bytes(Str s, i64 n) {
    if (n >= 0) return char_start(s, 0, (u64)n);
    const u64 dropped = 0 - (u64)n, count = char_count(s);
    return char_start(s, 0, dropped < count ? count - dropped : 0);
}

__device__ __forceinline__ Str left(Str s, i64 n) { return slice(s, 0, prefix_bytes(s, n)); }

// The last `n` characters, or all but the first `-n`.
__device__ inline Str right(Str s, i64 n) {
    if (n == 0 || n == (i64)(1ull << 63)) return Str{nullptr, 0};
    return slice(s, prefix_bytes(s, -n), s.len);
}

// The position of `part`, from 1; 0 where it does not occur.
__device__ inline u32 position(Str s, Str part) {
    const u64 at = find(s, part, 0);
    return at > s.len ? 0 : char_count(slice(s, 0, (u32)at)) + 1;
}

// `s` without characters of `set` at its ends.
__device__ inline Str trim(Str s, Str set, bool at_start, bool at_end) {
    u32 from = 0, to = s.len;
    while (at_start && from < to) {
        const u32 next = char_start(s, from, 1);
        if (!contains(set, slice(s, from, next))) break;
        from = next;
    }
    while (at_end && from < to) {
        u32 last = to - 1;
        while (last > from && !starts_char(s.data[last])) last--;
        if (!contains(set, slice(s, last, to))) break;
        to = last;
    }
    return slice(s, from, to);
}

__device__ inline Str trim_spaces(Str s, bool at_start, bool at_end) {
    u32 from = 0, to = s.len;
    while (at_start && from < to && s.data[from] == ' ') from++;
    while (at_end && from < to && s.data[to - 1] == ' ') to--;
    return slice(s, from, to);
}

__device__ inline u8* append(u8* to, Str s) {
    for (u32 i = 0; i < s.len; i++) to[i] = s.data[i];
    return to + s.len;
}

// Where strings go that are to live as long as the query: those in the `bytes` bytes from `passing`, which other segments take
// next, are copied, and so are those in the `hosted_bytes` bytes from `hosted`, which are in the host's memory.
struct Keep {
    QueryState* state;
    const u8* passing;
    u64 bytes;
    const u8* hosted;
    u64 hosted_bytes;
};

// `s` for as long as the query lives; none when the arena is full.
__device__ inline Str keep_text(Str s, Keep keep) {
    const bool stays = (u64)(s.data - keep.passing) >= keep.bytes && (u64)(s.data - keep.hosted) >= keep.hosted_bytes;
    if (s.len == 0 || stays) return s;
    u8* to = arena_alloc(keep.state, s.len);
    if (to == nullptr) return Str{nullptr, 0};
    append(to, s);
    return Str{to, s.len};
}

// Letters in the other case. What is not ASCII is left to the host.
__device__ inline Str ascii_case(QueryState* state, Str s, bool upper) {
    const u8 first = upper ? 'a' : 'A', last = upper ? 'z' : 'Z';
    bool same_case = true;
    for (u32 i = 0; i < s.len; i++) {
        if (s.data[i] >= 0x80) {
            raise(state, ERROR_HOST);
            return Str{nullptr, 0};
        }
        same_case &= s.data[i] < first || s.data[i] > last;
    }
    if (same_case) return s;
    u8* to = arena_alloc(state, s.len);
    if (to == nullptr) return Str{nullptr, 0};
    for (u32 i = 0; i < s.len; i++) to[i] = s.data[i] ^ (s.data[i] >= first && s.data[i] <= last ? 0x20 : 0);
    return Str{to, s.len};
}

// `s` with every occurrence of `from` replaced; an empty `from` occurs nowhere.
__device__ inline Str replace(QueryState* state, Str s, Str from, Str to) {
    u32 count = 0;
    for (u64 at = from.len == 0 ? (u64)s.len + 1 : find(s, from, 0); at <= s.len; at = find(s, from, (u32)at + from.len))
        count++;
    if (count == 0) return s;
    const u64 len = s.len - (u64)count * from.len + (u64)count * to.len;
    u8* out = arena_alloc(state, len);
    if (out == nullptr) return Str{nullptr, 0};
    u8* next = out;
    u32 rest = 0;
    for (u64 at = find(s, from, 0); at <= s.len; at = find(s, from, rest)) {
        next = append(append(next, slice(s, rest, (u32)at)), to);
        rest = (u32)at + from.len;
    }
    append(next, slice(s, rest, s.len));
    return Str{out, (u32)len};
}
