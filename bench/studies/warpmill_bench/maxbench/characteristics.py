"""Query complexity and device efficiency: the slope matrix as an outer product (section 4.4 of MaxBench).

An entry a[q, d] of the slope matrix is the time per byte of query q on device d. Where the matrix has rank 1, it is
complexity[q] / efficiency[d]. The slowest device has the efficiency 1 here, so that a complexity is the time per byte
on it, and an efficiency a speedup over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpmill_bench.maxbench.fits import FitError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Rounds of filling missing entries, and the relative change at which they end.
_ROUNDS = 500
_SETTLED = 1e-10


@dataclass(frozen=True)
class Characteristics:
    """The characterization sets of queries and devices, and how far the slope matrix is from rank 1."""

    queries: tuple[str, ...]
    devices: tuple[str, ...]
    #: Seconds per byte on a device of efficiency 1.
    complexity: Floats
    #: Speedup over the slowest device.
    efficiency: Floats
    #: The singular values of the matrix of logarithmically scaled rows and columns, largest first.
    singular_values: Floats
    #: Largest and median relative error of complexity / efficiency over the known entries.
    largest_error: float
    median_error: float
    #: Median relative error of the nearest matrix of rank 1, 2 and so on (equation 7).
    errors_by_rank: tuple[float, ...]

    def slope(self, query: str, device: str) -> float:
        """Seconds per byte as the characteristics say."""
        at, on = self.queries.index(query), self.devices.index(device)
        return float(self.complexity[at] / self.efficiency[on])

    @property
    def share(self) -> float:
        """Part of the sum of squared singular values that the first one has: 1 for rank 1."""
        squares = self.singular_values**2
        return float(squares[0] / squares.sum())


def characterize(slopes: Floats, queries: Sequence[str], devices: Sequence[str]) -> Characteristics:
    """Decompose a slope matrix of positive entries; NaN where a query did not run on a device.

    Raises `FitError` where an entry is not positive, or a query or a device has none.
    """
    known = _checked(slopes, queries, devices)
    filled = complete(slopes)
    left, values, right = _scaled_svd(filled)
    complexity, inverse = left[0], right[0]
    # The slowest device has the largest time per byte.
    unit = float(inverse.max())
    complexity, efficiency = complexity * unit, unit / inverse
    errors = np.abs(np.outer(complexity, 1 / efficiency) - slopes)[known] / slopes[known]
    return Characteristics(
        tuple(queries),
        tuple(devices),
        complexity,
        efficiency,
        values,
        float(errors.max()),
        float(np.median(errors)),
        tuple(
            float(np.median(np.abs(of_rank(filled, rank + 1) / slopes - 1)[known])) for rank in range(min(slopes.shape))
        ),
    )


def of_rank(slopes: Floats, rank: int) -> Floats:
    """The matrix of a rank that is nearest to a complete slope matrix, each row and column scaled (equation 7)."""
    left, _, right = _scaled_svd(slopes)
    found = np.zeros(slopes.shape)
    for at in range(min(rank, len(left))):
        found += np.outer(left[at], right[at])
    return found


def complete(slopes: Floats) -> Floats:
    """Fill missing entries (NaN) with those of the matrix of rank 1 that fits the others best."""
    known = np.isfinite(slopes)
    if known.all():
        return np.array(slopes, float)
    logs = np.where(known, np.log(np.where(known, slopes, 1.0)), 0.0)
    rows, columns = np.zeros(slopes.shape[0]), np.zeros(slopes.shape[1])
    # Alternating least squares of log a[q, d] = row[q] + column[d] over the known entries.
    for _ in range(_ROUNDS):
        new_rows = np.where(known, logs - columns, 0.0).sum(1) / known.sum(1)
        new_columns = np.where(known, logs - new_rows[:, None], 0.0).sum(0) / known.sum(0)
        moved = max(np.abs(new_rows - rows).max(), np.abs(new_columns - columns).max())
        rows, columns = new_rows, new_columns
        if moved < _SETTLED:
            break
    return np.where(known, slopes, np.exp(rows[:, None] + columns))


def efficiency_by_probes(complexity: Floats, slopes: Floats) -> float:
    """Efficiency of a device on which only some queries were measured: the geometric mean of complexity / slope."""
    known = np.isfinite(slopes) & (slopes > 0)
    if not known.any():
        raise FitError("no probe has a slope on this device")
    return float(np.exp(np.mean(np.log(complexity[known] / slopes[known]))))


def _checked(slopes: Floats, queries: Sequence[str], devices: Sequence[str]) -> NDArray[np.bool_]:
    if slopes.shape != (len(queries), len(devices)):
        raise FitError(f"a matrix of {slopes.shape} for {len(queries)} queries and {len(devices)} devices")
    known = np.isfinite(slopes)
    if not slopes.size or (slopes[known] <= 0).any():
        raise FitError("slopes must be more than 0")
    for kind, names, there in (("query", queries, known.any(1)), ("device", devices, known.any(0))):
        if not there.all():
            raise FitError(f"no slope of {kind} {names[int(np.argmin(there))]!r}")
    return known


def _scaled_svd(matrix: Floats) -> tuple[list[Floats], Floats, list[Floats]]:
    """Left and right vectors of all ranks, whose outer products sum to the matrix, and the scaled singular values.

    Rows and columns are divided by their geometric means before the decomposition: the errors that it minimizes are
    relative ones then, while a matrix of rank 1 has the same vectors as without.
    """
    logs = np.log(matrix)
    rows = logs.mean(1) - logs.mean() / 2
    columns = logs.mean(0) - logs.mean() / 2
    u, values, v = np.linalg.svd(np.exp(logs - rows[:, None] - columns), full_matrices=False)
    # The vectors of the largest value have one sign, which is made positive.
    sign = np.sign(u[:, 0].sum()) or 1.0
    left = [np.exp(rows) * u[:, at] * values[at] * sign for at in range(len(values))]
    right = [np.exp(columns) * v[at] * sign for at in range(len(values))]
    return left, values, right
