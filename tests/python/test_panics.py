"""Panics of the engine are errors that `except Exception` catches, and end only their call."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import pytest

import warpmill

if TYPE_CHECKING:
    from collections.abc import Callable


class ArrowSchema(ctypes.Structure):
    """A type in the Arrow C data interface."""


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class ArrowArray(ctypes.Structure):
    """An array in the Arrow C data interface."""

    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


#: Frees nothing, for Python does.
nothing_to_free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)


class Malformed:
    """A record batch whose only column is a list without an element type: Arrow's reader panics."""

    def __init__(self) -> None:
        release = ctypes.cast(nothing_to_free, ctypes.c_void_p).value
        self.column = ArrowSchema(format=b"+l", name=b"a", release=release)
        self.columns = (ctypes.POINTER(ArrowSchema) * 1)(ctypes.pointer(self.column))
        self.schema = ArrowSchema(format=b"+s", name=b"", n_children=1, children=self.columns, release=release)
        self.array = ArrowArray(release=release)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        del requested_schema
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        made = capsule(ctypes.addressof(self.schema), b"arrow_schema", None)
        return made, capsule(ctypes.addressof(self.array), b"arrow_array", None)


@pytest.mark.parametrize(
    "call",
    [
        lambda con, frame: con.register("x", frame),
        lambda con, frame: con.create_table("x", frame),
        lambda con, frame: con.create_table("t", frame, replace=True),
        # A variable of the caller, of the name that the query has.
        lambda con, frame: con.sql("SELECT * FROM frame"),  # noqa: ARG005
    ],
)
def test_a_malformed_frame_is_an_error(
    con: warpmill.Connection, call: Callable[[warpmill.Connection, object], object]
) -> None:
    con.sql("CREATE TABLE t AS SELECT 5 AS a")
    with pytest.raises(warpmill.InternalError, match="internal error") as raised:
        call(con, Malformed())
    assert isinstance(raised.value, Exception)
    assert con.sql("SELECT a FROM t").fetchall() == [(5,)]
    con.sql("INSERT INTO t VALUES (6)")
    assert con.sql("SELECT sum(a) AS s FROM t").fetchall() == [(11,)]
