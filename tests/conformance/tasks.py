"""The tasks of the corpora: files of DuckDB's and SQLite's tests, queries of TPC-DS."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from conformance.lockstep import FileRun, NativeRun
from conformance.sqlite import FileRun as SqliteRun
from conformance.workers import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conformance.outcome import Outcome
    from conformance.tpcds import Queries
    from conformance.workers import Task


@dataclass(frozen=True)
class _File(ABC):
    """A file of tests."""

    root: Path
    path: Path

    @property
    def title(self) -> str:
        """The path within the corpus."""
        return str(self.path.relative_to(self.root))

    @abstractmethod
    def _started(self, folder: Path, progress: Callable[[int, str], None]) -> FileRun | SqliteRun:
        """A run of the file in `folder`."""

    def run(self, folder: Path, progress: Callable[[int, str], None]) -> Iterator[Outcome | Stopped]:
        """Runs the file."""
        run = self._started(folder, progress)
        yield from run.outcomes()
        if run.stopped:
            yield Stopped(self.title, run.stopped)

    def rest(self, line: int) -> Task | None:  # noqa: ARG002 - the state of the databases is gone
        """None: the records of a file depend on the earlier ones."""
        return None


@dataclass(frozen=True)
class DuckFile(_File):
    """A file of DuckDB's, in lockstep."""

    #: "warpmill", or "duckdb" to run plain DuckDB beside itself.
    door: str = "warpmill"
    threads: int | None = None
    #: Whether the forms of queries are compared.
    forms: bool = False

    def _started(self, folder: Path, progress: Callable[[int, str], None]) -> FileRun:
        connect = importlib.import_module("duckdb" if self.door == "duckdb" else "warpmill.duckdb").connect
        settings = {} if self.threads is None else {"threads": self.threads}
        return FileRun(self.path, self.root, folder, connect, progress, settings, self.forms)


@dataclass(frozen=True)
class NativeFile(_File):
    """A file of DuckDB's, natively."""

    settings: tuple[tuple[str, object], ...] = ()

    def _started(self, folder: Path, progress: Callable[[int, str], None]) -> FileRun:
        import warpmill

        return NativeRun(self.path, self.root, folder, warpmill.connect, progress, dict(self.settings))


@dataclass(frozen=True)
class SqliteFile(_File):
    """A file of SQLite's, natively."""

    settings: tuple[tuple[str, object], ...] = ()
    sample: int = 1

    def _started(self, folder: Path, progress: Callable[[int, str], None]) -> SqliteRun:
        return SqliteRun(self.path, self.root, folder, progress, dict(self.settings), self.sample)


@dataclass(frozen=True)
class TpcdsQueries:
    """Some queries of TPC-DS through one door."""

    queries: Queries

    @property
    def title(self) -> str:
        """The suite's name."""
        return "tpcds"

    def run(self, folder: Path, progress: Callable[[int, str], None]) -> Iterator[Outcome | Stopped]:
        """Runs the queries."""
        yield from self.queries.outcomes(folder, progress)

    def rest(self, line: int) -> Task | None:
        """The queries after the one that ended the process."""
        numbers = list(self.queries.texts)
        if line not in numbers:
            return None
        left = numbers[numbers.index(line) + 1 :]
        texts = {number: self.queries.texts[number] for number in left}
        return TpcdsQueries(replace(self.queries, texts=texts)) if texts else None
