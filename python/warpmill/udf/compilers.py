"""The compilers of a function: Warpmill's own translator to C++, and Numba for what that one refuses."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from warpmill.udf.compiled import Translator
    from warpmill.udf.numba import NumbaTranslator

#: A text of C++ with its constants and lines; or what compiles, a function that does, and whether it has; or a reason.
Found = tuple[str, list[int], list[float], list[int]] | tuple[str, "Callable[[], int | str]", bool] | str


class Compilers:
    """The translation of one function for any types of its columns."""

    def __init__(
        self,
        own: Translator | None,
        numba: NumbaTranslator | None = None,
        *,
        refused: str | None = None,
        eager: bool = False,
        strict: bool = False,
    ) -> None:
        """`refused`: why there is no `own`.

        `eager`: Numba compiles before the query runs, whatever its rows; `strict`: what it refuses is an error.
        """
        self._own = own
        self._numba = numba
        self._refused = refused
        self._eager = eager
        self._strict = strict

    @property
    def description(self) -> str | None:
        """What compiles the function whatever the types, if that is not Warpmill itself."""
        return None if self._numba is None or self._refused is None else _by_numba(self._refused)

    def __call__(self, types: Sequence[str]) -> Found:
        """The translation for columns of these types ("DOUBLE", "BIGINT", "BOOLEAN"), or why there is none."""
        found = self._refused if self._own is None else self._own(types)
        if self._numba is None or not (found is None or isinstance(found, str)):
            return found or ""
        code = functools.partial(self._address, tuple(types))
        if self._eager and isinstance(reason := code(), str):
            if self._strict:
                raise ValueError(f"it is not compiled: {reason}")
            return reason
        return _by_numba(found), code, self._eager

    def _address(self, types: tuple[str, ...]) -> int | str:
        assert self._numba is not None
        made = self._numba(types)
        return made if isinstance(made, str) else made[0]


def _by_numba(reason: str | None) -> str:
    return "by Numba" if reason is None else f"by Numba ({reason})"
