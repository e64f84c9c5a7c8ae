//! Programs whose hash tables exceed device memory: they are built in parts.

use proptest::prelude::*;
use warpmill::{QueryProfile, Session};
use warpmill_datagen::Suite;
use warpmill_format::Table;
use warpmill_format::table::WriteOptions;

use crate::support::sorted_rows;
use crate::{device, reasons, size_factor};

/// The most parts of a sink of a query.
fn parts(profile: &QueryProfile) -> u64 {
    let on_device = profile.programs.iter().filter_map(|program| program.on_device.as_ref());
    on_device.flat_map(|on_device| &on_device.parts).map(|sink| sink.parts).max().unwrap_or(0)
}

/// The difference in the device's answer in `count` parts, and the most parts of a sink.
fn difference(session: &Session, sql: &str, count: &str) -> (Option<String>, u64) {
    session.set("warpmill.device", "cpu").unwrap();
    let expected = sorted_rows(&session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")));
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_partitions", count).unwrap();
    let result = match session.execute(sql, &[]) {
        Err(error) => return (Some(format!("{error}: {sql}")), 0),
        Ok(result) => result,
    };
    let (found, profile) = (sorted_rows(&result), result.profile.unwrap());
    if found != expected {
        let differing = found.iter().zip(&expected).find(|(a, b)| a != b);
        return (Some(format!("{} rows for {}, {differing:?}: {sql}", found.len(), expected.len())), 0);
    }
    let reasons = reasons(&profile);
    ((!reasons.is_empty()).then(|| format!("{}: {sql}", reasons.join("; "))), parts(&profile))
}

/// Checks the answers to `queries` in `count` parts, and that most have several parts: tables of few groups do not.
fn check(session: &Session, queries: &[String], count: &str) {
    let (mut failures, mut divided) = (vec![], 0);
    for sql in queries {
        let (failure, parts) = difference(session, sql, count);
        failures.extend(failure);
        divided += usize::from(parts >= 2);
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(divided + 3 >= queries.len(), "{divided} of {} in parts", queries.len());
}

pub(super) fn session() -> Session {
    let settings = [
        ("warpmill.device", "cpu"),
        ("warpmill.segment_rows", "1024"),
        ("warpmill.fallback", "error"),
        ("warpmill.device_fallback", "error"),
        ("warpmill.device_join", "partitioned"),
    ];
    let builder = settings.iter().fold(Session::builder(), |builder, (name, value)| builder.set(name, value));
    builder.build().unwrap()
}

/// Two tables with repeating keys of varying frequency; some keys are NULL, some have no partner.
pub(super) fn tables(session: &Session, [big, small]: [usize; 2], [keys, heavy]: [usize; 2]) {
    let sql = |text: String| drop(session.execute(&text, &[]).unwrap());
    sql(format!(
        "CREATE TABLE big AS SELECT value AS id,
         CASE WHEN value % 9 = 0 THEN NULL WHEN value % {heavy} = 0 THEN 77 ELSE value * 7 % {keys} END AS k,
         CASE WHEN value % 8 = 0 THEN NULL ELSE 'key ' || (value * 7 % {keys}) END AS s FROM range({big}) AS r(value)"
    ));
    sql(format!(
        "CREATE TABLE small AS SELECT value AS v,
         CASE WHEN value % 13 = 0 THEN NULL WHEN value % {heavy} = 0 THEN 77 ELSE value * 3 END AS k,
         CASE WHEN value % 11 = 0 THEN NULL ELSE 'key ' || (value * 3 % 1100) END AS s,
         value * 5 AS unique_k, 'note ' || value AS note FROM range({small}) AS r(value)"
    ));
}

pub(super) fn joins() -> Vec<String> {
    let mut queries = vec![];
    for condition in ["big.k = small.k", "big.s = small.s AND big.id % 3 < small.v % 5", "big.id = small.unique_k"] {
        for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            queries.push(format!("SELECT id, v, note FROM big {join} small ON {condition}"));
        }
        for exists in ["EXISTS", "NOT EXISTS"] {
            queries.push(format!("SELECT id FROM big WHERE {exists} (SELECT 1 FROM small WHERE {condition})"));
            queries.push(format!("SELECT v, note FROM small WHERE {exists} (SELECT 1 FROM big WHERE {condition})"));
        }
        queries.push(format!("SELECT id FROM big WHERE id % 7 = 0 OR EXISTS (SELECT 1 FROM small WHERE {condition})"));
        queries.push(format!("SELECT v FROM small WHERE v % 7 = 0 OR EXISTS (SELECT 1 FROM big WHERE {condition})"));
    }
    queries
}

#[test]
fn joins_of_every_kind() {
    let session = session();
    tables(&session, [3000, 400], [1500, 5]);
    check(&session, &joins(), "3");
    // For `IN`, each part must know about NULLs and rows in all others.
    let mut queries = vec![];
    for not in ["", "NOT "] {
        for list in ["v < 100", "v < 100 AND k IS NOT NULL", "v < 0"] {
            queries.push(format!("SELECT id FROM big WHERE k {not}IN (SELECT k FROM small WHERE {list})"));
            queries
                .push(format!("SELECT id FROM big WHERE id % 7 = 0 OR k {not}IN (SELECT k FROM small WHERE {list})"));
        }
    }
    check(&session, &queries, "4");
}

#[test]
fn groups_of_every_kind() {
    let session = session();
    tables(&session, [5000, 400], [2500, 5]);
    let queries = [
        "SELECT k, count(*), sum(id), min(s), max(s), avg(id) FROM big GROUP BY k",
        "SELECT s, count(*), sum(k), count(k) FROM big GROUP BY s",
        "SELECT k, s, id % 10, count(*) FROM big GROUP BY k, s, id % 10",
        "SELECT k, count(DISTINCT s), count(DISTINCT id % 10), stddev(id) FROM big GROUP BY k",
        "SELECT k * 1000000007, count(*), max(note) FROM small GROUP BY 1",
        "SELECT c, count(*) FROM (SELECT k, count(*) AS c FROM big GROUP BY k) GROUP BY c",
        "SELECT k, count(*) FROM big GROUP BY k HAVING count(*) > 2 ORDER BY 2 DESC, 1 LIMIT 7",
        // A group table is joined, and joined rows are grouped.
        "SELECT v, c FROM small JOIN (SELECT k, count(*) AS c FROM big GROUP BY k) AS t ON small.k = t.k",
        "SELECT big.k, count(*), sum(v) FROM big JOIN small ON big.s = small.s GROUP BY big.k",
        "SELECT small.s, count(*), sum(big.id) FROM big FULL JOIN small ON big.k = small.k GROUP BY small.s",
        "SELECT a.k, count(*), sum(c.v) FROM big AS a JOIN small AS b ON a.k = b.unique_k JOIN small AS c ON a.s = c.s
         LEFT JOIN small AS d ON b.s = d.s GROUP BY a.k",
        "SELECT k, count(*) FROM (SELECT k FROM big UNION ALL SELECT k FROM small) GROUP BY k",
        "SELECT DISTINCT k, s FROM big",
        "SELECT big.id, v FROM big FULL JOIN small ON big.k = small.k FULL JOIN (SELECT k AS k3, count(*) AS c FROM big GROUP BY k) AS t
         ON t.k3 = small.v WHERE coalesce(c, 1) < 3",
    ];
    check(&session, &queries.map(str::to_string), "3");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5, ..ProptestConfig::default() })]

    #[test]
    fn sizes_do_not_matter(
        big in 1usize..4000,
        small in 1usize..900,
        keys in 1usize..3000,
        heavy in 1usize..40,
        count in 2u32..9,
        chosen in prop::collection::vec(0usize..1000, 2),
        on_host in any::<bool>(),
    ) {
        let session = session();
        session.set("warpmill.device_join", if on_host { "hybrid" } else { "partitioned" }).unwrap();
        tables(&session, [big, small], [keys, heavy]);
        let queries = joins();
        for number in chosen {
            let sql = &queries[number % queries.len()];
            prop_assert_eq!(difference(&session, sql, &count.to_string()).0, None);
        }
    }
}

