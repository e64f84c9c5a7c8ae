"""Types of values in translated functions: their C++ types, and differences between Python and numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from warpmill.udf.source import NotSymbolic

#: bool, int and float are 1 to 3 in promotion order; "none" is the type of None alone.
Kind = Literal["bool", "int", "float", "none"]
#: The semantics of a number: division by zero raises in Python; in numpy it is infinite or missing. "either": unknown.
Origin = Literal["python", "numpy", "either"]
#: "missing": a whole number or numpy's NaN; "null": a value or None.
Gap = Literal["", "missing", "null"]

_CPP = {"bool": "bool", "int": "i64", "float": "f64", "none": "f64"}
_RANK = {"none": 0, "bool": 1, "int": 2, "float": 3}


class NotCompiled(NotSymbolic):
    """The reason why a function is not translated to C++."""


class NotYet(NotCompiled):
    """The type of a variable in an expression is not known yet; an error if it never is."""


@dataclass(frozen=True)
class Type:
    """The type of a value or a variable."""

    kind: Kind
    origin: Origin = "python"
    gap: Gap = ""

    @property
    def plain(self) -> str:
        """The type in C++ of a value that is there."""
        return _CPP[self.kind]

    @property
    def cpp(self) -> str:
        """The type in C++."""
        match self.gap:
            case "missing":
                return f"Missing<{self.plain}>"
            case "null":
                return f"Null<{self.plain}>"
            case _:
                return self.plain

    def __str__(self) -> str:
        words = {"bool": "a truth value", "int": "a whole number", "float": "a float", "none": "None"}
        return words[self.kind] + (" or None" if self.gap == "null" and self.kind != "none" else "")


NONE = Type("none", "python", "null")
BOOL = Type("bool")
INT = Type("int")
FLOAT = Type("float")


def of_numpy(kind: Kind, gap: Gap = "") -> Type:
    """The type of numpy's numbers of a kind."""
    return Type(kind, "numpy", gap)


def joined(one: Type, other: Type, *, what: str) -> Type:
    """The type of a variable (or a choice) that holds values of two types."""
    if one == other:
        return one
    if one.kind == "none" or other.kind == "none":
        rest = other if one.kind == "none" else one
        if rest.gap == "missing":
            raise NotCompiled(f"{what} is None or a number that may be missing")
        return replace(rest, gap="null")
    kind = one.kind if _RANK[one.kind] >= _RANK[other.kind] else other.kind
    origin: Origin = one.origin if one.origin == other.origin else "either"
    if one.kind != other.kind and any(side.kind == "bool" and side.origin != "python" for side in (one, other)):
        raise NotCompiled(f"{what} is a number, or a truth value that numpy may have made")
    if one.kind != other.kind and kind == "float":
        # An integer held as a float: division by zero is missing, not infinite.
        origin = "either"
    gap = one.gap if one.gap == other.gap else _gap(one.gap, other.gap, what)
    if kind == "float" and gap == "missing":
        gap = ""
    return Type(kind, origin, gap)


def _gap(one: Gap, other: Gap, what: str) -> Gap:
    gaps = {one, other} - {""}
    if len(gaps) > 1:
        raise NotCompiled(f"{what} is None or a number that may be missing")
    return gaps.pop()


def of_operands(one: Type, other: Type) -> Origin:
    """The semantics (Python or numpy) of an operator's result."""
    origins = {one.origin, other.origin}
    if any(side.kind == "float" and side.origin == "numpy" for side in (one, other)):
        return "numpy"
    if "either" in origins:
        return "either"
    return "numpy" if "numpy" in origins else "python"


def of_tests(one: Type, other: Type) -> Origin:
    """The semantics (Python or numpy) of a comparison's result."""
    return "python" if one.origin == other.origin == "python" else "either"


def cast(text: str, of: Type, to: Type, site: int) -> str:
    """The value `text` converted to the type that `joined` has returned."""
    if of.kind == "none":
        return text if to.kind == "none" else f"Null<{to.plain}>{{0, false}}"
    if of.kind != to.kind:
        if of.kind == "bool":
            text = f"whole({text})"
        if to.kind == "float":
            text = f"exact(c, {site}, {text})"
        of = replace(of, kind=to.kind, gap="" if to.kind == "float" and of.gap == "missing" else of.gap)
    if of.gap == to.gap:
        return text
    return f"given<{to.plain}>({text})" if to.gap == "null" else f"some<{to.plain}>({text})"
