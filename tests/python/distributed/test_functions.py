"""Functions, casts and aggregates on workers and on Ballista's executors, beside one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import warpmill
from distributed.ballista import Ballista, is_job, rows
from distributed.support import Workers, comparable, is_distributed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Expressions over a row of `t`.
EXPRESSIONS = (
    "i::VARCHAR",
    "f::INTEGER",
    "f::BIGINT",
    "f::FLOAT",
    "x::INTEGER",
    "x::DECIMAL(5,1)",
    "i::DOUBLE",
    "i::SMALLINT",
    "i::HUGEINT",
    "(i % 2)::BOOLEAN",
    "b::INTEGER",
    "b::VARCHAR",
    "d::VARCHAR",
    "d::TIMESTAMP",
    "t::DATE",
    "t::VARCHAR",
    "t::TIME",
    "f::VARCHAR",
    "x::VARCHAR",
    "i::VARCHAR::INTEGER",
    "d::VARCHAR::DATE",
    "t::VARCHAR::TIMESTAMP",
    "TRY_CAST(s AS INTEGER)",
    "TRY_CAST(s AS DOUBLE)",
    "TRY_CAST(s AS DATE)",
    "s::BLOB",
    "round(f)",
    "round(f, 1)",
    "round(x, 1)",
    "round(i, -1)",
    "round_even(f, 1)",
    "trunc(f)",
    "trunc(x)",
    "ceil(f)",
    "ceil(x)",
    "floor(f)",
    "floor(x)",
    "abs(i)",
    "sign(f)",
    "sqrt(abs(f))",
    "ln(abs(f) + 1)",
    "exp(f / 100)",
    "power(f, 2)",
    "i ** 2",
    "i // 3",
    "i % 7",
    "f % 2.5",
    "mod(i, 5)",
    "i & 12",
    "i | 3",
    "xor(i, 5)",
    "i << 2",
    "i >> 1",
    "~i",
    "-i",
    "greatest(i, 3)",
    "least(f, 2.0)",
    "coalesce(i, 0)",
    "nullif(i, 3)",
    "ifnull(i, 7)",
    "CASE WHEN i > 5 THEN 'a' ELSE s END",
    "if(i > 3, 1, 2)",
    "i IN (1, 2, 3)",
    "s IN ('a1', 'b2')",
    "i BETWEEN 2 AND 9",
    "s LIKE 'a%'",
    "s ILIKE 'A%'",
    "s SIMILAR TO 'a.*'",
    "regexp_matches(s, '^a')",
    "regexp_replace(s, '[0-9]', 'x')",
    "regexp_extract(s, '([a-z]+)')",
    "regexp_full_match(s, 'a.*')",
    "upper(s)",
    "lower(s)",
    "length(s)",
    "len(s)",
    "substr(s, 2, 2)",
    "substring(s, 2)",
    "s[1]",
    "s[1:2]",
    "left(s, 1)",
    "right(s, 2)",
    "reverse(s)",
    "repeat(s, 2)",
    "replace(s, 'a', 'z')",
    "trim(s)",
    "ltrim(s)",
    "rtrim(s)",
    "lpad(s, 8, '*')",
    "rpad(s, 8, '*')",
    "concat(s, i)",
    "concat_ws('-', s, i)",
    "s || i",
    "s || '-' || s",
    "starts_with(s, 'a')",
    "ends_with(s, '1')",
    "contains(s, 'a')",
    "strpos(s, 'a')",
    "instr(s, 'a')",
    "position('a' IN s)",
    "split_part(s, 'a', 1)",
    "string_split(s, 'a')",
    "ascii(s)",
    "chr(65 + i % 26)",
    "md5(s)",
    "sha256(s)",
    "hex(i)",
    "to_hex(i)",
    "bin(i)",
    "format('{}-{}', s, i)",
    "printf('%d', i)",
    "levenshtein(s, 'abc')",
    "jaccard(s, 'abc')",
    "strip_accents(s)",
    "initcap(s)",
    "translate(s, 'a', 'b')",
    "year(d)",
    "month(d)",
    "day(d)",
    "quarter(d)",
    "week(d)",
    "dayofweek(d)",
    "dayofyear(d)",
    "dayname(d)",
    "monthname(d)",
    "hour(t)",
    "minute(t)",
    "second(t)",
    "epoch(t)",
    "epoch_ms(t)",
    "extract(year FROM d)",
    "date_part('month', t)",
    "date_trunc('month', d)",
    "date_trunc('hour', t)",
    "date_diff('day', d, DATE '2024-01-01')",
    "datediff('month', d, DATE '2024-01-01')",
    "date_sub('month', d, DATE '2024-01-01')",
    "d + 5",
    "d - 5",
    "d - DATE '2020-01-01'",
    "d + INTERVAL 1 MONTH",
    "t + INTERVAL 3 HOUR",
    "t - TIMESTAMP '2020-01-01'",
    "last_day(d)",
    "strftime(d, '%Y/%m/%d')",
    "strftime(t, '%H:%M')",
    "strptime(d::VARCHAR, '%Y-%m-%d')",
    "make_date(2020, 1 + i % 12, 3)",
    "make_timestamp(2020, 1, 1 + i % 28, 1, 2, 3.5)",
    "time_bucket(INTERVAL 1 WEEK, d)",
    "age(t, TIMESTAMP '2020-01-01')::VARCHAR",
    "to_timestamp(i)",
    "isodow(d)",
    "century(d)",
    "i = 3",
    "i <> 3",
    "f > x",
    "d > DATE '2021-01-01'",
    "d = '2021-01-01'",
    "t > d",
    "s > 'b'",
    "i IS NULL",
    "i IS DISTINCT FROM 3",
    "NOT b",
    "b AND i > 3",
    "b OR i > 3",
    "b = 1",
    "isnan(f)",
    "isfinite(f)",
    "typeof(i)",
    "[i, i + 1]",
    "list_sum([i, 2])",
    "list_contains([i, 2], 3)",
    "[i, 2][1]",
    "list_sort([3, i, 1])",
    "{'a': i, 'b': s}",
    "{'a': i, 'b': s}.a",
    "struct_pack(a := i).a",
    "row(i, s)::VARCHAR",
    "array_length([i, 2])",
    "list_transform([i, 2], v -> v + 1)",
    "list_filter([i, 2], v -> v > 2)",
    "unhex(hex(i))",
    "bit_count(i)",
    "gcd(i, 12)",
    "lcm(i, 4)",
    "factorial(i % 10)",
    "cbrt(f)",
    "sin(f)",
    "atan2(f, 2)",
    "radians(f)",
    "pi() * f",
    "log(abs(f) + 1)",
    "log2(abs(f) + 1)",
    "log10(abs(f) + 1)",
    "even(f)",
    "gamma(abs(f) + 1)",
    "x + x",
    "x * x",
    "x / 3",
    "x * i",
    "x + f",
    "i + f",
    "i * 1000000000000",
    "i / 4",
    "(i, s) = (3, 'a3')",
    "s COLLATE NOCASE = 'A1'",
    "json_extract('{\"a\": ' || i || '}', '$.a')",
    "('{\"a\": ' || i || '}')::JSON -> 'a'",
)

#: Aggregates over groups of `t`.
AGGREGATES = (
    "sum(i)",
    "sum(f)",
    "sum(x)",
    "sum(i::HUGEINT)",
    "avg(i)",
    "avg(f)",
    "avg(x)",
    "min(s)",
    "max(d)",
    "min(t)",
    "count(DISTINCT i)",
    "count(i) FILTER (WHERE i > 3)",
    "stddev(f)",
    "var_pop(f)",
    "corr(i, f)",
    "covar_samp(i, f)",
    "regr_slope(f, i)",
    "median(f)",
    "median(i)",
    "quantile_cont(f, 0.3)",
    "quantile_disc(i, 0.3)",
    "mode(i // 50)",
    "bool_and(b)",
    "bool_or(b)",
    "bit_and(i)",
    "bit_or(i)",
    "bit_xor(i)",
    "string_agg(s, ',' ORDER BY n)",
    "list(i ORDER BY n)",
    "array_agg(s ORDER BY n)",
    "arg_min(s, n)",
    "arg_max(s, n)",
    "first(s ORDER BY n)",
    "last(s ORDER BY n)",
    "product(f / 30)",
    "histogram(i % 3)::VARCHAR",
    "kurtosis(f)",
    "skewness(f)",
    "entropy(i % 7)",
    "mad(f)",
    "sum(DISTINCT i % 10)",
    "avg(DISTINCT i % 10)",
    "count(*)",
    "max(i, 3)",
    "min(f)",
    "max(f)",
    "max(x)",
    "sumkahan(f)",
    "fsum(f)",
    "favg(f)",
    "count_if(b)",
    "geomean(abs(f) + 1)",
    "weighted_avg(f, i)",
)

#: Expressions of a query.
EACH = 8

TABLE = """
    CREATE TABLE t AS
    SELECT CASE WHEN i % 11 = 0 THEN NULL ELSE i % 97 END AS i,
           CASE WHEN i % 13 = 0 THEN NULL ELSE (i % 997) / 7.0 - 20 END::DOUBLE AS f,
           ((i % 1000) / 8.0)::DECIMAL(9, 3) AS x,
           CASE WHEN i % 17 = 0 THEN NULL ELSE chr(97 + (i % 5)::INTEGER) || (i % 23) END AS s,
           DATE '2020-01-01' + (i % 900)::INTEGER AS d,
           TIMESTAMP '2021-03-04 05:06:07' + INTERVAL 1 MINUTE * i AS t,
           i % 3 = 0 AS b,
           i AS n
    FROM range(10000) AS r(i)
