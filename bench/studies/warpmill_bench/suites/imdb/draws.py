"""Random numbers of a table, and columns of text that are made from them without a loop over rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]

#: The beginning of all seeds.
SEED = 1989

#: The first year in columns of text.
FIRST_YEAR = 1880
_YEARS = pa.array([str(year) for year in range(FIRST_YEAR, 2100)])


class Draws:
    """The random numbers of a table: the same in every run, independent of other tables."""

    def __init__(self, table: str) -> None:
        self.random = np.random.default_rng((SEED, *table.encode()))

    def chance(self, part: float | Array, rows: int) -> Array:
        """Select rows at random, each with the probability `part`."""
        return self.random.random(rows) < part

    def below(self, count: int, rows: int) -> Array:
        """Draw numbers from 0 to `count` - 1, all with the same probability."""
        return self.random.integers(0, count, rows)

    def skewed(self, count: int | Array, rows: int, power: float = 2.0) -> Array:
        """Draw numbers below `count`, small ones most often: the frequency of n is about n ** (1 / power - 1)."""
        numbers: Array = (count * self.random.random(rows) ** power).astype(np.int64)
        return np.asarray(np.minimum(numbers, np.maximum(count, 1) - 1))

    def weighted(self, weights: Sequence[float] | Array, rows: int) -> Array:
        """Draw indices of `weights`, with these weights as frequencies."""
        return self.by_class(np.asarray(weights, dtype=float)[np.newaxis, :], np.zeros(rows, np.int64))

    def by_class(self, weights: Array, classes: Array) -> Array:
        """Draw for each row a column of `weights`, with the row of `weights` for its class as frequencies."""
        ends = np.cumsum(weights, axis=1)
        ends /= ends[:, -1:]
        # One sorted array has the cumulative weights of all classes; those of class n are between n and n + 1.
        flat = (ends + np.arange(len(weights))[:, np.newaxis]).ravel()
        found = np.searchsorted(flat, classes + self.random.random(len(classes)), side="right")
        return np.asarray(np.minimum(found - classes * weights.shape[1], weights.shape[1] - 1))

    def counts(self, means: Array) -> Array:
        """Draw a number of rows for each mean."""
        return self.random.poisson(means)


class Lists:
    """Lists of values, one for each class; a value's number is its position in the concatenation of the lists."""

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self.values = tuple(value for one in lists for value in one)
        self._sizes = np.array([len(one) for one in lists])
        self._begins = np.cumsum(self._sizes) - self._sizes

    def some(self, draws: Draws, classes: Array, power: float = 1.7) -> Array:
        """Draw for each row the number of a value of its class, the first values of a list most often."""
        return np.asarray(self._begins[classes] + draws.skewed(self._sizes[classes], len(classes), power))


def zipf(count: int, exponent: float = 1.0) -> Array:
    """Weights that decrease with the rank."""
    return np.asarray(np.arange(1, count + 1, dtype=float) ** -exponent)


def ids(rows: int) -> Array:
    """Keys from 1."""
    return np.arange(1, rows + 1, dtype=np.int32)


def keys(numbers: Array, null: Array | None = None) -> Any:
    """Keys of objects with numbers from 0; NULL for the rows of `null`."""
    return pa.array(numbers.astype(np.int32) + np.int32(1), mask=null)


def pick(values: Sequence[str | None] | Any, numbers: Array, null: Array | None = None) -> Any:
    """Texts by their numbers; NULL for the rows of `null`."""
    texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    return texts.take(pa.array(numbers, mask=null))


def years(numbers: Array) -> Any:
    """Years as texts."""
    return _YEARS.take(pa.array(numbers - FIRST_YEAR))


def joined(*parts: Any) -> Any:
    """Concatenated texts; NULL if a part is NULL."""
    return pc.binary_join_element_wise(*parts, "")


def repeated(counts: Array) -> Array:
    """The index of each count, repeated as often as the count says."""
    return np.repeat(np.arange(len(counts)), counts)


def lookup(column: str, values: Sequence[str]) -> Any:
    """A table of names by key."""
    return pa.table({"id": ids(len(values)), column: pa.array(values, pa.string())})
