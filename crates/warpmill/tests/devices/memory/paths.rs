//! The form of a column that passes through device memory.

use std::collections::HashSet;

use warpmill::{QueryProfile, Session};

use crate::quick::cases;
use crate::support::sorted_rows;
use crate::{device, reasons};

/// Tables of a few segments: numbers, deltas, runs, codes, strings, NULLs.
fn session(folder: &std::path::Path, codec: &str, both: bool) -> Session {
    let session = Session::builder()
        .database(folder)
        .set("warpmill.device", "cpu")
        .set("warpmill.segment_rows", "4096")
        .set("warpmill.codec", codec)
        .set("warpmill.codec_block", "4096")
        .set("warpmill.codec_light", if both { "on" } else { "off" })
        .build()
        .unwrap();
    let sql = |text: &str| session.execute(text, &[]).unwrap();
    sql("CREATE TABLE t AS SELECT value AS id, value // 300 AS run, value * 37 % 1000 AS a,
         CASE WHEN value % 7 = 0 THEN NULL ELSE value % 50 END AS b, 'day ' || (value / 5000) AS day,
         'a longer text, the ' || (value * 7919 % 20011) || 'th of its kind' AS text FROM range(20000) AS r(value)");
    session.set("warpmill.fallback", "error").unwrap();
    session
}

const QUERIES: [&str; 2] = [
    "SELECT day, count(*), sum(a), min(b), max(run) FROM t WHERE b < 40 GROUP BY day ORDER BY day",
    "SELECT id, a, text FROM t WHERE a = 111 AND text LIKE '%1%' ORDER BY id",
];

/// The streaming path of the only program's data, as JSON.
fn path(profile: &QueryProfile) -> serde_json::Value {
    serde_json::to_value(profile.programs[0].on_device.as_ref().unwrap().path.as_ref().unwrap()).unwrap()
}

/// Whether the file system supports direct reads (some in containers do not).
fn reads_directly(profile: &QueryProfile) -> bool {
    !reasons(profile).iter().any(|reason| reason.contains("read directly"))
}

#[test]
fn every_form_from_every_place_gives_the_same_rows() {
    for (codec, both) in cases([("lz4", true), ("zstd", true), ("deflate", false), ("lz4", false)], 3) {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path(), codec, both);
        let expected = QUERIES.map(|query| sorted_rows(&session.execute(query, &[]).unwrap()));
        session.set("warpmill.device", &device()).unwrap();
        let (mut read, mut undone) = (vec![], true);
        for place in ["disk", "host", "pinned"] {
            session.set("warpmill.device_data", place).unwrap();
            for form in ["light", "heavy", "heavy_host", "auto", "auto", "auto"] {
                session.set("warpmill.representation", form).unwrap();
                for (query, expected) in QUERIES.iter().zip(&expected) {
                    let result = session.execute(query, &[]).unwrap();
                    assert_eq!(&sorted_rows(&result), expected, "{codec}, {both}, {place}, {form}: {query}");
                    let profile = result.profile.unwrap();
                    if !reads_directly(&profile) {
                        continue;
                    }
                    assert!(reasons(&profile).is_empty(), "{:?}", reasons(&profile));
                    let path = path(&profile);
                    assert_eq!(path["source"], place);
                    let columns = path["columns"].as_array().unwrap();
                    if form != "auto" {
                        assert_eq!(path["reason"], "forced");
                        assert!(columns.iter().all(|column| column["form"] == form), "{path}");
                    }
                    // The chunks that the profile counts as streamed were streamed.
                    let sum = |what: &str| columns.iter().map(|column| column[what].as_u64().unwrap()).sum::<u64>();
                    let on_device = profile.programs[0].on_device.as_ref().unwrap();
                    let copied = on_device.transfers.iter().find(|it| it.what.starts_with("segments from")).unwrap();
                    assert_eq!(copied.bytes, sum("copied_bytes"), "{codec}, {both}, {place}, {form}");
                    assert!(
                        path["measured"]["total"].as_f64().unwrap() >= path["measured"]["kernels"].as_f64().unwrap()
                    );
                    // The host decompresses codecs that the device does not support, with a reason.
                    let library = path["no_library"].is_null();
                    for column in
                        columns.iter().filter(|column| column["codec"] == "zstd" || column["codec"] == "deflate")
                    {
                        assert!(
                            library || column["undone_by"] == "host" || both && column["form"] == "light",
                            "{path}"
                        );
                        assert!(!library || form != "heavy" || column["undone_by"] != "host", "{path}");
                    }
                    undone &= library;
                    if place == "host" && *query == QUERIES[0] {
                        read.push((form, sum("stored_bytes"), sum("copied_bytes")));
                    }
                }
            }
        }
        let of =
            |form: &str| read.iter().find(|(other, ..)| *other == form).map(|(_, stored, copied)| (*stored, *copied));
        let (light, heavy, on_host) = (of("light").unwrap(), of("heavy").unwrap(), of("heavy_host").unwrap());
        assert!(heavy.0 == on_host.0 && on_host.1 == light.1, "{read:?}");
        assert!(if both { heavy.0 < light.0 } else { heavy.0 == light.0 }, "{read:?}");
        assert!(if undone { heavy.1 < light.1 } else { heavy.1 == light.1 }, "{read:?}");
    }
}

