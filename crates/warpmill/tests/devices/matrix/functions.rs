//! Scalar expressions.

use super::data::{COLUMNS, NULLS, Nulls, table};
use super::{check, session};

/// Expressions, grouped by type.
fn expressions() -> Vec<Vec<String>> {
    let numbers = ["i", "l", "d", "w", "f", "x"];
    let mut lists: Vec<Vec<String>> = vec![];
    for column in COLUMNS {
        let mut list = vec!["# IS NULL", "# IS NOT DISTINCT FROM #", "coalesce(#, #)", "nullif(#, #)", "# = #"];
        list.extend(["CASE WHEN grp = 1 THEN # WHEN grp = 2 THEN NULL END", "# IN (#, #)"]);
        if column != "b" {
            list.extend(["# < #", "greatest(#, #)", "least(#, #)"]);
        }
        if numbers.contains(&column) && column != "l" && column != "w" {
            list.extend(["# + #", "# - #", "# * 2", "-#", "abs(#)", "# / 3", "TRY_CAST(# AS INT)"]);
        }
        lists.push(list.into_iter().map(|text| text.replace('#', column)).collect());
    }
    let more: [&[&str]; 6] = [
        &[
            "i % 7",
            "l % 1000",
            "l / 7",
            "w / 2",
            "w + d",
            "CAST(i AS DECIMAL(12, 3))",
            "CAST(d AS DOUBLE)",
            "CAST(i AS VARCHAR)",
            "CAST(d AS VARCHAR)",
            "CAST(x AS BIGINT)",
        ],
        &[
            "round(x)",
            "floor(x)",
            "ceil(x)",
            "trunc(x)",
            "sqrt(abs(x))",
            "power(x, 2.0)",
            "ln(x)",
            "exp(x / 1e6)",
            "signum(x)",
        ],
        &[
            "date_part('year', day)",
            "date_part('dow', ts)",
            "date_trunc('month', day)",
            "date_trunc('hour', ts)",
            "day + INTERVAL '1 month'",
            "CAST(ts AS DATE)",
            "CAST(day AS VARCHAR)",
        ],
        &[
            "substr(name, 2, 5)",
            "character_length(name)",
            "name || '-' || code",
            "upper(code)",
            "trim(name)",
            "left(name, 3)",
            "right(name, 3)",
            "strpos(name, 'o')",
            "replace(name, 'o', '0')",
            "name LIKE '%com%'",
            "name LIKE 'C_st%'",
            "starts_with(name, 'http')",
            "octet_length(name)",
            "name < code",
            "name = code",
        ],
        &[
            "regexp_like(code, '[0-9]$')",
            "regexp_replace(code, 'kind', 'k')",
            "code LIKE '%1%'",
            "code IN ('kind 1', 'kind 2')",
            "b AND grp = 1",
            "b OR grp = 1",
            "NOT b",
            "i BETWEEN -50 AND 50",
            "CAST(b AS INT)",
        ],
        &[
            "CAST(CAST(b AS VARCHAR) AS BOOLEAN)",
            "CAST(b AS VARCHAR)",
            "CAST(CAST(day AS VARCHAR) AS DATE)",
            "CAST(CAST(day AS TIMESTAMP) AS VARCHAR)",
            "CAST(CAST(CAST(day AS TIMESTAMP) + INTERVAL 90061 SECONDS AS VARCHAR) AS TIMESTAMP)",
            "TRY_CAST(code AS DATE)",
            "CAST(i AS SMALLINT)",
            "CAST(abs(i) AS BIGINT UNSIGNED)",
            "CAST(day AS TIMESTAMP)",
            "code ILIKE '%KIND 1%'",
            "name NOT LIKE '%/1_'",
            "concat(name, code, i)",
            "ltrim(name, 'C')",
            "rtrim(code)",
            "lower(code)",
            "substr(name, 4)",
            "ends_with(name, '7')",
            "contains(name, code)",
            "log10(x)",
        ],
    ];
    lists.extend(more.iter().map(|list| list.iter().map(|text| text.to_string()).collect()));
    lists
}

fn select(expressions: &[String]) -> String {
    let named: Vec<String> = expressions.iter().enumerate().map(|(i, text)| format!("{text} AS e{i}")).collect();
    format!("SELECT id, {} FROM t", named.join(", "))
}

#[test]
fn every_function_on_every_type() {
    for nulls in NULLS {
        let rows = if nulls == Nulls::Some { 2500 } else { 40 };
        let session = session(vec![("t", table(7, rows, 1500, nulls))]);
        let queries: Vec<String> = expressions().iter().map(|list| select(list)).collect();
        check(&session, &queries, false);
    }
}

#[test]
fn every_predicate_filters() {
    let session = session(vec![("t", table(11, 2500, 1500, Nulls::Some))]);
    let predicates = [
        "i > 500",
        "l < 0",
        "d >= 10.25",
        "w > 0",
        "f < 1.5",
        "x > 1e6",
        "y > 0",
        "day < DATE '1995-01-01'",
        "ts > TIMESTAMP '1990-01-01 00:00:00'",
        "code = 'kind 3'",
        "name > 'Customer#1'",
        "b",
        "i IS NULL AND b",
        "name LIKE '%99%' OR x IS NULL",
        "i IN (5, 12, 19, NULL)",
        "code NOT IN ('kind 1', 'kind 7')",
    ];
    let queries: Vec<String> = predicates.iter().map(|p| format!("SELECT id FROM t WHERE {p}")).collect();
    check(&session, &queries, false);
}

#[test]
fn no_row_and_one() {
    for (rows, nulls) in [(0, Nulls::Some), (1, Nulls::None), (1, Nulls::All)] {
        let session = session(vec![("t", table(13, rows, 9, nulls))]);
        let lists = expressions();
        let queries: Vec<String> = lists.chunks(6).map(|lists| select(&lists.concat())).collect();
        check(&session, &queries, false);
    }
}
