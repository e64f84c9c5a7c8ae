"""Whether what `warpmill bench qj` measured reproduces the three findings of the paper, or refutes them.

A verdict follows from the numbers by the rules below, whatever they are. Two things differ from the paper's set-up, and
the texts say so where it matters: Warpmill's tables are never plain, so that "no codec" here is the light encodings
(what the paper calls lightweight compression), and uncompressed data is the least time that its bytes take at the
emulated bandwidth; and kernels are timed, instructions are not counted.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = dict[str, Any]

#: Differences below this are taken for noise.
NOISE = 0.05

#: Queries with which the paper sees decompression compete: more drives, joins, and a greater selectivity than these.
DRIVES, JOINS, SELECTIVITY = 4, 3, 0.5

#: Codecs of the kind that the paper calls heavyweight.
HEAVY = ("lz4", "snappy", "zstd")

CLAIMS = (
    "beyond 4 drives, with more than 3 joins and a selectivity above 50%, decompression competes with the query: "
    "compression can be slower than none",
    "storage-bound queries speed up as data shrinks; with more bandwidth heavyweight codecs lose, and lightweight "
    "compression still gains",
    "without compression the device is idle most of the time; decompression is much more work for it, and the query is "
    "faster nevertheless",
)

SIMULATED = "the simulated device's times mean nothing"

REPRODUCED, REFUTED, PARTLY, OPEN = "reproduced", "refuted", "partly reproduced", "not covered"


def findings(results: Iterable[Row]) -> list[Row]:
    """A verdict, its numbers and its text for each of the paper's findings."""
    rows = list(results)
    simulated = any("sim" in (row.get("device") or "") for row in rows)
    points = _points(rows)
    checks: list[Callable[[list[Row]], Row]] = [_competition, _storage_bound, _utilization]
    return [
        {"finding": at + 1, "claim": claim, **(_open(SIMULATED) if simulated else check(points))}
        for at, (claim, check) in enumerate(zip(CLAIMS, checks, strict=True))
    ]


def auto_text(points: list[Row]) -> str:
    """The distance of the automatic choice from the best fixed codec."""
    over = [point for point in points if point["auto_over_best"] is not None]
    if not over:
        return "the automatic choice was not measured"
    worst = max(over, key=lambda point: point["auto_over_best"])
    near = sum(point["auto_over_best"] <= NOISE for point in over)
    drives = "" if worst["drives"] is None else f", {worst['drives']} drive(s)"
    return (
        f"auto is within {NOISE:.0%} of the best fixed codec at {near} of {len(over)} points; at worst "
        f"{worst['auto_over_best']:+.1%} ({worst['query']}, selectivity {worst['selectivity']:g}{drives}; "
        f"best there: {worst['best']})"
    )


def _points(results: Iterable[Row]) -> list[Row]:
    """One row per point with its codecs' rows; points where a codec failed or had a wrong answer tell nothing."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in results:
        place = (row["drives"], row["joins"], row["selectivity"])
        point = found.setdefault(
            place,
            {
                **dict(zip(("drives", "joins", "selectivity"), place, strict=True)),
                "bandwidth": row["bandwidth"],
                "codecs": {},
            },
        )
        point["codecs"][row["codec"]] = row
    return [
        point
        for point in found.values()
        if "none" in point["codecs"] and all(row["verified"] and row["median_s"] for row in point["codecs"].values())
    ]


def _speedup(point: Row, codec: str) -> float:
    """The speedup of a codec over the light encodings alone."""
    quotient: float = point["codecs"]["none"]["median_s"] / point["codecs"][codec]["median_s"]
    return quotient


def _heavy(points: list[Row]) -> list[str]:
    return [codec for codec in HEAVY if all(codec in point["codecs"] for point in points)]


def _mean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(values)


def _span(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _over_uncompressed(point: Row, codec: str) -> float:
    """Effective bandwidth relative to the drives': above 1, no execution over plain data can be as fast."""
    row = point["codecs"][codec]
    quotient: float = row["plain_bytes"] / row["median_s"] / point["bandwidth"]
    return quotient


def _open(text: str) -> Row:
    return {"verdict": OPEN, "text": text, "numbers": {}}


def _emulated(points: list[Row]) -> tuple[list[Row], list[Row]]:
    """The points with the fewest and with the most drives; nothing where all have the same number."""
    counts = sorted({point["drives"] for point in points if point["drives"] is not None})
    if len(counts) < 2:
        return [], []
    ends = [[point for point in points if point["drives"] == count] for count in (counts[0], counts[-1])]
    return ends[0], ends[1]


