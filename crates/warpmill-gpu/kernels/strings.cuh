// Strings: comparison and search. Bytes order as characters do in UTF-8.
//
// Memory is read in aligned words of up to 16 bytes, those that hold a byte of the string: every allocation that strings
// lie in begins and ends at a multiple of 16 bytes.

// The first `count` (1 to 8) bytes at `at`, the first lowest; the bits above them are undefined.
__device__ __forceinline__ u64 load_bytes(const u8* at, u32 count) {
    const u32 skipped = (u32)(u64)at & 7;
    const u64* word = (const u64*)(at - skipped);
    u64 bytes = word[0] >> (8 * skipped);
    if (skipped + count > 8) bytes |= word[1] << (64 - 8 * skipped);
    return bytes;
}

// The bits that differ among the first `count` (1 to 8) bytes, moved to the top.
__device__ __forceinline__ u64 different_bits(const u8* a, const u8* b, u32 count) {
    return (load_bytes(a, count) ^ load_bytes(b, count)) << (64 - 8 * count);
}

__device__ inline bool bytes_equal(const u8* a, const u8* b, u32 len) {
    for (; len > 8; a += 8, b += 8, len -= 8)
        if (different_bits(a, b, 8)) return false;
    return len == 0 || different_bits(a, b, len) == 0;
}

__device__ __forceinline__ bool same(Str a, Str b) { return a.len == b.len && bytes_equal(a.data, b.data, a.len); }

__device__ inline bool less(Str a, Str b) {
    u32 rest = a.len < b.len ? a.len : b.len;
    const u8 *x = a.data, *y = b.data;
    while (rest > 0) {
        const u32 count = rest < 8 ? rest : 8;
        const u64 different = different_bits(x, y, count);
        if (different) {
            const u32 byte = count - 8 + (__ffsll((i64)different) - 1) / 8;
            return x[byte] < y[byte];
        }
        x += count;
        y += count;
        rest -= count;
    }
    return a.len < b.len;
}

__device__ __forceinline__ bool starts_with(Str s, Str part) {
    return s.len >= part.len && bytes_equal(s.data, part.data, part.len);
}

__device__ __forceinline__ bool ends_with(Str s, Str part) {
    return s.len >= part.len && bytes_equal(s.data + (s.len - part.len), part.data, part.len);
}

// A string to search for, not empty. Its first four bytes, or two bytes of a shorter one, find the places worth a closer look.
struct Needle {
    Str text;
    u32 first;    // span 3: the first four bytes; otherwise the first byte, four times
    u32 other;    // span 1, 2: the byte behind the first one by the span, four times
};

// The span of a needle of `len` bytes: the number of bytes after the first by which it is found.
__device__ __forceinline__ u32 needle_span(u32 len) { return len < 4 ? len - 1 : 3; }

// A word whose bytes are 0 where `word` holds the needle's `other` byte and `first`, the span before it. `start` is the word
// before it and `starts` itself, both without the bits of `first`.
__device__ __forceinline__ u32 mismatch(u32 start, u32 starts, u32 word, const Needle& needle, u32 span) {
    return __funnelshift_lc(start, starts, 8 * span) | (word ^ needle.other);
}

// Whether a byte of `word` is 0, by the top bits of bytes. Those of bytes above one that is 0 mean nothing.
__device__ __forceinline__ u32 maybe_zero_bytes(u32 word) { return (word - 0x01010101u) & ~word; }

