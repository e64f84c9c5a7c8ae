from __future__ import annotations

from typing import TYPE_CHECKING

import os

# Plans follow assumed rates, not those that somebody has measured on this machine; read when the engine is loaded.
os.environ.setdefault("WARPMILL_HARDWARE", "")

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as connection:
        yield connection
