//! Examples of values that are not known yet: estimates use them as the values.

use std::borrow::Cow;
use std::collections::HashMap;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;

use super::selectivity::{position, strip};

/// The names of examples in the metadata of a placeholder's field.
const POSITION: &str = "warpmill.position";
const TEXT: &str = "warpmill.text";

/// The metadata that gives a placeholder's field `value` as its example.
pub(crate) fn example_metadata(value: &ScalarValue) -> HashMap<String, String> {
    let text = value.try_as_str().flatten().map(|text| (TEXT.to_string(), text.to_string()));
    let place = || position(value).map(|place| (POSITION.to_string(), place.to_string()));
    text.or_else(place).into_iter().collect()
}

/// The constant below the casts of `expr`, or its example: a text, or a number with the position of the value.
pub(super) fn constant(expr: &Expr) -> Option<Cow<'_, ScalarValue>> {
    match strip(expr) {
        Expr::Literal(value, _) => Some(Cow::Borrowed(value)),
        Expr::Placeholder(Placeholder { field: Some(field), .. }) => {
            if let Some(text) = field.metadata().get(TEXT) {
                return Some(Cow::Owned(ScalarValue::from(text.as_str())));
            }
            let place = field.metadata().get(POSITION)?.parse().ok()?;
            Some(Cow::Owned(ScalarValue::Float64(Some(place))))
        }
        _ => None,
    }
}
