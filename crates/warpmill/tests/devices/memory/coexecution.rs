//! Joins larger than device memory: the CPU runs them and the operators above them, the device those below.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpmill::{Error, QueryProfile, Session};
use warpmill_datagen::Suite;

use super::hybrid::{difference, large_tables, limit, session};
use super::parts::{filled, joins, tables};
use crate::{device, reasons, size_factor};

/// The profiles of split programs, with the rows that their CPU part read.
fn plans(profile: &QueryProfile) -> Vec<String> {
    let on_device = profile.programs.iter().filter_map(|program| program.on_device.as_ref());
    on_device.filter_map(|on_device| on_device.join.as_ref()).map(ToString::to_string).collect()
}

/// Checks the answers, and that at least the expected number of programs is split by `strategy`.
fn check(session: &Session, queries: &[String], strategy: &str, least: usize) {
    session.set("warpmill.device_join", strategy).unwrap();
    let (mut failures, mut split) = (vec![], 0);
    for sql in queries {
        let (failure, profile) = difference(session, sql);
        failures.extend(failure);
        failures.extend(reasons(&profile).into_iter().map(|reason| format!("{reason}: {sql}")));
        split += usize::from(plans(&profile).iter().any(|plan| plan.starts_with(&format!("joins {strategy} for"))));
    }
    assert!(failures.is_empty(), "{strategy}: {} failures\n{}", failures.len(), failures.join("\n"));
    assert!(split >= least, "{strategy}: {split} of {} split", queries.len());
}

#[test]
fn joins_of_every_kind() {
    let session = session();
    tables(&session, [3000, 400], [1500, 5]);
    let sql = |text: &str| drop(session.execute(text, &[]).unwrap());
    sql(
        "CREATE TABLE few AS SELECT value AS f, CASE WHEN value = 3 THEN NULL ELSE 'key ' || value END AS s FROM range(40) AS r(value)",
    );
    sql("CREATE TABLE no_rows AS SELECT k, v, note FROM small WHERE v < 0");
    let mut queries = joins();
    for not in ["", "NOT "] {
        for list in ["v < 100", "v < 100 AND k IS NOT NULL", "v < 0"] {
            queries.push(format!("SELECT id FROM big WHERE k {not}IN (SELECT k FROM small WHERE {list})"));
            queries
                .push(format!("SELECT id FROM big WHERE id % 7 = 0 OR k {not}IN (SELECT k FROM small WHERE {list})"));
        }
    }
    // One build side or probe side empty, several keys, joins above and below, groups and sorts in between.
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        queries.push(format!("SELECT id, note FROM big {join} no_rows ON big.k = no_rows.k"));
        queries.push(format!("SELECT big.k, note FROM no_rows {join} big ON big.k = no_rows.k"));
        queries.push(format!("SELECT id, v FROM big {join} small ON big.k = small.k AND big.s = small.s"));
        queries.push(format!(
            "SELECT f, count(*), sum(v), min(note), max(big.s) FROM big {join} small ON big.k = small.k
             {join} few ON few.f = big.id % 50 GROUP BY f"
        ));
    }
    queries.extend(
        [
            "SELECT count(*) FROM big, few",
            "SELECT a.id, b.id FROM big a JOIN big b ON a.s = b.s JOIN few ON few.s = a.s WHERE a.id % 5 = 0",
            "SELECT v, c FROM small JOIN (SELECT k, count(*) AS c FROM big GROUP BY k) g ON g.k = small.k",
            "SELECT s, count(*) FROM (SELECT s FROM big UNION ALL SELECT big.s FROM big JOIN small ON big.k = small.k) GROUP BY s",
            "SELECT id, v FROM (SELECT * FROM big ORDER BY id LIMIT 100) b JOIN small ON b.k = small.k",
            "SELECT id, v FROM big JOIN small ON big.k = small.k ORDER BY id DESC, v LIMIT 17",
            "SELECT v FROM small WHERE v > (SELECT avg(id) / 20 FROM big JOIN few ON big.s = few.s)",
        ]
        .map(String::from),
    );
    session.set("warpmill.gpu_memory_limit", "613MB").unwrap();
    // The part below a cut may itself run in parts.
    for (strategy, parts, count) in
        [("fallback", "1", queries.len()), ("naive", "1", queries.len()), ("fallback", "3", 10)]
    {
        session.set("warpmill.device_partitions", parts).unwrap();
        check(&session, &queries[queries.len() - count..], strategy, count * 2 / 3);
    }
}

