// Sums of pairs of numbers, y and x: correlations, covariances, regressions. As of variances (moments.cuh), they are sums of differences
// to a value of the group, the one of y and of x that comes first: not of the same row.
//
// A record is eight words: order_bits of the shifts of y and x (0: no value came), the number of pairs, and, as doubles, the sums of the
// differences of y, of x, of their squares (y, x), of their products.

enum PairFunction {
    PAIR_CORRELATION,
    PAIR_COVARIANCE,
    PAIR_SAMPLE_COVARIANCE,
    PAIR_SLOPE,
    PAIR_INTERCEPT,
    PAIR_DETERMINATION,
    PAIR_AVERAGE_X,
    PAIR_AVERAGE_Y,
    PAIR_SQUARES_X,
    PAIR_SQUARES_Y,
    PAIR_PRODUCTS
};

// The shift at `cell`: a finite number in any case, so that sums of infinite values are infinite.
__device__ __forceinline__ u64 claim_finite_shift(u64* cell, double x) { return claim_shift(cell, x - x == 0 ? x : 0.0); }

__device__ __forceinline__ void add_double(u64& word, double x) { word = double_bits(bits_double(word) + x); }

// Takes a pair into words of this thread only; the shifts are those of the record at `cell`, which the words are added to at the end.
__device__ __forceinline__ void add_pair(
    u64& shift_y, u64& shift_x, u64& count, u64& ys, u64& xs, u64& yys, u64& xxs, u64& yxs, u64* cell, double y, double x
) {
    if (shift_y == 0) shift_y = claim_finite_shift(cell, y);
    if (shift_x == 0) shift_x = claim_finite_shift(cell + 1, x);
    const double from_y = y - order_f64(shift_y), from_x = x - order_f64(shift_x);
    count += 1;
    add_double(ys, from_y);
    add_double(xs, from_x);
    add_double(yys, from_y * from_y);
    add_double(xxs, from_x * from_x);
    add_double(yxs, from_y * from_x);
}

// Takes a pair into a record that other threads update too; `cell` is the one in global memory that it is added to at the end.
__device__ __forceinline__ void add_pair(u64* record, u64* cell, double y, double x) {
    u64 shifts[2];
    for (u32 i = 0; i < 2; i++) {
        shifts[i] = fresh(record + i);
        if (shifts[i] == 0) {
            shifts[i] = claim_finite_shift(cell + i, i == 0 ? y : x);
            // All that write write the same.
            *(volatile u64*)(record + i) = shifts[i];
        }
    }
    const double from_y = y - order_f64(shifts[0]), from_x = x - order_f64(shifts[1]);
    atomicAdd(record + 2, 1ull);
    atomicAdd((double*)(record + 3), from_y);
    atomicAdd((double*)(record + 4), from_x);
    atomicAdd((double*)(record + 5), from_y * from_y);
    atomicAdd((double*)(record + 6), from_x * from_x);
    atomicAdd((double*)(record + 7), from_y * from_x);
}

// The sum of products of deviations, of `n` pairs of numbers whose differences to some values, and products of these, have the sums given.
__device__ inline double deviations(double n, double sum_a, double sum_b, double products) {
    // Of finite differences whose products are not.
    if (products - products != 0 && sum_a - sum_a == 0 && sum_b - sum_b == 0) return products;
    return products - sum_a * (sum_b / n);
}

__device__ inline double squared_deviations(double n, double sum, double squares) {
    const double rest = deviations(n, sum, sum, squares);
    return rest < 0 || n < 2 ? 0 : rest;
}

// The value of a function of a record with one pair at least; it is NULL where `some` is false then. As `Pairs::value` of the IR.
__device__ inline double value_of_pairs(PairFunction function, const u64* record, bool& some) {
    const double n = (double)record[2], sum_y = bits_double(record[3]), sum_x = bits_double(record[4]);
    const double squares_y = squared_deviations(n, sum_y, bits_double(record[5]));
    const double squares_x = squared_deviations(n, sum_x, bits_double(record[6]));
    const double products = deviations(n, sum_y, sum_x, bits_double(record[7]));
    const double average_y = order_f64(record[0]) + sum_y / n, average_x = order_f64(record[1]) + sum_x / n;
    const double spread = sqrt(squares_x / n) * sqrt(squares_y / n);
    const double correlation = (spread == 0 ? 0.0 : products / n) / spread;
    const double slope = products / n / (squares_x / n);
    some = true;
    switch (function) {
        case PAIR_CORRELATION: return correlation;
        case PAIR_COVARIANCE: return products / n;
        case PAIR_SAMPLE_COVARIANCE: some = n > 1; return products / (n - 1);
        case PAIR_SLOPE: return slope;
        case PAIR_INTERCEPT: some = slope == slope; return average_y - slope * average_x;
        case PAIR_DETERMINATION: some = squares_x != 0; return squares_y == 0 ? 1.0 : correlation * correlation;
        case PAIR_AVERAGE_X: return average_x;
        case PAIR_AVERAGE_Y: return average_y;
        case PAIR_SQUARES_X: return squares_x;
        case PAIR_SQUARES_Y: return squares_y;
        default: return products;
    }
}
