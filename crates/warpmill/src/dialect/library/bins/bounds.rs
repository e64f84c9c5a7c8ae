//! Upper bounds of bins of equal width, for integers, floats and timestamps.
//!
//! Bounds are computed downward from the greatest. With `nice` rounding they are multiples of the width, which is 1, 2, 5 or 10 times a power of ten,
//! or a unit of the calendar; the greatest bound is then above the greatest value, and the number of bins is approximate.

use datafusion::common::{Result, exec_err};
use warpmill_ir::scalar::civil::days_from_civil;

use crate::dialect::library::parts::{Civil, DAY, add_months};

/// The parameters of bins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Their number.
    pub(super) count: usize,
    /// Whether bounds are round.
    pub(super) nice: bool,
}

/// Fixed-point scale for bounds of integers, so that widths have three decimal digits.
const PARTS: i128 = 1000;

/// The bounds between two integers; `high` is greater.
pub(super) fn of_integers(low: i64, high: i64, asked: Asked) -> Vec<i64> {
    let (start, mut end) = (i128::from(low) * PARTS, i128::from(high) * PARTS);
    let mut step = (end - start) / asked.count as i128;
    let mut most = asked.count;
    if asked.nice {
        let width = round_width(step);
        if let Some(width) = width.filter(|width| *width > 0) {
            let above = (end + (width - 1)) / width * width;
            if above != start {
                (end, step) = (above, width);
            }
        }
        most *= 2;
    }
    if step / PARTS > i128::from(i64::MAX) {
        return vec![high];
    }
    // Bounds that round to equal integers are merged.
    let step = step.max(1);
    let mut bounds: Vec<i64> = vec![];
    let mut at = end;
    while at > start {
        let bound = i64::try_from(at / PARTS).unwrap_or(high);
        match bounds.last() {
            Some(_) if bound < low || bounds.len() >= most => break,
            Some(last) if *last == bound => {}
            _ => bounds.push(bound),
        }
        at -= step;
    }
    ascending(bounds, high)
}

/// The ascending bounds; the greatest is at least `high`.
fn ascending<T: PartialOrd>(mut bounds: Vec<T>, high: T) -> Vec<T> {
    match bounds.first_mut() {
        Some(greatest) if *greatest < high => *greatest = high,
        Some(_) => {}
        None => bounds.push(high),
    }
    bounds.reverse();
    bounds
}

/// The round width nearest to `width`; `None` if it has too few digits.
fn round_width(width: i128) -> Option<i128> {
    let mut above = 1;
    while above < width {
        above *= 10;
    }
    let digit = above / 10;
    let two = if digit * 3 <= width { digit * 10 } else { digit * 2 };
    let five = if digit * 2 <= width { digit * 5 } else { digit };
    let rounded = |to: i128| (width + to / 2).checked_div(to).map(|times| times * to);
    let (by_two, by_five) = (rounded(two)?, rounded(five)?);
    Some(if (width - by_two).abs() < (width - by_five).abs() { by_two } else { by_five })
}

/// The bounds between two floats; `high` is greater.
///
/// # Errors
/// Ends that are not finite.
pub(super) fn of_floats(low: f64, high: f64, asked: Asked) -> Result<Vec<f64>> {
    if !low.is_finite() || !high.is_finite() {
        return exec_err!("equi_width_bucket does not support infinite or nan as min/max value");
    }
    let (count, span) = (asked.count as f64, high - low);
    let exact = if span.is_finite() { span / count } else { high / count - low / count };
    let digit = digit_below(exact);
    let (mut step, mut end, mut most) = (exact, high, asked.count);
    if asked.nice {
        step = round_float_width(exact, digit);
        end = multiple(high, step, f64::ceil);
        most *= 2;
    }
    // Differences of round numbers are round after this many digits.
    let digits = 10.0 / digit;
    let mut bounds: Vec<f64> = vec![];
    let mut at = end;
    while at > low {
        let rounded = (at * digits).round() / digits;
        let bound = if asked.nice && rounded.is_finite() { rounded } else { at };
        if bounds.last() != Some(&bound) {
            if bound <= low || bounds.len() >= most {
                break;
            }
            bounds.push(bound);
        }
        let next = at - step;
        // A width that is too small to change such numbers makes no more bins.
        if next >= at || next.is_nan() {
            break;
        }
        at = next;
    }
    Ok(ascending(bounds, high))
}

