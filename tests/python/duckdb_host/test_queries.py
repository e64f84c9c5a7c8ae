"""Benchmark queries through `warpmill.duckdb`, in strict mode, against DuckDB's own answers of the same connection."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import warpmill
import warpmill._warpmill as native
import warpmill.duckdb
from warpmill.bench.verify import difference
from warpmill_bench.suites import QUERIES, hits, imdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The texts of each suite: those of the engine, and those of the studies.
FOLDERS = {
    **{suite: Path(__file__).parents[3] / "queries" / suite for suite in ("tpch", "ssb")},
    **{suite: QUERIES / suite for suite in ("clickbench", "job")},
}

#: Queries that stay with DuckDB, and why.
LEFT = {("clickbench", "q19"): "rows as they come"}

#: A LIMIT without ORDER BY keeps any rows: only their number is compared.
ANY_ROWS = {("clickbench", "q17")}

#: Rows that tie at the LIMIT are interchangeable: only the last column, the sort key, is compared.
TIES = {("clickbench", "q18")}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    made: dict[str, Any] = {}

    def of(suite: str) -> Any:
        if suite not in made:
            con = made[suite] = warpmill.duckdb.connect()
            if suite in ("tpch", "ssb"):
                folder = tmp_path_factory.mktemp(suite)
                for table in native.tables(suite):
                    path = folder / f"{table}.parquet"
                    native.generate_parquet(suite, table, 0.01, str(path), 2)
                    con.execute(f"CREATE TABLE {table} AS FROM read_parquet('{path}')")
            else:
                for name, incoming in {"clickbench": hits.tables, "job": imdb.tables}[suite]().items():
                    con.register("incoming", incoming)
                    con.execute(f"CREATE TABLE {name} AS FROM incoming")
                    con.unregister("incoming")
        return made[suite]

    yield of
    for con in made.values():
        con.close()


def texts() -> list[Any]:
    found = [(suite, path) for suite, folder in FOLDERS.items() for path in sorted(folder.glob("*.sql"))]
    return [pytest.param(suite, path, id=f"{suite} {path.stem}") for suite, path in found]


@pytest.mark.parametrize(("suite", "path"), texts())
def test_equal_to_duckdb(connection: Callable[[str], Any], suite: str, path: Path) -> None:
    con, sql = connection(suite), path.read_text().strip().rstrip(";")
    con.execute("SET warpmill_enabled = false")
    expected = con.execute(sql)
    columns = [(column[0], str(column[1])) for column in expected.description]
    expected_rows = expected.fetchall()
    con.execute("SET warpmill_enabled = true")
    con.execute("SET warpmill_fallback = 'error'")
    try:
        if reason := LEFT.get((suite, path.stem)):
            with pytest.raises(duckdb.InvalidInputException, match=reason):
                con.execute(sql)
            return
        result = con.execute(sql)
        assert [(column[0], str(column[1])) for column in result.description] == columns
        rows = result.fetchall()
    finally:
        con.execute("SET warpmill_fallback = 'allow'")
    [(accelerated, reason, _)] = con.execute("FROM warpmill_last()").fetchall()
    assert accelerated, reason
    if (suite, path.stem) in ANY_ROWS:
        assert len(rows) == len(expected_rows)
        return
    if (suite, path.stem) in TIES:
        assert [row[-1] for row in rows] == [row[-1] for row in expected_rows]
        return
    assert difference(rows, expected_rows, [name for name, _ in columns], sql) is None


@pytest.mark.parametrize("query", ["q03", "q05", "q09"])
def test_planned_as_warpmill_tables(connection: Callable[[str], Any], query: str, tmp_path: Path) -> None:
    """Joins are in the order, and sums as wide, as where the same rows are Warpmill's own tables."""

    def outline(text: str) -> list[str]:
        return re.findall(r"scan (\w+)|(:i\d+)", text)

    con = connection("tpch")
    text = (FOLDERS["tpch"] / f"{query}.sql").read_text().strip().rstrip(";")
    con.execute(text).fetchall()
    [(accelerated, ours)] = con.execute("FROM warpmill_explain($1)", [text]).fetchall()
    assert accelerated
    with warpmill.connect(tmp_path / "own") as own:
        for table in native.tables("tpch"):
            own.generate("tpch", table, 0.01)
        theirs = "\n".join(plan for _, plan in own.sql(f"EXPLAIN {text}").fetchall())
    assert outline(ours) == outline(theirs)
    assert len(outline(ours)) > 3
