// Variances, from sums of differences to a value of the group: the first that comes (shifted data: Chan, Golub and LeVeque,
// "Algorithms for computing the sample variance", 1983). The relative error is about eps * (1 + (shift - mean)^2 / variance):
// that of a few roundings, and whatever the values, as the shift is one of them, at most that of one rounding per row.
//
// A record is three words: order_bits of the shift (0: no value came), the sum of differences, the sum of their squares.

// The shift of the record at `cell` in global memory: `x`, if no value came before.
__device__ __forceinline__ u64 claim_shift(u64* cell, double x) {
    const u64 held = fresh(cell);
    if (held) return held;
    const u64 own = order_bits(x);
    const u64 before = atomicCAS(cell, 0ull, own);
    return before ? before : own;
}

// Takes `x` into words of this thread only; the shift is that of the record at `cell`, which they are added to at the end.
__device__ __forceinline__ void add_moments(u64& shift, u64& sum, u64& squares, u64* cell, double x) {
    if (shift == 0) shift = claim_shift(cell, x);
    const double difference = x - order_f64(shift);
    sum = double_bits(bits_double(sum) + difference);
    squares = double_bits(bits_double(squares) + difference * difference);
}

// Takes `x` into a record that other threads update too; `cell` is the one in global memory that it is added to at the end.
__device__ __forceinline__ void add_moments(u64* record, u64* cell, double x) {
    u64 shift = fresh(record);
    if (shift == 0) {
        shift = claim_shift(cell, x);
        // All that write write the same.
        *(volatile u64*)record = shift;
    }
    const double difference = x - order_f64(shift);
    atomicAdd((double*)(record + 1), difference);
    atomicAdd((double*)(record + 2), difference * difference);
}

// The variance of `count` values (more than one of a sample).
__device__ inline double variance(u64 count, double sum, double squares, bool sample) {
    const double n = (double)count;
    // Of finite differences whose squares are not.
    if (squares - squares != 0 && sum - sum == 0) return squares;
    const double rest = squares - sum * (sum / n);
    return (rest < 0 ? 0 : rest) / (sample ? n - 1 : n);
}
