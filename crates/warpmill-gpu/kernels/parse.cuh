// Text as values. `bad` is set for text that is none; forms that are rare are left to the host.

__device__ __forceinline__ bool is_digit(u8 c) { return c >= '0' && c <= '9'; }
__device__ __forceinline__ bool is_space(u8 c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

__device__ inline Str without_spaces(Str s) {
    u32 from = 0, to = s.len;
    while (from < to && is_space(s.data[from])) from++;
    while (to > from && is_space(s.data[to - 1])) to--;
    return slice(s, from, to);
}

// Skips a sign at byte `at`; whether it was a minus.
__device__ __forceinline__ bool take_sign(Str s, u32& at) {
    if (at >= s.len || (s.data[at] != '-' && s.data[at] != '+')) return false;
    return s.data[at++] == '-';
}

// An integer within bounds, those of a type of at most 64 bits.
__device__ inline i128 parse_int(Str text, i128 low, i128 high, bool& bad) {
    const Str s = without_spaces(text);
    u32 at = 0;
    const bool negative = take_sign(s, at);
    u64 size = 0;
    bad |= at == s.len;
    for (; at < s.len; at++) {
        const u64 digit = (u64)s.data[at] - '0';
        if (!is_digit(s.data[at]) || size > (0xffffffffffffffffull - digit) / 10) {
            bad = true;
            return 0;
        }
        size = size * 10 + digit;
    }
    const i128 value = negative ? -(i128)size : (i128)size;
    bad |= value < low || value > high;
    return value;
}

// An unscaled decimal, rounded half away from zero. Takes plain digits, of which 38 count, and a point.
__device__ inline i128 parse_decimal(QueryState* state, Str text, u32 scale, i128 low, i128 high, bool& bad) {
    const Str s = without_spaces(text);
    u32 at = 0, counted = 0, places = 0;
    const bool negative = take_sign(s, at);
    bool point = false, any = false, up = false;
    i128 size = 0;
    for (; at < s.len; at++) {
        const u8 c = s.data[at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(c)) break;
        any = true;
        if (point && places == scale) {
            // Of the digits that do not fit the first one decides.
            up = c >= '5';
            for (at++; at < s.len && is_digit(s.data[at]);) at++;
            break;
        }
        places += point;
        counted += counted != 0 || c != '0';
        if (counted <= 38) size = size * 10 + (c - '0');
    }
    for (; places < scale; places++, counted += counted != 0)
        if (counted < 38) size *= 10;
    if (at < s.len || !any || counted > 38) {
        raise(state, ERROR_HOST);
        return 0;
    }
    size += up;
    const i128 value = negative ? -size : size;
    bad |= value < low || value > high;
    return value;
}

// A float of at most 19 digits whose significand and power of ten are exact doubles.
__device__ inline double parse_f64(QueryState* state, Str text) {
    const Str s = without_spaces(text);
    u32 at = 0, digits = 0;
    const bool negative = take_sign(s, at);
    i32 exponent = 0;
    u64 whole = 0;
    bool point = false, any = false;
    for (; at < s.len; at++) {
        const u8 c = s.data[at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(c)) break;
        any = true;
        digits += digits != 0 || c != '0';
        if (digits <= 19) whole = whole * 10 + (c - '0');
        exponent -= point;
    }
    if (any && at < s.len && (s.data[at] | 0x20) == 'e') {
        u32 next = at + 1;
        const bool down = take_sign(s, next);
        i32 power = 0;
        any = next < s.len;
        for (at = next; at < s.len && is_digit(s.data[at]) && power < 1000; at++) power = power * 10 + (s.data[at] - '0');
        exponent += down ? -power : power;
    }
    if (at < s.len || !any || digits > 19 || whole > (1ull << 53) || exponent < -22 || exponent > 22) {
        raise(state, ERROR_HOST);
        return 0;
    }
    double unit = 1;
    for (i32 i = exponent < 0 ? -exponent : exponent; i > 0; i--) unit *= 10;
    const double size = exponent < 0 ? (double)whole / unit : (double)whole * unit;
    return negative ? -size : size;
}

// The same as a float: what lies between two of them would round twice.
__device__ inline float parse_f32(QueryState* state, Str text) {
    const double value = parse_f64(state, text);
    if ((__double_as_longlong(value) & 0x1fffffff) == 0x10000000) raise(state, ERROR_HOST);
    return (float)value;
}

// A truth value: a beginning of true, yes, false or no that tells which; on, off, 1, 0; of any case.
__device__ inline bool parse_bool(QueryState* state, Str text, bool& bad) {
    const u8 words[20] = {'t', 'r', 'u', 'e', 0, 'y', 'e', 's', 0, 0, 'o', 'n', 0, 0, 0, '1', 0, 0, 0, 0};
    const u8 other[20] = {'f', 'a', 'l', 's', 'e', 'n', 'o', 0, 0, 0, 'o', 'f', 'f', 0, 0, '0', 0, 0, 0, 0};
    const Str s = without_spaces(text);
    if (!is_ascii(s)) raise(state, ERROR_HOST);
    for (u32 word = 0; word < 20; word += 5) {
        bool yes = s.len > 0 && s.len <= 5, no = yes;
        for (u32 i = 0; i < s.len && i < 5; i++) {
            const u8 c = s.data[i] >= 'A' && s.data[i] <= 'Z' ? s.data[i] + 32 : s.data[i];
            yes &= c == words[word + i];
            no &= c == other[word + i];
        }
        // "o" begins both.
        if (yes && !(s.len == 1 && word == 10)) return true;
        if (no && !(s.len == 1 && word == 10)) return false;
    }
    bad = true;
    return false;
}

__device__ inline i64 checked_date(u32 year, u32 month, u32 day, bool& bad) {
    const bool fits = month >= 1 && month <= 12 && day >= 1 && day <= days_of_month(year, month < 13 ? month : 1);
    bad |= !fits;
    return fits ? days_of(year, month, day) : 0;
}

// Which of the first ten bytes are digits, as bits, and their values (other bytes wrap).
__device__ inline u32 digits_of(Str s, u32 from, u32 count, u8* digits) {
    u32 mask = 0;
    for (u32 i = 0; i < count; i++) {
        digits[i] = from + i < s.len ? (u8)(s.data[from + i] - '0') : 0;
        mask |= (u32)(from + i < s.len && digits[i] < 10) << i;
    }
    return mask;
}

// A date: 2020-01-31, 2020-1-31, 20200131. Years with a sign and timestamps are left to the host.
__device__ inline i64 parse_date(QueryState* state, Str s, bool& bad) {
    const u8 hyphen = (u8)('-' - '0');
    u8 d[10];
    if (s.len > 10 || (s.len > 0 && (s.data[0] == '+' || s.data[0] == '-'))) {
        raise(state, ERROR_HOST);
        return 0;
    }
    const u32 mask = digits_of(s, 0, 10, d);
    const u32 year = d[0] * 1000 + d[1] * 100 + d[2] * 10 + d[3];
    if (d[4] != hyphen) {
        bad |= mask != 0xff || s.len != 8;
        return bad ? 0 : checked_date(year, d[4] * 10 + d[5], d[6] * 10 + d[7], bad);
    }
    u32 month = 0, day = 0;
    bool fits = true;
    switch (mask) {
        case 0x36f: fits = d[7] == hyphen; month = d[5] * 10 + d[6]; day = d[8] * 10 + d[9]; break;
        case 0x16f: fits = d[7] == hyphen; month = d[5] * 10 + d[6]; day = d[8]; break;
        case 0x1af: fits = d[6] == hyphen; month = d[5]; day = d[7] * 10 + d[8]; break;
        case 0x0af: fits = d[6] == hyphen; month = d[5]; day = d[7]; break;
        default: fits = false;
    }
    bad |= !fits;
    return fits ? checked_date(year, month, day, bad) : 0;
}

// A timestamp in units of which a second has `per_second`: a date, and perhaps a time with parts of a second. Time zones,
// leap seconds and times without colons are left to the host.
__device__ inline i64 parse_timestamp(QueryState* state, Str s, i64 per_second, bool& bad) {
    const u8 hyphen = (u8)('-' - '0');
    u8 d[10];
    const u32 mask = digits_of(s, 0, 10, d);
    if (mask != 0x36f || d[4] != hyphen || d[7] != hyphen) {
        bad = true;
        return 0;
    }
    const u32 year = d[0] * 1000 + d[1] * 100 + d[2] * 10 + d[3];
    const i64 days = checked_date(year, d[5] * 10 + d[6], d[8] * 10 + d[9], bad);
    i64 seconds = days * 86400, nanos = 0;
    if (s.len > 10) {
        const u8 separator = s.data[10];
        bad |= separator != 'T' && separator != 't' && separator != ' ';
        const u32 time = digits_of(s, 11, 8, d);
        if (time != 0xdb || s.data[13] != ':' || s.data[16] != ':') {
            // Either no time, or one in another form.
            raise(state, ERROR_HOST);
            return 0;
        }
        const u32 hour = d[0] * 10 + d[1], minute = d[3] * 10 + d[4], second = d[6] * 10 + d[7];
        if (second == 60) raise(state, ERROR_HOST);
        bad |= hour > 23 || minute > 59 || second > 59;
        seconds += hour * 3600 + minute * 60 + second;
        u32 at = 19;
        if (at < s.len && s.data[at] == '.') {
            const u32 first = ++at;
            for (i64 unit = 100000000; at < s.len && is_digit(s.data[at]); at++, unit /= 10)
                nanos += (s.data[at] - '0') * unit;
            bad |= at == first;
        }
        const bool utc = at + 1 == s.len && (s.data[at] == 'Z' || s.data[at] == 'z');
        if (at < s.len && !utc) raise(state, ERROR_HOST);
    }
    return add_checked(mul_checked(seconds, per_second, bad), nanos / (1000000000ll / per_second), bad);
}

// A text in no form of `read_date` or `read_timestamp`: bad if it cannot be a moment, and else left to the host.
__device__ inline i64 read_elsewhere(QueryState* state, Str s, bool& bad) {
    const u8 first = s.len > 0 ? s.data[0] : 'x';
    // Spaces, digits, BC, epoch, infinity.
    const bool perhaps = first <= ' ' || is_digit(first) || first == '-' || (first | 32) == 'e' || (first | 32) == 'i';
    if (perhaps) raise(state, ERROR_HOST);
    bad |= !perhaps;
    return 0;
}

// Whether `s` begins with a date in full, 2020-01-31, of a year after 0, whose parts are in `d`.
__device__ inline bool has_full_date(Str s, u8* d) {
    const u8 hyphen = (u8)('-' - '0');
    return digits_of(s, 0, 10, d) == 0x36f && d[4] == hyphen && d[7] == hyphen && (d[0] | d[1] | d[2] | d[3]) != 0;
}

__device__ inline i64 full_date(const u8* d, bool& bad) {
    return checked_date(d[0] * 1000 + d[1] * 100 + d[2] * 10 + d[3], d[5] * 10 + d[6], d[8] * 10 + d[9], bad);
}

// A date as DuckDB reads it.
__device__ inline i64 read_date(QueryState* state, Str s, bool& bad) {
    u8 d[10];
    return s.len == 10 && has_full_date(s, d) ? full_date(d, bad) : read_elsewhere(state, s, bad);
}

// A timestamp as DuckDB reads it, in units of which a second has `per_second`.
__device__ inline i64 read_timestamp(QueryState* state, Str s, i64 per_second, bool& bad) {
    u8 d[10];
    if (!has_full_date(s, d)) return read_elsewhere(state, s, bad);
    i64 seconds = full_date(d, bad) * 86400, nanos = 0;
    bool full = s.len == 10;
    if (s.len > 18) {
        const u32 time = digits_of(s, 11, 8, d);
        const u32 hour = d[0] * 10 + d[1], minute = d[3] * 10 + d[4], second = d[6] * 10 + d[7];
        full = (s.data[10] == ' ' || s.data[10] == 'T') && time == 0xdb && s.data[13] == ':' && s.data[16] == ':' &&
               hour < 24 && minute < 60 && second < 60;
        seconds += hour * 3600 + minute * 60 + second;
        u32 at = 19;
        if (at + 1 < s.len && at + 10 >= s.len && s.data[at] == '.') {
            at++;
            for (i64 unit = 100000000; at < s.len && is_digit(s.data[at]); at++, unit /= 10)
                nanos += (s.data[at] - '0') * unit;
        }
        full &= at == s.len;
    }
    bool beyond = false;
    const i64 units = add_checked(mul_checked(seconds, per_second, beyond), nanos / (1000000000ll / per_second), beyond);
    return full && !beyond ? units : read_elsewhere(state, s, bad);
}
