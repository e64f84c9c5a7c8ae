"""Functions in Python that queries call: as expressions of SQL where their code allows, else called."""

import math
from typing import Any

import warpmill


def spread(x: Any, y: Any) -> Any:
    """The difference of two means by its standard error: an expression."""
    return (x.mean() - y.mean()) / math.sqrt(x.var() / x.count() + y.var() / y.count())


def compounded(x: Any) -> Any:
    """The product of all values plus one, less one: a loop, which is called group by group."""
    product = 1.0
    for value in x:
        product *= 1 + value
    return product - 1


def main() -> None:
    """Defines both, and a function of rows, and prints how each is run."""
    with warpmill.connect() as con:
        con.sql("CREATE TABLE t AS SELECT i % 2 AS k, sin(i) AS x, cos(i) AS y FROM generate_series(1, 1000) AS r(i)")
        print(con.create_aggregate("spread", spread).expression)
        print(con.create_aggregate("compounded", compounded).reason)
        con.create_function("clipped", lambda v, least=-0.5, most=0.5: min(max(v, least), most))
        con.sql(
            "SELECT k, round(spread(x, y), 3) AS t, round(compounded(x / 100), 3) AS c FROM t GROUP BY k ORDER BY k"
        ).show()
        print(con.sql("SELECT min(clipped(x)), max(clipped(x)) FROM t").fetchall())


if __name__ == "__main__":
    main()
