"""The runs of one or more reports of `warpmill bench matrix` as sizes and times, by device and query."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    Row = dict[str, Any]

#: The location of resident data, by site: runs from there measure the operators alone.
IN_PLACE = {"cpu": "host", "sim": "device", "gpu": "device"}

#: The measured link that data of a location crosses on its way to a site.
LINKS = {
    ("gpu", "pinned"): "pinned to device",
    ("gpu", "host"): "pageable to device",
    ("gpu", "disk"): "disk",
    ("sim", "pinned"): "memory copy",
    ("sim", "host"): "memory copy",
    ("sim", "disk"): "disk",
}

#: The link of results.
BACK = {"gpu": "device to pinned", "sim": "memory copy"}

Query = tuple[str, str]


@dataclass(frozen=True)
class Observation:
    """A query at a size on a device, from a location, repeated."""

    query: Query
    size: float
    #: Bytes of its input: s.
    input_bytes: float
    device: str
    engine: str
    site: str
    location: str
    seconds: float
    #: Bytes of the copies of the last run, and their time where it was measured.
    copied_bytes: float = 0.0
    copied_seconds: float = 0.0
    #: Number of these copies.
    copies: float = 0.0
    result_bytes: float = 0.0
    kernel_seconds: float | None = None
    operators: dict[str, float] = field(default_factory=dict)
    #: The report that it is from, by number.
    report: int = 0

    @property
    def in_place(self) -> bool:
        """Whether no input is copied."""
        return self.location == IN_PLACE.get(self.site)


@dataclass(frozen=True)
class Transfers:
    """Times of a link by size, as measured alone."""

    link: str
    #: The device that it leads to; the machine's CPU for links without one.
    device: str
    report: int
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Filtered:
    """A filter that the host applied."""

    query: Query
    size: float
    kept: float
    seconds: float
    input_bytes: float
    report: int


@dataclass(frozen=True)
class Observations:
    """All of some reports."""

    runs: tuple[Observation, ...]
    transfers: tuple[Transfers, ...]
    filters: tuple[Filtered, ...]
    #: Bytes of a suite's tables as far as queries read them, by suite and size.
    data_bytes: dict[tuple[str, float], float]
    #: Runs that are left out because their rows differ or they ran elsewhere than asked, in words.
    left_out: tuple[str, ...] = ()

    def devices(self, engine: str | None = None) -> list[str]:
        """The devices of an engine, or all, in the order of the reports."""
        return list(dict.fromkeys(run.device for run in self.runs if engine in (None, run.engine)))

    def of(self, device: str) -> list[Observation]:
        """The runs on a device."""
        return [run for run in self.runs if run.device == device]

    def site(self, device: str) -> str:
        """The site of a device: "cpu", "sim" or "gpu"."""
        return next(run.site for run in self.runs if run.device == device)


def observe(reports: list[Row], times: str = "median") -> Observations:
    """Read reports; runs without a time, with wrong rows or from Parquet are left out. `times`: "median" or "best"."""
    inputs = _inputs(reports)
    runs = [run for number, report in enumerate(reports) for run in _runs(number, report, inputs, times)]
    transfers = [one for number, report in enumerate(reports) for one in _transfers(number, report)]
    filters = [one for number, report in enumerate(reports) for one in _filters(number, report, inputs)]
    left = dict.fromkeys(text for report in reports for row in report["runs"] if (text := _why_not(row)))
    return Observations(tuple(runs), tuple(transfers), tuple(filters), _data_bytes(reports), tuple(left))


def device_of(row: Row, machine: Row) -> str:
    """The name of an engine's device: that of the device for Warpmill, prefixed by the engine for others."""
    if row["site"] == "gpu":
        name = short(str(row.get("device_name") or machine.get("gpu") or "GPU"))
    elif row["site"] == "sim":
        name = "simulated device"
    else:
        name = f"CPU ({short(machine['cpu'])}, {machine['cores']} cores)"
    return name if row["engine"] == "warpmill" else f"{row['engine']} on {name}"


def short(name: str) -> str:
    """A processor's name without the maker and generic words."""
    name = re.sub(r"\((?:R|TM)\)|\b(?:NVIDIA|Processor|CPU)\b", "", name)
    name = re.sub(r"@.*|\b\d+-Core\b|\b\d+GB\b.*", "", name)
    return " ".join(name.split())


def _ran(row: Row) -> bool:
    return row.get("median_ms") is not None and row["verified"] is not False


def _warm(row: Row) -> bool:
    """Whether a run is of the state and the source that the model is about, and ran where it should."""
    return _ran(row) and row["state"] == "repeated" and row["source"] == "tables" and not _strayed(row)


def _strayed(row: Row) -> bool:
    """Whether other sites ran a part of a query, or all of it."""
    return row["engine"] == "warpmill" and row.get("devices") not in (None, [row["site"]])


