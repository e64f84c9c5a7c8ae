"""Suites as data: tables, queries, sizes and what comparing answers has to know, for `warpmill bench matrix`.

`SUITES` has them all. TPC-H, SSB and taxi trips come from the engine's generator, TPC-DS from an extension of DuckDB
(`tpcds`), the tables of H2O.ai's group-by benchmark, ClickBench and the Join Order Benchmark from `groupby`, `hits` and
`imdb` here: their real schemas, as far as the queries use them, with values that the queries find. The queries are
files here, but for those of the Join Order Benchmark, of which 26 are: `job` reads all of them from a user's folder.
"""

from __future__ import annotations

from warpmill_bench.suites.job import JobUnavailableError
from warpmill_bench.suites.registry import QUERIES, SUITES, Selection, Suite, queries, suite
from warpmill_bench.suites.tables import prepare
from warpmill_bench.suites.tpcds import TpcdsUnavailableError

__all__ = [
    "QUERIES",
    "SUITES",
    "JobUnavailableError",
    "Selection",
    "Suite",
    "TpcdsUnavailableError",
    "prepare",
    "queries",
    "suite",
]
