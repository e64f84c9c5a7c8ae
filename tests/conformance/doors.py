"""The engines that are compared: plain DuckDB, DuckDB with Warpmill, Warpmill itself."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from conformance.answers import Answer, failed, fetched, plain
from conformance.asking import ask

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conformance.script import Reopen

#: Python variables do not replace tables here; HUGEINT is passed losslessly through Arrow.
_SETTINGS = {"python_enable_replacements": False, "arrow_lossless_conversion": True}


#: Counters of failures at run time, which the host's own plan followed.
_FAILED = ("queries_failed_at_run_time",)


@dataclass(frozen=True)
class Fate:
    """The outcome of a statement in Warpmill."""

    #: "" where Warpmill ran it, else the reason; None where it read no data, or the door does not report it.
    not_accelerated: str | None = None
    #: The devices that ran its programs: "cpu", "sim", "gpu", with commas; "" where nothing ran.
    devices: str = ""
    #: The reason why not on the device.
    not_on_device: str | None = None


class Door(Protocol):
    """An engine with one database, made for one file of tests."""

    def run(self, sql: str, connection: str | None = None) -> Answer:
        """The answer to a statement, on the named connection or the default one."""
        ...

    def fate(self, connection: str | None) -> Fate:
        """The outcome of the last statement of that connection."""
        ...

    def close(self) -> None:
        """Closes all connections and removes the files."""
        ...


def with_folder(text: str, folder: Path) -> str:
    """The text with a folder and constants in place of placeholders."""
    for name in ("{TEST_DIR}", "__TEST_DIR__", "{TEMP_DIR}", "${TEST_DIR}"):
        text = text.replace(name, str(folder))
    return text.replace("{DATA_DIR}", "data").replace("{UUID}", "00000000-0000-0000-0000-000000000000")


class DuckDoor:
    """A DuckDB database, opened by `duckdb.connect` or by `warpmill.duckdb.connect`.

    `exact`: dates, times and intervals are integers, which hold all of their values, rather than Python's.
    """

    def __init__(
        self, connect: Callable[..., Any], folder: Path, settings: dict[str, Any] | None = None, *, exact: bool = True
    ) -> None:
        self._connect = connect
        self._folder = folder
        self._exact = exact
        self._settings = {**_SETTINGS, **(settings or {})}
        self._path = ":memory:"
        self._storage: dict[str, Any] = {}
        self._read_only = False
        self._connections: dict[str | None, Any] = {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._open()

    def _open(self) -> None:
        settings = {**self._settings, **self._storage}
        self._connections = {None: self._connect(self._path, read_only=self._read_only, config=settings)}

    def text(self, text: str) -> str:
        """The text with this door's folder in place of placeholders."""
        return with_folder(text, self._folder)

    def neutral(self, text: str) -> str:
        """The text with a placeholder in place of this door's folder."""
        return text.replace(str(self._folder), "{TEST_DIR}")

    def run(self, sql: str, connection: str | None = None) -> Answer:
        """The answer to a statement, on the named connection or the default one."""
        try:
            used = self.connection(connection)
            ask(used, self.text(sql))
            return fetched(used, self._exact)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # panics of the engine are no `Exception`
            return failed(error)

    def connection(self, name: str | None) -> Any:
        """The connection of that name, made where it is not there yet."""
        if name not in self._connections:
            self._connections[name] = self._connections[None].cursor()
        return self._connections[name]

    def fate(self, connection: str | None) -> Fate:  # noqa: ARG002 - plain DuckDB
        """Nothing: Warpmill has no part in it."""
        return Fate()

    def reopen(self, step: Reopen) -> Answer:
        """Closes the database, and opens the same or another one."""
        self._close()
        if step.path is not None:
            self._path = self.text(step.path) or ":memory:"
            self._read_only = step.read_only
            self._storage = {"storage_compatibility_version": step.storage} if step.storage else {}
        try:
            self._open()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer = failed(error)
            self._path, self._read_only, self._storage = ":memory:", False, {}
            self._open()
            return answer
        return Answer()

    def reconnect(self) -> None:
        """Makes the default connection anew."""
        old = self._connections[None]
        self._connections[None] = old.cursor()
        old.close()

    def _close(self) -> None:
        for connection in reversed(self._connections.values()):
            connection.close()
        self._connections = {}

    def close(self) -> None:
        """Closes all connections and removes the files."""
        self._close()
        shutil.rmtree(self._folder, ignore_errors=True)


