"""Functions that Numba compiles: lists, dictionaries, tuples, functions within and outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def trimmed(x: Any) -> Any:
    """A mean without the extremes: a sorted list, a slice, a result that may be NULL."""
    values = sorted(x.dropna().to_list())
    cut = len(values) // 10
    kept = values[cut : len(values) - cut]
    return sum(kept) / len(kept) if kept else None


def modal(y: Any) -> Any:
    """The most frequent value: a dictionary, a loop that skips NULLs."""
    counts: dict[Any, int] = {}
    for v in y:
        if v is None:
            continue
        if v in counts:
            counts[v] += 1
        else:
            counts[v] = 1
    best, most = None, 0
    for v, n in counts.items():
        if n > most or (n == most and best is not None and v < best):
            best, most = v, n
    return best


def damped(a: Any, b: Any) -> Any:
    """A function that another one calls."""
    return (a - b) ** 2 if a > b else a * b


def helped(x: Any, y: Any) -> Any:
    """A function of this module, called for each pair."""
    t = 0.0
    for v, w in zip(x.dropna(), y.dropna()):  # noqa: B905 - of other lengths
        t += damped(v, w)
    return t


def spread(x: Any) -> Any:
    """A function within, a comprehension, extremes of a list."""

    def curve(v: Any) -> Any:
        return v * v - 1

    values = [curve(v) for v in x if v is not None]
    return max(values) - min(values) if len(values) > 0 else 0.0


def highest(x: Any) -> Any:
    """A tuple, an index of NULLs."""
    best = (-100.0, 0)
    for i in range(len(x)):
        if x[i] is not None and x[i] > best[0]:
            best = (x[i], i)
    return best[0]


def ranked(x: Any) -> Any:
    """A sort downwards, with positions."""
    t = 0.0
    for i, v in enumerate(sorted([v for v in x if v is not None and v == v], reverse=True)):
        t += v / (i + 1)
    return t


def tail(x: Any, part: float = 90) -> Any:
    """A function of numpy, a default."""
    values = np.array(x.dropna().to_list())
    return np.percentile(values, part) - np.percentile(values, 50) if len(values) else None


def alike_runs(x: Any, y: Any) -> Any:
    """The longest common subsequence: lists that change."""
    a = [int(v) for v in x.dropna()]
    b = y.dropna().to_list()
    row = [0] * (len(b) + 1)
    for u in a:
        before = 0
        for j in range(len(b)):
            old = row[j + 1]
            row[j + 1] = before + 1 if u == b[j] else max(row[j + 1], row[j])
            before = old
    return row[-1]


def reduced(x: Any, y: Any) -> Any:
    """All reductions, in a list."""
    values = [x.sum(), float(x.count()), float(len(x)), float(y.sum())]
    if x.count() > 2 and y.count() > 0:
        values += [x.mean(), x.var(), x.std(ddof=0), x.median(), x.min(), float(y.max())]
    total = 0.0
    for v in values:
        total = total / 2 + v
    return total


def entropy(y: Any) -> Any:
    """Logarithms, a dictionary's values, an early end."""
    counts: dict[Any, int] = {}
    for v in y:
        if v is not None:
            counts[v] = counts[v] + 1 if v in counts else 1
    many = sum(counts.values())
    if many == 0:
        return None
    return -sum([n / many * math.log2(n / many) for n in counts.values()])


#: Each function, and the types of its columns.
ALL = {
    trimmed: ["x"],
    modal: ["y"],
    helped: ["x", "y"],
    spread: ["x"],
    highest: ["x"],
    ranked: ["x"],
    tail: ["x"],
    alike_runs: ["x", "y"],
    reduced: ["x", "y"],
    entropy: ["y"],
}
