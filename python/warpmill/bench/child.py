"""The process of one engine: it opens the tables, then answers statements; requests and replies are lines of JSON.

It is run as a script, by any Python that has the engine, and imports nothing else, so that the time from its start is
the engine's own. The first line says what to open, every further line has the name and the text of a query, and
`most_rows`, where a reply must not have more rows than that: it has their number then. Times are of the system's
monotonic clock, which all processes share.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import sys
import time
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: The places of cudf-polars' own PDS-H queries, newest first.
PDSH_MODULES = ("cudf_polars.streaming.benchmarks.pdsh", "cudf_polars.experimental.benchmarks.pdsh")


class Opened(NamedTuple):
    """An engine with its tables open."""

    #: Runs a query, given its name and its text, to the last row.
    run: Callable[[str, str], Any]
    #: The rows of a result.
    rows: Callable[[Any], list[tuple[Any, ...]]]
    version: str
    #: The measurements that the engine gives with a result.
    profile: Callable[[Any], dict[str, Any]] = lambda _: {}
    #: The number of a result's rows, without making Python objects of them, and the names of its columns.
    count: Callable[[Any], int] = len
    columns: Callable[[Any], list[str] | None] = lambda _: None


def main() -> None:
    """Open, then answer until there is no further request; an error is a reply."""
    # Output of libraries must not come between the replies.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def reply(found: dict[str, Any]) -> None:
        replies.write(json.dumps(found) + "\n")
        replies.flush()

    asked = json.loads(sys.stdin.readline())
    times: dict[str, int] = {}
    try:
        if asked.get("memory_limit"):
            import resource

            resource.setrlimit(resource.RLIMIT_DATA, (asked["memory_limit"], asked["memory_limit"]))
        opened = ENGINES[asked["engine"]](asked, times)
    except Exception as error:
        reply({"error": _text(error), "missing": isinstance(error, ImportError)})
        return
    reply({**times, "opened": time.monotonic_ns(), "version": opened.version})
    for line in sys.stdin:
        query = json.loads(line)
        try:
            begun = time.monotonic_ns()
            result = opened.run(query["name"], query["sql"])
            answered = time.monotonic_ns()
            reply({"begun": begun, "answered": answered, **_told(opened, result, query.get("most_rows"))})
        except Exception as error:
            reply({"error": _text(error)})


def _told(opened: Opened, result: Any, most_rows: int | None) -> dict[str, Any]:
    """The reply about a result: its rows, unless there are more than may be told."""
    found: dict[str, Any] = {"profile": opened.profile(result), "rows": None}
    if most_rows is not None:
        found |= {"count": opened.count(result), "columns": opened.columns(result)}
    if most_rows is None or found["count"] <= most_rows:
        found["rows"] = [[encoded(value) for value in row] for row in opened.rows(result)]
    return found


def open_warpmill(asked: dict[str, Any], times: dict[str, int]) -> Opened:
    """Warpmill's own tables, or Parquet files under their names."""
    import warpmill

    times["imported"] = time.monotonic_ns()
    con = warpmill.connect(asked["database"], threads=asked["threads"], **asked["settings"])
    if asked["database"] is None:
        for name, path in asked["tables"].items():
            con.register_file(name, path)
    return Opened(
        lambda _, sql: con.sql(sql),
        lambda result: list(result.fetchall()),
        warpmill.__version__,
        lambda result: dict(result.profile),
        lambda result: int(result.shape[0]),
        lambda result: list(result.columns),
    )


def open_duckdb(asked: dict[str, Any], times: dict[str, int]) -> Opened:
    """A database file, or views over Parquet files; `arrow`: results are tables of Arrow, as other engines' are."""
    import duckdb

    times["imported"] = time.monotonic_ns()
    config = {"threads": asked["threads"]}
    if asked["database"] is None:
        con = duckdb.connect(config=config)
        duckdb_views(con, asked["tables"])
    else:
        con = duckdb.connect(asked["database"], read_only=True, config=config)
    if asked.get("arrow"):
        import pyarrow  # noqa: F401 - loaded here, so that no timed run loads it

        return Opened(
            lambda _, sql: con.sql(sql).to_arrow_table(),
            arrow_rows,
            duckdb.__version__,
            count=lambda table: int(table.num_rows),
            columns=lambda table: list(table.column_names),
        )
    # Python rows: Arrow tables would import PyArrow, which takes longer than many queries.
    return Opened(lambda _, sql: con.sql(sql).fetchall(), list, duckdb.__version__)


def open_datafusion(asked: dict[str, Any], times: dict[str, int]) -> Opened:
    """Parquet files; `in_memory`: the batches that are in them."""
    import datafusion

    times["imported"] = time.monotonic_ns()
    context = datafusion_context(asked["threads"])
    for name, path in asked["tables"].items():
        if asked.get("in_memory"):
            context.register_record_batches(name, batches_of(path, asked["threads"]))
        else:
            context.register_parquet(name, path)
    return Opened(
        lambda _, sql: context.sql(sql).collect(),
        batch_rows,
        datafusion.__version__,
        count=lambda batches: sum(batch.num_rows for batch in batches),
        columns=lambda batches: list(batches[0].schema.names) if batches else None,
    )


