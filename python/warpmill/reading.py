"""Functions of SQL that read files, as texts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from warpmill._warpmill import CatalogError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Options as Python's libraries name them.
_NAMES = {
    "dtype": "types",
    "na_values": "nullstr",
    "skiprows": "skip",
    "quotechar": "quote",
    "escapechar": "escape",
    "date_format": "dateformat",
    "timestamp_format": "timestampformat",
    "decimal": "decimal_separator",
}

Paths = str | os.PathLike[str] | list[str | os.PathLike[str]]


def rows_of(function: str, paths: Paths, options: Mapping[str, object]) -> str:
    """The query of all rows of `paths`, which `function` reads where there are options, or several paths."""
    texts = [os.fspath(path) for path in (paths if isinstance(paths, list) else [paths])]
    for text in texts:
        if "*" not in text and "?" not in text and "://" not in text and not Path(text).exists():
            raise CatalogError(f"no such file: {text}")
    if len(texts) == 1 and not options:
        return f"SELECT * FROM {_literal(texts[0])}"
    given = [f"{_NAMES.get(name, name)} = {_literal(value)}" for name, value in options.items()]
    return f"SELECT * FROM {function}({', '.join([_literal(texts), *given])})"


def _literal(value: object) -> str:
    """A constant of SQL."""
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case str():
            return "'{}'".format(value.replace("'", "''"))
        case list() | tuple():
            return f"[{', '.join(_literal(part) for part in value)}]"
        case dict():
            return f"{{{', '.join(f'{_literal(str(key))}: {_literal(part)}' for key, part in value.items())}}}"
        case _:
            raise TypeError(f"an option of a file cannot be a {type(value).__name__}")
