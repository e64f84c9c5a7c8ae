//! Moments taken apart in the proleptic Gregorian calendar.

use warpmill_ir::scalar::civil::{civil_wide, days_from_civil, days_of_month};

/// Microseconds of a day.
pub(super) const DAY: i64 = 86_400_000_000;

/// A timestamp without a time zone, by parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
    /// Days after 1970 began.
    pub(super) days: i64,
}

impl Civil {
    /// The parts of a timestamp in microseconds.
    pub(super) fn of(micros: i64) -> Self {
        let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
        let (year, month, day) = civil_wide(days);
        let seconds = rest / 1_000_000;
        Self {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: rest % 1_000_000,
            days,
        }
    }

    /// 0 is Sunday.
    pub(super) fn weekday(&self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }

    pub(super) fn day_of_year(&self) -> i32 {
        (self.days - days_from_civil(self.year, 1, 1) + 1) as i32
    }

    /// The year that the Thursday of the week is in.
    pub(super) fn iso_year(&self) -> i64 {
        civil_wide(self.thursday()).0
    }

    pub(super) fn iso_week(&self) -> i64 {
        let thursday = self.thursday();
        (thursday - days_from_civil(civil_wide(thursday).0, 1, 1)) / 7 + 1
    }

    fn thursday(&self) -> i64 {
        self.days - (self.days + 3).rem_euclid(7) + 3
    }

    /// Months since year 0.
    pub(super) fn months(&self) -> i64 {
        self.year * 12 + i64::from(self.month) - 1
    }

    /// Microseconds of the day.
    pub(super) fn time(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros
    }
}

/// Adds months to a timestamp; uses the last day of a month that lacks the day.
pub(super) fn add_months(micros: i64, months: i64) -> i64 {
    let at = Civil::of(micros);
    let total = at.months() + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    days_from_civil(year, month, at.day.min(days_of_month(year, month))) * DAY + at.time()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = civil_wide(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
        let leap = Civil::of(19_782 * DAY + 1);
        assert_eq!((leap.year, leap.month, leap.day, leap.micros), (2024, 2, 29, 1));
        assert_eq!((leap.weekday(), leap.day_of_year(), leap.iso_year(), leap.iso_week()), (4, 60, 2024, 9));
        let old = Civil::of(-1);
        assert_eq!((old.year, old.month, old.day, old.hour, old.second), (1969, 12, 31, 23, 59));
        assert_eq!(Civil::of(add_months(days_from_civil(2024, 1, 31) * DAY, 1)).day, 29);
        assert_eq!(Civil::of(days_from_civil(2021, 1, 3) * DAY).iso_week(), 53);
    }
}
