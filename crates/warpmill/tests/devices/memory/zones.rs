//! Zones that metadata rules out within row segments.

use warpmill::{QueryProfile, Session};

use crate::matrix::data::{self, Nulls};
use crate::support::sorted_rows;
use crate::{device, reasons};

const ROWS: usize = 45_000;

/// Two tables with a column of every type, and also deltas, runs, patched values and long strings, with some or no NULLs: `fine` has small zones,
/// `coarse` larger ones. Row segments are larger than both.
fn tables(database: &std::path::Path) -> Session {
    let mut session = Session::builder().database(database);
    for (key, value) in [("device", "cpu"), ("segment_rows", "16384"), ("pruning_metadata", "all")] {
        session = session.set(&format!("warpmill.{key}"), value);
    }
    let session = session.build().unwrap();
    let columns = "id, grp, b, i, l, d, w, f, x, y, day, ts, code, name,
         id / 300 AS run, CASE WHEN id % 97 = 0 THEN 3000000017 * id ELSE id % 8 END AS patched,
         repeat('x', id % 40) || id AS long, CAST(3000000000 AS BIGINT) AS same";
    for (name, nulls, zone_rows) in [("fine", Nulls::Some, "1024"), ("coarse", Nulls::None, "4096")] {
        let batch = data::table(3, ROWS, 3000, nulls);
        session.register_batches(&format!("given_{name}"), batch.schema(), vec![batch]).unwrap();
        session.set("warpmill.zone_rows", zone_rows).unwrap();
        session
            .execute(&format!("CREATE TABLE {name} AS SELECT {columns} FROM given_{name} ORDER BY id"), &[])
            .unwrap();
    }
    session.set("warpmill.fallback", "error").unwrap();
    session
}

/// Bytes that kernels scanning `table` read.
fn bytes_of(profile: &QueryProfile, table: &str) -> u64 {
    let kernels = profile.programs.iter().filter_map(|program| program.on_device.as_ref()).flat_map(|run| &run.kernels);
    kernels.filter(|kernel| kernel.label.ends_with(&format!("scan {table}"))).map(|kernel| kernel.bytes).sum()
}

#[test]
fn kernels_do_not_look_at_zones_that_are_ruled_out() {
    let folder = tempfile::tempdir().unwrap();
    let session = tables(folder.path());
    // The fraction of rows in remaining zones of 1024 rows, and of 4096.
    let conditions = [
        // One zone within a row segment.
        ("id BETWEEN 3000 AND 3010", [0.023, 0.10]),
        // The end of one row segment and the beginning of the next.
        ("id BETWEEN 15000 AND 17000", [0.07, 0.19]),
        // Several, far apart, the last one incomplete.
        ("id IN (0, 5000, 5001, 20000, 33000, 44999)", [0.115, 0.46]),
        // More than a row segment, but for its beginning.
        ("id > 5000 AND id < 40000", [0.83, 0.83]),
        ("id >= 0", [1.0, 1.0]),
        ("id < 0", [0.0, 0.0]),
    ];
    let columns = format!("{}, run, patched, long, same", data::COLUMNS.join(", "));
    let extremes: Vec<String> = data::COLUMNS
        .iter()
        .chain(&["run", "patched", "long", "same"])
        .map(|c| format!("count({c}), min({c}), max({c})"))
        .collect();
    let mut pruned = 0;
    for (condition, parts) in conditions {
        for (table, part) in ["fine", "coarse"].into_iter().zip(parts) {
            let queries = [
                format!("SELECT id, {columns} FROM {table} WHERE {condition}"),
                format!(
                    "SELECT grp, count(*), sum(id), {} FROM {table} WHERE {condition} GROUP BY grp",
                    extremes.join(", ")
                ),
                format!("SELECT count(*), sum(i), max(long) FROM {table} WHERE ({condition}) AND i > 700"),
            ];
            for query in queries {
                session.set("warpmill.device", "cpu").unwrap();
                let expected = sorted_rows(&session.execute(&query, &[]).unwrap());
                session.set("warpmill.device", &device()).unwrap();
                session.set("warpmill.device_fallback", "error").unwrap();
                for data in ["cache", "host", "pinned", "disk"] {
                    session.set("warpmill.device_data", data).unwrap();
                    let mut bytes = vec![];
                    for mode in ["none", "all"] {
                        session.set("warpmill.pruning", mode).unwrap();
                        let result = match session.execute(&query, &[]) {
                            Err(error) if error.to_string().contains("read directly") => continue,
                            result => result.unwrap_or_else(|error| panic!("{data}, {mode}: {query}: {error}")),
                        };
                        assert_eq!(sorted_rows(&result), expected, "{data}, {mode}: {query}");
                        let profile = result.profile.unwrap();
                        assert!(reasons(&profile).is_empty(), "{data}: {query}: {:?}", reasons(&profile));
                        bytes.push(bytes_of(&profile, table));
                    }
                    let &[none, all] = &bytes[..] else { continue };
                    assert!(all as f64 <= none as f64 * part, "{data}: {all} of {none} bytes: {query}");
                    pruned += usize::from(all < none);
                }
            }
        }
    }
    assert!(pruned > 60, "{pruned}");
}

