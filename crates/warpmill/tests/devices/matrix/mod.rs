//! Every operator on every type, with no NULLs, some, and only NULLs, over zero, one and many rows: on the simulated device, which must run all of it
//! (`device_fallback = 'error'`), against the CPU back end.
//!
//! [`refusals`] lists the refusals that a device may give; the tests expect exactly these.

mod aggregates;
mod constants;
pub mod data;
mod functions;
mod joins;
mod refusals;
mod sorts;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use warpmill::{QueryResult, Session};

use crate::device;

/// A session with the given tables that refuses to run anything off the device.
fn session(tables: Vec<(&str, RecordBatch)>) -> Session {
    let session = Session::builder().set("warpmill.device_fallback", "error").build().unwrap();
    session.set("warpmill.device", "cpu").unwrap();
    for (name, batch) in tables {
        let given = format!("given_{name}");
        session.register_batches(&given, batch.schema(), vec![batch]).unwrap();
        session.execute(&format!("CREATE TABLE {name} AS SELECT * FROM {given}"), &[]).unwrap();
    }
    session.set("warpmill.fallback", "error").unwrap();
    session
}

fn rows(result: &QueryResult) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &result.batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()));
    }
    rows
}

/// Whether texts are equal, or are floats that differ in their last digits only: sums depend on the order of rows.
fn alike(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        _ if a == b => true,
        (Ok(x), Ok(y)) if a.contains(['.', 'e']) || b.contains(['.', 'e']) => {
            (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
        }
        _ => false,
    }
}

/// A sort key that is equal for rows that are `alike`.
fn sort_key(row: &[String]) -> Vec<String> {
    let rounded = |text: &String| match text.parse::<f64>() {
        // 0 and -0 are equal.
        Ok(x) if text.contains(['.', 'e']) => format!("{:.6e}", x + 0.0),
        _ => text.clone(),
    };
    row.iter().map(rounded).collect()
}

/// Runs `sql` on both sites; returns the difference. `ordered`: the order of rows matters.
fn difference(session: &Session, sql: &str, ordered: bool) -> Option<String> {
    session.set("warpmill.device", "cpu").unwrap();
    let expected = session.execute(sql, &[]).map(|result| rows(&result));
    session.set("warpmill.device", &device()).unwrap();
    let found = session.execute(sql, &[]);
    let (mut expected, found) = match (expected, found) {
        (Ok(expected), Ok(found)) => (expected, found),
        (Err(cpu), Err(device)) => return Some(format!("{sql}\n  both fail: {cpu}\n  {device}")),
        (Err(error), Ok(_)) => return Some(format!("{sql}\n  only the CPU fails: {error}")),
        (Ok(_), Err(error)) => return Some(format!("{sql}\n  {error}")),
    };
    let profile = found.profile.clone().unwrap_or_default();
    if let Some(reason) = profile.programs.iter().find_map(|program| program.not_on_device.clone()) {
        return Some(format!("{sql}\n  not on the device: {reason}"));
    }
    let mut found = rows(&found);
    if !ordered {
        found.sort_by_key(|row| sort_key(row));
        expected.sort_by_key(|row| sort_key(row));
    }
    if found.len() != expected.len() {
        return Some(format!("{sql}\n  {} rows for {}", found.len(), expected.len()));
    }
    let same = |(a, b): &(&Vec<String>, &Vec<String>)| a.iter().zip(*b).all(|(a, b)| alike(a, b));
    let (a, b) = found.iter().zip(&expected).find(|pair| !same(pair))?;
    Some(format!("{sql}\n  found    {}\n  expected {}", a.join("|"), b.join("|")))
}

/// Fails with all differences of some queries.
fn check(session: &Session, queries: &[String], ordered: bool) {
    assert!(!queries.is_empty());
    let failures: Vec<String> = queries.iter().filter_map(|sql| difference(session, sql, ordered)).collect();
    assert!(failures.is_empty(), "{} of {} differ\n{}", failures.len(), queries.len(), failures.join("\n"));
}
