"""The settings with which the native module finds the GPU's kernel compiler (NVRTC) among the installed wheels."""

from __future__ import annotations

import os
import sys

#: Folders, as in PYTHONPATH, in which the native module looks for `nvidia/cu13/lib` and the like.
VARIABLE = "WARPMILL_PYTHON_PATH"


def publish_search_path() -> None:
    """Pass `sys.path` to the native module; a variable that the user has set is kept."""
    os.environ.setdefault(VARIABLE, os.pathsep.join(path for path in sys.path if os.path.isdir(path)))
