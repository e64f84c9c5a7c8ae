"""Both packages beside each other: the same rows, columns and types, or errors that name the culprit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator


def pair_with(setup: str, theirs_first: str = "") -> Any:
    """Make a fixture of both packages with the tables of `setup`, ours in memory and in a folder.

    DuckDB runs `theirs_first` alone, before.
    """

    @pytest.fixture(scope="module", params=["memory", "stored"])
    def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
        where = [] if request.param == "memory" else [str(tmp_path_factory.mktemp("beside") / "db")]
        with warpmill.connect(*where) as ours, duckdb.connect() as theirs:
            theirs.execute(theirs_first or "SELECT 1")
            for con in (ours, theirs):
                con.execute(setup)
            yield ours, theirs

    return pair


def normal(value: Any, digits: int = 10) -> Any:
    """Round floats of a value to this many digits, and make NaN equal to itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.{digits}g}") + 0.0
    if isinstance(value, dict):
        return [(normal(key, digits), normal(of, digits)) for key, of in value.items()]
    return [normal(part, digits) for part in value] if isinstance(value, list | tuple) else value


def assert_same(source: str) -> None:
    """Assert that both packages read `source` as the same rows, in any order, with the same names and types."""
    with duckdb.connect() as theirs, warpmill.connect() as ours:
        expected, found = theirs.sql(f"FROM {source}"), ours.sql(f"FROM {source}")
        assert found.columns == expected.columns
        assert sorted(found.fetchall(), key=repr) == sorted(expected.fetchall(), key=repr)
        kinds = [[row[1] for row in con.sql(f"DESCRIBE SELECT * FROM {source}").fetchall()] for con in (ours, theirs)]
        assert kinds[0] == kinds[1]


def assert_both_refuse(query: str, pair: tuple[Any, Any]) -> None:
    """Assert that both packages refuse `query`, ours not with an internal error."""
    ours, theirs = pair
    with pytest.raises(duckdb.Error):
        theirs.sql(query).fetchall()
    with pytest.raises(warpmill.Error) as refused:
        ours.sql(query).fetchall()
    assert not isinstance(refused.value, warpmill.InternalError)


def assert_refused(source: str, culprit: str) -> None:
    """Assert that reading `source` is an error whose text has the pattern `culprit`."""
    with warpmill.connect() as con, pytest.raises(warpmill.Error, match=culprit):
        con.sql(f"FROM {source}").fetchall()
