"""Precedence of operators, `||` of any two values, and `TABLE t` as a query, compared with DuckDB."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

import warpmill
from beside import pair_with

pair = pair_with(
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 5, 'x', 2.5), (2, 6, 'y', 0.5), (12, NULL, NULL, NULL)) v(a, b, s, d)"
)

EXPRESSIONS = [
    "'a' || a + b",
    "a + b || 'c'",
    "a || b * 3",
    "10 || a + 3",
    "s || a % 2 || b - 1",
    "a * b || s || a + 1 || d * 2",
    "a - b - 1 || b - a - 1",
    "s || a || b = 'x15'",
    "s || 'b' LIKE 'xb'",
    "s || a IN ('x1', 'y2')",
    "-a || s",
    "~a + b",
    "~a * 2 || s",
    "5 | a & 1",
    "1 | a << 2",
    "b & a + 1",
    "b >> a - 1 | 8",
    "a << 1 + 1",
    "6 & b || s",
    "a + b ^ 2 * 3",
    "3 - a ^ 2 - 1",
    "s || b ^ 2 + 1",
    "2 ** a || s",
    "-a ^ 2",
    "2 ^ a ^ 2",
    "(a || b) || 'z' || (a + b) * 2",
    "CASE WHEN a + 1 || '' = '2' THEN s || a * 2 END",
    "DATE '2020-01-01' + a || ''",
    "a || true || DATE '2020-01-01' || 1.50",
    "NULL || a",
    "d || NULL",
    "a || a",
    "upper(s || a + 1)",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(pair: tuple[Any, Any], expression: str) -> None:
    ours, theirs = pair
    text = f"SELECT {expression} FROM t ORDER BY a"
    assert ours.execute(text).fetchall() == theirs.execute(text).fetchall()


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions(pair: tuple[Any, Any], seed: int) -> None:
    ours, theirs = pair
    own = random.Random(seed)

    def numeric(operators: list[str]) -> str:
        operands = [own.choice(["a", "b", "3", "(a + 1)", "-b"]) for _ in range(own.randint(1, 6))]
        return (
            own.choice(["", "~ "])
            + operands[0]
            + "".join(f" {own.choice(operators)} {operand}" for operand in operands[1:])
        )

    for _ in range(40):
        bits = numeric(["+", "-", "*", "%", "&", "|"])
        texts = " || ".join(numeric(["+", "-", "*", "%"]) for _ in range(own.randint(2, 4)))
        text = f"SELECT {bits}, {texts} FROM t ORDER BY a"
        assert ours.execute(text).fetchall() == theirs.execute(text).fetchall(), text


@pytest.mark.parametrize(
    "kind", ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "UINTEGER", "UBIGINT"]
)
def test_bits_keep_their_type(kind: str) -> None:
    calls = [
        "~k",
        "~k & k",
        "k | ~k",
        "xor(k, 3)",
        "xor(3, k) & k",
        "xor(k, k)",
        "xor(~k, k)",
        "xor(k, i)",
        "~(~k)",
        "xor(n, n)",
    ]
    columns = ", ".join(f"{call}, typeof({call})" for call in calls)
    ours, theirs = warpmill.connect(), duckdb.connect()
    for con in (ours, theirs):
        con.execute(f"CREATE TABLE t (k {kind} NOT NULL, n {kind}, i INTEGER)")
        con.execute("INSERT INTO t VALUES (5, 5, 9), (0, NULL, NULL), (127, 1, -1)")
    text = f"SELECT {columns} FROM t ORDER BY k"
    assert ours.execute(text).fetchall() == theirs.execute(text).fetchall()


def test_rows_that_are_written_anew(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute(
            "CREATE OR REPLACE TABLE filled (x VARCHAR, y VARCHAR DEFAULT 'd' || 1 + 1, n INTEGER DEFAULT 5 | 2 & 1)"
        )
        con.execute("INSERT INTO filled (x) SELECT s || a + 1 FROM t")
        con.execute("INSERT INTO filled (n) SELECT ~a + b FROM t UNION ALL SELECT 5 | a & 1 FROM t")
        con.execute("INSERT INTO filled (y, n) VALUES ('v' || 2 + 3, 1 | 1 << 2), (DEFAULT, DEFAULT)")
        con.execute("INSERT INTO filled VALUES ((SELECT s || a * 2 FROM t WHERE a = 2), DEFAULT, 5 | 2 & 1)")
        con.execute("INSERT INTO filled (x) VALUES ((SELECT max(s) || max(a) - 1 FROM t))")
    ours, theirs = pair
    text = "SELECT * FROM filled ORDER BY ALL"
    assert ours.execute(text).fetchall() == theirs.execute(text).fetchall()


def test_stored_expressions(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE OR REPLACE VIEW v AS SELECT a || b + 1 AS x FROM t")
        con.execute("CREATE OR REPLACE MACRO joined(p, q) AS p || q + 1")
        con.execute(
            "CREATE OR REPLACE TABLE checked (k INTEGER, x VARCHAR DEFAULT 'n' || 1 + 1, CHECK ('n' || k + 1 <> 'n5'))"
        )
        con.execute("INSERT INTO checked (k) VALUES (1)")
        with pytest.raises(Exception, match="CHECK"):
            con.execute("INSERT INTO checked (k) VALUES (4)")
        con.execute("UPDATE checked SET x = x || k + 1 WHERE x || k + 1 = 'n22'")
    ours, theirs = pair
    for text in ("SELECT * FROM v ORDER BY ALL", "SELECT joined(s, a) FROM t ORDER BY ALL", "SELECT * FROM checked"):
        assert ours.execute(text).fetchall() == theirs.execute(text).fetchall()
    for con in pair:
        con.execute("SET VARIABLE z = 'a' || 1 + 1")
        con.execute("PREPARE p AS SELECT 'x' || ? + 1")
    for text in ("SELECT getvariable('z')", "EXECUTE p(2)"):
        assert ours.execute(text).fetchall() == theirs.execute(text).fetchall()
    assert ours.execute("SELECT ? || ?", [1, "a"]).fetchall() == theirs.execute("SELECT ? || ?", [1, "a"]).fetchall()


def test_tables_as_queries(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute('CREATE OR REPLACE TABLE "O t" AS TABLE t')
        con.execute('INSERT INTO "O t" TABLE t')
    ours, theirs = pair
    for text in (
        'TABLE "O t" ORDER BY ALL',
        "TABLE t UNION ALL TABLE t ORDER BY ALL",
        "SELECT count(*) FROM (TABLE t)",
        "SELECT count(*) FROM t WHERE a IN (SELECT a FROM (TABLE t))",
        "WITH x AS (TABLE t) SELECT a FROM x ORDER BY a",
        "SELECT a FROM t EXCEPT (SELECT a FROM (TABLE t))",
    ):
        assert ours.execute(text).fetchall() == theirs.execute(text).fetchall(), text
    with pytest.raises(warpmill.CatalogError, match="nowhere"):
        ours.execute("TABLE nowhere")


def test_positions_before_the_first_row(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    calls = ", ".join(f"nth_value({call}) OVER (ORDER BY a)" for call in ("a, -1", "s, -2", "a, 2"))
    text = f"SELECT {calls} FROM t ORDER BY ALL"
    assert ours.execute(text).fetchall() == theirs.execute(text).fetchall()


def test_values_of_queries(pair: tuple[Any, Any]) -> None:
    for con in pair:
        con.execute("CREATE OR REPLACE TABLE kept (k INTEGER PRIMARY KEY, s VARCHAR DEFAULT 'none')")
        con.execute("INSERT INTO kept VALUES ((SELECT max(a) FROM t), 'most')")
        con.execute("INSERT INTO kept VALUES ((SELECT min(a) FROM t), NULL), (7, (SELECT s FROM t WHERE a = 2))")
        con.execute("INSERT INTO kept (k) VALUES ((SELECT max(k) + 1 FROM kept))")
        con.execute("INSERT INTO kept VALUES ((SELECT max(x) FROM (VALUES (20), (30)) v(x)), 'nested')")
        con.execute("INSERT INTO kept VALUES ((SELECT 7), 'again') ON CONFLICT DO UPDATE SET s = excluded.s || s")
    ours, theirs = pair
    for text in (
        "SELECT * FROM kept ORDER BY k",
        "VALUES ((SELECT max(a) FROM t), 2)",
        "SELECT * FROM (VALUES ((SELECT 1), 'a'), (NULL, (SELECT 'b')), (3, 'c')) v ORDER BY ALL",
        "SELECT x + y FROM (VALUES ((SELECT 1), 2), (5, 6)) v(x, y) ORDER BY ALL",
        "WITH w(x) AS (VALUES ((SELECT 1)), ((EXISTS (SELECT 1 WHERE false))::INTEGER)) SELECT * FROM w ORDER BY ALL",
        "SELECT count(*), sum(x) FROM (VALUES " + ", ".join(f"((SELECT {n}))" for n in range(300)) + ") v(x)",
    ):
        assert ours.execute(text).fetchall() == theirs.execute(text).fetchall(), text
