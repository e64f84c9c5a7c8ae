//! TPC-H and SSB on the simulated device: all of every query runs there, with the CPU back end's answers, from data that are resident on the device
//! and from data that are streamed.
//!
//! The kernels are also compiled by NVRTC; no GPU is needed.
//!
//! `WARPMILL_TEST_DEVICE=gpu` runs them on a GPU instead, `WARPMILL_TEST_SF` at another scale factor,
//! `WARPMILL_TEST_QUERIES=1,2` only some.

use warpmill::{QueryResult, Session};
use warpmill_datagen::Suite;
use warpmill_format::Table;
use warpmill_format::table::WriteOptions;

use crate::machine_code;
use crate::support::sorted_rows;

fn setting(name: &str, default: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| default.to_string())
}

fn session(suite: Suite) -> Session {
    let sf: f64 = setting("WARPMILL_TEST_SF", "0.01").parse().unwrap();
    let session =
        Session::builder().set("warpmill.fallback", "error").set("warpmill.device_fallback", "error").build().unwrap();
    for name in warpmill_datagen::tables(suite) {
        let table = Table::in_memory(warpmill_datagen::schema(suite, name).unwrap());
        // Several row segments, so that several batches are streamed.
        let options = WriteOptions { segment_rows: 16 << 10, ..WriteOptions::default() };
        let mut writer = table.append(options).unwrap();
        for part in 0..warpmill_datagen::parts(suite, name, sf).unwrap() {
            for batch in warpmill_datagen::generate(suite, name, sf, part).unwrap() {
                writer.write(&batch).unwrap();
            }
        }
        writer.commit().unwrap();
        session.register_table(name, table).unwrap();
    }
    session
}

/// The difference in a result; `expected` is sorted.
fn difference(result: &QueryResult, expected: &[String]) -> Option<String> {
    let profile = result.profile.clone().unwrap();
    let elsewhere: Vec<_> = profile.programs.iter().filter_map(|program| program.not_on_device.clone()).collect();
    if !elsewhere.is_empty() {
        return Some(format!("not on the device: {}", elsewhere.join("; ")));
    }
    let found = sorted_rows(result);
    (found != expected).then(|| {
        let differing = found.iter().zip(expected).find(|(a, b)| a != b);
        format!("{} rows for {}, {differing:?}", found.len(), expected.len())
    })
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
        // Rows whose sort keys are equal come in any order.
        let expected = sorted_rows(&session.execute(query.sql, &[]).unwrap());
        session.set("warpmill.device", &device).unwrap();
        for data in ["cache", "host"] {
            session.set("warpmill.device_data", data).unwrap();
            let failure = match session.execute(query.sql, &[]) {
                Err(error) => Some(error.to_string()),
                Ok(result) => difference(&result, &expected),
            };
            failures.extend(failure.map(|failure| format!("{} ({data}): {failure}", query.name)));
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

/// Kernels for GPUs read and write strings in host memory, too.
#[test]
fn rows_of_joins_on_the_host() {
    machine_code::record();
    let session = session(Suite::Tpch);
    let sql = "SELECT c_name, o_comment, c_address, sum(l_quantity) FROM customer JOIN orders ON c_custkey = o_custkey
               LEFT JOIN lineitem ON l_orderkey = o_orderkey GROUP BY c_name, o_comment, c_address";
    session.set("warpmill.device", "cpu").unwrap();
    let expected = sorted_rows(&session.execute(sql, &[]).unwrap());
    session.set("warpmill.device", &setting("WARPMILL_TEST_DEVICE", "sim")).unwrap();
    session.set("warpmill.device_join", "hybrid").unwrap();
    for parts in ["1", "2"] {
        session.set("warpmill.device_partitions", parts).unwrap();
        let result = session.execute(sql, &[]).unwrap();
        assert_eq!(difference(&result, &expected), None);
        let profile = result.profile.unwrap();
        assert!(profile.programs[0].on_device.as_ref().unwrap().mapped_bytes > 0, "{profile}");
    }
    machine_code::check("joins with rows on the host");
}
