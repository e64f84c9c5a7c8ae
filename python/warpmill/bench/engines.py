"""The engines of a benchmark: each holds the tables in its own format, or reads Parquet, and runs SQL queries."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import warpmill
from warpmill import _warpmill
from warpmill.bench.child import arrow_rows, batch_rows, batches_of, datafusion_context, duckdb_views
from warpmill.bench.data import copy_tables
from warpmill.bench.states import Source
from warpmill.bench.verify import EXACT, Tolerance

if TYPE_CHECKING:
    from pathlib import Path

    from warpmill.bench.data import Data
    from warpmill.bench.queries import Query

#: Names that ``--against`` takes.
PEERS = ("duckdb", "datafusion", "polars", "cudf-polars")

#: Tolerances of engines whose numbers may differ more from DuckDB's than `verify` allows. cudf-polars rounds products
#: of decimals to the scale of their factors; its own validation against DuckDB takes such numbers as equal.
TOLERANCES = {"cudf-polars": Tolerance(relative=1e-5, absolute=1e-2, decimals=True)}

#: Engines whose own tables are in memory only: a new process has none.
IN_MEMORY = ("datafusion", "polars", "pandas")

#: Seconds that the trial of a query may take before an engine is said not to run it.
TRIAL_SECONDS = 120


class UnsupportedError(Exception):
    """The engine does not run this query; the message says why."""


class EngineUnavailableError(ImportError):
    """The engine is not installed where it was looked for, or does not open the tables; the message says where."""


@dataclass(frozen=True)
class Setup:
    """The arguments that every engine of a run gets."""

    data: Data
    source: Source
    threads: int
    #: Settings of Warpmill.
    settings: dict[str, str] = field(default_factory=dict)
    #: The Python that has cudf-polars; None: this one.
    cudf_python: str | None = None
    #: The executor of cudf-polars; None: its default.
    cudf_executor: str | None = None

    @property
    def files(self) -> dict[str, str]:
        """The Parquet files by table."""
        return {name: str(path.absolute()) for name, path in self.data.parquet.items()}


@dataclass(frozen=True)
class Measured:
    """The measurements of an engine's last run."""

    #: The time of the run as the engine's own process measured it; None where it runs in this one.
    elapsed_ms: float | None = None
    fallbacks: int = 0
    #: Whether the plan was kept from an earlier run; None where an engine does not say.
    plan_cached: bool | None = None
    #: Whether the optimized plan was that of a statement with other constants; None where an engine does not say.
    plan_from_template: bool | None = None
    #: Milliseconds of making or loading kernels; None where no program ran on a device.
    prepare_ms: float | None = None
    bytes_read: int | None = None
    #: Milliseconds in kernels; None where no program ran on a device.
    kernel_ms: float | None = None
    #: The devices that ran programs, and the device's name.
    devices: frozenset[str] = frozenset()
    device_name: str | None = None
    #: The reason why programs did not run on the device, one text per program.
    not_on_device: tuple[str, ...] = ()
    #: Copies between host and device: what, bytes, count and nanoseconds (0 where they were not timed).
    transfers: tuple[dict[str, Any], ...] = ()
    #: All that is known, as `Relation.profile` gives it.
    profile: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """The interface of an engine in a benchmark."""

    name: str
    #: Whether its queries are not made from SQL: a new statement has the same literals then.
    fixed_text: bool
    #: The largest difference of its numbers from the reference's.
    tolerance: Tolerance

    def admit(self, sql: str) -> None:
        """Raise `UnsupportedError` where the engine cannot run a query."""

    def ready(self) -> None:
        """Put the data where a run must find it (not timed)."""

    def run(self, sql: str) -> Any:
        """Run a query to its last row."""

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """The rows of a result, as Python values (not timed)."""

    def measured(self, result: Any) -> Measured:
        """The facts about how the result came about."""

    def profiled(self, sql: str) -> Any | None:
        """Run a query with its kernels timed, which makes it slower; None where there are no kernels to time."""

    def close(self) -> None:
        """Stop processes that were started, close connections."""


