"""Cells of the measurement (engine, site, source and location), and plans that order them.

A cell is one process of an engine over one suite at one size, which runs the suite's queries in their states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from warpmill.bench.engines import IN_MEMORY
from warpmill.bench.states import Source, State
from warpmill_bench.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from warpmill_bench.suites import Suite

#: The locations of data when a query starts, with the setting `device_data` for each.
LOCATIONS = {"device": "cache", "pinned": "pinned", "host": "host", "disk": "disk"}

#: Engines besides Warpmill.
PEERS = ("duckdb", "datafusion", "polars", "pandas", "cudf-polars")

#: Engines without SQL queries.
NO_SQL = frozenset({"pandas", "cudf-polars"})

#: The suites that are written for pandas, and the modules that have their queries.
PANDAS = {"h2o": "warpmill_bench.pandas_groupby"}

#: Sites of Warpmill that have memory of their own.
DEVICES = ("gpu", "sim")


@dataclass(frozen=True)
class Cell:
    """A process of an engine, and what it runs."""

    suite: str
    size: float
    engine: str
    #: "cpu", "sim" or "gpu".
    site: str
    source: Source
    #: A key of `LOCATIONS`; of Parquet: "files" (read by every run), or "kept" (columns that Warpmill keeps).
    location: str
    states: tuple[State, ...] = (State.REPEATED,)
    #: None: all of the suite.
    queries: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """Its name in a report."""
        who = f"{self.engine}:{self.site}"
        return f"{self.suite}/{self.size:g}/{who}/{self.source.value}/{self.location}"

    @property
    def copy_policy(self) -> str:
        """When data is copied to where queries run: once, or for every run."""
        stays = self.location in ("device", "kept") or (self.site == "cpu" and self.location == "host")
        return "per-dataset" if stays else "per-query"

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Warpmill's session."""
        if self.engine != "warpmill":
            return {}
        chosen = {"device": self.site, "device_fallback": "allow"}
        if self.source is Source.PARQUET:
            chosen["column_cache"] = "on" if self.location == "kept" else "off"
        elif self.site in DEVICES:
            chosen["device_data"] = LOCATIONS[self.location]
        return chosen

    def as_json(self) -> dict[str, Any]:
        """The fields that each of its runs has."""
        return {
            "suite": self.suite,
            "size": self.size,
            "engine": self.engine,
            "site": self.site,
            "source": self.source.value,
            "location": self.location,
            "copy_policy": self.copy_policy,
            "result": "host",
        }


@dataclass(frozen=True)
class Choice:
    """The elements of a plan: requested names, or all known ones."""

    suites: tuple[str, ...]
    #: Sites of Warpmill: "cpu", and one device at most.
    sites: tuple[str, ...]
    peers: tuple[str, ...]
    sources: tuple[Source, ...] = tuple(Source)
    locations: tuple[str, ...] = tuple(LOCATIONS)
    states: tuple[State, ...] = tuple(State)
    #: Sizes by suite, where they are not the suite's own.
    sizes: tuple[float, ...] | None = None
    queries: tuple[str, ...] | None = None

    def chosen(self) -> list[Suite]:
        """The suites, in the order of importance."""
        return [one for one in SUITES if one.name in self.suites]


#: Combinations that no engine supports, with the reason, whatever is installed.
NEVER = (
    (
        "results left on the device",
        "every engine here gives rows in host memory; the model has the time without the copy of rows to it",
    ),
)


