"""The numeric columns of SSB's fact table at scale factor 100, made in memory: what comparisons of codecs decode.

Ranges, distributions and the repetition of an order's columns on its 1 to 7 lines are those of Warpmill's generator
(crate ``warpmill-datagen``); the random numbers are numpy's, so that they need neither files nor the native module.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Keys of the dimensions at scale factor 100.
CUSTOMERS, SUPPLIERS, PARTS = 3_000_000, 200_000, 1_400_000

#: The columns, in the table's order.
NAMES = (
    "orderkey", "custkey", "partkey", "suppkey", "orderdate", "quantity", "extendedprice", "discount", "revenue",
    "supplycost",
)  # fmt: skip

#: Lines that one thread makes at a time.
_BLOCK = 1 << 22

#: Rows of a segment of Warpmill's tables, which has one frame of reference.
_SEGMENT = 1 << 20


def columns(rows: int, seed: int = 1) -> dict[str, NDArray[np.int32]]:
    """The first `rows` lines; the same for the same seed, whatever the number of threads."""
    out = {name: np.empty(rows, np.int32) for name in NAMES}
    starts = range(0, rows, _BLOCK)
    seeds = np.random.SeedSequence(seed).spawn(len(starts))

    def make(index: int) -> None:
        first = starts[index]
        block = _lines(np.random.default_rng(seeds[index]), min(_BLOCK, rows - first), index)
        for name, values in block.items():
            out[name][first : first + _BLOCK] = values

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        list(pool.map(make, range(len(starts))))
    return out


def _lines(random: np.random.Generator, rows: int, block: int) -> dict[str, NDArray[np.int32]]:
    def between(low: int, high: int, count: int) -> NDArray[np.int32]:
        return random.integers(low, high, count, np.int32, endpoint=True)

    # Lines per order are 4 +- 2: this many orders are enough, and the first line of the next block is a new order.
    orders = _orders(rows)
    numbers = np.arange(orders, dtype=np.int32) + block * _orders(_BLOCK)
    order = np.repeat(np.arange(orders), between(1, 7, orders))[:rows]
    # Customers whose key is a multiple of 3 never order.
    customer = between(0, CUSTOMERS // 3 * 2 - 1, orders)
    part, quantity, discount = between(1, PARTS, rows), between(1, 50, rows), between(0, 10, rows)
    price = 90_000 + part // 10 % 20_001 + 100 * (part % 1000)
    extended = quantity * price
    return {
        "orderkey": (numbers // 8 * 32 + numbers % 8 + 1)[order],
        "custkey": (customer // 2 * 3 + customer % 2 + 1)[order],
        "partkey": part,
        "suppkey": between(1, SUPPLIERS, rows),
        "orderdate": _dates()[between(0, 2405, orders)][order],
        "quantity": quantity,
        "extendedprice": extended,
        "discount": discount,
        "revenue": extended * (100 - discount) // 100,
        "supplycost": 6 * price // 10,
    }


def _orders(rows: int) -> int:
    return rows // 4 + rows // 64 + 64


def _dates() -> NDArray[np.int32]:
    """1992-01-01 .. 1998-08-02 as YYYYMMDD."""
    days = np.datetime64("1992-01-01") + np.arange(2406)
    months = days.astype("datetime64[M]")
    years = days.astype("datetime64[Y]").astype(int) + 1970
    day = (days - months).astype(int) + 1
    return np.asarray(10_000 * years + 100 * (months.astype(int) % 12 + 1) + day, np.int32)


def width(values: NDArray[np.int32]) -> int:
    """Bits per value with a frame of reference per segment: the widest segment's."""
    spans = (int(part.max()) - int(part.min()) for part in np.split(values, range(_SEGMENT, len(values), _SEGMENT)))
    return max(span.bit_length() for span in spans)
