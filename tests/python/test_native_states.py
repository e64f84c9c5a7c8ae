"""States of aggregates beside plain DuckDB: EXPORT_STATE, finalize, combine, combine_aggr, to_aggregate_state."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from beside import assert_both_refuse, normal, pair_with

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """
    CREATE TABLE obs AS SELECT n::INTEGER AS i, n / 4 AS f, (n / 4)::DECIMAL(6, 2) AS c, n::VARCHAR AS s,
        DATE '2020-01-01' + n::INTEGER AS d, n % 2 = 0 AS b, (n * n) % 7 AS y, coalesce(n, 1) % 3 AS g
    FROM (VALUES (0), (5), (7), (12), (20), (23), (24), (25), (NULL), (26), (28), (31), (34), (36), (41), (47)) v(n)
"""

#: Aggregates that can be combined from partial results in any order.
AGGREGATES = [
    "count(*)",
    "count(s)",
    "sum(i)",
    "sum(i::SMALLINT)",
    "sum(f)",
    "sum(c)",
    "sum(b)",
    "count_if(b)",
    "avg(i)",
    "avg(f)",
    "avg(c)",
    "avg(d)",
    "avg(d::TIMESTAMP)",
    "mean(i)",
    "min(i)",
    "max(s)",
    "min(f)",
    "max(d)",
    "min({'a': i})",
    "max([i])",
    "product(f)",
    "bit_and(i)",
    "bit_or(i)",
    "bit_xor(i)",
    "bool_and(b)",
    "bool_or(b)",
    "any_value(g)",
    "arg_min(s, f)",
    "arg_max(i, s)",
    "arg_max_null(i, -i)",
    "median(i)",
    "median(c)",
    "mad(i)",
    "mad(f)",
    "quantile_cont(f, 0.3)",
    "quantile_cont(i, [0.25, 0.75])",
    "quantile_disc(s, 0.5)",
    "percentile_cont(0.2) WITHIN GROUP (ORDER BY i)",
    "var_pop(i)",
    "var_samp(f)",
    "variance(c)",
    "stddev(i)",
    "stddev_pop(f)",
    "stddev_samp(i)",
    "sem(i)",
    "skewness(i)",
    "kurtosis(f)",
    "kurtosis_pop(i)",
    "corr(i, y)",
    "covar_pop(i, y)",
    "covar_samp(i, y)",
    "regr_count(i, y)",
    "regr_avgx(i, y)",
    "regr_avgy(i, y)",
    "regr_slope(i, y)",
    "regr_intercept(i, y)",
    "regr_r2(i, y)",
    "regr_sxx(i, y)",
    "regr_syy(i, y)",
    "regr_sxy(i, y)",
    "fsum(f)",
    "favg(i)",
    "list(i ORDER BY i DESC)",
    "string_agg(s, '-' ORDER BY i)",
    "first(s ORDER BY y, i)",
    "last(i ORDER BY f)",
    "any_value(i ORDER BY i DESC NULLS FIRST)",
]

#: Aggregates that depend on the order of rows.
ORDERED = ["first(i)", "last(s)", "list(i)", "array_agg(c)", "string_agg(s)", "string_agg(s, '; ')", "arbitrary(d)"]

EQUAL = [
    "SELECT avg(i) EXPORT_STATE, sum(i) export_state FROM obs",
    "SELECT avg(i) FILTER (i > 20) EXPORT_STATE, count(DISTINCT g) EXPORT_STATE, sum(DISTINCT y) EXPORT_STATE FROM obs",
    "SELECT typeof(avg(i) EXPORT_STATE), typeof([count(*) EXPORT_STATE]) FROM obs",
    'SELECT (avg(42) EXPORT_STATE)::STRUCT(count UBIGINT, "value" DOUBLE), (count(*) EXPORT_STATE)::BIGINT',
    "SELECT (avg(c) EXPORT_STATE)::VARCHAR, (sum(c) EXPORT_STATE)::BIGINT, (list(i) EXPORT_STATE)::VARCHAR FROM obs",
    "SELECT (regr_avgx(1.0, 2.0) EXPORT_STATE)::STRUCT(sum DOUBLE, count UBIGINT)",
    "SELECT {'a': sum(i) EXPORT_STATE}::VARCHAR, [max(s) EXPORT_STATE]::VARCHAR FROM obs",
    "SELECT first(NULL::INTEGER) EXPORT_STATE, any_value(NULL::INTEGER) EXPORT_STATE, bool_and(NULL) EXPORT_STATE",
    "SELECT s IS NULL, coalesce(s, s) FROM (SELECT sum(i) EXPORT_STATE AS s FROM obs WHERE i > 100)",
    "SELECT g, finalize(avg(i) EXPORT_STATE) AS a FROM obs GROUP BY g"
    " HAVING finalize(count(*) EXPORT_STATE) > 5 ORDER BY g",
    "SELECT g, count(*) FROM obs GROUP BY g ORDER BY finalize(max(i) EXPORT_STATE) DESC",
    "SELECT finalize(s) FROM (SELECT count(i) EXPORT_STATE AS s FROM obs UNION ALL SELECT NULL) ORDER BY ALL",
    "SELECT finalize(s) FROM (SELECT avg(i) EXPORT_STATE AS s FROM obs"
    " UNION ALL SELECT avg(f) EXPORT_STATE FROM obs) ORDER BY ALL",
    "SELECT g, finalize(combine(s, t)), finalize(combine(t, s)) FROM"
    " (SELECT g, sum(i) EXPORT_STATE AS s FROM obs WHERE i > 20 GROUP BY g) FULL JOIN"
    " (SELECT g, sum(i) EXPORT_STATE AS t FROM obs WHERE i < 10 GROUP BY g) USING (g) ORDER BY g",
    "SELECT finalize(combine_aggr(s, n)) FROM (SELECT g AS n, sum(i) EXPORT_STATE AS s FROM obs GROUP BY g)",
    "SELECT list_sort(finalize(combine_aggr(s, 2))) FROM (SELECT list(i) EXPORT_STATE AS s FROM obs)",
    "SELECT finalize(combine_aggr(a, 3)), finalize(combine_aggr(v, 3)), finalize(combine_aggr(m, 0)),"
    " finalize(combine_aggr(x, 3)), finalize(combine_aggr(x, 2)), finalize(combine_aggr(k, 2)),"
    " finalize(combine_aggr(c, NULL::INTEGER)) FROM (SELECT avg(i) EXPORT_STATE AS a, var_pop(i) EXPORT_STATE AS v,"
    " max(i) EXPORT_STATE AS m, bit_xor(i) EXPORT_STATE AS x, kurtosis(i) EXPORT_STATE AS k,"
    " count(i) EXPORT_STATE AS c FROM obs)",
    "SELECT finalize(combine_aggr(p, 2)), finalize(combine_aggr(t, 2)), finalize(combine_aggr(q, 2)),"
    " finalize(combine_aggr(f, 2)), finalize(combine_aggr(e, 3)) FROM (SELECT product(f) EXPORT_STATE AS p,"
    " string_agg(s) EXPORT_STATE AS t, median(i) EXPORT_STATE AS q, first(s) EXPORT_STATE AS f,"
    " arg_max(s, i) EXPORT_STATE AS e FROM obs)",
    "SELECT combine_aggr(s) FILTER (g > 0) FROM (SELECT g, count(i) EXPORT_STATE AS s FROM obs GROUP BY g)",
    "SELECT finalize(to_aggregate_state([1, 2], 'list', ['INTEGER']))",
    "SELECT finalize(to_aggregate_state(7, 'sum', ['BIGINT'])), to_aggregate_state(NULL, 'SUM', ['SMALLINT'])",
    "SELECT finalize(combine(sum(i::TINYINT) EXPORT_STATE, sum(i::UINTEGER) EXPORT_STATE)) FROM obs WHERE i < 40",
    "SELECT median(i::UTINYINT) EXPORT_STATE, mad(i::HUGEINT) EXPORT_STATE FROM obs WHERE i < 9",
    "SELECT finalize(to_aggregate_state({'count': 4, 'value': 10}, 'avg', [make_type('DOUBLE')]))",
    "SELECT finalize(combine(to_aggregate_state(1, 'count', ['ANY']), count(i) EXPORT_STATE)) FROM obs",
    "SELECT finalize(to_aggregate_state('a', 'string_agg', ['VARCHAR', 'VARCHAR'], [NULL, '|']))",
    "SELECT finalize(to_aggregate_state([1, 2], 'quantile_cont', ['INTEGER', 'DOUBLE'], [NULL, 0.25]))",
    "SELECT finalize(to_aggregate_state([{'v0': 'b', 'v1': 2}, {'v0': 'a', 'v1': 1}], 'string_agg',"
    " ['VARCHAR', 'VARCHAR'], [NULL, ' '], [{'column': 1, 'order': 'DESC NULLS LAST'}]))",
    "SELECT to_json(n)::VARCHAR AS n, to_json({'a': m})::VARCHAR AS a, map([n], ['x']) AS m FROM"
    " (SELECT count(*) EXPORT_STATE AS n, avg(i) EXPORT_STATE AS m FROM obs)",
    "SELECT abs(i) EXPORT_STATE FROM obs",
]

REFUSED = [
    "SELECT finalize(42)",
    "SELECT finalize(NULL)",
    "SELECT finalize(avg(i)) FROM obs",
    "SELECT finalize(finalize(avg(i) EXPORT_STATE)) FROM obs",
    "SELECT finalize()",
    "SELECT combine(42, 42)",
    "SELECT combine(NULL, NULL)",
    "SELECT combine(avg(i) EXPORT_STATE, 42) FROM obs",
    "SELECT combine(avg(i) EXPORT_STATE) FROM obs",
    "SELECT combine(avg(i) EXPORT_STATE, sum(i) EXPORT_STATE) FROM obs",
    "SELECT combine(avg(i) EXPORT_STATE, avg(f) EXPORT_STATE) FROM obs",
    "SELECT combine(string_agg(s, ',') EXPORT_STATE, string_agg(s, '-') EXPORT_STATE) FROM obs",
    "SELECT combine(list(i ORDER BY i) EXPORT_STATE, list(i) EXPORT_STATE) FROM obs",
    "SELECT combine_aggr(i) FROM obs",
    "SELECT combine_aggr(s, -1) FROM (SELECT sum(i) EXPORT_STATE AS s FROM obs)",
    "SELECT avg(i) EXPORT_STATE OVER () FROM obs",
    "SELECT mode(i) EXPORT_STATE FROM obs",
    "SELECT histogram(i) EXPORT_STATE FROM obs",
    "SELECT max(i, 2) EXPORT_STATE FROM obs",
    "SELECT s.count FROM (SELECT avg(i) EXPORT_STATE AS s FROM obs)",
    "SELECT s + 1 FROM (SELECT count(i) EXPORT_STATE AS s FROM obs)",
    "SELECT (avg(i) EXPORT_STATE)::INTEGER FROM obs",
    "SELECT (avg(i) EXPORT_STATE)::BLOB FROM obs",
    "SELECT sum(i) EXPORT_STATE FROM obs UNION ALL SELECT avg(i) EXPORT_STATE FROM obs",
    "SELECT to_aggregate_state(42, 'avg', ['DOUBLE'])",
    "SELECT to_aggregate_state(42, s, ['DOUBLE']) FROM obs",
    "SELECT to_aggregate_state('a', 'string_agg', ['VARCHAR', 'VARCHAR'], [',']) FROM obs",
    "SELECT to_aggregate_state(1, 'nothing', ['INTEGER'])",
    "SELECT to_aggregate_state(1, 'sum', ['TINYINT'])",
    "SELECT to_aggregate_state({'count': 1}, 'var_pop', ['INTEGER'])",
    "SELECT combine(sum(i::SMALLINT) EXPORT_STATE, sum(i::BIGINT) EXPORT_STATE) FROM obs WHERE i < 40",
]


pair = pair_with(TABLE, "SET threads = 1")


def check(pair: tuple[Any, Any], sql: str) -> None:
    """Compare rows, names and types."""
    found, expected = (con.sql(sql).fetchall() for con in pair)
    assert normal(found) == normal(expected)
    kinds = [[row[:2] for row in con.sql(f"DESCRIBE {sql}").fetchall()] for con in pair]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("sql", EQUAL)
def test_same_as_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    check(pair, sql)


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_as_by_duckdb(pair: tuple[Any, Any], sql: str) -> None:
    assert_both_refuse(sql, pair)


@pytest.mark.parametrize("call", AGGREGATES + ORDERED)
def test_results_and_states(pair: tuple[Any, Any], call: str) -> None:
    state = f"{call} EXPORT_STATE"
    for rows in ("obs", "obs WHERE i = 20", "obs WHERE i > 100", "obs WHERE i IS NULL"):
        check(pair, f"SELECT finalize({state}) AS f, ({state})::VARCHAR IS NULL AS n FROM {rows}")
        found = pair[0].sql(f"SELECT finalize({state}), {call} FROM {rows}").fetchall()[0]
        assert normal(found[0]) == normal(found[1])
    check(pair, f"SELECT {state} FROM obs WHERE i > 100")
    if "i ORDER BY" not in call:
        check(pair, f"SELECT {state} FROM obs WHERE i <= 20")
    check(pair, f"SELECT g, finalize({state}) AS f FROM obs GROUP BY g ORDER BY g")


@pytest.mark.parametrize("call", AGGREGATES + ORDERED)
def test_states_are_combined(pair: tuple[Any, Any], call: str) -> None:
    for con in pair:
        state = f"SELECT g, {call} EXPORT_STATE AS s FROM obs GROUP BY g ORDER BY g"
        con.execute(f"CREATE OR REPLACE TABLE parts AS {state}")
        con.execute("INSERT INTO parts VALUES (7, NULL)")
    check(pair, "SELECT g, finalize(s) AS f FROM parts ORDER BY g")
    check(pair, "SELECT p.g, q.g, finalize(combine(p.s, q.s)) AS f FROM parts p, parts q ORDER BY ALL")
    check(pair, "SELECT finalize(combine_aggr(s)) AS f FROM (SELECT * FROM parts ORDER BY g) WHERE g = 7")
    check(pair, "SELECT g > 0 AS h, finalize(combine_aggr(s)) AS f FROM parts WHERE g < 2 GROUP BY h ORDER BY h")
    check(pair, "SELECT column_type FROM (DESCRIBE parts)")


@pytest.mark.parametrize("call", [call for call in AGGREGATES if "any_value(g)" not in call])
def test_parts_give_what_all_rows_give(pair: tuple[Any, Any], call: str) -> None:
    ours, _ = pair
    chance = random.Random(call)
    rows = ", ".join(f"({i}, {chance.randrange(4)})" for i in (0, 5, 7, 12, 20, 23, 24, 25, 26, 28, 31, 34, 36, 41, 47))
    parts = f"SELECT part, {call} EXPORT_STATE AS s FROM obs JOIN (VALUES {rows}) r(k, part) ON k = i GROUP BY part"
    [[combined]] = ours.sql(f"SELECT finalize(combine_aggr(s)) FROM ({parts})").fetchall()
    [[whole]] = ours.sql(f"SELECT {call} FROM obs WHERE i IS NOT NULL").fetchall()
    assert normal(combined) == normal(whole)


def test_states_are_kept_in_a_database(tmp_path: Path) -> None:
    kept = ["avg(i)", "sum(c)", "list(s)", "corr(i, y)", "string_agg(s, '-')", "quantile_cont(i, [0.25, 0.5])"]
    names = [f"s{at}" for at in range(len(kept))]
    states = ", ".join(f"{call} EXPORT_STATE AS {name}" for call, name in zip(kept, names, strict=True))
    with warpmill.connect(str(tmp_path / "db")) as con:
        con.execute(TABLE)
        con.execute(f"CREATE TABLE parts AS SELECT g, {states} FROM obs GROUP BY g")
        con.execute(f"CREATE VIEW seen AS SELECT g, {states} FROM obs GROUP BY g")
        con.execute("CREATE TABLE whole AS SELECT combine_aggr(s1) AS s FROM parts")
        results = con.sql(f"SELECT g, {', '.join(kept)} FROM obs GROUP BY g ORDER BY g").fetchall()
        [[total]] = con.sql("SELECT sum(c) FROM obs").fetchall()
    with warpmill.connect(str(tmp_path / "db")) as con:
        final = ", ".join(f"finalize({name})" for name in names)
        for source in ("parts", "seen"):
            assert normal(con.sql(f"SELECT g, {final} FROM {source} ORDER BY g").fetchall()) == normal(results)
        assert con.sql("SELECT finalize(s) FROM whole").fetchall() == [(total,)]
        both = "SELECT finalize(combine(p.s1, s.s1)) / 2 FROM parts p JOIN seen s USING (g) ORDER BY p.g"
        twice = con.sql(both).fetchall()
        assert normal(twice) == normal([[float(row[2])] for row in results])


def test_files_have_plain_values(pair: tuple[Any, Any], tmp_path: Path) -> None:
    ours, theirs = pair
    path = tmp_path / "states.parquet"
    select = "SELECT g, avg(f) EXPORT_STATE AS a, count(*) EXPORT_STATE AS n FROM obs GROUP BY g"
    ours.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    query = f"SELECT g, finalize(to_aggregate_state(a, 'avg', ['DOUBLE'])), n FROM '{path}' ORDER BY g"
    assert ours.sql(query).fetchall() == theirs.sql(query).fetchall()
    with pytest.raises(warpmill.Error, match="COMBINE"):
        ours.sql(f"SELECT combine(s, n) FROM (SELECT count(*) EXPORT_STATE AS s FROM obs), '{path}'").fetchall()
    rows = ours.sql(select + " ORDER BY g").arrow().to_pylist()
    assert [sorted(row["a"]) for row in rows] == [["count", "value"]] * 3
    assert all(isinstance(row["n"], int) for row in rows)


@pytest.mark.parametrize("call", ["approx_top_k(x, 2)", "approx_quantile(x, 0.5)", "entropy(x)", "sum(x ORDER BY x)"])
def test_aggregates_without_states_are_named(call: str) -> None:
    name = call.partition("(")[0]
    with warpmill.connect() as con, pytest.raises(warpmill.NotSupportedError, match=f"EXPORT_STATE of {name}"):
        con.sql(f"SELECT {call} EXPORT_STATE FROM (VALUES (1)) v(x)").fetchall()
