//! Data that is not on the device before a query.

use std::time::Instant;

use warpmill::Session;

use crate::support::sorted_rows;
use crate::{device, reasons};

#[test]
fn data_comes_from_where_the_setting_says() {
    ["none", "lz4", "snappy", "zstd"].into_iter().for_each(check_sources);
}

/// Queries of a table on disk that is written with `codec`, for every data source.
fn check_sources(codec: &str) {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder()
        .database(folder.path())
        .set("warpmill.device", "cpu")
        .set("warpmill.segment_rows", "2048")
        .set("warpmill.profile", "kernels")
        .set("warpmill.codec", codec)
        .set("warpmill.representation", "heavy")
        .build()
        .unwrap();
    let sql = |text: &str| session.execute(text, &[]).unwrap();
    sql("CREATE TABLE t AS SELECT value AS a, value % 7 AS b, 'note ' || (value * 37 % 1000) AS note,
         'a longer text, the ' || value || 'th of its kind' AS text FROM range(10000) AS r(value)");
    session.set("warpmill.fallback", "error").unwrap();
    let queries = [
        "SELECT b, count(*), sum(a), min(note), max(text) FROM (SELECT * FROM t WHERE note LIKE '%7%') GROUP BY b ORDER BY b",
        "SELECT note, a, text FROM t WHERE a % 1000 = 3 ORDER BY a",
    ];
    let expected = queries.map(|query| sorted_rows(&sql(query)));
    session.set("warpmill.device", &device()).unwrap();
    let (mut copied_bytes, mut undone) = (0, codec != "none");
    for (data, copies) in [
        ("cache", "segments to the device"),
        ("pinned", "segments from pinned memory"),
        ("host", "segments from host memory"),
        ("disk", "segments from disk"),
        ("cache", "segments to the device"),
    ] {
        session.set("warpmill.device_data", data).unwrap();
        for run in 0..2 {
            let [first, second] = queries.map(sql);
            assert_eq!([sorted_rows(&first), sorted_rows(&second)], expected, "{data}, {codec}");
            let profile = second.profile.unwrap();
            let reasons = reasons(&profile);
            if reasons.iter().any(|reason| reason.contains("read directly")) {
                // Some file systems (in containers) do not support direct reads: then the CPU runs the query, with a reason.
                eprintln!("{}", reasons.join("; "));
                continue;
            }
            assert!(reasons.is_empty(), "{data}, {codec}: {reasons:?}");
            let on_device = profile.programs[0].on_device.as_ref().unwrap();
            let copied = on_device.transfers.iter().find(|transfer| transfer.what == copies);
            if data == "cache" {
                assert!(run == 0 || copied.is_none(), "copied again");
                continue;
            }
            assert!(copied.is_some_and(|copied| copied.nanos > 0), "{data}: {:?}", on_device.transfers);
            copied_bytes = copied.unwrap().bytes;
            // A GPU may lack the library that undoes some codecs.
            undone &= on_device.path.as_ref().unwrap().no_library.is_none();
        }
    }
    if copied_bytes > 0 && codec == "none" {
        session.set("warpmill.device_data", "disk").unwrap();
        session.set("warpmill.io_bandwidth_limit", "2MB").unwrap();
        let started = Instant::now();
        assert_eq!(sorted_rows(&sql(queries[1])), expected[1]);
        assert!(started.elapsed().as_secs_f64() > copied_bytes as f64 / 5e6, "{:?}", started.elapsed());
    }
    // Chunks that the device decompresses travel compressed.
    let expected = if undone { 30_000..350_000 } else { 350_000..900_000 };
    assert!(copied_bytes == 0 || expected.contains(&copied_bytes), "{codec}: {copied_bytes} bytes");
}

/// A megabyte or two of data: unique strings, without a dictionary, and numbers.
fn unique_strings(session: &Session) {
    let sql = |text: &str| session.execute(text, &[]).unwrap();
    sql("CREATE TABLE big AS SELECT value AS id, value * 7919 % 1000 AS g, value // 300 AS run,
         CASE WHEN value % 7 = 0 THEN NULL ELSE value * 3000000017 END AS far, 'day ' || (value / 5000) AS day, 'name ' || (value * 104729 % 1000003) AS name,
         CASE WHEN value % 11 = 0 THEN NULL ELSE repeat('x', value % 40) || value END AS note FROM range(200000) AS r(value)");
    sql("CREATE TABLE small AS SELECT value * 50 AS id, 'partner ' || value AS partner FROM range(1200) AS r(value)");
}

/// The same in row segments of `segment_rows` rows, copied from page-locked memory for each run.
fn pinned(segment_rows: &str) -> Session {
    let session = Session::builder()
        .set("warpmill.device", "cpu")
        .set("warpmill.segment_rows", segment_rows)
        .set("warpmill.device_data", "pinned")
        .build()
        .unwrap();
    unique_strings(&session);
    session
}

#[test]
fn data_that_does_not_fit_passes_through() {
    let session =
        Session::builder().set("warpmill.device", "cpu").set("warpmill.segment_rows", "4096").build().unwrap();
    unique_strings(&session);
    session.set("warpmill.fallback", "error").unwrap();
    let queries = [
        "SELECT g, count(*), sum(id) FROM big GROUP BY g",
        // Deltas and runs, which are decoded on arrival.
        "SELECT run % 13, sum(id), min(far), max(far), count(far), min(day) FROM big WHERE name LIKE '%7' GROUP BY 1",
        "SELECT day, sum(run), count(*) FROM big WHERE id % 3 = 1 AND note IS NOT NULL GROUP BY day",
        // Strings that outlive their batch: in a hash build, as rows, as keys, as extremes, in a sort.
        "SELECT small.partner, big.name FROM small JOIN big ON small.id = big.id WHERE big.note LIKE '%x1%'",
        "SELECT big.name, small.partner FROM big JOIN small ON small.id = big.id AND big.g > 500",
        "SELECT name, note FROM big WHERE g = 17",
        "SELECT note, count(*) FROM big WHERE g < 20 GROUP BY note",
        "SELECT g, min(name), max(note) FROM big WHERE g < 50 GROUP BY g",
        "SELECT min(note), max(name) FROM big",
        "SELECT name FROM big WHERE g < 100 ORDER BY name LIMIT 10",
        "SELECT count(DISTINCT note) FROM big WHERE g < 40",
    ];
    let expected: Vec<_> = queries.iter().map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap())).collect();
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_fallback", "error").unwrap();
    session.set("warpmill.gpu_memory_limit", "4MB").unwrap();
    let mut streamed = 0;
    for (sql, expected) in queries.iter().zip(&expected) {
        for _ in 0..2 {
            let result = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(&sorted_rows(&result), expected, "{sql}");
            let profile = result.profile.unwrap();
            let on_device = profile.programs[0].on_device.as_ref().unwrap_or_else(|| panic!("{sql}"));
            let passed = on_device.transfers.iter().any(|transfer| transfer.what == "segments from host memory");
            streamed += usize::from(passed && on_device.kernels.iter().any(|kernel| kernel.launches > 3));
        }
    }
    assert!(streamed >= queries.len(), "{streamed} of {} passed through", 2 * queries.len());
}

