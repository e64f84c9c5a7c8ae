//! Aggregates.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch};

use super::data::{COLUMNS, NULLS, Nulls, table};
use super::{check, difference, session};

/// The aggregates of a column.
fn of(column: &str) -> Vec<String> {
    let mut list = vec!["count(#)", "count(DISTINCT #)", "min(#)", "max(#)", "count(#) FILTER (WHERE grp > 2)"];
    if ["i", "d", "w", "f", "x"].contains(&column) {
        list.extend([
            "sum(#)",
            "avg(#)",
            "sum(DISTINCT #)",
            "stddev(#)",
            "stddev_pop(#)",
            "var_samp(#)",
            "var_pop(#)",
            "sum(#) FILTER (WHERE grp < 2)",
            "min(#) FILTER (WHERE grp < 2)",
            "var_pop(#) FILTER (WHERE grp = 1)",
        ]);
    }
    if column == "l" {
        list.extend(["sum(#)", "avg(#)", "sum(DISTINCT #)"]);
    }
    if column == "b" {
        list.extend(["bool_and(#)", "bool_or(#)"]);
    }
    if column == "name" {
        // Strings that the device makes.
        list.extend([
            "max(# || '!')",
            "min(substr(#, 3))",
            "count(DISTINCT # || code)",
            "max(#) FILTER (WHERE grp = 3)",
        ]);
    }
    list.into_iter().map(|aggregate| aggregate.replace('#', column)).collect()
}

fn select(aggregates: &[String], group: Option<&str>) -> String {
    let list = aggregates.join(", ");
    match group {
        None => format!("SELECT {list} FROM t"),
        Some(group) => format!("SELECT {group}, {list} FROM t GROUP BY {group}"),
    }
}

/// Groups in private records, a dense range, hash tables by integer and by everything else.
const GROUPS: [&str; 8] = ["grp", "i", "l", "name", "w", "y", "code, day", "b, name || 'x'"];

#[test]
fn every_type_without_groups_and_in_every_kind_of_table() {
    for nulls in [Nulls::Some, Nulls::None] {
        let session = session(vec![("t", table(3, 2500, 1500, nulls))]);
        let mut queries = vec![];
        for (number, column) in COLUMNS.iter().enumerate() {
            let group = GROUPS[(number + usize::from(nulls == Nulls::None)) % GROUPS.len()];
            queries.push(select(&of(column), Some(group)));
            if nulls == Nulls::Some {
                queries.push(select(&of(column), None));
            }
        }
        check(&session, &queries, false);
    }
}

