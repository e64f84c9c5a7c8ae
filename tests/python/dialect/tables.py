"""Tables, views and schemas: how they are made, changed and found again."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Tables"

CASES = (
    Case(
        "`CREATE TABLE AS` takes rows and names of a query",
        "SELECT * FROM t ORDER BY x",
        setup=("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v(x, s)",),
    ),
    Case(
        "tables are there when the database is opened again",
        "SELECT count(*) AS n FROM t",
        setup=("CREATE TABLE t AS SELECT * FROM (VALUES (1), (2)) v(x)",),
        reopened=True,
    ),
)
