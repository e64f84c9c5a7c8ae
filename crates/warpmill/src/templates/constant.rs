//! Constants of statements that are parameters of a template: how they are computed from a text's literals.

use arrow::datatypes::{DataType, Date32Type};
use datafusion::common::ScalarValue;

use super::shape::LiteralText;

/// A constant of a statement; its literals by their numbers in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Constant {
    /// `42`, `0.05`.
    Number(usize),
    /// `0.06 - 0.01`.
    Sum { left: usize, right: usize, minus: bool },
    /// `'text'`.
    Text(usize),
    /// `'%text_'` after LIKE; the wildcards of it, which all values have, with an `x` for the characters between two.
    Pattern { text: usize, wildcards: String },
    /// `DATE '1995-01-01'`.
    Date(usize),
    /// `DATE '1995-01-01' + INTERVAL '1' YEAR`.
    Shifted { date: usize, by: usize, unit: Unit, back: bool },
}

/// The unit of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Day,
    Month,
    Year,
}

impl Constant {
    /// The numbers of its literals.
    pub fn literals(&self) -> Vec<usize> {
        match *self {
            Self::Number(only) | Self::Text(only) | Self::Date(only) | Self::Pattern { text: only, .. } => vec![only],
            Self::Sum { left, right, .. } => vec![left, right],
            Self::Shifted { date, by, .. } => vec![date, by],
        }
    }

    /// The value in a text with these literals; `None` where planning has to say.
    pub fn value(&self, literals: &[LiteralText]) -> Option<ScalarValue> {
        match *self {
            Self::Number(at) => number(&literals[at].text),
            Self::Sum { left, right, minus } => sum(&literals[left].text, &literals[right].text, minus),
            Self::Text(at) => Some(ScalarValue::Utf8(Some(literals[at].text.clone()))),
            Self::Pattern { text, ref wildcards } => {
                let text = &literals[text].text;
                (wildcards_of(text) == *wildcards).then(|| ScalarValue::Utf8(Some(text.clone())))
            }
            Self::Date(at) => date(&literals[at].text).map(|days| ScalarValue::Date32(Some(days))),
            Self::Shifted { date: at, by, unit, back } => {
                let by = literals[by].text.parse::<u16>().ok().map(i32::from)?;
                let by = if back { -by } else { by };
                let days = date(&literals[at].text)?;
                let shifted = match unit {
                    Unit::Day => days.checked_add(by)?,
                    Unit::Month => Date32Type::add_year_months_opt(days, by)?,
                    Unit::Year => Date32Type::add_year_months_opt(days, by * 12)?,
                };
                Some(ScalarValue::Date32(Some(shifted)))
            }
        }
    }
}

/// The wildcards of a pattern, with an `x` for the characters between two.
pub(crate) fn wildcards_of(pattern: &str) -> String {
    let mut found = String::new();
    for c in pattern.chars() {
        match c {
            '%' | '_' => found.push(c),
            _ if found.ends_with('x') => {}
            _ => found.push('x'),
        }
    }
    found
}

/// `value` as `ty`, where nothing of it is lost.
pub(crate) fn converted(value: &ScalarValue, ty: &DataType) -> Option<ScalarValue> {
    let from = value.data_type();
    if from == *ty {
        return Some(value.clone());
    }
    let is_number = |ty: &DataType| ty.is_integer() || ty.is_decimal() || *ty == DataType::Float64;
    let dates = matches!((&from, ty), (DataType::Date32, DataType::Timestamp(_, None)));
    if !(dates || is_number(&from) && is_number(ty)) {
        return None;
    }
    let to = value.cast_to(ty).ok().filter(|to| !to.is_null())?;
    (to.cast_to(&from).ok()? == *value).then_some(to)
}

fn number(text: &str) -> Option<ScalarValue> {
    match decimal(text)? {
        (value, 0) => Some(ScalarValue::Int64(i64::try_from(value).ok())),
        (value, scale) => Some(ScalarValue::Decimal128(Some(value), precision(value, scale)?, scale as i8)),
    }
}

fn sum(left: &str, right: &str, minus: bool) -> Option<ScalarValue> {
    let ((left, scale), (right, other)) = (decimal(left)?, decimal(right)?);
    // Sums of integers have types that planning chooses.
    let both = scale.max(other);
    let at = |value: i128, scale: usize| value.checked_mul(10i128.checked_pow((both - scale) as u32)?);
    let right = if minus { -right } else { right };
    let value = at(left, scale)?.checked_add(at(right, other)?)?;
    (both > 0).then_some(())?;
    Some(ScalarValue::Decimal128(Some(value), precision(value, both)?, both as i8))
}