def open_polars(asked: dict[str, Any], times: dict[str, int]) -> Opened:
    """Parquet files, scanned lazily; `in_memory`: frames of them."""
    import polars

    times["imported"] = time.monotonic_ns()
    read = polars.read_parquet if asked.get("in_memory") else polars.scan_parquet
    context = polars.SQLContext({name: read(path) for name, path in asked["tables"].items()})
    return Opened(
        lambda _, sql: context.execute(sql, eager=True),
        lambda result: list(result.rows()),
        polars.__version__,
        count=lambda result: int(result.height),
        columns=lambda result: list(result.columns),
    )


def open_pandas(asked: dict[str, Any], times: dict[str, int]) -> Opened:
    """Queries that a module has in pandas, over Parquet files, which every run reads; `in_memory`: over frames of them.

    The module has functions by name in `QUERIES`; each gets what reads columns of a table. `kept` makes the frames that
    stay in memory. PyArrow reads files with as many threads as are asked for, pandas itself has one.
    """
    import pandas
    import pyarrow

    pyarrow.set_cpu_count(asked["threads"])
    module = importlib.import_module(asked["queries"])
    times["imported"] = time.monotonic_ns()

    def file(table: str, columns: list[str] | None) -> Any:
        return pandas.read_parquet(asked["tables"][table], columns=columns, dtype_backend="numpy_nullable")

    frames = {name: module.kept(file(name, None)) for name in asked["tables"]} if asked.get("in_memory") else {}

    def read(table: str, columns: list[str]) -> Any:
        return frames[table][columns] if frames else file(table, columns)

    def run(name: str, _: str) -> Any:
        if name not in module.QUERIES:
            raise LookupError(f"{asked['queries']} has no query {name!r}")
        return module.QUERIES[name](read)

    return Opened(
        run,
        lambda frame: arrow_rows(pyarrow.Table.from_pandas(frame, preserve_index=False)),
        pandas.__version__,
        columns=lambda frame: list(frame.columns),
    )


def open_cudf_polars(asked: dict[str, Any], times: dict[str, int]) -> Opened:
    """Polars on a GPU, with the package's own PDS-H queries over a folder of Parquet files.

    A query that the GPU does not run is an error: nothing falls back to the CPU.
    """
    cudf_polars = importlib.import_module("cudf_polars")
    import polars

    queries = _pdsh()
    times["imported"] = time.monotonic_ns()
    options = {"executor": asked["executor"]} if asked.get("executor") else {}
    engine = polars.GPUEngine(raise_on_fail=True, **options)
    config = SimpleNamespace(dataset_path=asked["folder"], suffix=".parquet", scale_factor=asked["sf"])

    def run(name: str, _: str) -> Any:
        asked_for = getattr(queries, f"q{name}")(config)
        # Newer versions return the frame together with its sort keys, older ones the frame.
        frame = getattr(asked_for, "frame", asked_for)
        return frame.collect(engine=engine)

    version = f"{cudf_polars.__version__} (polars {polars.__version__})"
    return Opened(
        run,
        lambda result: list(result.rows()),
        version,
        count=lambda result: int(result.height),
        columns=lambda result: list(result.columns),
    )


def _pdsh() -> Any:
    for name in PDSH_MODULES:
        try:
            return importlib.import_module(name).PDSHQueries
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
    raise ImportError(f"cudf_polars has no PDS-H queries: neither {' nor '.join(PDSH_MODULES)}")


ENGINES: dict[str, Callable[[dict[str, Any], dict[str, int]], Opened]] = {
    "warpmill": open_warpmill,
    "duckdb": open_duckdb,
    "datafusion": open_datafusion,
    "polars": open_polars,
    "pandas": open_pandas,
    "cudf-polars": open_cudf_polars,
}


def duckdb_views(con: Any, tables: dict[str, str]) -> None:
    """Give Parquet files table names."""
    for name, path in tables.items():
        quoted = path.replace("'", "''")
        con.execute(f"CREATE VIEW \"{name}\" AS SELECT * FROM read_parquet('{quoted}')")


def datafusion_context(threads: int) -> Any:
    """A session of DataFusion."""
    import datafusion

    return datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))


def batches_of(path: str, threads: int) -> list[list[Any]]:
    """A Parquet file as record batches, one partition per thread, as DataFusion's own in-memory benchmark has them."""
    import pyarrow.parquet

    batches = pyarrow.parquet.read_table(path).to_batches(max_chunksize=8192)
    share = max(-(-len(batches) // threads), 1)
    return [batches[start : start + share] for start in range(0, len(batches), share)]


def arrow_rows(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a `pyarrow.Table`."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def batch_rows(batches: Any) -> list[tuple[Any, ...]]:
    """The rows of a list of `pyarrow.RecordBatch`."""
    import pyarrow

    return arrow_rows(pyarrow.Table.from_batches(batches)) if batches else []


def encoded(value: Any) -> Any:
    """A value of a row in JSON: decimals, dates and times by their type's name and their text."""
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    return value


def decoded(value: Any) -> Any:
    """The value that `encoded` made this of."""
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    if kind == "decimal":
        return Decimal(text)
    return datetime.date.fromisoformat(text) if kind == "date" else datetime.datetime.fromisoformat(text)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]


if __name__ == "__main__":
    main()
