//! Errors that a query raises itself.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::own::{Call, Is, Own, typed};

pub(super) fn functions() -> Vec<Own> {
    // Not constant: whether it is called depends on the rows.
    vec![Own::new("error", |t| typed(t, &[Is::Text], DataType::Null), error).volatile()]
}

/// `error(text)`: an error with that text; NULL where the text is.
fn error(call: &Call) -> Result<ArrayRef> {
    match (0..call.rows).find_map(|row| call.text(0, row)) {
        Some(text) => exec_err!("{text}"),
        None => Ok(Arc::new(NullArray::new(call.rows))),
    }
}
