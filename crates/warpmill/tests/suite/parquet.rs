//! Parquet files on the simulated device: it decodes their pages, and has the CPU's answers; every type, codec and page version of
//! `tests/fixtures/parquet`. Against DuckDB: `tests/python/test_parquet_device.py`.

use std::path::{Path, PathBuf};

use arrow::util::pretty::pretty_format_batches;
use warpmill::{QueryResult, Session};

use crate::machine_code;

fn session(device: &str, file: &Path) -> Session {
    let session = Session::builder().set("warpmill.device", device).set("warpmill.device_fallback", "error");
    // Files are decoded in every run.
    let session = session.set("warpmill.column_cache", "off").build().unwrap();
    session.register_parquet("t", file.to_str().unwrap()).unwrap();
    session
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/parquet");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    files.sort();
    files
}

/// Columns that the device and the host decoded.
fn decoded(result: &QueryResult) -> (u64, u64) {
    let profile = result.profile.as_ref().unwrap();
    let mut counts = (0, 0);
    for program in &profile.programs {
        assert_eq!(program.device, "sim", "{profile}");
        assert!(program.decoded_on_host.is_empty(), "{profile}");
        for scan in &program.on_device.as_ref().unwrap().scans {
            let parquet = scan.parquet.as_ref().unwrap();
            counts = (counts.0 + parquet.by_device, counts.1 + parquet.by_host);
        }
    }
    counts
}

const QUERIES: [&str; 4] = [
    "SELECT count(*), sum(k), min(i), max(i), sum(runs), min(small), max(u), sum(money), max(wide), count(none) FROM t \
     WHERE k >= 0",
    "SELECT word, b, count(*), min(day), max(at), max(text), sum(g) FROM t GROUP BY word, b ORDER BY word, b",
    "SELECT k, f, g, text, word, money FROM t WHERE i IS NULL AND text LIKE '%7%' ORDER BY k",
    "SELECT a.k, b.text FROM t a JOIN t b ON a.k = b.k WHERE a.runs = 4 ORDER BY a.k",
];

#[test]
fn the_device_decodes_what_the_cpu_does() {
    machine_code::record();
    for file in files() {
        let (device, cpu) = (session("sim", &file), session("cpu", &file));
        for query in QUERIES {
            let (found, expected) = (device.execute(query, &[]).unwrap(), cpu.execute(query, &[]).unwrap());
            let text = |result: &QueryResult| pretty_format_batches(&result.batches).unwrap().to_string();
            assert_eq!(text(&found), text(&expected), "{}: {query}", file.display());
            let (by_device, by_host) = decoded(&found);
            assert!(by_device > 0 && by_host == 0, "{}: {query}", file.display());
        }
    }
    machine_code::check("Parquet");
}

#[test]
fn explain_shows_the_scan() {
    let file = files().remove(0);
    let text = session("sim", &file).explain(QUERIES[2], false).unwrap();
    assert!(
        text.contains("scan duckdb_snappy.parquet [k, i, f")
            && text.contains("runs on")
            && text.contains("program 0: sim"),
        "{text}"
    );
}

/// A query that does not fit the device runs on the CPU, which gets the rows from DataFusion.
#[test]
fn too_little_device_memory_leaves_it_to_the_cpu() {
    let file = files().remove(0);
    let small =
        Session::builder().set("warpmill.device", "sim").set("warpmill.gpu_memory_limit", "64kB").build().unwrap();
    small.register_parquet("t", file.to_str().unwrap()).unwrap();
    let cpu = session("cpu", &file);
    let (found, expected) = (small.execute(QUERIES[1], &[]).unwrap(), cpu.execute(QUERIES[1], &[]).unwrap());
    let text = |result: &QueryResult| pretty_format_batches(&result.batches).unwrap().to_string();
    assert_eq!(text(&found), text(&expected));
    let program = &found.profile.as_ref().unwrap().programs[0];
    assert_eq!(program.device, "cpu");
    assert!(program.not_on_device.as_ref().unwrap().contains("device memory"), "{:?}", program.not_on_device);
}
