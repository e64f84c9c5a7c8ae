"""Random functions of two columns, as Python text."""

from __future__ import annotations

import itertools
import linecache
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CONSTANTS = ("0", "1", "2", "3", "-1", "0.5", "2.25", "-7", "10")
_NUMBERS = itertools.count(1)


class Grammar:
    """Functions whose numbers stay small, so that all sums of halves and quarters are exact."""

    def __init__(self, seed: int, *, pandas_alike: bool = True) -> None:
        self._random = random.Random(seed)
        #: Whether numpy and pandas agree: no floor quotients by possible zeros.
        self._pandas_alike = pandas_alike

    def function(self) -> str:
        """The text of a function `f(x, y)`."""
        lines = ["def f(x, y):"]
        names: list[str] = []
        for number in range(self._random.randint(0, 3)):
            lines += self._statement(names, number)
        lines += self._end(names)
        return "\n".join(lines) + "\n"

    def _pick(self, *options: Any) -> Any:
        return self._random.choice(options)

    def _statement(self, names: list[str], number: int) -> list[str]:
        kind = self._random.random()
        if names and kind < 0.25:
            name = self._pick(*names)
            return [f"    {name} {self._pick('+=', '-=', '*=')} {self.scalar(names, 1)}"]
        if names and kind < 0.5:
            name = self._pick(*names)
            lines = [f"    if {self.condition(names, 1)}:", f"        {name} = {self.scalar(names, 1)}"]
            if self._random.random() < 0.4:
                lines += [f"    elif {self.condition(names, 1)}:", f"        {name} += {self.scalar(names, 1)}"]
            if self._random.random() < 0.6:
                lines += ["    else:", f"        {name} = {self.scalar(names, 1)}"]
            return lines
        names.append(f"v{number}")
        return [f"    v{number} = {self.scalar(names[:-1], 2)}"]

    def _end(self, names: list[str]) -> list[str]:
        if self._random.random() < 0.4:
            return [
                f"    if {self.condition(names, 2)}:",
                f"        return {self.scalar(names, 2)}",
                f"    return {self.scalar(names, 2)}",
            ]
        return [f"    return {self.scalar(names, 3)}"]

    def scalar(self, names: list[str], depth: int) -> str:
        """One number for the group."""
        kind = self._random.random()
        if depth == 0 or kind < 0.3:
            if names and self._random.random() < 0.4:
                return str(self._pick(*names))
            return self.reduction() if self._random.random() < 0.8 else str(self._pick(*_CONSTANTS))
        one, other = self.scalar(names, depth - 1), self.scalar(names, depth - 1)
        if kind < 0.65:
            return f"({one} {self._pick('+', '-', '*', '/')} {other})"
        if kind < 0.72:
            divisor = self._pick("2", "3", "5") if self._pandas_alike else self._pick("2", "-3", other, "0")
            return f"({one} {self._pick('//', '%')} {divisor})"
        if kind < 0.78:
            return f"abs({one})"
        if kind < 0.84:
            return f"({one} if {self.condition(names, depth - 1)} else {other})"
        if kind < 0.9:
            return f"{self._pick('min', 'max')}({one}, {other})"
        if kind < 0.94:
            return f"({one}) ** 2"
        if kind < 0.97:
            return f"np.sqrt(abs({one}))"
        return f"(-({one}))"

    def condition(self, names: list[str], depth: int) -> str:
        """A condition on numbers of the group, none of which can be rounded in different ways."""
        kind = self._random.random()
        if depth and kind < 0.25:
            one, other = self.condition(names, depth - 1), self.condition(names, depth - 1)
            return f"({one} {self._pick('and', 'or')} {other})"
        if depth and kind < 0.32:
            return f"(not {self.condition(names, depth - 1)})"
        if kind < 0.4:
            return f"np.isnan({self.exact()})"
        return f"({self.exact()} {self._pick('<', '<=', '>', '>=', '==', '!=')} {self.exact()})"

    def exact(self) -> str:
        """A reduction whose result does not depend on the order of computation."""
        if self._random.random() < 0.25:
            return str(self._pick(*_CONSTANTS))
        return f"{self.rows(1)}.{self._pick('sum', 'min', 'max', 'count', 'mean')}()"

    def reduction(self) -> str:
        """A reduction of a column or of an expression over rows."""
        kind = self._random.random()
        if kind < 0.1:
            return f"len({self._pick('x', 'y')})"
        if kind < 0.2:
            return f"({self.row_condition()}).{self._pick('sum', 'mean')}()"
        if kind < 0.32:
            reduced = self._pick("sum()", "mean()", "max()", "count()", "size")
            return f"{self._pick('x', 'y')}[{self.row_condition()}].{reduced}"
        if kind < 0.36:
            return f"{self._pick('x', 'y')}.nunique()"
        return f"{self.rows(2)}.{self._pick('sum', 'min', 'max', 'count', 'mean', 'var', 'std', 'median')}()"

    def rows(self, depth: int) -> str:
        """A number for each row."""
        kind = self._random.random()
        if depth == 0 or kind < 0.6:
            return str(self._pick("x", "y"))
        if kind < 0.9:
            other = self._pick(*_CONSTANTS[1:]) if kind < 0.7 else self.rows(depth - 1)
            return f"({self.rows(depth - 1)} {self._pick('+', '-', '*')} {other})"
        if kind < 0.95:
            return f"({self.rows(depth - 1)} / {self._pick('2', '4', '-8')})"
        return f"{self._pick('x', 'y')}.abs()"

    def row_condition(self) -> str:
        """A condition on each row."""
        one = f"({self.rows(1)} {self._pick('<', '<=', '>', '>=', '==', '!=')} {self._pick('y', '0', '1', '2.5')})"
        if self._random.random() < 0.2:
            return f"({one} {self._pick('&', '|')} (y > 1))"
        if self._random.random() < 0.1:
            return f"(~{one})"
        return one


def compiled(text: str, name: str = "f") -> Callable[..., Any]:
    """The compiled text as a function, with its source registered as for a notebook cell."""
    import math

    import numpy as np

    filename = f"<random function {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    variables: dict[str, Any] = {"np": np, "math": math}
    exec(compile(text, filename, "exec"), variables)
    found: Callable[..., Any] = variables[name]
    return found
