"""The table of the H2O.ai group-by benchmark: few and many groups, small integers and floats, some NULLs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Rows of a batch, at most.
BATCH = 1_000_000


def tables(rows: int = 100_000, groups: int = 100) -> dict[str, Any]:
    """Table `x`, as the benchmark's generator makes it for G1 with 5 % NULLs."""
    return {"x": pa.concat_tables(batches(rows, groups))}


def batches(rows: int, groups: int = 100) -> Iterator[Any]:
    """The same as tables of at most a million rows, made one after the other."""
    few = pa.array([None, *(f"id{value:03}" for value in range(1, groups + 1))])
    for at, first in enumerate(range(0, rows, BATCH)):
        yield _batch(np.random.default_rng((108, at)), min(BATCH, rows - first), groups, max(rows // groups, 1), few)


def _batch(random: np.random.Generator, rows: int, groups: int, large: int, few: Any) -> Any:
    def known(values: Any) -> Any:
        return pa.array(values, mask=random.random(rows) < 0.05)

    def name() -> Any:
        return few.take(np.where(random.random(rows) < 0.05, 0, random.integers(1, groups + 1, rows)))

    def numbers(count: int) -> Any:
        return known(random.integers(1, count + 1, rows).astype(np.int32))

    return pa.table(
        {
            "id1": name(),
            "id2": name(),
            "id3": known(np.char.add("id", np.char.zfill(random.integers(1, large + 1, rows).astype(str), 10))),
            "id4": numbers(groups),
            "id5": numbers(groups),
            "id6": numbers(large),
            "v1": numbers(5),
            "v2": numbers(15),
            "v3": known(np.round(random.random(rows) * 100, 6)),
        }
    )
