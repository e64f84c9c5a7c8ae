"""Every type of DuckDB's, with its extremes and NULLs, wherever data comes from: no value becomes another, or NULL."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from duckdb_host.lockstep import Pair
from trials import trials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The columns of test_all_types(), and values next to limits of either engine.
SETUP = """
CREATE TABLE extremes AS SELECT * FROM test_all_types();
INSERT INTO extremes SELECT * FROM test_all_types();
INSERT INTO extremes(bool, tinyint, smallint, int, bigint, hugeint, uhugeint, utinyint, usmallint, uint, ubigint, date, timestamp, float,
    double, dec_4_1, dec_9_4, dec_18_6, dec38_10, varchar, bignum, time, timestamp_tz, uuid, blob, bit, interval, medium_enum, int_array)
VALUES
    (true, 1, 1, 1, 1, 99999999999999999999999999999999999999::HUGEINT, 99999999999999999999999999999999999999::UHUGEINT, 1, 1, 1, 1,
     '1970-01-01', '1970-01-01', 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 'ä', 1, '00:00:01', '1970-01-01', '00000000-0000-0000-0000-000000000001', 'x', '1', INTERVAL 1 DAY,
     'enum_1', [1]),
    (false, -1, -1, -1, -1, -99999999999999999999999999999999999999::HUGEINT, 100000000000000000000000000000000000000::UHUGEINT, 2, 2, 2, 2,
     '-infinity', '-infinity', '-inf', '-inf', -0.1, -0.1, -0.1, -0.1, '', -1, '00:00:00', 'infinity', '00000000-0000-0000-0000-000000000002', '', '0', INTERVAL 2 MONTH,
     'enum_2', []),
    (NULL, 0, 0, 0, 0, 100000000000000000000000000000000000000::HUGEINT, 0, 0, 0, 0, 0, 'infinity', 'infinity', 'nan', 'nan', 0, 0, 0, 0,
     'a' || chr(0) || 'b', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE ordinary AS SELECT
    i % 2 = 0 AS bool, (i % 5)::TINYINT AS tinyint, i::SMALLINT AS smallint, i::INTEGER AS int, i * 1000003 AS bigint, i::UTINYINT AS utinyint,
    i::USMALLINT AS usmallint, i::UINTEGER AS uint, i::UBIGINT << 40 AS ubigint, (i - 50)::HUGEINT * 1e30::HUGEINT AS hugeint,
    i::UHUGEINT * 1e30::UHUGEINT AS uhugeint, i::FLOAT / 4 AS float, i::DOUBLE / 3 AS double, i::DECIMAL(4, 1) AS dec_4_1,
    (i / 7)::DECIMAL(9, 4) AS dec_9_4, (i / 7)::DECIMAL(18, 6) AS dec_18_6, (i / 7)::DECIMAL(38, 10) AS dec38_10, 'text ' || i AS varchar,
    DATE '2000-01-01' + i::INTEGER AS date, TIMESTAMP '2000-01-01 01:02:03.456789' + to_seconds(i) AS timestamp
FROM range(100) r(i);
UPDATE ordinary SET bigint = NULL, hugeint = NULL, uhugeint = NULL, double = NULL, varchar = NULL, date = NULL WHERE int % 7 = 0;
CREATE TABLE sums AS SELECT tinyint AS g, sum(int) AS s, sum(hugeint) AS h, avg(int) AS a, sum(dec_9_4) AS d, count(*) AS n,
    sum(bigint) // 2 AS q, max(uhugeint) AS u FROM ordinary GROUP BY g
"""

#: The supported columns are those of `ordinary` that Warpmill runs.
ORDINARY = [row[0] for row in duckdb.connect().execute(f"{SETUP}; DESCRIBE ordinary").fetchall()]
#: All types except lists of the most nested kind, in which order all else is printed.
EXTREMES = [row[0] for row in duckdb.connect().execute(f"{SETUP}; DESCRIBE extremes").fetchall()]
SUMS = ["g", "s", "h", "a", "d", "n", "q", "u"]

SHAPES = {
    "order": "SELECT {c} FROM {t} ORDER BY {c}",
    "all rows": "SELECT {c}, count(*) OVER () FROM {t} ORDER BY ALL",
    "equal": "SELECT count(*), min({c}) FROM {t} WHERE {c} = (SELECT max({c}) FROM {t})",
    "less": "SELECT count(*), max({c}) FROM {t} WHERE {c} < (SELECT max({c}) FROM {t})",
    "null": "SELECT count(*), count({c}) FROM {t} WHERE {c} IS NULL OR {c} IS NOT DISTINCT FROM {c}",
    "group": "SELECT {c}, count(*), count({c}) FROM {t} GROUP BY {c} ORDER BY ALL",
    "distinct": "SELECT DISTINCT {c} FROM {t} ORDER BY {c}",
    "count distinct": "SELECT count(DISTINCT {c}), count({c}), count(*) FROM {t} WHERE {c} IS NOT NULL",
    "least": "SELECT min({c}), max({c}), any_value({c}) IS NULL FROM {t} WHERE {c} IS NOT NULL",
    "join": "SELECT a.{c}, count(*) FROM {t} a JOIN {t} b ON a.{c} = b.{c} GROUP BY a.{c} ORDER BY ALL",
    "left join": "SELECT a.{c}, b.{c} FROM {t} a LEFT JOIN (SELECT DISTINCT {c} FROM {t}) b ON a.{c} = b.{c} ORDER BY ALL",
    "union": "SELECT {c} FROM {t} UNION SELECT {c} FROM {t} WHERE {c} IS NULL ORDER BY {c}",
    "except": "SELECT {c} FROM {t} EXCEPT SELECT max({c}) FROM {t} ORDER BY {c}",
    "in": "SELECT count(*) FROM {t} WHERE {c} IN (SELECT max({c}) FROM {t})",
    "case": "SELECT coalesce({c}, max({c}) OVER ()) AS x, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "set": "SELECT {c}, grouping({c}), count(*) FROM {t} GROUP BY ROLLUP({c}) HAVING {c} IS NOT NULL ORDER BY ALL",
}
NUMBERS = {
    "sum": "SELECT sum({c}), avg({c}), count(*) FROM {t} WHERE {c} IS NOT NULL",
    "plus": "SELECT {c} + 1 AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "times": "SELECT {c} * 2 AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "minus": "SELECT -{c} AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "halves": "SELECT {c} / 2 AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "double": "SELECT {c}::DOUBLE AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "huge": "SELECT {c}::HUGEINT AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "big": "SELECT {c}::BIGINT AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "unsigned": "SELECT {c}::UBIGINT AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "tiny": "SELECT {c}::TINYINT AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "decimal": "SELECT {c}::DECIMAL(5, 2) AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "float": "SELECT {c}::FLOAT AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "text": "SELECT {c}::VARCHAR AS p, count(*) FROM {t} GROUP BY {c} ORDER BY ALL",
    "small": "SELECT count(*) FROM {t} WHERE {c} > 3::TINYINT",
    "against doubles": "SELECT count(*) FROM {t} WHERE {c} < 12.25::DOUBLE OR {c} = 1e30::DOUBLE",
    "against others": "SELECT count(*) FROM {t} a JOIN sums s ON a.{c} = s.s",
}


def is_number(column: str) -> bool:
    """Whether sums and similar aggregates apply to it."""
    words = ("tiny", "small", "int", "big", "huge", "float", "double", "dec")
    return column in SUMS or column.removeprefix("u").startswith(words)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    both = Pair(SETUP)
    yield both
    both.close()


def shapes(column: str) -> dict[str, str]:
    return SHAPES | NUMBERS if is_number(column) and "array" not in column else SHAPES


@pytest.mark.parametrize("column", EXTREMES)
def test_extremes(pair: Pair, column: str) -> None:
    for sql in shapes(column).values():
        pair.check(sql.format(c=f'"{column}"', t="extremes"))


@pytest.mark.parametrize("column", ORDINARY)
def test_ordinary_values_are_accelerated(pair: Pair, column: str) -> None:
    for name, sql in shapes(column).items():
        pair.check(sql.format(c=f'"{column}"', t="ordinary"))
        if name in ("order", "less", "group", "distinct", "count distinct", "join", "union"):
            assert pair.last() == (True, None), (name, column)


@pytest.mark.parametrize("column", SUMS)
def test_stored_results(pair: Pair, column: str) -> None:
    for sql in shapes(column).values():
        pair.check(sql.format(c=column, t="sums"))


def test_a_chain_of_tables(pair: Pair) -> None:
    """Tables of queries of tables of queries: sums of sums stay HUGEINT."""
    pair.do(
        "CREATE OR REPLACE TABLE chain0 AS SELECT int % 10 AS k, sum(bigint) AS v, avg(dec_9_4) AS w FROM ordinary GROUP BY k"
    )
    for i in range(1, 6):
        pair.do(
            f"CREATE OR REPLACE TABLE chain{i} AS SELECT (k + {i}) % 7 AS k, sum(v) AS v, max(w) AS w FROM chain{i - 1} GROUP BY ALL"
        )
        pair.check(f"SELECT k, v, w FROM chain{i} ORDER BY ALL")
        assert pair.last()[0]
        pair.check(f"SELECT sum(v), min(v), max(k), count(v) FROM chain{i} WHERE v > 0")
        assert pair.last()[0]
        pair.check(f"SELECT a.k, b.v FROM chain{i} a JOIN chain{i - 1} b ON a.v = b.v ORDER BY ALL")
        assert pair.last()[0]


PLACES = {
    "view": "CREATE OR REPLACE VIEW place AS SELECT * FROM {t}",
    "copy": "DROP VIEW IF EXISTS place; CREATE OR REPLACE TABLE place AS SELECT * FROM {t}",
    "insert": "CREATE OR REPLACE TABLE place AS SELECT * FROM {t} LIMIT 0; INSERT INTO place SELECT * FROM {t}",
    "temporary": "DROP TABLE place; CREATE OR REPLACE TEMP TABLE place AS SELECT * FROM {t}",
    "uncommitted": "DROP TABLE place; BEGIN; CREATE TABLE place AS SELECT * FROM {t}; UPDATE place SET int = int WHERE int > 3",
    "updated": "COMMIT; UPDATE place SET int = int; DELETE FROM place WHERE int = 5",
}


@pytest.mark.trials
@pytest.mark.parametrize("table", ["extremes", "ordinary"])
def test_places(pair: Pair, table: str, tmp_path: Path) -> None:
    columns = EXTREMES if table == "extremes" else ORDINARY
    draw, shapes = random.Random(table), ("order", "group", "count distinct", "least")

    def chosen() -> list[str]:
        return draw.sample(shapes, trials(1, most=len(shapes)))

    for place, sql in PLACES.items():
        for statement in sql.format(t=table).split(";"):
            pair.do(statement)
        for column in columns:
            for name in chosen():
                pair.check(SHAPES[name].format(c=f'"{column}"', t="place"))
        if table == "ordinary":
            assert pair.last()[0], place
    pair.do("DROP TABLE place")
    pair.theirs.execute(f"ATTACH '{tmp_path / 'theirs.db'}' AS other")
    pair.ours.execute(f"ATTACH '{tmp_path / 'ours.db'}' AS other")
    pair.do(f"CREATE TABLE other.place AS SELECT * FROM {table}")
    for column in columns:
        for name in chosen():
            pair.check(SHAPES[name].format(c=f'"{column}"', t="other.place"))
    pair.do("DETACH other")


def test_parameters(pair: Pair) -> None:
    for column in ORDINARY:
        [values] = zip(
            *pair.theirs.execute(f"SELECT {column} FROM ordinary WHERE int IN (1, 50, 99)").fetchall(), strict=True
        )
        for value in (*values, None):
            parameters: list[Any] = [value]
            pair.check(f"SELECT count(*), min(int) FROM ordinary WHERE {column} = ?", parameters)
            pair.check(f"SELECT max({column}) FROM ordinary WHERE {column} < ?", parameters)
            pair.check(f"SELECT ? AS p, count({column}) FROM ordinary GROUP BY ALL", parameters)


def test_values_beyond_the_digits_here_are_duckdbs(pair: Pair) -> None:
    """One value too large: DuckDB runs the query, once, and it is said."""
    before = status(pair)
    pair.check("SELECT hugeint, count(*) FROM extremes GROUP BY hugeint ORDER BY ALL")
    assert pair.last() == (False, "failed while it ran: a whole number of more than 38 digits")
    after = status(pair)
    key = ("failed, and run by DuckDB", "failed while it ran: a whole number of more than 38 digits")
    assert after[key] == before.get(key, 0) + 1
    pair.ours.execute("SET warpmill_fallback = 'error'")
    with pytest.raises(
        duckdb.InvalidInputException, match="could not finish this query: failed while it ran: a whole number"
    ):
        pair.ours.execute("SELECT hugeint, count(*) FROM extremes GROUP BY hugeint")
    pair.ours.execute("SET warpmill_fallback = 'allow'")


def status(pair: Pair) -> dict[tuple[str, str], int]:
    return {
        (outcome, reason): queries
        for outcome, reason, queries in pair.ours.execute("FROM warpmill_status()").fetchall()
    }


def test_types_of_ones_own(pair: Pair) -> None:
    """A name for a type of DuckDB's."""
    pair.do("CREATE TYPE money AS DECIMAL(9, 2)")
    pair.do("CREATE TABLE own AS SELECT i::money AS x, i AS y FROM range(5) r(i)")
    for sql in (
        "SELECT x FROM own ORDER BY x",
        "SELECT max(x), sum(y) FROM own WHERE x > 1",
        "SELECT y FROM own ORDER BY y",
    ):
        pair.check(sql)
    pair.do("DROP TABLE own; DROP TYPE money")