def _why_not(row: Row) -> str | None:
    """The reason why a run that the model is about is left out."""
    if row["state"] != "repeated" or row["source"] != "tables":
        return None
    what = f"{row['suite']} {row['query']}, {row['engine']} on {row['site']} from {row['location']}"
    if row["verified"] is False:
        return f"{what}: its rows differ from DuckDB's"
    if row.get("median_ms") is None:
        return f"{what}: it has no time: {row.get('error')}"
    if _strayed(row):
        return f"{what}: it ran on {' and '.join(row['devices']) or 'no site'}"
    return None


def _inputs(reports: list[Row]) -> dict[tuple[str, str, float], float]:
    """Bytes of input of each query at each size: copied bytes; without them, bytes that the CPU reads.

    All sizes of a query have the same kind, that of most of them. The CPU skips other parts of tables at each size: its
    bytes are those of the largest size, by the bytes of the tables.
    """
    copied: dict[tuple[str, str], dict[float, list[float]]] = {}
    read: dict[tuple[str, str], dict[float, list[float]]] = {}
    for row in (row for report in reports for row in report["runs"]):
        if not _warm(row) or row["engine"] != "warpmill":
            continue
        query, size = (row["suite"], row["query"]), row["size"]
        if row["copy_policy"] == "per-query" and (found := row.get("transfers", {}).get("to device")):
            copied.setdefault(query, {}).setdefault(size, []).append(found["bytes"])
        elif row["site"] == "cpu" and row.get("bytes_read"):
            read.setdefault(query, {}).setdefault(size, []).append(row["bytes_read"])
    tables = {(row["suite"], row["size"]): row["table_bytes"] for report in reports for row in report["data"]}
    inputs: dict[tuple[str, str, float], float] = {}
    for query in {**read, **copied}:
        own, others = copied.get(query, {}), read.get(query, {})
        if len(own) >= len(others):
            inputs |= {(*query, size): statistics.median(found) for size, found in own.items()}
            continue
        largest = max(others)
        unit = statistics.median(others[largest]) / (tables.get((query[0], largest)) or 1)
        for size, found in others.items():
            known = tables.get((query[0], size))
            inputs[*query, size] = unit * known if known else statistics.median(found)
    return inputs


def _runs(number: int, report: Row, inputs: dict[tuple[str, str, float], float], times: str) -> Iterator[Observation]:
    for row in report["runs"]:
        bytes_in = inputs.get((row["suite"], row["query"], row["size"]))
        if not _warm(row) or not bytes_in:
            continue
        copies = row.get("transfers") or {}
        into, back = copies.get("to device", {}), copies.get("to host", {})
        yield Observation(
            query=(row["suite"], row["query"]),
            size=row["size"],
            input_bytes=bytes_in,
            device=device_of(row, report["machine"]),
            engine=row["engine"],
            site=row["site"],
            location=row["location"],
            seconds=row[f"{times}_ms"] / 1e3,
            copied_bytes=into.get("bytes", 0.0),
            copied_seconds=into.get("ms", 0.0) / 1e3,
            copies=into.get("count", 0.0),
            result_bytes=back.get("bytes", 0.0),
            kernel_seconds=None if row.get("kernel_ms") is None else row["kernel_ms"] / 1e3,
            operators=row.get("operators_ms") or {},
            report=number,
        )


def _transfers(number: int, report: Row) -> Iterator[Transfers]:
    points: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in report["links"]:
        cpu = f"CPU ({short(report['machine']['cpu'])}, {report['machine']['cores']} cores)"
        device = short(row["device"]) if row["device"] else cpu
        points.setdefault((row["link"], device), []).append((row["bytes"], row["seconds"]))
    for (link, device), pairs in points.items():
        sizes, seconds = zip(*sorted(pairs), strict=True)
        yield Transfers(link, device, number, sizes, seconds)


def _filters(number: int, report: Row, inputs: dict[tuple[str, str, float], float]) -> Iterator[Filtered]:
    for row in report["filters"]:
        bytes_in = inputs.get((row["suite"], row["query"], row["size"]))
        if bytes_in and row["rows"]:
            kept = max(row["rows_kept"] / row["rows"], 1e-9)
            query = (row["suite"], row["query"])
            yield Filtered(query, row["size"], kept, row["median_ms"] / 1e3, bytes_in, number)


def _data_bytes(reports: list[Row]) -> dict[tuple[str, float], float]:
    """Resident bytes on a device after all queries of a suite; without a device, all bytes of its tables."""
    tables = {(row["suite"], row["size"]): float(row["table_bytes"]) for one in reports for row in one["data"]}
    copied: dict[tuple[str, float], list[float]] = {}
    for report in reports:
        sums: dict[tuple[str, float], float] = {}
        for row in report["runs"]:
            if _warm(row) and row["location"] == "device":
                at = (row["suite"], row["size"])
                sums[at] = sums.get(at, 0.0) + row.get("first_to_device_bytes", 0)
        for at, total in sums.items():
            copied.setdefault(at, []).append(total)
    found = {at: max(totals) for at, totals in copied.items() if max(totals) > 0}
    return {**tables, **{at: min(total, tables.get(at, total)) for at, total in found.items()}}
