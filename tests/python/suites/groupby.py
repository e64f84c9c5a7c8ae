"""The table of the H2O.ai group-by benchmark: few and many groups, small integers and floats, some NULLs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def tables(rows: int = 100_000, groups: int = 100) -> dict[str, Any]:
    """Table `x`, as the benchmark's generator makes it for G1 with 5 % NULLs."""
    random = np.random.default_rng(108)
    large = rows // groups
    few = random.integers(1, groups + 1, (4, rows))
    many = random.integers(1, large + 1, (2, rows))

    def known(values: Any, kind: Any = None) -> Any:
        return pa.array(values, kind, mask=random.random(rows) < 0.05)

    return {
        "x": pa.table(
            {
                "id1": known([f"id{value:03}" for value in few[0]]),
                "id2": known([f"id{value:03}" for value in few[1]]),
                "id3": known([f"id{value:010}" for value in many[0]]),
                "id4": known(few[2].astype(np.int32)),
                "id5": known(few[3].astype(np.int32)),
                "id6": known(many[1].astype(np.int32)),
                "v1": known(random.integers(1, 6, rows, dtype=np.int32)),
                "v2": known(random.integers(1, 16, rows, dtype=np.int32)),
                "v3": known(np.round(random.random(rows) * 100, 6)),
            }
        )
    }
