"""The Python side of the GPU back end: finding NVRTC's wheel."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from warpmill import _gpu

if TYPE_CHECKING:
    import pytest


def test_the_search_path_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _gpu.VARIABLE in os.environ, "importing the package publishes it"
    folder = os.path.dirname(__file__)
    monkeypatch.setattr(sys, "path", ["", folder, "/nonexistent", "archive.zip"])
    monkeypatch.delenv(_gpu.VARIABLE)
    _gpu.publish_search_path()
    assert os.environ[_gpu.VARIABLE] == folder


def test_a_search_path_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_gpu.VARIABLE, "/somewhere")
    _gpu.publish_search_path()
    assert os.environ[_gpu.VARIABLE] == "/somewhere"
