//! Formatting of CSV fields.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::own::{Call, Is, Own, typed};

pub(super) fn functions() -> Vec<Own> {
    vec![Own::new("csv_field", |t| typed(t, &[Is::Text; 5], DataType::Utf8), field)]
}

/// The special characters of a CSV format.
pub(in crate::dialect) struct Marks<'a> {
    /// Between fields.
    pub delimiter: &'a str,
    /// Quote for fields that contain special characters.
    pub quote: &'a str,
    /// Before a quote in quotes.
    pub escape: &'a str,
    /// NULL.
    pub null: &'a str,
}

fn field(call: &Call) -> Result<ArrayRef> {
    call.texts(|row| {
        let mark = |arg: usize| call.text(arg, row).unwrap_or_default();
        let marks = Marks { delimiter: mark(1), quote: mark(2), escape: mark(3), null: mark(4) };
        Ok(call.text(0, row).map(|text| written(text, &marks)))
    })
}

/// A text as a field, in quotes where it could be read as something else.
pub(in crate::dialect) fn written(text: &str, marks: &Marks<'_>) -> String {
    let Marks { delimiter, quote, escape, null } = marks;
    if text != *null && !text.contains(['\n', '\r']) && !text.contains(delimiter) && !text.contains(quote) {
        return text.to_string();
    }
    let escaped = if escape == quote { text.to_string() } else { text.replace(escape, &escape.repeat(2)) };
    format!("{quote}{}{quote}", escaped.replace(quote, &format!("{escape}{quote}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_in_quotes() {
        let marks = Marks { delimiter: ",", quote: "\"", escape: "\"", null: "" };
        for (text, field) in
            [("", "\"\""), ("a", "a"), (" a", " a"), ("a,b", "\"a,b\""), ("a\"b", "\"a\"\"b\""), ("a\nb", "\"a\nb\"")]
        {
            assert_eq!(written(text, &marks), field);
        }
        let marks = Marks { delimiter: "|", quote: "'", escape: "\\", null: "NA" };
        for (text, field) in [("", ""), ("NA", "'NA'"), ("a,b", "a,b"), ("a'\\", "'a\\'\\\\'")] {
            assert_eq!(written(text, &marks), field);
        }
    }
}
