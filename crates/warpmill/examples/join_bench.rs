//! Times a join whose hash build takes four times the permitted device memory, with each strategy, and prints JSON: `join_bench [ROWS of the build
//! side, default 20000000] [gpu|sim] [RUNS, default 5]`.
//!
//! Four columns of 8 bytes are fetched for every match; a probe side of four times as many rows finds partners for all of them, or for one in a
//! hundred; the build side is sorted by its keys, or not. Every result is compared with the CPU back end's.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use warpmill::{QueryResult, Session};

/// A way to join, measured.
#[derive(Serialize)]
struct Measured {
    /// Whether the build side is in the order of its keys.
    ordered: bool,
    /// Fraction of the probe side's rows with a partner.
    matching: f64,
    /// Value of `warpmill.device_join`.
    setting: &'static str,
    /// The strategy used for joins larger than device memory, `device` if everything fitted, or `cpu`.
    strategy: String,
    /// Median of the hot runs, and time of the first run, in milliseconds.
    hot_ms: f64,
    first_ms: f64,
    /// The prediction for each strategy, in milliseconds; `None` if it is not possible.
    predicted_ms: BTreeMap<&'static str, Option<f64>>,
    /// For the last run: time until the device had finished, with its rows on the host; and time on the CPU after that.
    device_ms: f64,
    host_ms: f64,
    /// Bytes of rows that the device gave.
    bytes_back: u64,
    /// Bytes sent again for parts, and bytes of page-locked memory for rows.
    bytes_again: u64,
    mapped_bytes: u64,
    parts: u64,
    not_on_device: Option<String>,
    equal_to_cpu: bool,
}

/// The run.
#[derive(Serialize)]
struct Report {
    device: String,
    build_rows: usize,
    probe_rows: usize,
    gpu_memory_limit: usize,
    build_bytes: usize,
    results: Vec<Measured>,
}

fn text(result: &QueryResult) -> String {
    format!("{:?}", result.batches.iter().map(|batch| batch.columns().to_vec()).collect::<Vec<_>>())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn measure(
    session: &Session,
    (device, runs): (&str, usize),
    setting: &'static str,
    (ordered, matching): (bool, f64),
    sql: &str,
) -> Measured {
    session.set("warpmill.device", "cpu").unwrap();
    let expected = text(&session.execute(sql, &[]).unwrap());
    session.set("warpmill.device", device).unwrap();
    session.set("warpmill.device_join", setting).unwrap();
    let (mut times, mut equal, mut profile) = (vec![], true, None);
    for _ in 0..=runs {
        let started = Instant::now();
        let result = session.execute(sql, &[]).unwrap();
        times.push(started.elapsed().as_secs_f64() * 1e3);
        equal &= text(&result) == expected;
        profile = result.profile;
    }
    let profile = profile.unwrap();
    let program = &profile.programs[0];
    let on_device = program.on_device.as_ref();
    let plan = on_device.and_then(|on_device| on_device.join.as_ref());
    let predicted = plan.map(|plan| plan.predicted.all().map(|(way, time)| (way.name(), time.map(|time| time * 1e3))));
    let otherwise = if on_device.is_some() { "device" } else { "cpu" };
    Measured {
        ordered,
        matching,
        setting,
        strategy: plan.map_or(otherwise, |plan| plan.strategy.name()).to_string(),
        first_ms: times.remove(0),
        hot_ms: median(times),
        predicted_ms: predicted.map(BTreeMap::from).unwrap_or_default(),
        device_ms: on_device.map_or(0.0, |on_device| on_device.device_nanos as f64 / 1e6),
        host_ms: on_device.map_or(0.0, |on_device| on_device.host_nanos as f64 / 1e6),
        bytes_back: on_device.map_or(0, |on_device| {
            let back = on_device.transfers.iter().filter(|transfer| transfer.what == "rows to the host");
            back.map(|transfer| transfer.bytes).sum()
        }),
        bytes_again: on_device.map_or(0, |on_device| on_device.bytes_again),
        mapped_bytes: on_device.map_or(0, |on_device| on_device.mapped_bytes),
        parts: on_device.map_or(0, |on_device| on_device.parts.iter().map(|part| part.parts).max().unwrap_or(1)),
        not_on_device: program.not_on_device.clone(),
        equal_to_cpu: equal,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (rows, runs) = (number(0, 20_000_000), number(2, 5).max(1));
    let device = arguments.get(1).map_or("gpu", String::as_str).to_string();
    let session = Session::builder().set("warpmill.join_order", "off").build().unwrap();
    session.set("warpmill.device", "cpu").unwrap();
    // Row segments are small compared with the memory, for any number of rows.
    let segment_rows = (rows / 64 / 1024 * 1024).clamp(1024, 1 << 20);
    session.set("warpmill.segment_rows", &segment_rows.to_string()).unwrap();
    let sql = |text: String| drop(session.execute(&text, &[]).unwrap_or_else(|error| panic!("{text}: {error}")));
    // Numbers of 48 bits, which no encoding makes much smaller; every key once.
    let wide = [2654435761u64, 2246822519, 3266489917, 668265263]
        .iter()
        .zip(["a", "b", "c", "d"])
        .map(|(factor, name)| format!("value * {factor} % 4294967291 * 65537 AS {name}"));
    let wide = wide.collect::<Vec<_>>().join(", ");
    sql(format!("CREATE TABLE ordered AS SELECT value AS k, {wide} FROM range({rows}) AS r(value)"));
    sql(format!("CREATE TABLE shuffled AS SELECT value * 7919 % {rows} AS k, {wide} FROM range({rows}) AS r(value)"));
    sql(format!(
        "CREATE TABLE probe AS SELECT value * 104729 % {rows} AS k, value % 100 AS x FROM range({}) AS r(value)",
        4 * rows
    ));
    let build_bytes = rows * 4 * 8;
    let limit = build_bytes / 4;
    session.set("warpmill.gpu_memory_limit", &limit.to_string()).unwrap();
    let mut results = vec![];
    for (build, ordered) in [("ordered", true), ("shuffled", false)] {
        for (matching, condition) in [(1.0, "x >= 0"), (0.01, "x = 7")] {
            let query = format!(
                "SELECT count(*), sum(a % 1000 + b % 1000 + c % 1000 + d % 1000) FROM {build} JOIN probe ON {build}.k = probe.k
                 WHERE {condition}"
            );
            for setting in ["partitioned", "hybrid", "fallback", "naive", "cpu", "auto"] {
                results.push(measure(&session, (&device, runs), setting, (ordered, matching), &query));
            }
        }
    }
    let wrong = results.iter().filter(|measured| !measured.equal_to_cpu).count();
    let report =
        Report { device, build_rows: rows, probe_rows: 4 * rows, gpu_memory_limit: limit, build_bytes, results };
    println!("{}", serde_json::to_string_pretty(&report).unwrap());
    std::process::exit(i32::from(wrong > 0));
}
