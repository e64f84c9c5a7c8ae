// The least or the greatest string of a group. A record is four words, zero at first: the greatest image (the first 8 bytes,
// complemented for the least string) that came, address and length + 1 of the best string (0: there is none), and a version
// that is odd while one thread exchanges the two.

template <bool LEAST>
__device__ __forceinline__ bool is_better(Str a, Str b) {
    return LEAST ? less(a, b) : less(b, a);
}

// Takes `s` into words of this thread only.
template <bool LEAST>
__device__ inline void own_string(u64& data, u64& length, Str s) {
    if (length == 0 || is_better<LEAST>(s, Str{(const u8*)data, (u32)(length - 1)})) {
        data = (u64)s.data;
        length = (u64)s.len + 1;
    }
}

// Takes `s` into a record that other threads update too.
template <bool LEAST>
__device__ inline void best_string(u64* record, Str s, Keep keep) {
    u64 image = 0;
    for (u32 i = 0; i < 8; i++) image = image << 8 | (i < s.len ? s.data[i] : 0);
    if (LEAST) image = ~image;
    // Most strings are told by their first bytes.
    const u64 greatest = fresh(record);
    if (image < greatest) return;
    if (image > greatest) atomicMax(record, image);
    for (;;) {
        const u64 version = fresh(record + 3);
        if (version & 1) {
            // Lets the lanes of the simulated device go on.
            atomicAdd(record + 3, 0ull);
            continue;
        }
        __threadfence();
        const u64 data = fresh(record + 1), length = fresh(record + 2);
        // Bytes of a string that another multiprocessor made are read after this, too.
        __threadfence();
        if (fresh(record + 3) != version) continue;
        if (length && !is_better<LEAST>(s, Str{(const u8*)data, (u32)(length - 1)})) return;
        // Only what is better, at the time, is worth a copy; one is enough.
        const Str kept = keep_text(s, keep);
        if (kept.len != s.len) return;
        s = kept;
        if (atomicCAS(record + 3, version, version + 1) != version) continue;
        // What the string is made of goes before its address.
        __threadfence();
        atomicExch(record + 1, (u64)s.data);
        atomicExch(record + 2, (u64)s.len + 1);
        __threadfence();
        atomicExch(record + 3, version + 2);
        return;
    }
}

// Takes the best strings of all lanes into a record. All lanes of the warp call.
template <bool LEAST>
__device__ inline void best_string_of_warp(u64* record, u64 data, u64 length, u32 lane, Keep keep) {
    for (u32 d = 16; d > 0; d /= 2) {
        const u64 other = __shfl_xor_sync(FULL_WARP, data, d), other_length = __shfl_xor_sync(FULL_WARP, length, d);
        if (other_length) own_string<LEAST>(data, length, Str{(const u8*)other, (u32)(other_length - 1)});
    }
    if (lane == 0 && length) best_string<LEAST>(record, Str{(const u8*)data, (u32)(length - 1)}, keep);
}
