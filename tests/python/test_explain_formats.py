"""EXPLAIN (FORMAT ...): the plan that EXPLAIN prints, as JSON, Mermaid and HTML, with constants in SQL terms."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A join of two tables, whose filters are on dates and decimals.
QUERY = """SELECT o_priority, count(*) AS n, sum(l_price) AS total
FROM lineitem JOIN orders ON l_orderkey = o_orderkey
WHERE o_orderdate < DATE '1995-01-04' AND l_quantity > 10.00 GROUP BY o_priority ORDER BY o_priority"""


@pytest.fixture(scope="module")
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect(device="cpu") as con:
        con.sql(
            """CREATE TABLE orders AS SELECT i AS o_orderkey, DATE '1994-12-01' + CAST(i % 90 AS INT) AS o_orderdate,
            'p' || (i % 3) AS o_priority FROM range(1000) r(i)"""
        )
        con.sql(
            """CREATE TABLE lineitem AS SELECT i % 1000 AS l_orderkey, CAST(i % 50 AS DECIMAL(15, 2)) AS l_quantity,
            CAST(i AS DECIMAL(15, 2)) AS l_price FROM range(5000) r(i)"""
        )
        yield con


def explained(con: warpmill.Connection, query: str = QUERY, analyze: bool = False) -> Any:
    return json.loads(con.explain(query, analyze, format="json"))


def steps(found: Any) -> list[dict[str, Any]]:
    return [
        step for program in found["programs"] for pipeline in program["pipelines"] for step in pipeline["operators"]
    ]


def test_constants_are_in_sql_terms(con: warpmill.Connection) -> None:
    text = con.explain(QUERY)
    assert "o_orderdate < DATE '1995-01-04'" in text
    assert "l_quantity > 10.00" in text
    con.sql(
        "CREATE OR REPLACE TABLE moments AS SELECT TIMESTAMP '2024-01-01' + INTERVAL 1 DAY * i AS at FROM range(9) r(i)"
    )
    assert "at >= TIMESTAMP '2024-01-03 12:00:00'" in con.explain(
        "FROM moments WHERE at >= TIMESTAMP '2024-01-03 12:00:00'"
    )
    listed = con.explain("SELECT count(*) FROM lineitem WHERE l_quantity IN (1.5, 20)")
    assert "(l_quantity = 1.50) OR (l_quantity = 20.00)" in listed
    assert "(1.00 - l_quantity)" in con.explain("SELECT l_price * (1 - l_quantity) AS x FROM lineitem")


def test_json_has_the_plan_in_parts(con: warpmill.Connection) -> None:
    found = explained(con)
    [program] = found["programs"]
    assert program["site"] == "cpu"
    assert program["placement"]["decisions"] == [{"site": "cpu", "chosen": True, "reason": "the setting asks for it"}]
    scans = {step["table"]: step for step in steps(found) if step["operator"] == "scan"}
    assert scans["orders"]["conditions"] == ["o_orderdate < DATE '1995-01-04'"]
    assert scans["lineitem"]["conditions"] == ["l_quantity > 10.00"]
    [probe] = [step for step in steps(found) if step["operator"] == "probe"]
    [build] = [pipeline for pipeline in program["pipelines"] if pipeline["operators"][-1]["operator"] == "build"]
    assert (probe["join"], probe["reads"]) == ("inner", [build["sink"]])
    assert probe["keys"] in (["l_orderkey"], ["o_orderkey"])
    assert [pipeline["result"] for pipeline in program["pipelines"]].count(True) == 1
    assert found["plan"]["program"] == 0
    assert found["run_by_datafusion"] == []
    assert "profile" not in found
    assert not any("measured" in step for step in steps(found))


def test_the_text_form_is_the_same_plan(con: warpmill.Connection) -> None:
    text = con.explain(QUERY)
    lines = re.search(r"== program 0 ==\n(.*?)\n\n==", text, re.DOTALL)
    assert lines is not None
    shown = [line.strip() for line in lines[1].splitlines() if line.startswith("  ")]
    assert [step["text"] for step in steps(explained(con))] == shown
    assert con.sql(f"EXPLAIN (FORMAT text) {QUERY}").fetchall() == con.sql(f"EXPLAIN {QUERY}").fetchall()


def test_analyze_adds_rows_and_times(con: warpmill.Connection) -> None:
    found = explained(con, analyze=True)
    expected = con.sql(QUERY).fetchall()
    [program] = found["programs"]
    assert program["run"] == 0
    assert found["profile"]["programs"][0]["device"] == "cpu"
    measured = {step.get("table"): step["measured"] for step in steps(found) if step["operator"] == "scan"}
    [(lines,)] = con.sql("SELECT count(*) FROM lineitem WHERE l_quantity > 10").fetchall()
    assert 0 < measured["lineitem"]["rows"] <= lines
    [(orders,)] = con.sql("SELECT count(*) FROM orders WHERE o_orderdate < DATE '1995-01-04'").fetchall()
    assert measured["orders"]["rows"] == orders
    [aggregate] = [step for step in steps(found) if step["operator"] == "aggregate"]
    assert aggregate["measured"]["rows"] == sum(row[1] for row in expected)
    assert all("measured" in step for step in steps(found))
    assert all(pipeline["measured"]["wall_nanos"] > 0 for pipeline in program["pipelines"])


def test_what_datafusion_runs_has_its_reason(con: warpmill.Connection) -> None:
    found = explained(con, "SELECT a, sum(n) FROM (SELECT [1, 2] AS l, 3 AS n) u, unnest(l) t(a) GROUP BY ROLLUP (a)")
    assert found["run_by_datafusion"]
    assert all(refused["reason"] and refused["operator"] for refused in found["run_by_datafusion"])


def test_statements_take_options_and_parameters(con: warpmill.Connection) -> None:
    [(kind, text)] = con.sql(
        "EXPLAIN (FORMAT json, ANALYZE) SELECT count(*) FROM orders WHERE o_orderkey < ?", [10]
    ).fetchall()
    assert kind == "json"
    [scan] = [step for step in steps(json.loads(text)) if step["operator"] == "scan"]
    assert scan["conditions"] == ["o_orderkey < 10"]
    assert scan["measured"]["rows"] == 10
    assert json.loads(con.explain("SELECT count(*) FROM orders WHERE o_orderkey < ?", params=[10], format="json"))[
        "programs"
    ]
    for statement, part in [
        ("EXPLAIN (FORMAT xml) SELECT 1", "'xml'"),
        ("EXPLAIN (FORMATS json) SELECT 1", "FORMATS"),
        ("EXPLAIN (ANALYZE perhaps) SELECT 1", "perhaps"),
    ]:
        with pytest.raises(warpmill.Error, match=part):
            con.sql(statement)
    with pytest.raises(warpmill.CatalogError, match="did you mean 'orders'"):
        con.sql("EXPLAIN (FORMAT json) SELECT * FROM order")
    with pytest.raises(ValueError, match="xml"):
        con.explain("SELECT 1", format="xml")
    # A query in brackets is no list of options.
    assert con.sql("EXPLAIN (SELECT 1)").fetchall()
    assert con.sql("EXPLAIN ANALYZE (SELECT 1)").fetchall()


def test_mermaid_names_every_operator_once(con: warpmill.Connection) -> None:
    chart = con.explain(QUERY, format="mermaid")
    lines = chart.splitlines()
    assert lines[0] == "flowchart BT"
    nodes = re.findall(r'^ +(p\d+_\d+_\d+)\["(.*)"\]$', chart, re.MULTILINE)
    assert len(nodes) == len({name for name, _ in nodes}) == len(steps(explained(con)))
    assert chart.count("subgraph") == chart.count("\n    end") + chart.count("\n  end")
    # Arrows join nodes that are there.
    names = {name for name, _ in nodes}
    for ends in re.findall(r"(\w+) -\.?->? ?(?:>)? ?(\w+)$", chart, re.MULTILINE):
        assert set(ends) <= names
    assert '"' not in "".join(label for _, label in nodes)
    assert " rows, " in con.explain(QUERY, True, format="mermaid")


def test_html_needs_nothing_else(con: warpmill.Connection) -> None:
    page = con.explain(QUERY, True, format="html")
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"(src|href)=", page)
    assert "l_quantity &gt; 10.00" in page
    assert " rows, " in page
    assert page.count("<li") == page.count("</li>")
    assert page.count("<ul") == page.count("</ul>")


def test_the_formats_work_on_what_has_no_program(con: warpmill.Connection) -> None:
    for query in ("SELECT 1", "SELECT * FROM range(3)", "SELECT [1, 2] AS l"):
        for form in ("text", "json", "mermaid", "html"):
            assert con.explain(query, format=form)
            assert con.explain(query, True, format=form)
