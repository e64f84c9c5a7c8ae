"""``warpmill bench lancelot``: what several devices keep of the data of their parts, and copy from each other (thesis,
section 5.5.2).

SSB, with facts sorted by date; every device runs its range of each query. All data is in page-locked memory of the
host; each device has copies of some segments, of which those of dimensions are on one device or on all, as a policy
says. Every answer has to be the CPU's, and what goes from device to device is what was planned, byte for byte.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import warpmill
from warpmill_bench.mordred import Row, Run, Session, Study, mirror
from warpmill_bench.mordred_workloads import statements, zipf

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What `device_replication` may be: by weights, and the two baselines.
POLICIES = ("auto", "always", "never")

#: Workloads, by the exponent of Zipf's distribution over the months that queries ask for.
WORKLOADS = {"uniform": 0.0, "skewed": 1.5}

Matrix = list[list[int]]


def device(kind: str, count: int, logical: bool) -> str:
    """The setting for so many devices."""
    if kind == "sim":
        return f"sim:{count}"
    return "gpu:" + ",".join("0" if logical else str(number) for number in range(count))


def table_bytes(study: Study) -> int:
    """Bytes of all tables as they are stored."""
    with warpmill.connect(study.database, device="cpu") as con:
        return sum(table.stored_bytes or 0 for table in con.tables())


def added(matrix: Matrix, other: Matrix) -> Matrix:
    """The entrywise sum of two matrices, either of which may be empty."""
    if not matrix or not other:
        return matrix or other
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(matrix, other, strict=True)]


def bytes_of(run: Run) -> Row:
    """Bytes of a query by where its data was: on the host, on another device, or on the device that read it."""
    found = run.profile.get("on_device") or {}
    transfers = found.get("transfers", [])
    exchange = found.get("exchange") or {"traffic": [], "planned": []}
    host = (one["bytes"] for one in transfers if one["what"].startswith(("segments from", "segments to")))
    return {
        "host_bytes": sum(host),
        "peer_bytes": sum(map(sum, exchange["traffic"])),
        "own_bytes": (found.get("path") or {}).get("found_bytes", 0),
        "traffic": exchange["traffic"],
        "planned": exchange["planned"],
        "in_parts": bool(run.segments()),
    }


def pass_of(session: Session, texts: Iterable[str]) -> Row:
    """All queries, one after the other."""
    all_of: Row = {"ms": 0.0, "host_bytes": 0, "peer_bytes": 0, "own_bytes": 0, "queries": 0, "queries_in_parts": 0}
    traffic: Matrix = []
    planned: Matrix = []
    for text in texts:
        run = session.run(text)
        found = bytes_of(run)
        all_of["ms"] += run.ms
        all_of["queries"] += 1
        all_of["queries_in_parts"] += found["in_parts"]
        for name in ("host_bytes", "peer_bytes", "own_bytes"):
            all_of[name] += found[name]
        traffic, planned = added(traffic, found["traffic"]), added(planned, found["planned"])
    return {**all_of, "traffic": traffic, "planned": planned, "as_planned": traffic == planned}


def measure(study: Study, devices: str, texts: list[str], policy: str, limit: int) -> Row:
    """A workload under a policy: a pass in which copies are chosen, then those that are measured.

    Copies are replaced after each pass; bytes are those of the last one.
    """
    own = {"device": devices, "placement": "range", "device_data": "mirrored", "device_replication": policy}
    with study.session(own, mirror("semantic", limit, len(texts))) as session:
        try:
            passes = [pass_of(session, texts) for _ in range(study.runs + 1)][1:]
        except warpmill.Error as error:
            return {"ms": None, "error": str(error), "same_answer": session.same_answer}
        times = [one["ms"] for one in passes]
        last = {**passes[-1], "ms": statistics.median(times), "passes_ms": times}
        last["as_planned"] = all(one["as_planned"] for one in passes)
        return {**last, "same_answer": session.same_answer, "error": None}


def policies(
    study: Study, counts: list[int], percents: list[float], chosen: list[str], shape: tuple[int, int], logical: bool
) -> list[Row]:
    """Policies by workload, number of devices and size of their copies; `shape`: how many queries, and a seed."""
    queries, seed = shape
    kind, whole = study.settings["device"], table_bytes(study)
    rows = []
    for workload, theta in WORKLOADS.items():
        texts = statements(zipf(theta, queries, seed), seed)
        for count in counts:
            for percent in percents:
                limit = max(int(whole * percent / 100), 1)
                for policy in chosen:
                    study.told(f"{workload}, {count} devices, copies of {percent:g}% on each, {policy}")
                    found = measure(study, device(kind, count, logical), texts, policy, limit)
                    own = {"workload": workload, "devices": count, "percent": percent, "limit_bytes": limit}
                    rows.append({**own, "policy": policy, **found})
    return rows