def _competition(points: list[Row]) -> Row:
    """Finding 1: heavy codecs where the paper sees competition, and where it does not."""
    hard = [
        point
        for point in points
        if (point["drives"] is None or point["drives"] > DRIVES)
        and point["joins"] > JOINS
        and point["selectivity"] > SELECTIVITY
    ]
    few = min((point["drives"] for point in points if point["drives"] is not None), default=None)
    easy = [point for point in points if few is not None and point["drives"] == few and few <= DRIVES]
    heavy = _heavy(points)
    if not hard or not easy or not heavy:
        return _open(
            f"needs points with more than {DRIVES} drives, {JOINS} joins and a selectivity of {SELECTIVITY}, "
            "and points with fewer drives"
        )
    hard_mean = {codec: _mean(_speedup(point, codec) for point in hard) for codec in heavy}
    easy_mean = {codec: _mean(_speedup(point, codec) for point in easy) for codec in heavy}
    slower = [codec for codec in heavy if hard_mean[codec] < 1 - NOISE]
    declines = [codec for codec in heavy if hard_mean[codec] < easy_mean[codec] * (1 - NOISE)]
    both = [codec for codec in slower if codec in declines]
    verdict = REPRODUCED if len(both) == len(heavy) else REFUTED if not slower and not declines else PARTLY
    light = [_over_uncompressed(point, "none") for point in hard if point["bandwidth"]]
    text = (
        "speed relative to the light encodings alone, there and with the fewest drives: "
        + ", ".join(f"{codec} {hard_mean[codec]:.2f} and {easy_mean[codec]:.2f}" for codec in heavy)
        + f"; slower there: {', '.join(slower) or 'no codec'}; loses as drives, joins and rows grow: "
        + f"{', '.join(declines) or 'no codec'}."
    )
    if light:
        text += f" The light encodings alone have {_span(light)} times the drives' bandwidth there" + (
            "." if min(light) >= 1 else ": below 1, plain data could be faster."
        )
    numbers = {"there": _rounded(hard_mean), "fewest_drives": _rounded(easy_mean)}
    return {"verdict": verdict, "text": text, "numbers": numbers}


def _storage_bound(points: list[Row]) -> Row:
    """Finding 2: one drive against many."""
    few, many = _emulated(points)
    heavy = _heavy(points)
    if not few or not heavy:
        return _open("needs two numbers of drives at least: bandwidth was not limited, or only to one rate")
    codecs = ["none", *heavy]
    # 1: the speedup over the drive equals the compression ratio.
    agreement = {codec: [_over_uncompressed(p, codec) / p["codecs"][codec]["ratio"] for p in few] for codec in codecs}
    follows = all(1 - 4 * NOISE <= _mean(values) <= 1 + 2 * NOISE for values in agreement.values())
    gains = all(_over_uncompressed(point, codec) > 1 for point in few for codec in codecs)
    late = {codec: [_speedup(point, codec) for point in many] for codec in heavy}
    loses = [codec for codec in heavy if min(late[codec]) < 1 - NOISE]
    light = [_over_uncompressed(point, "none") for point in many]
    parts = [follows and gains, bool(loses), _mean(light) > 1]
    verdict = REPRODUCED if all(parts) else REFUTED if not any(parts) else PARTLY
    counts = (few[0]["drives"], many[0]["drives"])
    text = (
        f"With {counts[0]} drive(s), effective bandwidth / (bandwidth x ratio) is "
        + ", ".join(f"{codec} {_span(values)}" for codec, values in agreement.items())
        + ("" if gains else "; not every query is faster than plain data could be")
        + f". With {counts[1]}, speed relative to the light encodings alone is "
        + ", ".join(f"{codec} {_span(values)}" for codec, values in late.items())
        + f", and the light encodings have {_span(light)} times the drives' bandwidth."
    )
    numbers = {
        "agreement": {codec: round(_mean(values), 4) for codec, values in agreement.items()},
        "most_drives": {codec: round(_mean(values), 4) for codec, values in late.items()},
        "light_over_drives": round(_mean(light), 4),
    }
    return {"verdict": verdict, "text": text, "numbers": numbers}


def _utilization(points: list[Row]) -> Row:
    """Finding 3: the fraction of time in query kernels, and the effect of codecs on kernels and query."""
    timed = [point for point in points if all(row.get("kernel_ms") for row in point["codecs"].values())]
    heavy = _heavy(points)
    if not timed or not heavy:
        return _open("kernels were not timed: no query ran on a device")
    few, _ = _emulated(timed)
    chosen = few or timed
    busy = [point["codecs"]["none"]["kernel_ms"] / point["codecs"]["none"]["median_s"] / 1000 for point in chosen]
    kernels = {
        codec: _mean(p["codecs"][codec]["kernel_ms"] / p["codecs"]["none"]["kernel_ms"] for p in chosen)
        for codec in heavy
    }
    faster = {codec: _mean(_speedup(point, codec) for point in chosen) for codec in heavy}
    idle, gains = _mean(busy) < 0.5, any(value > 1 + NOISE for value in faster.values())
    verdict = REPRODUCED if idle and gains else REFUTED if not idle and not gains else PARTLY
    where = f"with {chosen[0]['drives']} drive(s)" if few else "at all points"
    text = (
        f"Query kernels run {min(busy):.1%} to {max(busy):.1%} of the time without a codec, {where}. "
        "With a codec they take "
        + ", ".join(f"{kernels[codec]:.2f} times ({codec})" for codec in heavy)
        + " as long (interference; decompression itself is not in it), and queries are "
        + ", ".join(f"{faster[codec]:.2f} times ({codec})" for codec in heavy)
        + " as fast. Instructions were not counted."
    )
    numbers = {"busy": round(_mean(busy), 4), "kernels": _rounded(kernels), "faster": _rounded(faster)}
    return {"verdict": verdict, "text": text, "numbers": numbers}


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}
