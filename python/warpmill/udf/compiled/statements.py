"""Python statements as C++."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from warpmill.udf.compiled.expressions import Expressions, Flow, variable
from warpmill.udf.compiled.rows import element
from warpmill.udf.compiled.types import INT, NotCompiled, NotYet, Type, cast, joined
from warpmill.udf.compiled.values import Rows, Scalar, function, scalar, there
from warpmill.udf.terms import Constant, Group, Thing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from warpmill.udf.compiled.values import Value

#: Loops inside each other: more are slow whatever runs them.
MOST_LOOPS = 16


class Statements(Expressions):
    """The statements of one function."""

    def begin(self, returns: str) -> None:
        """Start (or restart) the translation of the function with the variable types found so far."""
        self._returns = returns
        self._out: list[str] = []
        self._numbers = 0
        self._loops = 0
        #: Whether the variables' types have changed since.
        self.changed = False
        #: The first part that was skipped, because the type of a variable is not known yet.
        self.postponed: NotYet | None = None

    def check(self, name: str) -> None:
        """Record that a variable is read where it may be unassigned, which causes another pass."""
        self.changed |= name not in self.checked
        super().check(name)

    @property
    def text(self) -> list[str]:
        """The lines of C++."""
        return self._out

    def _emit(self, depth: int, line: str) -> None:
        self._out.append("    " * depth + line)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def block(self, statements: Sequence[ast.stmt], flow: Flow, depth: int, *, inner: bool) -> None:
        """Translate statements; within branches and loops (`inner`) names keep their kind of meaning."""
        for statement in statements:
            if flow.ended:
                return
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self._emit(depth, f"// {_comment(statement)}")
            try:
                self.at(statement, partial(self._statement, statement, flow, depth, inner=inner))
            except NotYet as reason:
                self.postponed = self.postponed or reason

    def condition(self, test: ast.expr, flow: Flow) -> str:
        """The truth of `test`; guarded code is analyzed even if the truth is not known yet."""
        try:
            return super().condition(test, flow)
        except NotYet as reason:
            self.postponed = self.postponed or reason
            return "false"

    def _statement(self, statement: ast.stmt, flow: Flow, depth: int, *, inner: bool) -> None:
        site = self.site(statement)
        match statement:
            case ast.Return(value=value):
                self._return(value, flow, depth, site)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value, flow, depth, site, inner=inner)
            case ast.Assign(targets=targets, value=value):
                # Once, before any of them changes.
                kept = self._kept(self.value(value, flow), depth)
                for target in targets:
                    if not isinstance(target, ast.Name):
                        raise NotCompiled("an assignment to something else than variables")
                    self._store(target.id, kept, flow, depth, site, inner=inner)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value, flow, depth, site, inner=inner)
            case ast.AnnAssign(value=None) | ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                read = ast.copy_location(ast.Name(name, ast.Load()), target)
                whole = ast.copy_location(ast.BinOp(read, op, value), statement)
                self._assign(target, whole, flow, depth, site, inner=inner)
            case ast.If(test=test, body=body, orelse=orelse):
                self._if(test, body, orelse, flow, depth)
            case ast.While(test=test, body=body, orelse=[]):
                self._while(test, body, flow, depth)
            case ast.For(target=target, iter=over, body=body, orelse=[], type_comment=None):
                self._for(target, over, body, flow, depth, site)
            case ast.Break() | ast.Continue():
                self._emit(depth, "break;" if isinstance(statement, ast.Break) else "continue;")
                flow.ended = True
            case ast.Raise():
                self._emit(depth, f"c.fail({site}, RAISED);")
                self._emit(depth, "return {};")
                flow.ended = True
            case ast.Assert(test=test):
                self._emit(depth, f"if (!({self.condition(test, flow)})) c.fail({site}, RAISED);")
            case _:
                raise NotCompiled(f"{_named(statement)} is not compiled")

    # Results.

    def _return(self, value: ast.expr | None, flow: Flow, depth: int, site: int) -> None:
        flow.ended = True
        found = Constant(None) if value is None else self.value(value, flow)
        result = scalar(found)
        if result.type.kind == "none":
            self._emit(depth, "return {};")
            return
        self._emit(depth, f"return {self._result(result, site)};")

    def _result(self, result: Scalar, site: int) -> str:
        kind, returns = result.type.kind, self._returns
        match returns:
            case "DOUBLE":
                return f"result_f64({result.text})"
            case "BIGINT" | "INTEGER" if kind != "float":
                text = f"result_i64({result.text})"
                return text if returns == "BIGINT" else f"narrow(c, {site}, {text})"
            case "BOOLEAN" if kind == "bool":
                return f"result_i64({result.text})"
            case _:
                raise NotCompiled(f"a result that is {result.type} where {returns} is declared")

    # Variables.

    def _assign(self, target: ast.expr, value: ast.expr, flow: Flow, depth: int, site: int, *, inner: bool) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._store(name, self.value(value, flow), flow, depth, site, inner=inner)
            case (ast.Tuple(elts=names), ast.Tuple(elts=values)) if len(names) == len(values):
                kept = [self._kept(self.value(one, flow), depth) for one in values]
                for one, found in zip(names, kept, strict=True):
                    if not isinstance(one, ast.Name):
                        raise NotCompiled("an assignment to something else than a variable")
                    self._store(one.id, found, flow, depth, site, inner=inner)
            case _:
                raise NotCompiled("an assignment to something else than a variable")

    def _kept(self, value: Value, depth: int) -> Value:
        """A value that later assignments do not change."""
        if isinstance(value, Constant | Group | Thing):
            return value
        name = f"t{self._number()}"
        if isinstance(value, Rows):
            return self._kept_rows(value, name, depth)
        self._emit(depth, f"const {value.type.cpp} {name} = {value.text};")
        return Scalar(name, value.type, value.constant)

    def _kept_rows(self, rows: Rows, name: str, depth: int) -> Rows:
        mask = rows.mask
        if mask is not None and mask.captures:
            self._emit(depth, f"const auto m{name} = {function(mask.text, mask.captures)};")
            mask = type(mask)(f"m{name}(i, c)")
        if rows.captures:
            self._emit(depth, f"const auto {name} = {function(rows.text, rows.captures)};")
            return Rows(f"{name}(i, c)", rows.kind, (), mask, rows.total, rows.form, rows.origin)
        return Rows(rows.text, rows.kind, (), mask, rows.total, rows.form, rows.origin)

    def store(self, name: str, value: Value, flow: Flow, site: int) -> None:
        """Give a variable its first value."""
        self._store(name, value, flow, 1, site, inner=False)

    def _store(self, name: str, value: Value, flow: Flow, depth: int, site: int, *, inner: bool) -> None:
        match value:
            case Rows():
                if inner and (name in flow.rows or name in self.types or name in self.parameters):
                    raise NotCompiled(f"the variable {name!r} stands for different columns in two branches")
                flow.rows[name] = self._kept_rows(value, f"{variable(name)}{self._number()}", depth)
                flow.assigned.discard(name)
            case Scalar() | Constant():
                if inner and (name in flow.rows or (name in self.parameters and name not in flow.assigned)):
                    raise NotCompiled(f"the variable {name!r} stands for a column and for a value")
                self._emit(depth, self._set(name, scalar(value), site))
                flow.rows.pop(name, None)
                flow.assigned.add(name)
            case _:
                raise NotCompiled("a variable that is no value")

    def _set(self, name: str, value: Scalar, site: int) -> str:
        """The assignment of a value to a variable, whose type it may change."""
        old = self.types.get(name)
        kind = Type(value.type.kind, value.type.origin, value.type.gap)
        new = kind if old is None else joined(old, kind, what=f"the variable {name!r}")
        if new != old:
            self.types[name] = new
            self.changed = True
        text = f"{variable(name)} = {cast(value.text, value.type, new, site)};"
        return f"{text} {variable(name)}set = true;" if name in self.checked else text

    # Branches and loops.

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], flow: Flow, depth: int) -> None:
        self._emit(depth, f"if ({self.condition(test, flow)}) {{")
        then, otherwise = flow.copy(), flow.copy()
        self.block(body, then, depth + 1, inner=True)
        if orelse:
            self._emit(depth, "} else {")
            self.block(orelse, otherwise, depth + 1, inner=True)
        self._emit(depth, "}")
        going = [one for one in (then, otherwise) if not one.ended]
        flow.ended = not going
        if going:
            flow.assigned = set.intersection(*(one.assigned for one in going))

    def _while(self, test: ast.expr, body: Sequence[ast.stmt], flow: Flow, depth: int) -> None:
        self._emit(depth, f"while (c.goes_on() && {self.condition(test, flow)}) {{")
        self._body(body, flow.copy(), depth + 1)
        self._emit(depth, "}")
        endless = isinstance(test, ast.Constant) and bool(test.value)
        if endless and not _leaves(body):
            # Not reached, but for C++ and groups that failed.
            self._emit(depth, "return {};")
            flow.ended = True

    def _body(self, body: Sequence[ast.stmt], flow: Flow, depth: int) -> None:
        self._loops += 1
        if self._loops > MOST_LOOPS:
            raise NotCompiled(f"more than {MOST_LOOPS} loops inside each other")
        self.block(body, flow, depth, inner=True)
        self._loops -= 1

    def _for(
        self, target: ast.expr, over: ast.expr, body: Sequence[ast.stmt], flow: Flow, depth: int, site: int
    ) -> None:
        inside = flow.copy()
        self._emit(depth, "{")
        head, items = self._iterated(over, flow, depth + 1)
        self._emit(depth + 1, head)
        targets = list(target.elts) if isinstance(target, ast.Tuple) else [target]
        if isinstance(target, ast.Tuple) != (len(items) > 1) or len(targets) != len(items):
            raise NotCompiled("a loop whose variables are not as many as its values")
        for one, item in zip(targets, items, strict=True):
            if not isinstance(one, ast.Name):
                raise NotCompiled("an assignment to something else than a variable")
            self._store(one.id, item, inside, depth + 2, site, inner=True)
        self._body(body, inside, depth + 2)
        self._emit(depth + 1, "}")
        self._emit(depth, "}")

    def _iterated(self, over: ast.expr, flow: Flow, depth: int) -> tuple[str, list[Value]]:
        """The beginning of a loop in C++, and the values that each step has."""
        match over:
            case ast.Call(func=ast.Name(id="range" as name), args=args, keywords=[]) if self._is_builtin(name):
                return self._range(args, flow, depth, self.site(over))
            case ast.Call(func=ast.Name(id="enumerate" as name), args=[rows], keywords=[]) if self._is_builtin(name):
                columns, counted = [rows], True
            case ast.Call(func=ast.Name(id="zip" as name), args=[_, _, *_] as columns) if self._is_builtin(name):
                counted = False
            case _:
                columns, counted = [over], False
        return self._rows(columns, flow, depth, counted=counted)

    def _is_builtin(self, name: str) -> bool:
        found = self._names.get(name)
        return isinstance(found, Thing) and found.value in (range, enumerate, zip)

    def _range(self, args: list[ast.expr], flow: Flow, depth: int, site: int) -> tuple[str, list[Value]]:
        if not 1 <= len(args) <= 3:
            raise NotCompiled("range() without one to three arguments")
        numbers = [there(scalar(self.value(arg, flow)), site) for arg in args]
        for one in numbers:
            if one.type.kind != "int":
                raise NotCompiled(f"range() of something that is {one.type}")
        texts = [one.text for one in numbers]
        start, stop = ("0", texts[0]) if len(texts) == 1 else texts[:2]
        step = texts[2] if len(texts) == 3 else "1"
        at = self._number()
        self._emit(depth, f"const i64 from{at} = {start}, step{at} = {step};")
        self._emit(depth, f"const i64 count{at} = range_length(c, {site}, from{at}, {stop}, step{at});")
        head = f"for (i64 j{at} = 0; j{at} < count{at} && c.goes_on(); j{at}++) {{"
        return head, [Scalar(f"(from{at} + j{at} * step{at})", INT)]

    def _rows(self, columns: list[ast.expr], flow: Flow, depth: int, *, counted: bool) -> tuple[str, list[Value]]:
        at = self._number()
        items: list[Value] = []
        masks = set()
        for number, node in enumerate(columns):
            rows = self.value(node, flow)
            if not isinstance(rows, Rows):
                raise NotCompiled("a loop over something else than a column or range()")
            masks.add(rows.mask)
            self._emit(depth, f"const auto e{at}c{number} = {function(rows.text, rows.captures)};")
            text, kind = element(rows, f"e{at}c{number}(i{at}, c)")
            items.append(Scalar(text, kind))
        if len(masks) > 1:
            raise NotCompiled("columns of different rows")
        mask = masks.pop()
        head = f"for (i64 i{at} = 0; i{at} < g.n && c.goes_on(); i{at}++) {{"
        if mask is not None:
            self._emit(depth, f"const auto m{at} = {function(mask.text, mask.captures)};")
            head += f" if (!m{at}(i{at}, c)) continue;"
        if counted:
            if mask is not None:
                raise NotCompiled("enumerate() of chosen rows")
            items.insert(0, Scalar(f"i{at}", INT))
        return head, items


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a `break` of this loop is in its body."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, ast.If) and (_leaves(statement.body) or _leaves(statement.orelse)):
            return True
    return False


def _comment(statement: ast.stmt) -> str:
    line = ast.unparse(statement).splitlines()[0]
    return "".join(letter if letter.isascii() and letter.isprintable() and letter != "\\" else "?" for letter in line)


def _named(statement: ast.stmt) -> str:
    names: dict[type[ast.stmt], str] = {
        ast.For: "'else' of a loop",
        ast.While: "'else' of a loop",
        ast.Try: "try",
        ast.With: "with",
        ast.FunctionDef: "a function inside it",
        ast.Expr: "a statement that makes no value",
        ast.AugAssign: "an assignment to something else than a variable",
    }
    return names.get(type(statement), type(statement).__name__)