#[test]
fn builds_that_fit_are_made_where_they_are_needed() {
    let session = session();
    large_tables(&session, 12_000);
    session
        .execute("CREATE TABLE few AS SELECT value AS f, 'few ' || value AS text FROM range(45) AS r(value)", &[])
        .unwrap();
    limit(&session, 223);
    let queries = [
        // Above the cut.
        "SELECT f.text, count(*), sum(w.a % 1009), sum(w.b % 1009), max(w.note) FROM few f
         JOIN (SELECT w.*, p.id FROM wide w JOIN probes p ON p.k = w.k) w ON f.f = w.id % 50 GROUP BY f.text",
        // Operators below the join, with unmatched rows on the probe side and on the build side.
        "SELECT x.f, x.text, w.a, w.b, w.c, w.d, w.note FROM wide w
         RIGHT JOIN (SELECT f.f, f.text, p.k FROM few f FULL JOIN probes p ON f.f * 31 = p.id) x ON w.k = coalesce(x.k, x.f)
         WHERE coalesce(x.k, x.f) % 7 = 1",
        "SELECT p.id, x.f, x.text, x.a, x.b, x.c, x.d FROM
         (SELECT w.*, f.f, f.text FROM few f FULL JOIN wide w ON f.f * 1000 = w.k + 20) x JOIN probes p ON coalesce(x.k, x.f) = p.k
         WHERE p.id % 11 = 3",
        // Aggregation below the join, and above it.
        "SELECT g.c, count(*), sum(w.a % 1009), sum(w.b % 1009), sum(w.d % 1009), min(w.note) FROM wide w
         JOIN (SELECT k, count(*) AS c FROM probes WHERE id % 3 < 2 GROUP BY k) g ON g.k = w.k GROUP BY g.c",
        // Two that do not fit, one over the other.
        "SELECT count(*), sum(w.a % 1009 + v.a % 1009), sum(w.b % 1009 + v.b % 1009), max(w.note), min(v.note) FROM wide v
         JOIN (SELECT w.*, p.id FROM wide w JOIN probes p ON p.k = w.k) w ON v.k = w.id % 13000",
    ];
    for strategy in ["fallback", "naive"] {
        check(&session, &queries.map(String::from), strategy, queries.len());
    }
}

#[test]
fn who_runs_what_is_explained() {
    let session = session();
    large_tables(&session, 20_000);
    limit(&session, 353);
    session.set("warpmill.device", &device()).unwrap();
    let sql = "SELECT w.k % 3 AS g, count(*), sum(w.a % 100003), sum(w.b % 100003), sum(w.d % 100003) FROM wide w JOIN probes p ON p.k = w.k WHERE p.id % 2 = 0 GROUP BY 1 ORDER BY 1";
    for (strategy, sides) in [
        ("fallback", "pipeline 2 on the cpu"),
        ("naive", "pipeline 1 on the device up to rows for the cpu, pipeline 0, 2 on the cpu"),
    ] {
        session.set("warpmill.device_join", strategy).unwrap();
        let text = session.explain(sql, false).unwrap();
        let said = format!("joins {strategy} for hash build #0");
        assert!(text.contains(&said) && text.contains(sides) && text.contains("(forced: partitioned"), "{text}");
        let (failure, profile) = difference(&session, sql);
        assert_eq!(failure, None);
        let text = profile.to_string();
        assert!(text.contains(&said) && text.contains(sides), "{text}");
        // Returned rows have the width of the columns that are read: three numbers of 8 bytes and a key, or just a key.
        let on_device = profile.programs[0].on_device.as_ref().unwrap();
        let back = on_device.transfers.iter().find(|transfer| transfer.what == "rows to the host").unwrap();
        assert!(back.bytes > 0, "{text}");
        let rows: Vec<u64> = profile.programs[0].pipelines.iter().map(|pipeline| pipeline.workers as u64).collect();
        assert!(rows.iter().all(|workers| *workers > 0), "{text}");
        // The second run is split from the start.
        assert_eq!(difference(&session, sql).0, None);
    }
}

#[test]
fn the_fastest_is_predicted() {
    // On other devices the rates are measured.
    if device() != "sim" {
        return;
    }
    let session = session();
    large_tables(&session, 20_000);
    limit(&session, 359);
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_fallback", "allow").unwrap();
    let sql = "SELECT p.id, w.a, w.b, w.c, w.d FROM wide w JOIN probes p ON p.k = w.k";
    session.set("warpmill.threads", "512").unwrap();
    let text = session.explain(sql, false).unwrap();
    let seconds = |name: &str| -> f64 {
        let predicted = &text[text.find(": partitioned ").unwrap_or_else(|| panic!("{text}"))..];
        let rest = &predicted[predicted.find(&format!(" {name} ")).unwrap() + name.len() + 2..];
        rest[..rest.find(" ms").unwrap()].parse().unwrap()
    };
    // The CPU takes no time to scan: rows that only travel to come back lose.
    assert!(seconds("cpu") < seconds("naive") && seconds("naive") < seconds("fallback"), "{text}");
    // The CPU takes part only where it may.
    session.set("warpmill.device_fallback", "error").unwrap();
    let text = session.explain(sql, false).unwrap();
    assert!(text.contains("fallback not possible, naive not possible, cpu not possible"), "{text}");
}

