//! Joins whose hash builds exceed device memory: in parts, with rows in host memory, or on the CPU.

use std::collections::BTreeSet;
use std::sync::Arc;

use warpmill::{QueryProfile, Session};
use warpmill_datagen::Suite;

use super::parts::{self, filled, joins, tables};
use crate::quick::cases;
use crate::support::sorted_rows;
use crate::{device, reasons, size_factor};

pub(super) fn session() -> Session {
    let session = parts::session();
    session.set("warpmill.device_join", "auto").unwrap();
    // The side that is written first is the build.
    session.set("warpmill.join_order", "off").unwrap();
    session
}

/// Bytes of page-locked memory for rows of hash builds, and the strategies of programs whose builds do not fit.
pub(super) fn on_host(profile: &QueryProfile) -> (u64, Vec<&'static str>) {
    let on_device = || profile.programs.iter().filter_map(|program| program.on_device.as_ref());
    let strategies = on_device().filter_map(|on_device| on_device.join.as_ref()).map(|plan| plan.strategy.name());
    (on_device().map(|on_device| on_device.mapped_bytes).sum(), strategies.collect())
}

/// The difference of the device's answer, and the strategies that were used.
pub(super) fn difference(session: &Session, sql: &str) -> (Option<String>, Arc<QueryProfile>) {
    session.set("warpmill.device", "cpu").unwrap();
    let expected = sorted_rows(&session.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")));
    session.set("warpmill.device", &device()).unwrap();
    let result = match session.execute(sql, &[]) {
        Err(error) => return (Some(format!("{error}: {sql}")), Arc::default()),
        Ok(result) => result,
    };
    let found = sorted_rows(&result);
    let differing = found.iter().zip(&expected).find(|(a, b)| a != b);
    let same = found == expected;
    (
        (!same).then(|| format!("{} rows for {}, {differing:?}: {sql}", found.len(), expected.len())),
        result.profile.unwrap(),
    )
}

/// Limits the device to `memory` kB; no other test uses the same limit, so that none shares the device.
pub(super) fn limit(session: &Session, memory: u64) {
    session.set("warpmill.gpu_memory_limit", &format!("{}kB", memory * size_factor())).unwrap();
}

/// A build side of `rows` wide rows, with strings and NULLs, and a probe side.
pub(super) fn large_tables(session: &Session, rows: u64) {
    let rows = rows * size_factor();
    let sql = |text: String| drop(session.execute(&text, &[]).unwrap());
    sql(format!(
        "CREATE TABLE wide AS SELECT value AS k, value * 2654435761 % 4294967291 * 65537 AS a,
         value * 2246822519 % 4294967291 * 65537 AS b,
         CASE WHEN value % 5 = 0 THEN NULL ELSE value * 3266489917 % 4294967291 * 65537 END AS c,
         value * 668265263 % 4294967291 * 65537 AS d,
         CASE WHEN value % 7 = 0 THEN NULL ELSE 'a text of row ' || value END AS note FROM range({rows}) AS r(value)"
    ));
    let (keys, twice) = (rows * 3 / 2 + 11, 2 * rows);
    sql(format!(
        "CREATE TABLE probes AS SELECT CASE WHEN value % 17 = 0 THEN NULL ELSE value * 7919 % {keys} END AS k, value AS id FROM range({twice}) AS r(value)",
    ));
    sql("CREATE TABLE none AS SELECT k, id FROM probes WHERE id < 0".into());
}

#[test]
fn joins_of_every_kind() {
    let session = session();
    tables(&session, [3000, 400], [1500, 5]);
    session.set("warpmill.gpu_memory_limit", "611MB").unwrap();
    session.set("warpmill.device_join", "hybrid").unwrap();
    for parts in ["1", "3"] {
        session.set("warpmill.device_partitions", parts).unwrap();
        let (mut failures, mut hybrid) = (vec![], 0);
        for sql in joins() {
            let (failure, profile) = difference(&session, &sql);
            failures.extend(failure);
            failures.extend(reasons(&profile));
            hybrid += usize::from(on_host(&profile).0 > 0);
        }
        assert!(failures.is_empty(), "{parts} parts: {} failures\n{}", failures.len(), failures.join("\n"));
        assert!(hybrid >= joins().len() / 2, "{hybrid} of {} joins", joins().len());
    }
}

#[test]
fn every_strategy_gives_the_same_answers() {
    let session = session();
    large_tables(&session, 12_000);
    session.set("warpmill.device_fallback", "allow").unwrap();
    limit(&session, 207);
    // The rows of the build side alone take four times the memory.
    for (sql, builds) in [
        (
            "SELECT sum(p.id), count(*), sum(w.a % 1000003), sum(w.b % 1000003), max(w.c), min(w.d), min(w.note) FROM wide w JOIN probes p ON p.k = w.k",
            true,
        ),
        (
            "SELECT p.id, w.a, w.c, w.note FROM wide w RIGHT JOIN probes p ON p.k = w.k AND w.b % 2 = 0 WHERE p.id % 3 = 0",
            true,
        ),
        ("SELECT n.id, w.d, w.note FROM wide w LEFT JOIN none n ON n.k = w.k", false),
        ("SELECT n.id, w.d FROM wide w JOIN none n ON n.k = w.k", false),
        (
            "SELECT p.id, w.k, w.a, w.b, w.note FROM wide w FULL JOIN probes p ON p.k = w.k WHERE coalesce(p.id, 0) % 5 = 0",
            false,
        ),
        ("SELECT p.id, w.a FROM wide w JOIN probes p ON p.k = w.b % 20011 + 1 WHERE p.id % 10 = 1", true),
        (
            "SELECT w.k, w.a, w.b, w.c, w.d FROM wide w WHERE w.k NOT IN (SELECT k FROM probes WHERE k IS NOT NULL)",
            false,
        ),
        (
            "SELECT id FROM probes p WHERE EXISTS (SELECT 1 FROM wide w WHERE w.k = p.k AND w.note LIKE '%7' AND w.a % 3 <> p.id % 3)",
            false,
        ),
        ("SELECT w.k % 10, count(*), sum(w.a), max(w.note) FROM wide w JOIN probes p ON p.k = w.k GROUP BY 1", true),
    ] {
        for strategy in cases(["hybrid", "partitioned", "fallback", "cpu", "auto", "naive"], 2) {
            session.set("warpmill.device_join", strategy).unwrap();
            // The sizes found in one run are kept for the next.
            for _ in 0..if ["hybrid", "fallback"].contains(&strategy) { 2 } else { 1 } {
                let (failure, profile) = difference(&session, sql);
                assert_eq!(failure, None, "{strategy}");
                let (bytes, strategies) = on_host(&profile);
                assert_eq!(bytes > 0, strategies.contains(&"hybrid"), "{strategy}: {strategies:?}: {sql}");
                if builds && strategy == "cpu" {
                    assert!(
                        reasons(&profile).iter().all(|reason| reason.contains("joins cpu"))
                            && !reasons(&profile).is_empty()
                    );
                } else if builds && strategy != "auto" {
                    assert_eq!((&strategies[..], reasons(&profile)), (&[strategy][..], vec![]), "{sql}");
                    assert_eq!(strategy == "hybrid", bytes > 0, "{sql}");
                }
            }
        }
    }
}

#[test]
fn the_predicted_times_decide() {
    // On other devices the rates are measured.
    if device() != "sim" {
        return;
    }
    let session = session();
    large_tables(&session, 20_000);
    limit(&session, 257);
    session.set("warpmill.device", &device()).unwrap();
    let few_partners = "SELECT sum(p.id), count(*), sum(w.a), sum(w.b), max(w.c), min(w.d) FROM wide w JOIN probes p ON p.k = w.k WHERE p.id < 40";
    let all_partners = "SELECT p.id, w.a, w.b, w.c, w.d FROM wide w JOIN probes p ON p.k = w.k";
    let seconds = |text: &str, name: &str| -> f64 {
        let rest = &text[text.find(&format!("{name} ")).unwrap_or_else(|| panic!("{name}: {text}")) + name.len() + 1..];
        rest[..rest.find(" ms").unwrap()].parse().unwrap()
    };
    for (sql, expected) in [(few_partners, "hybrid"), (all_partners, "partitioned")] {
        let text = session.explain(sql, false).unwrap();
        let said = text.find("joins ").map(|at| text[at..].lines().next().unwrap()).unwrap_or_else(|| panic!("{text}"));
        assert!(said.starts_with(&format!("joins {expected} for hash build #")), "{said}");
        let predicted = &said[said.find("(predicted: ").unwrap()..];
        let (partitioned, hybrid) = (seconds(predicted, "partitioned"), seconds(predicted, "hybrid"));
        assert_eq!(hybrid < partitioned, expected == "hybrid", "{said}");
        assert!(predicted.contains("cpu not possible"), "{said}");
        let (failure, profile) = difference(&session, sql);
        assert_eq!(failure, None);
        assert_eq!(on_host(&profile).1, [expected], "{sql}");
    }
    // The CPU is chosen where predicted to be faster, for which it needs very many threads.
    session.set("warpmill.device_fallback", "allow").unwrap();
    session.set("warpmill.threads", "2").unwrap();
    assert!(session.explain(all_partners, false).unwrap().contains("joins partitioned"));
    session.set("warpmill.threads", "512").unwrap();
    let text = session.explain(all_partners, false).unwrap();
    assert!(
        text.contains("not on the device: joins larger than device memory") && text.contains("joins cpu"),
        "{text}"
    );
}

#[test]
fn page_locked_memory_is_bounded() {
    let session = session();
    large_tables(&session, 20_000);
    limit(&session, 409);
    session.set("warpmill.device_join", "hybrid").unwrap();
    let query =
        "SELECT sum(p.id), count(*), sum(w.a), min(w.note) FROM wide w JOIN probes p ON p.k = w.k WHERE p.id < 100";
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.pinned_memory_limit", "100kB").unwrap();
    let error = session.execute(query, &[]).unwrap_err().to_string();
    assert!(error.contains("page-locked memory") && error.contains("warpmill.pinned_memory_limit"), "{error}");
    // A strategy that does not apply is not chosen.
    session.set("warpmill.device_join", "auto").unwrap();
    let (failure, profile) = difference(&session, query);
    assert_eq!((failure, on_host(&profile)), (None, (0, vec!["partitioned"])));
    session.set("warpmill.device_join", "hybrid").unwrap();
    session.set("warpmill.pinned_memory_limit", &format!("{}MB", 40 * size_factor())).unwrap();
    let (failure, profile) = difference(&session, query);
    assert_eq!((failure, on_host(&profile).1), (None, vec!["hybrid"]));
    // Page-locked memory does not count as device memory.
    let on_device = profile.programs[0].on_device.as_ref().unwrap();
    let memory = (409 << 10) * size_factor();
    assert!(on_device.mapped_bytes > memory && on_device.processing_bytes < memory, "{on_device:?}");
}

#[test]
fn tpch_with_rows_on_the_host() {
    let session = filled(Suite::Tpch, 0.01 * size_factor() as f64);
    session.set("warpmill.device_join", "hybrid").unwrap();
    let mut hybrid = BTreeSet::new();
    // The costs depend on the device.
    for kilobytes in [707, 500, 350] {
        limit(&session, kilobytes);
        for query in warpmill_datagen::queries(Suite::Tpch) {
            if !["3", "5", "9", "10", "13", "18", "20"].contains(&query.name.trim_start_matches('Q')) {
                continue;
            }
            let (failure, profile) = difference(&session, query.sql);
            assert_eq!(failure, None, "{}", query.name);
            if on_host(&profile).0 > 0 {
                hybrid.insert(query.name);
            }
        }
        if hybrid.len() >= 3 {
            return;
        }
    }
    panic!("rows on the host: {hybrid:?}");
}
