"""A function and the types of its columns, as a text of C++."""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Literal

from warpmill.udf.compiled.expressions import Flow, variable
from warpmill.udf.compiled.statements import Statements
from warpmill.udf.compiled.types import NotCompiled, Type
from warpmill.udf.compiled.values import Rows, Scalar
from warpmill.udf.scope import Scope
from warpmill.udf.source import NotSymbolic, source_of
from warpmill.udf.terms import Constant, Group, Thing, Unusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from warpmill.udf.compiled.types import Kind
    from warpmill.udf.compiled.values import Value

#: The parameters of a function: the columns of a group, one group object with columns, or the values of a row.
Domain = Literal["columns", "group", "values"]

#: Nodes of a function's tree: the C++ compiler takes about a millisecond for each.
MOST_NODES = 4000
#: Times that the types of variables are looked for.
_MOST_PASSES = 40
#: Columns for which all combinations of types are tried before a call has some.
_MOST_MIXED = 3
_CPP = {"bool": "u8", "int": "i64", "float": "f64"}


@dataclass(frozen=True)
class Translation:
    """A translated function."""

    text: str
    #: The values of the constants that the text names by their numbers.
    whole: list[int]
    floats: list[float]
    #: The line of each place that may fail, from place 1 on.
    lines: list[int]


class Translator:
    """One function, on its way to C++ for any types of its columns."""

    def __init__(self, function: object, parameters: Sequence[str], returns: str, of: Domain = "columns") -> None:
        """Read the function's source, and the values that it takes from outside.

        Raises `NotSymbolic` where there is no source.
        """
        if not isinstance(function, FunctionType):
            raise NotCompiled("it is no function written in Python")
        if returns not in ("DOUBLE", "BIGINT", "INTEGER", "BOOLEAN"):
            raise NotCompiled(f"results of type {returns}")
        source = source_of(function)
        self._body = source.body
        self._parameters = tuple(parameters)
        self._of = of
        self._returns = returns
        nodes = [node for statement in source.body for node in ast.walk(statement)]
        if len(nodes) > MOST_NODES:
            raise NotCompiled(f"its code has more than {MOST_NODES} parts")
        scope = Scope(function, source)
        self._defaults = scope.defaults()
        arguments = [*source.arguments.posonlyargs, *source.arguments.args]
        self._group = arguments[0].arg if of == "group" and arguments else None
        names = [node for node in nodes if isinstance(node, ast.Name)]
        self._variables = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        own = self._variables | set(self._defaults) | (set() if self._group else set(self._parameters))
        self._names: dict[str, Constant | Thing | Unusable] = dict(self._defaults)
        for node in names:
            if node.id not in own and node.id != self._group:
                self._names[node.id] = _outside(scope, node.id)

    def __call__(self, types: Sequence[str]) -> tuple[str, list[int], list[float], list[int]] | str:
        """The translation for columns of these types ("DOUBLE", "BIGINT", "BOOLEAN"), or why there is none."""
        kinds: dict[str, Kind] = {"DOUBLE": "float", "BIGINT": "int", "BOOLEAN": "bool"}
        try:
            made = self.translated([kinds[name] for name in types])
        except NotSymbolic as reason:
            return str(reason)
        return made.text, made.whole, made.floats, made.lines

    def refusal(self) -> str | None:
        """Why the function is compiled for no types of its columns; `None` where it is for some."""
        reason = None
        for kinds in _tried(len(self._parameters)):
            try:
                self.translated(kinds)
            except NotSymbolic as why:
                reason = reason or str(why)
            else:
                return None
        return reason

    def translated(self, kinds: Sequence[Kind]) -> Translation:
        """The translation for columns of some kinds. Raises `NotCompiled` with the reason."""
        rows = [Rows(f"g.x{at}(i)", kind) for at, kind in enumerate(kinds)]
        columns = dict(zip(self._parameters, rows, strict=True))
        work = Statements(self._names, columns)
        work.variables = self._variables
        first: dict[str, Value] = {
            name: work.constant(name, known)
            for name, known in self._defaults.items()
            if name in self._variables and isinstance(known, Constant)
        }
        match self._of:
            case "columns":
                work.parameters = {**columns}
            case "group":
                work.parameters = {self._group or "": Group()}
            case "values":
                values = [Scalar(f"g.a{at}", Type(kind)) for at, kind in enumerate(kinds)]
                given = dict(zip(self._parameters, values, strict=True))
                work.parameters = {name: value for name, value in given.items() if name not in self._variables}
                first.update({name: value for name, value in given.items() if name in self._variables})
        for _ in range(_MOST_PASSES):
            self._pass(work, first)
            if not work.changed:
                break
        else:
            raise NotCompiled("the types of its variables cannot be found")
        if work.postponed is not None:
            raise work.postponed
        text = _text(kinds, work, self._returns, self._of)
        return Translation(text, [*work.whole.values()], [*work.floats.values()], work.lines)

    def _pass(self, work: Statements, first: dict[str, Value]) -> None:
        try:
            work.begin(self._returns)
            flow = Flow()
            for name, value in first.items():
                work.store(name, value, flow, 0)
            work.block(self._body, flow, 1, inner=False)
        except RecursionError as error:
            raise NotCompiled("its code is nested too deeply") from error


