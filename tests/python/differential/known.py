"""Differences of the native dialect from DuckDB's: what random queries leave out there, one by one, and why.

Every entry has an example on which Warpmill and DuckDB differ. Once they agree, the test of this list fails until the
entry is taken out, and from then on random queries make what it names. Through the DuckDB door nothing is left out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Something that the native dialect does not do as DuckDB does it."""

    #: The feature that the generator asks for (`Expressions.makes`).
    name: str
    #: The one at fault, and how.
    reason: str
    sql: str
    setup: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Words of an error by which queries are refused that DuckDB runs: no wrong answer, but none either."""

    #: In any case of letters.
    words: str
    reason: str
    sql: str
    setup: tuple[str, ...] = ()


_T = ("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 1.5), (2, 'b', NULL), (NULL, NULL, 2.5)) v(x, s, d)",)

KNOWN: tuple[Known, ...] = ()

REFUSALS = (
    Refusal(
        "GROUPING SETS in a subquery that names outer columns",
        "the join that a correlated subquery becomes would have to be grouped by its keys, too",
        "SELECT x FROM t WHERE EXISTS (SELECT s FROM t u WHERE u.x = t.x GROUP BY ROLLUP (s))",
        _T,
    ),
    Refusal(
        "Projections require unique expression names",
        "DataFusion projects a column of a DISTINCT subquery twice where IN stands beside a constant NULL",
        "SELECT x FROM t WHERE CAST(NULL AS BOOLEAN) OR x IN (SELECT DISTINCT x AS z FROM t)",
        _T,
    ),
)
