"""Random functions of two columns with loops, as Python text."""

from __future__ import annotations

from udf.grammar import Grammar

#: The iterables of loops, and whether their values may be None.
_COLUMNS = (
    ("x", True),
    ("y", True),
    ("x.dropna()", False),
    ("y.dropna()", False),
    ("x.fillna(0.5)", False),
    ("y.fillna(2)", False),
    ("x[y > 1]", True),
    ("(x * 2 - y)", True),
    ("x.to_numpy()", False),
)


class Loops(Grammar):
    """Functions with loops, branches in them, and reductions whose terms use variables."""

    def function(self) -> str:
        """The text of a function `f(x, y)`."""
        lines = ["def f(x, y):", f"    t = {self._pick('0', '0.0', '1', 'x.sum()', 'y.sum()', 'len(x)')}", "    n = 0"]
        names = ["t", "n"]
        if self._random.random() < 0.3:
            lines.append(f"    m = {self._pick('x.mean()', 'y.max()', 'y.min()', 'None', 'y.count()')}")
        if self._random.random() < 0.3:
            lines.append("    last = None")
        for _ in range(self._random.randint(1, 2)):
            lines += self._loop(names, lines, 1)
        if self._random.random() < 0.4:
            lines.append(f"    t {self._pick('+=', '-=', '*=')} {self._centred(names)}")
        lines.append(f"    return {self._number(names, 2)}")
        return "\n".join(lines) + "\n"

    def _indent(self, depth: int, *lines: str) -> list[str]:
        return ["    " * depth + line for line in lines]

    def _has(self, lines: list[str], name: str) -> bool:
        return any(line.startswith(f"    {name} = ") for line in lines)

    def _loop(self, names: list[str], lines: list[str], depth: int) -> list[str]:
        kind = self._random.random()
        body = depth + 1
        if kind < 0.5:
            over, optional = self._pick(*_COLUMNS)
            made = self._indent(depth, f"for v in {over}:")
            if optional:
                made += self._guard(body)
        elif kind < 0.65:
            column = self._pick("x", "y")
            bounds = self._pick("len(x)", "1, len(x)", "len(y) - 1, -1, -1", "0, len(x), 2", "y.count()")
            made = self._indent(depth, f"for i in range({bounds}):", f"    v = {column}[i]") + self._guard(body)
            names = [*names, "i"]
        elif kind < 0.75:
            made = self._indent(depth, f"for i, v in enumerate({self._pick('x', 'y')}):") + self._guard(body)
            names = [*names, "i"]
        elif kind < 0.85:
            made = self._indent(depth, "for v, w in zip(x, y):", "    if v is None or w is None:", "        continue")
            names = [*names, "w"]
        else:
            made = self._indent(depth, f"for v in range({self._pick('4', 'len(x)', '7, 1, -2', 'y.count()')}):")
        names = [*names, "v"]
        for _ in range(self._random.randint(1, 3)):
            made += self._step(names, lines, body)
        if self._random.random() < 0.15:
            made += self._indent(
                body, "k = 3", "while k > 0:", "    k -= 1", f"    t = {self._number([*names, 'k'], 1)} / 4"
            )
        return made

    def _guard(self, depth: int) -> list[str]:
        skip = self._pick("continue", "continue", "break")
        return self._indent(depth, f"if {self._pick('v is None', 'v is None or v != v', 'v is None')}:", f"    {skip}")

    def _step(self, names: list[str], lines: list[str], depth: int) -> list[str]:
        kind = self._random.random()
        if self._has(lines, "last") and kind < 0.4:
            test = self._pick("last is None or v > last", "last is not None and v < last", "last == v", "last is None")
            return self._indent(depth, f"if {test}:", f"    t = {self._number(names, 1)}", "last = v")
        if self._has(lines, "m") and kind < 0.2:
            return self._indent(depth, "if m is not None and v > m:", "    n += 1")
        if kind < 0.45:
            return self._indent(depth, f"t = {self._small(names)}")
        if kind < 0.6:
            return self._indent(depth, f"n += {self._pick('1', '2', 'v > 1', 'len(y)')}")
        if kind < 0.9:
            made = self._indent(depth, f"if {self._test(names)}:", f"    t = {self._small(names)}")
            if self._random.random() < 0.4:
                made += self._indent(depth, f"elif {self._test(names)}:", f"    {self._pick('continue', 'break')}")
            if self._random.random() < 0.4:
                made += self._indent(depth, "else:", f"    n {self._pick('+=', '-=')} 3")
            return made
        return self._indent(depth, f"if {self._test(names)}:", f"    {self._pick('break', 'continue')}")

    def _small(self, names: list[str]) -> str:
        """A number that does not grow from step to step."""
        return f"({self._number(names, 1)} {self._pick('+', '-')} t / {self._pick('2', '4', '-8')})"

    def _number(self, names: list[str], depth: int) -> str:
        kind = self._random.random()
        if depth == 0 or kind < 0.3:
            if self._random.random() < 0.75:
                return str(self._pick(*names))
            return str(self._pick("1", "2", "-3", "0.5", "len(x)", "x.count()", "y.sum()", "x.mean()", "y.max()"))
        one, other = self._number(names, depth - 1), self._number(names, depth - 1)
        if kind < 0.55:
            return f"({one} {self._pick('+', '-', '*')} {other})"
        if kind < 0.65:
            by = self._pick("2", "-4", "2.0") if self._pandas_alike else self._pick("2", "-4", other, "0.5")
            return f"({one} {self._pick('//', '%', '/')} {by})"
        if kind < 0.72:
            return f"{self._pick('min', 'max')}({one}, {other})"
        if kind < 0.78:
            return f"abs({one})"
        if kind < 0.84:
            return f"({one} if {self._test(names)} else {other})"
        if kind < 0.88:
            return f"({one}) ** 2"
        if kind < 0.92:
            return f"{self._pick('math', 'np')}.sqrt(abs({one}))"
        if kind < 0.95:
            return f"{self._pick('float', 'int', 'math.floor')}({one})"
        return f"(-({one}))"

    def _test(self, names: list[str]) -> str:
        kind = self._random.random()
        if kind < 0.2:
            return f"({self._test(names)} {self._pick('and', 'or')} {self._test(names)})"
        if kind < 0.3:
            return f"not {self._pick('v', 'n', 'len(x) > 3', 'x.count()')}"
        if kind < 0.4:
            return f"0 < {self._pick(*names)} <= 3"
        if kind < 0.46:
            return f"{self._pick('v', 'n')} in (1, 2, 0.25)"
        one = self._pick("v", "v", "n", *names)
        return (
            f"{one} {self._pick('<', '<=', '>', '>=', '==', '!=')} {self._pick('0', '1', '2.5', '-1', 'n', 'len(y)')}"
        )

    def _centred(self, names: list[str]) -> str:
        """A reduction whose terms use variables, or results of others."""
        center = self._pick("x.mean()", "n", "y.min()", *names)
        if self._random.random() < 0.2:
            return f"np.where(x > {center}, x, 0.0).{self._pick('sum', 'max', 'mean')}()"
        rows = self._pick(f"(x - {center}) ** 2", f"(y - {center}).abs()", f"x[y > {center}]")
        return f"({rows}).{self._pick('sum', 'max', 'mean', 'count')}()"
