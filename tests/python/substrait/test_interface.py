"""The arguments, results and refusals of `execute_substrait` and `to_substrait`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "substrait" / "isthmus").glob("*.bin"))

I64 = {"i64": {"nullability": "NULLABILITY_REQUIRED"}}


def read(**source: object) -> dict[str, Any]:
    """A plan of one read relation with the column `a`."""
    schema = {"names": ["a"], "struct": {"types": [I64]}}
    return {"relations": [{"root": {"input": {"read": {"baseSchema": schema, **source}}, "names": ["a"]}}]}


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as connection:
        connection.sql("CREATE TABLE t AS SELECT column1 AS a FROM (VALUES (3), (1), (2)) AS v")
        yield connection


def test_plans_are_bytes_texts_and_dicts(con: warpmill.Connection) -> None:
    plan = read(namedTable={"names": ["t"]})
    for source in (plan, json.dumps(plan), con.to_substrait("SELECT a FROM t")):
        result = con.execute_substrait(source)
        assert (result.columns, sorted(result.fetchall())) == (["a"], [(1,), (2,), (3,)])
        assert result.profile["fallbacks"] == []
    with pytest.raises(TypeError, match="not int"):
        con.execute_substrait(3)  # type: ignore[arg-type]


def test_results_explain_themselves(con: warpmill.Connection) -> None:
    result = con.execute_substrait(con.to_substrait("SELECT sum(a) AS total FROM t WHERE a > 1"))
    assert result.fetchall() == [(5,)]
    text = result.explain()
    assert "== logical plan ==" in text
    assert "WarpmillExec" in text
    assert "== profile ==" in result.explain(analyze=True)
    assert "TableScan: t" in result.query
    with pytest.raises(ValueError, match="kernels"):
        result.explain(kernels=True)


def test_tables_may_be_variables_of_the_caller(con: warpmill.Connection) -> None:
    frame = pa.table({"a": [5, 6]})
    assert con.execute_substrait(read(namedTable={"names": ["FRAME"]})).fetchall() == [(5,), (6,)]
    del frame
    with pytest.raises(warpmill.CatalogError, match="table 'FRAME' not found"):
        con.execute_substrait(read(namedTable={"names": ["FRAME"]}))


def test_local_files(con: warpmill.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "two files"
    folder.mkdir()
    for number in (1, 2):
        pq.write_table(pa.table({"b": ["x"], "a": [number]}), folder / f"part{number}.parquet")
    one = (folder / "part1.parquet").as_uri()
    assert "%20" in one
    files: list[tuple[list[dict[str, Any]], list[int]]] = [
        ([{"uriFile": one, "parquet": {}}], [1]),
        ([{"uriFile": one}, {"uriFile": (folder / "part2.parquet").as_uri()}], [1, 2]),
        ([{"uriFolder": folder.as_uri(), "parquet": {}}], [1, 2]),
        ([{"uriPathGlob": f"{folder}/*.parquet", "parquet": {}}], [1, 2]),
    ]
    for items, rows in files:
        result = con.execute_substrait(read(localFiles={"items": items}))
        assert sorted(value for (value,) in result.fetchall()) == rows
    for item, message in [
        ({"uriFile": one, "orc": {}}, "file format 'orc'"),
        ({"uriFile": one, "parquet": {}, "start": "4", "length": "10"}, "a part of a file"),
    ]:
        with pytest.raises(warpmill.NotSupportedError, match=message):
            con.execute_substrait(read(localFiles={"items": [item]}))
    with pytest.raises(warpmill.Error):
        con.execute_substrait(read(localFiles={"items": [{"uriFile": (tmp_path / "none.parquet").as_uri()}]}))


def test_errors_have_types(con: warpmill.Connection) -> None:
    with pytest.raises(warpmill.ParserError, match="not a Substrait plan"):
        con.execute_substrait(b"SELECT 1")
    with pytest.raises(warpmill.ParserError, match="not a Substrait plan"):
        con.execute_substrait("{")
    with pytest.raises(warpmill.NotSupportedError, match="extension table 'example/rows'"):
        con.execute_substrait(read(extensionTable={"detail": {"typeUrl": "example/rows", "value": ""}}))
    plan = read(namedTable={"names": ["t"]})
    plan["relations"][0]["root"]["names"] = []
    plan["relations"][0]["root"]["input"]["read"]["baseSchema"]["names"] = ["nowhere"]
    with pytest.raises(warpmill.CatalogError, match="there is no column 'nowhere' in 't'"):
        con.execute_substrait(plan)
    function = {"extensionUrnReference": 1, "functionAnchor": 7, "name": "nth_root:i64"}
    plan = read(namedTable={"names": ["t"]}) | {
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:com.example:roots"}],
        "extensions": [{"extensionFunction": function}],
    }
    relation = plan["relations"][0]["root"]
    relation["input"] = {
        "filter": {"input": relation["input"], "condition": {"scalarFunction": {"functionReference": 7}}}
    }
    message = r"scalar function 'nth_root:i64' \(anchor 7, extension 'extension:com.example:roots'\) is not supported"
    with pytest.raises(warpmill.NotSupportedError, match=message):
        con.execute_substrait(plan)


def test_what_has_no_plan(con: warpmill.Connection) -> None:
    with pytest.raises(warpmill.ParserError):
        con.to_substrait("SELEKT 1")
    with pytest.raises(warpmill.CatalogError):
        con.to_substrait("SELECT * FROM nowhere")
    with pytest.raises(warpmill.NotSupportedError, match="no query"):
        con.to_substrait("CREATE TABLE u AS SELECT 1 AS x")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, a % 2 = 0, -a, abs(-a), a IS NULL, CASE WHEN a > 1 THEN 'x' END FROM t ORDER BY a",
        "SELECT a, row_number() OVER (ORDER BY a DESC), sum(a) OVER (ORDER BY a) FROM t ORDER BY a",
        "SELECT a % 2 AS p, count(*), avg(a), stddev(a) FROM t GROUP BY ROLLUP (a % 2) ORDER BY p NULLS LAST",
        "SELECT upper('x' || 'y'), substr('abc', 2), date '2024-02-29' + interval '1' year",
        "SELECT least(1, NULL), greatest(1, 2), concat('a', NULL), concat_ws('-', 'a', NULL, 'b')",
        "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v (x, y) ORDER BY x",
        "SELECT a FROM t UNION ALL SELECT a + 10 FROM t ORDER BY 1 LIMIT 4 OFFSET 1",
        "SELECT a FROM t AS x WHERE a * 2 > (SELECT avg(y.a) FROM t AS y WHERE y.a = x.a) ORDER BY a",
        "SELECT extract(year FROM date '2024-05-06'), date_trunc('month', timestamp '2024-05-06 07:08:09')",
        "SELECT DISTINCT a > 1 AS big FROM t WHERE a IN (1, 2, 3) AND a BETWEEN 0 AND 5 ORDER BY big",
    ],
)
def test_our_plans_mean_the_query(con: warpmill.Connection, query: str) -> None:
    assert con.execute_substrait(con.to_substrait(query)).fetchall() == con.sql(query).fetchall()


@pytest.fixture(scope="module")
def tpch() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as con:
        for name in ("nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"):
            con.generate("tpch", name, 0.001)
        yield con


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fixture=st.sampled_from(FIXTURES),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from("xid")), max_size=4),
    length=st.one_of(st.none(), st.integers(0, 4000)),
)
def test_broken_bytes_are_refused_or_run(
    tpch: warpmill.Connection, fixture: Path, changes: list[tuple[int, int, str]], length: int | None
) -> None:
    plan = bytearray(fixture.read_bytes())
    for position, byte, change in changes:
        at = position % len(plan)
        if change == "x":
            plan[at] ^= byte
        elif change == "i":
            plan.insert(at, byte)
        else:
            del plan[at]
    # A panic would be no warpmill.Error.
    try:
        tpch.execute_substrait(bytes(plan[:length]))
    except warpmill.Error as error:
        assert str(error)  # noqa: PT017 - most changes break the plan, some do not


def test_long_conditions_are_read(con: warpmill.Connection) -> None:
    # OR of 500 comparisons in one call, as Calcite makes them; nested, protobuf itself refuses more than 100 levels.
    field: dict[str, Any] = {
        "value": {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
    }
    equal = {"functionReference": 1, "arguments": [field, {"value": {"literal": {"i64": "2"}}}]}
    many = {"functionReference": 2, "arguments": [{"value": {"scalarFunction": equal}}] * 500}
    plan = read(namedTable={"names": ["t"]})
    plan["extensions"] = [
        {"extensionFunction": {"functionAnchor": 1, "name": "equal"}},
        {"extensionFunction": {"functionAnchor": 2, "name": "or"}},
    ]
    root = plan["relations"][0]["root"]
    root["input"] = {"filter": {"input": root["input"], "condition": {"scalarFunction": many}}}
    assert con.execute_substrait(plan).fetchall() == [(2,)]
    deep: dict[str, Any] = field["value"]
    for _ in range(200):
        deep = {"scalarFunction": {"functionReference": 2, "arguments": [{"value": deep}]}}
    root["input"]["filter"]["condition"] = deep
    with pytest.raises(warpmill.ParserError, match="recursion limit"):
        con.execute_substrait(plan)


def test_long_conditions_go_there_and_back(con: warpmill.Connection) -> None:
    some = " OR ".join(f"a = {number}" for number in range(2, 400))
    every = " AND ".join(f"(a <> {number} OR a > {number + 5})" for number in range(300, 600))
    query = f"SELECT a, NOT ({some}) AS b FROM t WHERE ({every}) AND (a <> 1 OR {some}) ORDER BY a"
    assert con.execute_substrait(con.to_substrait(query)).fetchall() == con.sql(query).fetchall()
