"""TPC-DS: 99 queries through both doors, beside plain DuckDB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conformance.accepted import explained
from conformance.answers import Answer
from conformance.compare import Difference, Judge
from conformance.doors import DuckDoor, NativeDoor, WarpmillDuckDoor
from conformance.ordering import Parser
from conformance.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CORPORA = {"native": "tpcds", "duckdb": "tpcds-duckdb"}


@dataclass(frozen=True)
class Queries:
    """Some queries of TPC-DS through one door: "native" or "duckdb"."""

    door: str
    tables: dict[str, Path]
    #: Texts by number.
    texts: dict[int, str]
    settings: dict[str, object]

    def outcomes(self, folder: Path, progress: Callable[[int, str], None]) -> Iterator[Outcome]:
        """The outcomes of the queries, as they are run; lines are their numbers."""
        import duckdb

        plain = DuckDoor(duckdb.connect, folder / "plain", exact=self.door != "native")
        _import(plain, self.tables)
        ours = self._ours(folder / "ours")
        try:
            for number, text in self.texts.items():
                sql = text.strip().rstrip(";")
                progress(number, "plain")
                reference = plain.run(sql)
                progress(number, "ours")
                answer = ours.run(sql)
                fate = ours.fate(None)
                if isinstance(ours, WarpmillDuckDoor):
                    judge = Judge(Parser(plain.connection("parser")), ours.run, plain.run)
                    difference = judge.difference(sql, answer, reference)
                else:
                    difference = _native_difference(sql, answer, reference)
                made = Outcome("tpcds", number, sql, "equal", fate=fate, unlike_file=bool(reference.failure))
                yield self._judged(made, difference)
        finally:
            ours.close()
            plain.close()

    def _judged(self, made: Outcome, difference: Difference | None) -> Outcome:
        if difference is None:
            return made
        found = explained(CORPORA[self.door], f"{made.line}", made.sql, difference)
        if found is not None:
            return replace(made, verdict="accepted", kind=found, text=difference.text)
        verdict = "failed" if difference.kind == "fails" else "wrong"
        return replace(made, verdict=verdict, kind=difference.kind, text=difference.text)

    def _ours(self, folder: Path) -> NativeDoor | WarpmillDuckDoor:
        if self.door == "native":
            return NativeDoor(self.settings, self.tables)
        import warpmill.duckdb

        door = WarpmillDuckDoor(warpmill.duckdb.connect, folder)
        _import(door, self.tables)
        return door


def _import(door: DuckDoor, tables: dict[str, Path]) -> None:
    for name, path in tables.items():
        made = door.run(f"CREATE TABLE {name} AS FROM '{path}'")
        if made.failure is not None:
            raise RuntimeError(made.brief())
    if isinstance(door, WarpmillDuckDoor):
        door.fate(None)


def _native_difference(sql: str, answer: Answer, reference: Answer) -> Difference | None:
    """As in the project's suites: the two sides have different type names."""
    from warpmill.bench.verify import difference

    if answer.failure is not None or reference.failure is not None:
        return Difference("fails", answer.brief()) if answer.failure and not reference.failure else None
    names = [name.lower() for name in reference.names]
    # A computed column without an alias is named by its text, in which the dialects differ.
    named = [(ours.lower(), name) for ours, name in zip(answer.names, names, strict=False) if name.isidentifier()]
    if len(answer.names) != len(names) or any(ours != name for ours, name in named):
        return Difference("names", f"{answer.names} instead of {reference.names}"[:400])
    rows: tuple[list[Any], list[Any]] = (list(answer.rows), list(reference.rows))
    found = difference(rows[0], rows[1], names, sql)
    return None if found is None else Difference("rows", found[:400])