class WarpmillDuckDoor(DuckDoor):
    """DuckDB with Warpmill, which reports the outcome of each query."""

    def _open(self) -> None:
        super()._open()
        # A separate connection: the query must not be part of the tests' transactions.
        self._connections["warpmill_stats"] = self._connections[None].cursor()
        self._before = self._stats()

    def _stats(self) -> Counter[str]:
        return Counter(dict(self._connections["warpmill_stats"].execute("FROM warpmill_stats()").fetchall()))

    def fate(self, connection: str | None) -> Fate:
        """The outcome of the last statement."""
        try:
            now = self._stats()
            new = now - self._before
            self._before = now
            if not any(new[name] for name in ("queries_accelerated", "queries_left_to_duckdb", *_FAILED)):
                return Fate()
            text = "SELECT reason, profile FROM warpmill_last()"
            [(reason, profile)] = self.connection(connection).execute(text).fetchall()
            if not new["queries_accelerated"]:
                return Fate(str(reason))
            ran = json.loads(profile)
            return Fate("", ",".join(sorted(set(ran.get("devices", [])))), ran.get("not_on_device"))
        except Exception as error:  # a transaction that was aborted answers nothing
            return Fate(f"not known: {type(error).__name__}")


class NativeDoor:
    """`warpmill.connect()`."""

    def __init__(self, settings: dict[str, object] | None = None, files: dict[str, Path] | None = None) -> None:
        import warpmill

        self._connection = warpmill.connect(**(settings or {}))  # type: ignore[arg-type]
        self._profile: dict[str, Any] = {}
        for name, path in (files or {}).items():
            self._connection.register_file(name, path)

    def run(self, sql: str, connection: str | None = None) -> Answer:  # noqa: ARG002 - sessions have one connection here
        """The answer to a statement."""
        self._profile = {}
        try:
            relation = ask(self._connection, sql)
            rows = tuple(plain(row) for row in relation.fetchall())
            self._profile = relation.profile
            return Answer(tuple(relation.columns), tuple(relation.types), rows)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return failed(error)

    def fate(self, connection: str | None) -> Fate:  # noqa: ARG002
        """The outcome of the last statement."""
        if not self._profile:
            return Fate()
        programs = self._profile.get("programs", [])
        devices = {str(program.get("device")) for program in programs}
        reasons = [str(program["not_on_device"]) for program in programs if program.get("not_on_device")]
        fallbacks = "; ".join(map(str, self._profile.get("fallbacks", [])))
        return Fate(fallbacks, ",".join(sorted(devices)), "; ".join(reasons) or None)

    def close(self) -> None:
        """Releases the session."""
        self._connection.close()


class NativeDatabase(NativeDoor):
    """`warpmill.connect()` with DuckDB's directives: folders, databases that are opened again."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._settings = settings
        self._path: str | None = None
        super().__init__(settings)

    def text(self, text: str) -> str:
        """The text with this door's folder in place of placeholders."""
        return with_folder(text, self._folder)

    def neutral(self, text: str) -> str:
        """The text with a placeholder in place of this door's folder."""
        return text.replace(str(self._folder), "{TEST_DIR}")

    def run(self, sql: str, connection: str | None = None) -> Answer:
        """The answer to a statement, on the named connection or the default one."""
        return super().run(self.text(sql), connection)

    def reopen(self, step: Reopen) -> Answer:
        """Closes the database, and opens the same or another one."""
        import warpmill

        self.close()
        if step.path is not None:
            self._path = self.text(step.path) or None
        try:
            self._connection = warpmill.connect(self._path, **self._settings)
        except Exception as error:
            self._connection = warpmill.connect(**self._settings)
            return failed(error)
        return Answer()

    def reconnect(self) -> None:
        """Nothing: a session is one connection."""