#: The reasons why the CPU runs a program now and a device the next time.
NOT_READY = ("it is being opened", "its kernels are not compiled yet")


class Warpmill:
    """Warpmill over its own tables, memory-mapped and encoded, or over Parquet files.

    A fallback is an error until a query needs one.
    """

    name = "warpmill"
    fixed_text = False
    tolerance = EXACT

    def __init__(self, setup: Setup) -> None:
        database = setup.data.database if setup.source is Source.TABLES else None
        self._con = warpmill.connect(database, threads=setup.threads, **setup.settings)
        if database is None:
            for name, path in setup.files.items():
                self._con.register_file(name, path)
        self._profile = setup.settings.get("profile", "on")
        #: The reason why a query was run with fallbacks allowed.
        self.reasons: dict[str, str] = {}

    def admit(self, sql: str) -> None:
        """Try without fallbacks; if one is needed, record the reason and allow it for this query."""
        self._con.set("fallback", "error")
        try:
            self._settle(sql)
        except warpmill.FallbackError as error:
            self.reasons[sql] = str(error)
            self._con.set("fallback", "allow")
            try:
                self._con.sql(sql)
            except warpmill.Error as failure:
                raise UnsupportedError(str(failure)) from failure
        except warpmill.Error as error:
            raise UnsupportedError(str(error)) from error

    def _settle(self, sql: str) -> None:
        """Run a query until a device is ready for it that the CPU does not wait for."""
        for _ in range(3):
            result = self._con.sql(sql)
            programs = result.profile["programs"] if result.profile else []
            if not any(program["not_on_device"] in NOT_READY for program in programs):
                return
            _warpmill.wait_for_background(60)

    def ready(self) -> None:
        """Nothing to do: a setting says where data is before a query."""

    def close(self) -> None:
        """Close the session."""
        self._con.close()

    def run(self, sql: str) -> Any:
        """Run a query to its last Arrow batch."""
        return self._con.sql(sql)

    def profiled(self, sql: str) -> Any | None:
        """Run it on the device once more, its kernels timed."""
        if self._profile not in ("on", "true", "1"):
            return None
        self._con.set("profile", "kernels")
        try:
            result = self._con.sql(sql)
        finally:
            self._con.set("profile", self._profile)
        return result if self.measured(result).kernel_ms is not None else None

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        rows: list[tuple[Any, ...]] = result.fetchall()
        return rows

    def measured(self, result: Any) -> Measured:
        """Fallbacks, bytes, kernel times and devices, from the query's profile."""
        return of_profile(result.profile)


def of_profile(profile: dict[str, Any]) -> Measured:
    """The measurements in a profile of Warpmill."""
    programs = profile.get("programs") or []
    ran = [program["on_device"] for program in programs if program["on_device"]]
    nanos = [kernel["nanos"] for program in ran for kernel in program["kernels"]]
    return Measured(
        fallbacks=len(profile.get("fallbacks") or []),
        plan_cached=profile.get("plan_cached"),
        plan_from_template=profile.get("plan_from_template"),
        prepare_ms=round(sum(program["prepare_nanos"] for program in ran) / 1e6, 3) if ran else None,
        bytes_read=profile.get("bytes_read"),
        # Without kernel times where the profile was taken without them.
        kernel_ms=round(sum(nanos) / 1e6, 6) if any(nanos) else None,
        transfers=tuple(transfer for program in ran for transfer in program["transfers"]),
        devices=frozenset(program["device"] for program in programs),
        device_name=ran[0]["device"] if ran else None,
        not_on_device=tuple(p["not_on_device"] for p in programs if p["not_on_device"]),
        profile=profile,
    )