def _outside(scope: Scope, name: str) -> Constant | Thing | Unusable:
    try:
        return scope.outside(name)
    except NotSymbolic as reason:
        return Unusable(str(reason))


def _tried(count: int) -> Iterator[tuple[Kind, ...]]:
    """Types of columns for which a translation is tried: the same for all, and where these are few, all others."""
    kinds: tuple[Kind, ...] = ("float", "int", "bool")
    yield from ((kind,) * count for kind in kinds)
    if 1 < count <= _MOST_MIXED:
        yield from (mixed for mixed in itertools.product(kinds, repeat=count) if len(set(mixed)) > 1)


#: Checks floats that Python may have as whole numbers.
_HELD = """// A float that Python may have as a whole number: below 2^53 it is that number.
__device__ __forceinline__ f64 held(Context& c, i32 site, f64 x) {
    if (x >= 9007199254740992.0 || x <= -9007199254740992.0) c.fail(site, TOO_LARGE);
    return x;
}

"""


def _text(kinds: Sequence[Kind], work: Statements, returns: str, of: Domain) -> str:
    """The complete source: the columns of a group (or values of a row), the function, and the entry point."""
    result = "f64" if returns == "DOUBLE" else "i64"
    if of == "values":
        members = "\n".join(f"    {Type(kind).cpp} a{at};" for at, kind in enumerate(kinds))
        loads = "\n".join(["    g.n = 0;", *(_value(at, kind) for at, kind in enumerate(kinds))])
    else:
        members = "\n".join(_member(at, kind) for at, kind in enumerate(kinds))
        begin = ["    const i64 begin = k.offsets[group];", "    g.n = k.offsets[group + 1] - begin;"]
        loads = "\n".join([*begin, *(_load(at, kind) for at, kind in enumerate(kinds))])
    variables = "\n".join(_variable(name, kind, checked=name in work.checked) for name, kind in work.types.items())
    body = "\n".join(work.text)
    return f"""namespace udf {{

{_HELD if "held(" in body else ""}template <class P> struct Group : Reductions<P> {{
{members}
}};

template <class G> __device__ inline Result<{result}> function(const G& g, const Launch& k, Context& c) {{
{variables}
{body}
    return {{}};
}}

template <class P> __device__ inline void run(const Launch& k, i64 group) {{
    Group<P> g;
{loads}
    Context c = {{0, 0, k.cancelled}};
    const Result<{result}> result = function(g, k, c);
    if (g.p.first() == 0) {{
        (({result}*)k.results)[group] = result.v;
        k.known[group] = result.ok;
        k.status[group] = c.status;
    }}
}}

}}  // namespace udf
"""


def _variable(name: str, kind: Type, *, checked: bool) -> str:
    declared = f"    {kind.cpp} {variable(name)} = {{}};"
    return f"{declared} bool {variable(name)}set = false;" if checked else declared


def _member(at: int, kind: Kind) -> str:
    row = f"Row<{Type(kind).cpp}>"
    value = f"(bool)v{at}[i]" if kind == "bool" else f"v{at}[i]"
    return f"""    const {_CPP[kind]}* v{at};
    const u8* p{at};
    __device__ __forceinline__ {row} x{at}(i64 i) const {{ return {{{value}, !p{at} || p{at}[i]}}; }}"""


def _value(at: int, kind: Kind) -> str:
    """Read a parameter that is one value; a NULL makes the result NULL."""
    value = f"((const {_CPP[kind]}*)k.values[{at}])[group]"
    return f"""    if (k.present[{at}] && !k.present[{at}][group]) {{
        if (g.p.first() == 0) k.known[group] = 0, k.status[group] = 0;
        return;
    }}
    g.a{at} = {value}{" != 0" if kind == "bool" else ""};"""


def _load(at: int, kind: Kind) -> str:
    cpp = _CPP[kind]
    return f"""    g.v{at} = (const {cpp}*)k.values[{at}] + begin;
    g.p{at} = k.present[{at}] ? k.present[{at}] + begin : 0;"""
