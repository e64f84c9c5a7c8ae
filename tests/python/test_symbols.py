"""Tables with strings encoded as symbols: the same answers as with plain strings, everywhere, and fewer bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import warpmill
from warpmill import _warpmill

if TYPE_CHECKING:
    from pathlib import Path

needs_sim = pytest.mark.skipif(
    json.loads(_warpmill.devices())["no_simulated_device"] is not None, reason="no C++ compiler"
)

WORDS = ("carefully final", "special ", " requests", "naïve ", "дом ", "家", "🦀", "deposits", "slyly ", "%_", "")

#: Filters that automata decide and others, before and behind other filters; groups, extremes, distinct counts; joins,
#: sorts and limits that keep strings.
QUERIES = (
    "SELECT count(*) FROM t WHERE s LIKE '%special%requests%'",
    "SELECT count(*) FROM t WHERE s NOT LIKE '%special%requests%'",
    "SELECT count(*), min(s), max(s) FROM t WHERE s LIKE 'carefully%'",
    "SELECT count(*) FROM t WHERE s LIKE '%slyly '",
    "SELECT count(*) FROM t WHERE s LIKE '%дом%' AND k < 900",
    "SELECT count(*) FROM t WHERE s LIKE '%\\%\\_%'",
    "SELECT count(*) FROM t WHERE s LIKE '_arefully%'",
    "SELECT count(*) FROM t WHERE s ILIKE '%SPECIAL%'",
    "SELECT count(*) FROM t WHERE s LIKE ''",
    "SELECT count(*) FROM t WHERE s LIKE '%'",
    "SELECT id, s FROM t WHERE s = 'deposits' AND k % 7 = 3 ORDER BY id LIMIT 20",
    "SELECT count(*) FROM t WHERE s <> 'deposits'",
    "SELECT count(*) FROM t WHERE s IN ('deposits', '', '家')",
    "SELECT count(*) FROM t WHERE s > 'd' AND length(s) < 20",
    "SELECT id, s FROM t WHERE id IN (5, 1023, 1024, 4097, 29999) ORDER BY id",
    "SELECT min(s), max(s), count(s), count(DISTINCT s) FROM t",
    "SELECT k % 10 AS g, min(s), max(s), count(DISTINCT s) FROM t GROUP BY g ORDER BY g",
    "SELECT s, count(*), sum(id) FROM t GROUP BY s ORDER BY s NULLS FIRST",
    "SELECT substring(s, 2, 9) AS p, upper(min(s)), count(*) FROM t GROUP BY p ORDER BY p NULLS FIRST",
    "SELECT s, count(*) FROM t WHERE k < 500 GROUP BY s ORDER BY count(*) DESC, s NULLS FIRST LIMIT 10",
    "SELECT s, k FROM t ORDER BY s NULLS FIRST, id LIMIT 50",
    "SELECT a.id, a.s, b.s FROM t a JOIN t b ON a.id = b.id + 1 WHERE a.k = 17 ORDER BY a.id",
    "SELECT count(*), min(a.s) FROM t a JOIN (SELECT DISTINCT s FROM t WHERE k < 100) b ON a.s = b.s",
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    state, rows = 7, []
    for i in range(30_000):
        picks = []
        for _ in range(i % 5):
            state = (state * 1103515245 + 12345) % 2**31
            picks.append(WORDS[(state >> 16) % len(WORDS)])
        rows.append(None if i % 97 == 5 else "".join(picks) + (f" {i}" if i % 3 == 0 else ""))
    return pa.table({"id": range(30_000), "k": [i * 7919 % 1000 for i in range(30_000)], "s": rows})


def encodings(con: warpmill.Connection, column: str = "s") -> dict[str, int]:
    found: dict[str, int] = next(c for c in con.inspect("t") if c["name"] == column)["encodings"]
    return found


def answers(con: warpmill.Connection) -> list[list[tuple[Any, ...]]]:
    return [con.sql(query).fetchall() for query in QUERIES]


@pytest.fixture(scope="module")
def expected(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> list[list[tuple[Any, ...]]]:
    with warpmill.connect(tmp_path_factory.mktemp("plain"), device="cpu") as con:
        con.create_table("t", table, codec="none")
        assert set(encodings(con)) == {"Plain"}
        return answers(con)


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("symbols")
    with warpmill.connect(path, device="cpu") as con:
        con.create_table("t", table)
        assert set(encodings(con)) == {"Symbols"}
    return path


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"threads": 1},
        {"chunk_rows": 64},
        {"compaction": "none"},
        {"memory_limit": "40MB"},
        {"file_access": "read"},
    ],
)
def test_the_same_answers(path: Path, expected: list[Any], settings: dict[str, Any]) -> None:
    with warpmill.connect(path, device="cpu", **settings) as con:
        for query, answer, wanted in zip(QUERIES, answers(con), expected, strict=True):
            assert answer == wanted, query


@needs_sim
def test_the_same_answers_on_a_device(path: Path, expected: list[Any]) -> None:
    with warpmill.connect(path, device="sim") as con:
        for index in (0, 4, 10, 15, 17, 21):
            assert con.sql(QUERIES[index]).fetchall() == expected[index], QUERIES[index]


def test_appends_mix_encodings(table: pa.Table, expected: list[Any], tmp_path: Path) -> None:
    with warpmill.connect(tmp_path, device="cpu") as con:
        con.create_table("t", table.slice(0, 20_000), codec="none")
        con.sql("CREATE TABLE rest (id BIGINT, k BIGINT, s VARCHAR)")
        con.register("tail", table.slice(20_000))
        con.sql("INSERT INTO t SELECT * FROM tail WHERE id < 29990")
        con.sql("INSERT INTO t SELECT * FROM tail WHERE id >= 29990")
        assert encodings(con) == {"Plain": 2, "Symbols": 1}
        for query, answer, wanted in zip(QUERIES, answers(con), expected, strict=True):
            assert answer == wanted, query


def test_strings_beyond_the_limit_are_put_aside(tmp_path: Path) -> None:
    rows = 400_000
    text = [f"{WORDS[i % 8]} {i * 7919 % rows} {WORDS[i * 31 % 9]} and some more words of it" for i in range(rows)]
    with warpmill.connect(tmp_path, device="cpu", memory_limit="16MB", fallback="error") as con:
        con.create_table("t", pa.table({"id": range(rows), "s": text}))
        assert set(encodings(con)) == {"Symbols"}
        found = con.sql("SELECT s FROM t ORDER BY s LIMIT 300000").fetchall()
        assert [row[0] for row in found] == sorted(text)[:300_000]
        assert con.sql("SELECT count(*) FROM (SELECT s, count(*) AS n FROM t GROUP BY s) WHERE n = 1").fetchall() == [
            (len(set(text)),)
        ]
