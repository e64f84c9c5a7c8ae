// ASOF joins: the rows of a key lie in the order of their times, and the place of a value among them is searched.

// The positions of a key's rows.
struct alignas(8) Run {
    u32 start, end;
};

// Notes where the run of a position's key begins and ends. `key` gives the number of the key at a position.
template <class Key>
__device__ __forceinline__ void mark_run(Run* runs, u64 position, u64 rows, Key key) {
    const u64 own = key(position);
    if (position == 0 || key(position - 1) != own) runs[own].start = (u32)position;
    if (position + 1 == rows || key(position + 1) != own) runs[own].end = (u32)position + 1;
}

// The number of the first `count` places for which `before` holds: it holds for none behind one for which it does not.
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
