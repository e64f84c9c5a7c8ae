//! Queries of many threads at once on one simulated device with little memory, and data that passes through it.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs them on a GPU instead.

mod concurrent;
mod parts;
mod streamed;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use warpmill::{QueryProfile, QueryResult};

fn device() -> String {
    std::env::var("WARPMILL_TEST_DEVICE").unwrap_or_else(|_| "sim".to_string())
}

/// Rows as text, in one order; averages rounded.
fn rows(result: &QueryResult) -> Vec<String> {
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

fn reasons(profile: &QueryProfile) -> Vec<String> {
    profile.programs.iter().filter_map(|program| program.not_on_device.clone()).collect()
}
