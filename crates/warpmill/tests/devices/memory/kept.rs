//! Data streamed through device memory, part of which stays there.

use warpmill::{QueryProfile, Session};

use crate::quick::cases;
use crate::support::sorted_rows;
use crate::{device, reasons, size_factor};

/// Tables of a few megabytes: numbers, deltas, runs, codes, strings, NULLs.
fn fill(session: &Session) {
    let rows = 120_000 * size_factor();
    let sql = |text: &str| session.execute(&text.replace("120000", &rows.to_string()), &[]).unwrap();
    sql("CREATE TABLE big AS SELECT value AS id, value * 7919 % 100000 AS a, value // 300 AS run,
         CASE WHEN value % 7 = 0 THEN NULL ELSE value * 3000000017 END AS far, 'day ' || (value / 5000) AS day,
         'name ' || (value * 104729 % 1000003) AS name,
         CASE WHEN value % 11 = 0 THEN NULL ELSE repeat('x', value % 40) || value END AS note FROM range(120000) AS r(value)");
    sql(
        "CREATE TABLE other AS SELECT value * 3 AS id, value * 104729 % 1000003 AS b, value * 7 % 100 AS c FROM range(120000) AS r(value)",
    );
    sql("CREATE TABLE empty AS SELECT id, name FROM big WHERE id < 0");
}

fn session() -> Session {
    let session =
        Session::builder().set("warpmill.device", "cpu").set("warpmill.segment_rows", SEGMENT_ROWS).build().unwrap();
    fill(&session);
    session.set("warpmill.fallback", "error").unwrap();
    session
}

/// Selects a device with `memory` kB; no other test uses the same limit, so that none shares the device.
fn on_device(session: &Session, memory: u64) {
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_fallback", "error").unwrap();
    session.set("warpmill.gpu_memory_limit", &format!("{}kB", memory * size_factor())).unwrap();
}

/// Whether to check byte counts: kernels of a GPU take 16 MB and more for any data, which leaves less memory than the same fraction of the simulated
/// device's.
fn counts_bytes() -> bool {
    device() == "sim"
}

/// Bytes that were copied, that were resident, and that stay.
fn bytes(profile: &QueryProfile) -> [u64; 3] {
    let on_device = profile.programs[0].on_device.as_ref().unwrap();
    let passed = on_device.transfers.iter().filter(|transfer| transfer.what == "segments from host memory");
    let path = on_device.path.as_ref();
    let [found, kept] = path.map_or([0, 0], |path| [path.found_bytes, path.kept_bytes]);
    [passed.map(|transfer| transfer.bytes).sum(), found, kept]
}

/// Short row segments, so that there are many.
const SEGMENT_ROWS: &str = "4096";

const QUERIES: [&str; 7] = [
    "SELECT run % 13, sum(id), min(far), max(far), count(far), min(day) FROM big WHERE name LIKE '%7' GROUP BY 1",
    "SELECT min(note), max(name), sum(a), count(note) FROM big",
    "SELECT name, note FROM big WHERE a = 17 OR id = 3",
    "SELECT big.name, o.b FROM big JOIN other o ON big.id = o.id AND o.c > 97 WHERE big.note LIKE '%x1%'",
    "SELECT a.name, b.name FROM big a JOIN big b ON a.id = b.a WHERE b.id % 1000 = 7",
    "SELECT day, sum(run), count(*), max(note) FROM big WHERE id % 3 = 1 AND note IS NOT NULL GROUP BY day",
    "SELECT big.note, empty.name FROM big LEFT JOIN empty ON big.id = empty.id WHERE big.id > 119990 AND big.id < 120000",
];

#[test]
fn a_part_of_what_passes_stays() {
    let session = session();
    let expected = QUERIES.map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap()));
    on_device(&session, 3100);
    let mut saved = 0;
    for round in 0..3 {
        for (sql, expected) in QUERIES.iter().zip(&expected) {
            let result = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(&sorted_rows(&result), expected, "{sql}, round {round}");
            let [_, found, _] = bytes(result.profile.as_ref().unwrap());
            saved += found;
        }
    }
    assert!(saved > 1_000_000 || !counts_bytes(), "{saved} bytes did not travel");
}

