// Whether exclusive prefix sums begin at 0 and differ by the items (needs data.cuh).

struct CheckSums {
    const u32* items;
    const u64* sums;     // n + 1
    u64* wrong;
    u64 n;
};

extern "C" __global__ void check_sums(CheckSums p) {
    u64 wrong = thread_number() == 0 && p.sums[0] != 0;
    for (u64 i = thread_number(); i < p.n; i += thread_count()) {
        wrong += p.sums[i + 1] - p.sums[i] != p.items[i];
    }
    add_sum(wrong, p.wrong);
}