#[test]
fn segments_without_a_partner_are_not_copied() {
    let session = pinned("4096");
    session.set("warpmill.device_fallback", "error").unwrap();
    for (condition, least) in [("partner LIKE 'partner 10__'", 40), ("partner = 'nobody'", 40), ("small.id >= 0", 0)] {
        let sql = format!(
            "SELECT count(*), sum(big.g), min(big.name) FROM big JOIN small ON big.id = small.id WHERE {condition}"
        );
        session.set("warpmill.device", "cpu").unwrap();
        let expected = sorted_rows(&session.execute(&sql, &[]).unwrap());
        session.set("warpmill.device", &device()).unwrap();
        let result = session.execute(&sql, &[]).unwrap();
        assert_eq!(sorted_rows(&result), expected, "{sql}");
        let profile = result.profile.unwrap();
        let scans = &profile.programs[0].on_device.as_ref().unwrap().scans;
        let big = &scans.iter().find(|scan| scan.table == "big").unwrap().pruning;
        assert!(big.segments_pruned >= least && big.by_keys == big.segments_pruned, "{big:?}: {sql}");
        assert!(big.rows_pruned <= big.rows && big.rows_pruned >= 4096 * big.segments_pruned.saturating_sub(1));
    }
}

/// Row segments of very different sizes, with the large ones pruned by keys: many more small ones fit into a slot than planned.
#[test]
fn small_segments_between_large_ones_travel_together() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder()
        .database(folder.path())
        .set("warpmill.device", "cpu")
        .set("warpmill.segment_rows", "1024")
        .set("warpmill.codec", "none")
        .set("warpmill.fallback", "error")
        .build()
        .unwrap();
    let sql = |text: &str| session.execute(text, &[]).unwrap();
    let far = |factor: u64| {
        format!("CASE WHEN value // 1024 % 8 = 0 THEN value * {factor} % 4294967291 * 2147483629 ELSE 5 END")
    };
    let columns: Vec<String> = [2654435761, 2246822519, 3266489917]
        .iter()
        .zip("abc".chars())
        .map(|(f, n)| format!("{} AS {n}", far(*f)))
        .collect();
    sql(&format!(
        "CREATE TABLE mixed AS SELECT value // 1024 AS k, {} FROM range(409600) AS r(value)",
        columns.join(", ")
    ));
    sql("CREATE TABLE odd AS SELECT value AS k FROM range(400) AS r(value) WHERE value % 8 > 0");
    let query = "SELECT count(*), sum(a), sum(b), max(c) FROM mixed JOIN odd ON mixed.k = odd.k";
    let expected = sorted_rows(&sql(query));
    session.set("warpmill.device", &device()).unwrap();
    for data in ["host", "pinned", "disk"] {
        session.set("warpmill.device_data", data).unwrap();
        for _ in 0..2 {
            let result = sql(query);
            assert_eq!(sorted_rows(&result), expected, "{data}");
            let profile = result.profile.unwrap();
            if reasons(&profile).iter().any(|reason| reason.contains("read directly")) {
                continue;
            }
            let scans = &profile.programs[0].on_device.as_ref().unwrap().scans;
            let mixed = &scans.iter().find(|scan| scan.table == "mixed").unwrap().pruning;
            assert_eq!(mixed.by_keys, 50, "{data}: {mixed:?}");
        }
    }
}

