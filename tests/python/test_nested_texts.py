"""Texts as lists, structs and maps, beside DuckDB: values, NULL and errors."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import warpmill

STRUCT = "STRUCT(a INTEGER, b VARCHAR)"

#: Types with texts, right ones and wrong ones.
TEXTS: dict[str, list[str]] = {
    "INTEGER[]": """[1, 2]|[1,2,NULL, null]|[]|  [ 1 , 2 ]  |[1,]|[,]|[1 2]|1||[1|[1]]|[ ]|{1,2}|(1,2)|[1.5]|[a]|['3']
        """.strip().split("|"),
    "VARCHAR[]": [
        "[a, b]",
        "['a', \"b\"]",
        "[ a b , c]",
        "['a,b', c]",
        "[NULL, 'NULL', \"null\"]",
        "['it''s']",
        r"['it\'s']",
        r"[a\,b]",
        "['']",
        "[a'b]",
        '["a"b]',
        "[ ' a ' ]",
        "[[a,b]]",
        "[{a}]",
        "[,a]",
        "[é, '日本']",
    ],
    "INTEGER[][]": ["[[1,2],[3],[],NULL]", "[1]", "[[1],2]"],
    STRUCT: [
        "{'a': 1, 'b': x}",
        "{a:1,b:x}",
        '{"a": 1}',
        "{b: y}",
        "{A: 1, b: NULL}",
        "{a: 1, c: 2}",
        "(1, x)",
        "(1)",
        "{}",
        "{a: 1, a: 2, b: 3}",
        "{'a': 1, 'b': 'x, y'}",
        "{a 1}",
        "{a: , b: x}",
        "null",
        "{a: [1], b: x}",
        "(1, 'x', 3)",
        "{a=1}",
    ],
    "MAP(VARCHAR, INTEGER)": ["{a=1, b=2}", "{a: 1}", "{}", "{'a b'=1}", "{NULL=1}", "{a=NULL}", "{a}", "{a=1=2}"],
    "INTEGER[3]": ["[1,2,3]", "[1,2]"],
    "DATE[]": ["[2020-01-01, '2021-02-03']", "[2020-13-01]"],
    "BOOLEAN[]": ["[true, f, 1]", "[maybe]"],
    "DOUBLE[]": ["[1e3, nan, -inf]"],
    "DECIMAL(5,2)[]": ["[1.005, 2]", "[1000]"],
    "UUID[]": ["[a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11]", "[x]"],
    f"{STRUCT}[]": ["[{'a': 1, 'b': 'x'}, {'a': 2}]"],
    "STRUCT(a INTEGER[], b STRUCT(c VARCHAR))": ["{'a': [1,2], 'b': {'c': 'z'}}"],
    "MAP(VARCHAR, INTEGER[])": ["{'k'=[1,2], 'l'=[]}"],
    f"MAP(INTEGER, {STRUCT})": ["{1={'a': 1, 'b': q}}"],
}


def found(con: Any, query: str, values: list[str]) -> Any:
    """The rows of a query, or that it failed."""
    try:
        return con.execute(query, values).fetchall()
    except (duckdb.Error, warpmill.Error):
        return "an error"


@pytest.mark.parametrize("to", TEXTS)
@pytest.mark.parametrize("cast", ["CAST", "TRY_CAST"])
def test_each_text_has_duckdbs_value(to: str, cast: str) -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for text in TEXTS[to]:
            query = f"SELECT {cast}(? AS {to}) AS a"
            assert repr(found(ours, query, [text])) == repr(found(theirs, query, [text])), (text, to)


def test_columns() -> None:
    with warpmill.connect() as ours, duckdb.connect() as theirs:
        for con in (ours, theirs):
            con.execute(
                "CREATE TABLE t AS SELECT i, CASE WHEN i % 3 = 0 THEN NULL ELSE '[' || i || ', NULL]' END AS s"
                " FROM range(100) r(i)"
            )
            con.execute("CREATE TABLE made (i BIGINT, l INTEGER[])")
            con.execute("INSERT INTO made SELECT i, s::INTEGER[] FROM t")
        for query in (
            "SELECT i, s::INTEGER[] AS l FROM t ORDER BY i",
            "SELECT sum(l[1]), count(l) FROM made",
            "SELECT i FROM t WHERE (s::INTEGER[])[1] = 50",
            "SELECT CAST([1, 2]::VARCHAR AS INTEGER[]) = [1, 2], CAST({'a': 1}::VARCHAR AS STRUCT(a INTEGER)).a",
            "SELECT i, s::INTEGER[] FROM t WHERE false",
        ):
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall(), query


def test_errors_name_the_text() -> None:
    with warpmill.connect() as con, pytest.raises(warpmill.Error, match=r"'\[1' can't be cast to the type INTEGER\[\]"):
        con.execute("SELECT '[1'::INTEGER[]").fetchall()
