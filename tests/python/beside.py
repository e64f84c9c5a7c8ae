"""Sources in FROM beside DuckDB: the same rows, columns and types, or errors that name the culprit."""

from __future__ import annotations

import duckdb
import pytest

import warpmill


def assert_same(source: str) -> None:
    """Assert that both packages read `source` as the same rows, in any order, with the same names and types."""
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        expected, found = theirs.sql(f"FROM {source}"), ours.sql(f"FROM {source}")
        assert found.columns == expected.columns
        assert sorted(found.fetchall(), key=repr) == sorted(expected.fetchall(), key=repr)
        kinds = [[row[1] for row in con.sql(f"DESCRIBE SELECT * FROM {source}").fetchall()] for con in (ours, theirs)]
        assert kinds[0] == kinds[1]


def assert_refused(source: str, culprit: str) -> None:
    """Assert that reading `source` is an error whose text has the pattern `culprit`."""
    with warpmill.connect() as con, pytest.raises(warpmill.Error, match=culprit):
        con.sql(f"FROM {source}").fetchall()
