//! Pruning never changes an answer: all queries of this file return the same rows with metadata and without.

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::SchemaRef;
use proptest::prelude::*;
use warpmill::{QueryResult, Session, WriteOptions};
use warpmill_format::pruning::Metadata;
use warpmill_format::{Codec, CodecOptions};

/// A session whose tables have small row segments and zones.
fn session(database: Option<&Path>) -> Session {
    let mut builder = Session::builder().set("warpmill.fallback", "error").set("warpmill.threads", "2");
    for (key, value) in [("segment_rows", "4096"), ("zone_rows", "1024"), ("pruning_metadata", "all")] {
        builder = builder.set(&format!("warpmill.{key}"), value);
    }
    if let Some(path) = database {
        builder = builder.database(path);
    }
    builder.build().unwrap()
}

fn text(result: &QueryResult) -> String {
    arrow::util::pretty::pretty_format_batches(&result.batches).unwrap().to_string()
}

/// A counter, summed over the scans that the CPU ran.
fn counter(result: &QueryResult, name: &str) -> u64 {
    let profile = result.profile.as_ref().unwrap();
    let operators = profile.programs.iter().flat_map(|p| &p.pipelines).flat_map(|p| &p.operators);
    operators.flat_map(|o| &o.counters).filter(|(key, _)| *key == name).map(|(_, value)| value).sum()
}

/// Runs a query in every pruning mode; returns the result with full pruning.
fn check(session: &Session, sql: &str) -> QueryResult {
    let run = |mode: &str| {
        session.set("pruning", mode).unwrap();
        session.execute(sql, &[]).unwrap_or_else(|error| panic!("{mode}: {sql}: {error}"))
    };
    let (none, minmax, all) = (run("none"), run("minmax"), run("all"));
    assert_eq!(text(&none), text(&minmax), "minmax: {sql}");
    assert_eq!(text(&none), text(&all), "all: {sql}");
    assert_eq!(counter(&none, "zones_pruned"), 0, "{sql}");
    let scanned = |result: &QueryResult| counter(result, "rows_scanned");
    assert!(scanned(&minmax) <= scanned(&none) && scanned(&all) <= scanned(&minmax), "{sql}");
    all
}

/// Numbers that look random.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ x >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}

const ROWS: usize = 12 * 1024 + 100;

