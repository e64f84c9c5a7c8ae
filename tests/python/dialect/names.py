"""How names of tables and columns are found."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Names"

CASES = (
    Case(
        "names match in any case of letters",
        "SELECT amount, AMOUNT AS b FROM sales ORDER BY amount",
        setup=('CREATE TABLE sales AS SELECT 1 AS "Amount" UNION ALL SELECT 2',),
    ),
    Case("aliases are known in ORDER BY", "SELECT x + 1 AS y FROM (VALUES (2), (1)) t(x) ORDER BY y"),
    Case("columns may have one name", "SELECT 1, 1"),
)
