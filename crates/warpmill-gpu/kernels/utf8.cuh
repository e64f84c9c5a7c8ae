// Whether bytes are UTF-8 (Unicode, table 3-7): what text functions rely on. Needs value.cuh.

__device__ __forceinline__ bool is_continuation(u8 byte) { return (byte & 0xc0) == 0x80; }

__device__ inline bool is_utf8(Str s) {
    u32 at = 0;
    while (at < s.len) {
        const u8 byte = s.data[at];
        if (byte < 0x80) {
            at++;
            continue;
        }
        const u32 more = byte >= 0xc2 && byte <= 0xdf ? 1 : byte >= 0xe0 && byte <= 0xef ? 2 : byte >= 0xf0 && byte <= 0xf4 ? 3 : 0;
        if (more == 0 || more > s.len - at - 1) return false;
        const u8 next = s.data[at + 1];
        // Overlong forms, surrogates, and what is behind the last character.
        const u8 least = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
        const u8 greatest = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
        if (next < least || next > greatest) return false;
        for (u32 i = 2; i <= more; i++)
            if (!is_continuation(s.data[at + i])) return false;
        at += 1 + more;
    }
    return true;
}
