"""Extracts from a profile of Warpmill what the model needs: copies by direction, time by kind of operator."""

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

#: Kinds of the CPU's operators, and the words in their names that tell them; the first that fits counts.
KINDS = (
    ("join", r"probe|hashbuild|build|join"),
    ("group by", r"aggregate|distinct"),
    ("order by", r"sort|top|limit"),
    ("window", r"window"),
    ("filter", r"filter"),
    ("scan", r"scan"),
    ("project", r"project|collect|rows of"),
)


def direction(what: str) -> str:
    """The direction of a copy: "to device", "to host", or its preparation on the host: "staged", "read"."""
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
    """Milliseconds by kind of work: of the kernels where programs ran on a device, else of the CPU's workers.

    A kernel runs all operators of a pipeline, so that its kind is what the pipeline reads.
    """
    found: dict[str, float] = {}
    for program in profile.get("programs") or []:
        ran = program["on_device"]
        if ran:
            timed = [(kernel_kind(kernel["label"]), kernel["nanos"]) for kernel in ran["kernels"]]
        else:
            named = (operator for pipeline in program["pipelines"] for operator in pipeline["operators"])
            timed = [(kind(operator["name"]), operator["nanos"]) for operator in named]
        for name, nanos in timed:
            if nanos:
                found[name] = found.get(name, 0.0) + nanos / 1e6
    return {name: round(ms, 6) for name, ms in sorted(found.items())}


def kind(name: str) -> str:
    """The kind of an operator by its name; "other" where no word tells."""
    text = name.lower()
    return next((title for title, words in KINDS if re.search(words, text)), "other")


def kernel_kind(label: str) -> str:
    """The kind of a kernel: the table that its pipeline scans, "rows" of another pipeline, or a step at its end."""
    text = re.sub(r"^pipeline \d+: ", "", label)
    if found := re.match(r"scan (\S+)", text):
        return f"from {found[1]}"
    if text.startswith("rows of"):
        return "from rows"
    return "order by" if re.match(r"top|sort", text) else "group by" if text.startswith("groups") else "other"
