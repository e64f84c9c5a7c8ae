//! TPC-H and SSB on the simulated device: all of every query runs there, with the CPU back end's answers.
//!
//! Their kernels are also compiled by NVRTC, for GPUs that need not be there.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs them on a GPU instead, `WARPMILL_TEST_SF` at another scale factor,
//! `WARPMILL_TEST_QUERIES=1,2` only some.

mod machine_code;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use warpmill::{QueryResult, Session};
use warpmill_datagen::Suite;
use warpmill_format::Table;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_string())
}

fn session(suite: Suite) -> Session {
    let sf: f64 = setting("WARPMILL_TEST_SF", "0.01").parse().unwrap();
    let session =
        Session::builder().set("warpmill.fallback", "error").set("warpmill.device_fallback", "error").build().unwrap();
    for name in warpmill_datagen::tables(suite) {
        let table = Table::in_memory(warpmill_datagen::schema(suite, name).unwrap());
        let mut writer = table.append(Default::default()).unwrap();
        for part in 0..warpmill_datagen::parts(suite, name, sf).unwrap() {
            for batch in warpmill_datagen::generate(suite, name, sf, part).unwrap() {
                writer.write(&batch).unwrap();
            }
        }
        writer.commit().unwrap();
        session.register_table(name, table);
    }
    session
}

/// Rows as text, floats rounded: sums of floats depend on their order.
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
    rows
}

fn check(suite: Suite) {
    machine_code::record();
    let session = session(suite);
    let device = setting("WARPMILL_TEST_DEVICE", "sim");
    let chosen = setting("WARPMILL_TEST_QUERIES", "");
    let mut failures = vec![];
    for query in warpmill_datagen::queries(suite) {
        if !chosen.is_empty() && !chosen.split(',').any(|name| name == query.name) {
            continue;
        }
        session.set("warpmill.device", "cpu").unwrap();
        let expected = rows(&session.execute(query.sql, &[]).unwrap());
        session.set("warpmill.device", &device).unwrap();
        match session.execute(query.sql, &[]) {
            Err(error) => failures.push(format!("{}: {error}", query.name)),
            Ok(result) => {
                let profile = result.profile.clone().unwrap();
                let elsewhere: Vec<_> = profile.programs.iter().filter_map(|p| p.not_on_device.clone()).collect();
                let (mut found, mut expected) = (rows(&result), expected);
                // Rows whose sort keys are equal come in any order.
                found.sort();
                expected.sort();
                if !elsewhere.is_empty() {
                    failures.push(format!("{}: not on the device: {}", query.name, elsewhere.join("; ")));
                } else if found != expected {
                    let differing = found.iter().zip(&expected).find(|(a, b)| a != b);
                    let (found, expected) = (found.len(), expected.len());
                    failures.push(format!("{}: {found} rows for {expected}, {differing:?}", query.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    machine_code::check(suite.name());
}

#[test]
fn ssb() {
    check(Suite::Ssb);
}

#[test]
fn tpch() {
    check(Suite::Tpch);
}
