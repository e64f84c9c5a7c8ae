"""Curves through measurements: the bandwidth of a link by size, the time of a query by the bytes of its input.

All fits minimize relative errors, so that small sizes count as much as large ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class FitError(ValueError):
    """The measurements do not determine the curve; the message says what is missing."""


@dataclass(frozen=True)
class Link:
    """A path between two memories: B(s) = bmax * s / (s + s0), in bytes and seconds (equation 1 of MaxBench)."""

    bmax: float
    s0: float

    def bandwidth(self, size: Any) -> Any:
        """Bytes per second that a transfer of a size reaches."""
        return self.bmax * np.asarray(size, float) / (np.asarray(size, float) + self.s0)

    def seconds(self, size: Any, copies: Any = 1.0) -> Any:
        """Time of a transfer of a size: s / B(s); in several copies, each has its own. Nothing takes no time."""
        size = np.asarray(size, float)
        return np.where(size > 0, (size + np.asarray(copies, float) * self.s0) / self.bmax, 0.0)

    def size_at(self, part: float) -> float:
        """Size at which so large a part of the peak bandwidth is reached, between 0 and 1 (both excluded)."""
        return self.s0 * part / (1 - part)


@dataclass(frozen=True)
class Handling:
    """Overlap of copies with computing, and the cost of each copy besides its transfer."""

    #: Part of the shorter of computing and copying that runs beside the longer: 0 is one after the other, 1 all of it.
    overlap: float = 0.0
    #: Seconds of each copy that its link does not have: it is begun, and its rows are a piece of work of their own.
    each: float = 0.0

    def total(self, computing: Any, copying: Any, copies: Any) -> Any:
        """The time of computing and copying together."""
        shorter = np.minimum(computing, copying)
        return computing + copying - self.overlap * shorter + self.each * np.asarray(copies, float)


@dataclass(frozen=True)
class Line:
    """Time of a query on a device by the bytes of its input: a * s + b, in seconds (equation 3)."""

    a: float
    b: float

    def seconds(self, size: Any) -> Any:
        """Time at a size."""
        return self.a * np.asarray(size, float) + self.b


def link(sizes: Sequence[float], seconds: Sequence[float]) -> Link:
    """Fit a link to transfers.

    s / B(s) is linear in s, with the slope 1 / bmax and the intercept s0 / bmax; neither is negative.

    Raises `FitError` where there are fewer than two sizes, or time does not grow with size.
    """
    slope, intercept = _line(sizes, seconds)
    if slope <= 0:
        raise FitError("times of transfers do not grow with their size: larger transfers are needed")
    return Link(1 / slope, intercept / slope)


def line(sizes: Sequence[float], seconds: Sequence[float]) -> Line:
    """Fit a line to times of a query; neither its slope nor its intercept is negative.

    Raises `FitError` where there are fewer than two sizes.
    """
    return Line(*_line(sizes, seconds))


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Slope and intercept, each at least 0, with the least sum of squared relative errors."""
    x, y = np.asarray(sizes, float), np.asarray(seconds, float)
    if x.shape != y.shape:
        raise FitError(f"{x.size} sizes for {y.size} times")
    if not (np.isfinite(x).all() and np.isfinite(y).all()) or (y <= 0).any() or (x < 0).any():
        raise FitError("sizes must be at least 0, and times more than 0")
    if len(np.unique(x)) < 2:
        raise FitError(f"{len(np.unique(x))} size: a line needs two")
    # In units of the largest size, so that both columns are of about the same magnitude.
    unit = float(x.max())
    scaled = np.stack([x / unit / y, 1 / y], axis=1)
    ones = np.ones_like(y)
    (slope, intercept), *_ = np.linalg.lstsq(scaled, ones, rcond=None)
    # The problem is convex: where a bound is crossed, the best solution lies on it.
    if intercept < 0:
        slope, intercept = _along(scaled[:, 0], ones), 0.0
    elif slope < 0:
        slope, intercept = 0.0, _along(scaled[:, 1], ones)
    return float(slope) / unit, float(intercept)


def parts(columns: Sequence[Sequence[float]], seconds: Sequence[float]) -> Floats:
    """Weights of columns whose sum is nearest to times: none is negative, and relative errors are least."""
    y = np.asarray(seconds, float)
    scaled = np.asarray(columns, float) / y[:, None]
    if not len(y):
        raise FitError("no time to fit to")
    best, least = np.zeros(scaled.shape[1]), float(len(y))
    # The few columns allow for trying all sets of those that are not 0.
    for chosen in (list(at) for count in range(1, scaled.shape[1] + 1) for at in combinations(range(len(best)), count)):
        found, *_ = np.linalg.lstsq(scaled[:, chosen], np.ones_like(y), rcond=None)
        error = float(((scaled[:, chosen] @ found - 1) ** 2).sum())
        if (found >= 0).all() and error < least:
            best, least = np.zeros(len(best)), error
            best[chosen] = found
    return best


def _along(column: Floats, wanted: Floats) -> float:
    norm = float(column @ column)
    return float(column @ wanted) / norm if norm > 0 else 0.0


def handling(
    computing: Sequence[float], copying: Sequence[float], copies: Sequence[float], total: Sequence[float]
) -> Handling:
    """Fit overlap and the cost of each copy to total times; MaxBench's model has neither.

    The overlap is between 0 and 1, and the cost is not negative.
    """
    op, comm, count, wall = (np.asarray(values, float) for values in (computing, copying, copies, total))
    if not len(wall):
        raise FitError("no run has copies")
    # In units of the mean cost of a copy, so that both columns are of about the same magnitude.
    unit = float(np.mean(wall)) / max(float(np.mean(count)), 1.0)
    columns = np.stack([-np.minimum(op, comm) / wall, unit * count / wall], axis=1)
    wanted = (wall - op - comm) / wall
    found, *_ = np.linalg.lstsq(columns, wanted, rcond=None)
    if not (0 <= found[0] <= 1 and found[1] >= 0):
        # The problem is convex: the best solution lies on a bound.
        sides = [_with_overlap(columns, wanted, fixed) for fixed in (0.0, 1.0)]
        sides.append(np.array([np.clip(_along(columns[:, 0], wanted), 0.0, 1.0), 0.0]))
        found = min(sides, key=lambda side: float(((columns @ side - wanted) ** 2).sum()))
    return Handling(float(found[0]), float(found[1]) * unit)


def _with_overlap(columns: Floats, wanted: Floats, fixed: float) -> Floats:
    """The best solution with a given overlap."""
    return np.array([fixed, max(_along(columns[:, 1], wanted - fixed * columns[:, 0]), 0.0)])
