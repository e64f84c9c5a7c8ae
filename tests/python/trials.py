"""How many random cases tests try."""

from __future__ import annotations

import os

#: Multiplies the numbers that CI has time for; `make test-slow` sets it.
FACTOR = float(os.environ.get("WARPMILL_TRIALS", "1"))


def trials(usual: int, variable: str | None = None, *, most: int | None = None) -> int:
    """`usual` times `WARPMILL_TRIALS`, and at most `most`; or the number in `variable` of the environment."""
    asked = os.environ.get(variable) if variable is not None else None
    number = int(asked) if asked is not None else max(round(usual * FACTOR), 1)
    return number if most is None else min(number, most)