/// Any number of batches in flight, whether they overlap with kernels or not.
#[test]
fn pipelines_are_as_many_as_somebody_asks_for() {
    let session = pinned("1024");
    session.set("warpmill.device_fallback", "error").unwrap();
    let query = "SELECT g, count(*), sum(id), min(name) FROM big GROUP BY g";
    let expected = sorted_rows(&session.execute(query, &[]).unwrap());
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.gpu_memory_limit", "67MB").unwrap();
    let mut launches = vec![];
    for (pipelines, batch, overlap) in
        [("0", "auto", "on"), ("1", "auto", "off"), ("1", "64KB", "on"), ("16", "64KB", "on"), ("5", "1MB", "off")]
    {
        session.set("warpmill.device_pipelines", pipelines).unwrap();
        session.set("warpmill.device_batch", batch).unwrap();
        session.set("warpmill.device_overlap", overlap).unwrap();
        let result = session.execute(query, &[]).unwrap();
        assert_eq!(sorted_rows(&result), expected, "{pipelines} of {batch}, overlap {overlap}");
        let profile = result.profile.unwrap();
        let kernels = &profile.programs[0].on_device.as_ref().unwrap().kernels;
        launches.push(kernels.iter().map(|kernel| kernel.launches).max().unwrap());
    }
    // One launch per batch.
    assert_eq!((launches[0], launches[2]), (launches[1], launches[3]), "{launches:?}");
    assert!(launches[4] < launches[2] && launches[2] > 2 * launches[0], "{launches:?}");
}

#[test]
fn pinned_copies_of_a_column_travel_together() {
    let session = pinned("1024");
    let queries = ["SELECT sum(g), sum(id) FROM big", "SELECT sum(g), max(far), sum(run), count(note) FROM big"];
    let expected = queries.map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap()));
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_fallback", "error").unwrap();
    for (sql, expected) in queries.iter().zip(&expected).chain(queries.iter().zip(&expected)) {
        let result = session.execute(sql, &[]).unwrap();
        assert_eq!(&sorted_rows(&result), expected, "{sql}");
        let profile = result.profile.unwrap();
        let transfers = &profile.programs[0].on_device.as_ref().unwrap().transfers;
        let copied = transfers.iter().find(|transfer| transfer.what == "segments from pinned memory").unwrap();
        // 196 row segments; the first query has made copies of one of the columns that the second reads, in other batches.
        assert!(copied.count < 98, "{sql}: {} copies", copied.count);
    }
}

