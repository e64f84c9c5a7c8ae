from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as connection:
        yield connection
