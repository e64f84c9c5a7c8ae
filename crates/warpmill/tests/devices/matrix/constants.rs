//! Statements that differ in constants: kernels shared with earlier statements are also built anew here and compared (`device` of this test), and
//! their rows are those of the CPU.

use warpmill::Session;

use super::data::{Nulls, Random, table};
use super::{check, session};
use crate::device;

/// Statements with constants in places of every kind: `#` is a number, `?` a small one, `$` a day, `@` a kind of codes, `~` a letter.
const STATEMENTS: [&str; 16] = [
    "SELECT grp, count(*), sum(i) FROM a WHERE i > # GROUP BY grp",
    "SELECT count(*), min(l), max(w) FROM a WHERE i BETWEEN # AND # AND day < DATE '$'",
    "SELECT code, count(*), sum(d) FROM a WHERE code = 'kind @' OR code = 'kind @' GROUP BY code",
    "SELECT count(*), sum(i) FROM a WHERE code IN ('kind @', 'kind @', 'kind @') AND i <> #",
    "SELECT count(*), sum(i) FROM a WHERE code > 'kind @' AND code <= 'kind @'",
    "SELECT count(*), max(name) FROM a WHERE name LIKE '~%' OR code LIKE '%@'",
    "SELECT count(*) FROM a WHERE name LIKE '%~@%' AND d > #",
    "SELECT sum(CASE WHEN i < # THEN 1 ELSE ? END), sum(i + #), max(i * ?) FROM a WHERE i < #",
    "SELECT a.grp, b.code, count(*), sum(a.d) FROM a JOIN b ON a.i = b.i WHERE b.day >= DATE '$' AND a.code < 'kind @' GROUP BY a.grp, b.code",
    "SELECT count(*), sum(a.d) FROM a JOIN b ON a.i = b.i AND a.id + # > b.id WHERE b.code IN ('kind @', 'kind @') AND b.grp = ?",
    "SELECT count(*) FROM a WHERE i IN (SELECT i FROM b WHERE i > # AND grp <= ?)",
    "SELECT grp, count(*) FROM a WHERE i < # GROUP BY grp HAVING count(*) > ?",
    "SELECT id, i, day FROM a WHERE i > # ORDER BY i, id LIMIT ?",
    "SELECT count(*), sum(i) FROM a WHERE x > # OR f < ?.5 OR ts IS NULL AND i = #",
    "SELECT count(*), sum(d) FROM a WHERE w > # AND l < #000000 AND d <> ?.25",
    "SELECT count(*), sum(i) FROM a WHERE day + INTERVAL '? days' > DATE '$' AND b",
];

/// `statement` with other constants each time.
fn filled(statement: &str, random: &mut Random) -> String {
    let fill = |c: char| match c {
        '#' => (random.below(900) as i64 - 150).to_string(),
        '?' => (1 + random.below(7)).to_string(),
        '$' => format!("{}-{:02}-{:02}", 1962 + random.below(60), 1 + random.below(12), 1 + random.below(28)),
        '@' => random.below(26).to_string(),
        '~' => ["C", "h", "\u{e9}", "0"][random.below(4) as usize].to_owned(),
        other => other.to_string(),
    };
    statement.chars().map(fill).collect()
}

fn statements(seed: u64, each: usize) -> Vec<String> {
    let mut random = Random(seed);
    STATEMENTS
        .iter()
        .flat_map(|statement| (0..each).map(|_| filled(statement, &mut random)).collect::<Vec<_>>())
        .collect()
}

fn tables(nulls: Nulls) -> Session {
    session(vec![("a", table(1, 3000, 120, nulls)), ("b", table(2, 150, 120, nulls))])
}

#[test]
fn rows_are_those_of_the_constants() {
    check(&tables(Nulls::Some), &statements(0x5EED, 8), false);
}

#[test]
fn without_nulls_and_with_nothing_else() {
    for nulls in [Nulls::None, Nulls::All] {
        check(&tables(nulls), &statements(0xFEED, 4), false);
    }
}

#[test]
fn data_that_passes_through_and_parts() {
    let session = tables(Nulls::Some);
    for (setting, value) in [("device_data", "host"), ("device_partitions", "3")] {
        session.set(&format!("warpmill.{setting}"), value).unwrap();
        check(&session, &statements(0xBEEF, 4), false);
    }
}

#[test]
fn a_statement_with_other_constants_finds_its_kernels() {
    let session = tables(Nulls::None);
    session.set("warpmill.device", &device()).unwrap();
    // Kernels depend on the approximate number of rows that pass, which is equal for all codes.
    for number in 0..3 {
        let sql = format!("SELECT grp, sum(i) FROM a WHERE code = 'kind {number}' GROUP BY grp");
        let profile = session.execute(&sql, &[]).unwrap().profile.unwrap();
        let run = profile.programs[0].on_device.as_ref().unwrap();
        assert!(number == 0 || run.found_kernels, "{sql}\n{profile}");
    }
}

#[test]
fn a_statement_with_other_constants_begins_with_the_sizes_that_were_learnt() {
    let session = tables(Nulls::None);
    session.set("warpmill.device", &device()).unwrap();
    session.set("warpmill.gpu_memory_limit", "8MB").unwrap();
    let runs = |number: u32| {
        // Conditions on groups are expected to select few: there is room for 2048 rows at first.
        let sql =
            format!("SELECT id, count(*) FROM a WHERE id > -{number} GROUP BY id HAVING count(*) > 0 ORDER BY id");
        let profile = session.execute(&sql, &[]).unwrap().profile.unwrap();
        profile.programs[0].on_device.as_ref().unwrap_or_else(|| panic!("{profile}")).runs
    };
    assert_eq!([1, 2, 3].map(runs), [2, 1, 1]);
}
