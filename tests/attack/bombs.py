"""Statements that grow with a number, a maker for each kind of operator, nesting or list; the doors they go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Maker = Callable[[int], str]
Door = Callable[..., Callable[[str], Any]]

# The tables that the statements read.
SETUP = [
    "DROP TABLE IF EXISTS t",
    "DROP TABLE IF EXISTS one",
    "CREATE TABLE t AS SELECT CAST(x AS BIGINT) AS i, CAST(x AS DOUBLE) AS d, CAST(x AS VARCHAR) AS s "
    "FROM (VALUES (1), (2), (3)) AS v(x)",
    "CREATE TABLE one AS SELECT CAST(1 AS BIGINT) AS i",
]


def _native() -> Callable[[str], Any]:
    import warpmill

    connection = warpmill.connect()
    return lambda sql: connection.execute(sql).fetchall()


def _limited(path: str, limit: str) -> Callable[[str], Any]:
    import warpmill

    connection = warpmill.connect(path, memory_limit=limit or None)
    return lambda sql: connection.execute(sql).fetchall()


def _substrait() -> Callable[[str], Any]:
    import warpmill

    connection = warpmill.connect()

    def run(sql: str) -> Any:
        if sql.startswith(("CREATE", "DROP")):
            return connection.execute(sql)
        return connection.execute_substrait(connection.to_substrait(sql)).fetchall()

    return run


def _duckdb() -> Callable[[str], Any]:
    import warpmill.duckdb

    connection = warpmill.duckdb.connect()
    return lambda sql: connection.execute(sql).fetchall()


def _flight(uri: str) -> Callable[[str], Any]:
    import adbc_driver_flightsql.dbapi

    connection = adbc_driver_flightsql.dbapi.connect(uri, autocommit=True)

    def run(sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else None

    return run


def doors() -> dict[str, Door]:
    """Opens a connection by its kind."""
    return {"native": _native, "limited": _limited, "substrait": _substrait, "duckdb": _duckdb, "flight": _flight}


def _chain(operand: str, operator: str) -> Maker:
    return lambda n: f"SELECT {f' {operator} '.join([operand] * n)} AS x FROM t"


def _where(term: str, operator: str) -> Maker:
    return lambda n: f"SELECT count(*) FROM t WHERE {f' {operator} '.join(term.format(i=i) for i in range(n))}"


def _nested(before: str, inner: str, after: str) -> Maker:
    return lambda n: f"SELECT {before * n}{inner}{after * n} AS x FROM t"


def _comma_tables(n: int, table: str = "t") -> str:
    return "SELECT count(*) FROM " + ", ".join(f"{table} a{i}" for i in range(n))


def _comma_join(n: int) -> str:
    on = " AND ".join(f"a{i}.i = a{i + 1}.i" for i in range(n - 1)) or "true"
    return _comma_tables(n) + f" WHERE {on}"


def _clique(n: int) -> str:
    on = " AND ".join(f"a{i}.i = a{k}.i" for i in range(n) for k in range(i)) or "true"
    return _comma_tables(n) + f" WHERE {on}"


def _star(n: int) -> str:
    on = " AND ".join(f"a0.i = a{i}.i" for i in range(1, n)) or "true"
    return _comma_tables(n) + f" WHERE {on}"


def _joins(n: int) -> str:
    return "SELECT count(*) FROM t a0" + "".join(f" JOIN t a{i} ON a{i - 1}.i = a{i}.i" for i in range(1, n))


def _left_joins(n: int) -> str:
    return "SELECT count(*) FROM t a0" + "".join(f" LEFT JOIN t a{i} ON a0.i = a{i}.i" for i in range(1, n))


def _ctes(n: int) -> str:
    parts = ["c0 AS (SELECT i FROM t)"] + [f"c{k} AS (SELECT i + 1 AS i FROM c{k - 1})" for k in range(1, n)]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM c{n - 1}"


def _doubled_ctes(n: int) -> str:
    parts = ["c0 AS (SELECT i FROM t)"]
    parts += [f"c{k} AS (SELECT a.i FROM c{k - 1} a JOIN c{k - 1} b ON a.i = b.i)" for k in range(1, n)]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM c{n - 1}"


def _doubled_views(n: int) -> str:
    inner = "SELECT i FROM t"
    for _ in range(n):
        inner = f"SELECT i FROM ({inner}) AS s"
    return inner


def _doubled_expressions(n: int) -> str:
    parts = ["c0 AS (SELECT i FROM t)"] + [f"c{k} AS (SELECT i + i AS i FROM c{k - 1})" for k in range(1, n)]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM c{n - 1} WHERE i > 5"


def _unions(n: int, kind: str) -> str:
    return "SELECT count(*) FROM (" + f" {kind} ".join(f"SELECT i + {k} AS i FROM t" for k in range(n)) + ") AS u"


def _case(n: int) -> str:
    return "SELECT CASE " + " ".join(f"WHEN i = {k} THEN {k + 1}" for k in range(n)) + " ELSE 0 END AS x FROM t"


def _columns(n: int) -> str:
    return "SELECT " + ", ".join(f"i + {k} AS c{k}" for k in range(n)) + " FROM t"


def _aggregates(n: int) -> str:
    return "SELECT " + ", ".join(f"sum(i + {k}) AS c{k}" for k in range(n)) + " FROM t"


def _group_keys(n: int) -> str:
    return "SELECT count(*) FROM t GROUP BY " + ", ".join(f"i + {k}" for k in range(n))


def _windows(n: int) -> str:
    return "SELECT " + ", ".join(f"sum(i) OVER (PARTITION BY d ORDER BY i + {k}) AS c{k}" for k in range(n)) + " FROM t"


def _in_subqueries(n: int) -> str:
    return "SELECT count(*) FROM t WHERE " + "i IN (SELECT i FROM t WHERE " * n + "true" + ")" * n


def _scalar_subqueries(n: int) -> str:
    return "SELECT " + " + ".join(f"(SELECT max(i) + {k} FROM t)" for k in range(n)) + " AS x"


def _exists(n: int) -> str:
    return "SELECT count(*) FROM t o WHERE " + " AND ".join(
        f"EXISTS (SELECT 1 FROM t a{k} WHERE a{k}.i = o.i)" for k in range(n)
    )


# The name of each kind and its maker.
BOMBS: dict[str, Maker] = {
    "plus": _chain("i", "+"),
    "minus": _chain("i", "-"),
    "times": _chain("d", "*"),
    "divide": _chain("d", "/"),
    "modulo": _chain("i", "%"),
    "concat": _chain("s", "||"),
    "bit and": _chain("i", "&"),
    "bit or": _chain("i", "|"),
    "and": _where("i <> {i}", "AND"),
    "or": _where("i = {i}", "OR"),
    "or of two columns": _where("(i = {i} AND s = '{i}')", "OR"),
    "and of ors": _where("(i = {i} OR d = {i})", "AND"),
    "like": _where("s LIKE '%{i}%'", "OR"),
    "between": _where("i BETWEEN {i} AND {i} + 1", "OR"),
    "is true": lambda n: "SELECT count(*) FROM t WHERE (i > 0)" + " IS TRUE" * n,
    "is null": lambda n: "SELECT count(*) FROM t WHERE i" + " IS NULL" * n,
    "casts": lambda n: "SELECT i" + "::BIGINT" * n + " AS x FROM t",
    "not": lambda n: "SELECT count(*) FROM t WHERE " + "NOT " * n + "(i > 0)",
    "negation": lambda n: "SELECT " + "- " * n + "i AS x FROM t",
    "parentheses": _nested("(", "i", ")"),
    "function": _nested("abs(", "i", ")"),
    "two-sided function": _nested("coalesce(i, ", "i", ")"),
    "nested case": _nested("CASE WHEN i = 1 THEN 0 ELSE ", "i", " END"),
    "case": _case,
    "lists": _nested("[", "i", "]"),
    "in list": lambda n: f"SELECT count(*) FROM t WHERE i IN ({', '.join(map(str, range(n)))})",
    "values": lambda n: f"SELECT count(*) FROM (VALUES {', '.join(f'({k})' for k in range(n))}) AS v(x)",
    "columns": _columns,
    "aggregates": _aggregates,
    "group keys": _group_keys,
    "windows": _windows,
    "comma tables": lambda n: _comma_tables(n, "one"),
    "comma join": _comma_join,
    "star": _star,
    "clique": lambda n: _clique(max(n // 50, 2)),
    "joins": _joins,
    "left joins": _left_joins,
    "ctes": _ctes,
    "doubled ctes": _doubled_ctes,
    "doubled expressions": lambda n: _doubled_expressions(min(n, 60)),
    "subqueries in from": _doubled_views,
    "in subqueries": _in_subqueries,
    "scalar subqueries": _scalar_subqueries,
    "exists": _exists,
    "union all": lambda n: _unions(n, "UNION ALL"),
    "union": lambda n: _unions(n, "UNION"),
    "except": lambda n: _unions(n, "EXCEPT"),
    "from parentheses": lambda n: f"SELECT count(*) FROM {'(' * n}t{')' * n}",
    "explain explain": lambda n: "EXPLAIN " * n + "SELECT i FROM t",
    "explain kernels": lambda n: "EXPLAIN KERNELS " + _chain("i", "+")(n),
    "explain": lambda n: "EXPLAIN " + _where("i = {i}", "OR")(n),
    "explain windows": lambda n: "EXPLAIN " + _windows(n),
    "explain doubled ctes": lambda n: "EXPLAIN " + _doubled_ctes(n),
    # Refused before there is a file.
    "copy doubled ctes": lambda n: f"COPY ({_doubled_ctes(max(n, 26))}) TO 'never.csv'",
    "copy windows": lambda n: f"COPY ({_windows(n + 501)}) TO 'never.csv'",
}