/// The digits of a number as an integer, and how many of them follow the point.
fn decimal(text: &str) -> Option<(i128, usize)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    Some((format!("{whole}{fraction}").parse().ok()?, fraction.len()))
}

fn precision(value: i128, scale: usize) -> Option<u8> {
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1).max(scale);
    (digits <= 38).then_some(digits as u8)
}

/// The days since 1970 of a date that is written with ten characters.
fn date(text: &str) -> Option<i32> {
    let is_digit = |at: usize, byte: u8| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    if text.len() != 10 || !text.bytes().enumerate().all(|(at, byte)| is_digit(at, byte)) || text.starts_with("0000") {
        return None;
    }
    match ScalarValue::Utf8(Some(text.to_owned())).cast_to(&DataType::Date32).ok()? {
        ScalarValue::Date32(days) => days,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(texts: &[&str]) -> Vec<LiteralText> {
        let literal = |text: &&str| LiteralText { at: 0, text: (*text).to_owned(), is_string: true };
        texts.iter().map(literal).collect()
    }

    fn day(text: &str) -> Option<ScalarValue> {
        Constant::Date(0).value(&literals(&[text]))
    }

    #[test]
    fn dates_are_shifted_as_calendars_do() {
        let shifted = |text: &str, by: &str, unit, back| {
            Constant::Shifted { date: 0, by: 1, unit, back }.value(&literals(&[text, by]))
        };
        assert_eq!(shifted("1996-02-29", "1", Unit::Year, false), day("1997-02-28"));
        assert_eq!(shifted("1998-12-01", "90", Unit::Day, true), day("1998-09-02"));
        assert_eq!(shifted("1995-01-31", "1", Unit::Month, false), day("1995-02-28"));
        assert_eq!(shifted("1995-01-31", "x", Unit::Month, false), None);
        for bad in ["1995-02-30", "1995-1-01", "19950101", "0000-01-01", "1995-01-01 10:00:00", "+995-01-01"] {
            assert_eq!(day(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_have_the_types_of_their_digits() {
        let number = |text: &str| Constant::Number(0).value(&literals(&[text]));
        assert_eq!(number("42"), Some(ScalarValue::Int64(Some(42))));
        assert_eq!(number("0.05"), Some(ScalarValue::Decimal128(Some(5), 2, 2)));
        assert_eq!(number("10.50"), Some(ScalarValue::Decimal128(Some(1050), 4, 2)));
        let sum = |minus| Constant::Sum { left: 0, right: 1, minus }.value(&literals(&["0.06", "0.1"]));
        assert_eq!(sum(false), Some(ScalarValue::Decimal128(Some(16), 2, 2)));
        assert_eq!(sum(true), Some(ScalarValue::Decimal128(Some(-4), 2, 2)));
    }

    #[test]
    fn patterns_keep_their_wildcards() {
        for (pattern, wildcards) in [("%green%", "%x%"), ("x_%", "x_%"), ("%a%bc%", "%x%x%"), ("%", "%"), ("", "")] {
            assert_eq!(wildcards_of(pattern), wildcards);
        }
        let pattern = Constant::Pattern { text: 0, wildcards: "%x".into() };
        assert_eq!(pattern.value(&literals(&["%BRASS"])), Some(ScalarValue::Utf8(Some("%BRASS".into()))));
        assert_eq!(pattern.value(&literals(&["%BRASS%"])), None);
    }

    #[test]
    fn conversions_lose_nothing() {
        let price = DataType::Decimal128(15, 2);
        let to = |value: ScalarValue, ty: &DataType| converted(&value, ty);
        assert_eq!(to(ScalarValue::Int64(Some(24)), &price), Some(ScalarValue::Decimal128(Some(2400), 15, 2)));
        assert_eq!(to(ScalarValue::Decimal128(Some(1505), 4, 3), &price), None);
        assert_eq!(to(ScalarValue::Int64(Some(300)), &DataType::Int8), None);
        assert_eq!(to(ScalarValue::Utf8(Some("1".into())), &DataType::Int64), None);
        assert_eq!(to(ScalarValue::Int64(Some(1)), &DataType::Utf8), None);
        let half = ScalarValue::Decimal128(Some(105), 3, 1);
        assert_eq!(to(half, &DataType::Float64), Some(ScalarValue::Float64(Some(10.5))));
        assert_eq!(to(ScalarValue::Int64(Some((1 << 53) + 1)), &DataType::Float64), None);
    }
}
