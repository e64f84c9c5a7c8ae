"""Statements of few letters that ask for more memory than there is; the number is how much more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Tables that the statements read, besides those of `bombs`.
ROWS = [
    "DROP TABLE IF EXISTS wide",
    "DROP TABLE IF EXISTS made",
    "CREATE TABLE wide AS SELECT CAST(r AS VARCHAR) AS s, r % 7 AS k FROM range(5001) AS v(r)",
]


def _longest(value: str) -> Callable[[int], str]:
    return lambda n: f"SELECT max(length({value.format(n=n)})) AS x FROM wide"


def _elements(value: str) -> Callable[[int], str]:
    return lambda n: f"SELECT max(cardinality({value.format(n=n)})) AS x FROM wide"


def _doubled(step: str) -> Callable[[int], str]:
    def statement(n: int) -> str:
        inner = "SELECT s FROM wide"
        for _ in range(n.bit_length()):
            inner = f"SELECT {step} AS s FROM ({inner}) AS q"
        return f"SELECT max(length(s)) AS x FROM ({inner}) AS q"

    return statement


# Each kind and its maker.
HOGS: dict[str, Callable[[int], str]] = {
    "hog: repeat": _longest("repeat(s || 'x', {n})"),
    "hog: repeat of a constant": _longest("repeat('abc', {n})"),
    "hog: repeated repeat": _longest("repeat(repeat(s, 2), {n})"),
    "hog: lpad": _longest("lpad(s, {n}, 'x')"),
    "hog: rpad": _longest("rpad(s, {n})"),
    "hog: replace": _longest("replace(repeat('1', 1000), substr(s, 1, 1), repeat('y', {n} // 1000))"),
    "hog: regexp_replace": _longest("regexp_replace(repeat(s, 1000), '.', repeat('y', {n} // 1000), 'g')"),
    "hog: concat": _longest("concat(repeat(s, {n}), repeat(s, {n}))"),
    "hog: ||": _longest("repeat(s, {n} // 100) || repeat(s, {n} // 100)"),
    "hog: doubled ||": _doubled("s || s"),
    "hog: doubled concat": _doubled("concat(s, s)"),
    "hog: doubled concat elsewhere": _doubled("concat(initcap(s), s)"),
    "hog: array_repeat": _elements("array_repeat(s, {n})"),
    "hog: array_resize": _elements("array_resize([1], {n})"),
    "hog: range": _elements("range(0, {n} * 100)"),
    "hog: string_agg": lambda n: f"SELECT length(string_agg(repeat(s, {n} // 1000), ',')) AS x FROM wide",
    "hog: array_agg": lambda n: f"SELECT k, array_agg(repeat(s, {n} // 1000)) AS x FROM wide GROUP BY k",
    "hog: group": lambda n: (
        f"SELECT count(*) FROM (SELECT repeat(s, {n} // 1000) AS r, count(*) FROM wide GROUP BY r) AS q"
    ),
    "hog: distinct": lambda n: f"SELECT count(*) FROM (SELECT DISTINCT repeat(s, {n} // 1000) AS r FROM wide) AS q",
    "hog: order": lambda n: (
        f"SELECT length(r) FROM (SELECT repeat(s, {n} // 1000) AS r FROM wide ORDER BY r LIMIT 4000) AS q"
    ),
    "hog: create table": lambda n: f"CREATE OR REPLACE TABLE made AS SELECT repeat(s, {n} // 1000) AS r FROM wide",
    "hog: upper": lambda n: (
        f"SELECT max(upper(r)) = 'A' AS x FROM (SELECT repeat(s || 'x', {n} // 10000) AS r FROM wide) AS q"
    ),
}
