"""Analytical SQL over compressed columnar segments.

>>> import warpmill
>>> con = warpmill.connect()
>>> con.sql("SELECT 1 + 1 AS two").fetchall()
[(2,)]
"""

from warpmill import _cpu, _gpu

_cpu.require()
_gpu.publish_search_path()

from warpmill._warpmill import (  # noqa: E402 - the module must not load on a CPU that cannot run it
    BinderError,
    CatalogError,
    ConflictError,
    ConstraintError,
    CorruptDataError,
    Error,
    ExecutionError,
    FallbackError,
    IngestError,
    InternalError,
    InterruptError,
    IOError,
    LimitError,
    NotSupportedError,
    OutOfMemoryError,
    ParserError,
    SettingError,
    WorkerError,
    __version__,
)
from warpmill.connection import Connection, Notice, TableInfo, connect  # noqa: E402
from warpmill.default import default_connection, execute, read_csv, read_json, read_parquet, sql  # noqa: E402 - as above
from warpmill.relation import Relation  # noqa: E402
from warpmill.udf import FunctionInfo, UserFunction, udaf, udf  # noqa: E402

__all__ = [
    "BinderError",
    "CatalogError",
    "ConflictError",
    "Connection",
    "ConstraintError",
    "CorruptDataError",
    "Error",
    "ExecutionError",
    "FallbackError",
    "FunctionInfo",
    "IOError",
    "IngestError",
    "InternalError",
    "InterruptError",
    "LimitError",
    "NotSupportedError",
    "Notice",
    "OutOfMemoryError",
    "ParserError",
    "Relation",
    "SettingError",
    "TableInfo",
    "UserFunction",
    "WorkerError",
    "__version__",
    "apilevel",
    "connect",
    "default_connection",
    "execute",
    "paramstyle",
    "read_csv",
    "read_json",
    "read_parquet",
    "sql",
    "threadsafety",
    "udaf",
    "udf",
]

# Python's database API (PEP 249): threads may share a connection, parameters are question marks.
apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"
