"""Columns of a group, as functions that are called see them.

They behave as a pandas Series does: reductions skip missing values (NULL and NaN), `var` and `std` are those of
samples, comparisons with what is missing are false. Whole numbers with NULLs stay whole, sums are exact, and divisions
by zero are infinite or missing.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow

_LARGEST = 2.0**63
_NAN = np.float64("nan")


class Whole:
    """A whole number that reductions give: divisions by zero are infinite or NaN, as in numpy, and none overflows."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = int(value)

    def __index__(self) -> int:
        return self._value

    __int__ = __index__
    __trunc__ = __index__

    def __float__(self) -> float:
        return float(self._value)

    def __bool__(self) -> bool:
        return self._value != 0

    def __repr__(self) -> str:
        return repr(self._value)

    def __format__(self, how: str) -> str:
        return format(self._value, how)

    def __hash__(self) -> int:
        return hash(self._value)

    def __round__(self, digits: int | None = None) -> Any:
        return Whole(round(self._value, digits or 0))

    def __neg__(self) -> Whole:
        return Whole(-self._value)

    def __pos__(self) -> Whole:
        return self

    def __abs__(self) -> Whole:
        return Whole(abs(self._value))

    def __eq__(self, other: object) -> Any:
        return _compared(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return _compared(operator.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return _compared(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _compared(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compared(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compared(operator.ge, self, other)

    def __add__(self, other: Any) -> Any:
        return _whole(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _whole(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _whole(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _whole(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _whole(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _whole(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _whole(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _whole(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _whole(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _whole(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return _whole(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _whole(operator.mod, other, self)

    def __pow__(self, other: Any) -> Any:
        return _whole(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _whole(operator.pow, other, self)

    def __and__(self, other: Any) -> Any:
        return _whole(operator.and_, self, other)

    def __or__(self, other: Any) -> Any:
        return _whole(operator.or_, self, other)

    def __xor__(self, other: Any) -> Any:
        return _whole(operator.xor, self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self._value, dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if any(isinstance(one, Column) for one in inputs):
            return NotImplemented
        plain = (one._value if isinstance(one, Whole) else one for one in inputs)
        result = getattr(function, method)(*plain, **named)
        return Whole(result) if isinstance(result, np.integer) else result


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Whole | np.integer):
        return int(value)
    return value


def _compared(compute: Callable[[Any, Any], Any], left: Whole, right: Any) -> Any:
    right = _unwrapped(right)
    return compute(left._value, right) if isinstance(right, int | float) else NotImplemented


def _whole(compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    left, right = _unwrapped(left), _unwrapped(right)
    if isinstance(left, int) and isinstance(right, int):
        if compute is operator.truediv or (compute is operator.pow and right < 0):
            return compute(np.float64(left), np.float64(right))
        if right == 0 and compute in (operator.floordiv, operator.mod):
            return _NAN
        return Whole(compute(int(left), int(right)))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return compute(np.float64(left), np.float64(right))
    return NotImplemented


def _plain(value: Any) -> Any:
    """A value of an array as a number that functions get."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return Whole(value) if isinstance(value, int | np.integer) else value


class Column:
    """Some values; `valid` says which are not NULL, where any is."""

    __slots__ = ("_valid", "_values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None = None) -> None:
        self._values = values
        self._valid = valid

    @classmethod
    def of(cls, array: pyarrow.Array[Any]) -> Column:
        """The values of an Arrow array. Decimals become floating-point numbers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = array.type
        if pa.types.is_decimal(kind) or pa.types.is_float16(kind) or pa.types.is_float32(kind):
            array, kind = pc.cast(array, pa.float64()), pa.float64()
        valid = None if array.null_count == 0 else np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False), bool)
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            filled = array if valid is None else pc.fill_null(array, False if pa.types.is_boolean(kind) else 0)
            values = filled.to_numpy(zero_copy_only=False)
            if pa.types.is_uint64(kind):
                if len(values) and values.max() >= 2**63:
                    raise OverflowError("a value of type UBIGINT is no whole number of 64 bits with a sign")
                values = values.astype(np.int64)
            elif pa.types.is_integer(kind):
                values = values.astype(np.int64, copy=False)
            return cls(values, valid)
        if pa.types.is_null(kind):
            return cls(np.zeros(len(array)), np.zeros(len(array), bool))
        values = np.empty(len(array), object)
        values[:] = array.to_pylist()
        return cls(values, valid)

    # Its size and its values.

    def __len__(self) -> int:
        return len(self._values)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self._values)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values, in numpy's words."""
        kind: np.dtype[Any] = self._values.dtype
        return kind

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_list())

    def to_list(self) -> list[Any]:
        """The values in Python's types, None where they are NULL."""
        values: list[Any] = self._values.tolist()
        if self._valid is None:
            return values
        return [value if valid else None for value, valid in zip(values, self._valid.tolist(), strict=True)]

    tolist = to_list

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """The values as a numpy array; numbers among NULLs become floating-point numbers, the NULLs NaN."""
        if self._valid is None or self._valid.all():
            return self._values
        if self._values.dtype == object:
            values = self._values.copy()
            values[~self._valid] = None
            return values
        numbers: np.ndarray[Any, Any] = np.where(self._valid, self._values.astype(np.float64), np.nan)
        return numbers

    @property
    def values(self) -> np.ndarray[Any, Any]:
        """The values as a numpy array."""
        return self.to_numpy()

    def to_pandas(self) -> Any:
        """The values as a pandas Series."""
        import pandas

        return pandas.Series(self.to_numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.to_numpy()
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Column):
            key = key._truth()
        if isinstance(key, int | np.integer | Whole):
            key = int(key)
            value = self._values[key]
            missing = self._valid is not None and not self._valid[key]
            return None if missing else _plain(value)
        return Column(self._values[key], None if self._valid is None else self._valid[key])

    @property
    def iloc(self) -> Column:
        """The values by their positions, as the column itself has them."""
        return self

    def _truth(self) -> np.ndarray[Any, Any]:
        if self._values.dtype != np.bool_:
            raise TypeError("rows are chosen by a condition")
        return self._values if self._valid is None else self._values & self._valid

    def _missing(self) -> np.ndarray[Any, Any]:
        missing = np.zeros(len(self._values), bool) if self._valid is None else ~self._valid
        return missing | np.isnan(self._values) if self._values.dtype.kind == "f" else missing

    def _present(self) -> np.ndarray[Any, Any]:
        values = self._values if self._valid is None else self._values[self._valid]
        if values.dtype.kind == "f":
            nan = np.isnan(values)
            if nan.any():
                values = values[~nan]
        return values

    def __bool__(self) -> bool:
        raise ValueError("the truth of a whole column: use any(), all(), or a comparison of a reduction")

    def __repr__(self) -> str:
        return f"Column({self.to_list()!r})"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a column has no {name!r}; to_numpy(), to_list() and to_pandas() give its values")

    # Reductions.

    def _numbers(self) -> np.ndarray[Any, Any]:
        values = self._present()
        if values.dtype == object:
            raise TypeError("values that are no numbers")
        return values

    def sum(self) -> Any:
        """The sum of the values that are not missing; 0 without any."""
        values = self._numbers()
        if values.dtype.kind == "f":
            return values.sum() if len(values) else np.float64(0)
        if values.dtype == np.bool_:
            return Whole(np.count_nonzero(values))
        if abs(float(values.sum(dtype=np.float64))) < 0.99 * _LARGEST:
            return Whole(values.sum())
        return Whole(sum(values.tolist()))

    def count(self) -> Any:
        """The number of values that are not missing."""
        return Whole(len(self._present()))

    def mean(self) -> Any:
        """The mean of the values that are not missing."""
        values = self._numbers()
        return values.mean(dtype=np.float64) if len(values) else _NAN

    def min(self) -> Any:
        """The least value."""
        return self._extreme(np.min, min)

    def max(self) -> Any:
        """The greatest value."""
        return self._extreme(np.max, max)

    def _extreme(self, of_numbers: Callable[..., Any], of_others: Callable[..., Any]) -> Any:
        values = self._present()
        if not len(values):
            return _NAN
        return of_others(values.tolist()) if values.dtype == object else _plain(of_numbers(values))

    def idxmin(self) -> Any:
        """The position of the least value, the first of equal ones; missing where there is none."""
        return self._position(np.argmin)

    def idxmax(self) -> Any:
        """The position of the greatest value, the first of equal ones; missing where there is none."""
        return self._position(np.argmax)

    def _position(self, find: Callable[..., Any]) -> Any:
        self._numbers()
        present = np.flatnonzero(~self._missing())
        return Whole(present[find(self._values[present])]) if len(present) else _NAN

    def var(self, *, ddof: int = 1) -> Any:
        """The variance of a sample; `ddof=0`: of a population."""
        values = self._numbers()
        return values.astype(np.float64).var(ddof=ddof) if len(values) > ddof else _NAN

    def std(self, *, ddof: int = 1) -> Any:
        """The root of the variance."""
        values = self._numbers()
        return values.astype(np.float64).std(ddof=ddof) if len(values) > ddof else _NAN

    def median(self) -> Any:
        """The value in the middle, or the mean of the two there."""
        values = self._numbers()
        return np.median(values.astype(np.float64)) if len(values) else _NAN

    def quantile(self, q: float = 0.5) -> Any:
        """A quantile, between two values in proportion."""
        values = self._numbers()
        return np.quantile(values.astype(np.float64), q) if len(values) else _NAN

    def prod(self) -> Any:
        """The product of the values that are not missing; 1 without any."""
        values = self._numbers()
        if values.dtype.kind == "f":
            return values.prod()
        product = Whole(1)
        for value in values.tolist():
            product = product * value
        return product

    def nunique(self) -> Any:
        """The number of different values that are not missing."""
        values = self._present()
        return Whole(len(set(values.tolist())) if values.dtype == object else len(np.unique(values)))

    def unique(self) -> Column:
        """The different values that are not missing."""
        values = self._present()
        return Column(np.array(sorted(set(values.tolist())), object) if values.dtype == object else np.unique(values))

    def any(self) -> bool:
        """Whether any value is true."""
        return bool(self._present().any())

    def all(self) -> bool:
        """Whether no value is false."""
        return bool(self._present().all())

    # Row by row.

    def isna(self) -> Column:
        """For each value, whether it is missing."""
        return Column(self._missing())

    isnull = isna

    def notna(self) -> Column:
        """For each value, whether it is not missing."""
        return Column(~self._missing())

    notnull = notna

    def dropna(self) -> Column:
        """The values that are not missing."""
        return Column(self._present())

    def fillna(self, value: Any) -> Column:
        """The values, with `value` in the place of missing ones."""
        missing = self._missing()
        if not missing.any():
            return Column(self._values)
        values = self._values
        if values.dtype.kind in "ib" and isinstance(value, float):
            values = values.astype(np.float64)
        return Column(np.where(missing, value, values))

    def astype(self, kind: Any) -> Column:
        """The values as another type."""
        return Column(self._values.astype(kind), self._valid)

    def abs(self) -> Column:
        """The values without their signs."""
        return Column(np.abs(self._values), self._valid)

    def __abs__(self) -> Column:
        return self.abs()

    def __neg__(self) -> Column:
        return Column(-self._values, self._valid)

    def __invert__(self) -> Column:
        return Column(~self._truth()) if self._values.dtype == np.bool_ else Column(~self._values, self._valid)

    def _pair(self, other: Any) -> tuple[Any, np.ndarray[Any, Any] | None]:
        """The values of the other operand, and the mask of rows where neither is NULL."""
        if isinstance(other, Column):
            if len(other) != len(self):
                raise ValueError("columns of different rows")
            both = self._valid if other._valid is None else other._valid
            if self._valid is not None and other._valid is not None:
                both = self._valid & other._valid
            return other._values, both
        if other is None:
            return _NAN, np.zeros(len(self), bool)
        return (int(other) if isinstance(other, Whole) else other), self._valid

    def _arithmetic(self, compute: Callable[[Any, Any], Any], other: Any, *, swapped: bool = False) -> Column:
        values, valid = self._pair(other)
        left, right = (values, self._values) if swapped else (self._values, values)
        whole = all(np.asarray(side).dtype.kind in "ib" for side in (left, right))
        if whole and compute in (operator.floordiv, operator.mod):
            zero = np.asarray(right) == 0
            if np.any(zero):
                zero = np.broadcast_to(zero, self._values.shape)
                valid = ~zero if valid is None else valid & ~zero
                right = np.where(np.asarray(right) == 0, 1, right)
        result = compute(left, right)
        if whole and compute in (operator.add, operator.sub, operator.mul, operator.pow) and len(self._values):
            about = compute(np.asarray(left, np.float64), np.asarray(right, np.float64))
            about = np.broadcast_to(about, self._values.shape) if valid is None else about[valid]
            if len(about) and np.abs(about).max() >= 0.99 * _LARGEST:
                raise OverflowError("a result is no whole number of 64 bits")
        return Column(np.asarray(result), valid)

    def _compared(self, compute: Callable[[Any, Any], Any], other: Any) -> Column:
        values, valid = self._pair(other)
        missing = compute is operator.ne
        if valid is not None and self._values.dtype == object:
            result = np.full(len(self), missing)
            right = values[valid] if isinstance(values, np.ndarray) else values
            result[valid] = compute(self._values[valid], right)
            return Column(result.astype(bool))
        result = np.asarray(compute(self._values, values), bool)
        return Column(result if valid is None else np.where(valid, result, missing))

    def __add__(self, other: Any) -> Column:
        return self._arithmetic(operator.add, other)

    def __radd__(self, other: Any) -> Column:
        return self._arithmetic(operator.add, other, swapped=True)

    def __sub__(self, other: Any) -> Column:
        return self._arithmetic(operator.sub, other)

    def __rsub__(self, other: Any) -> Column:
        return self._arithmetic(operator.sub, other, swapped=True)

    def __mul__(self, other: Any) -> Column:
        return self._arithmetic(operator.mul, other)

    def __rmul__(self, other: Any) -> Column:
        return self._arithmetic(operator.mul, other, swapped=True)

    def __truediv__(self, other: Any) -> Column:
        return self._arithmetic(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Column:
        return self._arithmetic(operator.truediv, other, swapped=True)

    def __floordiv__(self, other: Any) -> Column:
        return self._arithmetic(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Column:
        return self._arithmetic(operator.floordiv, other, swapped=True)

    def __mod__(self, other: Any) -> Column:
        return self._arithmetic(operator.mod, other)

    def __rmod__(self, other: Any) -> Column:
        return self._arithmetic(operator.mod, other, swapped=True)

    def __pow__(self, other: Any) -> Column:
        return self._arithmetic(operator.pow, other)

    def __rpow__(self, other: Any) -> Column:
        return self._arithmetic(operator.pow, other, swapped=True)

    def __and__(self, other: Any) -> Column:
        return Column(self._truth() & _condition(other))

    def __or__(self, other: Any) -> Column:
        return Column(self._truth() | _condition(other))

    __rand__ = __and__
    __ror__ = __or__

    def __lt__(self, other: Any) -> Column:
        return self._compared(operator.lt, other)

    def __le__(self, other: Any) -> Column:
        return self._compared(operator.le, other)

    def __gt__(self, other: Any) -> Column:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Any) -> Column:
        return self._compared(operator.ge, other)

    def __eq__(self, other: object) -> Column:  # type: ignore[override]
        return self._compared(operator.eq, other)

    def __ne__(self, other: object) -> Column:  # type: ignore[override]
        return self._compared(operator.ne, other)

    # Functions of numpy.

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **named: Any) -> Any:
        result = getattr(function, method)(*(_array(one) for one in inputs), **named)
        return _column(result)

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Any:
        name = function.__name__.removeprefix("a") if function.__name__ in ("amin", "amax") else function.__name__
        if name in _REDUCTIONS and args and args[0] is self and len(args) == 1:
            return getattr(self, name)(**named)
        return _column(function(*(_array(one) for one in args), **{key: _array(one) for key, one in named.items()}))


_REDUCTIONS = frozenset({"sum", "mean", "min", "max", "median", "any", "all", "prod"})


def _condition(other: Any) -> Any:
    return other._truth() if isinstance(other, Column) else other


def _array(value: Any) -> Any:
    if isinstance(value, Column):
        return value.to_numpy()
    if isinstance(value, Whole):
        return int(value)
    return [_array(one) for one in value] if isinstance(value, list | tuple) else value


def _column(value: Any) -> Any:
    return Column(value) if isinstance(value, np.ndarray) and value.ndim == 1 else value
