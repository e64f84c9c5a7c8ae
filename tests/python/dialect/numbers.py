"""Literals, operators and functions of numbers."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Numbers"

CASES = (
    Case("`/` of integers is a DOUBLE", "SELECT 7 / 2 AS q, 1 / 3 AS r"),
    Case("`//` of integers cuts off", "SELECT 7 // 2 AS q, -7 // 2 AS r"),
    Case("numbers with an exponent are DOUBLE", "SELECT 1e3 AS a, 15 * 1e-1 AS b, 12 / 1e6 AS c"),
    Case("casts to integers round half away from zero", "SELECT CAST(2.5 AS INTEGER) AS a, CAST(-2.5 AS INTEGER) AS b"),
    Case("integer overflow is an error", "SELECT x + 1 AS y FROM (SELECT 9223372036854775807 AS x) t"),
)
