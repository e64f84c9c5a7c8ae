// LIKE patterns. Without `_` a pattern is literal parts with `%` between them: the first and the last are anchored, and of
// those between the leftmost occurrence leaves the most for the next.

struct LikeRest {
    Str rest;    // what the parts found so far leave
    bool match;  // whether all of them were found
};

__device__ __forceinline__ LikeRest like_ends(Str s, Str prefix, Str suffix) {
    const bool match = s.len >= (u64)prefix.len + suffix.len && starts_with(s, prefix) && ends_with(s, suffix);
    return LikeRest{match ? slice(s, prefix.len, s.len - suffix.len) : Str{nullptr, 0}, match};
}

// All of `s`, where neither end is anchored.
__device__ __forceinline__ LikeRest like_any(Str s) { return LikeRest{s, true}; }

// What follows the needle's first occurrence. A needle is longer than the rest that a part before has not left.
__device__ __forceinline__ LikeRest like_part(LikeRest from, const Needle& needle, u32 span) {
    const u64 at = find(from.rest, 0, needle, span);
    const bool match = at <= from.rest.len;
    return LikeRest{match ? slice(from.rest, (u32)at + needle.text.len, from.rest.len) : Str{nullptr, 0}, match};
}

// Characters of a pattern that are no characters.
enum LikeToken : u32 { LIKE_ANY_CHAR = 0xffffffffu, LIKE_ANY_STRING = 0xfffffffeu };

// The character at byte `at`, which is moved behind it.
__device__ inline u32 next_char(Str s, u32& at) {
    const u32 first = s.data[at++];
    if (first < 0x80) return first;
    const u32 more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    u32 c = first & (0x3f >> more);
    for (u32 i = 0; i < more && at < s.len; i++) c = c << 6 | (s.data[at++] & 0x3f);
    return c;
}

__device__ __forceinline__ u32 ascii_lower(u32 c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

// Whether `s` (of ASCII characters where `fold` asks for either case) matches a pattern of characters and tokens: greedy,
// with a way back to the last `%` only.
__device__ inline bool like_tokens(Str s, const u32* pattern, u32 count, bool fold) {
    u32 token = 0, at = 0, back_token = 0, back_at = 0;
    bool can_go_back = false;
    for (;;) {
        const bool at_end = at >= s.len;
        if (token < count && pattern[token] == LIKE_ANY_STRING) {
            back_token = ++token;
            back_at = at;
            can_go_back = true;
            continue;
        }
        if (token == count && at_end) return true;
        if (token < count && !at_end) {
            u32 next = at;
            const u32 c = next_char(s, next);
            if (pattern[token] == LIKE_ANY_CHAR || pattern[token] == (fold ? ascii_lower(c) : c)) {
                token++;
                at = next;
                continue;
            }
        }
        if (!can_go_back || back_at >= s.len) return false;
        next_char(s, back_at);
        token = back_token;
        at = back_at;
    }
}
