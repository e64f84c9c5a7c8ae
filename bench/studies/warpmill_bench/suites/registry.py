"""The suites: names, tables, queries, sizes, and how their answers are compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from warpmill.bench import literals
from warpmill.bench.queries import Query, texts
from warpmill_bench import golap, qj
from warpmill_bench.suites import job, tpcds

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Selection:
    """A filter of a query over one table, which a host could apply before rows are copied to a device."""

    query: str
    table: str
    where: str
    #: The columns that the rest of the query reads.
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The rows that pass."""
        return f"SELECT {', '.join(self.columns)} FROM {self.table} WHERE {self.where}"


@dataclass(frozen=True)
class Suite:
    """A benchmark: one data set, and queries over it."""

    name: str
    title: str
    #: The unit of sizes: "scale factor", "rows" or "movies".
    unit: str
    #: Sizes that take seconds, and sizes for a session on a GPU.
    quick: tuple[float, ...]
    sizes: tuple[float, ...]
    #: The suite that provides its tables.
    data: str
    tables: tuple[str, ...]
    #: Queries of a quick run.
    few: tuple[str, ...]
    selections: tuple[Selection, ...] = ()
    #: Queries whose LIMIT keeps any rows, or whose sort keys are not in the result: the number of rows is compared.
    any_rows: frozenset[str] = frozenset()
    #: Queries for which NaN and NULL are equal: the correlation of a group without variance.
    nan_is_null: frozenset[str] = frozenset()

    def ranked(self, sizes: tuple[float, ...] | None) -> tuple[float, ...]:
        """Its own sizes, or the requested ones, smallest first."""
        return tuple(sorted(sizes or self.sizes))


_LINES = "lineorder"

SUITES = (
    Suite(
        "tpch",
        "TPC-H",
        "scale factor",
        quick=(0.01, 0.02, 0.04),
        sizes=(1, 3, 10, 30),
        data="tpch",
        tables=("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"),
        few=("1", "3", "6", "14"),
        selections=(
            Selection(
                "6",
                "lineitem",
                "l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01'"
                " AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
                ("l_extendedprice", "l_discount"),
            ),
            Selection(
                "12",
                "lineitem",
                "l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate"
                " AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date '1995-01-01'",
                ("l_orderkey", "l_shipmode"),
            ),
            Selection("13", "orders", "o_comment NOT LIKE '%special%requests%'", ("o_orderkey", "o_custkey")),
            Selection(
                "14",
                "lineitem",
                "l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01'",
                ("l_partkey", "l_extendedprice", "l_discount"),
            ),
            Selection(
                "15",
                "lineitem",
                "l_shipdate >= date '1996-01-01' AND l_shipdate < date '1996-04-01'",
                ("l_suppkey", "l_extendedprice", "l_discount"),
            ),
            Selection(
                "20",
                "lineitem",
                "l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01'",
                ("l_partkey", "l_suppkey", "l_quantity"),
            ),
            Selection(
                "22",
                "customer",
                "substring(c_phone FROM 1 FOR 2) IN ('13', '31', '23', '29', '30', '18', '17')",
                ("c_custkey", "c_phone", "c_acctbal"),
            ),
        ),
    ),
    Suite(
        "h2o",
        "H2O.ai group-by (G1, 5 % NULLs)",
        "rows",
        quick=(20_000, 40_000, 80_000),
        sizes=(1_000_000, 3_000_000, 10_000_000),
        data="h2o",
        tables=("x",),
        few=("1", "4", "5"),
        nan_is_null=frozenset({"9"}),
    ),
    Suite(
        "clickbench",
        "ClickBench (43 queries, generated hits)",
        "rows",
        quick=(20_000, 40_000, 80_000),
        sizes=(1_000_000, 3_000_000, 10_000_000),
        data="clickbench",
        tables=("hits",),
        few=("2", "7", "12", "20"),
        selections=(
            Selection("20", "hits", "\"URL\" LIKE '%google%'", ('"URL"',)),
            Selection("21", "hits", "\"URL\" LIKE '%google%' AND \"SearchPhrase\" <> ''", ('"SearchPhrase"', '"URL"')),
        ),
        any_rows=frozenset({"17", "24"}),
    ),
    Suite(
        "ssb",
        "Star Schema Benchmark",
        "scale factor",
        quick=(0.01, 0.02, 0.04),
        sizes=(1, 3, 10, 30),
        data="ssb",
        tables=("date", "supplier", "customer", "part", _LINES),
        few=("1.1", "2.1"),
        selections=(
            Selection(
                "1.1",
                _LINES,
                "lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25",
                ("lo_orderdate", "lo_extendedprice", "lo_discount"),
            ),
        ),
    ),
    Suite(
        "taxi",
        "Taxi trips",
        "scale factor",
        quick=(0.002, 0.004, 0.008),
        sizes=(1, 3, 10),
        data="taxi",
        tables=("trips",),
        few=("1.1", "2.2"),
        selections=(
            Selection(
                "1.2",
                "trips",
                "trip_distance > 18",
                ("vendor_id", "pickup_datetime", "trip_distance", "total_amount"),
            ),
        ),
    ),
    Suite(
        "qj",
        "Q0J to Q4J at selectivity 0.1",
        "scale factor",
        quick=(0.01, 0.02, 0.04),
        sizes=(1, 3, 10, 30),
        data="ssb",
        tables=("date", "supplier", "customer", "part", _LINES),
        few=("0", "1"),
    ),
    Suite(
        "job26",
        "26 of the 113 queries of the Join Order Benchmark, on generated IMDB-like tables",
        "movies",
        quick=(1500, 3000, 6000),
        sizes=(30_000, 100_000, 300_000),
        data="job",
        tables=job.TABLES,
        few=("1a", "2a"),
    ),
    Suite(
        "job",
        "Join Order Benchmark (113 queries of a folder), on generated IMDB-like tables",
        "movies",
        quick=(1500, 3000, 6000),
        sizes=(30_000, 100_000, 300_000),
        data="job",
        tables=job.TABLES,
        few=("1a", "2a", "13d", "29c"),
    ),
    Suite(
        "tpcds",
        "TPC-DS",
        "scale factor",
        quick=(0.01, 0.02, 0.04),
        sizes=(1, 3, 10),
        data="tpcds",
        tables=tpcds.TABLES,
        few=("7", "42", "96"),
    ),
)

