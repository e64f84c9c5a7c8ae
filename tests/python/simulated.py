"""The simulated device in tests: those that need it are skipped where there is no C++ compiler."""

from __future__ import annotations

import json

import pytest

from warpmill import _warpmill

_MISSING = json.loads(_warpmill.devices())["no_simulated_device"]

needs_sim = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))
