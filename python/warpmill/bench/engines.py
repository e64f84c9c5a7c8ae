"""The engines of a benchmark: each holds the tables in its own hot form and answers SQL with materialized rows."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

    from warpmill.bench.data import Data

#: Names that ``--against`` takes.
PEERS = ("duckdb", "datafusion", "polars")

#: Seconds that the trial of a query may take before an engine is said not to run it.
TRIAL_SECONDS = 120


class UnsupportedError(Exception):
    """The engine does not run this query; the message says why."""


@dataclass(frozen=True)
class Measured:
    """The measurements of an engine's last run."""

    fallbacks: int = 0
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


class Warpmill:
    """Warpmill over its own tables, memory-mapped and encoded; a fallback is an error until a query needs one."""

    name = "warpmill"

    def __init__(self, data: Data, threads: int, settings: dict[str, str]) -> None:
        self._con = warpmill.connect(data.database, threads=threads, **settings)
        self._profile = settings.get("profile", "on")
        #: The reason why a query was run with fallbacks allowed.
        self.reasons: dict[str, str] = {}

    def admit(self, sql: str) -> None:
        """Try without fallbacks; where one is needed, remember why and allow it for this query."""
        self._con.set("fallback", "error")
        try:
            self._con.sql(sql)
        except warpmill.FallbackError as error:
            self.reasons[sql] = str(error)
            self._con.set("fallback", "allow")
            try:
                self._con.sql(sql)
            except warpmill.Error as failure:
                raise UnsupportedError(str(failure)) from failure
        except warpmill.Error as error:
            raise UnsupportedError(str(error)) from error

    def ready(self) -> None:
        """Nothing: where data is before a query is a setting."""

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
        profile = result.profile
        programs = profile.get("programs") or []
        ran = [program["on_device"] for program in programs if program["on_device"]]
        nanos = [kernel["nanos"] for program in ran for kernel in program["kernels"]]
        return Measured(
            fallbacks=len(profile.get("fallbacks") or []),
            bytes_read=profile.get("bytes_read"),
            # Without times where the profile was not asked for them.
            kernel_ms=round(sum(nanos) / 1e6, 6) if any(nanos) else None,
            transfers=tuple(transfer for program in ran for transfer in program["transfers"]),
            devices=frozenset(program["device"] for program in programs),
            device_name=ran[0]["device"] if ran else None,
            not_on_device=tuple(p["not_on_device"] for p in programs if p["not_on_device"]),
            profile=profile,
        )


class DuckDB:
    """DuckDB over its own tables, in memory."""

    name = "duckdb"

    def __init__(self, data: Data, threads: int) -> None:
        import duckdb

        self._con = duckdb.connect(config={"threads": threads})
        for name, path in data.parquet.items():
            self._con.execute(f"CREATE TABLE \"{name}\" AS SELECT * FROM read_parquet('{path}')")

    def admit(self, sql: str) -> None:
        """DuckDB runs every query of the suites."""

    def ready(self) -> None:
        """Nothing: the data is in memory."""

    def run(self, sql: str) -> Any:
        """Run a query to an Arrow table."""
        return self._con.sql(sql).to_arrow_table()

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        return arrow_rows(result)

    def measured(self, result: Any) -> Measured:
        """Nothing."""
        del result
        return Measured()

    def profiled(self, sql: str) -> None:
        """There are no kernels."""
        del sql


class DataFusion:
    """DataFusion over record batches in memory."""

    name = "datafusion"

    def __init__(self, data: Data, threads: int) -> None:
        import datafusion
        import pyarrow.parquet

        config = datafusion.SessionConfig().with_target_partitions(threads)
        self._context = datafusion.SessionContext(config)
        for name, path in data.parquet.items():
            batches = pyarrow.parquet.read_table(path).to_batches(max_chunksize=8192)
            # One partition per thread, as DataFusion's own in-memory benchmark has them.
            share = -(-len(batches) // threads)
            parts = [batches[start : start + share] for start in range(0, len(batches), share)]
            self._context.register_record_batches(name, parts)

    def admit(self, sql: str) -> None:
        """DataFusion runs every query of the suites; what it does not run shows as an error."""

    def ready(self) -> None:
        """Nothing: the data is in memory."""

    def run(self, sql: str) -> Any:
        """Run a query to its last batch."""
        return self._context.sql(sql).collect()

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        import pyarrow

        return arrow_rows(pyarrow.Table.from_batches(result)) if result else []

    def measured(self, result: Any) -> Measured:
        """Nothing."""
        del result
        return Measured()

    def profiled(self, sql: str) -> None:
        """There are no kernels."""
        del sql


class Polars:
    """Polars' SQL over frames in memory.

    A query that Polars cannot plan, or plans as a cross product, may take all memory: each is tried first in a
    process of its own, under limits of time and memory.
    """

    name = "polars"

    def __init__(self, data: Data, threads: int) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars

        self._data = data
        self._context = polars.SQLContext({name: polars.read_parquet(path) for name, path in data.parquet.items()})

    def admit(self, sql: str) -> None:
        """Run the query in a limited process."""
        files = [f"{name}={path}" for name, path in self._data.parquet.items()]
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

    def ready(self) -> None:
        """Nothing: the data is in memory."""

    def run(self, sql: str) -> Any:
        """Run a query to a data frame."""
        return self._context.execute(sql, eager=True)

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        rows: list[tuple[Any, ...]] = result.rows()
        return rows

    def measured(self, result: Any) -> Measured:
        """Nothing."""
        del result
        return Measured()

    def profiled(self, sql: str) -> None:
        """There are no kernels."""
        del sql


def arrow_rows(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a `pyarrow.Table`."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def load(name: str, data: Data, threads: int) -> Engine:
    """An engine by name, with the suite's tables loaded."""
    kinds: dict[str, type[DuckDB] | type[DataFusion] | type[Polars]] = {
        "duckdb": DuckDB,
        "datafusion": DataFusion,
        "polars": Polars,
    }
    if name not in kinds:
        raise ValueError(f"unknown engine '{name}': --against takes {', '.join(PEERS)}")
    return kinds[name](data, threads)


def use_cores(threads: int) -> None:
    """Bind this process, and every pool that an engine will start, to as many cores as threads are asked for."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])


def parquet_files(arguments: list[str]) -> dict[str, Path]:
    """The tables of a trial's command line."""
    from pathlib import Path

    return {name: Path(path) for name, _, path in (argument.partition("=") for argument in arguments)}
