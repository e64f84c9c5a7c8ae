from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

# Plans follow assumed rates, not those that somebody has measured on this machine; read by the first query.
os.environ.setdefault("WARPMILL_HARDWARE", "")


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as connection:
        yield connection
