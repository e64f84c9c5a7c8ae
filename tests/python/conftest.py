from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Iterator

# Plans use default rates instead of this machine's measured ones; read by the first query.
os.environ.setdefault("WARPMILL_HARDWARE", "")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark test cases slow, except each n-th of those with a mark `sample(n, parameter=values)`.

    The marked ones are slow only where `WARPMILL_QUICK` asks for fewer tests, as CI does.
    """
    quick = "WARPMILL_QUICK" in os.environ
    seen: Counter[str] = Counter()
    for item in items:
        if quick and item.get_closest_marker("long"):
            item.add_marker("slow")
        for mark in item.iter_markers("sample"):
            params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
            if all(str(params[name]) in values for name, values in mark.kwargs.items()):
                key = f"{item.nodeid.partition('[')[0]} {mark}"
                if seen[key] % mark.args[0]:
                    item.add_marker("slow")
                seen[key] += 1


@pytest.fixture
def con() -> Iterator[warpmill.Connection]:
    with warpmill.connect() as connection:
        yield connection
