"""The answer of an engine to a statement: columns and rows, or an error."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]

#: Types whose values Python types cannot represent completely: infinite dates, nanoseconds, months of intervals.
_BEYOND_PYTHON = ("DATE", "TIME", "INTERVAL")


@dataclass(frozen=True)
class Failure:
    """An error: the exception's class and its text."""

    kind: str
    text: str

    @property
    def first_line(self) -> str:
        """The text up to the first line's end."""
        return (self.text.splitlines() or [""])[0]


@dataclass(frozen=True)
class Answer:
    """Columns and rows, or an error."""

    names: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    failure: Failure | None = None

    def brief(self) -> str:
        """The answer in a line, cut short."""
        if self.failure is not None:
            return f"{self.failure.kind}: {self.failure.first_line}"[:300]
        shown = ", ".join(str(row) for row in self.rows[:4])
        more = f", ... ({len(self.rows)} rows)" if len(self.rows) > 4 else ""
        return f"{shown}{more}"[:400] or "no rows"


def failed(error: BaseException) -> Answer:
    """The answer that an exception is."""
    return Answer(failure=Failure(type(error).__name__, str(error)))


def fetched(connection: Any, exact: bool) -> Answer:
    """The rows of a DuckDB connection's last statement; `exact`: dates, times and intervals as integers."""
    described = connection.description or []
    names = tuple(str(column[0]) for column in described)
    types = tuple(str(column[1]) for column in described)
    if exact and any(word in text for text in types for word in _BEYOND_PYTHON):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = connection.to_arrow_table()
        columns = [_values(column) for column in table.columns]
        return Answer(names, types, tuple(zip(*columns, strict=True)))
    return Answer(names, types, tuple(tuple(plain(value) for value in row) for row in connection.fetchall()))


def plain(value: Any) -> Any:
    """A value of Python with its containers made comparable: lists and dicts become tuples."""
    if isinstance(value, dict):
        return ("dict", *((plain(key), plain(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return value


def _values(column: pa.ChunkedArray) -> list[Any]:
    return [value for chunk in column.chunks for value in _array(chunk)]


def _array(array: Any) -> list[Any]:
    """Values of an Arrow array, exact: temporal values as the integers that they are."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        signed = "type_name=hugeint" in str(kind)
        values = _array(array.storage)
        if "hugeint" not in str(kind):
            return values
        return [None if v is None else int.from_bytes(v, "little", signed=signed) for v in values]
    if pa.types.is_dictionary(kind):
        return _array(array.dictionary_decode())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind):
        return _numbers(array, pa.int64())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return _numbers(array, pa.int32())
    if pa.types.is_map(kind):
        pairs = list(zip(_array(array.keys), _array(array.items), strict=True))
        return _cut(array, pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _cut(array, _array(array.values))
    if pa.types.is_fixed_size_list(kind):
        items, size = _array(array.values), kind.list_size
        starts = [(array.offset + at) * size for at in range(len(array))]
        valid = array.is_valid().to_pylist()
        return [tuple(items[s : s + size]) if ok else None for s, ok in zip(starts, valid, strict=True)]
    if pa.types.is_struct(kind):
        fields = [_array(child) for child in array.flatten()]
        names = [kind.field(at).name for at in range(kind.num_fields)]
        valid = array.is_valid().to_pylist()
        rows = zip(*fields, strict=True) if fields else [()] * len(array)
        pairs_of = (("dict", *zip(names, row, strict=True)) for row in rows)
        return [row if ok else None for row, ok in zip(pairs_of, valid, strict=True)]
    if pa.types.is_union(kind):
        codes = array.type_codes.to_pylist()
        fields = [_array(array.field(at)) for at in range(kind.num_fields)]
        return [(kind.field(code).name, fields[code][at]) for at, code in enumerate(codes)]
    return [plain(value) for value in array.to_pylist()]


def _numbers(array: Any, kind: Any) -> list[Any]:
    numbers: list[Any] = array.view(kind).to_pylist()
    return numbers


def _cut(array: Any, items: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [tuple(items[offsets[at] : offsets[at + 1]]) if ok else None for at, ok in enumerate(valid)]
