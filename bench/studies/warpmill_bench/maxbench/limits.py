"""Predictions of the model beyond measured sizes: limits as data grow (section 4.5), and selective transfers (4.3).

Everything is in slopes (seconds per byte of input), which are complexity / efficiency where the slope matrix has
rank 1, and in peak bandwidths (bytes per second).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill_bench.maxbench.fits import Link


@dataclass(frozen=True)
class Workload:
    """The queries of a suite on a device, run one after the other over one data set."""

    #: Bytes of each query's input by the bytes of the data set: w[q].
    weights: tuple[float, ...]
    #: Seconds per byte of each query's input.
    slopes: tuple[float, ...]

    @property
    def computing(self) -> float:
        """Seconds of operators per byte of the data set."""
        return float(np.dot(self.weights, self.slopes))

    def copying(self, bandwidth: Any, per_data_set: bool) -> Any:
        """Seconds of transfers per byte of the data set: of all inputs, or of the data set once."""
        copied = 1.0 if per_data_set else float(np.sum(self.weights))
        return copied / np.asarray(bandwidth, float)

    def transfer_share(self, bandwidth: Any, per_data_set: bool = False) -> Any:
        """Part of the time that transfers take (equation 11, and the same for copies per data set)."""
        copying = self.copying(bandwidth, per_data_set)
        return copying / (copying + self.computing)

    def total(self, bandwidth: Any, per_data_set: bool = False) -> Any:
        """Seconds per byte of the data set."""
        return self.copying(bandwidth, per_data_set) + self.computing

    def crossing(self, per_data_set: bool = False) -> float:
        """Bandwidth beyond which operators take longer than transfers."""
        return float(self.copying(1.0, per_data_set)) / self.computing

    def on(self, speedup: float) -> Workload:
        """The same on a device that is so much faster."""
        return Workload(self.weights, tuple(slope / speedup for slope in self.slopes))


def transfer_share(slope: float, bandwidth: float) -> float:
    """Part of the time of one query that its transfers take (equation 9)."""
    return 1 / (1 + slope * bandwidth)


def speedup(before: tuple[float, float], after: tuple[float, float]) -> float:
    """The speedup of one query, from slopes and bandwidths before and after (the inverse of equation 8's ratio)."""
    (slope, bandwidth), (other, faster) = before, after
    return (1 / bandwidth + slope) / (1 / faster + other)


@dataclass(frozen=True)
class Selection:
    """A filter that the host applies before rows are copied."""

    #: Part of the input's bytes that is left: sigma(s), between 0 (excluded) and 1.
    kept: float
    #: Seconds per byte of input that filtering takes, and seconds for any input.
    filtering: float
    started: float = 0.0

    def seconds(self, size: Any, link: Link) -> Any:
        """Time until the filtered input is on the device (equation 4)."""
        size = np.asarray(size, float)
        return self.filtering * size + self.started + link.seconds(self.kept * size)

    def perceived(self, size: Any, link: Link) -> Any:
        """Bytes of input per second of that time."""
        return np.asarray(size, float) / self.seconds(size, link)

    @property
    def break_even(self) -> float:
        """Peak bandwidth below which filtering on the host pays, for large inputs; infinite where it is free."""
        return (1 - self.kept) / self.filtering if self.filtering > 0 else np.inf


def kept_at(sizes: Sequence[float], kept: Sequence[float], size: float) -> float:
    """sigma(s): the measured values, interpolated between sizes; beyond them, that of the nearest size."""
    order = np.argsort(sizes)
    return float(np.interp(size, np.asarray(sizes, float)[order], np.asarray(kept, float)[order]))