/// Dense group tables in which no aggregate shows which groups have rows.
#[test]
fn dense_groups_without_a_count_of_their_rows() {
    for nulls in [Nulls::Some, Nulls::None, Nulls::All] {
        let session = session(vec![("t", table(13, 6000, 9000, nulls)), ("u", table(14, 900, 9000, nulls))]);
        let queries = [
            "SELECT i, count(y), max(d) FROM t GROUP BY i",
            "SELECT DISTINCT i FROM t",
            "SELECT id, min(w) FROM t WHERE i > 30000 GROUP BY id",
            "SELECT t.id, count(u.id), sum(u.d) FROM t LEFT JOIN u ON t.i = u.i GROUP BY t.id",
            "SELECT count(*), count(i), sum(i) FROM (SELECT DISTINCT i, b FROM t)",
            "SELECT i, count(x) FROM t WHERE id < 0 GROUP BY i",
        ];
        check(&session, &queries.map(String::from), false);
        if nulls == Nulls::Some {
            let text = session.explain_kernels(queries[0]).unwrap();
            let parts = ["Params_groups_0", "bit_set(p.marks", "if (run != "];
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}

#[test]
fn no_rows_one_row_and_no_values() {
    for (rows, nulls) in NULLS.iter().flat_map(|&nulls| [(0, nulls), (1, nulls)]).chain([(900, Nulls::All)]) {
        let session = session(vec![("t", table(5, rows, 40, nulls))]);
        let all: Vec<String> = COLUMNS.iter().flat_map(|column| of(column)).collect();
        let mut queries: Vec<String> = all.chunks(all.len().div_ceil(3)).map(|part| select(part, None)).collect();
        for (part, group) in all.chunks(all.len().div_ceil(3)).zip(["grp", "name", "l"]) {
            queries.push(select(part, Some(group)));
        }
        check(&session, &queries, false);
    }
}

#[test]
fn few_groups_share_a_block() {
    let session = session(vec![("t", table(9, 2500, 60, Nulls::Some))]);
    let queries = [
        // Too many words for a record per thread.
        "SELECT i, min(name), max(name || '?'), stddev(x), var_pop(d), max(w), sum(f), count(*) FROM t GROUP BY i",
        "SELECT code, b, max(name || '?'), stddev(x), min(w), avg(d) FROM t GROUP BY code, b",
        "SELECT grp, any_value(grp), any_value(grp || 'x') FROM t GROUP BY grp",
    ];
    check(&session, &queries.map(String::from), false);
}

#[test]
fn variances_of_large_values_that_differ_little() {
    let session = session(vec![("t", table(21, 2500, 1500, Nulls::Some))]);
    let queries = [
        "SELECT stddev(BILLION + x * 1000), var_pop(1000000 + id), stddev(CAST(7.25 AS DOUBLE)) FROM t",
        "SELECT grp, stddev(BILLION + x * 1000), var_pop(1000000 + id), var_samp(id * 0 + 0.1) FROM t GROUP BY grp",
        "SELECT i, stddev(BILLION + x * 1000), var_pop(CASE WHEN id = 0 THEN BILLION ELSE x END) FROM t GROUP BY i",
        "SELECT var_pop(CASE WHEN id = 0 THEN BILLION ELSE x END), stddev(y) FROM t",
        "SELECT grp, stddev(y), var_pop(x * power(BILLION, 33)) FROM t GROUP BY grp",
    ];
    let queries = queries.map(|sql| sql.replace("BILLION", "CAST(1000000000 AS DOUBLE)"));
    check(&session, &queries, false);
}

#[test]
fn distinct_values_of_many_rows() {
    let session = session(vec![("t", table(33, 20_000, 9_000, Nulls::Some))]);
    let queries = [
        "SELECT count(DISTINCT name), count(DISTINCT l), count(DISTINCT w), sum(DISTINCT w), count(*) FROM t",
        "SELECT grp, count(DISTINCT name), count(DISTINCT l), sum(DISTINCT x), count(DISTINCT y) FROM t GROUP BY grp",
        "SELECT name, count(DISTINCT l), count(DISTINCT substr(name, 2)), max(id) FROM t GROUP BY name",
    ];
    check(&session, &queries.map(String::from), false);
}

#[test]
fn sums_may_leave_128_bits_on_their_way() {
    const MOST: i128 = 10i128.pow(38) - 1;
    // In 63 rows, each value is NULL once.
    let cycle = [MOST, MOST, MOST, 7 - MOST, -MOST, -MOST, 3];
    let v: Decimal128Array = (0..63 * 50).map(|row| (row % 9 > 0).then(|| cycle[row % 7])).collect();
    let k: Int32Array = (0..63 * 50).map(|row| Some(row % 7 / 6 + row % 5 * 1000)).collect();
    let columns: [(&str, ArrayRef); 2] =
        [("v", Arc::new(v.with_precision_and_scale(38, 0).unwrap())), ("k", Arc::new(k))];
    let session = session(vec![("t", RecordBatch::try_from_iter(columns).unwrap())]);
    let fit = [
        "SELECT sum(v), avg(v), count(v), sum(DISTINCT v), sum(v) FILTER (WHERE v > 3 OR v < 3) FROM t",
        "SELECT k, avg(v) FROM t GROUP BY k",
        "SELECT k % 1000 AS low, avg(v) FROM t WHERE v < 0 GROUP BY 1",
        "SELECT k % 1000 + 9000000000 * (k // 5000) AS far, sum(v) FROM t WHERE v <> 3 GROUP BY 1",
        "SELECT 'k' || k AS name, avg(v) FROM t GROUP BY 1",
    ];
    check(&session, &fit.map(String::from), false);
    for sql in [
        "SELECT sum(v) FROM t WHERE v > 3",
        "SELECT k, sum(v) FROM t WHERE v > 3 GROUP BY k",
        "SELECT 'k' || k AS name, sum(v) FROM t WHERE v < 3 GROUP BY 1",
    ] {
        let found = difference(&session, sql, false).unwrap_or_default();
        assert!(found.contains("both fail") && found.matches("overflow").count() == 2, "{found}");
    }
}