def quick(choice: Choice) -> list[Cell]:
    """Tiny sizes, few queries: three sizes where Warpmill runs, everything else at one."""
    cells: list[Cell] = []
    for at, suite in enumerate(choice.chosen()):
        sizes = choice.sizes or suite.quick
        middle = sizes[len(sizes) // 2]
        for size in sizes:
            cells += _warpmill(choice, suite, size, every=at == 0)
        cells += _peers(choice, suite, middle, Source.TABLES)
        if at == 0:
            cells += _parquet(choice, suite, middle)
            cells += _first_runs(choice, suite, sizes[0], (choice.queries or suite.few)[:1])
    few = {suite.name: choice.queries or suite.few for suite in choice.chosen()}
    return [replace(cell, queries=cell.queries or few[cell.suite]) for cell in _once(choice, cells)]


def full(choice: Choice) -> list[Cell]:
    """Everything, most important first.

    Cells for fitting the model, one suite after the other at three sizes: lines through fewer tell nothing about other
    sizes, wherever the time ends. Then peers, Parquet, first runs and further locations at the smallest one; then the
    same at the others.
    """
    suites = [(one, one.ranked(choice.sizes)) for one in choice.chosen()]
    most = max((len(sizes) for _, sizes in suites), default=1)
    ranks = [[(one, sizes[at]) for one, sizes in suites if at < len(sizes)] for at in range(most)]
    fitted = [cell for one, sizes in suites for size in sizes[:3] for cell in _warpmill(choice, one, size, every=False)]
    first = [cell for one, size in ranks[0] for cell in _beside(choice, one, size)]
    first += [cell for one, size in ranks[0] for cell in _first_runs(choice, one, size, None)]
    larger = [cell for rank in ranks[3:] for one, size in rank for cell in _warpmill(choice, one, size, every=False)]
    rest = [cell for rank in ranks[1:] for one, size in rank for cell in _beside(choice, one, size)]
    cells = _once(choice, [*fitted, *first, *larger, *rest])
    return [replace(cell, queries=cell.queries or choice.queries) for cell in cells]


def _beside(choice: Choice, suite: Suite, size: float) -> Iterator[Cell]:
    """Cells that do not serve fitting the model: peers, Parquet, locations with slower copies."""
    yield from _peers(choice, suite, size, Source.TABLES)
    yield from _parquet(choice, suite, size)
    yield from _warpmill(choice, suite, size, every=True)


def _warpmill(choice: Choice, suite: Suite, size: float, every: bool) -> Iterator[Cell]:
    """Warpmill on its sites over its own tables; `every`: also from where the model does not need times."""
    if Source.TABLES not in choice.sources:
        return
    for site in choice.sites:
        locations = ("host",) if site == "cpu" else [name for name in LOCATIONS if name in choice.locations]
        for location in locations:
            if every or site == "cpu" or location in ("device", "pinned"):
                yield Cell(suite.name, size, "warpmill", site, Source.TABLES, location)


def _peers(choice: Choice, suite: Suite, size: float, source: Source) -> Iterator[Cell]:
    if source not in choice.sources:
        return
    for peer in choice.peers:
        if cannot(peer, suite.name, source):
            continue
        location = "files" if source is Source.PARQUET else "host"
        yield Cell(suite.name, size, peer, "gpu" if peer == "cudf-polars" else "cpu", source, location)


def cannot(peer: str, suite: str, source: Source) -> str | None:
    """The reason why a peer is not measured on a suite from a source; None where it is."""
    if peer == "pandas":
        return None if suite in PANDAS else "its queries are not written for pandas"
    if peer != "cudf-polars":
        return None
    if source is Source.TABLES:
        return "it has no tables of its own: it reads Parquet files"
    return None if suite == "tpch" else "its package has queries of TPC-H only"


def _parquet(choice: Choice, suite: Suite, size: float) -> Iterator[Cell]:
    if Source.PARQUET not in choice.sources:
        return
    for site in choice.sites:
        for location in ("kept", "files"):
            yield Cell(suite.name, size, "warpmill", site, Source.PARQUET, location)
    yield from _peers(choice, suite, size, Source.PARQUET)


def _first_runs(choice: Choice, suite: Suite, size: float, queries: tuple[str, ...] | None) -> Iterator[Cell]:
    """New processes and new statements, with data at its default location."""
    sources = [
        *_warpmill(choice, suite, size, every=False),
        *_peers(choice, suite, size, Source.TABLES),
        *_parquet(choice, suite, size),
    ]
    for cell in sources:
        if cell.engine != "warpmill" or cell.location in ("device", "kept") or cell.site == "cpu":
            hidden = cell.engine in IN_MEMORY and cell.source is Source.TABLES
            states = (State.NEW_STATEMENT,) if hidden else (State.NEW_PROCESS, State.NEW_STATEMENT)
            yield replace(cell, states=states, queries=queries)


def _once(choice: Choice, cells: Iterable[Cell]) -> Iterator[Cell]:
    """Each cell at its first occurrence, with the requested states."""
    seen: set[tuple[str, State]] = set()
    for cell in cells:
        left = tuple(state for state in cell.states if state in choice.states and (cell.key, state) not in seen)
        if left:
            seen |= {(cell.key, state) for state in left}
            yield replace(cell, states=left)
