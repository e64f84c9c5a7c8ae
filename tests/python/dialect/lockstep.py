"""Runs a case on Warpmill and on DuckDB, and says how the answers differ."""

from __future__ import annotations

import math
import re
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import pyarrow as pa

import warpmill
from warpmill.bench.child import arrow_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from dialect.case import Case

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """The answer of an engine: columns with types, rows, or an error."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"error: {self.error}" if self.error else f"{self.names} {self.types} {list(self.rows)}"


class Engine(Protocol):
    """A connection of either engine."""

    def sql(self, query: str) -> Any: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Comparison:
    """Both answers, and their differences in rows (or errors), and in types."""

    ours: Answer
    theirs: Answer
    rows: str | None
    types: str | None


def compare(case: Case) -> Comparison:
    """Run a case on both engines."""
    with tempfile.TemporaryDirectory() as folder:
        theirs = _run(case, lambda: _duckdb(case, folder))
        ours = _run(case, lambda: warpmill.connect(Path(folder, "warp") if case.reopened else None))
    if ours.error or theirs.error:
        found = None if ours.error and theirs.error else "only one engine fails"
        return Comparison(ours, theirs, found, None)
    return Comparison(ours, theirs, rows_differ(ours, theirs, case.sql), types_differ(ours, theirs))


def _duckdb(case: Case, folder: str) -> Engine:
    """A connection to an empty database of DuckDB, which is a new one where the case may write into it."""
    if case.reopened:
        return duckdb.connect(str(Path(folder, "duck.db")))
    reads = not case.setup and case.sql.split(maxsplit=1)[0].upper() in ("SELECT", "FROM", "VALUES", "WITH")
    return _empty().cursor() if reads else duckdb.connect()


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    """A database that stays empty: making one takes longer than most statements."""
    return duckdb.connect()


def _run(case: Case, connect: Callable[[], Engine]) -> Answer:
    con = connect()
    at = ""
    try:
        for at in case.setup:
            con.sql(at)
        if case.reopened:
            con.close()
            con = connect()
        at = case.sql
        return answer_of(con.sql(at))
    except (duckdb.Error, warpmill.Error) as error:
        if at != case.sql and isinstance(error, duckdb.Error):
            raise ValueError(f"DuckDB does not run the setup: {at}") from error
        return Answer(error=str(error))
    finally:
        con.close()


def answer_of(result: Any) -> Answer:
    """The columns, types and rows of either engine's result."""
    if result is None:
        return Answer()
    if isinstance(result, duckdb.DuckDBPyRelation):
        kinds = [str(kind) for kind in result.types]
        fields = result.limit(0).to_arrow_table().schema
        types = ["integer" if "HUGEINT" in kind else _family(at.type) for kind, at in zip(kinds, fields, strict=True)]
        # DuckDB makes Python values of moments in time with the package pytz only.
        rows = arrow_rows(result.to_arrow_table()) if "TIME ZONE" in " ".join(kinds) else result.fetchall()
    else:
        types = [_family(column.type) for column in result.arrow().schema]
        rows = result.fetchall()
    return Answer(tuple(result.columns), tuple(types), tuple(rows))


def _family(kind: Any) -> str:
    """The meaning of a type to a reader of its values: widths and encodings left out."""
    if isinstance(kind, pa.BaseExtensionType):
        return str(kind.extension_name)
    if pa.types.is_dictionary(kind):
        return _family(kind.value_type)
    if pa.types.is_decimal(kind):
        return f"decimal with {kind.scale} digits"
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list of {_family(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "struct of " + ", ".join(f"{field.name} {_family(field.type)}" for field in kind)
    families = {
        "integer": pa.types.is_integer,
        "float": pa.types.is_floating,
        "text": lambda kind: str(kind) in ("string", "large_string", "string_view"),
        "bytes": lambda kind: str(kind) in ("binary", "large_binary", "binary_view"),
        "date": pa.types.is_date,
        "time": pa.types.is_time,
    }
    return next((name for name, test in families.items() if test(kind)), str(kind))


def types_differ(ours: Answer, theirs: Answer) -> str | None:
    """The first column whose types differ."""
    for name, left, right in zip(theirs.names, ours.types, theirs.types, strict=True):
        # An integer of 128 bits is a decimal without a point in Arrow.
        if left != right and (left, right) != ("decimal with 0 digits", "integer"):
            return f"{name} is {left}, DuckDB's {right}"
    return None


def rows_differ(ours: Answer, theirs: Answer, sql: str) -> str | None:
    """The first difference in names or rows of the answers to `sql`."""
    if len(ours.names) != len(theirs.names):
        return f"{len(ours.names)} columns, expected {len(theirs.names)}"
    for left, right in zip(ours.names, theirs.names, strict=True):
        # Columns that the query does not name are called after their expression, which each engine prints its way.
        if right.isidentifier() and left.lower() != right.lower():
            return f"column {left}, expected {right}"
    if len(ours.rows) != len(theirs.rows):
        return f"{len(ours.rows)} rows, expected {len(theirs.rows)}"
    ordered = re.search(r"\border\s+by\b(?!.*\))", sql, re.IGNORECASE | re.DOTALL)
    pair = [rows if ordered else sorted(rows, key=_rank) for rows in (ours.rows, theirs.rows)]
    for left_row, right_row in zip(*pair, strict=True):
        if not all(_equal(left, right) for left, right in zip(left_row, right_row, strict=True)):
            return f"row {left_row}, expected {right_row}"
    return None


def _equal(left: Any, right: Any) -> bool:
    """Equal to the last digit; floats but for their last two."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-14) or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(map(_equal, left.values(), right.values()))
    return bool(left == right)


def _rank(row: Row) -> list[tuple[int, str]]:
    ranks = []
    for value in row:
        number = isinstance(value, int | float | Decimal)
        ranks.append((0, "") if value is None else (1, f"{float(value):.6e}") if number else (2, str(value)))
    return ranks