#[test]
fn a_join_groups_and_rows_larger_than_the_device() {
    let session = session();
    // As many keys as rows, and some more.
    let (rows, keys, all) = (12_000 * size_factor(), 12_000 * size_factor() + 7, 30_000 * size_factor());
    let sized = |text: &str| text.replace("12000", &rows.to_string()).replace("12007", &keys.to_string());
    let sql = |text: &str| drop(session.execute(&sized(text).replace("30000", &all.to_string()), &[]).unwrap());
    sql(
        "CREATE TABLE facts AS SELECT value AS id, value * 7919 % 12007 AS k, value * 31 % 1000 AS x FROM range(12000) AS r(value)",
    );
    sql(
        "CREATE TABLE others AS SELECT value * 104729 % 12007 AS k, value AS a, value * 3 AS b, 'text ' || value AS c FROM range(12000) AS r(value)",
    );
    sql("CREATE TABLE sorted AS SELECT value // 3 AS k, value % 100 AS x FROM range(30000) AS r(value)");
    for (query, expectation) in [
        // The build side holds numbers and a string for each of 12,000 rows, and a hash table: more than 400 kB.
        (
            "SELECT count(*), sum(x), sum(a), sum(b), min(c) FROM facts JOIN others ON facts.k = others.k",
            "hash build #",
        ),
        ("SELECT id, c FROM facts LEFT JOIN others ON facts.k = others.k", "hash build #"),
        ("SELECT k, count(*), sum(id), min(x), max(x), sum(id * 3) FROM facts GROUP BY k", "groups #"),
        ("SELECT k, count(*), sum(x), min(x) FROM sorted GROUP BY k", "groups #"),
        (
            "SELECT id, k, x, id * 1000003 AS y, k * 1000003 AS z FROM facts ORDER BY x DESC, id",
            "rows of the result to the host",
        ),
    ] {
        session.set("warpmill.device", "cpu").unwrap();
        let expected = sorted_rows(&session.execute(query, &[]).unwrap());
        session.set("warpmill.device", &device()).unwrap();
        session.set("warpmill.gpu_memory_limit", &format!("{}kB", 100 * size_factor())).unwrap();
        let explained = session.explain(query, false).unwrap();
        let strategy =
            explained.lines().find(|line| line.starts_with(&format!("program 0: {}", device()))).unwrap_or_default();
        assert!(strategy.contains(expectation) && strategy.contains("pass through"), "{query}: {explained}");
        // The part sizes found in one run are kept for the next.
        for _ in 0..if query.contains("sum(b)") { 2 } else { 1 } {
            let result = session.execute(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
            assert!(sorted_rows(&result) == expected, "{query}");
            let profile = result.profile.unwrap();
            let on_device = profile.programs[0].on_device.as_ref().unwrap();
            assert!(parts(&profile) >= 4 || on_device.flushed_rows > 0, "{query}: {:?}", on_device.parts);
            if query.contains("sorted") {
                // Sorted by key: most row segments have rows of few parts only.
                let read = on_device.kernels[0].bytes;
                let first = read - on_device.bytes_again;
                assert!(read * 2 < first * parts(&profile), "{read} bytes of {first}: {:?}", on_device.parts);
            }
        }
    }
}

#[test]
fn parts_of_joins_on_the_same_key_are_not_multiplied() {
    let session = session();
    let rows = 12_000 * size_factor();
    let sql = |text: &str| drop(session.execute(&text.replace("12000", &rows.to_string()), &[]).unwrap());
    // Keys below, among and above the other table's keys, and none.
    sql(
        "CREATE TABLE facts AS SELECT value AS id, CASE WHEN value % 13 = 0 THEN NULL ELSE value * 7919 % 12007 - 40 END AS k FROM range(12000) AS r(value)",
    );
    sql("CREATE TABLE more AS SELECT value % 12000 AS k, value AS a, value * 3 AS b FROM range(12000) AS r(value)");
    sql("CREATE TABLE others AS SELECT 12000 - value AS k, value % 12000 AS c FROM range(11000) AS r(value)");
    for (query, many) in [
        ("SELECT count(*), sum(id), sum(a), sum(b), sum(c) FROM facts JOIN more USING (k) JOIN others USING (k)", true),
        (
            "SELECT count(*), sum(id), sum(a), sum(c) FROM facts LEFT JOIN more ON facts.k = more.k LEFT JOIN others ON facts.k = others.k",
            true,
        ),
        (
            "SELECT count(*), sum(id) FROM facts WHERE NOT EXISTS (SELECT 1 FROM others WHERE others.k = facts.k AND others.c <> facts.id)
             AND EXISTS (SELECT 1 FROM more WHERE more.k = facts.k AND more.a <> facts.id)",
            true,
        ),
        // Different keys: every part of one with every part of the other.
        ("SELECT count(*), sum(a), sum(c) FROM facts JOIN more ON facts.k = more.k JOIN others ON facts.id = others.k", false),
        ("SELECT facts.k, count(*), sum(id), min(a), sum(b) FROM facts JOIN more USING (k) GROUP BY facts.k", true),
    ] {
        session.set("warpmill.device", "cpu").unwrap();
        let expected = sorted_rows(&session.execute(query, &[]).unwrap());
        session.set("warpmill.device", &device()).unwrap();
        session.set("warpmill.gpu_memory_limit", &format!("{}kB", 150 * size_factor())).unwrap();
        let result = session.execute(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert!(sorted_rows(&result) == expected, "{query}");
        let profile = result.profile.unwrap();
        let parts = &profile.programs[0].on_device.as_ref().unwrap().parts;
        let (made, sum) = (parts.iter().map(|p| p.made).sum::<u64>(), parts.iter().map(|p| p.parts).sum::<u64>());
        // On a GPU, one of them may fit.
        let both = parts.len() == 2 && parts.iter().all(|p| p.parts >= 2);
        assert!(both || device() != "sim", "{query}: {parts:?}");
        assert!(!many || made <= 2 * sum, "{query}: {parts:?}");
    }
}

/// Correlated columns have fewer groups than estimated: the counted number leads to fewer parts.
#[test]
fn fewer_groups_than_expected_are_made_in_fewer_parts() {
    let session = session();
    let rows = 20_000 * size_factor();
    let table = "CREATE TABLE facts AS SELECT value AS id, 'a ' || (value % 90) AS a, 'b ' || (value % 90 // 2) AS b,
        'c ' || (value % 90 // 3) AS c, 'a longer text of ' || (value * 7919 % 20011) AS text FROM range(20000) AS r(value)";
    session.execute(&table.replace("20000", &rows.to_string()), &[]).unwrap();
    for (query, at_once) in [
        // Packed keys: all parts have to be run.
        ("SELECT a, b, c, count(*), sum(id) FROM facts GROUP BY a, b, c", false),
        // Hashes: one part is representative of the others.
        ("SELECT substr(text, 1, 18) AS t, count(*), sum(id) FROM facts GROUP BY 1", true),
        (
            "SELECT count(*), max(n) FROM (SELECT substr(text, 12, 7) AS t, a, count(*) AS n, min(c) FROM facts GROUP BY 1, 2)",
            true,
        ),
    ] {
        session.set("warpmill.device", "cpu").unwrap();
        let expected = sorted_rows(&session.execute(query, &[]).unwrap());
        session.set("warpmill.device", &device()).unwrap();
        session.set("warpmill.gpu_memory_limit", &format!("{}kB", 400 * size_factor())).unwrap();
        let (mut seen, mut cut) = (vec![], 0);
        for _ in 0..4 {
            let result = session.execute(query, &[]).unwrap_or_else(|error| panic!("{query}: {error}"));
            assert!(sorted_rows(&result) == expected, "{query}");
            let profile = result.profile.unwrap();
            let device = profile.programs[0].on_device.as_ref().unwrap();
            seen.push((parts(&profile), device.runs));
            cut = device.parts.iter().map(|part| part.cut).sum();
        }
        let (first, last) = (seen[0], seen[3]);
        // GPU threads waste group numbers when they race, a varying number: one part may exceed this little memory, and is cut.
        assert!(last.1 == 1 && (last == seen[2] || cut > 0), "{query}: {seen:?}, {cut} cut");
        if device() == "sim" {
            assert_eq!(cut, 0, "{query}");
            assert!(last.0 <= 1, "{query}: {seen:?}");
            assert!(if at_once { first.0 <= 2 && first.1 > 1 } else { first.0 >= 4 }, "{query}: {seen:?}");
        }
    }
}

/// Rows outside of a part of their pipeline's sink are kept where something else needs them: match flags of rows, and NULLs in lists of `NOT IN`.
#[test]
fn rows_beyond_a_part_are_not_missed() {
    let session = session();
    tables(&session, [3000, 400], [1500, 5]);
    let queries = [
        "SELECT a.k, count(*), sum(f.v), min(f.v), max(f.v), avg(a.id) FROM small f
         LEFT JOIN (big a JOIN small b ON a.k = b.unique_k) ON a.s = f.s GROUP BY a.k",
        "SELECT id FROM big WHERE k NOT IN (SELECT a.k FROM big a LEFT JOIN small b
         ON a.k = b.unique_k WHERE a.id < 500 AND coalesce(b.v, 1) < 300)",
        "SELECT id FROM big WHERE k NOT IN (SELECT a.k FROM big a JOIN small b ON a.k = b.unique_k WHERE b.v > 200)",
        "SELECT f.k, f.v, f.note, o.v FROM (SELECT a.k, b.v, b.note FROM small b FULL JOIN big a ON a.k = b.k AND a.id % 3 = 0) f
         FULL JOIN small o ON o.unique_k = f.k",
    ];
    let failures: Vec<String> = ["2", "5"]
        .iter()
        .flat_map(|count| queries.iter().filter_map(|sql| difference(&session, sql, count).0))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// TPC-H (or SSB) at a scale factor, in row segments of few rows.
pub(super) fn filled(suite: Suite, sf: f64) -> Session {
    let session = session();
    for name in warpmill_datagen::tables(suite) {
        let table = Table::in_memory(warpmill_datagen::schema(suite, name).unwrap());
        let options = WriteOptions { segment_rows: 2048, ..WriteOptions::default() };
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

/// `WARPMILL_TEST_QUERIES=all` takes all queries, `WARPMILL_TEST_LIMIT` other memory, `WARPMILL_TEST_SF` another scale factor.
#[test]
fn tpch_and_ssb_in_little_memory() {
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_string());
    let chosen = setting("WARPMILL_TEST_QUERIES", "9,10,18,20,2.3");
    let limit = setting("WARPMILL_TEST_LIMIT", "700kB");
    let sf = setting("WARPMILL_TEST_SF", "0.01").parse().unwrap();
    let (mut divided, mut failures) = (vec![], vec![]);
    for suite in [Suite::Tpch, Suite::Ssb] {
        let session = filled(suite, sf);
        session.set("warpmill.gpu_memory_limit", &limit).unwrap();
        for query in warpmill_datagen::queries(suite) {
            if chosen != "all" && !chosen.split(',').any(|name| name == query.name) {
                continue;
            }
            let started = std::time::Instant::now();
            let (failure, most) = difference(&session, query.sql, "0");
            if most > 1 {
                divided.push(query.name);
            }
            failures.extend(failure.map(|failure| format!("{}: {}", query.name, failure.lines().next().unwrap())));
            let result = session.execute(query.sql, &[]);
            let Some(profile) = result.ok().and_then(|result| result.profile) else { continue };
            let Some(on_device) = profile.programs[0].on_device.as_ref() else { continue };
            if chosen == "all" {
                eprintln!("{} {:?}: {} runs, {:?}", query.name, started.elapsed(), on_device.runs, on_device.parts);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(divided.len() >= 3 || chosen.len() < 5, "in parts: {divided:?}");
}