"""


def queries() -> Iterator[tuple[tuple[str, ...], str]]:
    """Some expressions, and a query of them."""
    for all_of, before, after in (
        (EXPRESSIONS, "n", "WHERE n % 7 = 0 ORDER BY n"),
        (AGGREGATES, "n % 5", "GROUP BY 1 ORDER BY 1"),
    ):
        for start in range(0, len(all_of), EACH):
            some = all_of[start : start + EACH]
            columns = ", ".join(f"{one} AS r{at}" for at, one in enumerate(some))
            yield some, f"SELECT {before}, {columns} FROM t {after}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database whose table has several row segments."""
    folder = tmp_path_factory.mktemp("functions") / "db"
    with warpmill.connect(folder, device="cpu") as con:
        con.execute("SET warpmill.segment_rows = 2048")
        con.execute(TABLE)
    return folder


@pytest.fixture(scope="module", params=["workers", "ballista"])
def door(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Callable[[str], Any], Callable[[str], bool]]]:
    """A function for the rows of a query, and one that says whether several processes run it."""
    if request.param == "workers":
        with Workers(2) as workers, workers.connect(folder) as con:
            yield lambda sql: con.sql(sql).fetchall(), lambda sql: is_distributed(con, sql)
        return
    with Ballista(folder, 2) as ballista, ballista.connect() as other:
        yield lambda sql: rows(other, sql), lambda sql: is_job(other, sql)


@pytest.mark.parametrize(
    ("some", "sql"), list(queries()), ids=lambda value: value[0] if isinstance(value, tuple) else ""
)
def test_functions_are_the_same_on_all_processes(some: tuple[str, ...], sql: str, folder: Path, door: Any) -> None:
    run, is_spread = door
    with warpmill.connect(folder, device="cpu") as con:
        expected = con.sql(sql).fetchall()
    found = run(sql)
    assert len(found) == len(expected)
    for at, expression in enumerate(some, 1):
        one, other = ([comparable(row[at]) for row in part] for part in (found, expected))
        assert one == other, expression
    assert is_spread(sql)


def test_scalar_subqueries_of_several_rows_are_errors(door: Any) -> None:
    run, is_spread = door
    query = "SELECT count(*) FROM t WHERE n > (SELECT DISTINCT n % 1000 FROM t WHERE n < {}) OR n = 9000"
    for below, expected in ((0, 1), (1, 9999)):
        assert [tuple(row) for row in run(query.format(below))] == [(expected,)]
        assert is_spread(query.format(below))
    with pytest.raises(Exception, match="More than one row returned by a subquery"):
        run(query.format(2))
