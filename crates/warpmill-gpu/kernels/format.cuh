// Values as text.

// A copy of `len` bytes that lives as long as the query.
__device__ inline Str kept_text(QueryState* state, const u8* bytes, u32 len) {
    u8* to = arena_alloc(state, len);
    if (to == nullptr) return Str{nullptr, 0};
    for (u32 i = 0; i < len; i++) to[i] = bytes[i];
    return Str{to, len};
}

// An unscaled integer with `scale` digits after the point.
__device__ inline Str format_decimal(QueryState* state, i128 value, u32 scale) {
    u8 text[48];
    u32 at = 48;
    u128 rest = value < 0 ? 0 - (u128)value : (u128)value;
    for (u32 digits = 0; rest != 0 || digits <= scale; digits++) {
        if (scale != 0 && digits == scale) text[--at] = '.';
        const bool narrow = (rest >> 64) == 0;
        text[--at] = (u8)('0' + (narrow ? (u32)((u64)rest % 10) : (u32)(rest % 10)));
        rest = narrow ? (u128)((u64)rest / 10) : rest / 10;
    }
    if (value < 0) text[--at] = '-';
    return kept_text(state, text + at, 48 - at);
}

__device__ inline Str format_bool(QueryState* state, bool value) {
    const u8 yes[4] = {'t', 'r', 'u', 'e'}, no[5] = {'f', 'a', 'l', 's', 'e'};
    return value ? kept_text(state, yes, 4) : kept_text(state, no, 5);
}

// `count` digits of `value`.
__device__ inline u8* put_digits(u8* to, u64 value, u32 count) {
    for (u32 i = count; i > 0; i--, value /= 10) to[i - 1] = (u8)('0' + value % 10);
    return to + count;
}

// Year, month and day of a year of four digits; others are left to the host.
__device__ inline u8* put_date(QueryState* state, u8* to, i64 days) {
    const Civil date = civil(days);
    if (date.year < 0 || date.year > 9999) raise(state, ERROR_HOST);
    to = put_digits(to, (u64)date.year, 4);
    *to++ = '-';
    to = put_digits(to, date.month, 2);
    *to++ = '-';
    return put_digits(to, date.day, 2);
}

// Hours, minutes and seconds.
__device__ inline u8* put_time(u8* to, i64 time, i64 per_second) {
    const u64 of_day = (u64)floor_mod(floor_div(time, per_second), (i64)86400);
    to = put_digits(to, of_day / 3600, 2);
    *to++ = ':';
    to = put_digits(to, of_day / 60 % 60, 2);
    *to++ = ':';
    return put_digits(to, of_day % 60, 2);
}

__device__ inline Str format_date(QueryState* state, i64 days) {
    u8 text[10];
    put_date(state, text, days);
    return kept_text(state, text, 10);
}

// A date as DuckDB writes it.
__device__ inline Str write_date(QueryState* state, i64 days) {
    // Of 1 BC.
    if (civil(days).year == 0) raise(state, ERROR_HOST);
    return format_date(state, days);
}

// A timestamp as DuckDB writes it.
__device__ inline Str write_timestamp(QueryState* state, i64 time, i64 per_second) {
    const i64 days = floor_div(time, per_second * 86400);
    if (civil(days).year == 0) raise(state, ERROR_HOST);
    u8 text[32];
    u8* to = put_date(state, text, days);
    *to++ = ' ';
    to = put_time(to, time, per_second);
    const u64 nanos = (u64)(floor_mod(time, per_second) * (1000000000ll / per_second));
    if (nanos != 0) {
        *to++ = '.';
        to = put_digits(to, nanos, 9);
        while (to[-1] == '0') to--;
    }
    return kept_text(state, text, (u32)(to - text));
}

__device__ inline Str format_timestamp(QueryState* state, i64 time, i64 per_second) {
    u8 text[32];
    const u64 nanos = (u64)(floor_mod(time, per_second) * (1000000000ll / per_second));
    u8* to = put_date(state, text, floor_div(time, per_second * 86400));
    *to++ = 'T';
    to = put_time(to, time, per_second);
    if (nanos != 0) {
        *to++ = '.';
        if (nanos % 1000000 == 0) to = put_digits(to, nanos / 1000000, 3);
        else if (nanos % 1000 == 0) to = put_digits(to, nanos / 1000, 6);
        else to = put_digits(to, nanos, 9);
    }
    return kept_text(state, text, (u32)(to - text));
}

// Whether the decimal `whole / unit` is the double (or float) `size`. Both are exact, so that the quotient rounds once, and
// again to a float unless it lies between two of them.
__device__ __forceinline__ bool reads_as(double whole, double unit, double size) { return whole / unit == size; }
__device__ __forceinline__ bool reads_as(double whole, double unit, float size) {
    const double quotient = whole / unit;
    return (__double_as_longlong(quotient) & 0x1fffffff) != 0x10000000 && (float)quotient == size;
}

// The shortest decimal that reads as `value`, where `most` (of 15 digits for a double, 8 for a float) is enough; other
// values, and those too large or small for a notation without exponent, are left to the host.
template <class T> __device__ inline Str format_float(QueryState* state, T value, double most, double limit, u32 places) {
    const T size = value < 0 ? -value : value;
    double unit = 1;
    if (!(size < limit) || (size != 0 && size < (T)1e-4)) {
        raise(state, ERROR_HOST);
        return Str{nullptr, 0};
    }
    for (u32 digits = 0; digits <= places; digits++, unit *= 10) {
        // Of two decimals as near the even one is taken.
        const double whole = rint((double)size * unit);
        if (whole >= most) break;
        if (!reads_as(whole, unit, size)) continue;
        u8 text[40];
        u32 at = 40;
        u64 rest = (u64)whole;
        // Whole numbers have a digit after the point, too.
        const u32 scale = digits == 0 ? 1 : digits;
        if (digits == 0) rest *= 10;
        if (digits > 0 && rest % 10 == 0) break;
        for (u32 i = 0; rest != 0 || i <= scale; i++, rest /= 10) {
            if (i == scale) text[--at] = '.';
            text[--at] = (u8)('0' + rest % 10);
        }
        if (value < 0 || (value == 0 && 1 / value < 0)) text[--at] = '-';
        return kept_text(state, text + at, 40 - at);
    }
    raise(state, ERROR_HOST);
    return Str{nullptr, 0};
}

__device__ __forceinline__ Str format_float(QueryState* state, double value) {
    return format_float(state, value, 1e15, 1e15, 18);
}
__device__ __forceinline__ Str format_float(QueryState* state, float value) {
    return format_float(state, value, 1e8, 16777216.0, 11);
}