class Peer:
    """The base of the other engines; most run all queries as SQL and report nothing about how."""

    fixed_text = False
    tolerance: Tolerance = EXACT

    def admit(self, sql: str) -> None:
        """Nothing to do: a query that an engine cannot run is an error."""

    def ready(self) -> None:
        """Nothing: the data is in memory, or in files."""

    def measured(self, result: Any) -> Measured:
        """Nothing."""
        del result
        return Measured()

    def profiled(self, sql: str) -> None:
        """There are no kernels."""
        del sql

    def close(self) -> None:
        """Nothing."""


class DuckDB(Peer):
    """DuckDB over its own tables, in memory, or over views of Parquet files."""

    name = "duckdb"

    def __init__(self, setup: Setup) -> None:
        import duckdb

        self._con = duckdb.connect(config={"threads": setup.threads})
        if setup.source is Source.TABLES:
            copy_tables(self._con, setup.data.parquet)
        else:
            duckdb_views(self._con, setup.files)

    def run(self, sql: str) -> Any:
        """Run a query to an Arrow table."""
        return self._con.sql(sql).to_arrow_table()

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        return arrow_rows(result)


class DataFusion(Peer):
    """DataFusion over record batches in memory, or over Parquet files."""

    name = "datafusion"

    def __init__(self, setup: Setup) -> None:
        self._context = datafusion_context(setup.threads)
        for name, path in setup.files.items():
            if setup.source is Source.PARQUET:
                self._context.register_parquet(name, path)
            else:
                self._context.register_record_batches(name, batches_of(path, setup.threads))

    def run(self, sql: str) -> Any:
        """Run a query to its last batch."""
        return self._context.sql(sql).collect()

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        return batch_rows(result)


class Polars(Peer):
    """Polars' SQL over frames in memory, or over Parquet files that are scanned lazily.

    A query that Polars cannot plan, or plans as a cross product, may take all memory: each is tried first in a
    process of its own, under limits of time and memory.
    """

    name = "polars"

    def __init__(self, setup: Setup) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(setup.threads)
        import polars

        self._files = setup.files
        read = polars.read_parquet if setup.source is Source.TABLES else polars.scan_parquet
        self._context = polars.SQLContext({name: read(path) for name, path in setup.files.items()})

    def admit(self, sql: str) -> None:
        """Run the query in a limited process."""
        files = [f"{name}={path}" for name, path in self._files.items()]
        command = [sys.executable, "-m", "warpmill.bench.trial", *files]
        try:
            done = subprocess.run(
                command, input=sql, capture_output=True, text=True, timeout=TRIAL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnsupportedError(f"took more than {TRIAL_SECONDS} s") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise UnsupportedError(lines[-1][:300] if lines else f"died of signal {-done.returncode}")

    def run(self, sql: str) -> Any:
        """Run a query to a data frame."""
        return self._context.execute(sql, eager=True)

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        rows: list[tuple[Any, ...]] = result.rows()
        return rows


def load(name: str, setup: Setup, queries: list[Query]) -> Engine:
    """An engine by name, with the suite's tables loaded; `queries` are those that it will run.

    Raises `EngineUnavailableError` where it is not installed.
    """
    if name == "cudf-polars":
        from warpmill.bench.cudf import CudfPolars

        return CudfPolars(setup, {query.sql: query.name for query in queries})
    kinds: dict[str, type[DuckDB] | type[DataFusion] | type[Polars]] = {
        "duckdb": DuckDB,
        "datafusion": DataFusion,
        "polars": Polars,
    }
    if name not in kinds:
        raise ValueError(f"unknown engine '{name}': --against takes {', '.join(PEERS)}")
    try:
        return kinds[name](setup)
    except ModuleNotFoundError as error:
        raise EngineUnavailableError(f"{name} is not installed: {error}") from error


def use_cores(threads: int) -> None:
    """Bind this process, and every thread pool that an engine will start, to `threads` cores."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])


def parquet_files(arguments: list[str]) -> dict[str, Path]:
    """The tables of a trial's command line."""
    from pathlib import Path

    return {name: Path(path) for name, _, path in (argument.partition("=") for argument in arguments)}
