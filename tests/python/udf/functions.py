"""Functions of which compiled texts are kept: tests of the engine's kernels run them in all ways that devices have."""

from __future__ import annotations

import math
from typing import Any


def compounded(x: Any) -> Any:
    """Interest upon interest: a loop."""
    product = 1.0
    for value in x:
        product *= 1 + value / 100
    return product - 1


def centred(x: Any, y: Any) -> Any:
    """Reductions whose rows use results of others, a choice of rows, a branch."""
    spread = ((x - x.mean()) ** 2).sum()
    chosen = y[x > x.mean()]
    if chosen.count() > 2:
        return math.sqrt(spread) + chosen.max()
    return spread + y.sum() - x.idxmin()


#: Each function, and the types of its columns.
KEPT = {compounded: ["DOUBLE"], centred: ["DOUBLE", "BIGINT"]}