#[test]
fn errors_and_limits_are_those_of_other_programs() {
    let session = session();
    large_tables(&session, 12_000);
    limit(&session, 211);
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_join", "fallback").unwrap();
    // Expressions that raise errors, below the join and above it.
    for sql in [
        "SELECT sum(w.a), sum(w.b), sum(w.d), sum(9223372036854775807 + w.a) FROM wide w JOIN probes p ON p.k = w.k",
        "SELECT w.a, w.b, w.c, w.d, w.note FROM wide w JOIN probes p ON p.k = w.k WHERE 9223372036854775807 + p.id > 0",
    ] {
        session.set("warpmill.device", "cpu").unwrap();
        let expected = session.execute(sql, &[]).unwrap_err().to_string();
        session.set("warpmill.device", &device()).unwrap();
        assert_eq!(session.execute(sql, &[]).unwrap_err().to_string(), expected, "{sql}");
    }
    // More rows than the CPU's memory limit: the CPU runs the whole program and spills.
    let sql =
        "SELECT sum(p.id), count(*), sum(w.a % 7), sum(w.b % 7), min(w.note) FROM wide w JOIN probes p ON p.k = w.k";
    session.set("warpmill.memory_limit", &format!("{}kB", 300 * size_factor())).unwrap();
    let error = session.execute(sql, &[]).unwrap_err().to_string();
    assert!(error.contains("rows for the CPU back end") && error.contains("warpmill.memory_limit"), "{error}");
    session.set("warpmill.device_fallback", "allow").unwrap();
    let (failure, profile) = difference(&session, sql);
    assert_eq!(failure, None);
    assert!(reasons(&profile)[0].contains("rows for the CPU back end"), "{profile}");
    // If they fit, later operators spill, or fit, too.
    let mut spilled = vec![];
    for kilobytes in [1500, 2000, 9000] {
        session.set("warpmill.memory_limit", &format!("{}kB", kilobytes * size_factor())).unwrap();
        let (failure, profile) = difference(&session, sql);
        assert_eq!((failure, reasons(&profile)), (None, vec![]), "{kilobytes}");
        spilled.push(profile.programs[0].spilled_bytes > 0);
    }
    assert!(spilled[0] && !spilled[2], "{spilled:?}");
}

#[test]
fn tpch_with_joins_on_the_cpu() {
    let session = filled(Suite::Tpch, 0.01 * size_factor() as f64);
    for strategy in ["fallback", "naive"] {
        session.set("warpmill.device_join", strategy).unwrap();
        let mut split = BTreeSet::new();
        // The costs depend on the device.
        for kilobytes in [709, 500, 350] {
            limit(&session, kilobytes);
            for query in warpmill_datagen::queries(Suite::Tpch) {
                if !["3", "5", "9", "10", "13", "18", "20", "21", "22"].contains(&query.name.trim_start_matches('Q')) {
                    continue;
                }
                let (failure, profile) = difference(&session, query.sql);
                assert_eq!(failure, None, "{}", query.name);
                if plans(&profile).iter().any(|plan| plan.starts_with(&format!("joins {strategy}"))) {
                    split.insert(query.name);
                }
            }
            if split.len() >= 3 {
                break;
            }
        }
        assert!(split.len() >= 3, "{strategy}: {split:?}");
    }
}

#[test]
fn a_split_program_is_cancelled() {
    let session = session();
    large_tables(&session, 12_000);
    limit(&session, 227);
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.device_join", "fallback").unwrap();
    let sql = "SELECT count(*), sum(w.a % 7), sum(w.b % 7), max(w.note) FROM wide w JOIN probes p ON p.k = w.k";
    let (handle, done) = (session.cancel_handle(), Arc::new(AtomicBool::new(false)));
    let stop = done.clone();
    let other = std::thread::spawn(move || {
        // At varying times of a run.
        for micros in (0..).step_by(700).take_while(|_| !stop.load(Ordering::Relaxed)) {
            std::thread::sleep(Duration::from_micros(micros % 20_000));
            handle.cancel();
        }
    });
    let cancelled = (0..200).filter(|_| match session.execute(sql, &[]) {
        Err(Error::Cancelled) => true,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    });
    assert_eq!(cancelled.take(10).count(), 10);
    done.store(true, Ordering::Relaxed);
    other.join().unwrap();
    let (failure, profile) = difference(&session, sql);
    assert_eq!((failure, plans(&profile).len()), (None, 1));
}