/// The power of ten below a width.
fn digit_below(width: f64) -> f64 {
    let mut digit = 1.0;
    if width < 1.0 {
        while digit > width {
            digit /= 10.0;
        }
        return digit;
    }
    while digit < width {
        digit *= 10.0;
    }
    digit / 10.0
}

/// The rounded multiple of `of` near a value; the value itself if there is none.
fn multiple(value: f64, of: f64, rounded: fn(f64) -> f64) -> f64 {
    let found = rounded(value / of) * of;
    if found.is_finite() { found } else { value }
}

/// The round width nearest to `width`, whose power of ten is `digit`.
fn round_float_width(width: f64, digit: f64) -> f64 {
    let two = if digit * 3.0 <= width { digit * 2.0 * 5.0 } else { digit * 2.0 };
    let five = if digit * 2.0 <= width { digit * 5.0 } else { digit };
    let (by_two, by_five) = (multiple(width, two, f64::round), multiple(width, five, f64::round));
    if (width - by_two).abs() < (width - by_five).abs() { by_two } else { by_five }
}

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The bounds between two timestamps; `high` is later. Round widths depend on the parts of the difference.
///
/// # Errors
/// Infinite timestamps, and bounds out of range.
pub(super) fn of_moments(low: i64, high: i64, asked: Asked) -> Result<Vec<i64>> {
    if [low, high].iter().any(|moment| moment.unsigned_abs() >= i64::MAX as u64) {
        return exec_err!("equi_width_bucket does not support infinite or nan as min/max value");
    }
    if !asked.nice {
        return Ok(of_integers(low, high, asked));
    }
    let width = Width::of(&Civil::of(low), &Civil::of(high), asked.count as f64).round();
    let Some(mut at) = width.rounded_up(high) else {
        return exec_err!("equi_width_bins: a moment that is out of range");
    };
    let width = width.at_least_one();
    let mut bounds = vec![];
    while at >= low && bounds.len() < asked.count {
        bounds.push(at);
        match width.before(at) {
            Some(before) => at = before,
            None => break,
        }
    }
    Ok(ascending(bounds, high))
}

/// The distance between bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Width {
    months: i64,
    days: i64,
    micros: i64,
}

impl Width {
    /// The difference of two timestamps divided by `count`; the remainder of months is in days, the remainder of days in microseconds.
    fn of(low: &Civil, high: &Civil, count: f64) -> Self {
        let months = (high.months() - low.months()) as f64 / count;
        let mut days = (i64::from(high.day) - i64::from(low.day)) as f64 / count;
        let mut micros = (high.time() - low.time()) as f64 / count;
        // Rounded once, as in DuckDB.
        if months > 0.0 {
            days = months.fract().mul_add(30.0, days);
        }
        if days > 0.0 {
            micros = days.fract().mul_add(DAY as f64, micros);
        }
        Self { months: months as i64, days: days as i64, micros: micros as i64 }
    }

    /// The width rounded to its largest part.
    fn round(self) -> Self {
        let Self { months, days, micros } = self;
        if months >= 6 {
            return Self { months, days: 0, micros: 0 };
        }
        if months > 0 || days >= 5 {
            return Self { micros: 0, ..self };
        }
        let unit = match micros {
            _ if days > 0 => HOUR,
            micros if micros >= 6 * HOUR => HOUR,
            micros if micros >= HOUR => 15 * MINUTE,
            micros if micros >= 10 * MINUTE => MINUTE,
            micros if micros >= MINUTE => 15 * SECOND,
            micros if micros >= 10 * SECOND => SECOND,
            _ => 1,
        };
        Self { micros: (micros + unit / 2) / unit * unit, ..self }
    }

    /// The width, at least a microsecond.
    fn at_least_one(self) -> Self {
        let some = self.months > 0 || self.days > 0 || self.micros > 0;
        if some { self } else { Self { months: 0, days: 0, micros: 1 } }
    }

    /// The next timestamp that is round for such a width, possibly the same; `None` if out of range.
    fn rounded_up(self, moment: i64) -> Option<i64> {
        let unit = match self {
            Self { months: 12.., .. } => {
                let at = Civil::of(moment);
                let is_start = at.day == 1 && at.time() == 0;
                let months = at.months() + i64::from(!is_start);
                let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
                return days_from_civil(year, month, 1).checked_mul(DAY);
            }
            Self { months, days, .. } if months > 0 || days > 0 => DAY,
            Self { micros: HOUR.., .. } => HOUR,
            Self { micros: MINUTE.., .. } => MINUTE,
            Self { micros: SECOND.., .. } => SECOND,
            _ => 1,
        };
        moment.checked_add((-moment).rem_euclid(unit))
    }

