"""DuckDB's extension `warpmill`: location and loading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

_FOLDER = Path(__file__).parent / "extension"


def extension_path() -> Path:
    """The file for `LOAD '...'` in any DuckDB client of this machine.

    The client must allow unsigned extensions: `duckdb -unsigned`, or `allow_unsigned_extensions` when it connects.
    """
    return _FOLDER / "warpmill.duckdb_extension"


def supported_versions() -> list[str]:
    """The DuckDB versions in which SELECTs are accelerated."""
    names = sorted(path.name for path in _FOLDER.glob("warpmill_shim-v*.so"))
    return [name.removeprefix("warpmill_shim-v").removesuffix(".so") for name in names]


def accelerate(connection: Any) -> Any:
    """Loads the extension into the database of `connection`, which is returned.

    Every connection to that database is accelerated from then on. A second call does nothing.

    Raises:
        duckdb.PermissionException: the database does not allow unsigned extensions, which only `connect` can allow.
        duckdb.InvalidInputException: there is no shim for this DuckDB version.

    """
    path = extension_path()
    if not path.exists():
        message = f"{path} is not there: this installation of warpmill was built without its DuckDB extension"
        raise duckdb.InvalidInputException(message)
    quoted = str(path).replace("'", "''")
    # A cursor, so that pending results of the connection are kept.
    cursor = connection.cursor()
    try:
        cursor.execute(f"LOAD '{quoted}'")
        if not cursor.execute("FROM duckdb_settings() WHERE name = 'warpmill_enabled'").fetchall():
            message = (
                f"plain SELECTs are accelerated in DuckDB {', '.join(supported_versions())}, and this is "
                f"{duckdb.__version__}: FROM warpmill('SELECT ...') works here (docs/duckdb.md)"
            )
            raise duckdb.InvalidInputException(message)
    except duckdb.IOException as error:
        if "signature" not in str(error) and "unsigned" not in str(error):
            raise
        message = (
            "this database does not load unsigned extensions, and only opening it can allow that: use "
            "warpmill.duckdb.connect(...), or duckdb.connect(..., config={'allow_unsigned_extensions': 'true'})"
        )
        raise duckdb.PermissionException(message) from error
    finally:
        cursor.close()
    return connection
