"""Functions that are called: how the engine gives them their rows, and takes their results."""

from __future__ import annotations

import copy
import itertools
import pickle
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from warpmill.udf.column import Column
from warpmill.udf.returns import array, converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow

#: Bytes that the state of a group is taken for.
_STATE_BYTES = 256


class CallError(Exception):
    """An exception that a function raised, with the function's name and line."""


def _failed(name: str, file: str | None, error: BaseException, hint: str = "") -> NoReturn:
    """Raise `error`, raised by code of `file`, as a user error with the function and the line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == file] or []
    line = f", line {own[-1].lineno} of {file}" if own else ""
    raise CallError(f"function '{name}'{line}: {type(error).__name__}: {error}{hint}") from error


def _file(function: object) -> str | None:
    code = getattr(function, "__code__", None)
    return None if code is None else code.co_filename


class Group:
    """The columns of a group, as attributes and by their names."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: dict[str, Column], rows: int) -> None:
        self._columns = columns
        self._rows = rows

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            raise KeyError(f"there is no column {name!r}")
        return self._columns[name]

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__") or name not in self._columns:
            raise AttributeError(f"there is no column {name!r}")
        return self._columns[name]

    def __len__(self) -> int:
        return self._rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)


class Groups:
    """A function that is called once for each group, with its columns, or (with `columns`) one object that has them."""

    def __init__(
        self, name: str, function: Callable[..., object], returns: str, columns: Sequence[str] | None = None
    ) -> None:
        self._name = name
        self._function = function
        self._returns = returns
        self._columns = columns

    def __call__(self, arrays: list[pyarrow.Array[Any]], offsets: pyarrow.Array[Any]) -> pyarrow.Array[Any]:
        """One result for each group; the rows of group i are offsets[i]:offsets[i + 1]."""
        bounds: list[int] = offsets.to_pylist()
        try:
            columns = [Column.of(one) for one in arrays]
            with np.errstate(all="ignore"):
                groups = self._arguments(columns, bounds)
                results = [converted(self._function(*args), self._returns) for args in groups]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _failed(self._name, _file(self._function), error)
        return array(results, self._returns)

    def _arguments(self, columns: list[Column], bounds: list[int]) -> Iterator[Sequence[object]]:
        names = self._columns
        for start, end in itertools.pairwise(bounds):
            parts = [column[start:end] for column in columns]
            yield parts if names is None else [Group(dict(zip(names, parts, strict=True)), end - start)]


class Aggregation:
    """The aggregation by a class of group states: `init`, `add(values)`, `merge(other)`, `finish()`."""

    def __init__(self, name: str, kind: type[Any], returns: str) -> None:
        self.name = name
        self.kind = kind
        self.returns = returns
        self.file = _file(kind.finish)

    def __call__(self) -> _States:
        """States of no group."""
        return _States(self, [])

    def new(self) -> Any:
        """The state of no rows."""
        state = self.kind()
        if hasattr(state, "init"):
            state.init()
        return state


class _States:
    def __init__(self, of: Aggregation, states: list[Any]) -> None:
        self._of = of
        self._states = states

    def _grow(self, total: int) -> None:
        while len(self._states) < total:
            self._states.append(self._of.new())

    def update(self, arrays: list[pyarrow.Array[Any]], groups: pyarrow.Array[Any], total: int) -> None:
        """Add rows to the states of their groups."""
        try:
            with np.errstate(all="ignore"):
                self._grow(total)
                columns = [Column.of(one).to_list() for one in arrays]
                for group, *values in zip(groups.to_pylist(), *columns, strict=True) if columns else ():
                    self._states[group].add(*values)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _failed(self._of.name, self._of.file, error)

    def merge(self, states: pyarrow.Array[Any], groups: pyarrow.Array[Any], total: int) -> None:
        """Merge states into the states of their groups."""
        try:
            self._grow(total)
            for group, state in zip(groups.to_pylist(), states.to_pylist(), strict=True):
                other = object.__new__(self._of.kind)
                # Bytes that `take` of this process has made.
                other.__dict__.update(pickle.loads(state))
                self._states[group].merge(other)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _failed(self._of.name, self._of.file, error)

    def take(self, count: int) -> pyarrow.Array[Any]:
        """Remove the first states, and return them as bytes."""
        import pyarrow

        try:
            taken = [pickle.dumps(vars(state)) for state in self._states[:count]]
        except Exception as error:
            _failed(self._of.name, self._of.file, error)
        del self._states[:count]
        made: pyarrow.Array[Any] = pyarrow.array(taken, pyarrow.binary())
        return made

    def finish(self, count: int) -> pyarrow.Array[Any]:
        """Remove the first states, and return their results."""
        try:
            self._grow(count)
            with np.errstate(all="ignore"):
                results = [converted(state.finish(), self._of.returns) for state in self._states[:count]]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _failed(self._of.name, self._of.file, error)
        del self._states[:count]
        return array(results, self._of.returns)

    def copy(self) -> _States:
        """The same states, to be finished."""
        return _States(self._of, copy.deepcopy(self._states))

    def size(self) -> int:
        """Bytes, roughly."""
        return _STATE_BYTES * len(self._states)


class Rows:
    """A function of rows: called with arrays of many (`vectorized`), or with the values of one."""

    def __init__(self, name: str, function: Callable[..., object], returns: str, *, vectorized: bool) -> None:
        self._name = name
        self._function = function
        self._returns = returns
        self._vectorized = vectorized

    def __call__(self, arrays: list[pyarrow.Array[Any]], rows: int) -> pyarrow.Array[Any]:
        """One result for each row; NULL where an argument is."""
        try:
            columns = [Column.of(one) for one in arrays]
            valid = np.ones(rows, bool)
            for column in columns:
                if column._valid is not None:
                    valid &= column._valid
            some = int(valid.sum())
            chosen = columns if some == rows else [Column(column._values[valid]) for column in columns]
            results: list[object] = [None] * rows
            with np.errstate(all="ignore"):
                found = self._results(chosen, some) if some else []
            for at, result in zip(np.flatnonzero(valid).tolist(), found, strict=True):
                results[at] = result
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # Code for single values often fails on arrays.
            hint = " (it was called with numpy arrays of many rows; mode='scalar' calls it with values of one)"
            _failed(self._name, _file(self._function), error, hint if self._vectorized else "")
        return array(results, self._returns)

    def _results(self, columns: list[Column], rows: int) -> list[object]:
        if not self._vectorized:
            each = zip(*(column.to_list() for column in columns), strict=True)
            return [converted(self._function(*values), self._returns) for values in each]
        given: Any = self._function(*(column._values for column in columns))
        values = given.to_pylist() if hasattr(given, "to_pylist") else np.asarray(given)
        if isinstance(values, np.ndarray):
            if values.ndim != 1:
                raise ValueError(f"one result for {rows} rows: a vectorized function gives an array of as many")
            values = values.astype(object).tolist() if values.dtype.kind == "M" else values.tolist()
        if len(values) != rows:
            raise ValueError(f"{len(values)} results for {rows} rows")
        return [converted(value, self._returns) for value in values]
