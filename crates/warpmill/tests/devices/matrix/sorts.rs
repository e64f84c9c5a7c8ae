//! Sorts of few rows, which the host sorts, and of many, which the device sorts.

use warpmill::Session;

use super::data::{COLUMNS, Nulls, Random, table};
use super::{check, difference, session};
use crate::device;

const ORDERS: [&str; 4] = ["ASC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST"];

/// Whether the device, which [`check`] has chosen, sorted the rows of `sql`, and how often the program was run.
fn sorted_by_device(session: &Session, sql: &str) -> (bool, u32) {
    let result = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let profile = result.profile.as_ref().and_then(|profile| profile.programs[0].on_device.as_ref());
    let profile = profile.unwrap_or_else(|| panic!("{sql}: not on the device"));
    (profile.kernels.iter().any(|kernel| kernel.label.contains(": sort: ")), profile.runs)
}

/// More rows than the host's limit for sorts.
const MANY: usize = 20_000;

#[test]
fn many_rows_by_every_type() {
    let session = session(vec![("t", table(17, MANY, 15_000, Nulls::Some))]);
    let queries: Vec<String> = COLUMNS
        .iter()
        .enumerate()
        .map(|(n, column)| format!("SELECT id, {column} FROM t ORDER BY {column} {}, id", ORDERS[n % 4]))
        .collect();
    check(&session, &queries, true);
    assert!(sorted_by_device(&session, &queries[1]).0, "the device sorts many rows");
}

#[test]
fn strings_every_way() {
    let session = session(vec![("t", table(19, MANY, 15_000, Nulls::Some))]);
    let mut queries = vec![];
    for order in ORDERS {
        queries.push(format!("SELECT id, name FROM t ORDER BY name {order}, id DESC"));
        queries.push(format!("SELECT id, y, name FROM t ORDER BY code, y {order}, name {order}, id"));
    }
    session.set("warpmill.device", &device()).unwrap();
    assert_eq!(sorted_by_device(&session, &queries[0]), (true, 2), "16 bytes do not tell all names apart");
    assert_eq!(sorted_by_device(&session, &queries[0]), (true, 1), "the first run has taught how many bytes do");
    check(&session, &queries, true);
}

#[test]
fn several_keys_of_every_width() {
    let session = session(vec![("t", table(23, MANY, 400, Nulls::None)), ("u", table(24, MANY, 400, Nulls::Some))]);
    let mut random = Random(5);
    let mut queries = vec![];
    for number in 0..12 {
        let mut keys: Vec<String> = vec![];
        for _ in 0..2 + random.below(3) {
            let column = COLUMNS[random.below(COLUMNS.len() as u64) as usize];
            keys.push(format!("{column} {}", ORDERS[random.below(4) as usize]));
        }
        let from = if number % 2 == 0 { "t" } else { "u" };
        queries.push(format!("SELECT * FROM {from} ORDER BY {}, id", keys.join(", ")));
    }
    queries.push("SELECT id, -i AS k FROM u ORDER BY i % 10 DESC NULLS LAST, k, id".into());
    check(&session, &queries, true);
}

#[test]
fn what_follows_a_sort() {
    let session = session(vec![("t", table(29, MANY, 15_000, Nulls::Some)), ("s", table(31, 50, 15_000, Nulls::None))]);
    let queries = [
        "SELECT name FROM t ORDER BY l NULLS LAST, id",
        "SELECT i + 1 AS j, name FROM t ORDER BY w DESC NULLS LAST, id LIMIT 17000 OFFSET 1000",
        "SELECT id FROM t ORDER BY d NULLS FIRST, id OFFSET 19990",
        "SELECT count(*), sum(id) FROM (SELECT id FROM t ORDER BY x NULLS LAST, id LIMIT 12345) AS u",
        "SELECT u.id, s.id FROM (SELECT id, i FROM t ORDER BY l NULLS LAST, id LIMIT 30) AS u JOIN s ON u.id % 50 = s.id ORDER BY 1, 2",
        "SELECT s.id, u.id FROM s LEFT JOIN (SELECT id FROM s ORDER BY name, id LIMIT 7 OFFSET 2) AS u ON s.id = u.id ORDER BY 1, 2",
        "SELECT id FROM (SELECT id, l FROM t ORDER BY l NULLS LAST, id LIMIT 18000) AS u ORDER BY id DESC",
        "SELECT upper(code), id FROM (SELECT code, id FROM t ORDER BY ts NULLS FIRST, id LIMIT 100) AS u WHERE id % 2 = 0 ORDER BY id",
    ];
    check(&session, &queries.map(String::from), true);
}

#[test]
fn few_rows_no_row_and_no_value() {
    for (rows, nulls) in [(0, Nulls::Some), (1, Nulls::None), (300, Nulls::All), (300, Nulls::Some)] {
        let session = session(vec![("t", table(37, rows, 60, nulls))]);
        let queries: Vec<String> = COLUMNS
            .iter()
            .enumerate()
            .map(|(n, column)| format!("SELECT * FROM t ORDER BY {column} {}, id LIMIT 200", ORDERS[n % 4]))
            .collect();
        check(&session, &queries, true);
        // The device sorts rows that later operators of it read.
        let sql = "SELECT t.id, v.id FROM t JOIN (SELECT id FROM t ORDER BY name, w, id LIMIT 20) AS v ON t.id = v.id ORDER BY 1";
        check(&session, &[sql.into()], true);
    }
}

#[test]
fn the_host_sorts_what_the_device_has_no_room_for() {
    let session = session(vec![("t", table(43, MANY, 15_000, Nulls::None))]);
    let sql = "SELECT id, l, w FROM t ORDER BY l, id";
    let mut sorted = vec![];
    for limit in ["64MB", "2560kB", "2304kB", "2048kB", "1792kB", "1536kB"] {
        session.set("warpmill.gpu_memory_limit", limit).unwrap();
        match difference(&session, sql, true) {
            None => sorted.push(sorted_by_device(&session, sql).0),
            Some(text) => assert!(text.contains("bytes of device memory"), "{text}"),
        }
    }
    assert!(sorted.contains(&true) && sorted.contains(&false), "{sorted:?}");
}