#: The selectivity of Q*J here; the study `qj` varies it.
QJ_SELECTIVITY = 0.1

#: The query texts of suites that the engine does not bring itself, and their folders by suite.
QUERIES = Path(__file__).parent / "queries"
_FOLDERS = {"h2o": "h2o", "clickbench": "clickbench", "job26": "job"}


def suite(name: str) -> Suite:
    """A suite by name; a `ValueError` where there is none."""
    for one in SUITES:
        if one.name == name:
            return one
    raise ValueError(f"there is no suite {name!r}: there are {', '.join(one.name for one in SUITES)}")


def queries(name: str, size: float, wanted: tuple[str, ...] | None = None, new_statements: int = 0) -> list[Query]:
    """The queries of a suite at a size, each with up to so many texts with other literals.

    A query without literals has fewer of these, or none. A `ValueError` names a wanted query that the suite has not.
    Raises `TpcdsUnavailableError` and `JobUnavailableError` where the texts of TPC-DS and of the Join Order Benchmark
    are not there.
    """
    known = _texts(name, size)
    if unknown := [query for query in wanted or () if query not in known]:
        raise ValueError(f"{name} has no query {unknown[0]!r}: it has {', '.join(known)}")
    return [
        Query(query, sql, tuple(islice(_others(name, query, sql), new_statements)))
        for query, sql in known.items()
        if wanted is None or query in wanted
    ]


def _texts(name: str, size: float) -> dict[str, str]:
    if name in ("tpch", "ssb"):
        return texts(name, size)
    if name == "taxi":
        return {query: sql.strip() for query, sql in golap.TAXI.items()}
    if name == "qj":
        return {str(joins): qj.query(joins, QJ_SELECTIVITY) for joins in range(len(qj.DIMENSIONS) + 1)}
    if name == "tpcds":
        return tpcds.texts()
    if name == "job":
        return job.texts()
    suite(name)
    paths = sorted((QUERIES / _FOLDERS[name]).glob("q*.sql"))
    return {path.stem[2:] if path.stem[1] == "0" else path.stem[1:]: _text(path) for path in paths}


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def _others(name: str, query: str, sql: str) -> Iterator[str]:
    """Texts of a query with other literals, which do about the same work."""
    if name in literals.SUITES:
        yield from literals.others(name, query, sql)
    elif name == "taxi":
        found = re.search(r"> ([\d.]+)", sql)
        for more in range(1, 1000) if found else ():
            yield sql.replace(f"> {found[1]}", f"> {float(found[1]) + more / 100:.2f}") if found else sql
    elif name == "tpcds":
        yield from tpcds.others(sql)
    elif name in ("job", "job26"):
        yield from job.others(sql)
    elif name == "clickbench" and (limit := re.search(r"\bLIMIT (\d+)", sql)):
        # A LIMIT of one row more or fewer: the earlier rows of the sorted result are the same.
        for more in range(1, 1000):
            yield re.sub(r"\bLIMIT \d+", f"LIMIT {int(limit[1]) + more}", sql)


def native(name: str) -> bool:
    """Whether the engine's own generator makes the tables."""
    return name in ("tpch", "ssb", "taxi")
