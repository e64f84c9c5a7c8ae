//! Joins.

use super::data::{COLUMNS, Nulls, table};
use super::{check, session};
use crate::quick::cases;

/// Joins of `a` and `b` on `#`.
const KINDS: [&str; 14] = [
    "SELECT a.id, b.id, b.name FROM a JOIN b ON a.# = b.#",
    "SELECT a.id, b.id, b.d FROM a LEFT JOIN b ON a.# = b.#",
    "SELECT a.id, b.id, a.w FROM a RIGHT JOIN b ON a.# = b.#",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.# = b.#",
    "SELECT a.id, b.id FROM a JOIN b ON a.# = b.# AND a.id % 3 <> b.id % 3",
    "SELECT a.id, b.id, b.x FROM a LEFT JOIN b ON a.# = b.# AND a.id % 3 < b.id % 3",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.# = b.# AND a.id < b.id",
    "SELECT id, # FROM a WHERE # IN (SELECT # FROM b)",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.# = b.# AND a.id < b.id)",
    "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.# = b.#)",
    "SELECT id FROM a WHERE # NOT IN (SELECT # FROM b WHERE id > 20)",
    "SELECT id FROM a WHERE # NOT IN (SELECT # FROM b WHERE b.id < a.id - 100)",
    "SELECT id FROM a WHERE # IN (SELECT # FROM b) OR id < 5",
    "SELECT a.id, b.id FROM a JOIN b ON (a.# IS NOT DISTINCT FROM b.#) AND a.id % 8 = b.id % 8",
];

/// Join keys: every type, several columns, and strings computed on the device.
fn keys() -> Vec<String> {
    COLUMNS.iter().map(|column| column.to_string()).collect()
}

fn queries(kinds: &[&str], keys: &[String]) -> Vec<String> {
    let all = keys.iter().flat_map(|key| kinds.iter().map(move |kind| kind.replace('#', key)));
    cases(all, 3).collect()
}

#[test]
fn every_kind_on_every_type() {
    let session = session(vec![("a", table(1, 300, 90, Nulls::Some)), ("b", table(2, 120, 90, Nulls::Some))]);
    check(&session, &queries(&KINDS, &keys()), false);
}

#[test]
fn without_nulls_and_with_nothing_else() {
    for (left, right) in [(Nulls::None, Nulls::None), (Nulls::None, Nulls::All), (Nulls::All, Nulls::Some)] {
        let session = session(vec![("a", table(1, 200, 90, left)), ("b", table(2, 60, 90, right))]);
        check(&session, &queries(&KINDS, &["i".into(), "w".into(), "name".into()]), false);
    }
}

#[test]
fn no_rows_and_one() {
    for (left, right) in [(0, 0), (0, 50), (50, 0), (1, 1), (1, 50), (50, 1)] {
        let session = session(vec![("a", table(1, left, 5, Nulls::Some)), ("b", table(2, right, 5, Nulls::None))]);
        check(&session, &queries(&KINDS, &["l".into(), "code".into()]), false);
    }
}

#[test]
fn several_keys_and_made_ones() {
    let session = session(vec![("a", table(1, 300, 30, Nulls::Some)), ("b", table(2, 120, 30, Nulls::Some))]);
    let mut queries = vec![];
    for (one, other) in [("i", "code"), ("w", "name"), ("day", "b"), ("y", "i")] {
        let on = format!("a.{one} = b.{one} AND a.{other} = b.{other}");
        for join in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
            queries.push(format!("SELECT a.id, b.id FROM a {join} b ON {on}"));
        }
        queries.push(format!("SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {on})"));
        queries.push(format!("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {on} AND a.id > b.id)"));
    }
    queries.push("SELECT a.id, b.id FROM a JOIN b ON upper(a.code) || 'x' = upper(b.code) || 'x'".into());
    queries.push("SELECT a.id, b.id FROM a LEFT JOIN b ON a.i + 1 = b.i AND a.d < b.d".into());
    queries.push("SELECT a.id, b.id FROM a JOIN b ON a.x < b.x AND a.i > b.i".into());
    queries.push("SELECT a.id, (SELECT max(name) FROM b) FROM a".into());
    check(&session, &queries, false);
}
