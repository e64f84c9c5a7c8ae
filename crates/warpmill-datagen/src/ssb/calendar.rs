//! The `date` table, and days as the `YYYYMMDD` keys of the benchmark.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// (month, day) of the holidays that the reference generator marks.
const HOLIDAYS: [(i32, i32); 10] =
    [(12, 24), (1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20)];

/// A day of the calendar.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day {
    year: i32,
    month: i32,
    day: i32,
    /// From 1.
    day_of_year: i32,
    /// 0 is Sunday.
    weekday: i32,
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 => 28 + i32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Day {
    /// The day `days` after 1992-01-01, a Wednesday.
    pub(super) fn after_start(days: u64) -> Self {
        let weekday = ((days + 3) % 7) as i32;
        let (mut year, mut rest) = (1992, days as i32);
        while rest >= 365 + i32::from(is_leap(year)) {
            rest -= 365 + i32::from(is_leap(year));
            year += 1;
        }
        let day_of_year = rest + 1;
        let mut month = 1;
        while rest >= days_in_month(year, month) {
            rest -= days_in_month(year, month);
            month += 1;
        }
        Self { year, month, day: rest + 1, day_of_year, weekday }
    }

    /// `YYYYMMDD`.
    pub(super) fn key(self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    fn month_name(self) -> &'static str {
        MONTHS[self.month as usize - 1]
    }

    fn season(self) -> &'static str {
        match self.month {
            1..=3 => "Winter",
            4 => "Spring",
            5..=8 => "Summer",
            9..=10 => "Fall",
            _ => "Christmas",
        }
    }
}

pub(super) fn schema() -> SchemaRef {
    super::columns(&[
        ("d_datekey", 'i'),
        ("d_date", 's'),
        ("d_dayofweek", 's'),
        ("d_month", 's'),
        ("d_year", 'i'),
        ("d_yearmonthnum", 'i'),
        ("d_yearmonth", 's'),
        ("d_daynuminweek", 'i'),
        ("d_daynuminmonth", 'i'),
        ("d_daynuminyear", 'i'),
        ("d_monthnuminyear", 'i'),
        ("d_weeknuminyear", 'i'),
        ("d_sellingseason", 's'),
        ("d_lastdayinweekfl", 'i'),
        ("d_lastdayinmonthfl", 'i'),
        ("d_holidayfl", 'i'),
        ("d_weekdayfl", 'i'),
    ])
}

pub(super) fn batch(rows: Range<u64>) -> RecordBatch {
    let days: Vec<Day> = rows.map(Day::after_start).collect();
    let int = |value: fn(&Day) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(days.iter().map(value))) };
    let text =
        |value: fn(&Day) -> String| -> ArrayRef { Arc::new(StringArray::from_iter_values(days.iter().map(value))) };
    let columns = vec![
        int(|d| d.key()),
        text(|d| format!("{} {}, {}", d.month_name(), d.day, d.year)),
        text(|d| WEEKDAYS[d.weekday as usize].to_owned()),
        text(|d| d.month_name().to_owned()),
        int(|d| d.year),
        int(|d| d.year * 100 + d.month),
        text(|d| format!("{}{}", &d.month_name()[..3], d.year)),
        int(|d| d.weekday + 1),
        int(|d| d.day),
        int(|d| d.day_of_year),
        int(|d| d.month),
        int(|d| (d.day_of_year - 1) / 7 + 1),
        text(|d| d.season().to_owned()),
        int(|d| i32::from(d.weekday == 6)),
        int(|d| i32::from(d.day == days_in_month(d.year, d.month))),
        int(|d| i32::from(HOLIDAYS.contains(&(d.month, d.day)))),
        int(|d| i32::from((1..=5).contains(&d.weekday))),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns follow the schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_calendar() {
        let key = |days| Day::after_start(days).key();
        assert_eq!(key(0), 19920101);
        assert_eq!(key(59), 19920229);
        assert_eq!(key(366), 19930101);
        assert_eq!(key(2405), 19980802);
        assert_eq!(key(2555), 19981230);
        assert_eq!(Day::after_start(0).weekday, 3);
        // 1996-02-29 was a Thursday.
        let leap = Day::after_start(366 + 365 * 3 + 59);
        assert_eq!((leap.key(), leap.weekday, leap.day_of_year), (19960229, 4, 60));
    }
}
