"""What a profile of Warpmill has for the model: copies by direction, time by kind of operator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Copies by the first words of their names in a profile.
DIRECTIONS = {
    "rows to the host": "to host",
    "copied to pinned memory": "staged",
    "read into pinned memory": "read",
}

#: Kinds of operators, and the words in the names of operators and kernels that tell them; the first that fits counts.
KINDS = (
    ("join", r"join|probe|build|semi|anti"),
    ("group by", r"aggregate|group|distinct|accumulate"),
    ("order by", r"sort|top|order|limit"),
    ("window", r"window"),
    ("filter", r"filter|like"),
    ("scan", r"scan|segments|decode|read"),
    ("project", r"project|map|compute|collect|rows"),
)


def direction(what: str) -> str:
    """The direction of a copy: "to device", "to host", or what the host does before one: "staged", "read"."""
    return DIRECTIONS.get(what, "to device")


def transfers(copies: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Bytes, number and time of copies by direction; a time of 0 where none was measured."""
    found: dict[str, dict[str, float]] = {}
    for copy in copies:
        sums = found.setdefault(direction(copy["what"]), {"bytes": 0, "count": 0, "ms": 0.0})
        sums["bytes"] += copy["bytes"]
        sums["count"] += copy["count"]
        sums["ms"] = round(sums["ms"] + copy["nanos"] / 1e6, 6)
    return found


def bytes_copied(copies: Iterable[dict[str, Any]], way: str) -> int:
    """Bytes of the copies of one direction."""
    return int(transfers(copies).get(way, {"bytes": 0})["bytes"])


def operators(profile: dict[str, Any]) -> dict[str, float]:
    """Milliseconds by kind of operator: of kernels where programs ran on a device, else of the CPU's workers.

    A kernel runs all operators of a pipeline; it counts as what its label names last, the pipeline's end.
    """
    found: dict[str, float] = {}
    for program in profile.get("programs") or []:
        ran = program["on_device"]
        timed = [(kernel["label"], kernel["nanos"]) for kernel in ran["kernels"]] if ran else []
        for pipeline in program["pipelines"]:
            timed += [(operator["name"], operator["nanos"]) for operator in pipeline["operators"]]
        for name, nanos in timed:
            if nanos:
                found[kind(name)] = found.get(kind(name), 0.0) + nanos / 1e6
    return {name: round(ms, 6) for name, ms in sorted(found.items())}


def kind(name: str) -> str:
    """The kind of an operator or kernel by its name; "other" where no word tells."""
    text = name.lower()
    return next((title for title, words in KINDS if re.search(words, text)), "other")
