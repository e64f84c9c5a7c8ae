//! How large the results of functions will be.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

/// Functions whose result may be larger than each of their arguments.
pub(super) fn may_grow(name: &str) -> bool {
    matches!(
        name,
        "||" | "array_append"
            | "array_concat"
            | "array_prepend"
            | "array_repeat"
            | "array_replace"
            | "array_replace_all"
            | "array_replace_n"
            | "array_resize"
            | "array_to_string"
            | "array_union"
            | "arrays_zip"
            | "concat"
            | "concat_ws"
            | "encode"
            | "generate_series"
            | "lpad"
            | "make_array"
            | "moment_range"
            | "moment_series"
            | "overlay"
            | "range"
            | "regexp_replace"
            | "regexp_replace_re2"
            | "repeat"
            | "replace"
            | "rpad"
            | "string_to_array"
            | "translate"
    )
}

/// Whether [`Sizes`] is close to the size of the result. Otherwise the result may be much smaller.
pub(super) fn is_exact(name: &str) -> bool {
    !matches!(
        name,
        "array_replace"
            | "array_replace_all"
            | "array_replace_n"
            | "array_to_string"
            | "encode"
            | "lpad"
            | "regexp_replace"
            | "regexp_replace_re2"
            | "replace"
            | "rpad"
            | "string_to_array"
            | "translate"
    )
}