/// A column of every kind. Values within a zone are close to each other, with a few outliers and NULLs.
fn rows(seed: u64) -> RecordBatch {
    let mut random = Random(seed);
    let mut numbers: Vec<Option<i64>> = Vec::with_capacity(ROWS);
    let mut base = 0;
    for row in 0..ROWS {
        if row % 1024 == 0 {
            base = random.below(2000) as i64 - 1000;
        }
        let far = if random.below(300) == 0 { random.below(4000) as i64 - 2000 } else { 0 };
        let null = random.below(9) == 0 || base % 5 == 0;
        numbers.push((!null).then_some(base + far + random.below(12) as i64 * 3));
    }
    let map = |f: &dyn Fn(i64) -> i64| numbers.iter().map(|n| n.map(f)).collect::<Vec<_>>();
    let float = |n: i64| match n {
        n if n % 97 == 0 => f64::NAN,
        n if n % 89 == 0 => -0.0,
        n => n as f64 / 8.0,
    };
    let floats: Vec<Option<f64>> = numbers.iter().map(|n| n.map(float)).collect();
    let strings = |f: &dyn Fn(usize, i64) -> String| {
        numbers.iter().enumerate().map(|(i, n)| n.map(|n| f(i, n))).collect::<Vec<_>>()
    };
    let decimals = Decimal128Array::from_iter(map(&|n| n * 101).into_iter().map(|n| n.map(i128::from)));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("a", Arc::new(Int32Array::from_iter(numbers.iter().map(|n| n.map(|n| n as i32))))),
        ("b", Arc::new(Int64Array::from_iter(map(&|n| n * 1_000_000_007_000_003)))),
        ("d", Arc::new(Date32Array::from_iter(numbers.iter().map(|n| n.map(|n| 10_000 + n as i32))))),
        ("t", Arc::new(TimestampMicrosecondArray::from_iter(map(&|n| (10_000 + n) * 86_400_000_000 + 1)))),
        ("m", Arc::new(decimals.with_precision_and_scale(12, 2).unwrap())),
        ("f", Arc::new(Float64Array::from_iter(floats.iter().copied()))),
        ("g", Arc::new(Float32Array::from_iter(floats.iter().map(|x| x.map(|x| x as f32))))),
        ("s", Arc::new(StringArray::from(strings(&|_, n| format!("name {}", n.rem_euclid(700)))))),
        ("u", Arc::new(StringArray::from(strings(&|i, n| format!("{:04}-{i}", n + 4000))))),
        ("k", Arc::new(BooleanArray::from_iter(numbers.iter().map(|n| n.map(|n| n % 2 == 0))))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

fn write(session: &Session, name: &str, batch: &RecordBatch, options: WriteOptions) {
    let batches = std::iter::once(Ok(batch.clone()));
    session.create_table(name, batch.schema(), batches, options, true, None).unwrap();
}

/// The value of a column in some row as SQL, occasionally shifted a little.
fn literal(random: &mut Random, batch: &RecordBatch, column: &str) -> String {
    use arrow::util::display::array_value_to_string;
    let array = batch.column_by_name(column).unwrap();
    let row = (0..50).map(|_| random.below(ROWS as u64) as usize).find(|&row| array.is_valid(row)).unwrap_or(0);
    let value = array_value_to_string(array, row).unwrap();
    let off = *random.pick(&["", "", " + 1", " - 1"]);
    match column {
        _ if array.is_null(row) => "NULL".to_owned(),
        "a" => format!("({value}{off})"),
        "b" => format!("CAST({value}{off} AS BIGINT)"),
        "d" => format!("DATE '{value}'"),
        "t" => format!("TIMESTAMP '{value}'"),
        "m" => format!("CAST({value} AS DECIMAL(12, 2))"),
        "f" => format!("CAST('{value}' AS DOUBLE)"),
        "g" => format!("CAST('{value}' AS FLOAT)"),
        _ => format!("'{value}'"),
    }
}

fn predicate(random: &mut Random, batch: &RecordBatch, depth: u32) -> String {
    if depth == 0 {
        return format!("({})", atom(random, batch));
    }
    let (left, right) = (predicate(random, batch, depth - 1), predicate(random, batch, depth - 1));
    match random.below(5) {
        0 | 1 => format!("({left} AND {right})"),
        2 | 3 => format!("({left} OR {right})"),
        _ => format!("(NOT {left})"),
    }
}

/// A predicate of one column.
fn atom(random: &mut Random, batch: &RecordBatch) -> String {
    let column = *random.pick(&["a", "b", "d", "t", "m", "f", "g", "s", "u"]);
    let op = *random.pick(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
    let not = *random.pick(&["", "NOT "]);
    let value = |random: &mut Random| literal(random, batch, column);
    match random.below(14) {
        0..4 => format!("{column} {op} {}", value(random)),
        4 => format!("{} {op} {column}", value(random)),
        5 => format!("{column} {not}BETWEEN {} AND {}", value(random), value(random)),
        6 => format!("{column} {not}IN ({}, {}, {})", value(random), value(random), value(random)),
        7 => format!("{column} {not}IN ({}, NULL)", value(random)),
        8 => format!("{column} IS {not}NULL"),
        9 => format!("date_part('{}', d) {op} {}", random.pick(&["year", "month", "quarter"]), 1 + random.below(12)),
        10 => format!("extract(year from t) {op} {}", 1993 + random.below(10)),
        11 => {
            let other = *random.pick(&["s", "u"]);
            let text = literal(random, batch, other);
            let cut = text.trim_matches('\'').chars().take(3 + random.below(6) as usize).collect::<String>();
            let column = random.pick(&["s", "u"]);
            let pattern = random.pick(&["%", "_%", "%9%", ""]);
            format!("{column} {not}LIKE '{cut}{pattern}'")
        }
        12 => {
            let other = literal(random, batch, "a");
            let by = random.below(40) as i64 - 20;
            match random.below(4) {
                0 => format!("a + ({by}) {op} {other}"),
                1 => format!("({by}) - a {op} {other}"),
                2 => format!("CAST(a AS BIGINT) {op} {other}"),
                _ => format!("CAST(d AS TIMESTAMP) {op} {}", literal(random, batch, "t")),
            }
        }
        _ => random.pick(&["k", "NOT k", "k IS NULL", "k = false", "starts_with(u, '39')"]).to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn filters_keep_every_row_that_satisfies_them(seed in any::<u64>()) {
        let folder = tempfile::tempdir().unwrap();
        let (session, batch) = (session(Some(folder.path())), rows(seed));
        let mut random = Random(seed ^ 1);
        let kinds = [Metadata::All, Metadata::MinMax, Metadata::Histogram, Metadata::Bloom];
        let codec = random.pick(&[None, Some(Codec::Lz4), Some(Codec::Zstd)]).map(CodecOptions::fixed);
        let options = WriteOptions { metadata: *random.pick(&kinds), codec, ..WriteOptions::default() };
        write(&session, "r", &batch, options);
        for depth in [0, 0, 0, 0, 1, 1, 1, 2, 2, 3] {
            let filter = predicate(&mut random, &batch, depth);
            check(&session, &format!("SELECT count(*), sum(id), min(id), max(id) FROM r WHERE {filter}"));
        }
    }
}

fn ints(name: &str, values: impl IntoIterator<Item = i64>) -> (&str, ArrayRef) {
    (name, Arc::new(Int64Array::from_iter_values(values)))
}

fn strings(name: &str, values: impl Iterator<Item = String>) -> (&str, ArrayRef) {
    (name, Arc::new(StringArray::from_iter_values(values)))
}

#[test]
fn each_kind_of_metadata_prunes_what_it_can() {
    let session = session(None);
    // Numbers with a gap; a thousand values far apart, others in the second row segment; one day per year.
    let n = 8 * 1024;
    let batch = RecordBatch::try_from_iter(vec![
        ints("sorted", 0..n),
        ints("gap", (0..n).map(|i| if i % 2 == 0 { i % 100 } else { 900 + i % 100 })),
        ints("sparse", (0..n).map(|i| i % 1000 * 100 + i / 4096)),
        ("day", Arc::new(Date32Array::from_iter_values((0..n).map(|i| (i / 1024 * 365) as i32))) as ArrayRef),
        strings("name", (0..n).map(|i| format!("{:02}", i / 1024 + i % 2 * 40))),
        ("none", Arc::new(Int64Array::from_iter((0..n).map(|i| (i < 1024).then_some(i))))),
    ]);
    write(&session, "r", &batch.unwrap(), WriteOptions::default());
    let pruned = |filter: &str, cause: &str| {
        let result = check(&session, &format!("SELECT count(*), sum(sorted) FROM r WHERE {filter}"));
        assert_eq!(counter(&result, "zones"), 8);
        (counter(&result, &format!("zones_by_{cause}")), counter(&result, "zones_pruned"))
    };
    assert_eq!(pruned("sorted < 1024", "minmax"), (7, 7));
    assert_eq!(pruned("sorted + 24 < 1024 OR 3 - sorted = 2", "minmax"), (7, 7));
    assert_eq!(pruned("gap BETWEEN 400 AND 500", "histogram"), (8, 8));
    assert_eq!(pruned("NOT (gap < 400 OR gap > 500)", "histogram"), (8, 8));
    assert_eq!(pruned("sparse = 50001", "bloom"), (4, 4));
    assert_eq!(pruned("sparse IN (50001, 60001)", "bloom"), (4, 4));
    assert_eq!(pruned("extract(year FROM day) = 1972", "minmax").1, 6);
    assert_eq!(pruned("extract(month FROM day) = 6", "minmax").1, 8);
    assert_eq!(pruned("name LIKE '%3%' AND name < '30'", "histogram").1, 7);
    assert_eq!(pruned("none IS NOT NULL", "minmax"), (7, 7));
    assert_eq!(pruned("none IS NULL", "minmax"), (1, 1));
    assert_eq!(pruned("none IS DISTINCT FROM 5000", "minmax"), (0, 0));
    let text = session.explain("SELECT count(*) FROM r WHERE gap BETWEEN 400 AND 500", true).unwrap();
    assert!(text.contains("zones_by_histogram=8"), "{text}");
    let text = session.explain("SELECT count(*) FROM r WHERE gap BETWEEN 400 AND 500", false).unwrap();
    assert!(text.contains("program 0, r: 8 of 8 zones pruned (8 by histogram), 2 of 2 row segments"), "{text}");
}

/// A fact table that refers to a dimension table, and the dimension table.
fn star(session: &Session) {
    let dimension = RecordBatch::try_from_iter(vec![
        ints("key", (0..400).map(|i| i * 3)),
        strings("region", (0..400).map(|i| ["ASIA", "EUROPE", "AFRICA", "AMERICA"][i % 4].to_owned())),
        strings("label", (0..400).map(|i| format!("label of {i}"))),
        ints("year", (0..400).map(|i| 1990 + i / 4 % 7)),
    ]);
    write(session, "dim", &dimension.unwrap(), WriteOptions::default());
    let n = 12 * 1024;
    let facts = RecordBatch::try_from_iter_with_nullable(vec![
        // Some foreign keys have no match.
        (
            "fk",
            Arc::new(Int64Array::from_iter((0..n).map(|i| (i % 11 > 0).then_some(i * 7919 % 1300)))) as ArrayRef,
            true,
        ),
        ("v", Arc::new(Int64Array::from_iter_values(0..n)), false),
    ]);
    let sideways = vec![session.sideways("fact.fk = dim.key : region, year, label").unwrap()];
    let options = WriteOptions { sideways, sort_by: vec!["region".into(), "year".into()], ..WriteOptions::default() };
    write(session, "fact", &facts.unwrap(), options);
}

const JOINED: &str = "SELECT count(*), sum(v), min(year) FROM fact JOIN dim ON fk = key WHERE";

#[test]
fn attributes_of_another_table_prune_through_a_join() {
    let session = session(None);
    star(&session);
    let sideways = |sql: &str| counter(&check(&session, sql), "zones_by_sideways");
    assert!(sideways(&format!("{JOINED} region = 'ASIA'")) >= 8);
    assert!(sideways(&format!("{JOINED} region IN ('ASIA', 'EUROPE') AND year = 1996")) >= 8);
    assert!(sideways("SELECT sum(v) FROM fact WHERE fk IN (SELECT key FROM dim WHERE region = 'EUROPE')") >= 8);
    // Joins that keep rows without a partner prune nothing.
    let outer = "SELECT count(*), count(year) FROM fact LEFT JOIN dim ON fk = key AND region = 'ASIA'";
    assert_eq!(sideways(outer), 0);
    assert_eq!(sideways("SELECT sum(v) FROM fact WHERE fk NOT IN (SELECT key FROM dim WHERE region = 'ASIA')"), 0);
    check(&session, &format!("{JOINED} label LIKE 'label of 1%'"));
    check(&session, &format!("{JOINED} region = 'NOWHERE'"));
    let aggregated = "SELECT region, count(*) FROM fact, dim WHERE fk = key AND year < 1992 GROUP BY region ORDER BY 1";
    assert!(sideways(aggregated) > 0);
}

#[test]
fn metadata_of_another_version_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(Some(folder.path()));
    star(&session);
    let query = format!("{JOINED} region = 'ASIA'");
    let sideways = |sql: &str| counter(&check(&session, sql), "zones_by_sideways");
    assert!(sideways(&query) > 0);
    // Later facts have no metadata, and no row of theirs is lost.
    session.execute("INSERT INTO fact SELECT key, 1000000 + key FROM dim", &[]).unwrap();
    assert!(sideways(&query) > 0);
    // A key of AFRICA's is one of ASIA's as well now.
    session.execute("INSERT INTO dim VALUES (6, 'ASIA', 'new', 1991)", &[]).unwrap();
    assert_eq!(sideways(&query), 0);
    // The same version number, but other rows.
    session.execute("DROP TABLE dim", &[]).unwrap();
    let other = "CREATE TABLE dim AS SELECT * FROM (VALUES (6, 'ASIA', 'x', 1991), (9, 'ASIA', 'y', 1992)) AS v(key, region, label, year)";
    session.execute(other, &[]).unwrap();
    assert_eq!(sideways(&query), 0);
}

#[test]
fn settings_lay_out_tables_of_sql() {
    let session = session(None);
    star(&session);
    session.set("sideways", "other.fk=dim.nothing:region; made.fk=dim.key:region").unwrap();
    session.set("cluster", "auto").unwrap();
    session.execute("CREATE TABLE made AS SELECT * FROM fact", &[]).unwrap();
    let query = format!("{JOINED} region = 'ASIA'").replace("fact", "made");
    assert!(counter(&check(&session, &query), "zones_by_sideways") >= 8);
    session.set("sideways", "more.fk=dim.nothing:region").unwrap();
    let error = session.execute("CREATE TABLE more AS SELECT * FROM fact", &[]).unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains("dim"), "{error}");
    for wrong in ["fk=dim", "fk=dim.key:", "=dim.key:x", "fk=dim.key:region,"] {
        let error = session.sideways(wrong).unwrap_err().to_string();
        assert!(error.contains("sideways metadata") && error.contains(wrong), "{error}");
    }
    assert!(session.sideways("fk=nowhere.key:region").unwrap_err().to_string().contains("nowhere"));
}

#[test]
fn keys_of_a_build_prune_by_histogram() {
    let session = session(None);
    let n = 8 * 1024;
    let facts = RecordBatch::try_from_iter(vec![
        ints("fk", (0..n).map(|i| if i / 1024 == 3 { i % 50 } else { i % 50 * 20 })),
        ints("v", 0..n),
    ]);
    write(&session, "fact", &facts.unwrap(), WriteOptions::default());
    let keys = RecordBatch::try_from_iter(vec![ints("key", 0..1000), ints("x", (0..1000).map(|i| i % 20))]);
    write(&session, "dim", &keys.unwrap(), WriteOptions::default());
    // Keys 7, 27, 47, ...: inside of all bounds, in one zone only.
    let result = check(&session, "SELECT count(*), sum(v) FROM fact JOIN dim ON fk = key WHERE x = 7");
    assert_eq!(counter(&result, "zones_by_keys"), 7);
}

#[test]
fn dictionaries_of_several_generations_and_given_up_ones() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(Some(folder.path()));
    let batch = |first: i64, name: &dyn Fn(i64) -> String| {
        let rows = 4 * 1024;
        let columns = vec![ints("id", first..first + rows), strings("s", (first..first + rows).map(name))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let append = |batch: RecordBatch| session.append_table("r", std::iter::once(Ok(batch))).unwrap();
    write(&session, "r", &batch(0, &|i| format!("m{}", i / 1024 * 2)), WriteOptions::default());
    append(batch(4096, &|i| format!("a{}", i / 1024)));
    append(batch(8192, &|i| format!("m{}", i / 1024 * 2 + 1)));
    let pruned = |filter: &str| {
        let query = format!("SELECT count(*), min(id), max(id) FROM r WHERE {filter}");
        counter(&check(&session, &query), "zones_pruned")
    };
    assert_eq!(pruned("s = 'm2'"), 11);
    assert_eq!(pruned("s = 'a5'"), 11);
    assert_eq!(pruned("s LIKE 'm%'"), 4);
    assert_eq!(pruned("s > 'm4' AND s < 'm6'"), 12);
    assert_eq!(pruned("s <> 'm2'"), 1);
    assert_eq!(pruned("s IN ('a4', 'm21', 'x')"), 10);
    // Too many strings: the column is rewritten, without the metadata of its codes.
    append(batch(12_288, &|i| format!("z{i}")));
    append(batch(16_384, &|i| format!("z{i}")));
    check(&session, "SELECT count(*), min(id), max(id) FROM r WHERE s = 'm2'");
    check(&session, "SELECT count(*), min(id), max(id) FROM r WHERE s >= 'z13000' AND s < 'z14'");
    assert!(pruned("id < 100") >= 16);
}

#[test]
fn damaged_metadata_is_an_error_that_names_the_column() {
    let folder = tempfile::tempdir().unwrap();
    write(&session(Some(folder.path())), "r", &rows(7), WriteOptions::default());
    let table = folder.path().join("r");
    let files = std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = files.collect();
    let named = |end: &str| files.iter().find(|path| path.to_string_lossy().ends_with(end)).unwrap();
    let manifest = std::fs::read_to_string(named(".manifest")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(manifest.split_once('\n').unwrap().1).unwrap();
    let entry = &manifest["pruning"][0]["columns"][1];
    assert_eq!(entry["column"], 1);
    let at = entry["offset"].as_u64().unwrap() + 70;
    let mut bytes = std::fs::read(named(".data")).unwrap();
    bytes[at as usize] ^= 4;
    std::fs::write(named(".data"), bytes).unwrap();
    let session = session(Some(folder.path()));
    let error = session.execute("SELECT count(*) FROM r WHERE a = 5", &[]).unwrap_err();
    assert!(matches!(error, warpmill::Error::Format(_)), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("pruning metadata of column \"a\"") && error.contains(".data"), "{error}");
    // A query that does not need it succeeds.
    session.execute("SELECT count(*) FROM r WHERE b = 5", &[]).unwrap();
    session.set("pruning", "none").unwrap();
    session.execute("SELECT count(*) FROM r WHERE a = 5", &[]).unwrap();
}

/// So many zones that several threads share them: each zone is tested once.
#[test]
fn many_zones_are_tested_by_several_threads() {
    let session = session(None);
    let zones: u64 = 2100;
    session
        .execute(
            &format!(
                "CREATE TABLE many AS SELECT value AS a, value // 1024 % 100 AS g FROM range({}) AS r(value)",
                zones * 1024 - 7
            ),
            &[],
        )
        .unwrap();
    for (condition, left) in [
        ("g = 5", zones.div_ceil(100)),
        ("g IN (5, 77)", 2 * zones.div_ceil(100)),
        ("a BETWEEN 1000000 AND 1003000", 4),
        ("a IN (3, 700000, 1400000, 2100000)", 4),
        ("a < 0", 0),
    ] {
        let all = check(&session, &format!("SELECT count(*), sum(a), min(g) FROM many WHERE {condition}"));
        assert_eq!(counter(&all, "zones"), zones, "{condition}");
        assert_eq!(counter(&all, "zones_pruned"), zones - left, "{condition}");
    }
}

#[test]
fn tables_without_metadata_and_empty_ones() {
    let session = session(None);
    let batch = rows(3);
    write(&session, "r", &batch, WriteOptions { metadata: Metadata::None, ..WriteOptions::default() });
    let result = check(&session, "SELECT count(*) FROM r WHERE id < 100");
    assert_eq!((counter(&result, "zones"), counter(&result, "zones_pruned")), (4, 3));
    let schema: SchemaRef = batch.schema();
    session.create_table("e", schema, std::iter::empty(), WriteOptions::default(), true, None).unwrap();
    check(&session, "SELECT count(*) FROM e WHERE a = 5");
    write(&session, "one", &batch.slice(0, 1), WriteOptions::default());
    check(&session, "SELECT count(*) FROM one WHERE id = 0");
    check(&session, "SELECT count(*) FROM one WHERE id = 1 OR s = 'nothing'");
}

#[test]
fn devices_leave_out_row_segments() {
    let session = session(None);
    star(&session);
    let queries = [format!("{JOINED} region = 'ASIA'"), format!("{JOINED} region = 'EUROPE' AND year = 1996")];
    for query in queries {
        session.set("device", "cpu").unwrap();
        let expected = text(&check(&session, &query));
        session.set("device", "sim").unwrap();
        session.set("device_fallback", "error").unwrap();
        for (mode, least) in [("none", 0), ("all", 2)] {
            session.set("pruning", mode).unwrap();
            let result = session.execute(&query, &[]).unwrap();
            assert_eq!(text(&result), expected, "{mode}: {query}");
            let profile = result.profile.as_ref().unwrap();
            let scans = &profile.programs[0].on_device.as_ref().unwrap().scans;
            let fact = scans.iter().find(|scan| scan.table == "fact").unwrap();
            assert!(fact.pruning.segments_pruned >= least, "{mode}: {:?}", fact.pruning);
            assert!(mode == "all" || fact.pruning.zones_pruned() == 0);
        }
    }
}
