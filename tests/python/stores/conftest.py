from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from warpmill import _warpmill

from .server import Store, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

HAS_SIMULATED = json.loads(_warpmill.devices())["no_simulated_device"] is None


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A separate server; requests bypass proxies, and the environment is not used."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    store, server = serve()
    yield store
    store.released.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(
    params=["cpu", pytest.param("sim", marks=pytest.mark.skipif(not HAS_SIMULATED, reason="no C++ compiler"))]
)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)
