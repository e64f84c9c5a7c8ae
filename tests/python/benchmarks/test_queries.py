"""The texts that are measured: constants by scale factor, and other literals for new statements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from warpmill import _warpmill
from warpmill.bench.literals import SUITES, others
from warpmill.bench.queries import chosen, fraction, texts
from warpmill.bench.states import State, states

if TYPE_CHECKING:
    from pathlib import Path

SUITES_AND_QUERIES = [(suite, name) for suite in SUITES for name, _ in _warpmill.queries(suite)]


@pytest.mark.parametrize(
    ("sf", "expected"),
    [(1, "0.0001"), (0.01, "0.01"), (0.3, "0.0003333333333"), (30, "0.000003333333333"), (1000, "0.0000001")],
)
def test_the_constant_of_query_11_is_of_the_scale_factor(sf: float, expected: str) -> None:
    assert fraction(sf) == expected
    plain = dict(_warpmill.queries("tpch"))["11"]
    assert texts("tpch", sf)["11"] == plain.replace("* 0.0001\n", f"* {expected}\n")
    assert texts("tpch", sf)["1"] == dict(_warpmill.queries("tpch"))["1"]


@pytest.mark.parametrize(("suite", "name"), SUITES_AND_QUERIES)
def test_other_literals_are_other_statements(suite: str, name: str) -> None:
    sql = texts(suite, 1.0)[name]
    made = list(others(suite, name, sql))
    assert len(made) >= 20
    # A plan cache may ignore comments, space, and the case of words.
    alike = {" ".join(re.sub(r"--[^\n]*", " ", text).lower().split()) for text in [sql, *made]}
    assert len(alike) == len(made) + 1
    # Only literals differ: without them, all texts are equal.
    shapes = {re.sub(r"[><]\s*\d+|'[^']*'|\b[\d.]+\b", "?", text) for text in [sql, *made]}
    assert len(shapes) == 1


def test_other_literals_find_rows(tmp_path: Path) -> None:
    import duckdb

    con: Any = duckdb.connect()
    for suite in SUITES:
        con.execute(f"CREATE SCHEMA {suite}; USE {suite}")
        for table in _warpmill.tables(suite):
            path = tmp_path / f"{suite}-{table}.parquet"
            _warpmill.generate_parquet(suite, table, 0.01, str(path), 0, None)
            con.execute(f"CREATE TABLE \"{table}\" AS FROM read_parquet('{path}')")
        empty = set()
        for query in chosen(suite, 0.01, None, 6):
            counts = [len(con.sql(text).fetchall()) for text in query.others]
            if not any(counts):
                empty.add(query.name)
        # These select a single brand, or two cities in a month: small data has hardly any matching rows.
        assert empty <= ({"20"} if suite == "tpch" else {"2.3", "3.3", "3.4", "4.3"})


def test_queries_that_there_are_not_are_errors() -> None:
    assert [query.name for query in chosen("tpch", 1.0, "q6, 1", 0)] == ["6", "1"]
    with pytest.raises(ValueError, match="tpch has no query '23'"):
        chosen("tpch", 1.0, "23", 0)
    with pytest.raises(ValueError, match=r"tpch 10 can be a new statement 23 times, not 24"):
        chosen("tpch", 1.0, "10", 24)


def test_states_are_named_in_any_order() -> None:
    assert states(None) == (State.NEW_PROCESS, State.NEW_STATEMENT, State.REPEATED)
    assert states("repeated, New-Process") == (State.NEW_PROCESS, State.REPEATED)
    with pytest.raises(ValueError, match="unknown state 'warm'"):
        states("warm")