#[test]
fn pinned_copies_keep_to_their_limit() {
    let session = pinned("4096");
    let sql = "SELECT g % 10, count(*), sum(id), max(far), min(name), max(note) FROM big GROUP BY 1 ORDER BY 1";
    let expected = sorted_rows(&session.execute(sql, &[]).unwrap());
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_fallback", "error").unwrap();
    // Tests share the device and its copies: the limit is one that these alone exceed, or none. Existing copies stay.
    for (limit, all_staged) in [("1kB", true), ("unlimited", false), ("1kB", false)] {
        session.set("warpmill.pinned_memory_limit", limit).unwrap();
        for _ in 0..2 {
            let result = session.execute(sql, &[]).unwrap();
            assert_eq!(sorted_rows(&result), expected, "{limit}");
            let profile = result.profile.unwrap();
            let transfers = &profile.programs[0].on_device.as_ref().unwrap().transfers;
            let bytes = |what| transfers.iter().find(|transfer| transfer.what == what).map_or(0, |found| found.bytes);
            let (copied, staged) = (bytes("segments from pinned memory"), bytes("copied to pinned memory"));
            assert!(copied > 3_000_000, "{limit}: {copied} bytes");
            assert_eq!(staged, if all_staged { copied } else { 0 }, "{limit}: of {copied}");
        }
    }
}

#[test]
fn compressed_codes_follow_their_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder()
        .database(folder.path())
        .set("warpmill.segment_rows", "2048")
        .set("warpmill.device_data", "host")
        .set("warpmill.codec", "lz4")
        .build()
        .unwrap();
    let insert =
        |text: &str| format!("SELECT value AS a, '{text}' || (value * 7 % 50) AS name FROM range(9000) AS r(value)");
    session.execute(&format!("CREATE TABLE t AS {}", insert("m")), &[]).unwrap();
    let query = "SELECT name, count(*), sum(a) FROM t WHERE name > 'b3' GROUP BY name ORDER BY name";
    // Each insert adds strings that sort before the existing ones: all codes change.
    for more in ["c", "b", "a"] {
        session.set("warpmill.device", "cpu").unwrap();
        let expected = sorted_rows(&session.execute(query, &[]).unwrap());
        session.set("warpmill.device", &device()).unwrap();
        let result = session.execute(query, &[]).unwrap();
        assert_eq!(sorted_rows(&result), expected);
        assert!(reasons(&result.profile.unwrap()).is_empty());
        session.execute(&format!("INSERT INTO t {}", insert(more)), &[]).unwrap();
    }
}

/// Adjacent chunks of a column are read and copied together, whichever of them are pruned, and across files.
#[test]
fn neighbours_on_disk_travel_together() {
    // Uncompressed, decompressed by the device, by the host.
    ["none", "lz4", "zstd"].into_iter().for_each(check_neighbours);
}

