"""The rows of a query, and every way to take them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from warpmill._warpmill import NotSupportedError
from warpmill.lazy import Lazy
from warpmill.other_names import OtherNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pandas
    import polars
    import pyarrow

    from warpmill._warpmill import QueryResult
    from warpmill.connection import Connection
    from warpmill.udf.groupby import GroupBy

    Params = Sequence[object] | Mapping[str, object] | None
    Description = tuple[str, str, None, None, None, None, None]


class Relation(OtherNames, Lazy):
    """The result of a query.

    `Connection.sql` runs its query at once. The relations of a table (`Connection.table`) and of a file
    (`Connection.read_parquet`), and those that are made of others (`filter`, `group_by`), run when rows are asked for.
    Rows are kept in Arrow batches: `arrow`, `pl` and everything that understands ``__arrow_c_stream__`` take
    them without a copy where their types allow it.
    """

    def __init__(
        self,
        connection: Connection,
        sql: str,
        params: Params,
        run: Callable[[], QueryResult],
        shape: QueryResult | None = None,
    ) -> None:
        self._connection = connection
        self._sql = sql
        self._params = params
        self._run = run
        self._finished: QueryResult | None = None
        # A result with the same columns, where that is known before the rows.
        self._described = shape
        self._position = 0
        # Relations whose temporary tables its query reads.
        self._parents: tuple[Relation, ...] = ()
        # The last clause of its query, if another one may follow.
        self._ends_with = ""

    @property
    def _result(self) -> QueryResult:
        if self._finished is None:
            self._finished = self._run()
        return self._finished

    @property
    def query(self) -> str:
        """The SQL text."""
        return self._sql

    @property
    def columns(self) -> list[str]:
        """Column names."""
        return self._shape.columns

    @property
    def types(self) -> list[str]:
        """Column types, in Arrow's words: Int64, Decimal128(15, 2), Utf8, ..."""
        return self._shape.types

    @property
    def _shape(self) -> QueryResult:
        """A result with the columns of this one: no rows are computed for it."""
        if self._finished is not None:
            return self._finished
        if self._described is None:
            self._described = self._connection._run(f"SELECT * FROM ({self._sql}) LIMIT 0", self._params)
        return self._described

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._result.num_rows, len(self._result.columns)

    @property
    def profile(self) -> dict[str, Any]:
        """The way the query ran: times, bytes read, operators, fallbacks. Empty where nothing was measured."""
        text = self._result.profile
        return json.loads(text) if text else {}

    @property
    def description(self) -> list[Description]:
        """The columns as Python's database API has them: name, type, and five times None."""
        columns = zip(self.columns, self.types, strict=True)
        return [(name, kind, None, None, None, None, None) for name, kind in columns]

    @property
    def notices(self) -> list[str]:
        """The parts of the statement that were not done as it said: plain indexes are declared only."""
        return self._result.notices

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that have not been fetched yet."""
        return self.fetchmany(self._result.num_rows)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next `size` rows, fewer at the end."""
        if size < 0:
            raise ValueError(f"fetchmany takes a number of rows, not {size}")
        rows = self._result.rows(self._position, size)
        self._position += len(rows)
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, None at the end."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def arrow(self) -> pyarrow.Table:
        """All rows as a `pyarrow.Table`; UUIDs are texts."""
        import pyarrow

        return pyarrow.table(self._result)

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame, whose columns have the types that DuckDB gives them."""
        from warpmill.numpy_columns import frame

        return frame(self._exact_table())

    def fetchnumpy(self) -> dict[str, Any]:
        """All rows as NumPy arrays by column, masked where there are NULLs."""
        from warpmill.numpy_columns import columns

        return columns(self._exact_table())

    def _exact_table(self) -> pyarrow.Table:
        """All rows, with UUIDs as such, not as texts."""
        import pyarrow

        return pyarrow.table(self._result.with_uuids())

    def pl(self) -> polars.DataFrame:
        """All rows as a Polars DataFrame."""
        import polars

        for name, kind in zip(self.columns, self.types, strict=True):
            # Polars ends in a panic.
            if "Interval(" in kind:
                raise NotSupportedError(f"column {name!r}: Polars has no INTERVAL; cast it to VARCHAR")
        return polars.DataFrame(self._result)

    def exact_rows(self) -> QueryResult:
        """All rows, whose UUIDs and ENUMs stay what they are in tables made of them."""
        return self._result.exact()

    def nullable_rows(self) -> QueryResult:
        """All rows, with columns that may be NULL in a table made of them."""
        return self._result.nullable()

    def write(self, path: str, format: str | None = None) -> None:  # noqa: A002 - the word users expect
        """Write all rows to a file; its name's ending tells the format where `format` does not: csv, json, parquet."""
        self._result.write(format or path.rpartition(".")[2].lower(), path)

    def explain(
        self,
        analyze: bool = False,
        *,
        kernels: bool = False,
        format: str | None = None,  # noqa: A002 - SQL's word
    ) -> str:
        """The plan of the query; with `analyze` the query runs again and the plan shows what it did.

        With `kernels`: the kernels generated for the device. `format` as in `Connection.explain`.
        """
        return self._connection.explain(self._sql, analyze, self._params, kernels=kernels, format=format)

    def show(self, max_rows: int = 40) -> None:
        """Print the first rows as a table."""
        # Here, because it takes as long to import as everything else together.
        from warpmill.display import render

        print(render(self._result, max_rows))

    def groupby(self, keys: str | Sequence[str]) -> GroupBy:
        """The groups of rows that are equal in columns `keys`, to apply functions to."""
        from warpmill.udf.groupby import GroupBy

        return GroupBy(self, [keys] if isinstance(keys, str) else list(keys))

    def _source(self, hidden: str) -> tuple[str, Params, str | None]:
        """The source of these rows in FROM, its parameters, and the table that was registered for it, if any."""
        if self._finished is None:
            return f"({self._sql})", self._params, None
        table = f"{hidden}_rows"
        self._connection._open.register(table, self._finished.exact())
        return f'"{table}"', None, table

    def _as_relation(self) -> Relation:
        return self

    def _from(self, hidden: str) -> tuple[str, str | None]:
        """The source of these rows in FROM, and the table that was registered for it, if any."""
        if self._finished is None and self._params is not None:
            # Parameters refer to positions in their own text.
            _ = self._result
        source, _, table = self._source(hidden)
        return source, table

    def _of(self, query: str, params: Params) -> Relation:
        """Another query of the connection, which runs when its rows are asked for."""
        return Relation(self._connection, query, params, lambda: self._connection._run(query, params))

    def __arrow_c_schema__(self) -> object:
        return self._result.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._result.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while rows := self.fetchmany(1024):
            yield from rows

    def __len__(self) -> int:
        return self._result.num_rows

    def __repr__(self) -> str:
        from warpmill.display import render

        return render(self._result, 20)

    def _repr_html_(self) -> str:
        from warpmill.html import rows

        return rows(self._result, 20)
