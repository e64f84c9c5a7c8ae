//! The common parts of tests of whole queries.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use warpmill::QueryResult;

/// Rows as text, sorted; floats rounded: sums of floats depend on their order.
pub fn sorted_rows(result: &QueryResult) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &result.batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let text = |column: &ArrayFormatter<'_>| {
                let text = column.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(x) if text.contains('.') => format!("{x:.9e}"),
                    _ => text,
                }
            };
            rows.push(columns.iter().map(text).collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort();
    rows
}