fn check_neighbours(codec: &str) {
    let folder = tempfile::tempdir().unwrap();
    let builder = Session::builder().database(folder.path()).set("warpmill.device", "cpu");
    let session = builder.set("warpmill.codec", codec).set("warpmill.segment_rows", "1024").build().unwrap();
    let sql = |text: &str| session.execute(text, &[]).unwrap();
    sql("CREATE TABLE t AS SELECT value AS a, value * 7919 % 1000003 AS b, value % 7 AS c, 'name ' || value AS name,
         CASE WHEN value % 9 = 0 THEN NULL ELSE value * 104729 % 65537 END AS d FROM range(200000) AS r(value)");
    sql("INSERT INTO t SELECT a + 200000, b, c, name, d FROM t WHERE a < 30000");
    let queries = [
        // All chunks, and a middle range: a few runs of each column.
        ("SELECT sum(b), count(d), max(name) FROM t", 8),
        ("SELECT sum(b), count(d), max(name) FROM t WHERE a BETWEEN 50000 AND 150000", 4),
        // Scattered chunks of three columns: they are read together, but the gaps are not copied.
        ("SELECT sum(b), count(d) FROM t WHERE a IN (1, 3000, 5000, 7000, 9000, 11000, 220000, 222500)", 24),
        // Three runs of four columns.
        (
            "SELECT sum(b), count(d), min(name) FROM t WHERE a BETWEEN 12000 AND 14500 OR a BETWEEN 24100 AND 26000 OR a > 228000",
            12,
        ),
    ];
    let expected = queries.map(|(query, _)| sorted_rows(&sql(query)));
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_data", "disk").unwrap();
    session.set("warpmill.device_batch", "16MB").unwrap();
    session.set("warpmill.representation", "heavy").unwrap();
    for ((query, most), expected) in queries.into_iter().zip(&expected) {
        let result = sql(query);
        assert_eq!(&sorted_rows(&result), expected, "{query}");
        let profile = result.profile.unwrap();
        let reasons = reasons(&profile);
        if reasons.iter().any(|reason| reason.contains("read directly")) {
            eprintln!("{}", reasons.join("; "));
            return;
        }
        assert!(reasons.is_empty(), "{query}: {reasons:?}");
        let on_device = profile.programs[0].on_device.as_ref().unwrap();
        let copied = on_device.transfers.iter().find(|transfer| transfer.what == "segments from disk").unwrap();
        assert!(copied.count <= most, "{codec}, {query}: {} copies", copied.count);
    }
}

/// More files in one batch than are kept open.
#[test]
fn tables_of_many_files_are_read_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder().database(folder.path()).set("warpmill.device", "cpu").build().unwrap();
    let sql = |text: &str| session.execute(text, &[]).unwrap();
    sql("CREATE TABLE t AS SELECT value AS a, 'name ' || value AS name FROM range(100) AS r(value)");
    for file in 1..90 {
        sql(&format!(
            "INSERT INTO t SELECT value AS a, 'name ' || value FROM range({0}, {0} + 50) AS r(value)",
            100 * file
        ));
    }
    let query = "SELECT count(*), sum(a), min(name), max(name) FROM t";
    let expected = sorted_rows(&sql(query));
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_data", "disk").unwrap();
    session.set("warpmill.device_batch", "16MB").unwrap();
    for _ in 0..2 {
        let result = sql(query);
        assert_eq!(sorted_rows(&result), expected);
        let reasons = reasons(&result.profile.unwrap());
        assert!(reasons.iter().all(|reason| reason.contains("read directly")), "{reasons:?}");
    }
}

/// The files of a table that was dropped and created again, while a reader of the old one still maps it.
#[test]
fn files_of_another_table_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let session = |name: &str| {
        let builder = Session::builder().database(folder.path().join(name)).set("warpmill.device", "cpu");
        builder.set("warpmill.segment_rows", "2048").set("warpmill.codec", "none").build().unwrap()
    };
    let (ours, theirs) = (session("ours"), session("theirs"));
    for (session, factor) in [(&ours, 7919), (&theirs, 7907)] {
        let made = format!("CREATE TABLE t AS SELECT value * {factor} % 100003 AS a FROM range(20000) AS r(value)");
        session.execute(&made, &[]).unwrap();
    }
    let query = "SELECT count(*), sum(a), min(a), max(a) FROM t";
    let expected = sorted_rows(&ours.execute(query, &[]).unwrap());
    assert_ne!(sorted_rows(&theirs.execute(query, &[]).unwrap()), expected);
    let mut replaced = 0;
    for entry in std::fs::read_dir(folder.path().join("theirs/t")).unwrap() {
        let path = entry.unwrap().path();
        let own = folder.path().join("ours/t").join(path.file_name().unwrap());
        if std::fs::read(&path).unwrap().starts_with(b"WMDATA") && own.exists() {
            std::fs::rename(path, own).unwrap();
            replaced += 1;
        }
    }
    assert_eq!(replaced, 1);
    ours.set("warpmill.device", &device()).unwrap();
    ours.set("warpmill.device_data", "disk").unwrap();
    let result = ours.execute(query, &[]).unwrap();
    assert_eq!(sorted_rows(&result), expected);
    let reasons = reasons(&result.profile.unwrap());
    assert!(reasons.iter().any(|reason| reason.contains("read directly")), "{reasons:?}");
}
