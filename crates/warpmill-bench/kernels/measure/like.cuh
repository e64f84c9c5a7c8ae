// Strings of a fixed length, and a naive search for two pieces to check with (needs data.cuh).

struct LikeData {
    u8* bytes;
    u32* offsets;          // rows + 1
    const u8* pieces;      // the first piece's bytes, then the second's
    u32* out;              // a bit per row
    u64* wrong;            // {bits that differ, rows that match}
    const u32* found;      // the bitmap to check
    u64 rows;
    u32 row_bytes;
    u32 first_len;
    u32 second_len;
    u32 plant;             // every how many rows hold the pieces; every second of these in the wrong order
};

extern "C" __global__ void like_make(LikeData p) {
    for (u64 row = thread_number(); row <= p.rows; row += thread_count()) {
        p.offsets[row] = (u32)(row * p.row_bytes);
        if (row == p.rows) {
            continue;
        }
        u8* to = p.bytes + row * p.row_bytes;
        for (u32 i = 0; i < p.row_bytes; i++) {
            to[i] = 'a' + (u8)draw_below(row * p.row_bytes + i, 5, 26);
        }
        const u32 both = p.first_len + p.second_len;
        if (row % p.plant == 0 && both <= p.row_bytes) {
            const u32 at = (u32)draw_below(row, 6, p.row_bytes - both + 1);
            const bool swapped = row / p.plant % 2 == 1;
            for (u32 i = 0; i < both; i++) {
                to[at + i] = p.pieces[swapped ? (i < p.second_len ? p.first_len + i : i - p.second_len) : i];
            }
        }
    }
}

__device__ __forceinline__ bool naive_at(const u8* text, const u8* piece, u32 len) {
    for (u32 i = 0; i < len; i++) {
        if (text[i] != piece[i]) {
            return false;
        }
    }
    return true;
}

extern "C" __global__ void like_check(LikeData p) {
    u64 wrong = 0, matches = 0;
    for (u64 row = thread_number(); row < p.rows; row += thread_count()) {
        const u8* text = p.bytes + row * p.row_bytes;
        u32 at = 0;
        while (at + p.first_len <= p.row_bytes && !naive_at(text + at, p.pieces, p.first_len)) {
            at++;
        }
        at += p.first_len;
        while (at + p.second_len <= p.row_bytes && !naive_at(text + at, p.pieces + p.first_len, p.second_len)) {
            at++;
        }
        const bool match = at + p.second_len <= p.row_bytes;
        matches += match;
        wrong += match != (p.found[row / 32] >> (row % 32) & 1);
    }
    add_sum(wrong, p.wrong);
    add_sum(matches, p.wrong + 1);
}