/// The sizes of a function's results, by row.
pub(super) enum Sizes<'a> {
    /// The total length of all arguments, repeated this many times.
    Sum(Vec<Lengths>, usize),
    /// The first as often as the second says.
    Times(Lengths, Numbers<'a>),
    /// A number of pieces of a given size.
    Pieces(Numbers<'a>, Lengths, usize),
    /// The first argument, with each of its bytes replaced by the third.
    Replaced(Lengths, Lengths),
    /// The elements of a series.
    Series([Option<Numbers<'a>>; 3]),
}

impl<'a> Sizes<'a> {
    pub(super) fn of(name: &str, args: &'a [ColumnarValue]) -> Self {
        /// Smallest number of bytes of a list element.
        const ELEMENT: usize = 16;
        let sum = |times| Sizes::Sum(args.iter().map(Lengths::of).collect(), times);
        match (name, args) {
            ("repeat" | "array_repeat", [what, times]) => Sizes::Times(Lengths::of(what), Numbers::of(times)),
            ("lpad" | "rpad", [_, count, ..]) => {
                // Characters have up to four bytes.
                Sizes::Pieces(Numbers::of(count), Lengths::One(4), 1)
            }
            ("array_resize", [_, count, value @ ..]) => {
                Sizes::Pieces(Numbers::of(count), value.first().map_or(Lengths::One(0), Lengths::of), ELEMENT)
            }
            (
                "replace" | "regexp_replace" | "regexp_replace_re2" | "array_replace" | "array_replace_n"
                | "array_replace_all",
                [text, _, by, ..],
            ) => Sizes::Replaced(Lengths::of(text), Lengths::of(by)),
            ("range" | "generate_series" | "moment_range" | "moment_series", args) => {
                let number = |at: usize| args.get(at).map(Numbers::of);
                Sizes::Series(if args.len() == 1 { [None, number(0), None] } else { [number(0), number(1), number(2)] })
            }
            ("string_to_array", _) => sum(ELEMENT),
            ("encode" | "translate" | "array_to_string", _) => sum(4),
            _ => sum(1),
        }
    }

    /// Approximate size of a row's result in bytes.
    pub(super) fn row(&self, row: usize) -> usize {
        match self {
            Sizes::Sum(parts, times) => {
                parts.iter().fold(0usize, |all, part| all.saturating_add(part.row(row))).saturating_mul(*times)
            }
            Sizes::Times(what, times) => what.row(row).max(1).saturating_mul(times.count(row)),
            Sizes::Pieces(count, size, least) => count.count(row).saturating_mul(size.row(row).max(*least)),
            Sizes::Replaced(text, by) => {
                let text = text.row(row);
                text.saturating_add((text.saturating_add(1)).saturating_mul(by.row(row)))
            }
            Sizes::Series([start, stop, step]) => {
                let value = |of: &Option<Numbers<'_>>, otherwise| of.as_ref().map_or(otherwise, |of| of.row(row));
                let (start, stop, step) = (value(start, 0), value(stop, 0), value(step, 1));
                let elements = (stop - start).unsigned_abs() / step.unsigned_abs().max(1) + 1;
                usize::try_from(elements).unwrap_or(usize::MAX).saturating_mul(size_of::<i64>())
            }
        }
    }
}

/// Sizes of values in bytes, by row.
pub(super) enum Lengths {
    One(usize),
    Many(Vec<usize>),
}

impl Lengths {
    fn of(value: &ColumnarValue) -> Self {
        match value {
            ColumnarValue::Scalar(scalar) => Lengths::One(match scalar {
                ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
                    text.as_ref().map_or(0, String::len)
                }
                ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
                    bytes.as_ref().map_or(0, Vec::len)
                }
                scalar => scalar.to_array().map_or(0, |array| lengths(&array)[0]),
            }),
            ColumnarValue::Array(array) => Lengths::Many(lengths(array)),
        }
    }

    fn row(&self, row: usize) -> usize {
        match self {
            Lengths::One(length) => *length,
            Lengths::Many(lengths) => lengths[row],
        }
    }
}

fn lengths(array: &ArrayRef) -> Vec<usize> {
    let rows = 0..array.len();
    match array.data_type() {
        DataType::Utf8 => rows.map(|i| array.as_string::<i32>().value_length(i) as usize).collect(),
        DataType::LargeUtf8 => rows.map(|i| array.as_string::<i64>().value_length(i) as usize).collect(),
        DataType::Utf8View => array.as_string_view().lengths().map(|length| length as usize).collect(),
        DataType::Binary => rows.map(|i| array.as_binary::<i32>().value_length(i) as usize).collect(),
        DataType::LargeBinary => rows.map(|i| array.as_binary::<i64>().value_length(i) as usize).collect(),
        DataType::List(_) => rows.map(|i| elements(&array.as_list::<i32>().value(i))).collect(),
        DataType::LargeList(_) => rows.map(|i| elements(&array.as_list::<i64>().value(i))).collect(),
        // For structures, dictionaries and numbers: the average size per row.
        _ => vec![elements(array).div_ceil(array.len().max(1)); array.len()],
    }
}

/// Bytes of the elements of an array slice.
pub(super) fn elements(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// Integers by row; days or nanoseconds for dates and timestamps.
pub(super) enum Numbers<'a> {
    One(i128),
    Many(&'a ArrayRef),
}

impl<'a> Numbers<'a> {
    fn of(value: &'a ColumnarValue) -> Self {
        match value {
            ColumnarValue::Array(array) => Numbers::Many(array),
            ColumnarValue::Scalar(scalar) => Numbers::One(scalar.to_array().map_or(0, |array| number(&array, 0))),
        }
    }

    fn row(&self, row: usize) -> i128 {
        match self {
            Numbers::One(number) => *number,
            Numbers::Many(array) => number(array, row),
        }
    }

    /// Negative numbers count as 0.
    fn count(&self, row: usize) -> usize {
        usize::try_from(self.row(row).max(0)).unwrap_or(usize::MAX)
    }
}

fn number(array: &ArrayRef, row: usize) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    if array.is_null(row) {
        return 0;
    }
    if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
        return numbers.value(row).into();
    }
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        return i128::from(days.value(row)) * DAY;
    }
    if let Some(steps) = array.as_primitive_opt::<IntervalMonthDayNanoType>() {
        // The shortest months.
        let step = steps.value(row);
        return (i128::from(step.months) * 28 + i128::from(step.days)) * DAY + i128::from(step.nanoseconds);
    }
    if let Some(moments) = array.as_primitive_opt::<TimestampNanosecondType>() {
        return moments.value(row).into();
    }
    if let Some(moments) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        return i128::from(moments.value(row)) * 1000;
    }
    let to = match array.data_type() {
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Date64 | DataType::Utf8 => DataType::Date32,
        DataType::Int64 | DataType::Date32 | DataType::Interval(_) => return 0,
        _ => DataType::Int64,
    };
    arrow::compute::cast(&array.slice(row, 1), &to).map_or(0, |converted| number(&converted, 0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn text(value: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(value))
    }

    fn int(value: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(value))
    }

    #[test]
    fn sizes_by_row() {
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("ab"), None, Some("")])));
        let ints = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(3), None, Some(-1)])));
        let sizes = |name: &str, args: &[ColumnarValue]| {
            let sizes = Sizes::of(name, args);
            (0..3).map(|row| sizes.row(row)).collect::<Vec<_>>()
        };
        assert_eq!(sizes("repeat", &[texts.clone(), int(5)]), [10, 5, 5]);
        assert_eq!(sizes("repeat", &[text("abc"), ints.clone()]), [9, 0, 0]);
        assert_eq!(sizes("repeat", &[text("abc"), int(i64::MAX)])[0], usize::MAX);
        assert_eq!(sizes("concat", &[texts.clone(), text("xyz")]), [5, 3, 3]);
        assert_eq!(sizes("lpad", &[texts.clone(), ints.clone()]), [12, 0, 0]);
        assert_eq!(sizes("replace", &[texts, text("a"), text("1234")]), [14, 4, 4]);
        assert_eq!(sizes("range", &[int(-5), int(5), int(2)])[0], 48);
        assert_eq!(sizes("range", &[ints]), [32, 8, 16]);
        let days = |days| ColumnarValue::Scalar(ScalarValue::Date32(Some(days)));
        let step = ColumnarValue::Scalar(ScalarValue::new_interval_mdn(0, 1, 0));
        assert_eq!(sizes("generate_series", &[days(0), days(10), step])[0], 88);
    }
}
