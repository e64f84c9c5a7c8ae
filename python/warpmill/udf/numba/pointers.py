"""Addresses that the engine gives to compiled code, and the flag that stops it. Importing this imports Numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, register_jitable


@intrinsic
def at(typing_context: Any, address: Any, of: Any) -> Any:
    """A pointer to values of a type at an address."""
    kind = types.CPointer(of.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(types.uintp, of), generate


@intrinsic
def is_stopped(typing_context: Any, address: Any) -> Any:
    """Whether the flag at an address is set; read anew each time."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flag = builder.inttoptr(arguments[0], ir.IntType(32).as_pointer())
        return builder.icmp_signed("!=", builder.load_atomic(flag, "monotonic", 4), ir.IntType(32)(0))

    return types.boolean(types.uintp), generate


@intrinsic
def frozen(typing_context: Any, values: Any) -> Any:
    """The same array, which cannot be changed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])

    return values.copy(readonly=True)(values), generate


@intrinsic
def some(typing_context: Any, value: Any) -> Any:
    """The value of an optional, which has one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], value, value.type)

    return value.type(value), generate


class StoppedError(Exception):
    """The run was stopped."""


@register_jitable
def goes_on(flag):
    """True; an exception where the run was stopped: a test in each comprehension."""
    step(flag)
    return True


@register_jitable
def step(flag):
    """Raise where the run was stopped: each loop begins its steps so."""
    if is_stopped(flag):
        raise StoppedError