// A bit for each byte of `word` that is 0, at its number.
__device__ __forceinline__ u32 zero_bytes(u32 word) {
    const u32 others = ((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word;
    return ((~others & 0x80808080u) >> 7) * 0x10204080u >> 28;
}

// A bit for each of the last three bytes of `before` and the first of `word`, the word after it, at which the four bytes of
// `first` begin: they end in `word`.
__device__ __forceinline__ u32 ends_in_word(u32 before, u32 word, u32 first) {
    return (__funnelshift_r(before, word, 8) == first ? 1 : 0) | (__funnelshift_r(before, word, 16) == first ? 2 : 0) |
           (__funnelshift_r(before, word, 24) == first ? 4 : 0) | (word == first ? 8 : 0);
}

// Whether there is such a byte.
__device__ __forceinline__ bool end_in_word(u32 before, u32 word, u32 first) {
    // Not `||`: branches would take longer than comparisons.
    return (word == first) | (__funnelshift_r(before, word, 8) == first) | (__funnelshift_r(before, word, 16) == first) |
           (__funnelshift_r(before, word, 24) == first);
}

// As `find` for needles of four bytes and more. Few places pass the test of four bytes, so that the lanes of a warp look
// through their strings together.
__device__ __forceinline__ u64 find_long(Str s, u32 from, const Needle& needle) {
    const u64 none = (u64)s.len + 1;
    const u32 len = needle.text.len;
    if ((u64)from + len > s.len) return none;
    const u64 first = (u64)s.data + from, last = (u64)s.data + (s.len - len);
    // Blocks of 16 bytes, counted up to 0: the last holds the fourth byte of the last place.
    const u64 end = ((last + 3) & ~15ull) + 16;
    i32 block = -(i32)((end - (first & ~15ull)) >> 4);
    u32 start = 0;
    uint4 next = *(const uint4*)(end + (i64)block * 16);
    for (;;) {
        uint4 words;
        u32 before;
        bool found;
        do {
            words = next;
            before = start;
            block++;
            // The next block is under way while this one is searched.
            if (block < 0) next = *(const uint4*)(end + (i64)block * 16);
            found = end_in_word(before, words.x, needle.first) | end_in_word(words.x, words.y, needle.first) |
                    end_in_word(words.y, words.z, needle.first) | end_in_word(words.z, words.w, needle.first);
            start = words.w;
        } while (!found && block < 0);
        if (!found) return none;
        u32 places = ends_in_word(before, words.x, needle.first) | ends_in_word(words.x, words.y, needle.first) << 4 |
                     ends_in_word(words.y, words.z, needle.first) << 8 | ends_in_word(words.z, words.w, needle.first) << 12;
        for (; places != 0; places &= places - 1) {
            const u64 at = end + (i64)block * 16 - 19 + (__ffs((int)places) - 1);
            if (at >= first && at <= last && bytes_equal((const u8*)at + 4, needle.text.data + 4, len - 4))
                return at - (u64)s.data;
        }
        if (block == 0) return none;
    }
}

// The byte at which the needle first occurs in `s` from byte `from` on; s.len + 1 where it does not.
__device__ __forceinline__ u64 find(Str s, u32 from, const Needle& needle, u32 span) {
    if (span == 3) return find_long(s, from, needle);
    const u64 none = (u64)s.len + 1;
    const u32 len = needle.text.len;
    if ((u64)from + len > s.len) return none;
    const u64 first = (u64)s.data + from, last = (u64)s.data + (s.len - len);
    // Blocks are counted up to 0, and addresses derived from that: one instruction.
    const u64 end = ((last + span) & ~15ull) + 16;
    i32 block = -(i32)((end - (first & ~15ull)) >> 4);
    u32 start = 0;
    for (;;) {
        u32 m0, m1, m2, m3, any;
        // Lanes leave this loop together: most bytes are looked at here only.
        do {
            const uint4 words = *(const uint4*)(end + (i64)block * 16);
            const u32 s0 = words.x ^ needle.first, s1 = words.y ^ needle.first;
            const u32 s2 = words.z ^ needle.first, s3 = words.w ^ needle.first;
            m0 = mismatch(start, s0, words.x, needle, span);
            m1 = mismatch(s0, s1, words.y, needle, span);
            m2 = mismatch(s1, s2, words.z, needle, span);
            m3 = mismatch(s2, s3, words.w, needle, span);
            start = s3;
            any = maybe_zero_bytes(m0) | maybe_zero_bytes(m1) | maybe_zero_bytes(m2) | maybe_zero_bytes(m3);
            any &= 0x80808080u;
            block++;
        } while (any == 0 && block < 0);
        if (any == 0) return none;
        u32 places = zero_bytes(m0) | zero_bytes(m1) << 4 | zero_bytes(m2) << 8 | zero_bytes(m3) << 12;
        for (; places != 0; places &= places - 1) {
            const u64 at = end + (i64)block * 16 - 16 + (__ffs((int)places) - 1) - span;
            // Two bytes are all of a short needle.
            if (at >= first && at <= last && (span < 2 || bytes_equal((const u8*)at, needle.text.data, len)))
                return at - (u64)s.data;
        }
        if (block == 0) return none;
    }
}

// The byte at which `part` first occurs in `s` from byte `from` (at most s.len) on; s.len + 1 where it does not.
__device__ inline u64 find(Str s, Str part, u32 from) {
    if (part.len == 0) return from;
    const u32 span = needle_span(part.len);
    if (span < 3) return find(s, from, Needle{part, part.data[0] * 0x01010101u, part.data[span] * 0x01010101u}, span);
    u32 word = 0;
    for (u32 i = 0; i < 4; i++) word |= (u32)part.data[i] << (8 * i);
    return find_long(s, from, Needle{part, word, 0});
}

__device__ __forceinline__ bool contains(Str s, Str part) { return find(s, part, 0) <= s.len; }

__device__ __forceinline__ bool contains(Str s, const Needle& needle, u32 span) {
    return find(s, 0, needle, span) <= s.len;
}

// Bytes `from .. to`.
__device__ __forceinline__ Str slice(Str s, u32 from, u32 to) { return Str{s.data + from, to - from}; }

// The bits of the bytes of `s` in the aligned word at address `word`, one of those that hold some.
__device__ __forceinline__ u64 bytes_within(u64 word, Str s) {
    const u64 start = (u64)s.data, end = start + s.len;
    const u64 from = word < start ? ~0ull << (8 * (start - word)) : ~0ull;
    return word + 8 > end ? from & ~0ull >> (8 * (word + 8 - end)) : from;
}

__device__ inline bool is_ascii(Str s) {
    u64 seen = 0;
    const u64 end = (u64)s.data + s.len;
    for (u64 word = (u64)s.data & ~7ull; s.len > 0 && word < end; word += 8) seen |= *(const u64*)word & bytes_within(word, s);
    return (seen & 0x8080808080808080ull) == 0;
}