#[test]
fn the_next_run_copies_the_rest() {
    let session = session();
    let sql = "SELECT sum(a), max(far), count(day), sum(run), sum(id), count(far) FROM big";
    let expected = sorted_rows(&session.execute(sql, &[]).unwrap());
    on_device(&session, 1210);
    let run = || {
        let result = session.execute(sql, &[]).unwrap();
        assert_eq!(sorted_rows(&result), expected);
        bytes(result.profile.as_ref().unwrap())
    };
    let explained = || session.explain(sql, false).unwrap();
    assert!(explained().contains("bytes of segments pass through") && !explained().contains("caching region"));
    let [all, found, kept] = run();
    if !counts_bytes() {
        return;
    }
    assert!(found == 0 && kept > all / 10 && kept < all, "{all} bytes, {kept} of them stay");
    // Resident chunks stay, and others find no room.
    let [rest, found, more] = run();
    assert_eq!([rest, found, more], [all - kept, kept, 0]);
    assert_eq!(run(), [rest, found, 0]);
    assert!(explained().contains(&format!("but for {kept} bytes in the caching region")), "{}", explained());
    let analyzed = session.explain(sql, true).unwrap();
    assert!(analyzed.contains(&format!("{kept} bytes were in the caching region")), "{analyzed}");
    // Data that are configured to be copied for each run are copied, ignoring resident chunks.
    session.set("warpmill.device_data", "host").unwrap();
    assert_eq!(run(), [all, 0, 0]);
    assert_eq!(run(), [all, 0, 0]);
    session.set("warpmill.device_data", "cache").unwrap();
    assert_eq!(run(), [rest, found, 0]);
    // In parts, too: a run reuses chunks that it kept in an earlier part.
    session.set("warpmill.device_partitions", "3").unwrap();
    let parts = "SELECT id, note FROM big JOIN (SELECT b, max(c) AS c FROM other GROUP BY b) o ON o.b = big.a";
    let result = session.execute(parts, &[]).unwrap();
    session.set("warpmill.device", "cpu").unwrap();
    assert_eq!(sorted_rows(&result), sorted_rows(&session.execute(parts, &[]).unwrap()));
}

#[test]
fn queries_that_take_turns_settle() {
    let session = session();
    let queries =
        [QUERIES[1], QUERIES[0], "SELECT sum(b), max(c) FROM other", "SELECT count(*) FROM big WHERE run = 7"];
    let expected = queries.map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap()));
    on_device(&session, 3300);
    let mut rounds = vec![];
    for _ in 0..6 {
        let mut round = [0; 3];
        for (sql, expected) in queries.iter().zip(&expected) {
            let result = session.execute(sql, &[]).unwrap();
            assert_eq!(&sorted_rows(&result), expected, "{sql}");
            let found = bytes(result.profile.as_ref().unwrap());
            round.iter_mut().zip(found).for_each(|(sum, bytes)| *sum += bytes);
        }
        rounds.push(round);
    }
    // Nothing more is kept, and every round finds the same bytes.
    let settled = rounds[3..].iter().all(|round| *round == rounds[5]) && rounds[5][1] > 0 && rounds[5][2] == 0;
    assert!(settled || !counts_bytes(), "{rounds:?}");
}

#[test]
fn every_form_stays() {
    // Of columns that the host decompresses, numbers stay.
    let numbers = ["SELECT sum(id), min(far), max(far), count(far), max(a) FROM big"];
    let forms = [
        ("lz4", "heavy", 3400, &QUERIES[..3]),
        ("snappy", "heavy", 3500, &QUERIES[..3]),
        ("zstd", "heavy_host", 1160, &numbers),
    ];
    for (codec, form, memory, queries) in cases(forms, 2) {
        let folder = tempfile::tempdir().unwrap();
        let session = Session::builder()
            .database(folder.path())
            .set("warpmill.device", "cpu")
            .set("warpmill.segment_rows", SEGMENT_ROWS)
            .set("warpmill.codec", codec)
            .set("warpmill.codec_block", "4096")
            .set("warpmill.representation", form)
            .build()
            .unwrap();
        fill(&session);
        let expected: Vec<_> = queries.iter().map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap())).collect();
        on_device(&session, memory);
        let mut saved = 0;
        for _ in 0..2 {
            for (sql, expected) in queries.iter().zip(&expected) {
                let result = session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}"));
                assert_eq!(&sorted_rows(&result), expected, "{sql}, {codec} {form}");
                saved += bytes(result.profile.as_ref().unwrap())[1];
            }
        }
        assert!(saved > 100_000 || !counts_bytes(), "{codec} {form}: {saved} bytes did not travel");
    }
}

#[test]
fn sessions_share_what_stays() {
    let session = session();
    let expected = QUERIES.map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap()));
    on_device(&session, 3800);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (session, expected) = (&session, &expected);
            scope.spawn(move || {
                for round in 0..QUERIES.len() {
                    let query = (3 * thread + round) % QUERIES.len();
                    let result = session.execute(QUERIES[query], &[]).unwrap();
                    assert_eq!(sorted_rows(&result), expected[query], "{}", QUERIES[query]);
                    assert!(reasons(&result.profile.unwrap()).is_empty());
                }
            });
        }
    });
    // With four running at once, there may have been no room to keep anything; a later run finds room.
    let mut saved = 0;
    for sql in QUERIES.iter().chain(&QUERIES) {
        saved += bytes(session.execute(sql, &[]).unwrap().profile.as_ref().unwrap())[1];
    }
    assert!(saved > 0);
    // Another version of a table shares unchanged segments; only new ones are copied.
    session.execute("INSERT INTO big SELECT * FROM big WHERE id < 5000", &[]).unwrap();
    let on_device = QUERIES.map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap()));
    session.set("warpmill.device", "cpu").unwrap();
    assert_eq!(on_device, QUERIES.map(|sql| sorted_rows(&session.execute(sql, &[]).unwrap())));
}
