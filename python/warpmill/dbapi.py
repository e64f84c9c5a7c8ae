"""The calls of Python's database API (PEP 249) on a connection."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from warpmill._warpmill import Error
from warpmill.other_names import OtherNames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas
    import polars
    import pyarrow

    from warpmill.relation import Description, Params, Relation

#: INSERT of parameters only: the text before their list, and the list.
_INSERT = re.compile(
    r"(\s*insert\s+into\s+[^()?;]+(?:\([^()?;]*\))?\s*values\s*)(\(\s*\?\s*(?:,\s*\?\s*)*\))\s*;?\s*", re.IGNORECASE
)

#: Parameters of one INSERT of several rows.
_MOST_PARAMETERS = 2000


class DatabaseCalls(OtherNames):
    """Statements one after the other, and the rows of the last one. `Connection` has the rest."""

    _last: Relation | None

    def sql(self, query: str, params: Params = None) -> Relation:
        """Run one statement and return its rows."""
        raise NotImplementedError

    def execute(self, query: str, params: Params = None) -> Relation:
        """Run a statement as `sql` does; `fetchall` and the like take its rows from the connection, too."""
        self._last = None
        self._last = self.sql(query, params)
        return self._last

    def executemany(self, query: str, rows: Iterable[Sequence[object]]) -> Relation | None:
        """Run a statement once for each sequence of parameters.

        An INSERT of parameters alone (``INSERT INTO t VALUES (?, ?)``) writes many rows at once: where one of them
        cannot be written, others around it are not either. Returns the last result, None where there are no rows.
        """
        insert = _INSERT.fullmatch(query)
        if insert is None:
            for row in rows:
                self.execute(query, row)
        else:
            for part in _alike(rows):
                values = ", ".join([insert[2]] * len(part))
                self.execute(insert[1] + values, [value for row in part for value in row])
        return self._last

    @property
    def in_transaction(self) -> bool:
        """Whether `begin` has begun a transaction that has not ended. All cursors of a connection are in it."""
        raise NotImplementedError

    def begin(self) -> Self:
        """Begin a transaction: nobody else sees what statements change from now on before `commit`."""
        self.execute("BEGIN")
        return self

    def commit(self) -> Self:
        """Keep all that the transaction has changed. Without `begin` each statement is kept already."""
        if self.in_transaction:
            self.execute("COMMIT")
        return self

    def rollback(self) -> Self:
        """Undo all that the transaction has changed. Without `begin` there is nothing to undo: an error."""
        self.execute("ROLLBACK")
        return self

    @property
    def description(self) -> list[Description] | None:
        """The columns of the last statement: name, type, and five times None. None before any."""
        return None if self._last is None else self._last.description

    @property
    def rowcount(self) -> int:
        """-1: the number of rows is not known before they are fetched."""
        return -1

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows of the last `execute` that have not been fetched yet."""
        return self._executed.fetchall()

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next `size` rows of the last `execute`, fewer at the end."""
        return self._executed.fetchmany(size)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row of the last `execute`, None at the end."""
        return self._executed.fetchone()

    def fetchnumpy(self) -> dict[str, Any]:
        """The rows of the last `execute` as NumPy arrays by column."""
        return self._executed.fetchnumpy()

    def df(self) -> pandas.DataFrame:
        """The rows of the last `execute` as a pandas DataFrame."""
        return self._executed.df()

    def arrow(self) -> pyarrow.Table:
        """The rows of the last `execute` as a `pyarrow.Table`."""
        return self._executed.arrow()

    def pl(self) -> polars.DataFrame:
        """The rows of the last `execute` as a Polars DataFrame."""
        return self._executed.pl()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    @property
    def _executed(self) -> Relation:
        if self._last is None:
            raise Error("there are no rows to fetch: execute() has run no statement")
        return self._last


def _alike(rows: Iterable[Sequence[object]]) -> Iterator[list[Sequence[object]]]:
    """Split rows into parts with one type per column: VALUES would convert all values to a common type."""
    part: list[Sequence[object]] = []
    kinds: list[type | None] = []
    for row in rows:
        of_row = [None if value is None else type(value) for value in row]
        fits = len(of_row) == len(kinds) and all(
            known is None or kind is None or known is kind for known, kind in zip(kinds, of_row, strict=True)
        )
        if part and not (fits and (len(part) + 1) * len(row) <= _MOST_PARAMETERS):
            yield part
            part = []
        kinds = of_row if not part else [kind or known for known, kind in zip(kinds, of_row, strict=True)]
        part.append(row)
    if part:
        yield part
