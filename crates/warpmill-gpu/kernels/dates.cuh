// The proleptic Gregorian calendar: "Euclidean affine functions and their application to calendar algorithms" (Neri and
// Schneider 2022), sections 5 and 6. Days count from 1970-01-01.

struct Civil {
    i64 year;
    u32 month;  // 1 to 12
    u32 day;    // 1 to 31
};

// The date of a day of an era, 400 years from March of year 0 on.
__device__ __forceinline__ Civil civil_of_era(u32 day_of_era) {
    const u32 n = 4 * day_of_era + 3;
    const u32 century = n / 146097, of_century = n % 146097 / 4;
    const u64 p = 2939745ull * (4 * of_century + 3);
    const u32 year = (u32)(p >> 32), day_of_year = (u32)p / 2939745 / 4;
    const u32 m = 2141 * day_of_year + 197913;
    const u32 january = day_of_year >= 306;
    return Civil{100 * century + year + january, (m >> 16) - 12 * january, (m & 0xffff) / 2141 + 1};
}

__device__ __forceinline__ Civil civil(i64 days) {
    // Days of rows that are not there wrap.
    const i64 shifted = (i64)((u64)days + 719468);
    Civil result = civil_of_era((u32)floor_mod(shifted, (i64)146097));
    result.year += 400 * floor_div(shifted, (i64)146097);
    return result;
}

// For days whose years are -32800 to 32767, in 32 bits.
__device__ __forceinline__ Civil civil(i32 days) {
    const u32 n = ((u32)days + 719468u + 146097u * 82u) * 4u + 3u;
    const u32 century = n / 146097, of_century = n % 146097 / 4;
    const u64 p = 2939745ull * (4 * of_century + 3);
    const u32 year = (u32)(p >> 32), day_of_year = (u32)p / 2939745 / 4;
    const u32 m = 2141 * day_of_year + 197913;
    const u32 january = day_of_year >= 306;
    return Civil{(i32)(100 * century + year + january - 400 * 82), (m >> 16) - 12 * january, (m & 0xffff) / 2141 + 1};
}

__device__ inline i64 days_of(i64 year, i64 month, i64 day) {
    const i64 january = month <= 2;
    year -= january;
    month += 12 * january;
    const i64 century = floor_div(year, (i64)100);
    return floor_div(1461 * year, (i64)4) - century + floor_div(century, (i64)4) + (979 * month - 2919) / 32 + day - 1
        - 719468;
}

__device__ __forceinline__ u32 days_of_month(i64 year, u32 month) {
    if (month == 2) return 28 + (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

// A day plus calendar months, on the last day of the month where it has no such day.
__device__ inline i64 add_months(i64 days, i32 months) {
    const Civil from = civil(days);
    const i64 at = from.year * 12 + from.month - 1 + months;
    const i64 year = floor_div(at, (i64)12);
    const u32 month = (u32)floor_mod(at, (i64)12) + 1, last = days_of_month(year, month);
    return days_of(year, month, from.day < last ? from.day : last);
}

// 0 for Sunday to 6 for Saturday; 0 for Monday to 6 for Sunday.
__device__ __forceinline__ i64 weekday(i64 days) { return floor_mod((i64)((u64)days + 4), (i64)7); }
__device__ __forceinline__ i64 weekday_from_monday(i64 days) { return (weekday(days) + 6) % 7; }

// ISO 8601: the week belongs to the year of its Thursday.
__device__ __forceinline__ i64 iso_thursday(i64 days) { return days + 3 - weekday_from_monday(days); }
__device__ __forceinline__ i64 iso_year(i64 days) { return civil(iso_thursday(days)).year; }
__device__ inline i64 iso_week(i64 days) {
    const i64 thursday = iso_thursday(days);
    return (thursday - days_of(civil(thursday).year, 1, 1)) / 7 + 1;
}

__device__ __forceinline__ i64 day_of_year(i64 days) { return days - days_of(civil(days).year, 1, 1) + 1; }

// A time in units, `per_day` a day, plus calendar months.
__device__ inline i64 add_months_to_time(i64 time, i64 per_day, i32 months, bool& bad) {
    const i64 day = add_months(floor_div(time, per_day), months);
    return add_checked(mul_checked(day, per_day, bad), floor_mod(time, per_day), bad);
}

// The start of the period that a time is in.
__device__ __forceinline__ i64 trunc_to_units(i64 time, i64 units, bool& bad) {
    return sub_checked(time, floor_mod(time, units), bad);
}
__device__ inline i64 trunc_to_week(i64 time, i64 per_day, bool& bad) {
    const i64 day = floor_div(time, per_day);
    return mul_checked(day - weekday_from_monday(day), per_day, bad);
}
__device__ inline i64 trunc_to_months(i64 time, i64 per_day, i64 group, bool& bad) {
    const Civil date = civil(floor_div(time, per_day));
    const i64 month = ((i64)date.month - 1) / group * group + 1;
    return mul_checked(days_of(date.year, month, 1), per_day, bad);
}
