// ASOF joins: the rows of a key lie in the order of their times, and the place of a value among them is searched.

// The positions of a key's rows.
struct alignas(8) Run {
    u32 start, end;
};

// The word of a position without a row: greater than all others.
constexpr u64 NO_ROW = ~0ull;

// Marks the positions that a warp has taken and has no rows for. All lanes of the warp call.
__device__ __forceinline__ void mark_unused(u64* words, u64 capacity, Reserved* reserved, u32 lane) {
    for (u32 i = lane; i < reserved->left; i += 32) {
        if (reserved->at + i < capacity) words[reserved->at + i] = NO_ROW;
    }
    reserved->left = 0;
}

// As append_reserved, where positions without rows are marked.
__device__ __forceinline__ u64 append_marked(
    SinkState* sink, bool active, u32 lane, Reserved* reserved, u64* words, u64 capacity) {
    if (reserved->left < __popc(__ballot_sync(FULL_WARP, active))) mark_unused(words, capacity, reserved, lane);
    return append_reserved(sink, active, lane, reserved);
}

// Notes where the run of a position's key begins and ends. `key` gives the number of the key at a position.
template <class Key>
__device__ __forceinline__ void mark_run(Run* runs, u64 position, u64 rows, Key key) {
    const u64 own = key(position);
    if (position == 0 || key(position - 1) != own) runs[own].start = (u32)position;
    if (position + 1 == rows || key(position + 1) != own) runs[own].end = (u32)position + 1;
}

// The same of words in order, whose times are copied: a word is the number of a key times `span`, and a time below that.
template <class T>
__device__ __forceinline__ void split_word(const u64* words, u64 position, u64 rows, u64 span, Run* runs, T* times) {
    const u64 word = words[position];
    if (word == NO_ROW) return;
    const u64 key = word / span, first = key * span;
    times[position] = (T)(word - first);
    if (position == 0 || words[position - 1] < first) runs[key].start = (u32)position;
    if (position + 1 == rows || words[position + 1] - first >= span) runs[key].end = (u32)position + 1;
}

// The first place from `low` to `high` for which `before` does not hold; it holds for none behind that.
template <class Before>
__device__ __forceinline__ u32 places_before(u32 low, u32 high, Before before) {
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (before(middle)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// So few times are halved right away; the first step from a guess among more of them.
constexpr u32 FEW_TIMES = 16;
constexpr u32 TIMES_STEP = 8;

// The number of ascending times that are before `value`, those equal to it among them if `EQUAL`. Guesses, as if times were spread evenly
// between those that have been seen, come close to it; from the last one on, steps double until they are beyond it.
template <bool EQUAL, class T>
__device__ inline u32 times_before(const T* times, u32 count, T value) {
    const auto is_before = [&](T time) { return EQUAL ? time <= value : time < value; };
    const auto before = [&](u32 at) { return is_before(times[at]); };
    if (count <= FEW_TIMES) return places_before(0, count, before);
    // The time at `from` is before the value, that at `to` is not.
    u32 from = 0, to = count - 1;
    T least = times[from], most = times[to];
    if (!is_before(least)) return 0;
    if (is_before(most)) return count;
    bool passed = false;
    const u32 looks = 1 + (count > 1u << 6) + (count > 1u << 12) + (count > 1u << 20);
    for (u32 look = 0; look < looks && to - from > TIMES_STEP; look++) {
        const u32 between = to - from;
        const u32 ahead = (u32)((float)(value - least) / (float)(most - least) * (float)between);
        const u32 guess = from + (ahead < 1 ? 1 : ahead < between ? ahead : between - 1);
        const T time = times[guess];
        passed = !is_before(time);
        if (passed) {
            to = guess;
            most = time;
        } else {
            from = guess;
            least = time;
        }
    }
    u32 step = TIMES_STEP;
    if (passed) {
        while (to - from > step && !before(to - step)) {
            to -= step;
            step *= 2;
        }
        if (to - from > step) from = to - step;
    } else {
        while (to - from > step && before(from + step)) {
            from += step;
            step *= 2;
        }
        if (to - from > step) to = from + step;
    }
    return places_before(from + 1, to, before);
}
