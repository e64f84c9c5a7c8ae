"""Python functions of groups as C++ (docs/udf.md): a restricted language, with Python's meaning.

The text is a template over the group's threads (one, a warp, a block), and is made for the types of a call's columns.
What has no translation is a `NotCompiled` with its line. Where Python would raise an exception or go beyond 64 bits,
the compiled function gives up the group, and Python is asked (`value.cuh` of the engine's kernels).
"""

from __future__ import annotations

from warpmill.udf.compiled.translation import Translator
from warpmill.udf.compiled.types import NotCompiled

__all__ = ["NotCompiled", "Translator"]