    /// The timestamp that is this much before another one; `None` if out of range.
    fn before(self, moment: i64) -> Option<i64> {
        let year = (Civil::of(moment).months() - self.months).div_euclid(12);
        let months_before = if self.months == 0 { moment } else { add_months(moment, -self.months) };
        let days_before = months_before.checked_sub(self.days.checked_mul(DAY)?);
        days_before?.checked_sub(self.micros).filter(|_| year >= -290_308)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(count: usize, nice: bool) -> Asked {
        Asked { count, nice }
    }

    #[test]
    fn bounds_of_whole_numbers() {
        let nice = |low, high, count| of_integers(low, high, asked(count, true));
        assert_eq!(nice(0, 10, 2), [5, 10]);
        assert_eq!(nice(99, 101, 2), [100, 101]);
        assert_eq!(nice(-10, 10, 5), [-5, 0, 5, 10]);
        assert_eq!(nice(0, 9, 5), [2, 4, 6, 8, 10]);
        assert_eq!(nice(0, 1, 1_000_000), [0, 1]);
        assert_eq!(nice(0, 5, 10), [0, 1, 2, 3, 4, 5]);
        assert_eq!(nice(-30, -15, 2), [-20, -10, 0]);
        assert_eq!(nice(i64::MIN, i64::MAX, 5), [-5_000_000_000_000_000_000, 0, 5_000_000_000_000_000_000, i64::MAX]);
        assert_eq!(nice(0, 9_000_000_000_000_000_001, 2), [5_000_000_000_000_000_000, 9_000_000_000_000_000_001]);
        assert_eq!(nice(-4_000_000_000_000_000_000, 4_000_000_000_000_000_001, 1), [4_000_000_000_000_000_001]);
        assert_eq!(of_integers(0, 1734, asked(5, false)), [346, 693, 1040, 1387, 1734]);
        assert_eq!(of_integers(-17, -3, asked(4, false)), [-13, -10, -6, -3]);
    }

    #[test]
    fn bounds_of_floats() {
        let nice = |low, high, count| of_floats(low, high, asked(count, true)).unwrap();
        assert_eq!(nice(0.0, 1.0, 5), [0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(nice(0.0, 6.347, 3), [2.0, 4.0, 6.0, 8.0]);
        let wide = [-5e307, 0.0, 5e307, 1e308, 1.5e308];
        let far = |(found, wanted): (&f64, &f64)| (found - wanted).abs() > 1e294;
        assert!(nice(-1e308, 1e308, 5).len() == wide.len() && !nice(-1e308, 1e308, 5).iter().zip(&wide).any(far));
        assert_eq!(of_floats(0.0, 9.0, asked(2, false)).unwrap(), [4.5, 9.0]);
        assert_eq!(of_floats(1e17, 1e17 + 16.0, asked(1000, true)).unwrap(), [1e17 + 16.0]);
        assert_eq!(of_floats(0.0, 5e-324, asked(3, true)).unwrap(), [5e-324]);
        assert!(of_floats(0.0, f64::NAN, asked(2, false)).is_err());
    }

    #[test]
    fn bounds_of_moments() {
        let day = |year, month, day| days_from_civil(year, month, day) * DAY;
        let nice = |low, high, count| of_moments(low, high, asked(count, true)).unwrap();
        assert_eq!(nice(day(1992, 1, 1), day(2000, 1, 1), 2), [day(1996, 1, 1), day(2000, 1, 1)]);
        let (low, high) = (day(1992, 1, 1) + HOUR, day(2000, 1, 1) + 4 * HOUR);
        assert_eq!(nice(low, high, 2), [day(1996, 2, 1), day(2000, 2, 1)]);
        let (low, high) = (day(2024, 6, 21) + 15 * HOUR, day(2024, 6, 22) + 9 * HOUR);
        let half_past_four = 4 * HOUR + HOUR / 2;
        assert_eq!(nice(low, high, 4), [low + half_past_four, day(2024, 6, 22), high - half_past_four, high]);
        assert_eq!(nice(0, 2, 10), [0, 1, 2]);
        // A seventh of three months has a fraction of a day, as has a seventh of the days: together they are whole days.
        let spread = nice(day(1969, 11, 12), day(1970, 2, 27) + 7 * HOUR, 7);
        assert_eq!(spread, [-32, -17, -2, 13, 28, 43, 58].map(|days| days * DAY));
        assert!(of_moments(0, i64::MAX, asked(2, true)).is_err());
    }
}
