"""Queries: joins, groups, windows, set operations."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Queries"

CASES = (
    Case("NULLs come last, in either direction", "SELECT x FROM (VALUES (1), (NULL), (2)) t(x) ORDER BY x DESC"),
    Case(
        "`GROUP BY ALL`",
        "SELECT g, sum(x) AS s FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) t(g, x) GROUP BY ALL ORDER BY g",
    ),
    Case(
        "`EXCEPT ALL` keeps multiplicities",
        "SELECT x FROM (VALUES (1), (1), (2)) t(x) EXCEPT ALL SELECT 1",
    ),
)