/// Build sides, joins, sorts and partitioned sinks scan only the remaining zones, too.
#[test]
fn joins_and_parts_go_through_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let session = tables(folder.path());
    let queries = [
        "SELECT count(*), sum(a.i), max(b.long) FROM fine a JOIN coarse b ON a.id = b.id WHERE a.id BETWEEN 9000 AND 21000 AND b.id > 11000",
        "SELECT a.id, b.name FROM fine a LEFT JOIN coarse b ON a.id = b.id + 5000 AND b.id < 7000 WHERE a.id > 30000 AND a.id < 41000",
        "SELECT id, long FROM fine WHERE id IN (1, 2000, 17000, 44000) OR id BETWEEN 30000 AND 30999 ORDER BY long LIMIT 50",
        "SELECT id, count(*), min(long) FROM coarse WHERE id > 13000 AND id < 30000 GROUP BY id",
        "SELECT long, sum(l), count(DISTINCT i) FROM fine WHERE id < 9000 OR id > 37000 GROUP BY long",
    ];
    for query in queries {
        session.set("warpmill.device", "cpu").unwrap();
        session.set("warpmill.gpu_memory_limit", "0").unwrap();
        session.set("warpmill.pruning", "none").unwrap();
        let expected = sorted_rows(&session.execute(query, &[]).unwrap());
        session.set("warpmill.pruning", "all").unwrap();
        session.set("warpmill.device", &device()).unwrap();
        session.set("warpmill.device_fallback", "error").unwrap();
        for limit in ["0", "8MB", "3MB"] {
            session.set("warpmill.gpu_memory_limit", limit).unwrap();
            for _ in 0..2 {
                let result = session.execute(query, &[]).unwrap_or_else(|error| panic!("{limit}: {query}: {error}"));
                assert_eq!(sorted_rows(&result), expected, "{limit}: {query}");
            }
        }
    }
}

/// Every append has its own metadata: bounds are tested even where histograms are not.
#[test]
fn bounds_of_all_appends_are_asked() {
    let mut builder = Session::builder().set("warpmill.device", "cpu").set("warpmill.fallback", "error");
    for (key, value) in [("segment_rows", "16384"), ("zone_rows", "1024"), ("pruning_metadata", "all")] {
        builder = builder.set(&format!("warpmill.{key}"), value);
    }
    let session = builder.build().unwrap();
    let rows =
        |part: u64| format!("SELECT value + {} AS id, value % 7 AS v FROM range(20000) AS r(value)", part * 20_000);
    session.execute(&format!("CREATE TABLE grown AS {}", rows(0)), &[]).unwrap();
    for part in 1..4 {
        session.execute(&format!("INSERT INTO grown {}", rows(part)), &[]).unwrap();
    }
    let far: Vec<String> = (0..12).map(|i| (i * 6000 + 77).to_string()).collect();
    for list in ["100, 5000, 9000, 30000, 50000, 70000".to_string(), far.join(", ")] {
        let query = format!("SELECT count(*), sum(v) FROM grown WHERE id IN ({list})");
        session.set("warpmill.device", "cpu").unwrap();
        let expected = sorted_rows(&session.execute(&query, &[]).unwrap());
        session.set("warpmill.device", &device()).unwrap();
        session.set("warpmill.device_fallback", "error").unwrap();
        let mut bytes = vec![];
        for mode in ["none", "all"] {
            session.set("warpmill.pruning", mode).unwrap();
            let result = session.execute(&query, &[]).unwrap();
            assert_eq!(sorted_rows(&result), expected, "{mode}: {query}");
            bytes.push(bytes_of(&result.profile.unwrap(), "grown"));
        }
        let most = if list.len() < 50 { 0.1 } else { 1.0 };
        assert!(bytes[1] as f64 <= bytes[0] as f64 * most, "{bytes:?}: {query}");
    }
}
