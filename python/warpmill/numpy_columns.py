"""Columns as NumPy arrays and pandas frames, with the types that DuckDB gives them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
from pyarrow import compute, types

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas

#: Days of a month of an interval.
_MONTH = 30

Column = Any  # numpy.ndarray or numpy.ma.MaskedArray, of any type.


def columns(table: pyarrow.Table) -> dict[str, Column]:
    """The columns by name; columns with NULLs are masked arrays."""
    arrays = [_with_masked_texts(column) for column in table.columns]
    return dict(zip(_names(table.column_names), arrays, strict=True))


def _with_masked_texts(column: pyarrow.ChunkedArray) -> Column:
    array = array_of(column)
    if column.null_count == 0 or isinstance(array, numpy.ma.MaskedArray):
        return array
    return numpy.ma.MaskedArray(array, mask=[value is None for value in array])


def frame(table: pyarrow.Table) -> pandas.DataFrame:
    """The rows as a pandas frame."""
    import pandas

    series = {number: _series(column) for number, column in enumerate(table.columns)}
    made = pandas.DataFrame(series, index=pandas.RangeIndex(table.num_rows))
    made.columns = pandas.Index(_names(table.column_names))
    return made


def _names(names: Sequence[str]) -> list[str]:
    """Unique names, compared without regard to case."""
    found: dict[str, str] = {}
    for name in names:
        unique, tries = name, 0
        while unique.lower() in found:
            tries += 1
            unique = f"{name}_{tries}"
        found[unique.lower()] = unique
    return list(found.values())


def _series(column: pyarrow.ChunkedArray) -> Any:
    """A column of a frame."""
    import pandas

    kind = column.type
    if _is_text(kind) and column.null_count < len(column):
        return column.cast(pyarrow.large_string()).to_pandas()
    if types.is_dictionary(kind) or (types.is_timestamp(kind) and kind.tz is not None):
        return column.to_pandas()
    array = array_of(column)
    if not isinstance(array, numpy.ma.MaskedArray):
        return pandas.Series(array, dtype=array.dtype)
    data, mask = array.data, numpy.ma.getmaskarray(array)
    match array.dtype.kind:
        case "i" | "u":
            return pandas.arrays.IntegerArray(data, mask)
        case "b":
            return pandas.arrays.BooleanArray(data, mask)
        case "f":
            return pandas.Series(numpy.where(mask, numpy.nan, data), dtype=array.dtype)
        case "M" | "m":
            data = data.copy()
            data[mask] = "NaT"
            return pandas.Series(data, dtype=array.dtype)
        case _:
            data = data.copy()
            data[mask] = pandas.NA
            return pandas.Series(data, dtype=object)


def array_of(column: pyarrow.Array | pyarrow.ChunkedArray) -> Column:
    """The values of a column; masked where there are NULLs, but for texts, which are None there."""
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pyarrow.ChunkedArray):  # Without any chunk.
            column = pyarrow.array([], column.type)
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if _is_text(column.type) or types.is_null(column.type):
        return _objects(column.to_pylist())
    data = _data(column)
    if column.null_count == 0:
        return data
    return numpy.ma.MaskedArray(data, mask=column.is_null().to_numpy(zero_copy_only=False))


def _is_uuid(kind: pyarrow.DataType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _data(column: pyarrow.Array) -> Column:
    """The values of a column; values of NULLs are arbitrary."""
    kind = column.type
    if _is_uuid(kind):
        return _objects(column.to_pylist())
    if types.is_boolean(kind) or types.is_integer(kind):
        return _numbers(column, False if types.is_boolean(kind) else 0)
    if types.is_floating(kind):
        return _numbers(column, numpy.nan)
    if types.is_decimal(kind):
        return _decimals(column)
    if types.is_date(kind):
        return _moments(column.cast(pyarrow.timestamp("us"), safe=False), "datetime64[us]")
    if types.is_timestamp(kind):
        return _moments(column, f"datetime64[{kind.unit}]")
    if types.is_duration(kind):
        return _moments(column, f"timedelta64[{kind.unit}]")
    if types.is_interval(kind):
        return _intervals(column)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        values = (column[row] for row in range(len(column)))
        return _objects([array_of(value.values) if value.is_valid else None for value in values])
    return _objects([_plain(value) for value in column.to_pylist(maps_as_pydicts="strict")])


def _objects(values: list[Any]) -> Column:
    array = numpy.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        array[position] = value
    return array


def _plain(value: Any) -> Any:
    """A value within another one, as `fetchall` gives it; bytes are a bytearray."""
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, pyarrow.MonthDayNano):
        days, micros = value.months * _MONTH + value.days, value.nanoseconds // 1000
        return datetime.timedelta(days=days, microseconds=micros)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _numbers(column: pyarrow.Array, null: float) -> Column:
    if column.null_count > 0:
        column = compute.fill_null(column, pyarrow.scalar(null, column.type))
    return column.to_numpy(zero_copy_only=False)


def _decimals(column: pyarrow.Array) -> Column:
    # Numbers of up to 53 bits, and powers of ten up to 22, are exact: their quotient is the nearest one.
    whole = column.cast(pyarrow.decimal128(38, column.type.scale))
    words = numpy.frombuffer(whole.buffers()[1] or b"", dtype="<i8").reshape(-1, 2)
    low, high = words[whole.offset : whole.offset + len(whole)].T
    wide = high * 2.0**64 + low.view("u8")
    return numpy.where(high == low >> 63, low, wide) / 10.0**column.type.scale


def _moments(column: pyarrow.Array, dtype: str) -> Column:
    return _numbers(column.cast(pyarrow.int64()), 0).view(dtype)


def _intervals(column: pyarrow.Array) -> Column:
    parts = numpy.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    rows = numpy.frombuffer(column.buffers()[1] or b"", dtype=parts)[column.offset : column.offset + len(column)]
    days = rows["months"].astype("i8") * _MONTH + rows["days"]
    return (days * 86_400_000_000 + rows["nanos"] // 1000).view("timedelta64[us]")