#[test]
fn the_choice_settles_and_explain_tells_it() {
    let folder = tempfile::tempdir().unwrap();
    let session = session(folder.path(), "lz4", true);
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_data", "host").unwrap();
    let (mut forms, mut reasons) = (vec![], vec![]);
    // On a busy machine the measured times vary; then another form is tried.
    while reasons.len() < 10 || reasons.len() < 40 && !reasons[reasons.len() - 4..].iter().all(|it| it == "measured") {
        let path = path(&session.execute(QUERIES[0], &[]).unwrap().profile.unwrap());
        let columns = path["columns"].as_array().unwrap();
        forms.push(columns.iter().map(|column| column["form"].to_string()).collect::<Vec<_>>());
        reasons.push(path["reason"].as_str().unwrap().to_string());
        assert_eq!(path["fixed"].as_array().unwrap().len(), 3);
    }
    assert_eq!(reasons[0], "predicted");
    assert!(reasons[reasons.len() - 4..].iter().all(|reason| reason == "measured"), "{reasons:?}");
    // The number of tried forms is bounded.
    assert!(forms.iter().collect::<HashSet<_>>().len() <= 6, "{forms:?}");
    let text = |sql: &str| sorted_rows(&session.execute(sql, &[]).unwrap()).join("\n");
    let told = text(&format!("EXPLAIN {}", QUERIES[0]));
    assert!(told.contains("data passes through from host") && told.contains("predicted"), "{told}");
    let told = text(&format!("EXPLAIN ANALYZE {}", QUERIES[0]));
    assert!(told.contains("data passes through from host") && told.contains("measured"), "{told}");
}

#[test]
fn damage_of_a_form_is_named_when_it_is_read() {
    ["lz4", "zstd", "gdeflate"].into_iter().for_each(check_damage);
}

/// Flips a bit in the compressed form of a column.
fn check_damage(codec: &str) {
    let folder = tempfile::tempdir().unwrap();
    session(folder.path(), codec, true);
    let table = folder.path().join("t");
    let manifest = std::fs::read_to_string(table.join("0000000000000001.manifest")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(manifest.lines().nth(1).unwrap()).unwrap();
    // The code column of the third row segment.
    let heavy = &manifest["segments"][2]["columns"][2]["heavy"];
    let at = heavy["offset"].as_u64().unwrap() + heavy["bytes"].as_u64().unwrap() / 2;
    let file = table.join("0000000000000001-0000.data");
    let mut data = std::fs::read(&file).unwrap();
    data[at as usize] ^= 16;
    std::fs::write(&file, data).unwrap();
    let session = Session::builder().database(folder.path()).set("warpmill.device", &device()).build().unwrap();
    for place in ["host", "disk"] {
        session.set("warpmill.device_data", place).unwrap();
        session.set("warpmill.representation", "light").unwrap();
        assert_eq!(sorted_rows(&session.execute("SELECT count(a) FROM t WHERE a >= 0", &[]).unwrap()).len(), 1);
        for form in ["heavy", "heavy_host"] {
            session.set("warpmill.representation", form).unwrap();
            match session.execute("SELECT sum(a) FROM t WHERE a >= 0", &[]) {
                Ok(result) => assert!(!reads_directly(&result.profile.unwrap()), "{place}, {form}"),
                Err(error) => {
                    let text = error.to_string();
                    let named = text.contains("column \"a\", segment 2") && text.contains("-0000.data");
                    assert!(named && text.contains("checksum"), "{place}, {form}: {text}");
                }
            }
        }
    }
}
