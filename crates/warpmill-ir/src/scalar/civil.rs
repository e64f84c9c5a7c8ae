//! The proleptic Gregorian calendar in integer arithmetic that vectorizes: "Euclidean affine functions and their
//! application to calendar algorithms" (Neri and Schneider 2022), sections 5 and 6.

/// Days from 0000-03-01, the start of the algorithms' calendar, to 1970-01-01.
const EPOCH: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;
/// Eras that are added so that the fast path's days are not negative.
const SHIFT: i64 = 82;

/// Days since 1970-01-01 that [`civil`] takes: years -32800 to 32767, roughly.
pub const FAST: std::ops::RangeInclusive<i32> = -12_699_422..=1_061_042_401;

/// Year, month (1 to 12) and day (1 to 31) of a day in [`FAST`]; unspecified for other days.
#[inline(always)]
pub fn civil(days: i32) -> (i32, u32, u32) {
    let n = (days as u32).wrapping_add((EPOCH + ERA * SHIFT) as u32);
    let n1 = n.wrapping_mul(4).wrapping_add(3);
    let (century, of_century) = (n1 / 146_097, n1 % 146_097 / 4);
    let p = 2_939_745 * u64::from(4 * of_century + 3);
    let (year_of_century, day_of_year) = ((p >> 32) as u32, p as u32 / 2_939_745 / 4);
    let (month, day) = month_and_day(day_of_year);
    let january = u32::from(day_of_year >= 306);
    let year = 100 * century + year_of_century + january;
    ((year as i32).wrapping_sub(400 * SHIFT as i32), month - 12 * january, day)
}

/// Month (3 to 14) and day of the day `day_of_year` of a year that starts in March.
#[inline(always)]
fn month_and_day(day_of_year: u32) -> (u32, u32) {
    let n = 2141 * day_of_year + 197_913;
    (n >> 16, (n & 0xffff) / 2141 + 1)
}

/// As [`civil`], for any day.
pub fn civil_wide(days: i64) -> (i64, u32, u32) {
    let days = days + EPOCH;
    let (era, day_of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    // Within one era the fast algorithm applies unchanged.
    let n1 = 4 * day_of_era as u32 + 3;
    let (century, of_century) = (n1 / 146_097, n1 % 146_097 / 4);
    let p = 2_939_745 * u64::from(4 * of_century + 3);
    let (year_of_century, day_of_year) = ((p >> 32) as u32, p as u32 / 2_939_745 / 4);
    let (month, day) = month_and_day(day_of_year);
    let january = u32::from(day_of_year >= 306);
    (400 * era + i64::from(100 * century + year_of_century + january), month - 12 * january, day)
}

/// Days since 1970-01-01 of a date.
#[inline(always)]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let january = i64::from(month <= 2);
    let (year, month) = (year - january, i64::from(month) + 12 * january);
    let century = year.div_euclid(100);
    (1461 * year).div_euclid(4) - century + century.div_euclid(4) + (979 * month - 2919) / 32 + i64::from(day)
        - 1
        - EPOCH
}

/// Whether February has 29 days.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Number of days of a month (1 to 12).
pub fn days_of_month(year: i64, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Adds calendar months to a day; the last day of the month if it has no such day.
pub fn add_months(days: i64, months: i32) -> i64 {
    let (year, month, day) = civil_wide(days);
    let at = year * 12 + i64::from(month) - 1 + i64::from(months);
    let (year, month) = (at.div_euclid(12), at.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, day.min(days_of_month(year, month)))
}

/// 0 for Sunday to 6 for Saturday.
#[inline(always)]
pub fn weekday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 4).rem_euclid(7)
}

/// ISO 8601 year and week.
pub fn iso_week(days: i64) -> (i64, i64) {
    // The week belongs to the year of its Thursday.
    let thursday = days + 3 - (weekday(days) + 6) % 7;
    let (year, ..) = civil_wide(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        for day in (-100_000_000..100_000_000).step_by(9_973) {
            let (year, month, of_month) = civil_wide(day);
            assert_eq!(days_from_civil(year, month, of_month), day);
            if let Some(fast) = i32::try_from(day).ok().filter(|day| FAST.contains(day)) {
                assert_eq!(civil(fast), (year as i32, month, of_month));
            }
        }
        assert_eq!((civil_wide(0), civil_wide(-719_468)), ((1970, 1, 1), (0, 3, 1)));
    }
}
