//! Programs whose tables do not fit the device: they are made in parts.

use warpmill::{QueryProfile, QueryResult, Session};
use warpmill_datagen::Suite;
use warpmill_format::Table;
use warpmill_format::table::WriteOptions;

use super::{device, reasons, rows};

/// The most parts of a sink of a query.
fn parts(profile: &QueryProfile) -> u64 {
    let on_device = profile.programs.iter().filter_map(|program| program.on_device.as_ref());
    on_device.flat_map(|on_device| &on_device.parts).map(|sink| sink.parts).max().unwrap_or(0)
}

/// Every answer of the device in `count` parts is that of the CPU.
fn check(session: &Session, queries: &[String], counts: &[&str]) {
    for sql in queries {
        session.set("warpmill.device", "cpu").unwrap();
        let expected = rows(&session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")));
        session.set("warpmill.device", &device()).unwrap();
        for count in counts {
            session.set("warpmill.device_partitions", count).unwrap();
            let result = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(rows(&result), expected, "{count} parts: {sql}");
            let profile = result.profile.unwrap();
            assert_eq!(reasons(&profile), Vec::<String>::new(), "{sql}");
            assert!(parts(&profile) >= 2, "in one part: {sql}");
        }
    }
}

fn session() -> Session {
    Session::builder()
        .set("warpmill.device", "cpu")
        .set("warpmill.segment_rows", "1024")
        .set("warpmill.fallback", "error")
        .set("warpmill.device_fallback", "error")
        .build()
        .unwrap()
}

#[test]
fn joins_of_every_kind() {
    let session = session();
    let sql = |text: &str| drop(session.execute(text, &[]).unwrap());
    // Keys repeat, some more than others; some are NULL; some have no partner.
    sql("CREATE TABLE big AS SELECT value AS id, CASE WHEN value % 9 = 0 THEN NULL WHEN value % 4 = 0 THEN 77 ELSE value * 7 % 1500 END AS k,
         CASE WHEN value % 8 = 0 THEN NULL ELSE 'key ' || (value * 7 % 900) END AS s FROM range(3000)");
    sql("CREATE TABLE small AS SELECT value AS v, CASE WHEN value % 13 = 0 THEN NULL WHEN value % 5 = 0 THEN 77 ELSE value * 3 END AS k,
         CASE WHEN value % 11 = 0 THEN NULL ELSE 'key ' || (value * 3 % 1100) END AS s, 'note ' || value AS note FROM range(400)");
    let mut queries = vec![];
    for condition in ["big.k = small.k", "big.s = small.s", "big.k = small.k AND big.id % 3 < small.v % 5"] {
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            queries.push(format!("SELECT id, v, note FROM big {join} small ON {condition}"));
        }
        for exists in ["EXISTS", "NOT EXISTS"] {
            queries.push(format!("SELECT id FROM big WHERE {exists} (SELECT 1 FROM small WHERE {condition})"));
            queries.push(format!("SELECT v, note FROM small WHERE {exists} (SELECT 1 FROM big WHERE {condition})"));
        }
    }
    check(&session, &queries, &["3"]);
}
